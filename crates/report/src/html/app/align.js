// SPDX-License-Identifier: GPL-2.0-only
// Aligns the timelines of several runs: either all show the same window of time, or each shows the
// part of its run in which the same work is done. Work is CPU time, weighted by the capacity of the
// CPU. It is the work of all tasks, or of one task.
"use strict";
wt.align = (() => {
  // Number of intervals in which the work of a run is summed.
  const BINS = 4096;
  let mode = "time", task = null, curves = null;

  // Returns the work up to each bin of a run. `pid` is null for all tasks.
  function curve(run, data, pid) {
    const sums = new Float64Array(BINS + 1), width = run.end / BINS;
    data.cpus.forEach((row, cpu) => {
      const speed = (run.capacities[cpu] || 1024) / 1024;
      for (let i = 0; i < row.n; i++) {
        if (row.task[i] < 2 || (pid !== null && data.named[row.task[i]].pid !== pid)) continue;
        const start = wt.turns.begin(row, i), rate = (speed * row.busy[i]) / 255;
        const last = Math.min(BINS - 1, Math.floor(row.end[i] / width));
        for (let bin = Math.floor(start / width); bin <= last; bin++)
          sums[bin + 1] += rate * (Math.min(row.end[i], (bin + 1) * width) - Math.max(start, bin * width));
      }
    });
    for (let bin = 0; bin < BINS; bin++) sums[bin + 1] += sums[bin];
    return { sums, width, end: run.end, total: sums[BINS] };
  }
  // Returns the work that is done at a time. After its end, a run continues at its mean rate.
  function workAt({ sums, width, end, total }, time) {
    if (time >= end) return total * (time / end);
    const bin = Math.floor(time / width);
    return sums[bin] + (sums[bin + 1] - sums[bin]) * (time / width - bin);
  }
  function timeAt({ sums, width, end, total }, work) {
    if (!(total > 0)) return 0;
    if (work >= total) return end * (work / total);
    let [low, high] = [0, BINS];
    while (low + 1 < high) {
      const middle = (low + high) >> 1;
      if (sums[middle] <= work) low = middle; else high = middle;
    }
    const step = sums[high] - sums[low];
    return (low + (step > 0 ? (work - sums[low]) / step : 0)) * width;
  }

  const usable = () => mode !== "time" && curves && curves.every((one) => one.total > 0);
  // Converts a time of the view, which is that of the first run, to a time of another run, and back.
  const toRun = (index, time) => (!usable() || index === 0 ? time : timeAt(curves[index], workAt(curves[0], time)));
  const toView = (index, time) => (!usable() || index === 0 ? time : timeAt(curves[0], workAt(curves[index], time)));
  // Returns the window of time that the timeline of a run shows.
  function window(index) {
    const from = toRun(index, wt.view.from), to = toRun(index, wt.view.to);
    return { from, to: Math.max(to, from + 1) };
  }

  // Sets the mode: "time", "work", or "task" for the work of the task with the pid `of`.
  function set(value, of = null) {
    mode = value;
    task = value === "task" ? of : null;
    curves = value === "time" ? null : wt.runs.map((run, i) => curve(run, wt.timeline.data(i), task));
    wt.notify("view");
  }

  return { window, toRun, toView, set, usable, get mode() { return mode; }, get task() { return task; } };
})();
