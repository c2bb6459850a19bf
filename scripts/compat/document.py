# SPDX-License-Identifier: GPL-2.0-only
"""Formats the results of schedulers.py as the document docs/compat.md."""
import os
import re
import textwrap

HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-only -->
# Third-party schedulers, unmodified

<!-- Written by `make compat-long`, with texts from profiles/, ends.toml and selftests.toml in scripts/compat/. -->

In the first table of schedulers, a cell such as `4 of 5, 6M` means that the scheduler ran to the
end under 4 of 5 workloads. The five runs together had 6 million context switches.

Each scheduler is compiled from its published source (crates.io, or the kernel's tools/sched_ext)
and loaded unmodified. Its user-space part, the program that loads and configures the scheduler,
does not run. A [profile](../profiles/README.md) makes the settings that this program makes with its
default options. The last column lists the work of the program that is missing in these runs. With
[`windtunnel exec`](exec.md#what-was-tried), the programs of 15 of these schedulers do it.

The schedulers run on {machines}.

If a task is stalled, the scheduler's watchdog notices this after at most one and a half times
`timeout_ms`. Each run is longer than this time, so that it also finds stalls that do not begin at the
start. It is 30 s longer on 8 CPUs, 15 s longer on 20 and 32 CPUs, and 1 s longer on 256 CPUs.

| workload | content |
|---|---|
| compat | `workloads/compat.json`, which overloads the machine. It has interactive and batch tasks, forks, changes of affinities, nice values, classes and cgroups, and tasks that cannot migrate during a part of their work. Larger machines have proportionally more tasks |
| hackbench, chat, schbench | the generators with their default parameters |
| mixed | `workloads/mixed.json` |

The machines are `pack:1 l3:1 core:4 pu:2` (8 CPUs), `hybrid` (20), `numa32` and `epyc-2s` (256).

`make compat-long` executes all runs of this page. `make compat` executes only a part of them:

- The runs of the workload compat on 8 CPUs are longer than the timeout of the watchdog, and so are
  the runs of hackbench and chat on 20 CPUs.
- The runs of the workload compat on 32 and 256 CPUs are shorter than a second, and so are the runs
  in the [sanitizer](sanitizer.md). The sanitizer reports no error for any of these schedulers.

To run a scheduler that no package registry contains, build its object first. For example, there is
a profile for scx_mitosis: `windtunnel run ./scx_mitosis.bpf.o --workload cells.json`.
`make compat COMPAT_OBJECTS="one.bpf.o two.bpf.o"` also runs the named objects, and prints how these
runs end.

"""


def document(folder, runs, ends, machines, workloads):
    text = HEAD.format(machines=" and ".join(", ".join(machines).rsplit(", ", 1)))
    text += "| scheduler | version | " + " | ".join(machines) + " | missing here |\n|---|---|" + "---|" * len(machines) + "---|\n"
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
    text += f"\n## Early ends\n\n{len(runs) - len(early)} of {len(runs)} runs reach the end. These do not:\n\n"
    text += "| scheduler | machine | workload | end |\n|---|---|---|---|\n"
    for run in early:
        escaped = run.text.replace("|", "\\|")
        text += f"| {run.name} | {run.machine} | {run.workload} | {escaped} |\n"
    text += "\n"
    for end in ends:
        names = ", ".join(end["schedulers"])
        whose = {"theirs": "a bug of the scheduler", "user space": "its user-space part is missing"}[end["whose"]]
        text += f"### {names}: {whose}\n\n"
        if not any(run.name in end["schedulers"] for run in early):
            text += "This end did not occur in these runs.\n\n"
        for paragraph in end["why"].strip().split("\n\n"):
            text += filled(paragraph) + "\n\n"
    return text + selftests(folder)


def filled(paragraph):
    return textwrap.fill(" ".join(paragraph.split()), width=100, break_long_words=False, break_on_hyphens=False)


def selftests(folder):
    """Formats the output of the suite of the kernel's selftests."""
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
