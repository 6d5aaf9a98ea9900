/* The two charts along time: the loss with its staircase, and what grows. One cursor for both. */
(function (app) {
  "use strict";
  const { number } = app.data;
  // Okabe and Ito, told apart by the color-blind: all but yellow on white, which is not seen there, and all but
  // black and blue on black; from the fifth line on also by dashes
  const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9"];
  const DARK = ["#56b4e9", "#d55e00", "#f0e442", "#cc79a7", "#ffffff", "#e69f00", "#009e73"];
  const FULL = 4; // lines before dashes begin
  const DASHES = [[7, 4], [2, 3], [12, 3, 2, 3]];
  const night = window.matchMedia("(prefers-color-scheme: dark)");

  const color = (k) => (night.matches ? DARK : LIGHT)[k % LIGHT.length];
  const dash = (k) => (k < FULL ? [] : DASHES[Math.floor((k - FULL) / LIGHT.length) % DASHES.length]);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /* A piece of a line, as the background of what names it. */
  function sample(k) {
    let at = 0;
    const parts = dash(k).map((length, i) => `${i % 2 ? "transparent" : color(k)} ${at}px ${(at += length)}px`);
    return parts.length ? `repeating-linear-gradient(to right, ${parts.join(", ")})` : color(k);
  }

  /* A chart in a place; drawn anew for other data, marked at a time without drawing. */
  function Chart(place, height, onTime) {
    place.classList.add("chart");
    let plot = null, mark = null, dot = null, shown = null, marked = null;

    function draw(data, series, options) {
      if (plot) plot.destroy();
      mark = dot = marked = null;
      shown = { data, options };
      const grid = { stroke: css("--line"), width: 1 };
      const axis = { stroke: css("--soft"), grid, ticks: grid, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" };
      const tall = typeof height === "function" ? height() : height;
      plot = new uPlot({
        width: Math.max(200, place.clientWidth), height: tall, legend: { show: false }, padding: [14, 14, 0, 0],
        cursor: { show: false },
        scales: {
          x: { time: false, distr: options.logTime ? 3 : 1, range: () => options.view },
          y: { distr: options.logLoss ? 3 : 1, range: () => options.reach },
        },
        axes: [
          { ...axis, label: "time (learning rate 1)", labelSize: 20, size: 34, values: ticks(options.logTime) },
          { ...axis, label: options.label, labelSize: 20, size: 56, values: ticks(options.logLoss) },
        ],
        series: [{}, ...series],
        hooks: { drawAxes: options.under ? [options.under] : [], draw: [...(options.over ? [options.over] : []), () => { if (marked) at(...marked); }] },
      }, data, place);
      mark = document.createElement("div");
      mark.className = "time-mark";
      plot.over.append(mark);
      if (options.dot) {
        dot = document.createElement("div");
        dot.className = "dot";
        plot.over.append(dot);
      }
      listen(plot.over);
    }

    function listen(over) {
      const moved = (event) => onTime(plot.posToVal(event.clientX - over.getBoundingClientRect().left, "x"));
      over.addEventListener("pointerdown", (event) => { over.setPointerCapture(event.pointerId); moved(event); });
      over.addEventListener("pointermove", (event) => { if (event.buttons & 1) moved(event); });
    }

    /* Put the cursor at a time, and the dot on a value. */
    function at(time, value) {
      marked = [time, value];
      if (!plot || !mark) return;
      const [low, high] = shown.options.view;
      const inside = time >= low * (1 - 1e-12) && time <= high * (1 + 1e-12);
      mark.style.display = inside ? "" : "none";
      mark.style.left = `${plot.valToPos(Math.max(time, low), "x")}px`;
      if (dot) {
        dot.style.display = inside && Number.isFinite(value) ? "" : "none";
        dot.style.left = mark.style.left;
        const [least, most] = shown.options.reach;
        dot.style.top = `${plot.valToPos(Math.min(Math.max(value, least), most), "y")}px`;
      }
    }

    const resize = () => { if (plot) plot.setSize({ width: Math.max(200, place.clientWidth), height: typeof height === "function" ? height() : height }); };
    const clear = () => { if (plot) plot.destroy(); plot = null; };
    return { draw, at, resize, clear };
  }

  /* On a log axis powers of ten alone are named, where there are several. */
  function ticks(log) {
    return (plot, values) => {
      const decades = values.filter((v) => v > 0 && isDecade(v));
      const sparse = Math.max(1, Math.ceil(decades.length / 8));
      return values.map((v) => {
        if (v === null) return "";
        if (!log) return number(v, 4);
        if (decades.length < 2) return number(v, 2);
        return isDecade(v) && Math.round(Math.log10(v)) % sparse === 0 ? power(v) : "";
      });
    };
  }

  const isDecade = (v) => Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6;

  function power(v) {
    const k = Math.round(Math.log10(v));
    if (k >= -2 && k <= 3) return number(v, 2);
    return "10" + [...String(k)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)])).join("");
  }

  /* Draw inside the axes, with places in pixels of the canvas. */
  function inside(plot, options, body) {
    const { ctx, bbox } = plot, ratio = devicePixelRatio || 1, [low, high] = options.view;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const X = (t) => plot.valToPos(Math.min(Math.max(t, low), high), "x", true);
    const Y = (l) => plot.valToPos(options.logLoss ? Math.max(l, options.reach[0] / 10) : l, "y", true);
    body(ctx, bbox, ratio, X, Y);
    ctx.restore();
  }

  /* The staircase over the loss: dashed levels and jumps. */
  function staircase(record, options) {
    return (plot) => inside(plot, options, (ctx, bbox, ratio, X, Y) => {
      const { predicted } = record;
      if (!predicted) return;
      ctx.strokeStyle = css("--predicted");
      ctx.lineWidth = 2 * ratio;
      ctx.setLineDash([6 * ratio, 4 * ratio]);
      ctx.beginPath();
      ctx.moveTo(X(options.view[0]), Y(predicted.initial_loss));
      let level = predicted.initial_loss;
      for (const stage of predicted.stages) {
        ctx.lineTo(X(stage.time), Y(level));
        ctx.lineTo(X(stage.time), Y(stage.loss));
        level = stage.loss;
      }
      ctx.lineTo(X(options.view[1]), Y(level));
      ctx.stroke();
    });
  }

  /* Names of the jumps under the curve, the large ones first, where there is room. */
  function names(record, options) {
    return (plot) => inside(plot, options, (ctx, bbox, ratio, X, Y) => {
    const stages = record.predicted ? record.predicted.stages : record.observed || [];
    ctx.font = `${11.5 * ratio}px system-ui, sans-serif`;
    ctx.fillStyle = css(record.predicted ? "--predicted" : "--observed");
    ctx.setLineDash([]);
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    const taken = [];
    let level = record.predicted ? record.predicted.initial_loss : record.loss ? record.loss[0] : 0;
    const largest = stages.map((stage) => { const fall = level - stage.loss; const one = { stage, fall, top: level }; level = stage.loss; return one; })
      .filter(({ stage }, k) => k === 0 || stage.learned !== stages[k - 1].learned)
      .filter(({ stage }) => stage.time <= options.view[1] && stage.time >= options.view[0]).sort((a, b) => b.fall - a.fall);
    for (const { stage, top } of largest) {
      const text = stage.learned.length > 26 ? stage.learned.slice(0, 25) + "…" : stage.learned;
      const wide = ctx.measureText(text).width, at = X(stage.time), room = bbox.left + bbox.width - wide;
      const low = Y(stage.loss) - Y(top) < 24 * ratio; // too short a drop to stand beside: above it
      const x = at + 6 * ratio <= room ? at + 6 * ratio : low ? room : at - 6 * ratio - wide; // at the edge: before the jump
      const y = Math.max(Y(top) - (low ? 21 * ratio : 0), bbox.top + 8 * ratio) + 15 * ratio;
      const box = [x, y - 12 * ratio, x + wide, y + 3 * ratio];
      const crossed = taken.some((b) => b[0] < box[2] + 4 && b[2] > box[0] - 4 && b[1] < box[3] && b[3] > box[1]);
      if (crossed || x < bbox.left || stage.learned === "") continue;
      taken.push(box);
      ctx.fillText(text, x, y);
    }
    });
  }

  app.charts = { Chart, color, dash, sample, css, staircase, names, night };
})((window.saddlewalk = window.saddlewalk || {}));
