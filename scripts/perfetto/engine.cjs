// SPDX-License-Identifier: GPL-2.0-only
// Runs Perfetto's trace processor, a WebAssembly module of Perfetto's user interface, under Node.
//
// node engine.cjs FOLDER: FOLDER contains engine_bundle.js and trace_processor.wasm. Requests come from
// standard input, and replies go to standard output: a length (32 bits, little-endian), and a
// TraceProcessorRpcStream of that many bytes.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const folder = process.argv[2];
// The bundle expects to run in a web worker.
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = class {};
globalThis.location = { href: "file:///" };
console.log = console.warn = (text) => fs.writeSync(2, `${text}\n`);
globalThis.XMLHttpRequest = class {
    open(method, name) {
        this.name = path.basename(name);
    }
    send() {
        this.response = new Uint8Array(fs.readFileSync(path.join(folder, this.name))).buffer;
    }
};
// Hides Node from the bundle, which would otherwise read files itself.
const node = globalThis.process;
globalThis.process = undefined;
vm.runInThisContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), { filename: "engine_bundle.js" });

const port = {
    onmessage: null,
    postMessage(bytes) {
        const length = Buffer.alloc(4);
        length.writeUInt32LE(bytes.length);
        fs.writeSync(1, length);
        for (let at = 0; at < bytes.length; ) {
            at += fs.writeSync(1, bytes, at);
        }
    },
};

function readExactly(length) {
    const bytes = Buffer.alloc(length);
    for (let at = 0; at < length; ) {
        const got = fs.readSync(0, bytes, at, length - at);
        if (got === 0) {
            return null;
        }
        at += got;
    }
    return bytes;
}

function serve() {
    globalThis.onmessage({ data: port });
    for (;;) {
        const length = readExactly(4);
        const request = length && readExactly(length.readUInt32LE());
        if (!request) {
            node.exit(0);
        }
        port.onmessage({ data: new Uint8Array(request) });
    }
}

// Loading the bundle starts to compile the module, but nothing signals when that is complete.
setTimeout(serve, 3000);
