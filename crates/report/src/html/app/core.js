// SPDX-License-Identifier: GPL-2.0-only
// Code that all drawings share: the data, the theme, the window of time and the runs that are
// shown, and functions that format numbers.
"use strict";
const wt = (() => {
  const runs = JSON.parse(document.getElementById("data").textContent).runs;
  // CPUs are ordered by node, LLC and core. CPUs that share hardware are thus next to each other.
  for (const run of runs) {
    const near = (a, b) => [2, 1, 0].map((level) => run.places[a][level] - run.places[b][level]).find((difference) => difference) || a - b;
    run.order = run.places.map((_, cpu) => cpu).sort(near);
  }
  const end = Math.max(1, ...runs.map((run) => run.end));
  const root = document.documentElement;

  // Decodes a base64 text and decompresses it (raw deflate) into bytes.
  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Uint8Array(await new Response(inflated).arrayBuffer());
  }

  // Reads consecutive varints. Numbers may be up to 2^53.
  class Varints {
    constructor(bytes) { this.bytes = bytes; this.at = 0; }
    next() {
      let value = 0, scale = 1, byte;
      do {
        byte = this.bytes[this.at++];
        value += (byte & 127) * scale;
        scale *= 128;
      } while (byte > 127);
      return value;
    }
    byte() { return this.bytes[this.at++]; }
    signed() {
      const value = this.next();
      return value % 2 ? -(value + 1) / 2 : value / 2;
    }
  }

  // Formats a time, for example 12.3 µs. If `step` is given, the text has enough digits to
  // distinguish times that differ by `step` ns.
  function time(ns, step) {
    const size = Math.abs(ns);
    const [unit, name] = size < 999.5 ? [1, "ns"] : size < 999500 ? [1e3, "µs"] : size < 999.5e6 ? [1e6, "ms"] : [1e9, "s"];
    const value = ns / unit;
    let places = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
    if (step !== undefined) places = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / unit) - 1e-6)));
    if (unit === 1) places = 0;
    return (size === 0 ? "0" : value.toFixed(places)) + (size === 0 ? "" : " " + name);
  }

  // Formats a count, for example 12.3k.
  function count(n) {
    if (n < 1000) return Number.isInteger(n) ? String(n) : n.toPrecision(3);
    const [unit, name] = n < 999500 ? [1e3, "k"] : n < 999.5e6 ? [1e6, "M"] : [1e9, "G"];
    return (n / unit).toPrecision(3) + name;
  }

  const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (value !== false) made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children);
    return made;
  }

  // Creates a row of radio buttons, of which `chosen` is on. Calls `change` with the value that the
  // user chooses.
  function choice(label, values, chosen, change) {
    const group = element("div", { class: "choice", role: "radiogroup", "aria-label": label }, element("span", {}, label));
    const buttons = values.map(([value, text]) =>
      element("button", { type: "button", role: "radio", "data-value": value, onclick: () => choose(value) }, text));
    function choose(value) {
      mark(value);
      change(value);
    }
    group.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const at = buttons.indexOf(document.activeElement);
      if (!step || at < 0) return;
      event.preventDefault();
      const to = buttons[(at + step + buttons.length) % buttons.length];
      to.focus();
      choose(to.dataset.value);
    });
    group.append(...buttons);
    const mark = (value) => buttons.forEach((button) => {
      const on = button.dataset.value === value;
      button.setAttribute("aria-checked", on);
      button.tabIndex = on ? 0 : -1;
    });
    mark(chosen);
    // Shows a value that was chosen elsewhere.
    group.set = mark;
    return group;
  }

  // Returns the current value of a colour in the style sheet, which depends on the theme.
  // The values are kept until the theme changes, because a drawing needs very many of them.
  const colours = new Map();
  function css(name) {
    if (!colours.has(name)) colours.set(name, getComputedStyle(root).getPropertyValue(name).trim());
    return colours.get(name);
  }
  const colour = (run) => css(`--run-${run % 8}`);
  // Lines of different runs have different dash patterns, for readers who cannot distinguish the
  // colours.
  const dash = (run) => [[], [6, 3], [2, 3], [9, 3, 2, 3], [12, 4], [4, 2, 1, 2], [1, 2], [8, 2, 2, 2, 2, 2]][run % 8];

  // Shows the tooltip of the page at a position in the window. Hides it if there is no content.
  // `owner` is the element under the pointer, or null if a key shows the tooltip.
  const tip = document.getElementById("tip");
  let tipOwner = null, tipScroll = 0;
  function showTip(html, x, y, owner = null) {
    tipOwner = html ? owner : null;
    tipScroll = scrollY;
    if (!html) { tip.hidden = true; return; }
    if (typeof html === "string") tip.textContent = html; else tip.replaceChildren(html);
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = x + 14 + width > innerWidth - 8 ? x - 14 - width : x + 14;
    const top = y + 16 + height > innerHeight - 8 ? y - 12 - height : y + 16;
    const inside = (at, size, room) => Math.max(4, Math.min(at, room - size - 4));
    tip.style.transform = `translate(${inside(left, width, root.clientWidth)}px, ${inside(top, height, innerHeight)}px)`;
  }
  // An element is not told that the pointer has left it if it moves away below the pointer, for
  // example because the page scrolls, or if it is removed.
  const hideTip = () => showTip(null);
  addEventListener("pointermove", (event) => { if (tipOwner && !tipOwner.contains(event.target)) hideTip(); }, true);
  // The event of a scroll that precedes the tooltip can follow it.
  addEventListener("scroll", (event) => { if (event.target !== document || scrollY !== tipScroll) hideTip(); }, { capture: true, passive: true });
  addEventListener("blur", hideTip);
  root.addEventListener("pointerleave", hideTip);
  // Creates a table for a tooltip from a heading and rows of [label, text, colour].
  function tipTable(head, rows) {
    const body = rows.map(([label, text, colour]) => element("tr", {},
      element("th", {}, ...(colour ? [element("i", { style: `background:${colour}` })] : []), label), element("td", {}, text)));
    return element("div", {}, element("b", {}, head), element("table", {}, ...body));
  }

  const listeners = { view: [], runs: [], theme: [], rows: [], colours: [], wait: [], state: [] };
  const on = (event, act) => listeners[event].push(act);
  const restyle = () => colours.clear();
  const notify = (event) => {
    if (event === "theme") restyle();
    listeners[event].forEach((act) => act());
  };

  // The window of time that all charts show. Times are in ns.
  const view = { from: 0, to: end };
  function show(from, to) {
    const least = Math.min(end, 200);
    let width = Math.min(end, Math.max(least, to - from));
    if (!Number.isFinite(width)) width = end;
    const middle = (from + to) / 2;
    from = Math.min(Math.max(0, to - from < least ? middle - width / 2 : from), end - width);
    if (from === view.from && from + width === view.to) return;
    view.from = from;
    view.to = from + width;
    notify("view");
  }
  // `zoom` keeps the time `about` at its position. `pan` moves the window by a share of its width.
  const zoom = (factor, about = (view.from + view.to) / 2) =>
    show(about - (about - view.from) * factor, about + (view.to - about) * factor);
  const pan = (share) => {
    const by = Math.max(-view.from, Math.min(end - view.to, share * (view.to - view.from)));
    show(view.from + by, view.to + by);
  };
  // Handles a key. Returns true if the key moves the window of time.
  function viewKeys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const acts = {
      ArrowLeft: () => pan(event.shiftKey ? -0.5 : -0.1), ArrowRight: () => pan(event.shiftKey ? 0.5 : 0.1),
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => show(0, end),
      Home: () => pan(-1e9), End: () => pan(1e9), PageUp: () => pan(-0.9), PageDown: () => pan(0.9),
    };
    if (!acts[event.key]) return false;
    event.preventDefault();
    acts[event.key]();
    return true;
  }

  const hidden = new Set();
  function toggle(run) {
    if (hidden.has(run)) hidden.delete(run); else hidden.add(run);
    if (hidden.size === runs.length) hidden.clear();
    for (const shown of document.querySelectorAll("[data-run]")) {
      const off = hidden.has(Number(shown.dataset.run));
      if (shown.tagName === "BUTTON") shown.setAttribute("aria-pressed", !off);
      else shown.classList.toggle("off", off);
    }
    notify("runs");
  }

  // Sets the size of a canvas, given in CSS pixels, and uses the resolution of the screen. Clears
  // the canvas and returns its context.
  function surface(canvas, width, height) {
    const scale = Math.max(wt.printing ? 2 : 1, devicePixelRatio || 1);
    const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
    if (canvas.width !== w) canvas.width = w;
    if (canvas.height !== h) canvas.height = h;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    return context;
  }

  // Returns a function that requests a call of `act` in the next frame, at most one per frame.
  function later(act) {
    let requested = false, timer = 0;
    const run = () => {
      if (!requested) return;
      requested = false;
      clearTimeout(timer);
      act();
    };
    return () => {
      if (requested) return;
      requested = true;
      requestAnimationFrame(run);
      // A page that is not visible has no frames.
      timer = setTimeout(run, 250);
    };
  }

  // Returns a function that draws an element in the next frame if it is visible, and otherwise when
  // it becomes visible.
  const waiting = new Map();
  function isVisible(one) {
    const { top, bottom, width } = one.getBoundingClientRect();
    return width > 0 && bottom > -100 && top < innerHeight + 100;
  }
  function visible(one, draw) {
    const soon = later(() => {
      if (!isVisible(one) && !wt.printing) { waiting.set(one, soon); return; }
      waiting.delete(one);
      draw();
    });
    return soon;
  }
  addEventListener("scroll", () => waiting.forEach((soon, one) => { if (isVisible(one)) soon(); }), { passive: true });

  return { runs, end, root, visible, unpack, Varints, time, count, plural, element, choice, css, restyle, colour, dash, showTip, tipTable, on, notify, view,
    show, zoom, pan, viewKeys, hidden, toggle, surface, later, printing: false };
})();
