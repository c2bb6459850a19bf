// SPDX-License-Identifier: GPL-2.0-only
// The rows of the timelines: CPUs, cores, LLCs, nodes or tasks. A folded row stands for all CPUs of
// a core, LLC or node. The user can unfold it.
"use strict";
wt.rows = (() => {
  const LEVELS = ["core", "llc", "node"];
  const WORDS = { core: "core", llc: "LLC", node: "node", cpu: "CPU" };
  let mode = "cpu";
  // Keys of folded rows that the user has unfolded, for example "llc 3".
  const unfolded = new Set();

  for (const run of wt.runs) {
    const threads = new Map();
    // Number of each CPU among the hardware threads of its core.
    run.thread = new Uint8Array(run.places.length);
    for (const cpu of run.order) {
      const core = run.places[cpu].join();
      run.thread[cpu] = threads.get(core) || 0;
      threads.set(core, run.thread[cpu] + 1);
    }
    run.nodes = new Set(run.places.map((place) => place[2])).size;
    run.smt = run.thread.some((thread) => thread > 0);
    // Kinds of CPUs by capacity. The fastest kind is the first.
    run.kinds = [...new Set(run.capacities)].sort((a, b) => b - a);
    run.kindOf = (cpu) => Math.max(0, run.kinds.indexOf(run.capacities[cpu]));
    run.kindName = (kind) => (run.kinds.length === 2 ? ["P", "E"][kind] + " core" : `CPU of capacity ${run.kinds[kind]}`);
  }

  // Returns the groups of CPUs at a level, in the order of the CPUs.
  function groups(run, level) {
    const at = LEVELS.indexOf(level), found = new Map();
    // Cores and LLCs may have the same numbers in different nodes.
    const key = (place) => place.slice(at).join();
    for (const cpu of run.order) {
      const place = run.places[cpu];
      if (!found.has(key(place))) found.set(key(place), { id: place[at], cpus: [] });
      found.get(key(place)).cpus.push(cpu);
    }
    return [...found.values()];
  }

  // Returns the modes that make a difference, with their names.
  function modes() {
    const useful = (level) => wt.runs.some((run) => {
      const n = groups(run, level).length;
      return n < run.places.length && (n > 1 || level === "node" && run.places.length > 8);
    });
    const names = { core: "cores", llc: "LLCs", node: "nodes" };
    return [["cpu", "CPUs"], ...LEVELS.filter(useful).map((level) => [level, names[level]]), ["task", "tasks"]];
  }

  const single = (cpu, more = {}) => ({ cpus: [cpu], cpu, label: String(cpu), ...more });
  // Returns the rows of a run.
  function of(run, index) {
    if (mode === "task") return wt.tasks.rows(index);
    if (mode === "cpu") return run.order.map((cpu) => single(cpu));
    return groups(run, mode).flatMap(({ id, cpus }) => {
      const key = `${mode} ${id}`, isOpen = unfolded.has(key);
      const head = { cpus, key, isOpen, label: `${WORDS[mode]} ${id}` };
      return isOpen ? [head, ...cpus.map((cpu) => single(cpu, { inner: true }))] : [head];
    });
  }

  function setMode(value) {
    mode = value;
    wt.notify("rows");
  }
  function toggle(key) {
    if (unfolded.has(key)) unfolded.delete(key); else unfolded.add(key);
    wt.notify("rows");
  }
  function setUnfolded(keys) {
    unfolded.clear();
    keys.forEach((key) => unfolded.add(key));
  }

  // Returns a text about a list of CPU numbers, for example "CPUs 0-3, 8".
  function name(cpus) {
    const sorted = [...cpus].sort((a, b) => a - b), parts = [];
    for (const cpu of sorted) {
      const last = parts[parts.length - 1];
      if (last && last[1] + 1 === cpu) last[1] = cpu; else parts.push([cpu, cpu]);
    }
    return (cpus.length === 1 ? "CPU " : "CPUs ") + parts.map(([a, b]) => (a === b ? a : `${a}-${b}`)).join(", ");
  }

  return { of, modes, setMode, toggle, setUnfolded, name, unfolded, get mode() { return mode; } };
})();
