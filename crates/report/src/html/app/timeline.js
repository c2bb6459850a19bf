// SPDX-License-Identifier: GPL-2.0-only
// The timeline is a canvas with one row per CPU. A column of pixels stands for a short time. Its
// colours show how much of this time each group of tasks ran on the CPU.
//
// The times are summed from the segments: intervals in which a CPU ran one task. If too many
// segments are visible, the times are taken from bins: intervals of equal length whose sums are
// computed once.
"use strict";
wt.timeline = (() => {
  const { view, element } = wt;
  const GROUPS = 8;
  // Maximum number of visible segments from which the times are summed. If more segments are
  // visible, the times come from the bins.
  const WALK = 200000;
  // Number of bins for a whole run, over all CPUs together.
  const BINS = 1 << 19;
  const GUTTER = 74;
  let colouring = "name";
  const charts = [];

  // Returns a task's name without the suffix that numbers tasks with the same name.
  const stem = (comm) => comm.replace(/[\d\-_/:.#]+$/, "") || comm;

  // Unpacks the tasks and the segments of a run.
  async function load(run) {
    const [tasks, bytes] = await Promise.all([wt.unpack(run.tasks), wt.unpack(run.timeline.segments)]);
    const named = JSON.parse(new TextDecoder().decode(tasks)).map(([pid, comm, ns]) => ({ pid, comm: comm || `pid ${pid}`, ns }));
    const read = new wt.Varints(bytes);
    const cpus = run.places.map(() => {
      const n = read.next();
      const row = { n, end: new Float64Array(n), task: new Uint32Array(n), turns: new Uint32Array(n), busy: new Uint8Array(n) };
      let at = 0;
      for (let i = 0; i < n; i++) {
        const length = read.next();
        row.end[i] = at += Math.floor(length / 2);
        const task = row.task[i] = read.next();
        const merged = length % 2;
        row.turns[i] = merged ? read.next() : 1;
        row.busy[i] = merged ? read.byte() : task > 1 ? 255 : 0;
      }
      return row;
    });
    return { named, cpus };
  }

  // Chooses a colour for each name of tasks, starting with the names that used the most CPU time.
  // If there is only one name, chooses colours by pid.
  function paint(data) {
    const sums = new Map();
    for (const task of data.named.slice(2)) sums.set(stem(task.comm), (sums.get(stem(task.comm)) || 0) + task.ns);
    const names = [...sums].sort((a, b) => b[1] - a[1]).map(([name]) => name);
    data.names = names;
    data.byTask = colouring === "task" || names.length < 2;
    const rank = new Map(names.map((name, i) => [name, Math.min(i, GROUPS - 1)]));
    data.group = Uint8Array.from(data.named, (task, i) => (i < 2 ? 255 : data.byTask ? (i * 5) % GROUPS : rank.get(stem(task.comm))));
    data.bins = null;
  }

  // Returns the index of the first segment that ends after `time`.
  function find(row, time) {
    let [low, high] = [0, row.n];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row.end[middle] <= time) low = middle + 1; else high = middle;
    }
    return low;
  }

  // Adds the time of each colour in [from, to) to `sums`. The index in `sums` is column * (GROUPS +
  // 1) + colour. The last colour is the time while the CPU was offline.
  function walk(data, row, from, to, columns, sums) {
    const scale = columns / (to - from);
    let i = find(row, from);
    let begin = i ? row.end[i - 1] : 0;
    for (; i < row.n && begin < to; i++) {
      const end = row.end[i], task = row.task[i];
      const colour = task === 1 ? GROUPS : task === 0 ? -1 : data.group[task];
      const weight = task === 1 ? 1 : row.busy[i] / 255;
      if (colour >= 0 && weight > 0) {
        const a = Math.max(0, (begin - from) * scale), b = Math.min(columns, (end - from) * scale);
        for (let x = Math.floor(a); x < b; x++) sums[x * (GROUPS + 1) + colour] += (Math.min(b, x + 1) - Math.max(a, x)) * weight;
      }
      begin = end;
    }
  }

  function makeBins(data) {
    const n = Math.max(512, Math.floor(BINS / data.cpus.length));
    data.bins = data.cpus.map((row) => {
      const sums = new Float32Array(n * (GROUPS + 1));
      walk(data, row, 0, wt.end, n, sums);
      return sums;
    });
    data.nbins = n;
  }

  function columnsOf(data, cpu, columns) {
    const sums = new Float32Array(columns * (GROUPS + 1));
    const { from, to } = view;
    if (!data.coarse) {
      walk(data, data.cpus[cpu], from, to, columns, sums);
      return sums;
    }
    const bins = data.bins[cpu], perBin = wt.end / data.nbins, perColumn = (to - from) / columns;
    for (let x = 0; x < columns; x++) {
      const first = Math.floor((from + x * perColumn) / perBin);
      const last = Math.min(data.nbins, Math.max(first + 1, Math.floor((from + (x + 1) * perColumn) / perBin)));
      for (let bin = first; bin < last; bin++)
        for (let g = 0; g <= GROUPS; g++) sums[x * (GROUPS + 1) + g] += bins[bin * (GROUPS + 1) + g] / (last - first);
    }
    return sums;
  }

  function ticks(from, to, most) {
    const raw = (to - from) / most, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= raw);
    const all = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) all.push(at);
    return { all, step };
  }

  function rowHeight(cpus) {
    const shown = wt.runs.reduce((sum, run, i) => sum + (wt.hidden.has(i) ? 0 : run.places.length), 0);
    return Math.max(cpus > 64 ? 5 : 8, Math.min(22, Math.floor(1300 / shown)));
  }

  function draw(chart) {
    const { canvas, run, data } = chart;
    if (!data || chart.figure.classList.contains("off")) return;
    const width = chart.plot.clientWidth, height = rowHeight(run.places.length);
    const rows = run.places.length, top = 20, gap = height > 9 ? 2 : 1;
    chart.geometry = { width, height, top, columns: Math.max(1, width - GUTTER) };
    const context = wt.surface(canvas, width, top + rows * height + 2);
    const [text, muted, line] = ["--text", "--muted", "--line"].map(wt.css);
    context.font = "11px " + wt.css("--sans");
    context.textBaseline = "middle";
    const { columns } = chart.geometry, x = (time) => GUTTER + ((time - view.from) / (view.to - view.from)) * columns;
    const { all, step } = ticks(view.from, view.to, Math.max(2, columns / 110));
    context.fillStyle = muted;
    context.textAlign = "center";
    for (const at of all) if (x(at) > GUTTER - 4 && x(at) < width - 24) context.fillText(wt.time(at, step), x(at), 8);
    let inSight = 0;
    for (const row of data.cpus) inSight += find(row, view.to) - find(row, view.from);
    data.coarse = inSight > WALK;
    if (data.coarse && !data.bins) makeBins(data);
    const past = Math.max(0, Math.min(columns, x(run.end) - GUTTER));
    drawRows(context, chart, past, rows, height, gap);
    for (let row = 0; row < rows; row++) label(context, run, row, top + row * height, height, { text, muted, line, width });
    if (!data.coarse) names(context, chart, x, top, height, gap);
    if (chart.cursor) cursor(context, chart, x, top, height);
    context.strokeStyle = line;
    context.beginPath();
    for (const at of all) { context.moveTo(Math.round(x(at)) + 0.5, top - 4); context.lineTo(Math.round(x(at)) + 0.5, top - 1); }
    context.stroke();
  }

  // Converts a colour of the form #rrggbb to a pixel.
  function pixel(hex) {
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  }

  // Draws all rows as one image with one column per pixel of the screen. The colours fill a column
  // from below in proportion to their times. Idle time stays empty.
  function drawRows(context, chart, past, rows, height, gap) {
    const { canvas, run, data, geometry } = chart, scale = canvas.width / geometry.width, n = GROUPS + 1;
    const columns = Math.max(1, Math.round(geometry.columns * scale)), tall = Math.max(1, Math.round(rows * height * scale));
    const image = context.createImageData(columns, tall), pixels = new Uint32Array(image.data.buffer);
    const colours = [...Array(GROUPS).keys()].map((g) => wt.css(`--group-${g}`)).concat(wt.css("--offline")).map(pixel);
    const empty = pixel(wt.css("--empty")), reached = Math.min(columns, Math.ceil(past * scale));
    for (let row = 0; row < rows; row++) {
      const sums = columnsOf(data, run.order[row], columns);
      const top = Math.round(row * height * scale), room = Math.max(1, Math.round((height - gap) * scale));
      for (let x = 0; x < reached; x++) {
        let share = 0, y = top + room - 1;
        for (let g = 0; g < n; g++) {
          const own = sums[x * n + g];
          if (own <= 0) continue;
          share += own;
          const until = top + room - 1 - Math.round(Math.min(1, share) * room);
          for (; y > until; y--) pixels[y * columns + x] = colours[g];
        }
        for (; y >= top; y--) pixels[y * columns + x] = empty;
      }
    }
    context.putImageData(image, Math.round(GUTTER * scale), Math.round(geometry.top * scale));
  }

  // Draws the number of a CPU. Where an LLC or node begins, also draws a line and its name.
  function label(context, run, row, y, height, { text, muted, line, width }) {
    const cpu = run.order[row], place = run.places[cpu], before = run.places[run.order[row - 1]];
    const node = before && place[2] !== before[2], llc = before && place[1] !== before[1];
    if (node || llc) {
      context.fillStyle = node ? text : line;
      context.fillRect(node ? 0 : 34, y - 1.5, node ? width : width - 34, 1);
    }
    const every = height >= 11 ? 1 : height >= 8 ? 2 : 4;
    context.textAlign = "right";
    context.fillStyle = muted;
    if (row % every === 0) context.fillText(String(cpu), GUTTER - 8, y + height / 2);
    const nodes = new Set(run.places.map((place) => place[2])).size;
    context.textAlign = "left";
    if (nodes > 1 && (!before || node)) context.fillText(`node ${place[2]}`, 0, y + 6);
    else if (nodes === 1 && row === 0) context.fillText("CPU", 0, y + 6);
  }

  // Marks where turns (the times from one switch to the next) begin, and writes names into wide
  // turns.
  function names(context, { run, data, geometry }, x, top, height, gap) {
    const [ink, edge] = ["--on-group", "--card"].map(wt.css);
    context.font = `${Math.min(11, height - 3)}px ` + wt.css("--sans");
    context.textAlign = "left";
    for (let at = 0; at < run.places.length; at++) {
      const row = data.cpus[run.order[at]];
      for (let i = find(row, view.from); i < row.n; i++) {
        const a = Math.max(GUTTER, x(i ? row.end[i - 1] : 0)), b = Math.min(geometry.width, x(row.end[i]));
        if (a >= geometry.width) break;
        if (b - a < 8 || row.task[i] < 2) continue;
        context.fillStyle = edge;
        if (a > GUTTER && !wt.printing) context.fillRect(Math.round(a) - 0.5, top + at * height, 1, height - gap);
        if (b - a < 26 || row.turns[i] > 1 || height < 12) continue;
        context.fillStyle = ink;
        const task = data.named[row.task[i]], full = `${task.comm} ${task.pid}`;
        for (const name of [full, task.comm, String(task.pid)]) {
          if (context.measureText(name).width < b - a - 6) {
            context.fillText(name, a + 3, top + at * height + (height - gap) / 2 + 0.5);
            break;
          }
        }
      }
    }
  }

  function cursor(context, chart, x, top, height) {
    const { row, time } = chart.cursor, at = x(time);
    context.strokeStyle = wt.css("--accent");
    context.lineWidth = 1.5;
    context.strokeRect(GUTTER - 24, top + row * height - 1.5, 20, height + 0.5);
    if (at < GUTTER) return;
    context.beginPath();
    context.moveTo(at, top - 4);
    context.lineTo(at, top + chart.run.places.length * height);
    context.stroke();
    context.lineWidth = 1;
  }

  // Returns the contents of the tooltip for a CPU at a time.
  function describe(chart, cpu, time) {
    const { run, data } = chart, row = data.cpus[cpu], [core, llc, node] = run.places[cpu];
    const i = Math.min(find(row, time), row.n - 1);
    if (i < 0) return null;
    const begin = i ? row.end[i - 1] : 0, length = row.end[i] - begin;
    const task = data.named[row.task[i]], step = Math.min(length / 2, (view.to - view.from) / 500);
    const rows = [["from", wt.time(begin, step)], ["for", wt.time(length)], ["position", `core ${core}, LLC ${llc}, node ${node}`]];
    let head = `CPU ${cpu}: ${task.comm}${row.task[i] > 1 ? " " + task.pid : ""}`;
    if (row.turns[i] > 1) {
      head = `CPU ${cpu}: ${row.turns[i]} turns, mostly ${task.comm}`;
      rows.push(["busy", Math.round((row.busy[i] / 255) * 100) + " %"]);
    }
    return { head, rows, begin, end: row.end[i], i };
  }

  function place(chart, event) {
    const box = chart.canvas.getBoundingClientRect(), { columns, top, height } = chart.geometry;
    return {
      time: view.from + ((event.clientX - box.left - GUTTER) / columns) * (view.to - view.from),
      cpu: chart.run.order[Math.floor((event.clientY - box.top - top) / height)],
      inside: event.clientX - box.left >= GUTTER,
    };
  }

  function pointer(chart) {
    const { canvas } = chart;
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !chart.geometry) return;
      drag = { x: event.clientX, from: view.from, to: view.to, time: place(chart, event).time, select: event.shiftKey };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!chart.geometry) return;
      const at = place(chart, event);
      if (drag && drag.select) {
        chart.band.hidden = false;
        const box = canvas.getBoundingClientRect();
        chart.band.style.left = Math.min(drag.x, event.clientX) - box.left + "px";
        chart.band.style.width = Math.abs(event.clientX - drag.x) + "px";
      } else if (drag) {
        const by = ((drag.x - event.clientX) / chart.geometry.columns) * (drag.to - drag.from);
        const kept = Math.max(-drag.from, Math.min(wt.end - drag.to, by));
        wt.show(drag.from + kept, drag.to + kept);
      }
      const text = at.inside && at.cpu !== undefined && at.time < chart.run.end && describe(chart, at.cpu, at.time);
      wt.showTip(text && !drag ? wt.tipTable(text.head, text.rows) : null, event.clientX, event.clientY, canvas);
    });
    const done = (event) => {
      if (drag && drag.select && Math.abs(event.clientX - drag.x) > 3) {
        const { time } = place(chart, event);
        wt.show(Math.min(time, drag.time), Math.max(time, drag.time));
      }
      chart.band.hidden = true;
      drag = null;
    };
    canvas.addEventListener("pointerup", done);
    canvas.addEventListener("pointercancel", () => { drag = null; chart.band.hidden = true; });
    canvas.addEventListener("pointerleave", () => wt.showTip(null));
    canvas.addEventListener("dblclick", (event) => wt.zoom(0.25, place(chart, event).time));
    canvas.addEventListener("wheel", (event) => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        wt.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.01), place(chart, event).time);
      } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        wt.pan(event.deltaX / chart.geometry.columns);
      }
    }, { passive: false });
  }

  // Handles keys. Up and down choose a CPU. Full stop and comma move to the next and the previous
  // turn.
  function keys(chart, event) {
    if (wt.viewKeys(event)) return;
    const steps = { ArrowUp: -1, ArrowDown: 1, ".": 0, ",": 0 };
    if (!(event.key in steps) || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const cursor = chart.cursor || { row: 0, time: (view.from + view.to) / 2 };
    const last = chart.run.places.length - 1;
    cursor.row = Math.max(0, Math.min(last, cursor.row + steps[event.key]));
    const cpu = chart.run.order[cursor.row];
    if (cursor.time < view.from || cursor.time > view.to) cursor.time = (view.from + view.to) / 2;
    const here = describe(chart, cpu, cursor.time);
    if (here && event.key === ".") cursor.time = Math.min(here.end, chart.run.end - 1);
    if (here && event.key === ",") cursor.time = describe(chart, cpu, Math.max(0, here.begin - 1)).begin;
    chart.cursor = cursor;
    const width = view.to - view.from;
    if (cursor.time > view.to || cursor.time < view.from) wt.show(cursor.time - width / 2, cursor.time + width / 2);
    showCursor(chart);
  }

  function showCursor(chart) {
    draw(chart);
    const text = describe(chart, chart.run.order[chart.cursor.row], chart.cursor.time);
    const box = chart.canvas.getBoundingClientRect(), { columns, top, height } = chart.geometry;
    const x = box.left + GUTTER + ((chart.cursor.time - view.from) / (view.to - view.from)) * columns;
    if (text) wt.showTip(wt.tipTable(text.head, text.rows), x, box.top + top + chart.cursor.row * height);
  }

  // Moves all charts to a time, and the cursor to a CPU of a run.
  function go(index, time, cpu, width) {
    const chart = charts[index];
    wt.show(time - width / 2, time + width / 2);
    chart.cursor = { row: chart.run.order.indexOf(cpu), time };
    chart.canvas.focus();
    // Not smoothly: the position of the tooltip is that of the chart after the scroll.
    chart.figure.scrollIntoView({ block: "center", behavior: "instant" });
    showCursor(chart);
  }

  function legend(chart) {
    const { data } = chart;
    const entry = (g, name) => element("span", { class: "key" }, element("i", { style: `background:var(--group-${g})` }), name);
    const shown = data.byTask ? [] : data.names.slice(0, GROUPS - 1).map((name, g) => entry(g, name));
    if (!data.byTask && data.names.length >= GROUPS)
      shown.push(entry(GROUPS - 1, data.names.length === GROUPS ? data.names[GROUPS - 1] : `${data.names.length - GROUPS + 1} more names`));
    if (data.byTask) shown.push(`${data.named.length - 2} tasks`);
    if (chart.run.timeline.quantum)
      shown.push(element("span", {}, `turns shorter than ${wt.time(chart.run.timeline.quantum)} are merged with their neighbours`));
    chart.legend.replaceChildren(...shown);
  }

  async function start() {
    const figures = document.querySelectorAll("figure.tl");
    for (const [i, run] of wt.runs.entries()) {
      const figure = figures[i], plot = figure.querySelector(".plot");
      const canvas = element("canvas", { tabindex: 0, role: "application", class: "timeline",
        "aria-label": `Timeline of ${run.label}; left and right move, plus and minus zoom, up and down choose a CPU, comma and full stop move to the previous and next turn` });
      const band = element("div", { class: "band", hidden: true });
      const key = element("div", { class: "keys" });
      figure.querySelector("figcaption").append(key);
      plot.append(canvas, band);
      const chart = { run, figure, plot, canvas, band, legend: key, data: null, cursor: null };
      charts.push(chart);
      canvas.addEventListener("keydown", (event) => keys(chart, event));
      canvas.addEventListener("blur", () => { chart.cursor = null; wt.showTip(null); draw(chart); });
      pointer(chart);
    }
    const redraw = () => charts.forEach(draw);
    wt.on("view", wt.later(redraw));
    wt.on("theme", redraw);
    wt.on("runs", redraw);
    for (const chart of charts) {
      chart.data = await load(chart.run);
      paint(chart.data);
      legend(chart);
      draw(chart);
    }
    tools();
  }

  function tools() {
    const button = (text, label, act) => element("button", { type: "button", title: label, "aria-label": label, onclick: act }, text);
    const where = element("output", { id: "tl-where" });
    const update = () => {
      const step = (view.to - view.from) / 1000;
      where.textContent = `${wt.time(view.from, step)} to ${wt.time(view.to, step)}, ${wt.time(view.to - view.from)} wide`;
    };
    wt.on("view", update);
    update();
    const several = charts.some((chart) => chart.data.names.length > 1);
    document.getElementById("tl-tools").append(
      element("div", { class: "buttons", role: "group", "aria-label": "Window" },
        button("−", "Zoom out (−)", () => wt.zoom(2)), button("+", "Zoom in (+)", () => wt.zoom(0.5)),
        button("‹", "Earlier (←)", () => wt.pan(-0.5)), button("›", "Later (→)", () => wt.pan(0.5)),
        button("All", "The whole run (0)", () => wt.show(0, wt.end))), where,
      ...(several ? [wt.choice("Colours", [["name", "by name"], ["task", "by task"]], "name", (value) => {
        colouring = value;
        charts.forEach((chart) => { paint(chart.data); legend(chart); draw(chart); });
      })] : []));
  }

  return { start, go, redraw: () => charts.forEach(draw), task: (run, index) => charts[run].data.named[index] };
})();
