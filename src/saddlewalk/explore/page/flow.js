/* Gradient flow of diagonal and linear networks, integrated in the page: y' = f(y), adaptive, explicit.

   Diagonal networks move in s = arcsinh(beta / alpha^2): s' = 2 x^T (y - x beta). Nothing underflows there,
   whatever the scale. Linear networks move unit by unit in a basis of the hidden layer in which every basis
   vector starts with a mode of its own, and the error is relative to each unit: small ones keep their digits. */
(function (app) {
  "use strict";

  // Dormand & Prince, order 5(4)
  const C = [
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
  ];
  const DIFFERENCE = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40];

  /* Integrate system.velocity from system.start until system.rests(); seen(t, y) is called after every step. */
  function integrate(system, options, seen) {
    const n = system.start.length;
    const k = Array.from({ length: 7 }, () => new Float64Array(n));
    let y = Float64Array.from(system.start), next = new Float64Array(n);
    const trial = new Float64Array(n);
    let t = 0, h = options.firstStep, steps = 0;
    system.velocity(y, k[0]);
    seen(t, y);
    while (steps < options.mostSteps) {
      for (let stage = 0; stage < 6; stage++) {
        const row = C[stage], target = stage < 5 ? trial : next;
        for (let i = 0; i < n; i++) {
          let sum = 0;
          for (let j = 0; j <= stage; j++) sum += row[j] * k[j][i];
          target[i] = y[i] + h * sum;
        }
        system.velocity(target, k[stage + 1]);
      }
      const error = system.error(y, next, (i) => {
        let sum = 0;
        for (let j = 0; j < 7; j++) sum += DIFFERENCE[j] * k[j][i];
        return h * sum;
      }) / options.tolerance;
      steps++;
      if (!(error <= 1)) {
        h *= Number.isFinite(error) ? Math.max(0.2, 0.9 * error ** -0.2) : 0.1;
        if (!(h > 1e-14 * Math.max(t, 1e-300))) return { stopped: "the step became too small", steps };
        continue;
      }
      t += h;
      [y, next] = [next, y];
      [k[0], k[6]] = [k[6], k[0]]; // first same as last
      seen(t, y);
      if (system.rests(y, k[0], t)) return { stopped: "", steps };
      h *= Math.min(5, 0.9 * Math.max(error, 1e-10) ** -0.2);
    }
    return { stopped: `the page stops after ${steps.toLocaleString("en")} steps: these data are stiff`, steps };
  }

  /* Virtual samples (m, d) with targets (m, c): residual, loss, and the pull E = residual^T x, (c, d). */
  function Data(x, y, m, d, c, floor) {
    const residual = new Float64Array(m * c), pull = new Float64Array(c * d);
    return {
      m, d, c, x, y, floor, residual, pull,
      against(map) { // map (c, d)
        let loss = 0;
        for (let a = 0; a < m; a++)
          for (let o = 0; o < c; o++) {
            let sum = y[a * c + o];
            for (let j = 0; j < d; j++) sum -= map[o * d + j] * x[a * d + j];
            residual[a * c + o] = sum;
            loss += sum * sum;
          }
        pull.fill(0);
        for (let a = 0; a < m; a++)
          for (let o = 0; o < c; o++) {
            const r = residual[a * c + o];
            for (let j = 0; j < d; j++) pull[o * d + j] += r * x[a * d + j];
          }
        return loss / 2 + floor;
      },
    };
  }

  function maximum(values) {
    let most = 0;
    for (const value of values) most = Math.max(most, Math.abs(value));
    return most;
  }

  /* beta = alpha^2 sinh(s), written so that neither factor under- or overflows. */
  function coefficients(s, logScale, beta) {
    for (let i = 0; i < s.length; i++)
      beta[i] = 0.5 * (Math.exp(s[i] + 2 * logScale) - Math.exp(-s[i] + 2 * logScale));
    return beta;
  }

  function diagonal(data, scale) {
    const beta = new Float64Array(data.d), logScale = Math.log(scale);
    let largest = 0;
    const system = {
      start: new Float64Array(data.d),
      velocity(s, out) {
        data.against(coefficients(s, logScale, beta));
        for (let i = 0; i < data.d; i++) out[i] = 2 * data.pull[i];
      },
      error(s, next, of) {
        let most = 0;
        for (let i = 0; i < data.d; i++) most = Math.max(most, Math.abs(of(i)));
        return most;
      },
      rests(s, velocity) {
        const drive = maximum(velocity);
        largest = Math.max(largest, drive);
        return drive <= 1e-4 * largest;
      },
    };
    data.against(beta);
    const options = { tolerance: 1e-6, mostSteps: 60000, firstStep: 0.01 / maximum(data.pull) };
    return run(system, options, (s) => data.against(coefficients(s, logScale, beta)));
  }

  /* start: rows of mixed units (width, d + c): weights in, then out. */
  function linear(data, start, width, scale) {
    const { d, c } = data, size = d + c, map = new Float64Array(c * d);
    let largest = 0;
    const seen = (theta) => {
      map.fill(0);
      for (let k = 0; k < width; k++)
        for (let o = 0; o < c; o++) {
          const a = theta[k * size + d + o];
          for (let j = 0; j < d; j++) map[o * d + j] += a * theta[k * size + j];
        }
      return data.against(map);
    };
    const norm = (theta, k) => {
      let most = 0, sum = 0;
      for (let i = k * size; i < (k + 1) * size; i++) most = Math.max(most, Math.abs(theta[i]));
      if (most === 0) return 0;
      for (let i = k * size; i < (k + 1) * size; i++) sum += (theta[i] / most) ** 2;
      return most * Math.sqrt(sum);
    };
    const system = {
      start: Float64Array.from(start, (value) => value * scale),
      velocity(theta, out) {
        seen(theta);
        out.fill(0);
        for (let k = 0; k < width; k++)
          for (let o = 0; o < c; o++) {
            const a = theta[k * size + d + o];
            let sum = 0;
            for (let j = 0; j < d; j++) {
              const e = data.pull[o * d + j];
              sum += e * theta[k * size + j];
              out[k * size + j] += a * e;
            }
            out[k * size + d + o] = sum;
          }
      },
      error(theta, next, of) {
        let most = 0;
        for (let k = 0; k < width; k++) {
          const scale = Math.max(norm(theta, k), norm(next, k));
          if (scale > 0)
            for (let i = k * size; i < (k + 1) * size; i++) most = Math.max(most, Math.abs(of(i)) / scale);
        }
        return most;
      },
      rests(theta, velocity) {
        let drive = 0;
        for (let k = 0; k < width; k++) {
          const length = norm(theta, k);
          if (length > 0) drive = Math.max(drive, norm(velocity, k) / length);
        }
        largest = Math.max(largest, drive);
        return drive <= 1e-4 * largest;
      },
    };
    data.against(map);
    const options = { tolerance: 1e-6, mostSteps: 20000, firstStep: 0.01 / maximum(data.pull) };
    return run(system, options, seen);
  }

  function run(system, options, lossOf) {
    const time = [], loss = [], states = [];
    const ended = integrate(system, options, (t, y) => {
      time.push(t);
      loss.push(lossOf(y));
      states.push(Float64Array.from(y));
    });
    return { time, loss, states, ...ended };
  }

  app.flow = { Data, diagonal, linear, coefficients, maximum };
})((window.saddlewalk = window.saddlewalk || {}));
