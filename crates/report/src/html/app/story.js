// SPDX-License-Identifier: GPL-2.0-only
// The panel that explains the selected wait. The explanations of the longest waits are those of
// `windtunnel why`. For other waits, the panel contains what the page's data says, and the command
// that explains the rest.
"use strict";
wt.story = (() => {
  const { element } = wt;
  const panel = document.getElementById("story");
  // Maximum numbers of tasks and of CPUs that a list contains.
  const TASKS = 8, CPUS = 4;

  const named = (run, task) => {
    const { comm, pid } = wt.timeline.task(run, task);
    return task === 0 ? "idle" : `${comm} (pid ${pid})`;
  };
  const at = (ns) => `${(ns / 1e6).toFixed(6)} ms`;

  // Returns the segments of a CPU within a wait as [task, time, end].
  function segments(data, cpu, from, to) {
    const row = data.cpus[cpu], found = [];
    for (let i = wt.turns.find(row, from); i < row.n; i++) {
      const start = Math.max(from, wt.turns.begin(row, i));
      if (start >= to) break;
      found.push([row.task[i], Math.min(to, row.end[i]) - start, row.end[i], row.turns[i]]);
    }
    return found;
  }

  function ranInstead(run, data, all, i) {
    const sums = new Map();
    for (const [task, ns, end] of segments(data, all.queued[i], all.from[i], all.to[i])) {
      const sum = sums.get(task) || { ns: 0, turns: 0, lost: 0 };
      // A wait that begins when the turn ends says that the task lost its CPU.
      const next = task > 1 ? wt.waits.before(all, task, end) : -1;
      sums.set(task, { ns: sum.ns + ns, turns: sum.turns + 1, lost: sum.lost + (next >= 0 && all.from[next] === end && all.cause[next] === 3 ? 1 : 0) });
    }
    const order = [...sums].sort((a, b) => b[1].ns - a[1].ns);
    const lines = order.slice(0, TASKS).map(([task, { ns, turns, lost }]) =>
      `${wt.time(ns)}  ${task === 1 ? "offline" : named(run, task)}${turns > 1 ? ` in ${turns} turns` : ""}${lost ? ", then lost the CPU" : ""}`);
    if (order.length > TASKS) lines.push(`${order.length - TASKS} more tasks`);
    return lines;
  }

  function otherCpus(run, data, all, i) {
    const length = Math.max(1, all.to[i] - all.from[i]), whole = [], never = [], partly = [];
    data.cpus.forEach((_, cpu) => {
      if (cpu === all.queued[i]) return;
      let idle = 0;
      for (const [task, ns, , turns] of segments(data, cpu, all.from[i], all.to[i])) if (task === 0 && turns === 1) idle += ns;
      if (idle >= length) whole.push(cpu); else if (idle === 0) never.push(cpu); else partly.push([cpu, idle]);
    });
    const lines = [];
    if (whole.length) lines.push(`${wt.rows.name(whole)}  idle during the whole wait`);
    if (never.length) lines.push(`${wt.rows.name(never)}  never idle during the wait`);
    partly.sort((a, b) => b[1] - a[1]);
    for (const [cpu, idle] of partly.slice(0, CPUS)) lines.push(`CPU ${cpu}  idle for ${wt.time(idle)} of the wait (${Math.floor((100 * idle) / length)} %)`);
    if (partly.length > CPUS) lines.push(`${partly.length - CPUS} more, which idled during a part of the wait`);
    return lines;
  }

  function begin(run, all, i) {
    const cause = wt.waits.CAUSES[all.cause[i]];
    if (cause === "preempted" && all.at[i] !== all.queued[i]) return `it was moved away from CPU ${all.at[i]} while it ran`;
    if (cause === "preempted") return `it lost CPU ${all.at[i]} while it was runnable`;
    if (cause === "new") return "it is a new task";
    const by = cause === "task" ? named(run, all.waker[i]) : "an interrupt";
    const last = all.last[i] < 0 ? "" : `; it last ran on CPU ${all.last[i]}, ${wt.time(all.from[i] - all.until[i])} before`;
    return `${by} woke it on CPU ${all.at[i]}${last}`;
  }

  function queued(run, data, all, i) {
    const row = data.cpus[all.queued[i]], at = wt.turns.find(row, all.from[i]);
    const task = at < row.n ? row.task[at] : 0;
    const ran = task === 0 ? "which was idle" : task === all.task[i] ? "on which it ran itself" : `which ran ${named(run, task)}`;
    return `on CPU ${all.queued[i]}, ${ran}`;
  }

  // Returns the story of a wait as { headline, parts, complete }.
  function tell(run, i) {
    const data = wt.timeline.data(run), all = wt.timeline.waits(run);
    const known = wt.runs[run].explained.find(([index]) => index === i);
    if (known) return { headline: known[1], parts: known[2], complete: true };
    const length = wt.time(all.to[i] - all.from[i]);
    const headline = all.ended[i]
      ? `${named(run, all.task[i])} waited ${length} for a CPU, from ${at(all.from[i])} to ${at(all.to[i])}`
      : `${named(run, all.task[i])} has waited ${length} for a CPU, from ${at(all.from[i])} to the end`;
    const parts = [["begin", [begin(run, all, i)]], ["queued", [queued(run, data, all, i)]], ["ran instead", ranInstead(run, data, all, i)],
      ["other CPUs", otherCpus(run, data, all, i)],
      ["end", [all.ended[i] ? `CPU ${all.got[i]} switched to it` : "the run ended before a CPU switched to it"]]];
    return { headline, parts: parts.filter(([, lines]) => lines.length), complete: false };
  }

  // Returns the command that explains a wait.
  function command(run, i) {
    const all = wt.timeline.waits(run), { pid } = wt.timeline.task(run, all.task[i]);
    return `${wt.runs[run].why} '${pid}@${Math.floor((all.from[i] + all.to[i]) / 2)}ns'`;
  }

  function show() {
    const chosen = wt.waits.selected;
    panel.hidden = !chosen;
    panel.parentElement.classList.toggle("explains", Boolean(chosen));
    if (!chosen) { panel.replaceChildren(); return; }
    const { run, index } = chosen, all = wt.timeline.waits(run), { headline, parts, complete } = tell(run, index);
    const button = (text, label, act, off = false) => element("button", { type: "button", title: label, "aria-label": label, disabled: off, onclick: act }, text);
    const step = (by) => {
      const other = wt.waits.neighbour(all, index, by);
      return button(by < 0 ? "‹" : "›", by < 0 ? "The task's wait before" : "The task's next wait", () => wt.waits.select(run, other), other < 0);
    };
    const list = element("dl", {}, ...parts.flatMap(([head, lines]) =>
      [element("dt", {}, head), ...lines.map((line) => element("dd", {}, line.trimStart()))]));
    const more = wt.runs[run].why ? [element("p", { class: "legend" }, complete ? "The same from the command line: " : "Decisions of the policy, and places in the queue: "),
      element("pre", { tabindex: 0, "aria-label": "Command" }, element("code", {}, command(run, index)))] : [];
    panel.replaceChildren(
      element("div", { class: "story-tools" }, element("span", { class: "chip", style: `--c:var(--run-${run % 8})` }, element("i"), wt.runs[run].label),
        element("span", { class: "buttons" }, step(-1), step(1), button("×", "Close (Escape)", () => wt.waits.select(null, -1)))),
      element("h3", { id: "story-h" }, headline), list, ...more);
  }

  function start() {
    wt.on("wait", show);
  }

  return { start, tell, command };
})();
