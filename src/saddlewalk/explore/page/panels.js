/* Panels below the charts: the network at the cursor, as bars, maps or dials, each with words beside it. */
(function (app) {
  "use strict";
  const { number } = app.data;

  function element(kind, attributes = {}, ...children) {
    const found = document.createElement(kind);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "class") found.className = value;
      else if (name.startsWith("on")) found.addEventListener(name.slice(2), value);
      else found.setAttribute(name, value);
    }
    found.append(...children);
    return found;
  }

  /* Cards for panels of a kind; made once for a run, filled at every move of the cursor. */
  function Panels(place) {
    let cards = [], layout = "";
    return {
      show(panels) {
        const wanted = panels.map((p) => [p.title, p.kind, p.rows.length, p.columns.length, ...p.rows].join("|")).join("||");
        if (wanted !== layout) {
          layout = wanted;
          cards = panels.map((panel) => ({ bars: Bars, map: Map_, dials: Dials })[panel.kind](panel));
          place.replaceChildren(...cards.map((card) => card.place));
        }
        panels.forEach((panel, k) => cards[k].fill(panel));
      },
      clear() { layout = ""; cards = []; place.replaceChildren(); },
    };
  }

  function card(panel, ...inside) {
    const words = element("p");
    const place = element("div", { class: "card" }, element("h2", {}, panel.title), ...inside, words);
    return { place, words };
  }

  function Bars(panel) {
    const rows = panel.rows.map((name) => {
      const fill = element("div", { class: "fill" }), value = element("div", { class: "value" });
      return { cells: [element("div", { class: "name", title: name }, name), element("div", { class: "track", "aria-hidden": "true" }, fill), value], fill, value };
    });
    const list = element("div", { class: "bars", role: "group", "aria-label": panel.title, tabindex: rows.length > 12 ? "0" : "-1" }, ...rows.flatMap((row) => row.cells));
    const { place, words } = card(panel, list);
    return {
      place,
      fill(now) {
        words.textContent = now.about;
        let low = 0, high = 0;
        for (const value of now.values) if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
        const most = now.most || 1, both = now.signed ?? low < 0;
        rows.forEach(({ fill, value }, k) => {
          const number_ = now.values[k], part = Number.isFinite(number_) ? Math.min(1, Math.abs(number_) / most) : 0;
          fill.style.width = `${part * (both ? 50 : 100)}%`;
          fill.style.left = both ? (number_ < 0 ? `${50 - part * 50}%` : "50%") : "0";
          fill.classList.toggle("minus", number_ < 0);
          value.textContent = Number.isFinite(number_) ? number(number_, 4) : "active";
          value.classList.toggle("none", !Number.isFinite(number_));
        });
      },
    };
  }

  /* From one side through the ground to the other: blue for plus, orange for minus. */
  function shade(value, most) {
    const part = most > 0 ? Math.max(-1, Math.min(1, value / most)) : 0;
    const ground = app.charts.night.matches ? [34, 39, 47] : [246, 246, 244];
    const side = part >= 0 ? (app.charts.night.matches ? [86, 180, 233] : [0, 94, 158]) : (app.charts.night.matches ? [240, 150, 70] : [200, 80, 0]);
    const amount = Math.abs(part) ** 0.8;
    return `rgb(${ground.map((g, k) => Math.round(g + amount * (side[k] - g))).join(",")})`;
  }

  function sized(canvas, height) {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth || 280;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    return { context, width };
  }

  function Map_(panel, onCell) {
    const canvas = element("canvas", { class: "picture", role: "img" });
    const said = element("output"), least = element("span"), most = element("span"), ramp = element("i");
    const { place, words } = card(panel, canvas, element("div", { class: "key" }, least, ramp, most, said));
    const left = Math.min(104, 14 + 6.2 * Math.max(...panel.rows.map((name) => name.length)));
    let now = panel, geometry = null;
    const cellAt = (event) => {
      if (!geometry) return null;
      const box = canvas.getBoundingClientRect();
      const j = Math.floor((event.clientX - box.left - left) / geometry.wide), i = Math.floor((event.clientY - box.top) / geometry.tall);
      return i >= 0 && i < now.rows.length && j >= 0 && j < now.columns.length ? [i, j] : null;
    };
    canvas.addEventListener("pointermove", (event) => {
      const cell = cellAt(event);
      said.textContent = cell ? `${now.rows[cell[0]]}, ${now.columns[cell[1]]}: ${number(now.values[cell[0] * now.columns.length + cell[1]], 4)}` : "";
    });
    canvas.addEventListener("pointerleave", () => { said.textContent = ""; });
    if (onCell) canvas.addEventListener("click", (event) => { const cell = cellAt(event); if (cell) onCell(cell); });
    return {
      place,
      fill(given) {
        now = given;
        words.textContent = now.about;
        const columns = now.columns.length, tall = Math.max(7, Math.min(24, 300 / now.rows.length));
        const { context, width } = sized(canvas, tall * now.rows.length + 20);
        const wide = (width - left) / columns, top = now.most || 1;
        geometry = { wide, tall };
        context.font = "11px system-ui, sans-serif";
        context.textBaseline = "middle";
        for (let i = 0; i < now.rows.length; i++) {
          for (let j = 0; j < columns; j++) {
            const value = now.values[i * columns + j];
            context.fillStyle = Number.isFinite(value) ? shade(value, top) : "rgba(128,128,128,.25)";
            context.fillRect(left + j * wide, i * tall, Math.max(1, wide - (wide > 6 ? 1 : 0)), Math.max(1, tall - (tall > 6 ? 1 : 0)));
          }
          if (tall >= 11 || i % Math.ceil(11 / tall) === 0) {
            context.fillStyle = app.charts.css("--soft");
            context.fillText(now.rows[i].length > 16 ? now.rows[i].slice(0, 15) + "…" : now.rows[i], 0, (i + 0.5) * tall);
          }
        }
        if (now.here) {
          context.strokeStyle = app.charts.css("--ink");
          context.lineWidth = 2;
          context.strokeRect(left + now.here[1] * wide, now.here[0] * tall, wide, tall);
        }
        columnNames(context, now.columns, left, wide, tall * now.rows.length + 11, width);
        least.textContent = now.unsigned ? "0" : number(-top, 3);
        most.textContent = number(top, 3);
        ramp.style.background = `linear-gradient(90deg, ${(now.unsigned ? [0, 0.25, 0.5, 0.75, 1] : [-1, -0.5, 0, 0.5, 1]).map((part) => shade(part, 1)).join(",")})`;
        canvas.setAttribute("aria-label", inWords(now));
      },
    };
  }

  function columnNames(context, columns, left, wide, y, width) {
    context.fillStyle = app.charts.css("--soft");
    let free = left;
    columns.forEach((name, j) => {
      const text = columns.length > 6 ? name.replace(/^(frequency|input|in|coordinate) /, "") : name;
      const length = context.measureText(text).width, x = left + (j + 0.5) * wide - length / 2;
      if (x < free || x + length > width) return;
      context.fillText(text, x, y);
      free = x + length + 8;
    });
  }

  /* The text alternative of a map: where each row is largest. */
  function inWords(panel) {
    const columns = panel.columns.length;
    const lines = panel.rows.slice(0, 40).map((name, i) => {
      let best = 0;
      for (let j = 1; j < columns; j++)
        if (!(Math.abs(panel.values[i * columns + j]) <= Math.abs(panel.values[i * columns + best]))) best = j;
      return `${name}: largest at ${panel.columns[best]}, ${number(panel.values[i * columns + best], 3)}`;
    });
    return `${panel.title}. ${lines.join("; ")}.`;
  }

  /* A clock for each unit: hands at the phases of its vectors, and the frequency below. */
  function Dials(panel) {
    const canvas = element("canvas", { class: "picture", role: "img" });
    const hands = panel.columns.slice(0, -1);
    const key = element("div", { class: "key" }, ...hands.map((name, k) => {
      const one = element("span", {}, name);
      one.style.color = app.charts.color(k);
      one.style.fontWeight = "650";
      return one;
    }));
    const { place, words } = card(panel, canvas, key);
    return {
      place,
      fill(now) {
        words.textContent = now.about;
        const width = canvas.clientWidth || 280, across = Math.max(3, Math.min(now.rows.length, Math.floor(width / 58)));
        const step = width / across, radius = Math.min(24, step / 2 - 5), tall = 2 * radius + 22;
        const { context } = sized(canvas, Math.ceil(now.rows.length / across) * tall);
        context.font = "11px system-ui, sans-serif";
        context.textAlign = "center";
        const said = [];
        now.rows.forEach((name, i) => {
          const values = now.values.subarray(i * now.columns.length, (i + 1) * now.columns.length);
          const x = (i % across) * step + step / 2, y = Math.floor(i / across) * tall + radius + 3;
          context.strokeStyle = app.charts.css("--line");
          context.lineWidth = 1;
          context.beginPath();
          context.arc(x, y, radius, 0, 2 * Math.PI);
          context.stroke();
          hands.forEach((_, k) => {
            context.strokeStyle = app.charts.color(k);
            context.lineWidth = 2;
            context.beginPath();
            context.moveTo(x, y);
            context.lineTo(x + radius * Math.cos(values[k]), y - radius * Math.sin(values[k]));
            context.stroke();
          });
          context.fillStyle = app.charts.css("--soft");
          context.fillText(`${name.replace("unit ", "")}: k=${values[hands.length]}`, x, y + radius + 12);
          said.push(`${name}: frequency ${values[hands.length]}, ${hands.map((hand, k) => `${hand} ${number(values[k], 3)}`).join(", ")}`);
        });
        canvas.setAttribute("aria-label", `${now.title}. ${said.join("; ")}.`);
      },
    };
  }

  app.panels = { Panels, Map: Map_, element };
})((window.saddlewalk = window.saddlewalk || {}));
