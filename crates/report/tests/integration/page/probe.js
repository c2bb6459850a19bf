// SPDX-License-Identifier: GPL-2.0-only
// Operates the page and records the result of each check: true, or the unexpected value.
(async () => {
  const found = {};
  const check = (name, holds, otherwise) => { found[name] = holds ? true : otherwise === undefined ? false : otherwise; };
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  // Waits for a condition. Drawing happens in the next frame, which can take a while.
  const until = async (is) => { for (let i = 0; i < 160 && !is(); i++) await wait(50); return is(); };
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

      await explain(canvas, all);
      await rows(canvas);
      await address(all);

      const runs = document.querySelectorAll("button.run");
      if (runs.length > 1) {
        runs[1].click();
        check("a run is hidden", [...document.querySelectorAll("figure[data-run='1']")].every((figure) => figure.offsetParent === null));
        runs[1].click();
        check("a run is shown again", timelines[1].offsetParent !== null);
      }

      contrast();

      canvas.scrollIntoView({ behavior: "instant" });
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
    // Waits are explained by a click, by keys and from the list.
    async function explain(canvas, all) {
      const story = document.getElementById("story"), shown = () => !story.hidden && story.textContent;
      const before = print(canvas);
      document.querySelector("#slowest button").click();
      check("a long wait is explained", shown() && story.textContent.includes("waited"), story.textContent);
      check("the window moves to it", wt.view.to - wt.view.from < all && document.activeElement.classList.contains("timeline"));
      check("the wait is drawn", await until(() => print(canvas) !== before));
      for (const part of ["begin", "queued", "ran instead", "other CPUs", "end"]) check(`the story has '${part}'`, story.textContent.includes(part));
      [...story.querySelectorAll("button")].find((one) => one.textContent === "×").click();
      check("the explanation is closed", story.hidden && !wt.waits.selected);
      // A click on the turn after a wait.
      // Pages of long runs draw some turns together, and their waits cannot be clicked.
      const ends = (run) => {
        const all = wt.timeline.waits(run), data = wt.timeline.data(run);
        if (data.cpus.some((own) => own.turns.some((turns) => turns > 1))) return -1;
        return all.ended.findIndex((ended, i) => {
          if (!ended || wt.waits.endingAt(all, all.task[i], all.to[i]) !== i) return false;
          const own = data.cpus[all.got[i]], at = wt.turns.find(own, all.to[i] + 1);
          return at >= 0 && at < own.n && wt.turns.begin(own, at) === all.to[i] && own.turns[at] === 1 && own.task[at] === all.task[i];
        });
      };
      const run = wt.runs.findIndex((_, i) => ends(i) >= 0);
      if (run < 0) return;
      const index = ends(run);
      const waits = wt.timeline.waits(run), chart = wt.timeline.charts[run];
      wt.timeline.go(run, index);
      wt.waits.select(null, -1);
      wt.timeline.draw(chart);
      const { columns, gutter, height, window } = chart.geometry;
      const box = chart.canvas.getBoundingClientRect(), time = waits.to[index] + 1;
      const x = box.left + gutter + ((time - window.from) / (window.to - window.from)) * columns;
      const y = box.top + wt.timeline.TOP + (chart.rowOf.get(waits.got[index]) + 0.5) * height;
      const press = { clientX: x, clientY: y, bubbles: true, cancelable: true, pointerId: 1, button: 0 };
      chart.canvas.dispatchEvent(new PointerEvent("pointerdown", press));
      chart.canvas.dispatchEvent(new PointerEvent("pointerup", press));
      check("a click on a turn explains the wait before", wt.waits.selected?.index === index, wt.waits.selected);
      key(document.body, "Escape");
      check("Escape closes the explanation", story.hidden);
      // The same with keys: the cursor starts in the middle of the window.
      wt.show(time - 40, time + 40);
      chart.canvas.focus();
      for (let i = 0; i <= chart.rowOf.get(waits.got[index]); i++) key(chart.canvas, i ? "ArrowDown" : "ArrowUp");
      key(chart.canvas, "Enter");
      check("Enter explains a wait", wt.waits.selected?.index === index, [wt.waits.selected, index]);
      wt.waits.select(null, -1);
      wt.show(0, all);
    }

    // Rows can be folded, and can be tasks, which are searched, sorted and pinned.
    async function rows(canvas) {
      const choose = (value) => document.querySelector(`#tl-tools [data-value=${value}]`).click();
      const chart = wt.timeline.charts[0], cpus = chart.rows.length;
      // Charts that are not visible are drawn later.
      chart.figure.scrollIntoView({ behavior: "instant" });
      const group = document.querySelector("#tl-tools [data-value=llc]");
      if (group) {
        group.click();
        const folded = chart.rows.length, heads = () => [...chart.plot.querySelectorAll(".row-labels button")];
        check("CPUs are folded", folded < cpus && await until(() => heads().length === folded), [folded, heads().length]);
        heads()[0].click();
        check("a row is unfolded", chart.rows.length > folded && await until(() => heads()[0].getAttribute("aria-expanded") === "true"));
      }
      choose("task");
      const labels = () => [...chart.plot.querySelectorAll(".row-labels button")].map((one) => one.textContent.slice(2));
      check("tasks have rows", await until(() => labels().some((text) => text.startsWith("server"))), labels());
      const search = document.querySelector("#tl-tools input[type=search]");
      search.value = "client1";
      search.dispatchEvent(new Event("input"));
      check("tasks are searched", await until(() => labels().length && labels().every((text) => text.startsWith("client1"))), labels());
      const order = document.querySelector("#tl-tools select");
      order.value = "name";
      order.dispatchEvent(new Event("change"));
      check("tasks are sorted", await until(() => labels().join() === [...labels()].sort((a, b) => a.localeCompare(b, "en", { numeric: true })).join()), labels());
      const last = labels().at(-1);
      [...chart.plot.querySelectorAll(".row-labels button")].at(-1).click();
      search.value = "server";
      search.dispatchEvent(new Event("input"));
      check("a pinned task stays first", await until(() => labels()[0] === last), labels().slice(0, 3));
      canvas.focus();
      key(canvas, "ArrowDown");
      check("down arrow describes a task", !tip.hidden && tip.textContent.startsWith("server"), tip.textContent);
      canvas.blur();
    }

    // The state of the page is in its address, which restores it.
    async function address(all) {
      wt.show(all / 4, all / 2);
      wt.state.write();
      const saved = location.hash, { from, to } = wt.view, pins = wt.tasks.pins.size;
      check("the address has the state", ["t=", "rows=task", "q=server", "sort=name", "pin="].every((part) => saved.includes(part)), saved);
      location.hash = "#locks&rows=cpu";
      check("an address without state resets it", await until(() => wt.rows.mode === "cpu" && wt.tasks.pins.size === 0 && wt.view.to === all), wt.state.collect());
      location.hash = saved;
      check("an address restores the state", await until(() => wt.rows.mode === "task" && wt.tasks.pins.size === pins
        && Math.abs(wt.view.from - from) < 2 && Math.abs(wt.view.to - to) < 2), [wt.view, saved]);
      location.hash = "#";
      await until(() => wt.rows.mode === "cpu");
      location.hash = "#t=x-y&rows=&wait=9.9&align=%zz&pin=a&hide=77";
      await wait(50);
      check("a wrong address does no harm", wt.rows.mode === "cpu" && wrong.length === 0, wrong);
      location.hash = "#";
      await wait(50);
      wt.show(0, all);
    }

    // Text has enough contrast (WCAG AA: 4.5, or 3 for large text).
    function contrast() {
      const parse = (text) => {
        const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
        return text.startsWith("color(") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
      };
      const behind = (one) => {
        for (; one; one = one.parentElement) {
          const colour = parse(getComputedStyle(one).backgroundColor);
          if (colour[3] > 0.8) return colour;
        }
        return [255, 255, 255, 1];
      };
      const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      const weak = [...document.querySelectorAll("main *, nav *")].filter((one) => one.checkVisibility?.() && !one.disabled
        && [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())).map((one) => {
        const style = getComputedStyle(one), [a, b] = [light(parse(style.color)), light(behind(one))].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05), large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 600);
        return [ratio, large ? 3 : 4.5, one.tagName + "." + one.className, one.textContent.slice(0, 30)];
      }).filter(([ratio, least]) => ratio < least);
      check("text has contrast", weak.length === 0, weak.slice(0, 5));
    }
  } catch (error) {
    found.threw = String(error.stack);
  }
  const pre = document.createElement("pre");
  pre.id = "probe";
  pre.textContent = JSON.stringify(found);
  document.body.append(pre);
})();
