// SPDX-License-Identifier: GPL-2.0-only
// Uses the page and writes down what came of it: true, or what was there instead.
(async () => {
  const found = {};
  const check = (name, is, otherwise) => { found[name] = is ? true : otherwise === undefined ? false : otherwise; };
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  // Drawing waits for the next frame, which may be long in coming.
  const until = async (is) => { for (let i = 0; i < 60 && !is(); i++) await wait(50); return is(); };
  const key = (on, key, more = {}) => on.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
  // Different colours on a canvas: a drawing has several.
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
      check("a timeline a run", timelines.length === wt.runs.length && timelines.every((canvas) => colours(canvas) > 4), timelines.map(colours));
      const drawn = [...document.querySelectorAll(".plot canvas")];
      check("every chart is drawn", drawn.every((canvas) => colours(canvas) > 1), drawn.map(colours));
      check("charts are there", drawn.length >= 7, drawn.length);

      const canvas = timelines[0], far = print(canvas);
      canvas.focus();
      key(canvas, "+"); key(canvas, "+");
      check("+ zooms in", Math.abs((wt.view.to - wt.view.from) * 4 / all - 1) < 0.01, [wt.view, all]);
      check("and draws anew", await until(() => print(canvas) !== far));
      const from = wt.view.from;
      key(canvas, "ArrowRight");
      check("right is later", wt.view.from > from);
      key(canvas, "End");
      check("End is the end", wt.view.to === all);
      key(canvas, "0");
      check("0 is all", wt.view.from === 0 && wt.view.to === all && await until(() => print(canvas) === far));
      key(canvas, "ArrowDown");
      check("down tells of a CPU", !tip.hidden && tip.textContent.startsWith("CPU "), tip.textContent);
      const told = tip.textContent;
      key(canvas, ".");
      check("full stop goes on", !tip.hidden && tip.textContent !== told);
      canvas.blur();
      check("leaving it is quiet", tip.hidden);

      const box = canvas.getBoundingClientRect();
      const at = (x) => ({ clientX: box.left + x, clientY: box.top + 30, bubbles: true, cancelable: true, pointerId: 1 });
      canvas.dispatchEvent(new WheelEvent("wheel", { ...at(400), deltaY: -120, ctrlKey: true }));
      check("ctrl and wheel zoom", wt.view.to - wt.view.from < all);
      canvas.dispatchEvent(new PointerEvent("pointermove", at(400)));
      check("the pointer tells", !tip.hidden && tip.textContent.includes("for"), tip.textContent);
      wt.show(0, all);

      const button = (text) => [...document.querySelectorAll("#tl-tools button")].find((of) => of.textContent === text);
      button("+").click();
      check("buttons zoom", wt.view.to - wt.view.from < all * 0.51);
      button("All").click();

      const cdf = document.querySelector("[data-plot=latency]");
      cdf.focus();
      key(cdf, "ArrowRight");
      check("a plot tells by keys", await until(() => !tip.hidden && tip.textContent.includes("longer than")), tip.textContent);
      key(document.body, "Escape");
      check("Escape is quiet", tip.hidden);
      const [tail] = [...cdf.querySelectorAll("canvas")].map(print);
      document.querySelector("#latency-tools [data-value=cdf]").click();
      check("the other distribution", await until(() => print(cdf.querySelector("canvas")) !== tail));

      const show = document.querySelector("#slowest button");
      show.click();
      check("a long wait is shown", wt.view.to - wt.view.from < all && document.activeElement.className === "timeline");
      wt.show(0, all);

      const runs = document.querySelectorAll("button.run");
      if (runs.length > 1) {
        runs[1].click();
        check("a run is hidden", [...document.querySelectorAll("figure[data-run='1']")].every((of) => of.offsetParent === null));
        runs[1].click();
        check("and shown again", timelines[1].offsetParent !== null);
      }

      const ground = () => getComputedStyle(document.body).backgroundColor;
      const dark = matchMedia("(prefers-color-scheme: dark)").matches, [system, drawing] = [ground(), print(canvas)];
      check("as the system", system === (dark ? "rgb(18, 20, 23)" : "rgb(247, 247, 245)"), system);
      const theme = document.getElementById("theme");
      theme.click();
      if (!dark) theme.click();
      check("the other theme", ground() !== system && await until(() => print(canvas) !== drawing), ground());
      dispatchEvent(new Event("beforeprint"));
      check("printed is light", ground() === "rgb(247, 247, 245)", ground());
      dispatchEvent(new Event("afterprint"));
      check("focusable has a name", [...document.querySelectorAll("canvas[tabindex], button, [role=region]")]
        .every((of) => of.getAttribute("aria-label") || of.textContent.trim()));
    }
  } catch (error) {
    found.threw = String(error.stack);
  }
  const pre = document.createElement("pre");
  pre.id = "probe";
  pre.textContent = JSON.stringify(found);
  document.body.append(pre);
})();
