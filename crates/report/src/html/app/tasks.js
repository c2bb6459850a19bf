// SPDX-License-Identifier: GPL-2.0-only
// The rows of the timelines that show tasks: which tasks are shown, in which order, and what each
// of them does over time.
"use strict";
wt.tasks = (() => {
  const { element } = wt;
  // Number of rows at first, and the maximum.
  const FEW = 30, MOST = 480;
  const SORTS = [["cpu", "CPU time"], ["wait", "time waiting"], ["longest", "longest wait"], ["name", "name"], ["pid", "pid"]];
  let query = "", sorting = "cpu", count = FEW;
  // Pids of pinned tasks. They are the first rows, whatever the search says.
  const pins = new Set();

  // Returns all tasks of a run that match, in order. Their indices are those of the run's tasks.
  function ordered(index) {
    const { named } = wt.timeline.data(index), waits = wt.timeline.waits(index);
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = ({ comm, pid }) => words.every((word) => comm.toLowerCase().includes(word) || String(pid) === word);
    const tasks = [...named.keys()].slice(2).filter((task) => pins.has(named[task].pid) || matches(named[task]));
    const byName = (a, b) => named[a].comm.localeCompare(named[b].comm, "en", { numeric: true });
    const orders = {
      cpu: (a, b) => named[b].ns - named[a].ns, wait: (a, b) => waits.sum[b] - waits.sum[a],
      longest: (a, b) => waits.most[b] - waits.most[a], name: byName, pid: () => 0,
    };
    const pinned = (task) => (pins.has(named[task].pid) ? 0 : 1);
    return tasks.sort((a, b) => pinned(a) - pinned(b) || orders[sorting](a, b) || named[a].pid - named[b].pid);
  }

  function rows(index) {
    const { named } = wt.timeline.data(index), all = ordered(index);
    wt.runs[index].matching = all.length;
    return all.slice(0, count).map((task) => ({ task, pid: named[task].pid, label: `${named[task].comm} ${named[task].pid}`, pinned: pins.has(named[task].pid) }));
  }

  function pin(pid) {
    if (pins.has(pid)) pins.delete(pid); else pins.add(pid);
    wt.notify("rows");
  }

  // Adds the times at which a task runs (0) and waits (1) to the columns of its row.
  function columns(index, task, { from, to }, into) {
    const data = wt.timeline.data(index), turns = wt.turns.byTask(data), waits = wt.timeline.waits(index);
    const width = into.used.length, scale = width / (to - from);
    const add = (begin, end, kind, weight) => {
      const a = Math.max(0, (begin - from) * scale), b = Math.min(width, (end - from) * scale);
      if (b > a && weight > 0) into.add(a, b, kind, weight);
    };
    for (let at = turnAt(turns, task, from); at < turns.first[task + 1] && turns.start(at) < to; at++)
      add(turns.start(at), turns.end(at), 0, data.cpus[turns.cpu[at]].busy[turns.index[at]] / 255);
    for (let place = Math.max(waits.first[task], wt.waits.placeAt(waits, task, from)); place < waits.first[task + 1]; place++) {
      const i = waits.own[place];
      if (waits.from[i] >= to) break;
      add(waits.from[i], waits.to[i], 1, 1);
    }
  }
  // Returns the place of the first turn of a task that ends after a time.
  function turnAt(turns, task, time) {
    let [low, high] = [turns.first[task], turns.first[task + 1]];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (turns.end(middle) <= time) low = middle + 1; else high = middle;
    }
    return low;
  }

  // Describes what a task does at a time: { head, rows, begin, end, wait }. `wait` is the index of a
  // wait, or -1.
  function describe(index, task, time) {
    const data = wt.timeline.data(index), turns = wt.turns.byTask(data), waits = wt.timeline.waits(index);
    const { comm, pid } = data.named[task], at = turnAt(turns, task, time), head = `${comm} ${pid}`;
    const wait = wt.waits.before(waits, task, time), last = turns.first[task + 1];
    const step = (wt.view.to - wt.view.from) / 500;
    if (at < last && turns.start(at) <= time) {
      const [begin, end] = [turns.start(at), turns.end(at)], own = wt.waits.endingAt(waits, task, begin);
      const rows = [["runs on", `CPU ${turns.cpu[at]}`], ["from", wt.time(begin, step)], ["for", wt.time(end - begin)]];
      if (own >= 0) rows.push(["waited before", wt.time(waits.to[own] - waits.from[own])]);
      return { head, rows, begin, end, wait: own };
    }
    if (wait >= 0 && waits.to[wait] > time) {
      const [begin, end] = [waits.from[wait], waits.to[wait]];
      return { head, rows: [["waits for", `CPU ${waits.queued[wait]}`], ["from", wt.time(begin, step)], ["for", wt.time(end - begin)]], begin, end, wait };
    }
    const begin = Math.max(at > turns.first[task] ? turns.end(at - 1) : 0, wait >= 0 ? waits.to[wait] : 0);
    const next = wait >= 0 ? wt.waits.neighbour(waits, wait, 1) : waits.first[task] < waits.first[task + 1] ? waits.own[waits.first[task]] : -1;
    const end = Math.min(at < last ? turns.start(at) : wt.runs[index].end, next >= 0 ? waits.from[next] : Infinity);
    return { head, rows: [["sleeps, or does not exist", ""], ["from", wt.time(begin, step)], ["for", wt.time(end - begin)]], begin, end, wait: -1 };
  }

  // Creates the tools above the timelines: search, order and number of rows.
  function tools(holder) {
    const search = element("input", { type: "search", placeholder: "name or pid", "aria-label": "Search tasks", value: query,
      oninput: () => { query = search.value; count = FEW; wt.notify("rows"); } });
    const order = element("select", { "aria-label": "Order of tasks", onchange: () => { sorting = order.value; wt.notify("rows"); } },
      ...SORTS.map(([value, text]) => element("option", { value, selected: value === sorting }, text)));
    const more = element("button", { type: "button", onclick: () => { count = Math.min(MOST, count * 2); wt.notify("rows"); } }, "More rows");
    const found = element("output", {});
    const update = () => {
      const most = Math.max(...wt.runs.map((run) => run.matching || 0));
      found.textContent = most > count ? `first ${count} of ${most} tasks` : wt.plural(most, "task");
      more.hidden = most <= count || count >= MOST;
      search.value = query;
      order.value = sorting;
    };
    holder.replaceChildren(element("label", {}, "Find ", search), element("label", {}, "Order ", order), found, more);
    return update;
  }

  return { rows, pin, columns, describe, tools, pins,
    state: () => ({ q: query, sort: sorting === "cpu" ? "" : sorting, n: count === FEW ? "" : String(count), pin: [...pins].join(",") }),
    restore({ q, sort, n, pin }) {
      query = q || "";
      sorting = SORTS.some(([value]) => value === sort) ? sort : "cpu";
      count = Math.max(1, Math.min(MOST, Number(n) || FEW));
      pins.clear();
      (pin || "").split(",").filter(Boolean).forEach((pid) => pins.add(Number(pid)));
    } };
})();
