// SPDX-License-Identifier: GPL-2.0-only
// Line plots, drawn with uPlot: runqueue lengths over time, and the distributions of latencies and
// response times.
"use strict";
wt.plots = (() => {
  const { view, element, runs } = wt;
  // Maximum number of columns in a chart over time.
  const COLUMNS = 280;
  // On machines with at most this many CPUs, each CPU has a line. Larger machines have a strip
  // instead.
  const LINES = 8;
  // Width of the left margin. The timeline has the same margin, so that times are aligned.
  const GUTTER = 74;
  const made = [];
  let hovered = null, byPointer = false;

  const font = () => "11px " + wt.css("--sans");
  // Steps of axes: 1, 2 and 5 times powers of ten.
  const steps = Array.from({ length: 48 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3 - 3));
  const decades = { filter: (u, splits) => splits.map((v) => (power(v) ? v : null)) };
  // Labels powers of ten on an axis. If not all labels fit, only every n-th power is labelled.
  const some = (u, splits) => {
    const decade = u.bbox.width / devicePixelRatio / Math.log10(u.scales.x.max / u.scales.x.min), every = Math.ceil(62 / decade);
    return splits.map((v) => (power(v) && Math.round(Math.log10(v)) % every === 0 ? v : null));
  };
  const power = (v) => v && Math.abs(Math.log10(v) % 1) < 1e-6;

  function axis(more) {
    const line = { stroke: wt.css("--line"), width: 1, ...(more.lines || {}) };
    return { stroke: wt.css("--muted"), font: font(), grid: line, ticks: { ...line, size: 4 }, gap: 4, incrs: steps, ...more };
  }
  const times = (u, splits) => splits.map((v) => (v === null ? null : wt.time(v, splits[1] - splits[0])));
  const logTimes = (u, splits) => splits.map((v) => (power(v) ? wt.time(v) : null));
  const line = (run, more = {}) => ({
    label: runs[run].label, stroke: wt.colour(run), width: 1.8, dash: wt.dash(run), points: { show: false }, spanGaps: true,
    show: !wt.hidden.has(run), ...more,
  });
  // Returns labels with as many digits as are needed to distinguish the steps.
  const numbers = (u, splits) => {
    const places = Math.max(0, Math.min(6, Math.ceil(-Math.log10(splits[1] - splits[0]) - 1e-6)));
    return splits.map((v) => (v === null ? null : Math.abs(v) >= 1e4 ? wt.count(v) : v.toFixed(places).replace("-", "−")));
  };
  const bottom = (more = {}) => axis({ values: times, space: 90, size: 28, ...more });

  // Creates a chart in `plot`. `options` and `data` are called again when the theme changes. `tip`
  // returns the tooltip for an index as [head, rows].
  function chart(plot, { height, options, data, tip, label, overTime }) {
    plot.tabIndex = 0;
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", label);
    const one = { u: null, make, redraw: wt.visible(plot, () => refresh()) };
    function make() {
      if (one.u) {
        if (hovered === one.u) { hovered = null; wt.showTip(null); }
        one.u.destroy();
      }
      const given = options();
      one.u = new uPlot({
        width: plot.clientWidth || 600, height, legend: { show: false }, ms: 1, padding: [10, 22, 0, 0], ...given,
        cursor: {
          points: { size: 6, width: 1.5 }, y: false, focus: { prox: 1e9 },
          ...(overTime ? { sync: { key: "time", setSeries: false }, drag: { x: true, y: false, setScale: false } } : { drag: { x: false, y: false } }),
          bind: { dblclick: () => () => { if (overTime) wt.show(0, wt.end); } },
        },
        hooks: { ...given.hooks, setCursor: [(u) => showTipAt(u)], ...(overTime ? { setSelect: [selected] } : {}) },
      }, data(), plot);
      one.u.over.addEventListener("mouseenter", () => { hovered = one.u; byPointer = true; });
      one.u.over.addEventListener("mouseleave", () => { hovered = null; wt.showTip(null); });
    }
    function refresh() {
      if (!one.u) return;
      one.u.setData(data(), true);
    }
    function selected(u) {
      if (u.select.width < 3) return;
      const [from, to] = [u.select.left, u.select.left + u.select.width].map((x) => u.posToVal(x, "x"));
      u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
      wt.show(from, to);
    }
    function showTipAt(u) {
      if (u !== hovered) return;
      const { idx, left } = u.cursor;
      if (idx === null || idx === undefined || left < 0) { wt.showTip(null); return; }
      const box = u.over.getBoundingClientRect(), content = tip(u, idx);
      wt.showTip(content && wt.tipTable(...content), box.left + left, box.top + Math.max(0, u.cursor.top), byPointer ? u.over : null);
    }
    plot.addEventListener("keydown", (event) => {
      if (overTime) { wt.viewKeys(event); return; }
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 }[event.key];
      if (!step || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      const xs = one.u.data[0], at = one.u.cursor.idx ?? Math.floor(xs.length / 2);
      const to = Math.max(0, Math.min(xs.length - 1, at + step));
      hovered = one.u;
      byPointer = false;
      one.u.setCursor({ left: one.u.valToPos(xs[to], "x"), top: 20 });
    });
    plot.addEventListener("blur", () => { if (hovered === one.u) { hovered = null; wt.showTip(null); } });
    new ResizeObserver(wt.later(() => {
      if (one.u && plot.clientWidth && plot.clientWidth !== one.u.width) one.u.setSize({ width: plot.clientWidth, height });
    })).observe(plot);
    make();
    made.push({ ...one, get u() { return one.u; }, overTime });
    return one;
  }

  // Returns the rows of a tooltip: one row for each visible run that has a value at the index.
  const rowsOf = (u, idx, format) => runs.map((run, i) => [i, u.data[i + 1]?.[idx]])
    .filter(([i, value]) => !wt.hidden.has(i) && value !== null && value !== undefined)
    .map(([i, value]) => [runs[i].label, format(value), wt.colour(i)]);

  // Unpacks the mean runqueue lengths of short intervals (bins) and computes the sum up to each
  // bin. The mean over any range of bins is then a difference of two sums.
  async function queues(run) {
    const read = new wt.Varints(await wt.unpack(run.queues.means));
    run.sums = run.places.map(() => {
      const sums = new Float64Array(run.queues.bins + 1);
      let mean = 0;
      for (let bin = 0; bin < run.queues.bins; bin++) {
        mean += read.signed();
        sums[bin + 1] = sums[bin] + mean / 100;
      }
      return sums;
    });
  }
  function meanLength(run, cpu, from, to) {
    const { width, bins } = run.queues, sums = run.sums[cpu];
    const upTo = (time) => {
      const at = Math.min(bins, Math.max(0, time / width)), bin = Math.floor(at);
      return sums[bin] + (bin < bins ? (sums[bin + 1] - sums[bin]) * (at - bin) : 0);
    };
    return ((upTo(to) - upTo(from)) * width) / (to - from);
  }
  // Returns the times at which the columns of the window begin. The last time is the end of the
  // window.
  function grid(most = COLUMNS) {
    const finest = Math.min(...runs.map((run) => run.queues.width));
    const n = Math.max(2, Math.min(most, Math.ceil((view.to - view.from) / finest)));
    const xs = new Float64Array(n + 1);
    for (let i = 0; i <= n; i++) xs[i] = view.from + ((view.to - view.from) * i) / n;
    return xs;
  }
  const column = (xs, value) => {
    const values = Array.from({ length: xs.length - 1 }, (_, i) => value(xs[i], xs[i + 1]));
    values.push(values[values.length - 1]);
    return values;
  };
  // Computes a value for each column. Columns after the end of the run have the value null.
  const reached = (run, xs, value) => column(xs, (from, to) => (from >= run.end ? null : value(from, Math.min(to, run.end))));

  const timeScale = () => ({ time: false, range: () => [view.from, view.to] });
  const stepped = () => uPlot.paths.stepped({ align: 1 });

  function overRuns(plot, label, value, format) {
    chart(plot, {
      height: 210, overTime: true, label,
      options: () => ({
        scales: { x: timeScale(), y: { range: (u, low, high) => [0, Math.max(high || 0, 0.1) * 1.06] } },
        series: [{}, ...runs.map((_, i) => line(i, { paths: stepped(), spanGaps: false }))],
        axes: [bottom(), axis({ size: 44, values: numbers })],
      }),
      data: () => {
        const xs = grid();
        return [xs, ...runs.map((run) => reached(run, xs, (from, to) => value(run, from, to)))];
      },
      tip: (u, idx) => [wt.time(u.data[0][idx], (view.to - view.from) / 1000), rowsOf(u, idx, format)],
    });
  }

  function deviation(plot, run, index) {
    const most = Math.min(1e9, Math.max(...runs.map((other) => {
      const xs = [...Array(41).keys()].map((i) => (other.end * i) / 40);
      let far = 0.5;
      for (let i = 0; i < 40; i++) {
        const all = other.places.map((_, cpu) => meanLength(other, cpu, xs[i], xs[i + 1]));
        const mean = all.reduce((a, b) => a + b, 0) / all.length;
        far = Math.max(far, ...all.map((v) => Math.abs(v - mean)));
      }
      return far;
    })));
    const holder = element("div"), moved = element("div", { class: "moved" });
    plot.append(holder, moved);
    const deviations = (xs) => {
      const lengths = run.places.map((_, cpu) => reached(run, xs, (from, to) => meanLength(run, cpu, from, to)));
      const means = lengths[0].map((_, i) => lengths.reduce((sum, length) => sum + (length[i] || 0), 0) / lengths.length);
      return lengths.map((length) => length.map((v, i) => (v === null ? null : v - means[i])));
    };
    if (run.places.length <= LINES) {
      chart(holder, {
        height: 190, overTime: true, label: `Deviation of each CPU's runqueue from the mean, ${run.label}`,
        options: () => ({
          scales: { x: timeScale(), y: { range: (u, low, high) => { const far = Math.max(0.5, -low, high) * 1.1; return [-far, far]; } } },
          series: [{}, ...run.places.map((_, cpu) => ({
            label: `CPU ${cpu}`, stroke: wt.css(`--cpu-${cpu % 8}`), width: 1.5, points: { show: false }, paths: stepped() }))],
          axes: [bottom(), axis({ size: GUTTER, values: (u, s) => numbers(u, s).map((text, i) => (s[i] > 0 ? "+" + text : text)) })],
          padding: [10, 0, 0, 0],
        }),
        data: () => { const xs = grid(120); return [xs, ...deviations(xs)]; },
        tip: (u, idx) => [wt.time(u.data[0][idx], (view.to - view.from) / 1000),
          run.places.map((_, cpu) => [`CPU ${cpu}`, signed(u.data[cpu + 1][idx]), wt.css(`--cpu-${cpu % 8}`)])],
      });
    } else {
      wt.heat.strip(holder, run, () => { const xs = grid(240); return { xs, rows: deviations(xs) }; }, most, signed);
    }
    moves(moved, run);
  }
  const signed = (v) => (v === null || v === undefined ? "–" : (v < 0 ? "−" : "+") + Math.abs(v).toFixed(2));

  // Draws the migrations of runnable tasks over time. If the kernel's load balancing ran, a bar is
  // the mean number of tasks that each of its runs moved. Otherwise, a bar is the number of all
  // migrations.
  function moves(plot, run) {
    const all = run.queues.balance, byRuns = all.some(([, n]) => n > 0);
    const pulled = all.reduce((sum, [,,, n]) => sum + n, 0);
    if (!all.length) { plot.append(element("p", { class: "legend" }, "No runnable task was migrated.")); return; }
    const title = byRuns ? "tasks moved per run of load balancing" : "runnable tasks moved by the policy";
    const value = (from, to) => {
      let n = 0, sum = 0;
      const { width } = run.queues;
      for (const [bin, balanced, tasks, others] of all) {
        const middle = (bin + 0.5) * width;
        if (middle < from || middle >= to) continue;
        n += balanced;
        sum += byRuns ? tasks : others;
      }
      return byRuns ? (n ? sum / n : null) : sum || null;
    };
    plot.append(element("p", { class: "legend" }, `Bars: ${title}. Total: ${wt.plural(pulled, "migration")} of runnable tasks.`));
    chart(plot, {
      height: 92, overTime: true, label: `${title}, ${run.label}`,
      options: () => ({
        scales: { x: timeScale(), y: { range: (u, low, high) => [0, Math.max(1, high || 0) * 1.08] } },
        series: [{}, { stroke: wt.css("--bar"), fill: wt.css("--bar"), width: 0, points: { show: false },
          paths: uPlot.paths.bars({ size: [0.8, 12], align: 1 }) }],
        axes: [bottom(), axis({ size: GUTTER, values: numbers, space: 22 })],
        padding: [6, 0, 0, 0],
      }),
      data: () => { const xs = grid(120); return [xs, column(xs, value)]; },
      tip: (u, idx) => [wt.time(u.data[0][idx], (view.to - view.from) / 1000), [[title, (u.data[1][idx] ?? 0).toFixed(byRuns ? 1 : 0)]]],
    });
  }

  // For each run, returns the share of wake-ups whose latency is at most each of a list of
  // latencies. The list contains the histogram buckets of all runs.
  function distribution() {
    const xs = [...new Set(runs.flatMap((run) => run.wakeup.map(([ns]) => Math.max(1, ns))))].sort((a, b) => a - b);
    if (xs.length) { xs.unshift(xs[0] / 1.05); xs.push(xs[xs.length - 1] * 1.05); }
    const shares = (run) => {
      const all = run.wakeup.reduce((sum, [, n]) => sum + n, 0);
      let below = 0, i = 0;
      return xs.map((x) => {
        while (i < run.wakeup.length && Math.max(1, run.wakeup[i][0]) <= x) below += run.wakeup[i++][1];
        return all ? (100 * below) / all : null;
      });
    };
    return { xs, below: runs.map(shares) };
  }

  const percent = (v) => (v >= 10 ? v.toFixed(1) : v >= 0.1 ? v.toFixed(2) : v.toPrecision(2)) + " %";
  function latency(plot) {
    const { xs, below } = distribution();
    if (!xs.length) { plot.replaceWith(element("p", { class: "empty" }, "No task was woken.")); return; }
    let tail = true;
    // By default, the chart shows the share of wake-ups that took longer than each latency. A run's
    // line then falls to the bottom of the chart and ends there, at the run's longest latency.
    const left = below.flat().filter((v) => v !== null && v < 100 - 1e-9).map((v) => 100 - v);
    const floor = 10 ** Math.min(1, Math.floor(Math.log10(Math.min(100, ...left))));
    const rest = (values) => values.map((v, i) => (v === null || values[i - 1] >= 100 - 1e-9 ? null : Math.max(floor, 100 - v)));
    const one = chart(plot, {
      height: 320, label: "Distribution of wake-up latencies; use the arrow keys to read values",
      options: () => ({
        scales: {
          x: { time: false, distr: 3, range: [xs[0], xs[xs.length - 1]] },
          y: tail ? { distr: 3, range: [floor, 100] } : { range: [0, 102] },
        },
        series: [{}, ...runs.map((_, i) => line(i, { paths: stepped(), spanGaps: false }))],
        axes: [bottom({ values: logTimes, lines: decades, incrs: undefined, filter: some }), axis({ size: 62, lines: tail ? decades : {}, ...(tail ? { incrs: undefined } : {}), values: (u, s) => s.map((v) => (tail && !power(v) ? null : v + " %")) })],
      }),
      data: () => [xs, ...below.map((values) => (tail ? rest(values) : values))],
      tip: (u, idx) => [(tail ? "longer than " : "within ") + wt.time(xs[idx]), rowsOf(u, idx, percent)],
    });
    document.getElementById("latency-tools").append(
      wt.choice("Show", [["tail", "share that took longer"], ["cdf", "share that took at most"]], "tail", (value) => {
        const wanted = value === "tail";
        if (wanted !== tail) { tail = wanted; one.make(); }
      }));
  }

  // Lists the longest waits, which can be explained.
  function slowest(holder) {
    const rows = wt.waits.longest(12);
    if (!rows.length) return;
    const causes = { interrupt: "woken by an interrupt", task: "woken", new: "new", preempted: "lost its CPU" };
    const row = ({ run, index, ns }) => {
      const all = wt.timeline.waits(run), { comm, pid } = wt.timeline.task(run, all.task[index]);
      const go = element("button", { type: "button", class: "link", onclick: () => wt.timeline.go(run, index) }, "explain");
      return element("tr", {}, element("td", {}, element("span", { class: "chip", style: `--c:var(--run-${run % 8})` }, element("i"), runs[run].label)),
        element("td", {}, `${comm} ${pid}`), element("td", { class: "n" }, wt.time(ns)), element("td", { class: "n" }, wt.time(all.to[index], 1e3)),
        element("td", { class: "n" }, all.ended[index] ? String(all.got[index]) : "–"), element("td", {}, causes[wt.waits.CAUSES[all.cause[index]]]), element("td", {}, go));
    };
    const head = ["policy", "task", "waited", "until", "on CPU", "begin", ""].map((text, i) =>
      element("th", { scope: "col", class: i > 1 && i < 5 ? "n" : "" }, text));
    const body = element("tbody", {}, ...rows.map(row));
    holder.replaceChildren(element("h3", {}, "Longest waits"),
      element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Longest waits" },
        element("table", {}, element("thead", {}, element("tr", {}, ...head)), body)));
  }

  // Draws a histogram with bins of equal width. The axis extends to the 99.9th percentile of all
  // runs, and to all predictions. A text below the chart says how many responses took longer.
  function response(plot) {
    if (!plot) return;
    const all = runs.flatMap((run) => run.response).sort((a, b) => a[0] - b[0]);
    const total = all.reduce((sum, [, n]) => sum + n, 0);
    let seen = 0, high = 1;
    for (const [ns, n] of all) {
      if (seen < total * 0.999) high = ns;
      seen += n;
    }
    const predicted = runs.flatMap((run, i) => run.predicted.map((p) => ({ ...p, run: i })));
    high = Math.max(high, ...predicted.map((p) => p.ns)) * 1.04;
    const raw = high / 110, unit = 10 ** Math.floor(Math.log10(raw));
    const bin = Math.max(1, unit * [1, 2, 5, 10].find((m) => m * unit >= raw)), n = Math.ceil(high / bin);
    const xs = Array.from({ length: n + 1 }, (_, i) => i * bin);
    let beyond = 0;
    const shares = runs.map((run) => {
      const counts = new Array(n + 1).fill(0), sum = run.response.reduce((sum, [, count]) => sum + count, 0);
      for (const [ns, count] of run.response) if (ns < n * bin) counts[Math.floor(ns / bin)] += (100 * count) / sum; else beyond += count;
      return counts.map((v, i) => (!sum ? null : i < n ? v : 0));
    });
    const lines = (u) => {
      const { ctx, bbox } = u;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = wt.css("--text");
      ctx.font = `${11 * devicePixelRatio}px ` + wt.css("--sans");
      ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.lineWidth = devicePixelRatio;
      const places = [...new Set(predicted.filter((p) => !wt.hidden.has(p.run)).map((p) => p.ns))].sort((a, b) => a - b);
      let last = -1e9, level = 0;
      for (const ns of places) {
        const x = Math.round(u.valToPos(ns, "x", true));
        level = x - last < 60 * devicePixelRatio ? (level + 1) % 3 : 0;
        last = x;
        const top = bbox.top + (14 + 13 * level) * devicePixelRatio;
        ctx.beginPath();
        ctx.moveTo(x, top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
        ctx.textAlign = x > bbox.left + bbox.width * 0.9 ? "right" : "left";
        ctx.fillText(wt.time(ns), x, top - 4 * devicePixelRatio);
      }
      ctx.restore();
    };
    chart(plot, {
      height: 300, label: "Histogram of response times; use the arrow keys to read values",
      options: () => ({
        scales: { x: { time: false, range: [0, n * bin] }, y: { range: (u, low, top) => [0, (top || 1) * 1.18] } },
        series: [{}, ...runs.map((_, i) => line(i, { paths: stepped(), fill: wt.colour(i) + "22", spanGaps: false }))],
        axes: [bottom(), axis({ size: 52, values: (u, s) => s.map((v) => v + " %") })],
        hooks: { draw: [lines] },
      }),
      data: () => [xs, ...shares],
      tip: (u, idx) => [`${wt.time(xs[idx], bin)} to ${wt.time(xs[idx] + bin, bin)}`, rowsOf(u, idx, percent)],
    });
    if (beyond) plot.after(element("p", { class: "legend" }, `${wt.count(beyond)} of ${wt.count(total)} responses took longer than the longest time in the chart.`));
  }

  async function start() {
    await Promise.all(runs.map(queues));
    const lengths = (run, from, to) => run.places.map((_, cpu) => meanLength(run, cpu, from, to));
    const mean = (all) => all.reduce((a, b) => a + b, 0) / all.length;
    const spread = (all) => Math.sqrt(mean(all.map((v) => (v - mean(all)) ** 2)));
    const plot = (name) => document.querySelector(`[data-plot=${name}]`);
    overRuns(plot("mean"), "Mean runqueue length over time", (...at) => mean(lengths(...at)), (v) => v.toFixed(2));
    overRuns(plot("spread"), "Spread of runqueue lengths over time", (...at) => spread(lengths(...at)), (v) => v.toFixed(2));
    const figures = document.querySelectorAll("figure.deviation");
    runs.forEach((run, i) => deviation(figures[i].querySelector(".plot"), run, i));
    latency(plot("latency"));
    const list = () => slowest(document.getElementById("slowest"));
    list();
    wt.on("runs", list);
    response(plot("response"));
    wt.on("view", () => made.forEach((one) => { if (one.overTime) one.redraw(); }));
    wt.on("theme", redraw);
    wt.on("runs", redraw);
  }
  const redraw = () => made.forEach((one) => one.make());

  return { start, redraw, made };
})();
