// SPDX-License-Identifier: GPL-2.0-only
// Starts the page: the theme, the buttons for the runs, printing, and all drawings.
"use strict";
(async () => {
  const button = document.getElementById("theme");
  const words = { auto: "Auto", light: "Light", dark: "Dark" };
  // Reads or stores the chosen theme. Browsers may deny storage to pages that are local files. The
  // choice is then lost when the page is closed.
  const stored = (value) => {
    try {
      if (value === undefined) return localStorage.getItem("windtunnel-theme");
      localStorage.setItem("windtunnel-theme", value);
    } catch { /* not kept */ }
    return null;
  };
  let theme = stored() in words ? stored() : "auto";
  function dress(forced) {
    const wanted = forced || theme;
    if (wanted === "auto") delete wt.root.dataset.theme; else wt.root.dataset.theme = wanted;
    wt.restyle();
    button.textContent = words[theme];
  }
  dress();
  button.addEventListener("click", () => {
    const order = Object.keys(words);
    theme = order[(order.indexOf(theme) + 1) % order.length];
    stored(theme);
    dress();
    wt.notify("theme");
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => wt.notify("theme"));
  for (const run of document.querySelectorAll("button.run")) run.addEventListener("click", () => wt.toggle(Number(run.dataset.run)));
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    wt.showTip(null);
    if (wt.waits.selected) wt.waits.select(null, -1);
  });

  // For printing, everything is drawn again in the light theme and at a higher resolution.
  function redraw() {
    wt.timeline.redraw();
    wt.plots.redraw();
    wt.heat.redraw();
  }
  addEventListener("beforeprint", () => { wt.printing = true; wt.showTip(null); dress("light"); redraw(); });
  addEventListener("afterprint", () => { wt.printing = false; dress(); redraw(); });

  try {
    wt.story.start();
    await wt.timeline.start();
    wt.input.tools();
    await wt.plots.start();
    wt.heat.start();
    wt.state.start();
    addEventListener("resize", wt.later(wt.timeline.redraw));
    wt.root.dataset.ready = "yes";
  } catch (error) {
    wt.root.dataset.ready = "failed";
    document.querySelector("main").prepend(wt.element("p", { class: "empty", role: "alert" },
      `The drawings cannot be shown: ${error.message}. Use a browser from 2023 or later.`));
    throw error;
  }
})();
