/* Predicted staircases of diagonal and linear networks, without integrating anything.

   Between two jumps nothing active moves, so dormant units climb at constant rates. A jump is a logistic curve:
   it takes as much from the others as a sharp switch at the moment at which free growth would reach the new
   value, and the loss passes the middle of its fall log(1 + sqrt 2) / rate earlier. */
(function (app) {
  "use strict";
  const EARLIER = Math.log(1 + Math.SQRT2);
  const NOTHING = 1e-9;

  /* Solve a symmetric positive system by Gauss elimination with pivots; singular directions are left at zero. */
  function solve(matrix, right) {
    const n = right.length, a = matrix.map((row, i) => [...row, right[i]]);
    const top = Math.max(...a.map((row) => Math.max(...row.slice(0, n).map(Math.abs))));
    const pivots = [];
    for (let col = 0; col < n; col++) {
      let best = -1;
      for (let i = 0; i < n; i++)
        if (!pivots.includes(i) && (best < 0 || Math.abs(a[i][col]) > Math.abs(a[best][col]))) best = i;
      if (best < 0 || Math.abs(a[best][col]) < 1e-13 * top) { pivots.push(-1); continue; }
      pivots.push(best);
      for (let i = 0; i < n; i++) {
        if (i === best) continue;
        const factor = a[i][col] / a[best][col];
        for (let j = col; j <= n; j++) a[i][j] -= factor * a[best][j];
      }
    }
    return pivots.map((row, col) => (row < 0 ? 0 : a[row][n] / a[row][col]));
  }

  /* Minimum over the active coefficients, each of which keeps its sign: those that would cross zero leave. */
  function constrained(gram, moment, signs, from) {
    let active = [...signs.keys()].filter((i) => signs[i] !== 0);
    const beta = Float64Array.from(from);
    for (let round = 0; round < 2 * signs.length && active.length; round++) {
      const goal = solve(active.map((i) => active.map((j) => gram[i][j])), active.map((i) => moment[i]));
      let part = 1, leaves = -1;
      active.forEach((i, k) => {
        if (goal[k] * signs[i] <= 0) {
          const here = beta[i] === goal[k] ? 0 : beta[i] / (beta[i] - goal[k]);
          if (here < part) { part = here; leaves = k; }
        }
      });
      active.forEach((i, k) => { beta[i] += part * (goal[k] - beta[i]); });
      if (leaves < 0) break;
      beta[active[leaves]] = 0;
      active = active.filter((_, k) => k !== leaves);
    }
    return beta;
  }

  /* What is left above the floor is rounding, or a level. */
  const level = (loss, floor, initial) => (loss - floor <= 1e-12 * initial ? floor : loss);

  function diagonal(data, scale, names) {
    const { d, m, x, y } = data;
    const dot = (f, g) => { let sum = 0; for (let a = 0; a < m; a++) sum += f(a) * g(a); return sum; };
    const gram = [], moment = [];
    for (let i = 0; i < d; i++) {
      gram.push(Array.from({ length: d }, (_, j) => dot((a) => x[a * d + i], (a) => x[a * d + j])));
      moment.push(dot((a) => x[a * d + i], (a) => y[a]));
    }
    const reach = (value) => Math.log(2 * Math.abs(value)) - 2 * Math.log(scale); // arcsinh(beta / alpha^2)
    let beta = new Float64Array(d), time = 0, first = 0;
    const s = new Float64Array(d), stages = [], initial = data.against(beta);
    for (let round = 0; round < 6 * d; round++) {
      data.against(beta);
      const rate = Array.from(data.pull, (value) => 2 * value);
      first = Math.max(first, app.flow.maximum(rate));
      let next = null;
      for (let i = 0; i < d; i++) {
        if (beta[i] !== 0 || Math.abs(rate[i]) <= NOTHING * first) continue;
        const signs = Array.from(beta, Math.sign);
        signs[i] = Math.sign(rate[i]);
        const after = constrained(gram, moment, signs, beta);
        if (after[i] === 0) continue;
        const wait = Math.max(0, (signs[i] * reach(after[i]) - s[i]) / rate[i]);
        if (reach(after[i]) > 1 && (!next || wait < next.wait)) next = { i, wait, after, sign: signs[i] };
      }
      if (!next) break;
      for (let i = 0; i < d; i++) if (beta[i] === 0) s[i] += rate[i] * next.wait;
      for (let i = 0; i < d; i++) if (beta[i] !== 0 && next.after[i] === 0) s[i] = Math.sign(beta[i]) * reach(beta[i]);
      time += next.wait;
      beta = next.after;
      const loss = level(data.against(beta), data.floor, initial);
      const learned = `${names[next.i]} (${next.sign > 0 ? "+" : "−"})`;
      stages.push({ time: time - EARLIER / Math.abs(rate[next.i]), loss, learned });
      if (loss === data.floor) break;
    }
    return { method: "limit of small scales", initial_loss: initial, stages };
  }

  /* Singular values and vectors of a (rows, columns) matrix in an array of rows: one-sided Jacobi. */
  function svd(matrix) {
    const rows = matrix.length, columns = matrix[0].length;
    if (rows < columns) {
      const turned = svd(matrix[0].map((_, j) => matrix.map((row) => row[j])));
      return { values: turned.values, left: turned.right, right: turned.left };
    }
    const u = matrix[0].map((_, j) => matrix.map((row) => row[j])); // columns
    const v = u.map((_, j) => u.map((__, i) => (i === j ? 1 : 0)));
    const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
    for (let sweep = 0, turned = true; turned && sweep < 60; sweep++) {
      turned = false;
      for (let p = 0; p < columns; p++)
        for (let q = p + 1; q < columns; q++) {
          const alpha = dot(u[p], u[p]), beta = dot(u[q], u[q]), gamma = dot(u[p], u[q]);
          if (Math.abs(gamma) <= 1e-15 * Math.sqrt(alpha * beta) || gamma === 0) continue;
          turned = true;
          const zeta = (beta - alpha) / (2 * gamma);
          const t = (zeta >= 0 ? 1 : -1) / (Math.abs(zeta) + Math.sqrt(1 + zeta * zeta));
          const cos = 1 / Math.sqrt(1 + t * t), sin = cos * t;
          for (const side of [u, v])
            for (let i = 0; i < side[p].length; i++) {
              const one = side[p][i], other = side[q][i];
              side[p][i] = cos * one - sin * other;
              side[q][i] = sin * one + cos * other;
            }
        }
    }
    const values = u.map((column) => Math.sqrt(dot(column, column)));
    const order = [...values.keys()].sort((a, b) => values[b] - values[a]);
    return {
      values: order.map((j) => values[j]),
      left: order.map((j) => u[j].map((value) => (values[j] > 0 ? value / values[j] : 0))),
      right: order.map((j) => v[j]),
    };
  }

  const inner = (a, b) => { let sum = 0; for (let i = 0; i < a.length; i++) sum += a[i] * b[i]; return sum; };

  /* Best maps of rank 1, 2, ... in the norm of the loss, and their targets' singular values. */
  function bestMaps(data) {
    const { m, d, c, x, y } = data;
    const inputs = svd(Array.from({ length: m }, (_, a) => Array.from(x.subarray(a * d, (a + 1) * d))));
    const keep = inputs.values.map((value) => value > 1e-12 * inputs.values[0]);
    // targets in the basis of the left singular vectors of the inputs, (kept, c)
    const answers = inputs.left.filter((_, k) => keep[k]).map((left) =>
      Array.from({ length: c }, (_, o) => { let sum = 0; for (let a = 0; a < m; a++) sum += left[a] * y[a * c + o]; return sum; }));
    const parts = svd(answers), spread = inputs.values.filter((_, k) => keep[k]);
    const right = inputs.right.filter((_, k) => keep[k]);
    const maps = [];
    let map = new Float64Array(c * d);
    parts.values.forEach((value, r) => {
      if (value <= 1e-9 * parts.values[0]) return;
      map = Float64Array.from(map);
      for (let k = 0; k < spread.length; k++)
        for (let o = 0; o < c; o++) {
          const amount = (value * parts.left[r][k] * parts.right[r][o]) / spread[k];
          for (let j = 0; j < d; j++) map[o * d + j] += amount * right[k][j];
        }
      maps.push(map);
    });
    return maps;
  }

  function linear(data, start, width, scale) {
    const { d, c } = data, size = d + c;
    const maps = bestMaps(data).slice(0, width);
    const initial = data.against(new Float64Array(c * d));
    let into = [], out = [];
    for (let k = 0; k < width; k++) {
      into.push(Array.from(start.subarray(k * size, k * size + d), (value) => value * scale));
      out.push(Array.from(start.subarray(k * size + d, (k + 1) * size), (value) => value * scale));
    }
    let time = 0;
    const stages = [];
    for (let r = 0; r < maps.length; r++) {
      if (r) data.against(maps[r - 1]);
      const pull = Array.from({ length: c }, (_, o) => Array.from(data.pull.subarray(o * d, (o + 1) * d)));
      const { values, left, right } = svd(pull);
      const modes = values.map((value, j) => {
        const amplitude = into.map((w, k) => (inner(w, right[j]) + inner(out[k], left[j])) / Math.SQRT2);
        const curve = spreadAlong(data, right[j]);
        const free = inner(amplitude, amplitude) / 2;
        const wait = value > 1e-9 * values[0] && free > 0
          ? Math.max(0, Math.log(value / curve / free) / (2 * value)) : Infinity;
        return { j, value, amplitude, wait, small: value / curve > free };
      });
      const next = modes.reduce((one, other) => (other.wait < one.wait ? other : one));
      if (!Number.isFinite(next.wait) || (r === 0 && !next.small)) break;
      time += next.wait;
      grow(into, out, modes, left, right, next);
      const loss = level(data.against(maps[r]), data.floor, initial);
      stages.push({ time: time - EARLIER / (2 * next.value), loss, learned: `mode ${r}` });
    }
    return { method: "limit of small scales", initial_loss: initial, stages };
  }

  function spreadAlong(data, direction) {
    let sum = 0;
    for (let a = 0; a < data.m; a++) sum += inner(data.x.subarray(a * data.d, (a + 1) * data.d), direction) ** 2;
    return sum;
  }

  /* What the waiting did to the dormant units; the hidden direction that woke is taken from them. */
  function grow(into, out, modes, left, right, next) {
    const length = Math.sqrt(inner(next.amplitude, next.amplitude));
    const woken = next.amplitude.map((value) => value / length);
    const less = (column) => { const part = inner(woken, column); return column.map((value, k) => value - part * woken[k]); };
    const gains = modes.map(({ j, value, amplitude }) => {
      const fading = into.map((w, k) => (inner(w, right[j]) - inner(out[k], left[j])) / Math.SQRT2);
      const plus = j === next.j ? amplitude.map(() => 0) : less(amplitude).map((a) => a * Math.exp(value * next.wait));
      const minus = less(fading).map((a) => a * Math.exp(-value * next.wait));
      return { was: [amplitude, fading], now: [plus, minus] };
    });
    for (let k = 0; k < into.length; k++)
      modes.forEach(({ j }, n) => {
        const { was, now } = gains[n];
        const before = [(was[0][k] + was[1][k]) / Math.SQRT2, (was[0][k] - was[1][k]) / Math.SQRT2];
        const after = [(now[0][k] + now[1][k]) / Math.SQRT2, (now[0][k] - now[1][k]) / Math.SQRT2];
        for (let i = 0; i < into[k].length; i++) into[k][i] += (after[0] - before[0]) * right[j][i];
        for (let i = 0; i < out[k].length; i++) out[k][i] += (after[1] - before[1]) * left[j][i];
      });
  }

  app.staircase = { diagonal, linear, svd };
})((window.saddlewalk = window.saddlewalk || {}));
