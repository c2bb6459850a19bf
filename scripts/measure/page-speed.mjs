// SPDX-License-Identifier: GPL-2.0-only
// Measures how long the HTML page takes to react: page-speed.mjs PAGE.html
//
// Opens the page in a headless Chromium (the program that the variable CHROMIUM names, or one of
// the path) and operates the first timeline with keys and the pointer.
// Prints for each action the CPU time of the page's main thread, and the time until the next frame.
// The former hardly depends on what else the host does.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";

if (process.argv.length !== 3) {
  console.error("usage: page-speed.mjs PAGE.html, for example of windtunnel run eevdf vtime steal -m epyc-2s --html PAGE.html");
  process.exit(2);
}
const profile = mkdtempSync(join(tmpdir(), "page-speed-"));
const folders = (process.env.PATH || "").split(delimiter);
const installed = ["chromium-headless-shell", "chromium", "google-chrome"].find((name) => folders.some((folder) => existsSync(join(folder, name))));
const chromium = spawn(process.env.CHROMIUM || installed || "chromium-headless-shell",
  ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", `--user-data-dir=${profile}`, "about:blank"],
  { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
chromium.on("error", (error) => { console.error(`page-speed: ${error.message}`); process.exit(2); });

// Messages of the DevTools protocol end with NUL.
const waiting = new Map();
let number = 0, received = "";
chromium.stdio[4].setEncoding("utf8").on("data", (data) => {
  received += data;
  for (let end; (end = received.indexOf("\0")) >= 0; received = received.slice(end + 1)) {
    const message = JSON.parse(received.slice(0, end));
    waiting.get(message.id)?.(message);
    waiting.delete(message.id);
  }
});
const send = (method, params, sessionId) => new Promise((done) => {
  waiting.set(++number, (message) => done(message.result));
  chromium.stdio[3].write(JSON.stringify({ id: number, method, params, sessionId }) + "\0");
});
const { targetId } = await send("Target.createTarget", { url: "about:blank" });
const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
const page = (method, params) => send(method, params, sessionId);
const evaluate = async (expression) => (await page("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true })).result.value;

await page("Emulation.setDeviceMetricsOverride", { width: 1280, height: 900, deviceScaleFactor: 1, mobile: false });
await page("Page.navigate", { url: `file://${resolve(process.argv[2])}` });
for (let i = 0; i < 600 && await evaluate("document.documentElement?.dataset.ready") !== "yes"; i++) await new Promise((done) => setTimeout(done, 100));
await page("Performance.enable", { timeDomain: "threadTicks" });
const cpu = async () => (await page("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;

await evaluate(`
  window.frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  window.canvas = document.querySelector("canvas.timeline");
  canvas.scrollIntoView();
  canvas.focus({ preventScroll: true });
  window.key = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  window.pointer = (type, x, y) => {
    const { left, top } = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new PointerEvent(type, { clientX: left + x, clientY: top + y, bubbles: true, cancelable: true, pointerId: 1, button: 0 }));
  };
  frame().then(frame)`);
console.log("action             CPU ms   until drawn ms");
async function measure(name, times, act) {
  const before = await cpu();
  const drawn = await evaluate(`(async () => {
    const times = [];
    for (let i = 0; i < ${times}; i++) { const start = performance.now(); ${act}; await frame(); times.push(performance.now() - start); }
    return times.sort((a, b) => a - b)[times.length >> 1];
  })()`);
  console.log(name.padEnd(18), ((1000 * (await cpu() - before)) / times).toFixed(1).padStart(6), drawn.toFixed(1).padStart(12));
}
await measure("zoom", 4, 'key(i % 2 ? "-" : "+")');
await evaluate('key("+"); key("+"); frame()');
await measure("move", 10, 'key("ArrowRight")');
await measure("choose a row", 10, 'key("ArrowDown")');
await measure("point", 20, 'pointer("pointermove", 300 + 20 * i, 100 + 10 * i)');
await evaluate('pointer("pointerdown", 500, 300)');
await measure("drag", 10, 'pointer("pointermove", 500 + 10 * i, 300)');
await evaluate('pointer("pointerup", 650, 300)');
await measure("explain a wait", 10, "{ const { run, index } = wt.waits.longest(10)[i]; wt.waits.select(run, index, false); }");
await new Promise((done) => chromium.on("exit", done).kill());
rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
