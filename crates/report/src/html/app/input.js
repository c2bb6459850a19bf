// SPDX-License-Identifier: GPL-2.0-only
// Keys, pointer and tools of the timelines.
"use strict";
wt.input = (() => {
  const { view, element } = wt;
  // A press that moves the pointer by at most this number of pixels is a click.
  const CLICK = 4;

  // Returns the row and the time at the position of the pointer.
  function place(chart, event) {
    const box = chart.canvas.getBoundingClientRect(), { columns, gutter, height, window } = chart.geometry;
    const at = Math.floor((event.clientY - box.top - wt.timeline.TOP) / height);
    return {
      time: window.from + ((event.clientX - box.left - gutter) / columns) * (window.to - window.from),
      at, row: chart.rows[at], inside: event.clientX - box.left >= gutter,
    };
  }
  const viewTime = (chart, time) => wt.align.toView(chart.index, time);

  // Explains the wait before a time in a row, or closes the explanation if there is none.
  function explain(chart, row, time) {
    const found = wt.timeline.describe(chart, row, time);
    if (found && found.wait >= 0) wt.waits.select(chart.index, found.wait, false);
    else wt.waits.select(null, -1);
  }

  function pointer(chart) {
    const { canvas } = chart;
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !chart.geometry) return;
      drag = { x: event.clientX, y: event.clientY, from: view.from, to: view.to, time: place(chart, event).time, select: event.shiftKey, moved: false };
      try { canvas.setPointerCapture(event.pointerId); } catch { /* a pointer that is not pressed */ }
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!chart.geometry) return;
      const at = place(chart, event);
      if (drag && Math.hypot(drag.x - event.clientX, drag.y - event.clientY) > CLICK) drag.moved = true;
      if (drag && drag.moved && drag.select) {
        chart.band.hidden = false;
        const box = canvas.getBoundingClientRect();
        chart.band.style.left = Math.min(drag.x, event.clientX) - box.left + "px";
        chart.band.style.width = Math.abs(event.clientX - drag.x) + "px";
      } else if (drag && drag.moved) {
        const by = ((drag.x - event.clientX) / chart.geometry.columns) * (drag.to - drag.from);
        const kept = Math.max(-drag.from, Math.min(wt.end - drag.to, by));
        wt.show(drag.from + kept, drag.to + kept);
      }
      const text = at.inside && at.row && at.time < chart.run.end && wt.timeline.describe(chart, at.row, at.time);
      canvas.classList.toggle("explains", Boolean(text && text.wait >= 0));
      const rows = text && (text.wait >= 0 ? [...text.rows, ["click", "explains the wait"]] : text.rows);
      wt.showTip(text && !(drag && drag.moved) ? wt.tipTable(text.head, rows) : null, event.clientX, event.clientY, canvas);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved) {
        const at = place(chart, event);
        if (at.inside && at.row) explain(chart, at.row, at.time);
      } else if (drag && drag.select) {
        const { time } = place(chart, event);
        wt.show(viewTime(chart, Math.min(time, drag.time)), viewTime(chart, Math.max(time, drag.time)));
      }
      chart.band.hidden = true;
      drag = null;
    });
    canvas.addEventListener("pointercancel", () => { drag = null; chart.band.hidden = true; });
    canvas.addEventListener("pointerleave", () => wt.showTip(null));
    canvas.addEventListener("dblclick", (event) => wt.zoom(0.25, viewTime(chart, place(chart, event).time)));
    canvas.addEventListener("wheel", (event) => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        wt.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.01), viewTime(chart, place(chart, event).time));
      } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        wt.pan(event.deltaX / chart.geometry.columns);
      }
    }, { passive: false });
  }

  // Handles keys. Up and down choose a row. Full stop and comma move to the next and the previous
  // turn. Enter explains the wait before it.
  function keys(chart, event) {
    if (!chart.geometry || wt.viewKeys(event)) return;
    const steps = { ArrowUp: -1, ArrowDown: 1, ".": 0, ",": 0, Enter: 0 };
    if (!(event.key in steps) || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const window = wt.align.window(chart.index), middle = (window.from + window.to) / 2;
    const cursor = chart.cursor || { row: 0, time: middle };
    if (event.key === "Enter") { explain(chart, chart.rows[cursor.row], cursor.time); return; }
    cursor.row = Math.max(0, Math.min(chart.rows.length - 1, cursor.row + steps[event.key]));
    const row = chart.rows[cursor.row];
    if (cursor.time < window.from || cursor.time > window.to) cursor.time = middle;
    const here = wt.timeline.describe(chart, row, cursor.time);
    if (here && event.key === ".") cursor.time = Math.min(here.end, chart.run.end - 1);
    if (here && event.key === ",") cursor.time = Math.max(0, wt.timeline.describe(chart, row, Math.max(0, here.begin - 1)).begin);
    chart.cursor = cursor;
    if (cursor.time > window.to || cursor.time < window.from) {
      const width = view.to - view.from, time = viewTime(chart, cursor.time);
      wt.show(time - width / 2, time + width / 2);
    }
    wt.timeline.draw(chart);
    showCursor(chart);
  }

  function showCursor(chart) {
    const { row, time } = chart.cursor, text = wt.timeline.describe(chart, chart.rows[row], time);
    const box = chart.canvas.getBoundingClientRect(), { columns, gutter, height, window } = chart.geometry;
    const x = box.left + gutter + ((time - window.from) / (window.to - window.from)) * columns;
    const rows = text && (text.wait >= 0 ? [...text.rows, ["Enter", "explains the wait"]] : text.rows);
    if (text) wt.showTip(wt.tipTable(text.head, rows), x, box.top + wt.timeline.TOP + row * height);
  }

  function attach(chart) {
    chart.canvas.addEventListener("keydown", (event) => keys(chart, event));
    chart.canvas.addEventListener("blur", () => {
      if (!chart.cursor) return;
      chart.cursor = null;
      wt.showTip(null);
      chart.redraw();
    });
    pointer(chart);
  }

  // Creates the tools above the timelines.
  function tools() {
    const button = (text, label, act) => element("button", { type: "button", title: label, "aria-label": label, onclick: act }, text);
    const where = element("output", { id: "tl-where" });
    const update = () => {
      const step = (view.to - view.from) / 1000;
      where.textContent = `${wt.time(view.from, step)} to ${wt.time(view.to, step)}, ${wt.time(view.to - view.from)} wide`;
    };
    wt.on("view", update);
    update();
    const charts = wt.timeline.charts, several = charts.some((chart) => chart.data.names.length > 1);
    const ofTasks = element("div", { class: "task-tools" }), refresh = wt.tasks.tools(ofTasks);
    const modes = wt.rows.modes(), rows = wt.choice("Rows", modes, wt.rows.mode, wt.rows.setMode);
    const colours = wt.choice("Colours", [["name", "by name"], ["task", "by task"]], wt.turns.colouring, (value) => {
      wt.turns.colouring = value;
      wt.notify("colours");
    });
    // The task whose work aligns the runs: that of the explained wait, or the first pinned one.
    const task = () => {
      const chosen = wt.waits.selected;
      if (chosen) return wt.timeline.task(chosen.run, wt.timeline.waits(chosen.run).task[chosen.index]).pid;
      return [...wt.tasks.pins][0] ?? null;
    };
    const note = element("p", { class: "legend", hidden: true });
    const align = wt.choice("Align by", [["time", "time"], ["work", "work done"], ["task", "work of a task"]], "time", (value) => {
      const of = value === "task" ? task() : null;
      note.hidden = value !== "task" || of !== null;
      note.textContent = "Click on a wait of the task, or pin the task in the rows of tasks, and choose this again.";
      wt.align.set(value === "task" && of === null ? "time" : value, of);
    });
    document.getElementById("tl-tools").append(
      element("div", { class: "buttons", role: "group", "aria-label": "Window" },
        button("−", "Zoom out (−)", () => wt.zoom(2)), button("+", "Zoom in (+)", () => wt.zoom(0.5)),
        button("‹", "Earlier (←)", () => wt.pan(-0.5)), button("›", "Later (→)", () => wt.pan(0.5)),
        button("All", "The whole run (0)", () => wt.show(0, wt.end))), where,
      ...(modes.length > 1 ? [rows] : []), ...(several ? [colours] : []), ...(wt.runs.length > 1 ? [align] : []), ofTasks, note);
    const shown = () => { ofTasks.hidden = wt.rows.mode !== "task"; refresh(); };
    wt.on("rows", shown);
    shown();
    wt.on("state", () => { rows.set(wt.rows.mode); colours.set(wt.turns.colouring); align.set(wt.align.mode); shown(); });
  }

  return { attach, tools };
})();
