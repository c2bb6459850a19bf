// SPDX-License-Identifier: GPL-2.0-only
// Heat maps of migrations between CPUs, LLCs or nodes, and strips that show how runqueue lengths
// deviate from the mean.
"use strict";
wt.heat = (() => {
  const { element, runs, view } = wt;
  const GUTTER = 74;
  const strips = [], maps = [];
  let level = "cpu";

  // Mixes two colours of the form #rrggbb. `share` is 0 for the first colour and 1 for the second.
  function mix(from, to, share) {
    const parts = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    const [a, b] = [parts(from), parts(to)];
    return `rgb(${a.map((v, i) => Math.round(v + (b[i] - v) * share)).join(",")})`;
  }
  function ramp(stops, share) {
    const at = Math.max(0, Math.min(1, share)) * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(at));
    return mix(stops[i], stops[i + 1], at - i);
  }
  // Number of steps in a colour ramp. Each drawing computes its ramps once.
  const STEPS = 128;
  const steps = (names) => {
    const stops = names.map(wt.css);
    return Array.from({ length: STEPS + 1 }, (_, i) => ramp(stops, i / STEPS));
  };
  const pixelOf = (rgb) => {
    const [r, g, b] = rgb.slice(4, -1).split(",").map(Number);
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  };
  const sequential = () => steps(["--seq-0", "--seq-1", "--seq-2", "--seq-3"]);
  const diverging = () => steps(["--low", "--zero", "--high"]);
  const pick = (made, share) => made[Math.round(Math.max(0, Math.min(1, share)) * STEPS)];

  // Returns the CPUs, LLCs or nodes, and a matrix of the migrations between them. The diagonal
  // contains the migrations within one LLC or node.
  function gather(run) {
    const part = { cpu: (cpu) => cpu, llc: (cpu) => run.places[cpu][1], node: (cpu) => run.places[cpu][2] }[level];
    const ids = [...new Set(run.order.map(part))];
    const rank = new Map(ids.map((id, i) => [id, i]));
    const matrix = ids.map(() => new Float64Array(ids.length));
    for (const [from, to, n] of run.migrations) matrix[rank.get(part(from))][rank.get(part(to))] += n;
    // An LLC or node has the position of its first CPU.
    const places = ids.map((id) => run.places[run.places.findIndex((_, cpu) => part(cpu) === id)]);
    return { ids, matrix, places };
  }

  function drawAll() {
    const all = runs.map(gather);
    const most = Math.max(1, ...all.flatMap(({ matrix }) => matrix.map((row) => Math.max(...row))));
    maps.forEach((map, i) => {
      if (map.figure.classList.contains("off")) return;
      map.shown = all[i];
      draw(map, most);
    });
  }

  function draw(map, most) {
    const { ids, matrix, places } = map.shown, n = ids.length;
    const room = Math.min(map.plot.clientWidth || 300, 460) - 30;
    const size = Math.max(2, Math.min(46, Math.floor(room / n)));
    const [left, top] = [28, 18];
    map.geometry = { size, left, top };
    const context = wt.surface(map.canvas, left + n * size + 2, top + n * size + 2);
    const stops = sequential(), text = wt.css("--muted"), empty = wt.css("--empty");
    context.font = "10px " + wt.css("--sans");
    context.textBaseline = "middle";
    const every = Math.max(1, Math.ceil(12 / size)), across = Math.max(1, Math.ceil(18 / size));
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < n; j++) {
        const value = matrix[i][j];
        // The scale is logarithmic, so that a single migration is visible next to cells with
        // thousands.
        context.fillStyle = value ? pick(stops, (Math.log(value) + 0.6) / (Math.log(most) + 0.6)) : empty;
        context.fillRect(left + j * size, top + i * size, size - (size > 5 ? 1 : 0), size - (size > 5 ? 1 : 0));
        if (size >= 34 && value) {
          context.fillStyle = Math.log(value) / Math.log(most + 1) > 0.55 ? wt.css("--on-seq") : wt.css("--text");
          context.textAlign = "center";
          context.fillText(wt.count(value), left + (j + 0.5) * size, top + (i + 0.5) * size);
        }
      }
      if (i % every === 0) {
        context.fillStyle = text;
        context.textAlign = "right";
        context.fillText(String(ids[i]), left - 5, top + (i + 0.5) * size);
      }
      if (i % across === 0) {
        context.fillStyle = text;
        context.textAlign = "center";
        context.fillText(String(ids[i]), left + (i + 0.5) * size, top - 8);
      }
    }
    for (let i = 1; i < n; i++) {
      const node = places[i][2] !== places[i - 1][2], llc = places[i][1] !== places[i - 1][1];
      if (level === "node" || !(node || (llc && level === "cpu"))) continue;
      context.fillStyle = node ? wt.css("--text") : wt.css("--muted");
      const width = node ? 1.5 : 0.75, at = i * size - (size > 5 ? 0.5 : 0) - width / 2;
      context.fillRect(left, top + at, n * size, width);
      context.fillRect(left + at, top, width, n * size);
    }
  }

  function hover(map, event) {
    const box = map.canvas.getBoundingClientRect(), { size, left, top } = map.geometry;
    cell(map, Math.floor((event.clientY - box.top - top) / size), Math.floor((event.clientX - box.left - left) / size), event.clientX, event.clientY, map.canvas);
  }
  function cell(map, i, j, x, y, owner) {
    const { ids, matrix } = map.shown, word = { cpu: "CPU", llc: "LLC", node: "node" }[level];
    if (!(i in ids) || !(j in ids)) { wt.showTip(null); return; }
    const back = matrix[j][i], rows = [["migrations", wt.count(matrix[i][j])]];
    if (i !== j) rows.push(["in the other direction", wt.count(back)]);
    wt.showTip(wt.tipTable(i === j ? `within ${word} ${ids[i]}` : `${word} ${ids[i]} → ${word} ${ids[j]}`, rows), x, y, owner);
  }
  function keys(map, event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!steps) return;
    event.preventDefault();
    const last = map.shown.ids.length - 1, clip = (v) => Math.max(0, Math.min(last, v));
    map.at = map.at ? [clip(map.at[0] + steps[0]), clip(map.at[1] + steps[1])] : [0, 0];
    const box = map.canvas.getBoundingClientRect(), { size, left, top } = map.geometry;
    cell(map, ...map.at, box.left + left + (map.at[1] + 1) * size, box.top + top + (map.at[0] + 0.5) * size);
  }

  // Draws a strip with one row per CPU. The colour shows how much the CPU's runqueue length
  // deviates from the mean.
  function strip(holder, run, data, most, format) {
    const canvas = element("canvas", { tabindex: 0, role: "img", "aria-label": `Deviation of each CPU's runqueue from the mean, ${run.label}` });
    const key = element("p", { class: "legend" });
    holder.append(canvas, key);
    const one = { draw: drawStrip, redraw: wt.visible(holder, () => drawStrip()) };
    strips.push(one);
    let shown = null;
    function drawStrip() {
      if (holder.closest(".off")) return;
      shown = data();
      const rows = run.places.length, height = Math.max(3, Math.min(12, Math.floor((wt.printing ? 180 : 300) / rows)));
      const width = holder.clientWidth || 600, columns = width - GUTTER, top = 2;
      const context = wt.surface(canvas, width, top + rows * height + 16), stops = diverging();
      const { xs } = shown, n = xs.length - 1;
      context.font = "11px " + wt.css("--sans");
      context.textBaseline = "middle";
      const every = Math.max(1, Math.ceil(12 / height));
      // All rows are one image, because a machine can have very many cells.
      const scale = canvas.width / width, wide = Math.max(1, Math.round(columns * scale)), tall = Math.max(1, Math.round(rows * height * scale));
      const image = context.createImageData(wide, tall), pixels = new Uint32Array(image.data.buffer), ramp = stops.map(pixelOf);
      // The rows are in the order of `run.order`.
      for (let cpu = 0; cpu < rows; cpu++) {
        const from = Math.round(cpu * height * scale), to = Math.round(((cpu + 1) * height - (height > 5 ? 0.5 : 0)) * scale);
        for (let i = 0; i < n; i++) {
          const value = shown.rows[run.order[cpu]][i];
          if (value === null) break;
          // The square root makes small deviations visible.
          const share = Math.sign(value) * Math.sqrt(Math.min(1, Math.abs(value) / most)), colour = pick(ramp, 0.5 + share / 2);
          const a = Math.round((wide * i) / n), b = Math.round((wide * (i + 1)) / n);
          for (let y = from; y < to; y++) pixels.fill(colour, y * wide + a, y * wide + b);
        }
      }
      context.putImageData(image, Math.round(GUTTER * scale), Math.round(top * scale));
      for (let cpu = 0; cpu < rows; cpu++) {
        context.fillStyle = wt.css("--muted");
        context.textAlign = "right";
        if (cpu % every === 0) context.fillText(String(run.order[cpu]), GUTTER - 8, top + (cpu + 0.5) * height);
        if (cpu && run.places[run.order[cpu]][2] !== run.places[run.order[cpu - 1]][2]) {
          context.fillStyle = wt.css("--text");
          context.fillRect(GUTTER, top + cpu * height - 0.75, Math.round(columns * Math.min(1, (run.end - xs[0]) / (xs[n] - xs[0]))), 1);
        }
      }
      context.fillStyle = wt.css("--muted");
      context.textAlign = "left";
      context.fillText("CPU", 0, top + 6);
      context.fillText(wt.time(view.from, (view.to - view.from) / 100), GUTTER, top + rows * height + 9);
      context.textAlign = "right";
      context.fillText(wt.time(view.to, (view.to - view.from) / 100), width, top + rows * height + 9);
      one.geometry = { height, top, columns, n };
      key.replaceChildren("Colours: ", swatch("--low"), `${format(-most)} tasks or less, `, swatch("--zero"), "the mean, ", swatch("--high"), `${format(most)} tasks or more.`);
    }
    const swatch = (name) => element("i", { class: "swatch", style: `background:var(${name})` });
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect(), { height, top, columns, n } = one.geometry;
      const cpu = run.order[Math.floor((event.clientY - box.top - top) / height)];
      const i = Math.floor(((event.clientX - box.left - GUTTER) / columns) * n);
      const row = shown.rows[cpu];
      if (!row || i < 0 || i >= n || row[i] === null) { wt.showTip(null); return; }
      wt.showTip(wt.tipTable(`CPU ${cpu} at ${wt.time(shown.xs[i], (view.to - view.from) / 1000)}`, [["deviation", format(row[i])]]), event.clientX, event.clientY, canvas);
    });
    canvas.addEventListener("pointerleave", () => wt.showTip(null));
    canvas.addEventListener("keydown", wt.viewKeys);
    new ResizeObserver(wt.later(drawStrip)).observe(holder);
    drawStrip();
  }

  function start() {
    const figures = document.querySelectorAll("figure.heat");
    runs.forEach((run, i) => {
      const plot = figures[i].querySelector(".plot");
      const canvas = element("canvas", { tabindex: 0, role: "img", "aria-label": `Migrations of ${run.label}; use the arrow keys to move between cells` });
      plot.append(canvas);
      const map = { figure: figures[i], plot, canvas, at: null };
      maps.push(map);
      canvas.addEventListener("pointermove", (event) => hover(map, event));
      canvas.addEventListener("pointerleave", () => wt.showTip(null));
      canvas.addEventListener("keydown", (event) => keys(map, event));
      canvas.addEventListener("blur", () => { map.at = null; wt.showTip(null); });
    });
    const several = (level) => runs.some((run) => new Set(run.places.map((place) => place[level])).size > 1);
    const levels = [["cpu", "CPUs"], ...(several(1) ? [["llc", "LLCs"]] : []), ...(several(2) ? [["node", "nodes"]] : [])];
    if (levels.length > 1) {
      document.getElementById("heat-tools").append(wt.choice("Between", levels, "cpu", (value) => { level = value; drawAll(); }));
    }
    drawAll();
    wt.on("view", () => strips.forEach((one) => one.redraw()));
    wt.on("theme", redraw);
    wt.on("runs", redraw);
    addEventListener("resize", wt.later(drawAll));
  }
  const redraw = () => { drawAll(); strips.forEach((one) => one.draw()); };

  return { start, strip, redraw };
})();
