/* Runs that the page computes: sliders of a live network, its data, its flow, and the record that is shown. */
(function (app) {
  "use strict";
  const { unpack } = app.data;
  const AWAKE = 0.05; // part of the largest from which a unit is no longer dormant

  /* Sliders: name, words, and values, or a range. */
  function sliders(live) {
    const exponent = Math.log10(live.scale), least = live.kind === "linear" ? -20 : -60;
    const found = [{ name: "scale", words: "scale", min: Math.min(least, Math.floor(exponent)), max: Math.max(-0.5, Math.ceil(exponent)), step: 0.05, value: exponent, log: true, about: "size of the weights at the start" }];
    if (live.kind === "linear") {
      found.push(choice("seed", "seed of the start", live.seeds, live.seeds[0]));
      found.push(choice("width", "width: units", live.widths, live.width));
    }
    const data = live.data;
    if (data.kind === "regression") {
      found.push({ name: "correlation", words: "correlation of the inputs", min: Math.min(-0.9, data.correlation), max: Math.max(0.9, data.correlation), step: 0.01, value: data.correlation });
      found.push({ name: "noise", words: "noise in the targets", min: 0, max: Math.max(3, data.noise), step: 0.05, value: data.noise });
    }
    if (data.kind === "map") found.push({ name: "decay", words: "decay of the input spectrum", min: Math.min(0, data.decay), max: Math.max(2, data.decay), step: 0.02, value: data.decay });
    if (data.seeds) found.push(choice("data_seed", "draw of the data", data.seeds, data.seeds[0]));
    return found.filter((one) => !one.values || one.values.length > 1);
  }

  function choice(name, words, values, value) {
    return { name, words, values, value: Math.max(0, values.indexOf(value)) };
  }

  function draw(live, chosen) {
    const data = live.data, seed = chosen.data_seed ?? (data.seeds || [0])[0];
    const found = data.draws[data.seeds ? data.seeds.indexOf(seed) : 0];
    if (data.kind === "given") {
      const x = unpack(found.x), y = unpack(found.y);
      return new app.flow.Data(x, y, x.shape[0], x.shape[1], y.shape[1], found.floor);
    }
    return data.kind === "regression" ? regression(found, chosen) : map(found, chosen);
  }

  /* Inputs whose neighbors are correlated, y = x beta + noise e; as samples over the root of their number. */
  function regression(found, chosen) {
    const x = unpack(found.x).slice(), beta = unpack(found.beta), noise = unpack(found.noise);
    const [n, d] = found.x.shape, root = Math.sqrt(n), rho = chosen.correlation;
    const y = new Float64Array(n);
    for (let a = 0; a < n; a++) {
      for (let j = 1; j < d; j++) x[a * d + j] = rho * x[a * d + j - 1] + Math.sqrt(1 - rho * rho) * x[a * d + j];
      let sum = chosen.noise * noise[a];
      for (let j = 0; j < d; j++) sum += x[a * d + j] * beta[j];
      y[a] = sum / root;
      for (let j = 0; j < d; j++) x[a * d + j] /= root;
    }
    return compressed(x, y, n, d);
  }

  /* As many virtual samples as inputs, by Gram and Schmidt: x = q r, and y = q t + what no map explains. */
  function compressed(x, y, n, d) {
    const r = new Float64Array(d * d), t = new Float64Array(d);
    const along = (f, g) => { let sum = 0; for (let a = 0; a < n; a++) sum += f(a) * g(a); return sum; };
    for (let j = 0; j < d; j++) {
      const column = (a) => x[a * d + j], length = Math.sqrt(along(column, column));
      if (length === 0) continue;
      r[j * d + j] = length;
      for (let a = 0; a < n; a++) x[a * d + j] /= length;
      for (let k = j + 1; k < d; k++) {
        const part = along(column, (a) => x[a * d + k]);
        r[j * d + k] = part;
        for (let a = 0; a < n; a++) x[a * d + k] -= part * x[a * d + j];
      }
      t[j] = along(column, (a) => y[a]);
      for (let a = 0; a < n; a++) y[a] -= t[j] * x[a * d + j];
    }
    const lost = along((a) => y[a], (a) => y[a]) / 2;
    return new app.flow.Data(r, t, d, d, 1, lost > 1e-26 * along((j) => t[j] ?? 0, (j) => t[j] ?? 0) ? lost : 0);
  }

  /* y = B x for inputs with eigenvalues k^-decay along given axes: as many virtual samples as axes. */
  function map(found, chosen) {
    const b = unpack(found.map), axes = unpack(found.axes);
    const [c, d] = found.map.shape;
    const x = new Float64Array(d * d), y = new Float64Array(d * c);
    for (let k = 0; k < d; k++) {
      const root = (k + 1) ** (-chosen.decay / 2);
      for (let j = 0; j < d; j++) x[k * d + j] = root * axes[j * d + k];
      for (let o = 0; o < c; o++)
        for (let j = 0; j < d; j++) y[k * c + o] += b[o * d + j] * x[k * d + j];
    }
    return new app.flow.Data(x, y, d, d, c, 0);
  }

  function record(live, chosen) {
    const data = draw(live, chosen), { scale } = chosen;
    const found = live.kind === "diagonal" ? diagonal(live, data, scale) : linear(live, data, scale, chosen);
    const { run, predicted } = found;
    const stages = predicted.stages, low = run.loss.reduce((a, b) => Math.min(a, b));
    const fallen = run.loss.findIndex((value) => value - low <= 1e-3 * (run.loss[0] - low));
    const last = run.time.at(-1);
    const end = Math.min(last, Math.max(1.1 * run.time[fallen], stages.length ? 1.25 * stages.at(-1).time : 0)) || last;
    const seen = app.data.placeBefore(run.time, end) + 1; // most points are taken from what is seen at first
    const keep = [...app.data.thinned(run.time.slice(0, seen), run.loss.slice(0, seen), 525),
      ...(seen < run.time.length ? app.data.thinned(run.time.slice(seen), run.loss.slice(seen), 175).map((k) => seen + k) : [])];
    const time = Float64Array.from(keep, (k) => run.time[k]), loss = Float64Array.from(keep, (k) => run.loss[k]);
    const shown = {
      opened: true, live: true, method: "gradient flow, integrated in this page", time, loss, predicted,
      floor: low, steps: run.steps, all: run, notes: [], end,
      reached: app.data.jumpTimes(run.time, run.loss, predicted),
      panelsAt: (moment) => found.panels(run.states[keep[app.data.nearest(time, moment)]]),
      grown: found.grown(time, keep),
    };
    if (run.stopped) shown.notes.push(`${run.stopped} (time ${app.data.number(last)}).`);
    if (!stages.length) shown.notes.push("No staircase: at this scale units are not small beside what they learn.");
    return shown;
  }

  function diagonal(live, data, scale) {
    const names = live.names, run = app.flow.diagonal(data, scale), logScale = Math.log(scale);
    const beta = new Float64Array(data.d), of = (s) => app.flow.coefficients(s, logScale, beta);
    const most = [0, 0, 0];
    const panels = (s) => {
      data.against(of(s));
      // U(theta_i; r) / |theta_i|^2 = beta_i E[r x_i] / (2 alpha^2 cosh s_i)
      const utility = Float64Array.from(beta, (b, i) => (Math.abs(b) >= AWAKE * most[0] ? NaN : 0.5 * Math.tanh(s[i]) * data.pull[i]));
      return [
        bars("Coefficients u·v", names, Float64Array.from(beta), most[0], "What each unit contributes."),
        bars("Utility of dormant units", names, utility, most[1], "Utility over squared norm; none for units that are active."),
        bars("Residual along each input", names, Float64Array.from(data.pull), most[2], "Mean of residual times input: zero when nothing is left to learn from it."),
      ];
    };
    for (const s of run.states) {
      data.against(of(s));
      most[0] = Math.max(most[0], app.flow.maximum(beta));
      most[2] = Math.max(most[2], app.flow.maximum(data.pull));
    }
    most[1] = most[2] / 2;
    return {
      run, panels, predicted: app.staircase.diagonal(data, scale, names),
      grown: (time, keep) => grown(time, keep.map((k) => Array.from(of(run.states[k]))), names, "coefficient"),
    };
  }

  function linear(live, data, scale, chosen) {
    const width = chosen.width ?? live.width, seed = chosen.seed ?? live.seeds[0];
    const start = live.starts[live.widths.indexOf(width)][live.seeds.indexOf(seed)];
    const mixed = unpack(start.mixed), back = unpack(start.back), size = data.d + data.c;
    const run = app.flow.linear(data, mixed, width, scale);
    const units = (theta) => {
      const found = new Float64Array(width * size);
      for (let k = 0; k < width; k++)
        for (let j = 0; j < width; j++)
          for (let i = 0; i < size; i++) found[k * size + i] += back[k * width + j] * theta[j * size + i];
      return found;
    };
    const product = (theta) => Array.from({ length: data.c }, (_, o) => Array.from({ length: data.d }, (__, j) => {
      let sum = 0;
      for (let k = 0; k < width; k++) sum += theta[k * size + data.d + o] * theta[k * size + j];
      return sum;
    }));
    const values = (theta) => app.staircase.svd(product(theta)).values;
    const last = run.states.at(-1), largest = values(last)[0];
    const named = Array.from({ length: width }, (_, k) => `unit ${k}`);
    data.against(new Float64Array(data.c * data.d));
    const pullMost = app.flow.maximum(data.pull);
    const utilityMost = 0.5 * app.staircase.svd(Array.from({ length: data.c }, (_, o) => Array.from(data.pull.subarray(o * data.d, (o + 1) * data.d)))).values[0];
    const panels = (theta) => {
      data.against(Float64Array.from(product(theta).flat()));
      const { norms, looks } = directions(units(theta), width, size), basis = directions(theta, width, size);
      const utility = basis.norms.map((length, k) => {
        let worth = 0;
        for (let o = 0; o < data.c; o++)
          for (let j = 0; j < data.d; j++) worth += basis.looks[k * size + data.d + o] * data.pull[o * data.d + j] * basis.looks[k * size + j];
        return length ** 2 / 2 >= AWAKE * largest ? NaN : worth;
      });
      const spectrum = values(theta);
      const columns = [...Array.from({ length: data.d }, (_, j) => `input ${j}`), ...Array.from({ length: data.c }, (_, o) => `output ${o}`)];
      return [
        bars("Singular values of the map", spectrum.map((_, k) => `singular value ${k}`), Float64Array.from(spectrum), largest, "Modes that the network holds."),
        bars("Size of the units", named, norms, Math.sqrt(2 * largest), "Norm of all weights."),
        { title: "Direction of each unit", kind: "map", rows: named, columns, values: looks, most: 1, about: "Weights in, then out, over the norm of the unit." },
        bars("Utility of dormant basis vectors", named.map((name) => name.replace("unit", "vector")), utility, utilityMost, "Linear neurons share their modes; turned into a basis, they wake one by one. Utility over squared norm."),
        { title: "Residual along each input", kind: "map", rows: Array.from({ length: data.c }, (_, o) => `output ${o}`), columns: Array.from({ length: data.d }, (_, j) => `input ${j}`), values: Float64Array.from(data.pull), most: pullMost, about: "Mean of residual times input." },
      ];
    };
    return {
      run, panels, predicted: app.staircase.linear(data, mixed, width, scale),
      grown: (time, keep) => {
        const few = keep.filter((_, k) => k % 3 === 0 || k === keep.length - 1);
        const found = grown(few.map((k) => run.time[k]), few.map((k) => values(run.states[k])), values(last).map((_, k) => `singular value ${k}`), "singular value of the map");
        found.at = (moment) => values(run.states[keep[app.data.nearest(time, moment)]]);
        return found;
      },
    };
  }

  /* Norm of each unit, and its weights over it. */
  function directions(theta, width, size) {
    const norms = new Float64Array(width), looks = new Float64Array(width * size);
    for (let k = 0; k < width; k++) {
      const row = theta.subarray(k * size, (k + 1) * size), most = app.flow.maximum(row);
      norms[k] = most > 0 ? most * Math.hypot(...row.map((value) => value / most)) : 0;
      for (let i = 0; i < size; i++) looks[k * size + i] = norms[k] > 0 ? row[i] / norms[k] : 0;
    }
    return { norms, looks };
  }

  function bars(title, rows, values, most, about) {
    return { title, kind: "bars", rows, columns: [""], values, most, about };
  }

  function grown(time, rows, names, label) {
    const values = Float64Array.from(rows.flat());
    values.shape = [rows.length, names.length];
    return { time: Float64Array.from(time), values, names, label, of: names.length };
  }

  app.live = { sliders, record };
})((window.saddlewalk = window.saddlewalk || {}));
