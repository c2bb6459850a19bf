// SPDX-License-Identifier: GPL-2.0-only
// Keeps the state of the page in the fragment of its address, so that an address shows a colleague
// the same window, rows and wait. The fragment of a section, such as #locks, comes first.
"use strict";
wt.state = (() => {
  // Time in ms after the last change until the address changes. Browsers limit the rate.
  const DELAY = 150;
  let timer = 0, section = "";

  function read() {
    const [first, ...rest] = location.hash.slice(1).split("&");
    const all = first.includes("=") ? [first, ...rest] : rest;
    section = first.includes("=") ? "" : first;
    return Object.fromEntries(all.map((part) => {
      const at = part.indexOf("=");
      try { return [part.slice(0, at), decodeURIComponent(part.slice(at + 1))]; } catch { return [part.slice(0, at), ""]; }
    }));
  }

  function collect() {
    const { from, to } = wt.view, chosen = wt.waits.selected;
    const whole = from === 0 && to === wt.end;
    const all = {
      t: whole ? "" : `${Math.round(from)}-${Math.round(to)}`,
      rows: wt.rows.mode === "cpu" ? "" : wt.rows.mode,
      open: [...wt.rows.unfolded].join(","),
      colours: wt.turns.colouring === "name" ? "" : wt.turns.colouring,
      align: wt.align.mode === "time" ? "" : wt.align.mode + (wt.align.task === null ? "" : `.${wt.align.task}`),
      hide: [...wt.hidden].join(","),
      wait: chosen ? `${chosen.run}.${chosen.index}` : "",
      ...wt.tasks.state(),
    };
    return Object.entries(all).filter(([, value]) => value);
  }

  function write() {
    const parts = collect().map(([key, value]) => `${key}=${encodeURIComponent(value).replace(/%2C/g, ",").replace(/%20/g, "+")}`);
    const hash = [...(section ? [section] : []), ...parts].join("&");
    if (location.hash.slice(1) === hash) return;
    try { history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search); } catch { /* not kept */ }
  }
  function changed() {
    clearTimeout(timer);
    timer = setTimeout(write, DELAY);
  }

  // Applies the state of the address. Values that are not valid are ignored.
  function apply() {
    const found = read();
    wt.rows.setMode(wt.rows.modes().some(([mode]) => mode === found.rows) ? found.rows : "cpu");
    wt.rows.setUnfolded((found.open || "").replaceAll("+", " ").split(",").filter(Boolean));
    wt.tasks.restore({ ...found, q: (found.q || "").replaceAll("+", " ") });
    wt.turns.colouring = found.colours === "task" ? "task" : "name";
    const hide = (found.hide || "").split(",").filter(Boolean).map(Number);
    wt.runs.forEach((_, run) => { if (hide.includes(run) !== wt.hidden.has(run) && hide.length < wt.runs.length) wt.toggle(run); });
    const [align, pid] = (found.align || "time").split(".");
    const aligned = wt.runs.length > 1 && ["work", "task"].includes(align);
    wt.align.set(aligned ? align : "time", align === "task" ? Number(pid) : null);
    wt.notify("colours");
    wt.notify("rows");
    const [from, to] = (found.t || "").split("-").map(Number);
    if (to > from) wt.show(from, to); else wt.show(0, wt.end);
    const [run, index] = (found.wait || "").split(".").map(Number);
    if (found.wait && run in wt.runs) wt.waits.select(run, index, !found.t); else wt.waits.select(null, -1);
    wt.notify("state");
    if (section && Object.keys(found).length) document.getElementById(section)?.scrollIntoView({ behavior: "instant" });
  }

  function start() {
    apply();
    ["view", "runs", "rows", "colours", "wait"].forEach((event) => wt.on(event, changed));
    addEventListener("hashchange", () => {
      // A link to a section has no state. The state is added to it.
      if (location.hash.includes("=")) apply(); else { section = location.hash.slice(1); changed(); }
    });
  }

  return { start, write, collect };
})();
