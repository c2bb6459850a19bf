# SPDX-License-Identifier: GPL-2.0-only
"""docs/compat.md: the results of schedulers.py as a document."""
import os
import re
import textwrap

HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-only -->
# Schedulers of others, unmodified

<!-- Written by `make compat-long`, with texts from profiles/, ends.toml and selftests.toml in scripts/compat/. -->

Each scheduler is compiled from its published source (crates.io; the kernel's tools/sched_ext) and
loaded unmodified. It runs for longer than its own watchdog on {machines}. A watchdog
notices a stall after one and a half times `timeout_ms` at most. A run takes another 30 s on 8 CPUs,
15 s on 20 and 32 CPUs, and 1 s on 256 CPUs. There are five workloads:

- compat: `workloads/compat.json`, which asks for more CPU time than there is: interactive tasks and
  batch, forks, affinities, nice values, classes and cgroups that change. Larger machines have
  correspondingly more tasks;
- hackbench, chat, schbench: the generators with their default parameters;
- mixed: `workloads/mixed.json`.

The machines are `pack:1 l3:1 core:4 pu:2` (8 CPUs), `hybrid` (20), `numa32` and `epyc-2s` (256). A cell
says under how many workloads the scheduler runs to the end, and the context switches of all runs.
The user-space half of a scheduler is its [profile](../profiles), with default options. The last
column says which part of it does not run here.

`make compat` runs a part of this on each change: compat on 8 CPUs, hackbench and chat on 20 CPUs for
longer than the watchdog. It runs compat on 32 and 256 CPUs, and in checked mode, for less than a
second. Checked mode (`--check`) reports nothing of any scheduler.

A scheduler that is in no registry has to be built first. scx_mitosis is one. It has a profile, so
`windtunnel run ./scx_mitosis.bpf.o --workload cells.json` runs an object that you built; `--profile`
names another profile. `make compat COMPAT_OBJECTS="one.bpf.o two.bpf.o"` runs such objects beside
those below and prints how they ended.

"""


def document(folder, runs, ends, machines, workloads):
    text = HEAD.format(machines=" and ".join(", ".join(machines).rsplit(", ", 1)))
    text += "| scheduler | version | " + " | ".join(machines) + " | not here |\n|---|---|" + "---|" * len(machines) + "---|\n"
    versions = Versions(folder)
    for name, group in dict.fromkeys((run.name, run.group) for run in runs):
        own = [run for run in runs if run.name == name]
        cells = []
        for machine in machines:
            here = [run for run in own if run.machine == machine]
            whole = sum(run.text == "to the end" for run in here)
            cells.append(f"{whole} of {len(here)}, {short(sum(run.switches for run in here))}")
        absent = next((run.absent for run in own if run.absent), "")
        text += f"| {name} | {versions.of(group, name)} | " + " | ".join(cells) + f" | {absent} |\n"
    early = [run for run in runs if run.text != "to the end"]
    text += f"\n## Early ends\n\n{len(runs) - len(early)} of {len(runs)} runs go to the end. These do not:\n\n"
    text += "| scheduler | machine | workload | end |\n|---|---|---|---|\n"
    for run in early:
        escaped = run.text.replace("|", "\\|")
        text += f"| {run.name} | {run.machine} | {run.workload} | {escaped} |\n"
    text += "\n"
    for end in ends:
        names = ", ".join(end["schedulers"])
        whose = {"theirs": "a bug of the scheduler", "user space": "its user-space half is not here"}[end["whose"]]
        reason = end["why"].strip()
        seen = "" if any(run.name in end["schedulers"] for run in early) else " It did not occur in these runs."
        text += filled(f"**{names}**: {whose}.{seen} {reason}") + "\n\n"
    return text + selftests(folder)


def filled(paragraph):
    return textwrap.fill(" ".join(paragraph.split()), width=100, break_long_words=False, break_on_hyphens=False)


def selftests(folder):
    """What the suite of the kernel's selftests printed."""
    path = f"{folder}/selftests.log"
    if not os.path.exists(path):
        return ""
    with open(path) as file:
        lines = file.read().splitlines()
    text = f"## The kernel's selftests\n\n{lines[-1]}.\n"
    for kind, meaning in (("weaker", "weaker than the kernel's test"), ("left out", "left out")):
        for line in lines:
            if line.startswith(f"{kind}: "):
                name, why = line.removeprefix(f"{kind}: ").split(": ", 1)
                text += "\n" + filled(f"- {name} is {meaning}: {why}.").replace("\n", "\n  ")
    return text + "\n"


def short(number):
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}" if number < 100 * size else f"{number / size:.0f}{unit}"
    return str(number)


class Versions:
    def __init__(self, folder):
        with open(f"{folder}/linux/complete") as file:
            self.linux = file.read().strip()
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "crates.toml")) as file:
            self.crates = dict(re.findall(r'^(scx_\w+) = "=(.*)"$', file.read(), re.M))

    def of(self, group, name):
        return f"Linux {self.linux}" if group == "kernel" else self.crates.get(name, "?")
