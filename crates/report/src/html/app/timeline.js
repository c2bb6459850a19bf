// SPDX-License-Identifier: GPL-2.0-only
// The timelines: a canvas for each run, with one row per CPU, core, LLC, node or task. A column of
// pixels stands for a short time. Its colours show how much of this time each group of tasks ran.
"use strict";
wt.timeline = (() => {
  const { view, element } = wt;
  const { GROUPS, SUMS } = wt.turns;
  // Height of the scale above the rows.
  const TOP = 20;
  const charts = [];

  // Width of the left margin. With rows of CPUs, it is that of the other charts over time.
  const gutter = (chart) => (wt.rows.mode !== "task" ? 74 : chart.plot.clientWidth < 500 ? 96 : 150);

  function ticks(from, to, most) {
    const raw = (to - from) / most, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= raw);
    const all = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) all.push(at);
    return { all, step };
  }

  function rowHeight(chart) {
    const { mode } = wt.rows;
    if (mode === "task") return 18;
    const shown = charts.reduce((sum, one) => sum + (one.figure.classList.contains("off") || !one.rows ? 0 : one.rows.length), 0);
    const least = chart.rows.length > 128 && wt.runs.length > 1 ? 3 : chart.rows.length > 64 ? 5 : 8;
    return Math.max(mode === "cpu" ? least : 14, Math.min(22, Math.floor(1300 / Math.max(1, shown))));
  }

  // Computes the rows of a chart again, and the labels that can be clicked.
  function layout(chart) {
    chart.rows = wt.rows.of(chart.run, chart.index);
    chart.rowOf = new Map();
    // The row of an unfolded CPU follows that of its group, and takes its place.
    chart.rows.forEach((row, i) => (row.cpus || []).forEach((cpu) => chart.rowOf.set(cpu, i)));
    chart.taskRow = new Map(chart.rows.map((row, i) => [row.task, i]));
  }

  function labels(chart) {
    const { height, gutter: width } = chart.geometry;
    const buttons = chart.rows.map((row, i) => {
      if (row.cpu !== undefined) return null;
      const style = `top:${TOP + i * height}px;height:${height}px;width:${width - 6}px`;
      if (row.key) return element("button", { type: "button", style, "aria-expanded": String(row.isOpen), title: wt.rows.name(row.cpus),
        onclick: () => wt.rows.toggle(row.key) }, (row.isOpen ? "▾ " : "▸ ") + row.label);
      return element("button", { type: "button", style, "aria-pressed": String(row.pinned), title: `${row.label}: ${row.pinned ? "unpin" : "pin to the top"}`,
        onclick: () => wt.tasks.pin(row.pid) }, (row.pinned ? "★ " : "☆ ") + row.label);
    }).filter(Boolean);
    // Keep the focus if the button that was clicked is replaced.
    const focused = [...chart.labels.children].indexOf(document.activeElement);
    chart.labels.replaceChildren(...buttons);
    if (focused >= 0) buttons[Math.min(focused, buttons.length - 1)]?.focus();
  }

  function draw(chart) {
    const { canvas, run, data, rows } = chart;
    if (!data || !rows || chart.figure.classList.contains("off")) return;
    const width = chart.plot.clientWidth, height = rowHeight(chart), left = gutter(chart);
    const gap = height > 9 ? 2 : height > 3 ? 1 : 0, window = wt.align.window(chart.index);
    const shape = [width, height, left].join();
    chart.geometry = { width, height, gutter: left, columns: Math.max(1, width - left), window };
    if (chart.shape !== shape || chart.labelled !== rows) {
      labels(chart);
      [chart.shape, chart.labelled] = [shape, rows];
    }
    const context = wt.surface(canvas, width, TOP + rows.length * height + 2);
    const [text, muted, line] = ["--text", "--muted", "--line"].map(wt.css);
    context.font = "11px " + wt.css("--sans");
    context.textBaseline = "middle";
    const { columns } = chart.geometry, x = (time) => left + ((time - window.from) / (window.to - window.from)) * columns;
    const { all, step } = ticks(window.from, window.to, Math.max(2, columns / 110));
    context.fillStyle = muted;
    context.textAlign = "center";
    for (const at of all) if (x(at) > left - 4 && x(at) < width - 24) context.fillText(wt.time(at, step), x(at), 8);
    const past = Math.max(0, Math.min(columns, x(run.end) - left));
    if (wt.rows.mode === "task") drawTasks(context, chart, past, gap);
    else {
      wt.turns.prepare(data, window);
      drawCpus(context, chart, past, gap);
      rows.forEach((_, row) => label(context, chart, row, { text, muted, line }));
      if (!data.coarse) names(context, chart, x, gap);
    }
    const middle = (row) => (row === undefined ? null : TOP + (row + 0.5) * height - gap / 2);
    wt.waits.draw(context, chart.index, { x, left, right: width, height: Math.max(4, height - gap),
      row: (cpu) => middle(chart.rowOf.get(cpu)), task: (task) => middle(chart.taskRow.get(task)) });
    if (chart.cursor) cursor(context, chart, x);
    context.strokeStyle = line;
    context.lineWidth = 1;
    context.beginPath();
    for (const at of all) { context.moveTo(Math.round(x(at)) + 0.5, TOP - 4); context.lineTo(Math.round(x(at)) + 0.5, TOP - 1); }
    context.stroke();
  }

  // Converts a colour of the form #rrggbb to a pixel.
  function pixel(hex) {
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  }

  // Draws all rows as one image with one column per pixel of the screen. `fill` adds the times of a
  // row to its columns, and returns the colour of idle time and the number of CPUs in the row. The
  // colours fill a column from below in proportion to the `n` sums.
  function drawRows(context, chart, past, gap, n, colours, fill) {
    const { canvas, geometry, rows } = chart, scale = canvas.width / geometry.width, { height } = geometry;
    const columns = Math.max(1, Math.round(geometry.columns * scale)), tall = Math.max(1, Math.round(rows.length * height * scale));
    if (!chart.image || chart.image.width !== columns || chart.image.height !== tall) chart.image = context.createImageData(columns, tall);
    const image = chart.image, pixels = new Uint32Array(image.data.buffer);
    pixels.fill(0);
    const reached = Math.min(columns, Math.ceil(past * scale)), into = new wt.turns.Columns(columns, n), { sums, used } = into;
    rows.forEach((row, at) => {
      const { empty, cpus } = fill(row, into);
      const top = Math.round(at * height * scale), room = Math.max(1, Math.round((height - gap) * scale)), bottom = top + room - 1;
      for (let y = top; y <= bottom; y++) pixels.fill(empty, y * columns, y * columns + reached);
      for (let x = 0; x < columns; x++) {
        let bits = used[x];
        if (bits === 0) continue;
        let share = 0, y = bottom;
        for (; bits && x < reached; bits &= bits - 1) {
          const g = 31 - Math.clz32(bits & -bits);
          share += sums[x * n + g] / cpus;
          const until = bottom - Math.round(Math.min(1, share) * room);
          for (; y > until; y--) pixels[y * columns + x] = colours[g];
        }
        into.clear(x);
      }
    });
    context.putImageData(image, Math.round(geometry.gutter * scale), Math.round(TOP * scale));
  }

  function drawCpus(context, chart, past, gap) {
    const { run, data, geometry } = chart;
    const colours = [...Array(GROUPS).keys()].map((g) => wt.css(`--group-${g}`)).concat(wt.css("--offline")).map(pixel);
    // Idle time of second hardware threads, and of slower CPUs, has colours of its own.
    const empties = [["--empty", "--empty-sibling"], ["--empty-slow", "--empty-slow-sibling"]].map((pair) => pair.map((name) => pixel(wt.css(name))));
    drawRows(context, chart, past, gap, SUMS, colours, (row, into) => {
      for (const cpu of row.cpus) wt.turns.addColumns(data, cpu, geometry.window, into);
      const slow = row.cpus.every((cpu) => run.kindOf(cpu) > 0) ? 1 : 0;
      return { empty: empties[slow][row.cpu !== undefined && run.thread[row.cpu] > 0 ? 1 : 0], cpus: row.cpus.length };
    });
  }

  function drawTasks(context, chart, past, gap) {
    const { data, index, geometry } = chart, waiting = pixel(wt.css("--waiting")), empty = pixel(wt.css("--empty"));
    const running = [...Array(GROUPS).keys()].map((g) => pixel(wt.css(`--group-${g}`))), colours = [0, waiting];
    drawRows(context, chart, past, gap, 2, colours, (row, into) => {
      wt.tasks.columns(index, row.task, geometry.window, into);
      colours[0] = running[data.group[row.task]];
      return { empty, cpus: 1 };
    });
  }

  // Draws the number of a CPU. Where an LLC or node begins, also draws a line and its name. A band
  // shows the kind of the CPU; it has no gap between the hardware threads of a core.
  function label(context, { run, rows, geometry }, at, { text, muted, line }) {
    const { height, width, gutter: left } = geometry, row = rows[at], y = TOP + at * height, before = rows[at - 1];
    if (row.cpu === undefined) return;
    const cpu = row.cpu, place = run.places[cpu], previous = before && run.places[before.cpu ?? -1];
    const node = previous && place[2] !== previous[2], llc = previous && place[1] !== previous[1];
    if (!row.inner && (node || llc)) {
      context.fillStyle = node ? text : line;
      context.fillRect(node ? 0 : 34, y - 1.5, node ? width : width - 34, 1);
    }
    const every = height >= 11 ? 1 : height >= 8 ? 2 : height >= 4 ? 4 : 8;
    context.textAlign = "right";
    context.fillStyle = muted;
    if (at % every === 0) context.fillText(String(cpu), left - 12, y + height / 2);
    if (run.kinds.length > 1 || run.smt) {
      const joined = previous && place.join() === previous.join();
      context.fillStyle = wt.css(`--kind-${Math.min(2, run.kindOf(cpu))}`);
      const top = joined ? y - 2 : y;
      context.fillRect(left - 8, top, 4, y + Math.max(1, height - (height > 4 ? 2 : 0)) - top);
    }
    context.textAlign = "left";
    context.fillStyle = muted;
    if (row.inner) return;
    if (run.nodes > 1 && (!before || node)) context.fillText(`node ${place[2]}`, 0, y + 6);
    else if (run.nodes === 1 && at === 0) context.fillText("CPU", 0, y + 6);
  }

  // Marks where turns (the times from one switch to the next) begin, and writes names into wide
  // turns.
  function names(context, { rows, data, geometry }, x, gap) {
    const [ink, edge] = ["--on-group", "--card"].map(wt.css), { height, gutter: left, width, window } = geometry;
    context.font = `${Math.min(11, height - 3)}px ` + wt.css("--sans");
    context.textAlign = "left";
    rows.forEach(({ cpu }, at) => {
      if (cpu === undefined) return;
      const row = data.cpus[cpu];
      for (let i = wt.turns.find(row, window.from); i < row.n; i++) {
        const a = Math.max(left, x(wt.turns.begin(row, i))), b = Math.min(width, x(row.end[i]));
        if (a >= width) break;
        if (b - a < 8 || row.task[i] < 2) continue;
        context.fillStyle = edge;
        if (a > left && !wt.printing) context.fillRect(Math.round(a) - 0.5, TOP + at * height, 1, height - gap);
        if (b - a < 26 || row.turns[i] > 1 || height < 12) continue;
        context.fillStyle = ink;
        const task = data.named[row.task[i]], full = `${task.comm} ${task.pid}`;
        for (const name of [full, task.comm, String(task.pid)]) {
          if (context.measureText(name).width < b - a - 6) {
            context.fillText(name, a + 3, TOP + at * height + (height - gap) / 2 + 0.5);
            break;
          }
        }
      }
    });
  }

  function cursor(context, { cursor: { row, time }, rows, geometry }, x) {
    const at = x(time), { height, gutter: left } = geometry;
    context.strokeStyle = wt.css("--accent");
    context.lineWidth = 1.5;
    context.strokeRect(left - 34, TOP + row * height - 1.5, 24, height + 0.5);
    if (at >= left) {
      context.beginPath();
      context.moveTo(at, TOP - 4);
      context.lineTo(at, TOP + rows.length * height);
      context.stroke();
    }
    context.lineWidth = 1;
  }

  // Describes a row at a time: { head, rows, begin, end, wait }. `wait` is the index of the wait that
  // can be explained, or -1.
  function describe(chart, row, time) {
    if (!row) return null;
    if (row.task !== undefined) return wt.tasks.describe(chart.index, row.task, time);
    const { run, data } = chart;
    if (row.cpu === undefined) {
      const { from, to } = wt.align.window(chart.index), width = (to - from) / chart.geometry.columns, begin = time - width / 2;
      let busy = 0;
      const into = new wt.turns.Columns(1, SUMS);
      for (const cpu of row.cpus) wt.turns.addColumns(data, cpu, { from: begin, to: begin + width }, into);
      for (let g = 0; g < GROUPS; g++) busy += into.sums[g];
      return { head: row.label, rows: [[wt.rows.name(row.cpus), ""], ["busy", `${Math.round((100 * busy) / row.cpus.length)} %`]], begin, end: begin + width, wait: -1 };
    }
    const { cpu } = row, own = data.cpus[cpu], [core, llc, node] = run.places[cpu];
    const i = Math.min(wt.turns.find(own, time), own.n - 1);
    if (i < 0) return null;
    const begin = wt.turns.begin(own, i), length = own.end[i] - begin, index = own.task[i];
    const task = data.named[index], step = Math.min(length / 2, (view.to - view.from) / 500);
    const rows = [["from", wt.time(begin, step)], ["for", wt.time(length)], ["position", `core ${core}, LLC ${llc}, node ${node}`]];
    if (run.kinds.length > 1) rows.push(["kind", run.kindName(run.kindOf(cpu))]);
    if (run.thread[cpu] > 0) rows.push(["", "second hardware thread"]);
    let head = `CPU ${cpu}: ${task.comm}${index > 1 ? " " + task.pid : ""}`, wait = -1;
    if (own.turns[i] > 1) {
      head = `CPU ${cpu}: ${own.turns[i]} turns, mostly ${task.comm}`;
      rows.push(["busy", Math.round((own.busy[i] / 255) * 100) + " %"]);
    } else if (index > 1) {
      wait = wt.waits.endingAt(chart.waits, index, begin);
      if (wait >= 0) rows.push(["waited before", wt.time(chart.waits.to[wait] - chart.waits.from[wait])]);
    }
    return { head, rows, begin, end: own.end[i], wait };
  }

  function legend(chart) {
    const { data, run } = chart;
    const entry = (name, text) => element("span", { class: "key" }, element("i", { style: `background:var(${name})` }), text);
    const shown = data.byTask ? [] : data.names.slice(0, GROUPS - 1).map((name, g) => entry(`--group-${g}`, name));
    if (!data.byTask && data.names.length >= GROUPS)
      shown.push(entry(`--group-${GROUPS - 1}`, data.names.length === GROUPS ? data.names[GROUPS - 1] : `${data.names.length - GROUPS + 1} more names`));
    if (data.byTask) shown.push(`${data.named.length - 2} tasks`);
    if (wt.rows.mode === "task") shown.push(entry("--waiting", "waits for a CPU"));
    else {
      if (run.kinds.length > 1) run.kinds.slice(0, 3).forEach((capacity, kind) => shown.push(entry(`--kind-${kind}`, `${run.kindName(kind)}${run.kinds.length === 2 ? ` (capacity ${capacity})` : ""}`)));
      if (run.smt) shown.push(entry("--empty-sibling", "second thread of a core"));
    }
    if (run.timeline.quantum)
      shown.push(element("span", {}, `turns shorter than ${wt.time(run.timeline.quantum)} are merged with their neighbours`));
    if (run.waits.left_out) shown.push(element("span", {}, `${wt.plural(run.waits.left_out, "wait")} of at most ${wt.time(run.waits.least)} are left out`));
    chart.legend.replaceChildren(...shown);
  }

  // Moves all charts to a wait, and explains it.
  function go(index, wait) {
    const chart = charts[index];
    chart.cursor = null;
    wt.waits.select(index, wait);
    chart.canvas.focus({ preventScroll: true });
    chart.figure.scrollIntoView({ block: "center", behavior: "instant" });
  }

  const relayout = () => charts.forEach((chart) => { layout(chart); chart.cursor = null; });
  async function start() {
    const figures = document.querySelectorAll("figure.tl");
    for (const [index, run] of wt.runs.entries()) {
      const figure = figures[index], plot = figure.querySelector(".plot");
      const canvas = element("canvas", { tabindex: 0, role: "application", class: "timeline", "aria-describedby": "tl-help",
        "aria-label": `Timeline of ${run.label}` });
      const labels = element("div", { class: "row-labels", role: "group", "aria-label": `Rows of ${run.label}` });
      const band = element("div", { class: "band", hidden: true });
      const key = element("div", { class: "keys" });
      figure.querySelector("figcaption").append(key);
      plot.append(labels, canvas, band);
      const chart = { index, run, figure, plot, canvas, band, labels, legend: key, data: null, rows: null, cursor: null };
      chart.redraw = wt.visible(plot, () => draw(chart));
      charts.push(chart);
      wt.input.attach(chart);
    }
    for (const chart of charts) {
      chart.data = await wt.turns.load(chart.run);
      chart.waits = await wt.waits.load(chart.run, chart.data.named.length);
    }
    const paint = () => wt.turns.paint(charts.map((chart) => chart.data));
    paint();
    charts.forEach(layout);
    charts.forEach((chart) => { legend(chart); draw(chart); });
    const redraw = () => charts.forEach((chart) => chart.redraw());
    ["view", "theme", "runs", "wait"].forEach((event) => wt.on(event, redraw));
    wt.on("rows", () => { relayout(); charts.forEach(legend); redraw(); });
    wt.on("colours", () => { paint(); charts.forEach(legend); redraw(); });
  }

  return { start, go, draw, describe, charts, TOP, redraw: () => charts.forEach(draw),
    data: (run) => charts[run].data, waits: (run) => charts[run].waits, task: (run, index) => charts[run].data.named[index] };
})();
