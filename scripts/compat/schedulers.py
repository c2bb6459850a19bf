#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""schedulers.py DIR WINDTUNNEL OUT: runs every scheduler that objects.sh compiled into DIR on machines of 8, 32 and 256 CPUs under
workloads/compat.json, two at a time, and writes the table OUT (docs/compat.md). Exit status 1 if one does not run as it should: to the
end, or, where its policy is in a user-space half that is not here, until the watchdog ends it; or if checked mode reports something of it.
COMPAT_OBJECTS names more objects, by spaces: they run the same way, and are told of at the end instead of in the table.
"""
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

# Simulated time is short where machines are large. The workload is for 8 CPUs, and so many times that for larger machines.
MACHINES = [
    ("8 CPUs", "pack:1 l3:1 core:4 pu:2", "1s", 1),
    ("32 CPUs", "numa32", "400ms", 4),
    ("256 CPUs", "epyc-2s", "100ms", 32),
]
# Those whose policy is in user space: how they end without it, and simulated time enough for that.
ENDS = {
    "scx_rustland": ("SCX_EXIT_ERROR_STALL", "20s"),
    "scx_userland": ("SCX_EXIT_ERROR_STALL", "60s"),
}
# Checked mode is as hard to please as a verifier, and no harder: it has nothing to report of those that verifiers take.
CHECKED = ("8 CPUs, --check", "pack:1 l3:1 core:4 pu:2", "100ms", 1)
LIMIT_S = 240


def main():
    folder, windtunnel, out = sys.argv[1:]
    objects = [(group, name, path) for group in ("kernel", "scx") for name, path in found(f"{folder}/objects/{group}")]
    objects += [("own", os.path.basename(path).removesuffix(".bpf.o"), path) for path in os.environ.get("COMPAT_OBJECTS", "").split()]
    versions = crate_versions()
    with open(f"{folder}/linux/complete") as file:
        kernel = file.read().strip()
    for _, _, _, times in MACHINES:
        workload(folder, times)
    started = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        runs = [
            [pool.submit(run, windtunnel, path, name, machine, limit, workload_path(folder, times)) for _, machine, limit, times in MACHINES]
            for _, name, path in objects
        ]
        _, machine, limit, times = CHECKED
        checked = [
            pool.submit(run, windtunnel, path, name, machine, limit, workload_path(folder, times), check=True) for _, name, path in objects
        ]
        rows = [[cell.result() for cell in row] for row in runs]
        checked = [cell.result() for cell in checked]
    failed = 0
    lines, own = [], []
    for (group, name, _), row, check in zip(objects, rows, checked):
        for (label, *_), cell in zip(MACHINES + [CHECKED], row + [check]):
            if not cell["right"]:
                failed += 1
                print(f"{name}, {label}: {cell['text']}\n    {cell['repeat']}", file=sys.stderr)
        if group == "own":
            own += [f"{name}, {label}: {cell['text']}" for (label, *_), cell in zip(MACHINES, row) if cell["right"]]
            continue
        version = f"Linux {kernel}" if group == "kernel" else versions.get(name, "?")
        absent = next((cell["absent"] for cell in row if cell["absent"]), "")
        lines.append(f"| {name} | {version} | " + " | ".join(cell["text"] for cell in row) + f" | {absent} |")
    with open(out, "w") as file:
        file.write(HEAD + "\n".join(lines) + "\n")
    print("".join(f"{line}\n" for line in own), end="")
    print(f"{len(objects)} schedulers on {len(MACHINES)} machines in {time.monotonic() - started:.0f} s, {failed} runs not as they should be: {out}")
    sys.exit(1 if failed else 0)


HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-only -->
# Schedulers of others, unmodified

<!-- Written by `make compat`; what is said of a scheduler comes from profiles/. -->

Each is compiled from its published source (crates.io; the kernel's tools/sched_ext), loaded as it is, and given `workloads/compat.json`:
interactive tasks and batch, forks, affinities, nice values, classes and cgroups that change, on more CPU time than there is. The
machines are `pack:1 l3:1 core:4 pu:2`, `numa32` and `epyc-2s`, the workload multiplied for the larger ones. A cell has the simulated time it
ran and the context switches; or how it ended itself. Its user-space half is what its [profile](../profiles) says, with default options;
the last column is what of it is not here. Checked mode (`--check`) has nothing to report of any of them in 100 ms on 8 CPUs.

A scheduler that is in no registry has to be built first. scx_mitosis is one: it has a profile, and so
`windtunnel run ./scx_mitosis.bpf.o --workload cells.json` runs a build of one's own (profiles go by the file's name; another one's with
`--profile`). `make compat COMPAT_OBJECTS="one.bpf.o two.bpf.o"` runs such objects as those below and prints how they fared.

| scheduler | version | 8 CPUs | 32 CPUs | 256 CPUs | not here |
|---|---|---|---|---|---|
"""


def found(folder):
    names = sorted(name for name in os.listdir(folder) if name.endswith(".bpf.o"))
    return [(name.removesuffix(".bpf.o"), f"{folder}/{name}") for name in names]


def crate_versions():
    with open(os.path.join(os.path.dirname(__file__), "crates.toml")) as file:
        return dict(re.findall(r'^(scx_\w+) = "=(.*)"$', file.read(), re.M))


def workload_path(folder, times):
    return f"{folder}/compat-{times}.json"


def workload(folder, times):
    """The workload with so many times the instances; a task that names none is one."""
    with open("workloads/compat.json") as file:
        text = file.read()
    text = re.sub(r'"instance" : (\d+)', lambda found: f'"instance" : {int(found[1]) * times}', text)
    with open(workload_path(folder, times), "w") as file:
        file.write(text)


def run(windtunnel, path, name, machine, limit, load, check=False):
    end, limit = ENDS.get(name, (None, limit)) if not check else (None, limit)
    command = [windtunnel, "run", path, "--machine", machine, "--workload", load, "--for", limit]
    command += ["--check"] if check else []
    repeat = " ".join(f"'{word}'" if " " in word else word for word in command)
    command += ["--json", "-"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"right": False, "text": f"not done after {LIMIT_S} s", "absent": "", "repeat": repeat}
    absent = re.search(r": warning: not here: (.*)", ran.stderr)
    cell = {"absent": absent[1] if absent else "", "repeat": repeat}
    if not ran.stdout.strip():
        return {**cell, "right": False, "text": (ran.stderr.strip().splitlines() or ["no output"])[-1]}
    result = json.loads(ran.stdout)[0]
    exit = result.get("exit")
    if exit:
        # Pids and times follow from the run, which is the same every time.
        cell["text"] = f"{exit['reason']}: {exit['message']}".replace("|", "\\|")
        return {**cell, "right": exit["kind"] == end}
    cell["text"] = f"{limit}, {result['context_switches']:,} switches"
    return {**cell, "right": end is None}


main()
