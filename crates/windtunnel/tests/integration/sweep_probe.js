// SPDX-License-Identifier: GPL-2.0-only
// Operates the page of a sweep and records the result of each check: true, or the unexpected value.
(async () => {
  const found = {};
  const check = (name, holds, otherwise) => { found[name] = holds ? true : otherwise === undefined ? false : otherwise; };
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const all = (selector) => [...document.querySelectorAll(selector)];
  try {
    for (let i = 0; i < 100 && !document.documentElement.dataset.ready; i++) await wait(50);
    check("ready", document.documentElement.dataset.ready === "yes");

    const cells = all("#heat-body td button");
    check("a cell for each configuration, machine and workload", cells.length === 12, cells.length);
    check("cells have values", cells.every((cell) => /\d/.test(cell.textContent)), cells.map((cell) => cell.textContent));
    // The text of a head must not reach into the next column.
    const heads = all("#heat-body thead th").slice(1);
    const overlap = heads.filter((head) => {
      const range = document.createRange();
      range.selectNodeContents(head);
      return range.getBoundingClientRect().right > head.getBoundingClientRect().right + 1;
    });
    check("heads do not overlap", heads.length === 4 && overlap.length === 0, overlap.map((head) => head.textContent));
    const command = document.getElementById("command");
    check("no command at first", command.hidden);
    cells[7].click();
    const shown = command.querySelector("code").textContent;
    check("a click shows the command", !command.hidden && shown.startsWith("windtunnel run ") && shown.includes("--seed 1"), shown);

    const before = document.getElementById("heat-body").textContent;
    const select = document.querySelector("#heat-tools select");
    select.value = [...select.options].find((option) => option.textContent === "p99_wakeup").value;
    select.dispatchEvent(new Event("change"));
    const after = document.getElementById("heat-body").textContent;
    check("the heat map shows another figure", after !== before && after.includes("µs"), after);

    check("a point for each configuration", all("#pareto-body circle").length === 3, all("#pareto-body circle").length);
    check("the front has a line", document.querySelector("#pareto-body .front").getAttribute("d").startsWith("M"));
    const [across] = all("#pareto-tools select");
    const front = document.getElementById("pareto-body").innerHTML;
    across.value = [...across.options].find((option) => option.textContent === "p50_wakeup").value;
    across.dispatchEvent(new Event("change"));
    check("the front of other figures", document.getElementById("pareto-body").innerHTML !== front);

    const factors = all("#effects-body h3").map((head) => head.textContent);
    check("effects of all factors", factors.includes("policy") && factors.includes("set.slice_ns"), factors);
    check("effects have intervals", all("#effects-body .interval").length >= 4);
    const drawing = document.querySelector("#parallel-body svg").getBoundingClientRect();
    const outside = all("#parallel-body text").filter((text) => text.getBoundingClientRect().right > drawing.right + 1);
    check("names of axes are within the drawing", outside.length === 0, outside.map((text) => text.textContent));
    const lines = all("#parallel-body .line");
    check("a line for each cell", lines.length === 12, lines.length);
    lines[0].dispatchEvent(new MouseEvent("click", { bubbles: true }));
    check("a click on a line shows its command", command.querySelector("code").textContent !== shown);

    check("names are not markup", all("img").length === 0 && document.body.textContent.includes("<img src=x"));
    check("no network", performance.getEntriesByType("resource").length === 0);
    check("errors", wrong.length === 0, wrong);
    check("fits the width", document.documentElement.scrollWidth <= innerWidth, document.documentElement.scrollWidth);
  } catch (error) {
    found.threw = String(error.stack);
  }
  const pre = document.createElement("pre");
  pre.id = "probe";
  pre.textContent = JSON.stringify(found);
  document.body.append(pre);
})();
