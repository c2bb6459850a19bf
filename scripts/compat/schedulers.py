#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""schedulers.py DIR WINDTUNNEL [long OUT]: runs every scheduler that objects.sh compiled into DIR, in parallel.

Each scheduler runs
- under workloads/compat.json on 8 CPUs, for longer than the timeout of its watchdog,
- under workloads that end by themselves, on a hybrid machine,
- for a short time on 32 and 256 CPUs, and with the sanitizer. The tasks of compat.json that cannot
  migrate during a part of their work have then run all parts of their programs.

With "long", it instead runs under five workloads on four machines, for longer than the timeout of its watchdog, and the
results are written to OUT (docs/compat.md). DIR/long keeps them, so that an interrupted script continues where it
stopped. COMPAT_MACHINES="8 CPUs,32 CPUs" selects machines.

The exit status is 1 if a run ends early without permission of ends.toml, or reaches its end although ends.toml requires
an early one, or if the sanitizer reports an error.

The objects of COMPAT_OBJECTS (separated by spaces) run in the same way. Their results are printed, but are not part of
the document.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor

# No __pycache__ beside the sources.
sys.dont_write_bytecode = True
from document import document
from watchdog import timeout_ms

HERE = os.path.dirname(os.path.abspath(__file__))
# The machines. Each has
# - its hwloc description,
# - a factor for the numbers of tasks in compat.json, which is made for 8 CPUs,
# - the additional time of a run, in ms.
#
# The watchdog checks at intervals of half its timeout, so it notices a stall within one and a half
# timeouts. The additional time is for stalls that do not begin at the start of the run.
MACHINES = {
    "8 CPUs": ("pack:1 l3:1 core:4 pu:2", 1, 30_000),
    "20 CPUs": ("hybrid", 2, 15_000),
    "32 CPUs": ("numa32", 4, 15_000),
    "256 CPUs": ("epyc-2s", 32, 1000),
}
WORKLOADS = ["compat", "hackbench", "chat", "schbench", "mixed"]
# The runs without "long": machine, workload, and simulated time in ms. A "+" means in addition to one and
# a half timeouts of the watchdog.
SHORT = [
    ("8 CPUs", "compat", "+1000"),
    ("20 CPUs", "hackbench", "+15000"),
    ("20 CPUs", "chat", "+15000"),
    ("32 CPUs", "compat", "400"),
    ("256 CPUs", "compat", "100"),
]
# Limit of the wall-clock time of a run in seconds, without and with "long".
LIMIT_S = {False: 240, True: 3600}


def main():
    folder, windtunnel, *rest = sys.argv[1:]
    long = rest[:1] == ["long"]
    with open(f"{HERE}/ends.toml", "rb") as file:
        ends = tomllib.load(file)["end"]
    objects = [(group, name, path) for group in ("kernel", "scx") for name, path in found(f"{folder}/objects/{group}")]
    objects += [("own", os.path.basename(path).removesuffix(".bpf.o"), path) for path in os.environ.get("COMPAT_OBJECTS", "").split()]
    for _, times, _ in MACHINES.values():
        scaled_workload(folder, times)
    chosen = os.environ.get("COMPAT_MACHINES", ",".join(MACHINES)).split(",")
    cells = [(machine, workload, f"+{MACHINES[machine][2]}") for machine in chosen for workload in WORKLOADS] if long else SHORT
    started = time.monotonic()
    runs = [Run(folder, windtunnel, group, name, path, *cell, long=long) for cell in cells for group, name, path in objects]
    if not long:
        runs += [Run(folder, windtunnel, group, name, path, "8 CPUs", "compat", "300", check=True) for group, name, path in objects]
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        list(pool.map(Run.execute, runs))
    wrong = [run for run in runs if not run.judge(ends)]
    for run in wrong:
        print(f"{run.name}, {run.place()}: {run.text}\n    {run.repeat()}", file=sys.stderr)
    for run in runs:
        if run.group == "own" and run not in wrong:
            print(f"{run.name}, {run.place()}: {run.text}")
    early = [run for run in runs if run.exit and run not in wrong]
    if long:
        with open(rest[1], "w") as file:
            file.write(document(folder, [run for run in runs if run.group != "own"], ends, chosen, WORKLOADS))
    print(
        f"{len(objects)} schedulers, {len(runs)} runs in {time.monotonic() - started:.0f} s: {len(runs) - len(early) - len(wrong)} to the end, "
        f"{len(early)} end early for a known reason (docs/compat.md), {len(wrong)} with an unexpected end"
    )
    sys.exit(1 if wrong else 0)


