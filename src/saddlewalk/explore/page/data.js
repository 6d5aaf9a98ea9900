/* Data of the page: arrays out of base64, numbers as words, curves thinned and looked up. */
(function (app) {
  "use strict";

  function bytes(text) {
    const raw = atob(text), found = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) found[i] = raw.charCodeAt(i);
    return found.buffer;
  }

  /* A packed array: its numbers, and its shape beside them. */
  function unpack(packed) {
    if (!packed) return null;
    const values = packed.f64 !== undefined ? new Float64Array(bytes(packed.f64)) : new Float32Array(bytes(packed.f32));
    values.shape = packed.shape;
    return values;
  }

  /* A short decimal, as tables of the command line have it; a dash where there is no number. */
  function number(value, digits = 5) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const power = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(Number(value.toPrecision(digits)))));
    const words = power < -4 || power >= Math.max(digits, 5) ? Number(value.toPrecision(digits)).toExponential().replace("e+", "e") : String(Number(value.toPrecision(digits)));
    return words.replaceAll("-", "−");
  }

  /* The last place of a rising array that is not above x. */
  function placeBefore(values, x) {
    let low = 0, high = values.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (values[middle] <= x) low = middle; else high = middle - 1;
    }
    return low;
  }

  function nearest(values, x) {
    const low = placeBefore(values, x), high = Math.min(low + 1, values.length - 1);
    return Math.abs(values[high] - x) < Math.abs(values[low] - x) ? high : low;
  }

  /* Places of so many points, evenly along the curve on linear and log axes. */
  function thinned(time, loss, most) {
    const n = time.length;
    if (n <= most) return Array.from({ length: n }, (_, i) => i);
    const length = new Float64Array(n), low = Math.max(1e-300, loss.reduce((a, b) => Math.min(a, b)));
    for (const values of [time, loss, loss.map((v) => Math.log(Math.max(v, low))), time.map((v) => Math.log(Math.max(v, time[1], 1e-300)))]) {
      let total = 0;
      for (let i = 1; i < n; i++) total += Math.abs(values[i] - values[i - 1]);
      for (let i = 1, sum = 0; i < n && total > 0; i++) { sum += Math.abs(values[i] - values[i - 1]) / total; length[i] += sum; }
    }
    const places = new Set([0]);
    for (let k = 1, i = 0; k < most; k++) {
      while (i < n - 1 && length[i] < (length[n - 1] * k) / (most - 1)) i++;
      places.add(i);
    }
    return [...places.add(n - 1)].sort((a, b) => a - b);
  }

  /* The predicted loss at a time: the level of the staircase. */
  function levelAt(predicted, time) {
    let level = predicted.initial_loss;
    for (const stage of predicted.stages) if (stage.time <= time) level = stage.loss;
    return level;
  }

  /* When a curve passes the middle between each two levels, one after the other; NaN where it does not. */
  function crossings(time, loss, levels) {
    let now = -Infinity;
    return levels.slice(1).map((after, k) => {
      const middle = (levels[k] + after) / 2, i = loss.findIndex((value, j) => value <= middle && time[j] > now);
      if (!(i >= 0) || Number.isNaN(now)) return (now = NaN);
      const part = i && loss[i - 1] > middle ? (loss[i - 1] - middle) / (loss[i - 1] - loss[i]) : 1;
      return (now = i ? time[i - 1] + part * (time[i] - time[i - 1]) : time[0]);
    });
  }

  /* Simulated times of predicted jumps, as `compare` reads them: the curve passes the middle between levels at
     which it really rests, where it is flattest between two jumps; between predicted ones where it does not rest. */
  function jumpTimes(time, loss, predicted) {
    const levels = [predicted.initial_loss, ...predicted.stages.map((stage) => stage.loss)];
    const guess = crossings(time, loss, levels), last = time.length - 1;
    const missed = guess.findIndex(Number.isNaN), reached = missed < 0 ? guess.length : missed;
    const seen = levels.slice(1).map((level, k) => {
      if (k >= reached) return level;
      const from = guess[k], to = k + 1 < reached ? guess[k + 1] : time[last];
      const high = (levels[k] + level) / 2, low = k + 2 < levels.length ? (level + levels[k + 2]) / 2 : -Infinity;
      let best = -1, least = Infinity;
      for (let i = 1; i <= last; i++) {
        if (time[i] < from || time[i] > to || loss[i] > high || loss[i] < low) continue;
        const next = Math.min(i + 1, last), slope = Math.abs((loss[next] - loss[i - 1]) / (time[next] - time[i - 1]));
        if (slope < least) { least = slope; best = i; }
      }
      const first = time.findIndex((t) => t >= from), beyond = placeBefore(time, to);
      return best >= last - 1 || (best > first && best < beyond - 1) ? loss[best] : level;
    });
    return crossings(time, loss, [loss[0], ...seen]);
  }

  /* A run as it lies in the page, with its arrays unpacked; panels are looked up when the cursor comes there. */
  function opened(cell) {
    if (!cell || cell.opened) return cell;
    const record = { ...cell, opened: true, time: unpack(cell.time), loss: unpack(cell.loss) };
    if (cell.predicted && cell.predicted.times) {
      const levels = unpack(cell.predicted.levels);
      const stages = Array.from(unpack(cell.predicted.times), (time, k) => ({ time, loss: levels[k], learned: `jump ${k + 1}` }));
      record.predicted = { ...cell.predicted, stages };
    }
    if (cell.grown) record.grown = { ...cell.grown, time: unpack(cell.grown.time), values: unpack(cell.grown.values) };
    if (cell.panels) {
      record.moments = unpack(cell.moments);
      const panels = cell.panels.map((panel) => {
        const values = unpack(panel.values);
        return { ...panel, values, most: range(panel.kind === "dials" ? [] : values), unsigned: !values.some((value) => value < 0) };
      });
      record.panelsAt = (time) => {
        const k = nearest(record.moments, time);
        return panels.map((panel) => {
          const size = panel.values.shape[1] * panel.values.shape[2];
          return { ...panel, moment: record.moments[k], values: panel.values.subarray(k * size, (k + 1) * size) };
        });
      };
    }
    return record;
  }

  /* The largest size of a number in a panel over the whole run: its scale. */
  function range(values) {
    let most = 0;
    for (const value of values) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
    return most;
  }

  app.data = { unpack, number, placeBefore, nearest, thinned, levelAt, jumpTimes, opened, range };
})((window.saddlewalk = window.saddlewalk || {}));
