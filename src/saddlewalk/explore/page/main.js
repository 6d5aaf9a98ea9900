/* The page: which network, where the sliders stand, where the cursor is; everything else follows from these. */
(function (app) {
  "use strict";
  const { number, nearest, opened, levelAt } = app.data;
  const { element } = app.panels;
  const place = (id) => document.getElementById(id);
  const DATA = JSON.parse(place("data").textContent);
  const WIDE = 60; // a run so many times longer than its first plateau is shown on a log axis
  const FEW = 80;
  const NOTABLE = 0.01; // part of a jump's time by which the limit may be wrong without a word
  const WORDS = { data_seed: "draw of the data", seed: "seed of the start", width: "width: units" };

  const state = { network: 0, record: null, view: [0, 1], points: [], cursor: 0, playing: 0 };
  const chosen = DATA.networks.map((network) => (network.live ? app.live.sliders(network.live) : axesOf(network)));
  const panels = app.panels.Panels(place("panels"));
  const loss = app.charts.Chart(place("loss"), () => Math.max(230, Math.min((innerWidth > 820 ? 0.42 : 0.33) * innerHeight, 480)), cursorTo);
  const growth = app.charts.Chart(place("growth"), () => Math.max(170, Math.min(0.24 * innerHeight, 300)), cursorTo);
  let learnedRows = [];

  // --- networks and sliders ---------------------------------------------------------------------------------

  function axesOf(network) {
    return network.axes.map((axis) => ({
      name: axis.name, words: WORDS[axis.name] || axis.name.replaceAll("_", " "), values: axis.values,
      value: axis.start ?? 0, about: axis.about || "", columns: axis.columns,
    }));
  }

  function showNetworks() {
    const buttons = DATA.networks.map((network, k) =>
      element("button", { type: "button", role: "radio", title: network.name, onclick: () => { open(k); buttons[k].focus(); }, onkeydown: (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (!step) return;
        event.preventDefault();
        const to = (k + step + buttons.length) % buttons.length;
        open(to);
        buttons[to].focus();
      } }, network.name));
    place("networks").replaceChildren(...(buttons.length > 1 ? buttons : []));
  }

  function open(k) {
    state.network = k;
    [...place("networks").children].forEach((button, j) => {
      button.setAttribute("aria-checked", String(j === k));
      button.tabIndex = j === k ? 0 : -1;
    });
    place("about").textContent = DATA.networks[k].about || "";
    place("sliders").replaceChildren(...chosen[k].filter((one) => !one.values || one.values.length > 1).map(slider));
    panels.clear();
    state.cursor = null;
    state.record = current() || {};
    const { predicted, observed, end } = state.record, stages = predicted ? predicted.stages : observed || [];
    place("log-time").checked = stages.length > 0 && end > WIDE * stages[0].time && stages[0].time > 0;
    update(state.record);
  }

  function slider(one) {
    const id = `slider-${one.name}`;
    const limits = one.values ? { min: 0, max: one.values.length - 1, step: 1 } : { min: one.min, max: one.max, step: one.step };
    const input = element("input", { type: "range", id, ...limits, "data-name": one.name });
    const output = element("output", { for: id });
    const said = () => { output.textContent = shown(one); input.setAttribute("aria-valuetext", `${one.words} ${shown(one)}`); };
    input.value = one.value;
    said();
    let waiting = 0;
    input.addEventListener("input", () => {
      one.value = Number(input.value);
      said();
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(() => update());
    });
    return element("div", { class: "slider" }, element("label", { for: id }, one.words), output, input, ...(one.about ? [element("small", {}, one.about)] : []));
  }

  const valueOf = (one) => (one.values ? one.values[one.value] : one.log ? Number((10 ** one.value).toPrecision(4)) : one.value);

  function shown(one) {
    if (one.log) return power(one.value);
    const value = valueOf(one);
    return typeof value === "number" ? number(value, 4) : String(value);
  }

  function power(exponent) {
    const whole = Math.floor(exponent + 1e-9), front = 10 ** (exponent - whole);
    return `${number(front, 2)}e${String(whole).replace("-", "−")}`;
  }

  // --- the run that is shown --------------------------------------------------------------------------------

  function current() {
    const network = DATA.networks[state.network], sliders = chosen[state.network];
    if (network.live) {
      const values = Object.fromEntries(sliders.map((one) => [one.name, valueOf(one)]));
      return app.live.record(network.live, { correlation: 0, noise: 0, decay: 1, ...values });
    }
    const place_ = placeOf(network);
    if (!network.cells.length) return { opened: true };
    return (network.cells[place_] = opened(network.cells[place_]));
  }

  function placeOf(network) {
    return network.axes.reduce((sum, axis, k) => sum * axis.values.length + chosen[state.network][k].value, 0);
  }

  function update(made) {
    const network = DATA.networks[state.network];
    const last = state.record;
    const before = last && last.time && state.cursor !== null ? last.time[state.cursor] / last.end : 0.5;
    const record = (state.record = made || current() || {});
    const problems = [...(network.notes || []), ...(record.notes || [])];
    if (record.error) problems.push(`This run could not be made: ${record.error}`);
    place("notes").replaceChildren(...problems.map((words) => element("p", {}, ...words.split("`").map((part, k) => (k % 2 ? element("code", {}, part) : part)))));
    place("command").textContent = commandLine(network);
    place("command-words").textContent = !network.options ? "The command that made this run" : network.live ? "This network on the command line, its jumps predicted at this very scale" : "The same on the command line";
    place("command-line").hidden = !network.command;
    const curve = Boolean(record.time && record.time.length), stairs = record.predicted;
    place("charts").hidden = !curve && !stairs;
    document.querySelectorAll(".time-line, #cursor").forEach((one) => { one.hidden = !curve; });
    if (curve || stairs) drawCharts();
    showStages(); // before the cursor moves: it marks the stage that it stands in
    if (curve) {
      moveTo(nearest(record.time, before * record.end));
    } else {
      panels.clear();
      place("readout").textContent = "";
    }
    showMeasured(network);
  }

  /* The options of the network, each once, as the sliders have them. */
  function commandLine(network) {
    const options = { ...network.options };
    for (const one of chosen[state.network])
      for (const [name, value] of one.columns ? Object.entries(one.columns).map(([column, values]) => [column, values[one.value]]) : [[one.name, valueOf(one)]])
        options[name] = value;
    return [network.command, ...Object.entries(options).flatMap(([name, value]) => flag(name, value))].join(" ");
  }

  function flag(name, value) {
    if (value === false || value === null || value === undefined) return [];
    const words = `--${name.replaceAll("_", "-")}`, small = typeof value === "number" && value && Math.abs(value) < 1e-3, text = small ? value.toExponential() : String(value);
    if (value === true) return [words];
    return [words, /^[\w.,:/+=@%-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`];
  }

  // --- charts -----------------------------------------------------------------------------------------------

  function drawCharts() {
    const record = state.record, logTime = place("log-time").checked, logLoss = place("log-loss").checked;
    const whole = place("whole").checked;
    const last = record.time ? record.time.at(-1) : record.end;
    const first = record.time ? record.time.find((t) => t > 0) : 0;
    const end = whole ? last : record.end;
    const low = logTime ? Math.max(first || 0, 1e-4 * end) : 0;
    const view = (state.view = [low, end > low ? end : low + 1]);
    const levels = [...(record.loss || []), ...(record.predicted ? [record.predicted.initial_loss] : [])].filter(Number.isFinite);
    const top = Math.max(...levels), seen = levels.filter((v) => v > 1e-12 * top);
    const reach = logLoss ? [Math.max(Math.min(...seen), 1e-10 * top) / 2, top * 2] : [0, top * 1.06];
    const options = { view, reach, logTime, logLoss, label: "loss", dot: true };
    options.over = app.charts.staircase(record, options);
    options.under = app.charts.names(record, options);
    const time = record.time || Float64Array.of(low, end), values = record.loss || Float64Array.of(NaN, NaN);
    const from = logTime ? Math.max(0, time.findIndex((t) => t > 0)) : 0;
    const cut = (array, on) => Array.from(array.subarray(from), (v) => (Number.isFinite(v) && !(on && v <= 0) ? v : null));
    loss.draw([Array.from(time.subarray(from)), cut(values, logLoss)], [{ stroke: app.charts.css("--observed"), width: 2.4, points: { show: false } }], options);
    place("loss").setAttribute("aria-label", lossInWords(record));
    drawGrowth(logTime, view);
  }

  function drawGrowth(logTime, view) {
    const { grown } = state.record;
    place("growth-figure").hidden = !grown;
    if (!grown) return growth.clear();
    const many = grown.names.length, moments = grown.time.length;
    place("growth-title").textContent = `What grows: ${grown.label}` + (many < grown.of ? ` (the ${many} largest of ${grown.of})` : "");
    const from = logTime ? Math.max(0, grown.time.findIndex((t) => t > 0)) : 0;
    const columns = grown.names.map((_, k) => Array.from({ length: moments - from }, (__, i) => finite(grown.values[(from + i) * many + k])));
    let low = 0, high = 0;
    for (const value of grown.values) if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
    const room = 0.06 * (high - low || 1);
    const known = grown.time.filter((t) => t >= view[0] && t <= view[1]).length < FEW; // what is between is not known
    growth.draw([Array.from(grown.time.subarray(from)), ...columns], grown.names.map((_, k) => ({ stroke: app.charts.color(k), dash: app.charts.dash(k), width: 1.8, points: { show: known, size: 5 } })),
      { view, reach: [low < 0 ? low - room : 0, high + room], logTime, label: grown.label.length > 24 ? "value" : grown.label });
    learnedRows = grown.names.map((name, k) => {
      const line = element("i"), value = element("b");
      line.style.background = app.charts.sample(k);
      return { value, place: element("li", { title: name }, line, element("span", {}, name), value) };
    });
    place("learned").replaceChildren(...learnedRows.map((row) => row.place));
    place("growth").setAttribute("aria-label", `${grown.label} of ${grown.names.join(", ")} along time; the values at the cursor are in the list beside.`);
  }

  const finite = (value) => (Number.isFinite(value) ? value : null);

  function lossInWords(record) {
    const said = [];
    if (record.time) said.push(`Loss from ${number(record.loss[0])} at time 0 to ${number(record.loss.at(-1))} at time ${number(record.time.at(-1))}.`);
    if (record.predicted) said.push(`Predicted jumps: ${record.predicted.stages.map((s) => `at ${number(s.time, 4)} to ${number(s.loss, 4)}, ${s.learned}`).join("; ") || "none"}.`);
    return said.join(" ");
  }

  // --- the cursor -------------------------------------------------------------------------------------------

  function cursorTo(time) {
    if (state.record.time) moveTo(nearest(state.record.time, time));
  }

  function moveTo(k) {
    const record = state.record;
    if (!record.time) return;
    state.cursor = Math.max(0, Math.min(record.time.length - 1, k));
    const time = record.time[state.cursor], value = record.loss[state.cursor];
    loss.at(time, value);
    growth.at(time);
    const input = place("cursor");
    input.value = partOf(time);
    input.setAttribute("aria-valuetext", `time ${number(time)}, loss ${number(value)}`);
    showReadout(time, value);
    const shown_ = record.panelsAt ? record.panelsAt(time) : [];
    if (shown_.length) panels.show(shown_); else panels.clear();
    const kept = shown_.length ? shown_[0].moment ?? time : keptOf(record.grown, time);
    showLearned(kept); // the same moment as the pictures
    place("moment").textContent = number(kept) === number(time) ? "" : `The list${shown_.length ? " and the pictures below are" : " is"} of time ${number(kept)}, the nearest moment that was kept.`;
    markStage(time);
  }

  /* Where the time slider stands at a time, from 0 to 1 over what the charts show, and back. */
  function partOf(time) {
    const [low, high] = state.view;
    return place("log-time").checked && low > 0 ? Math.log(Math.max(time, low) / low) / Math.log(high / low) : (time - low) / (high - low);
  }

  function timeAt(part) {
    const [low, high] = state.view;
    return place("log-time").checked && low > 0 ? low * (high / low) ** part : low + part * (high - low);
  }

  const keptOf = (grown, time) => (grown && !grown.at ? grown.time[nearest(grown.time, time)] : time);

  function showReadout(time, value) {
    const { predicted } = state.record;
    const parts = [["time", "time", number(time)], ["observed", "loss", number(value)]];
    if (predicted) {
      const done = predicted.stages.filter((stage) => stage.time <= time).length;
      parts.push(["predicted", "predicted", number(levelAt(predicted, time))], ["stage", "jumps", `${done} of ${predicted.stages.length}`]);
    }
    place("readout").replaceChildren(...parts.map(([kind, words, text]) => element("span", { class: kind }, `${words} `, element("b", {}, text))));
  }

  function showLearned(time) {
    const { grown } = state.record;
    if (!grown) return;
    const many = grown.names.length, k = nearest(grown.time, time);
    const now = grown.at ? grown.at(time) : grown.values.subarray(k * many, (k + 1) * many);
    learnedRows.forEach((row, j) => { row.value.textContent = number(now[j], 4); });
  }

  function jump(step) {
    const { predicted, observed, time } = state.record;
    const times = (predicted ? predicted.stages : observed || []).map((stage) => stage.time);
    const here = time[state.cursor], room = 1e-9 * time.at(-1);
    const next = step > 0 ? times.find((t) => nearest(time, t) > state.cursor) : times.filter((t) => nearest(time, t) < state.cursor && t < here + room).at(-1);
    if (next !== undefined) moveTo(nearest(time, next));
  }

  function play() {
    if (state.playing) { clearInterval(state.playing); state.playing = 0; }
    else {
      if (state.record.time[state.cursor] >= state.view[1]) moveTo(0);
      state.playing = setInterval(() => {
        const { time } = state.record, wanted = time[state.cursor] + (state.view[1] - state.view[0]) / 240;
        if (wanted > state.view[1] || state.cursor >= time.length - 1) return play();
        moveTo(Math.max(state.cursor + 1, nearest(time, wanted)));
      }, 33);
    }
    place("play").textContent = state.playing ? "❚❚" : "▶";
    place("play").setAttribute("aria-label", state.playing ? "Pause" : "Play");
  }

  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !state.record.time || place("charts").hidden) return;
    const inside = event.target.closest("input:not(#cursor), select, button, summary");
    const large = { PageUp: 20, PageDown: -20, ArrowUp: 1, ArrowDown: -1 }[event.key], step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "[" || event.key === "]") jump(event.key === "]" ? 1 : -1);
    else if (inside) return;
    else if (step) moveTo(state.cursor + step);
    else if (large && event.target.id === "cursor") moveTo(state.cursor + large);
    else if (event.key === "Home" && event.target.id === "cursor") moveTo(0);
    else if (event.key === "End" && event.target.id === "cursor") moveTo(Infinity);
    else if (event.key === " ") play();
    else return;
    event.preventDefault();
  }

  // --- tables -----------------------------------------------------------------------------------------------

  function showStages() {
    const { predicted, observed, reached } = state.record;
    const stages = predicted ? predicted.stages : observed;
    if (!stages || !stages.length) return place("stages").replaceChildren();
    const heads = predicted && reached ? ["", "predicted", "simulated", "loss after", "learned"] : ["", "time", "loss after", "learned"];
    const rows = stages.map((stage, k) => element("tr", { "data-time": stage.time }, ...[
      String(k + 1), number(stage.time), ...(heads.length === 5 ? [number(reached[k])] : []), number(stage.loss), stage.learned,
    ].map((words) => element("td", {}, words))));
    const how = predicted ? `Jumps, as predicted (${predicted.method})` : "Jumps, as simulated";
    place("stages").replaceChildren(element("h2", {}, how), element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": how },
      element("table", {}, element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))), element("tbody", {}, ...rows))), ...apart(state.record));
  }

  /* What the prediction of a live page is worth here, where that shows. */
  function apart({ live, predicted, reached }) {
    const off = live ? Math.max(...predicted.stages.map((stage, k) => Math.abs(stage.time - reached[k]) / reached[k]).filter(Number.isFinite)) : 0;
    if (!(off > NOTABLE)) return [];
    return [element("p", {}, `Predicted is the limit of small scales: at this scale jumps come up to ${number(100 * off, 2)}% earlier or later. The command on this page predicts at this very scale, and may find other jumps.`)];
  }

  function markStage(time) {
    let last = null;
    for (const row of place("stages").querySelectorAll("tbody tr")) {
      row.classList.remove("now");
      if (Number(row.dataset.time) <= time) last = row;
    }
    if (last) last.classList.add("now");
  }

  /* What a sweep measured: the numbers of the cell, and one of them over two axes. */
  function showMeasured(network) {
    const measured = network.measured;
    if (!measured) return place("measured").replaceChildren();
    measured.opened ??= app.data.unpack(measured.values);
    state.shown ??= {};
    const variable = state.shown[state.network] ?? 0, names = measured.names, cell = placeOf(network);
    const rows = names.map((name, k) => element("tr", {}, element("td", {}, name), element("td", {}, number(measured.opened[cell * names.length + k]))));
    const failed = measured.errors && measured.errors[cell];
    const table = element("div", { class: "card" }, element("h2", {}, "Measured in this cell"), ...(failed ? [element("p", { class: "problem" }, failed)] : []),
      element("table", { class: "numbers" }, element("tbody", {}, ...rows)));
    place("measured").replaceChildren(table, ...(names.length ? [overview(network, variable)] : []));
  }

  function overview(network, variable) {
    const axes = network.axes, sliders = chosen[state.network], names = network.measured.names, values = network.measured.opened;
    const long = axes.map((axis, k) => k).filter((k) => axes[k].values.length > 1);
    const [across, up] = long.length > 1 ? [long[0], long[1]] : [long[0] ?? 0, null];
    const at = (j, i) => {
      const cell = axes.reduce((sum, axis, k) => sum * axis.values.length + (k === across ? j : k === up ? i : sliders[k].value), 0);
      return values[cell * names.length + variable];
    };
    const label = (k) => axes[k].values.map((value) => (typeof value === "number" ? number(value, 3) : String(value)));
    const columns = label(across), rows = up === null ? [names[variable]] : label(up);
    const grid = Float64Array.from(rows.flatMap((_, i) => columns.map((__, j) => at(j, i))));
    const select = element("select", { "aria-label": "Measured number", onchange: (event) => { state.shown[state.network] = Number(event.target.value); showMeasured(network); } },
      ...names.map((name, k) => { const one = element("option", { value: k }, name); one.selected = k === variable; return one; }));
    const panel = { title: `Over the sweep: ${axes[across].name} to the right${up === null ? "" : `, ${axes[up].name} down`}`, rows, columns, values: grid, most: app.data.range(grid), unsigned: !grid.some((v) => v < 0), here: [up === null ? 0 : sliders[up].value, sliders[across].value], about: "Click a cell to go there." };
    const map = app.panels.Map(panel, ([i, j]) => {
      sliders[across].value = j;
      if (up !== null) sliders[up].value = i;
      place("sliders").replaceChildren(...sliders.filter((one) => one.values.length > 1).map(slider));
      update();
    });
    map.place.prepend(select);
    requestAnimationFrame(() => map.fill(panel));
    return map.place;
  }

  // --- begin ------------------------------------------------------------------------------------------------

  place("version").textContent = DATA.version;
  for (const id of ["log-time", "log-loss", "whole"]) place(id).addEventListener("change", () => { drawCharts(); if (state.cursor !== null) moveTo(state.cursor); });
  place("cursor").addEventListener("input", (event) => cursorTo(timeAt(Number(event.target.value))));
  place("play").addEventListener("click", play);
  document.addEventListener("keydown", keys);
  const again = () => { if (!place("charts").hidden) { drawCharts(); moveTo(state.cursor ?? 0); } };
  app.charts.night.addEventListener("change", () => update());
  let wide = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== wide) { wide = innerWidth; again(); } });
  showNetworks();
  open(0);
  app.state = state;
  app.data_ = DATA;
  app.moveTo = moveTo;
  app.open = open;
})((window.saddlewalk = window.saddlewalk || {}));
