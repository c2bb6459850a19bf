#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""schedulers.py [--document FILE] --programs DIRECTORY CPUS=DIRECTORY...: compares whole schedulers live and simulated.

Each guest's DIRECTORY contains guest.toml and SCHEDULER/WORKLOAD/live.json, as guest/whole.sh writes
them. The script simulates the same runs with the programs of the schedulers, which are in the directory
of --programs, and prints for each guest a table of the figures on both sides. With --document, it inserts
the tables and a summary of the errors into FILE.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fidelity import HERE, LIVE, ROOT, error, insert, machine, number, quantile, right_order

# Columns of the table: the beginning of the figure's name in the output of `live compare`, and the heading.
COLUMNS = [
    ("score", "score"),
    ("context switches", "switches"),
    ("migrations", "migrations"),
    ("turn mean, us", "time on the CPU, us"),
    ("wake-up latency p50, us", "wake-up p50, us"),
    ("wake-up latency p99, us", "wake-up p99, us"),
]
# Counts below this number on both sides have no error.
FEWEST_EVENTS = 20


def workloads():
    lines = (HERE / "guest/whole.txt").read_text().splitlines()
    return dict(line.split() for line in lines if line.strip() and not line.startswith("#"))


def options_of(name):
    """Returns the options of a scheduler's program."""
    lines = (HERE / "guest/schedulers.txt").read_text().splitlines()
    return next((line.removeprefix(name) for line in lines if line.split()[:1] == [name]), "")


def compare(job):
    """Returns the figures of one scheduler and workload, as (simulated, live), or the reason why there are none."""
    folder, path, programs, name, description = job
    if not (folder / "live.json").exists():
        return name, folder.name, "no live result"
    policy = name if name == "eevdf" else f"exec: {programs / name}{options_of(name)}"
    command = [LIVE, "compare", policy, description, "-m", str(path), "--for", "200ms", "--markdown",
               "--saved", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"schedulers: {' '.join(command)}:\n{done.stderr}", file=sys.stderr)
        return name, folder.name, "no simulated result"
    rows = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in done.stdout.splitlines()]
    return name, folder.name, [(row[2], number(row[3]), number(row[4])) for row in rows]


def cell(value):
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.3g}"


def values(figures, heading):
    """Returns the simulated and the live value of a column."""
    found = [(s, l) for name, s, l in figures if name == heading or name.startswith(heading + ", ")]
    return found[0] if found else (None, None)


def percent(figures, heading):
    """Returns the error of a column, or None if one side has no value or both have few events."""
    simulated, live = values(figures, heading)
    if heading in ("context switches", "migrations") and max(simulated or 0, live or 0) < FEWEST_EVENTS:
        return None
    return error(simulated, live)


def table(results):
    lines = ["| scheduler | workload | " + " | ".join(heading for _, heading in COLUMNS) + " |",
             "|---|---|" + "---:|" * len(COLUMNS)]
    for name, workload, figures in results:
        if isinstance(figures, str):
            lines.append(f"| {name} | {workload} | {figures} |" + " |" * (len(COLUMNS) - 1))
            continue
        cells = []
        for figure, _ in COLUMNS:
            simulated, live = values(figures, figure)
            wrong = percent(figures, figure)
            text = f"{cell(live)} / {cell(simulated)}"
            cells.append(text if wrong is None else f"{text} ({wrong:+.0f} %)")
        lines.append(f"| {name} | {workload} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def summary(tables):
    """Returns a table with the median and the 90th percentile of the errors, and the order of the schedulers."""
    lines = ["| guest | figures | " + " | ".join(heading.removesuffix(", us") for _, heading in COLUMNS)
             + " | order of schedulers |", "|---|---|" + "---:|" * (len(COLUMNS) + 1)]
    for cpus, results in tables:
        known = [result for result in results if not isinstance(result[2], str)]
        columns = [[abs(wrong) for _, _, figures in known if (wrong := percent(figures, figure)) is not None]
                   for figure, _ in COLUMNS]
        scores = {}
        for name, workload, figures in known:
            simulated, live = values(figures, "score")
            if simulated and live:
                scores.setdefault(workload, {})[name] = simulated, live
        orders = [right_order(scores[workload]) for workload in scores]
        order = f"{sum(same for same, _ in orders)} of {sum(pairs for _, pairs in orders)}"
        for title, share in (("median error", 0.5), ("90th percentile", 0.9)):
            cells = [f"{quantile(column, share):.0f} %" if column else "-" for column in columns]
            lines.append(f"| {cpus} CPUs | {title} | " + " | ".join(cells) + f" | {order if share == 0.5 else ''} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--document")
    parser.add_argument("--programs", required=True, type=Path)
    parser.add_argument("guests", nargs="+", metavar="CPUS=DIRECTORY")
    options = parser.parse_args()
    tables = []
    for guest in options.guests:
        cpus, directory = guest.split("=")
        directory = Path(directory).resolve()
        path = machine(directory, int(cpus))
        names = sorted(folder.name for folder in directory.iterdir() if folder.is_dir())
        names.sort(key=lambda name: name != "eevdf")
        jobs = [(directory / name / workload, path, options.programs.resolve(), name, description)
                for name in names for workload, description in workloads().items()]
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            results = list(pool.map(compare, jobs))
        tables.append((cpus, results))
        print(f"{cpus} CPUs:\n{table(results)}")
        if options.document:
            insert(options.document, f"schedulers, {cpus} CPUs", table(results))
    print(summary(tables))
    if options.document:
        insert(options.document, "schedulers, summary", summary(tables))


if __name__ == "__main__":
    main()