def found(folder):
    names = sorted(name for name in os.listdir(folder) if name.endswith(".bpf.o"))
    return [(name.removesuffix(".bpf.o"), f"{folder}/{name}") for name in names]


def workload_path(folder, times):
    return f"{folder}/compat-{times}.json"


def scaled_workload(folder, times):
    """Writes compat.json with `times` as many instances of each task that has a number of instances."""
    with open("workloads/compat.json") as file:
        text = file.read()
    text = re.sub(r'"instance" : (\d+)', lambda found: f'"instance" : {int(found[1]) * times}', text)
    with open(workload_path(folder, times), "w") as file:
        file.write(text)


class Run:
    """A run of one scheduler on one machine under one workload."""

    def __init__(self, folder, windtunnel, group, name, path, machine, workload, limit, check=False, long=False):
        self.group, self.name, self.machine, self.workload = group, name, machine, workload
        self.long, self.check = long, check
        self.whole = limit.startswith("+")
        limit_ms = int(limit) + self.whole * (timeout_ms(path) * 3 // 2)
        spec, times, _ = MACHINES[machine]
        load = {"compat": workload_path(folder, times), "mixed": "mixed.json"}.get(workload, workload)
        self.command = [windtunnel, "run", path, "--machine", spec, "--workload", load, "--for", f"{limit_ms}ms", *(["--sanitize"] if check else [])]
        self.kept = f"{folder}/long/{name}-{machine.split()[0]}-{workload}.json" if long else None
        # The file whose contents decide whether a kept result is still valid.
        self.read = path
        self.exit, self.absent, self.text, self.switches = None, "", "", 0

    def place(self):
        return f"{self.machine}, {self.workload}{', --sanitize' if self.check else ''}"

    def repeat(self):
        return " ".join(f"'{word}'" if " " in word else word for word in self.command)

    def execute(self):
        key = digest(self.command[0]) + digest(self.read) + self.repeat()
        record = self.remembered(key)
        if record is None:
            try:
                ran = subprocess.run([*self.command, "--json", "-"], capture_output=True, text=True, timeout=LIMIT_S[self.long])
            except subprocess.TimeoutExpired:
                self.text = f"not finished after {LIMIT_S[self.long]} s"
                return
            record = {"key": key, "result": json.loads(ran.stdout)[0] if ran.stdout.strip() else None, "stderr": ran.stderr}
            for big in ("tasks", "callbacks", "locks"):
                (record["result"] or {}).pop(big, None)
            self.remember(record)
        absent = re.search(r": warning: not modelled: (.*)", record["stderr"])
        self.absent = absent[1] if absent else ""
        result = record["result"]
        if result is None:
            self.text = (record["stderr"].strip().splitlines() or ["no output"])[-1]
            return
        self.exit = result.get("exit")
        self.switches = result.get("context_switches") or 0
        self.text = f"{self.exit['reason']}: {self.exit['message']}" if self.exit else "to the end"

    def remembered(self, key):
        if not self.kept or not os.path.exists(self.kept):
            return None
        with open(self.kept) as file:
            record = json.load(file)
        return record if record["key"] == key else None

    def remember(self, record):
        if not self.kept:
            return
        os.makedirs(os.path.dirname(self.kept), exist_ok=True)
        with open(self.kept + ".new", "w") as file:
            json.dump(record, file)
        os.replace(self.kept + ".new", self.kept)

    def judge(self, ends):
        """Whether the run ended as expected: at its end, or early in a way that ends.toml allows."""
        if not self.exit:
            must = [end for end in ends if self.name in end["schedulers"] and self.machine in end.get("always", []) and self.whole]
            return self.text == "to the end" and not must
        return any(
            self.name in end["schedulers"]
            and self.exit["kind"] == end["exit"]
            and self.workload in end.get("workloads", WORKLOADS)
            and not self.check
            for end in ends
        )


DIGESTS = {}


def digest(path):
    if path not in DIGESTS:
        with open(path, "rb") as file:
            DIGESTS[path] = hashlib.sha256(file.read()).hexdigest()[:16]
    return DIGESTS[path]


if __name__ == "__main__":
    main()
