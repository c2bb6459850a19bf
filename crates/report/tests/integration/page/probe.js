// SPDX-License-Identifier: GPL-2.0-only
// Operates the page and records the result of each check: true, or the unexpected value.
(async () => {
  const found = {};
  const check = (name, holds, otherwise) => { found[name] = holds ? true : otherwise === undefined ? false : otherwise; };
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  // Waits for a condition. Drawing happens in the next frame, which can take a while.
  const until = async (is) => { for (let i = 0; i < 60 && !is(); i++) await wait(50); return is(); };
  const key = (on, key, more = {}) => on.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
  // Counts the colours on a canvas. If something was drawn, there are several.
  const colours = (canvas) => {
    const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
    const context = copy.getContext("2d", { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    const { data } = context.getImageData(0, 0, copy.width, copy.height);
    const seen = new Set(), all = new Uint32Array(data.buffer);
    for (let i = 0; i < all.length; i += 7) seen.add(all[i]);
    return seen.size;
  };
  const print = (canvas) => canvas.toDataURL();
  const tip = document.getElementById("tip");
  try {
    for (let i = 0; i < 100 && !document.documentElement.dataset.ready; i++) await wait(50);
    check("ready", document.documentElement.dataset.ready === "yes", document.documentElement.dataset.ready);
    const all = wt.end, timelines = [...document.querySelectorAll("canvas.timeline")];
    if (all > 1) await use();
    check("no network", performance.getEntriesByType("resource").length === 0);
    check("errors", wrong.length === 0, wrong);
    check("fits the width", document.documentElement.scrollWidth <= innerWidth, document.documentElement.scrollWidth);

    async function use() {
      check("one timeline per run", timelines.length === wt.runs.length && timelines.every((canvas) => colours(canvas) > 4), timelines.map(colours));
      const drawn = [...document.querySelectorAll(".plot canvas")];
      check("every chart is drawn", drawn.every((canvas) => colours(canvas) > 1), drawn.map(colours));
      check("charts are there", drawn.length >= 7, drawn.length);

      const canvas = timelines[0], far = print(canvas);
      canvas.focus();
      key(canvas, "+"); key(canvas, "+");
      check("+ zooms in", Math.abs((wt.view.to - wt.view.from) * 4 / all - 1) < 0.01, [wt.view, all]);
      check("zooming redraws", await until(() => print(canvas) !== far));
      const from = wt.view.from;
      key(canvas, "ArrowRight");
      check("right arrow moves to later times", wt.view.from > from);
      key(canvas, "End");
      check("End moves to the end", wt.view.to === all);
      key(canvas, "0");
      check("0 shows the whole run", wt.view.from === 0 && wt.view.to === all && await until(() => print(canvas) === far));
      key(canvas, "ArrowDown");
      check("down arrow describes a CPU", !tip.hidden && tip.textContent.startsWith("CPU "), tip.textContent);
      const before = tip.textContent;
      key(canvas, ".");
      check("full stop moves to the next turn", !tip.hidden && tip.textContent !== before);
      canvas.blur();
      check("leaving hides the tooltip", tip.hidden);

      const box = canvas.getBoundingClientRect();
      const at = (x) => ({ clientX: box.left + x, clientY: box.top + 30, bubbles: true, cancelable: true, pointerId: 1 });
      canvas.dispatchEvent(new WheelEvent("wheel", { ...at(400), deltaY: -120, ctrlKey: true }));
      check("ctrl and wheel zoom", wt.view.to - wt.view.from < all);
      canvas.dispatchEvent(new PointerEvent("pointermove", at(400)));
      check("the pointer shows the tooltip", !tip.hidden && tip.textContent.includes("for"), tip.textContent);
      // Near an edge, the whole tooltip is visible.
      const fits = () => {
        const { left, right, top, bottom } = tip.getBoundingClientRect();
        return !tip.hidden && left >= 0 && right <= innerWidth && top >= 0 && bottom <= innerHeight && tip.scrollWidth <= tip.clientWidth;
      };
      for (const [x, y] of [[innerWidth - 2, innerHeight - 2], [1, 1], [innerWidth / 2, innerHeight - 2]]) {
        wt.showTip(wt.tipTable("CPU 3 at 1.25 ms", [["a_task_with_a_name_of_many_letters_and_without_blanks", "for 123 µs", "red"]]), x, y);
        check(`the tooltip is not cut off at ${x} ${y}`, fits(), JSON.stringify(tip.getBoundingClientRect()));
      }
      // The tooltip does not stay behind when the pointer is elsewhere.
      const again = () => canvas.dispatchEvent(new PointerEvent("pointermove", at(400)));
      again();
      document.querySelector("h1").dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
      check("a pointer elsewhere hides the tooltip", tip.hidden);
      again();
      check("the pointer shows it again", !tip.hidden);
      const scrolled = scrollY;
      scrollBy({ top: scrolled > 300 ? -300 : 300, behavior: "instant" });
      // Without a frame, the browser sends no scroll event.
      document.dispatchEvent(new Event("scroll"));
      check("scrolling hides the tooltip", await until(() => tip.hidden), [scrolled, scrollY, tip.textContent]);
      scrollTo({ top: scrolled, behavior: "instant" });
      again();
      document.documentElement.dispatchEvent(new PointerEvent("pointerleave"));
      check("leaving the page hides the tooltip", tip.hidden);
      await wait(100);
      wt.show(0, all);

      const button = (text) => [...document.querySelectorAll("#tl-tools button")].find((one) => one.textContent === text);
      button("+").click();
      check("buttons zoom", wt.view.to - wt.view.from < all * 0.51);
      button("All").click();

      const cdf = document.querySelector("[data-plot=latency]");
      cdf.focus();
      key(cdf, "ArrowRight");
      check("keys show a plot's values", await until(() => !tip.hidden && tip.textContent.includes("longer than")), tip.textContent);
      key(document.body, "Escape");
      check("Escape hides the tooltip", tip.hidden);
      const [tail] = [...cdf.querySelectorAll("canvas")].map(print);
      document.querySelector("#latency-tools [data-value=cdf]").click();
      check("the other distribution", await until(() => print(cdf.querySelector("canvas")) !== tail));

      const show = document.querySelector("#slowest button");
      show.click();
      check("a long wait is shown", wt.view.to - wt.view.from < all && document.activeElement.className === "timeline");
      await wait(200);
      check("its tooltip survives the scrolling", await until(() => !tip.hidden && tip.textContent.startsWith("CPU ")), tip.textContent);
      wt.show(0, all);

      const runs = document.querySelectorAll("button.run");
      if (runs.length > 1) {
        runs[1].click();
        check("a run is hidden", [...document.querySelectorAll("figure[data-run='1']")].every((figure) => figure.offsetParent === null));
        runs[1].click();
        check("a run is shown again", timelines[1].offsetParent !== null);
      }

      const ground = () => getComputedStyle(document.body).backgroundColor;
      const dark = matchMedia("(prefers-color-scheme: dark)").matches, [system, drawing] = [ground(), print(canvas)];
      check("the theme is the system's", system === (dark ? "rgb(18, 20, 23)" : "rgb(247, 247, 245)"), system);
      const theme = document.getElementById("theme");
      theme.click();
      if (!dark) theme.click();
      check("the theme changes", ground() !== system && await until(() => print(canvas) !== drawing), ground());
      dispatchEvent(new Event("beforeprint"));
      check("printing is light", ground() === "rgb(247, 247, 245)", ground());
      dispatchEvent(new Event("afterprint"));
      check("focusable elements have names", [...document.querySelectorAll("canvas[tabindex], button, [role=region]")]
        .every((one) => one.getAttribute("aria-label") || one.textContent.trim()));
    }
  } catch (error) {
    found.threw = String(error.stack);
  }
  const pre = document.createElement("pre");
  pre.id = "probe";
  pre.textContent = JSON.stringify(found);
  document.body.append(pre);
})();
