#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""programs.py DIR PROGRAMS WINDTUNNEL [OUT]: runs the own programs of third-party schedulers.

PROGRAMS is a directory with the programs, for example the `bin` of `cargo install --root`. Each program runs under the
five workloads of compat.md on 8 and 32 CPUs, as long as its object there. DIR is the directory of `make compat`, from
whose objects the timeouts of the watchdogs are read. The results are printed, or written into OUT (docs/exec.md).
DIR/programs keeps them, so that an interrupted script continues where it stopped. COMPAT_MACHINES="8 CPUs" selects
machines.

The exit status is 1 if a run ends early.
"""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True
from document import Versions, short
from schedulers import HERE, MACHINES, WORKLOADS, Run, scaled_workload

# Options that a program needs.
OPTIONS = {"scx_layered": f"f:{HERE}/layers.json"}


def main():
    folder, programs, windtunnel, *out = sys.argv[1:]
    names = sorted(name for name in os.listdir(programs) if os.path.exists(f"{folder}/objects/scx/{name}.bpf.o"))
    machines = os.environ.get("COMPAT_MACHINES", "8 CPUs,32 CPUs").split(",")
    runs = []
    for machine in machines:
        scaled_workload(folder, MACHINES[machine][1])
        runs += [program_run(folder, programs, windtunnel, name, machine, workload) for name in names for workload in WORKLOADS]
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        list(pool.map(Run.execute, runs))
    text = table(folder, names, machines, runs)
    if out:
        subprocess.run([f"{HERE}/../live/insert.sh", out[0], "programs"], input=text, text=True, check=True)
    else:
        print(text, end="")
    early = [run for run in runs if run.text != "to the end"]
    for run in early:
        print(f"{run.name}, {run.place()}: {run.text}\n    {run.repeat()}", file=sys.stderr)
    sys.exit(1 if early else 0)


def program_run(folder, programs, windtunnel, name, machine, workload):
    """Returns the run of a program, which is as long as that of its object."""
    limit = f"+{MACHINES[machine][2]}"
    run = Run(folder, windtunnel, "scx", name, f"{folder}/objects/scx/{name}.bpf.o", machine, workload, limit, long=True)
    program = f"{programs}/{name}"
    run.command[2] = " ".join(["exec:", program, *OPTIONS.get(name, "").split()])
    run.read = program
    run.kept = f"{folder}/programs/{name}-{machine.split()[0]}-{workload}.json"
    return run


def table(folder, names, machines, runs):
    """Compares the ends and the context switches with those of the objects in docs/compat.md."""
    objects = objects_in_document()
    versions = Versions(folder)
    columns = [f"{machine}, {half}" for machine in machines for half in ("object", "program")]
    text = "| scheduler | version | " + " | ".join(columns) + " |\n|---|---|" + "---|" * len(columns) + "\n"
    for name in names:
        text += f"| {name} | {versions.of('scx', name)} |"
        for machine in machines:
            own = [run for run in runs if run.name == name and run.machine == machine]
            whole = sum(run.text == "to the end" for run in own)
            text += f" {objects[name].get(machine, '-')} | {whole} of {len(own)}, {short(sum(run.switches for run in own))} |"
        text += "\n"
    early = [run for run in runs if run.text != "to the end"]
    text += f"\n{len(runs) - len(early)} of {len(runs)} runs with programs reach the end."
    if early:
        text += " These do not:\n\n| scheduler | machine | workload | end |\n|---|---|---|---|\n"
        for run in early:
            escaped = run.text.replace("|", "\\|")
            text += f"| {run.name} | {run.machine} | {run.workload} | {escaped} |\n"
    return text.rstrip("\n") + "\n"


def objects_in_document():
    """Reads the cells of docs/compat.md: by scheduler and machine."""
    with open(f"{HERE}/../../docs/compat.md") as file:
        rows = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in file if re.match(r"\| (scheduler|scx_\w+) \|", line)]
    head = next(row for row in rows if row[1] == "version")
    return {row[0]: dict(zip(head, row)) for row in reversed(rows) if len(row) == len(head)}


if __name__ == "__main__":
    main()
