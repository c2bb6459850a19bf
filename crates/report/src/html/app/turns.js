// SPDX-License-Identifier: GPL-2.0-only
// The turns of the CPUs: which task ran when. Unpacks them, chooses colours, and sums the times of
// each colour for the columns of a drawing.
//
// The times are summed from the segments: intervals in which a CPU ran one task. If too many
// segments are visible, the times are taken from bins: intervals of equal length whose sums are
// computed once.
"use strict";
wt.turns = (() => {
  const GROUPS = 8;
  // Number of sums for a column: one for each colour, and one for the time while a CPU was offline.
  const SUMS = GROUPS + 1;
  // Maximum number of visible segments from which the times are summed. If more segments are
  // visible, the times come from the bins.
  const WALK = 200000;
  // Number of bins for a whole run, over all CPUs together.
  const BINS = 1 << 19;
  let colouring = "name";

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

  // Chooses a colour for each name of tasks, starting with the names that used the most CPU time. A
  // name has the same colour in all runs. If there is only one name, chooses colours by pid.
  function paint(all) {
    const sums = new Map();
    for (const data of all)
      for (const task of data.named.slice(2)) sums.set(stem(task.comm), (sums.get(stem(task.comm)) || 0) + task.ns);
    const names = [...sums].sort((a, b) => b[1] - a[1]).map(([name]) => name);
    const rank = new Map(names.map((name, i) => [name, Math.min(i, GROUPS - 1)]));
    for (const data of all) {
      data.names = names;
      data.byTask = colouring === "task" || names.length < 2;
      data.group = Uint8Array.from(data.named, (task, i) => (i < 2 ? 255 : data.byTask ? (i * 5) % GROUPS : rank.get(stem(task.comm))));
      data.bins = null;
    }
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
  const begin = (row, i) => (i ? row.end[i - 1] : 0);

  // Sums of times for the columns of a row: `n` for each column. `used` has a bit for each sum of a
  // column that is not 0, so that most columns need only one comparison.
  class Columns {
    constructor(columns, n) {
      this.n = n;
      this.sums = new Float32Array(columns * n);
      this.used = new Uint16Array(columns);
    }
    // Adds the time from `a` to `b`, in columns.
    add(a, b, g, weight) {
      const { n, sums, used } = this, last = Math.floor(b), bit = 1 << g, columns = used.length;
      let x = Math.floor(a);
      if (x === last) {
        if (x < columns) { sums[x * n + g] += (b - a) * weight; used[x] |= bit; }
        return;
      }
      sums[x * n + g] += (x + 1 - a) * weight;
      used[x] |= bit;
      for (x++; x < last; x++) { sums[x * n + g] += weight; used[x] |= bit; }
      if (last < columns && b > last) { sums[last * n + g] += (b - last) * weight; used[last] |= bit; }
    }
    // Sets the sums of a column to 0.
    clear(x) {
      for (let bits = this.used[x]; bits; bits &= bits - 1) this.sums[x * this.n + 31 - Math.clz32(bits & -bits)] = 0;
      this.used[x] = 0;
    }
  }

  // Adds the time of each colour in [from, to), which the columns show.
  function walk(data, row, from, to, into) {
    const columns = into.used.length, scale = columns / (to - from);
    let i = find(row, from);
    let start = begin(row, i);
    for (; i < row.n && start < to; i++) {
      const end = row.end[i], task = row.task[i];
      const colour = task === 1 ? GROUPS : task === 0 ? -1 : data.group[task];
      const weight = task === 1 ? 1 : row.busy[i] / 255;
      if (colour >= 0 && weight > 0) into.add(Math.max(0, (start - from) * scale), Math.min(columns, (end - from) * scale), colour, weight);
      start = end;
    }
  }

  function makeBins(data) {
    const n = Math.max(512, Math.floor(BINS / data.cpus.length));
    data.bins = data.cpus.map((row) => {
      const columns = new Columns(n, SUMS);
      walk(data, row, 0, wt.end, columns);
      return columns.sums;
    });
    data.nbins = n;
  }

  // Decides whether the columns of a window come from the bins.
  function prepare(data, { from, to }) {
    let visible = 0;
    for (const row of data.cpus) visible += find(row, to) - find(row, from);
    data.coarse = visible > WALK;
    if (data.coarse && !data.bins) makeBins(data);
  }

  // Adds the times of a CPU in a window, which the columns show.
  function addColumns(data, cpu, { from, to }, into) {
    if (!data.coarse) { walk(data, data.cpus[cpu], from, to, into); return; }
    const columns = into.used.length, bins = data.bins[cpu], perBin = wt.end / data.nbins, perColumn = (to - from) / columns;
    for (let x = 0; x < columns; x++) {
      const first = Math.max(0, Math.floor((from + x * perColumn) / perBin));
      const last = Math.min(data.nbins, Math.max(first + 1, Math.floor((from + (x + 1) * perColumn) / perBin)));
      for (let bin = first; bin < last; bin++)
        for (let g = 0; g < SUMS; g++) {
          const own = bins[bin * SUMS + g];
          if (own > 0) { into.sums[x * SUMS + g] += own / (last - first); into.used[x] |= 1 << g; }
        }
    }
  }

  // Returns the turns of each task, ordered by time, as one list for all tasks: `first[task]` is
  // the index of its first turn. Merged segments count as turns of their main task.
  function byTask(data) {
    if (data.byTasks) return data.byTasks;
    const n = data.named.length, first = new Uint32Array(n + 1);
    for (const row of data.cpus) for (let i = 0; i < row.n; i++) if (row.task[i] > 1) first[row.task[i] + 1]++;
    for (let task = 0; task < n; task++) first[task + 1] += first[task];
    const next = first.slice(), total = first[n];
    const cpu = new Uint16Array(total), index = new Uint32Array(total);
    data.cpus.forEach((row, c) => {
      for (let i = 0; i < row.n; i++) {
        if (row.task[i] < 2) continue;
        const at = next[row.task[i]]++;
        cpu[at] = c;
        index[at] = i;
      }
    });
    // The turns of a task on one CPU are in order. Those of several CPUs are merged.
    const start = (at) => begin(data.cpus[cpu[at]], index[at]);
    for (let task = 2; task < n; task++) {
      const [low, high] = [first[task], first[task + 1]];
      let sorted = true;
      for (let at = low + 1; at < high && sorted; at++) sorted = start(at - 1) <= start(at);
      if (sorted) continue;
      const order = Array.from({ length: high - low }, (_, i) => low + i).sort((a, b) => start(a) - start(b));
      const [cpus, indices] = [order.map((at) => cpu[at]), order.map((at) => index[at])];
      cpu.set(cpus, low);
      index.set(indices, low);
    }
    return (data.byTasks = { first, cpu, index, start, end: (at) => data.cpus[cpu[at]].end[index[at]] });
  }

  return { GROUPS, SUMS, Columns, stem, load, paint, find, begin, prepare, addColumns, byTask,
    get colouring() { return colouring; }, set colouring(value) { colouring = value; } };
})();
