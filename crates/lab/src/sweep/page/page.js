// SPDX-License-Identifier: GPL-2.0-only
// Draws the charts of a sweep's page. All texts of inputs are inserted as text nodes or attributes,
// never as markup.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const NS = "http://www.w3.org/2000/svg";

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value); else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }
  function svg(name, attributes = {}, ...children) {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value); else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }
  const titled = (text) => svg("title", {}, text);

  function time(ns) {
    const size = Math.abs(ns);
    const [unit, name] = size < 1e3 ? [1, "ns"] : size < 1e6 ? [1e3, "µs"] : size < 1e9 ? [1e6, "ms"] : [1e9, "s"];
    return (ns / unit).toPrecision(3) + " " + name;
  }
  function plain(value) {
    const size = Math.abs(value);
    if (size >= 1e9) return (value / 1e9).toPrecision(3) + "G";
    if (size >= 1e6) return (value / 1e6).toPrecision(3) + "M";
    if (size >= 1e4) return (value / 1e3).toPrecision(3) + "k";
    return String(Number(value.toPrecision(3)));
  }
  const text = (metric, value, place) => {
    const unit = data.metrics[metric].unit;
    if (unit === "ns") return time(value);
    if (unit === "score" && data.places[place].score_unit === "s") return time(value * 1e9);
    return plain(value) + (unit === "score" ? " " + data.places[place].score_unit : unit === "%" ? " %" : "");
  };
  const better = (metric, place) => metric === 0 ? data.places[place].better : data.metrics[metric].better;
  const place = (index) => `${data.places[index].workload} on ${data.places[index].machine}`;
  const policies = [...new Set(data.configurations.map((one) => one.policy))];
  const colour = (configuration) => `var(--run-${policies.indexOf(data.configurations[configuration].policy) % 8})`;
  const known = data.metrics.map((_, metric) => metric).filter((metric) => data.cells.some((cell) => cell.mean[metric] !== null));

  // Shows the command of a cell below the heat map.
  function showCommand(cell) {
    const line = byId("command");
    line.hidden = false;
    line.querySelector("code").textContent = cell.command;
    line.scrollIntoView({ block: "nearest" });
  }
  byId("command").querySelector("button").addEventListener("click", () => {
    const command = byId("command").querySelector("code").textContent;
    if (navigator.clipboard) navigator.clipboard.writeText(command).catch(() => {});
  });

  // Creates a selection of metrics, and calls `change` with the chosen one.
  function choose(tools, label, metrics, chosen, change) {
    const select = element("select", { onchange: () => change(Number(select.value)) },
      ...metrics.map((metric) => element("option", { value: metric }, data.metrics[metric].name)));
    select.value = chosen;
    byId(tools).append(element("label", {}, label + " ", select));
  }

  // Lets the browser break a long name after commas and colons.
  const breakable = (name) => name.split(/(?<=[,:])/).flatMap((part) => [part, element("wbr")]);

  function heat(metric) {
    const columns = data.places.map((_, index) => data.cells.filter((cell) => cell.place === index && cell.mean[metric] !== null));
    // 0 is the best value of a column, and 1 the worst. Colours follow the logarithm of the ratio,
    // so that doubling has the same effect everywhere.
    const share = (cell) => {
      const values = columns[cell.place].map((one) => one.mean[metric]);
      const [low, high] = [Math.min(...values), Math.max(...values)];
      if (low === high) return 0;
      const scale = low > 0 ? Math.log : (value) => value;
      const from = (scale(cell.mean[metric]) - scale(low)) / (scale(high) - scale(low));
      return better(metric, cell.place) > 0 ? 1 - from : from;
    };
    const head = element("tr", {}, element("th", {}, ""), ...data.places.map((one) =>
      element("th", { scope: "col" }, ...breakable(one.workload), element("small", {}, "on " + one.machine))));
    const rows = data.configurations.map((one, configuration) => element("tr", {}, element("th", { scope: "row" }, one.label),
      ...data.places.map((_, index) => {
        const cell = data.cells.find((other) => other.configuration === configuration && other.place === index);
        if (!cell) return element("td", {});
        const value = cell.mean[metric];
        if (value === null) {
          const why = cell.failure === null ? "no value" : cell.failure;
          return element("td", {}, element("button", { type: "button", class: "none", title: why, onclick: () => showCommand(cell) }, cell.failed > 0 ? "failed" : "–"));
        }
        const half = cell.half[metric];
        const about = `${one.label}, ${place(index)}: ${text(metric, value, index)}` +
          (half === null ? "" : ` ± ${text(metric, half, index)}`) + `, ${cell.runs} runs`;
        const shade = share(cell);
        const background = better(metric, index) === 0 ? `hsl(210 55% ${90 - 35 * shade}%)` : `hsl(${150 - 130 * shade} 60% ${74 - 6 * shade}%)`;
        return element("td", {}, element("button", { type: "button", title: about, style: `background:${background}`, onclick: () => showCommand(cell) }, text(metric, value, index)));
      })));
    byId("heat-body").replaceChildren(element("table", { class: "grid" }, element("thead", {}, head), element("tbody", {}, ...rows)));
  }

  // Returns a function from values to coordinates. The range of the values gets a margin.
  function scale(values, from, to, logarithmic) {
    const f = logarithmic ? Math.log : (value) => value;
    let [low, high] = [Math.min(...values.map(f)), Math.max(...values.map(f))];
    if (!(high > low)) { low -= 0.5; high += 0.5; }
    return (value) => from + (f(value) - low) / (high - low) * (to - from);
  }

  const compared = known.filter((metric) => data.configurations.some((one) => one.relative[metric] !== null));
  function pareto(x, y) {
    const points = data.configurations.map((one, index) => ({ index, x: one.relative[x], y: one.relative[y], label: one.label }))
      .filter((point) => point.x !== null && point.y !== null);
    const body = byId("pareto-body");
    if (points.length === 0) { body.replaceChildren(element("p", { class: "empty" }, "No configuration has both figures everywhere.")); return; }
    const front = points.filter((one) => !points.some((other) =>
      other.x <= one.x && other.y <= one.y && (other.x < one.x || other.y < one.y))).sort((a, b) => a.x - b.x || a.y - b.y);
    const [width, height] = [900, 360];
    const across = scale(points.map((point) => point.x), 70, width - 160, true);
    const down = scale(points.map((point) => point.y), height - 45, 44, true);
    const path = front.map((point, index) => (index ? `H${across(point.x)}V${down(point.y)}` : `M${across(point.x)} ${down(point.y)}`)).join("");
    const on = new Set(front.map((point) => point.index));
    const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Pareto front" },
      svg("path", { class: "axis-line", d: `M60 24V${height - 35}H${width - 150}` }),
      svg("text", { x: 60, y: height - 12 }, `${data.metrics[x].name}: times the best (left is better)`),
      svg("text", { x: 12, y: 12 }, `${data.metrics[y].name}: times the best (down is better)`),
      svg("path", { class: "front", d: path }),
      ...points.map((point) => svg("circle", { class: "dot", cx: across(point.x), cy: down(point.y), r: on.has(point.index) ? 6 : 4, fill: colour(point.index),
        onclick: () => showCommand(data.cells.find((cell) => cell.configuration === point.index)) },
        titled(`${point.label}: ${point.x.toFixed(3)}, ${point.y.toFixed(3)}`))),
      ...front.map((point) => svg("text", { class: "name", x: across(point.x) + 9, y: down(point.y) - 5 }, point.label)));
    body.replaceChildren(drawing);
  }

  function effects(metric) {
    const drawn = data.effects.filter((effect) => effect.values[metric].some((level) => level !== null)).map((effect) => {
      const rows = effect.levels.map((level, index) => [level, effect.values[metric][index]]).filter(([, found]) => found !== null);
      const ends = rows.flatMap(([, found]) => [found.ratio, found.low ?? found.ratio, found.high ?? found.ratio, 1]);
      const across = scale(ends, 240, 700, true);
      const height = 24 * rows.length + 12;
      return element("div", {}, element("h3", {}, effect.factor), svg("svg", { class: "chart", viewBox: `0 0 900 ${height}`, role: "img", "aria-label": `Effect of ${effect.factor}` },
        svg("path", { class: "axis-line", d: `M${across(1)} 0V${height}` }),
        ...rows.flatMap(([level, found], row) => {
          const y = 24 * row + 16;
          const percent = (ratio) => `${ratio >= 1 ? "+" : "−"}${Math.abs(100 * (ratio - 1)).toFixed(1)} %`;
          const interval = found.low === null ? "" : ` (${percent(found.low)} to ${percent(found.high)})`;
          return [
            svg("text", { class: "name", x: 0, y: y + 4 }, level.length > 34 ? level.slice(0, 33) + "…" : level),
            ...(found.low === null ? [] : [svg("path", { class: "interval", d: `M${across(found.low)} ${y}H${across(found.high)}` })]),
            svg("circle", { class: "dot", cx: across(found.ratio), cy: y, r: 5, fill: "var(--accent)" }, titled(`${found.blocks} blocks`)),
            svg("text", { x: 715, y: y + 4 }, percent(found.ratio) + interval),
          ];
        })));
    });
    byId("effects-body").replaceChildren(...(drawn.length ? drawn : [element("p", { class: "empty" }, "No factor has two levels that can be compared.")]));
  }

  // Axes are the factors with several levels, and the metrics that most readers look at.
  function parallel() {
    const names = [...new Set(data.configurations.flatMap((one) => Object.keys(one.set)))];
    const factors = [
      ["policy", (cell) => data.configurations[cell.configuration].policy],
      ["machine", (cell) => data.places[cell.place].machine],
      ["workload", (cell) => data.places[cell.place].workload],
      ...names.map((name) => [name, (cell) => data.configurations[cell.configuration].set[name] ?? "–"]),
    ].map(([name, value]) => ({ name, value, levels: [...new Set(data.cells.map(value))] })).filter((factor) => factor.levels.length > 1);
    const shown = ["p50_wakeup", "p99_wakeup", "migrations", "overhead", "idle_while_waiting"]
      .map((name) => data.metrics.findIndex((metric) => metric.name === name)).filter((metric) => known.includes(metric));
    const [width, height] = [1100, 340];
    const count = factors.length + shown.length;
    const x = (axis) => 40 + axis * (width - 130) / Math.max(1, count - 1);
    const axes = [
      ...factors.map((factor) => (cell) => 40 + (factor.levels.indexOf(factor.value(cell)) + 0.5) * (height - 70) / factor.levels.length),
      ...shown.map((metric) => {
        const values = data.cells.map((cell) => cell.mean[metric]).filter((value) => value !== null);
        const down = scale(values, height - 35, 45, values.every((value) => value > 0));
        return (cell) => cell.mean[metric] === null ? null : down(cell.mean[metric]);
      }),
    ];
    // So many lines are distinguishable; more only make the page slow.
    const lines = data.cells.slice(0, 2000).map((cell) => {
      const points = axes.map((axis, index) => [x(index), axis(cell)]).filter(([, y]) => y !== null);
      return svg("path", { class: "line", stroke: colour(cell.configuration), d: "M" + points.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join("L"),
        onclick: () => showCommand(cell) }, titled(`${data.configurations[cell.configuration].label}, ${place(cell.place)}`));
    });
    const labels = [
      ...factors.flatMap((factor, index) => factor.levels.slice(0, 24).map((level, at) =>
        svg("text", { x: x(index) + 5, y: 44 + (at + 0.5) * (height - 70) / factor.levels.length }, level.length > 22 ? level.slice(0, 21) + "…" : level))),
      ...shown.flatMap((metric, index) => {
        const values = data.cells.map((cell) => cell.mean[metric]).filter((value) => value !== null);
        return [[Math.max(...values), 40], [Math.min(...values), height - 22]].map(([value, y]) =>
          svg("text", { x: x(factors.length + index) + 5, y }, text(metric, value, 0)));
      }),
    ];
    const heads = [...factors.map((factor) => factor.name), ...shown.map((metric) => data.metrics[metric].name)];
    byId("parallel-body").replaceChildren(svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Parallel coordinates" },
      ...heads.flatMap((name, index) => [
        svg("path", { class: "axis-line", d: `M${x(index)} 30V${height - 25}` }),
        // The name of the last axis ends at the axis, because the drawing ends shortly after it.
        svg("text", { class: "name", x: x(index), y: 20, "text-anchor": index > 0 && index === count - 1 ? "end" : "start" }, name)]),
      ...lines, ...labels));
  }

  if (known.length > 0) {
    const first = known[0];
    choose("heat-tools", "figure", known, first, heat);
    heat(first);
    choose("effects-tools", "figure", known, first, effects);
    effects(first);
  } else heat(0);
  const axes = { x: compared[0], y: compared.find((metric) => data.metrics[metric].name === "p99_wakeup") ?? compared[1] ?? compared[0] };
  if (compared.length > 0) {
    choose("pareto-tools", "across", compared, axes.x, (metric) => { axes.x = metric; pareto(axes.x, axes.y); });
    choose("pareto-tools", "down", compared, axes.y, (metric) => { axes.y = metric; pareto(axes.x, axes.y); });
    pareto(axes.x, axes.y);
  }
  parallel();
  root.dataset.ready = "yes";
})();
