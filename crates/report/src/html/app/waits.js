// SPDX-License-Identifier: GPL-2.0-only
// The waits of tasks for a CPU: unpacks them, finds them, and draws the selected one into its
// timeline: the interval, an arrow from the waker, and the CPU on which the task ran before.
"use strict";
wt.waits = (() => {
  const CAUSES = ["interrupt", "task", "new", "preempted"];
  // The selected wait as { run, index }, or null.
  let selected = null;

  // Unpacks the waits of a run. They are ordered by their begins.
  async function load(run, tasks) {
    const read = new wt.Varints(await wt.unpack(run.waits.packed)), n = read.next();
    const numbers = () => new Float64Array(n);
    const all = { n, from: numbers(), to: numbers(), task: new Uint32Array(n), cause: new Uint8Array(n), ended: new Uint8Array(n),
      waker: new Uint32Array(n), at: new Uint16Array(n), queued: new Uint16Array(n), got: new Uint16Array(n),
      last: new Int32Array(n).fill(-1), until: numbers() };
    let time = 0;
    for (let i = 0; i < n; i++) {
      all.from[i] = time += read.next();
      all.to[i] = time + read.next();
      all.task[i] = read.next();
      const flags = read.next();
      all.cause[i] = flags % 4;
      all.ended[i] = flags & 8 ? 1 : 0;
      if (all.cause[i] === 1) all.waker[i] = read.next();
      all.at[i] = read.next();
      all.queued[i] = read.next();
      if (all.ended[i]) all.got[i] = read.next();
      if (flags & 4) {
        all.last[i] = read.next();
        all.until[i] = time - read.next();
      }
    }
    // Indices of each task's waits, in order: those of task t begin at first[t].
    const first = new Uint32Array(tasks + 1), own = new Uint32Array(n);
    for (let i = 0; i < n; i++) first[all.task[i] + 1]++;
    for (let task = 0; task < tasks; task++) first[task + 1] += first[task];
    const next = first.slice();
    for (let i = 0; i < n; i++) own[next[all.task[i]]++] = i;
    // Sum and maximum of each task's waits.
    const sum = new Float64Array(tasks), most = new Float64Array(tasks);
    for (let i = 0; i < n; i++) {
      const ns = all.to[i] - all.from[i];
      sum[all.task[i]] += ns;
      most[all.task[i]] = Math.max(most[all.task[i]], ns);
    }
    return Object.assign(all, { first, own, sum, most });
  }

  // Returns the place in `own` of the last wait of a task that begins at `time` or before, or -1.
  function placeAt(all, task, time) {
    let [low, high] = [all.first[task], all.first[task + 1]];
    const least = low;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (all.from[all.own[middle]] <= time) low = middle + 1; else high = middle;
    }
    return low > least ? low - 1 : -1;
  }
  // Returns the last wait of a task that begins at a time or before, or -1.
  function before(all, task, time) {
    const place = placeAt(all, task, time);
    return place < 0 ? -1 : all.own[place];
  }
  // Returns the wait of a task that ended at a time, or -1. In a damaged recording, waits can overlap.
  function endingAt(all, task, time) {
    const place = placeAt(all, task, time);
    for (let at = place; at >= all.first[task] && at > place - 8; at--) if (all.to[all.own[at]] === time) return all.own[at];
    return -1;
  }
  // Returns the wait after or before a wait of the same task, or -1.
  function neighbour(all, index, step) {
    const task = all.task[index], place = placeAt(all, task, all.from[index]) + step;
    return place >= all.first[task] && place < all.first[task + 1] ? all.own[place] : -1;
  }
  // Returns the longest waits of all runs that are shown, longest first.
  function longest(count) {
    const found = [];
    wt.runs.forEach((_, run) => {
      const all = wt.timeline.waits(run);
      if (wt.hidden.has(run) || !all) return;
      const order = Array.from({ length: all.n }, (_, i) => i).sort((a, b) => all.to[b] - all.from[b] - all.to[a] + all.from[a] || a - b);
      order.slice(0, count).forEach((index) => found.push({ run, index, ns: all.to[index] - all.from[index] }));
    });
    return found.sort((a, b) => b.ns - a.ns).slice(0, count);
  }

  // Selects a wait, or none. If `move` is true and the wait is not visible, or is too small to be
  // seen, moves the window to it.
  function select(run, index, move = true) {
    const all = run === null ? null : wt.timeline.waits(run);
    selected = all && index >= 0 && index < all.n ? { run, index } : null;
    if (selected && move) {
      const [from, to] = [all.from[index], all.to[index]], shown = wt.align.window(run), width = shown.to - shown.from;
      if (from < shown.from || to > shown.to || to - from < width / 40) {
        const room = Math.max(1000, (to - from) * 0.6);
        wt.show(wt.align.toView(run, from - room), wt.align.toView(run, to + room));
      }
    }
    wt.notify("wait");
  }

  function arrow(context, x, from, to, size) {
    const way = Math.sign(to - from) || 1, tip = to - way * 2;
    context.beginPath();
    context.moveTo(x, from);
    context.lineTo(x, tip);
    context.stroke();
    context.beginPath();
    context.moveTo(x, tip);
    context.lineTo(x - size, tip - way * size * 1.6);
    context.lineTo(x + size, tip - way * size * 1.6);
    context.fill();
  }

  // Draws the selected wait into the timeline of its run. `frame` has the functions x(time), row(cpu)
  // and task(index), which return positions, or null for a task without a row.
  function draw(context, index, frame) {
    if (!selected || selected.run !== index) return;
    const all = wt.timeline.waits(index), i = selected.index, { left, right, height } = frame;
    const clip = (v) => Math.max(left, Math.min(right, v));
    const [a, b] = [frame.x(all.from[i]), frame.x(all.to[i])];
    const byTask = wt.rows.mode === "task";
    const middle = (cpu) => (byTask ? null : frame.row(cpu));
    const own = byTask ? frame.task(all.task[i]) : middle(all.queued[i]);
    const accent = wt.css("--accent"), ink = wt.css("--text");
    context.save();
    context.beginPath();
    context.rect(left - 1, 0, right - left + 2, 1e5);
    context.clip();
    context.lineWidth = 2;
    if (own !== null) {
      context.fillStyle = accent + "33";
      context.fillRect(clip(a), own - height / 2, Math.max(2, clip(b) - clip(a)), height);
      context.strokeStyle = context.fillStyle = accent;
      context.strokeRect(clip(a), own - height / 2, Math.max(2, clip(b) - clip(a)), height - 1);
    }
    context.strokeStyle = context.fillStyle = ink;
    // The CPU on which the task ran before, and the time since then.
    const before = all.last[i] >= 0 ? middle(all.last[i]) : null;
    if (before !== null && all.cause[i] !== 3) {
      const from = frame.x(all.until[i]);
      context.setLineDash([3, 3]);
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(clip(from), before);
      context.lineTo(clip(a), before);
      context.lineTo(clip(a), own ?? before);
      context.stroke();
      context.setLineDash([]);
      context.beginPath();
      context.arc(clip(from), before, Math.min(4, Math.max(2.5, height / 3)), 0, 7);
      context.fill();
    }
    // The arrow from the waker, and the arrow to the CPU that the task got.
    context.lineWidth = 2;
    const waker = byTask ? (all.cause[i] === 1 ? frame.task(all.waker[i]) : null) : middle(all.at[i]);
    if (waker !== null && own !== null && all.cause[i] !== 3) {
      if (waker === own) arrow(context, a, own - height / 2 - 12, own - height / 2, 4);
      else {
        context.beginPath();
        context.arc(a, waker, 3.5, 0, 7);
        context.fill();
        arrow(context, a, waker, own + (Math.sign(waker - own) * height) / 2, 4);
      }
    }
    const got = all.ended[i] ? middle(all.got[i]) : null;
    if (got !== null && own !== null && got !== own) arrow(context, b, own, got + (Math.sign(own - got) * height) / 2, 4);
    context.restore();
  }

  return { load, before, endingAt, placeAt, neighbour, longest, select, draw, CAUSES, get selected() { return selected; } };
})();
