#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""programs.py [--document FILE] CPUS=DIRECTORY...: compares real programs with the workloads that stand for them.

Each DIRECTORY contains guest.toml, programs.txt, and the live sides of `windtunnel live compare`, as
guest/programs.sh writes them: program/NAME is the program, workload/NAME the workload under `live
run`. The script simulates the workloads, and prints a table for each DIRECTORY with three rows per
program. With --document, the tables are inserted into FILE.
"""
import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from fidelity import HERE, LIVE, ROOT, insert, machine, number

# Columns of the table: the figure's name in the output of `live compare`, and the heading.
COLUMNS = [
    ("context switches", "switches"),
    ("preemptions", "preemptions"),
    ("migrations", "migrations"),
    ("wake-ups", "wake-ups"),
    ("turn mean, us", "time on a CPU, us"),
    ("wake-up latency p50, us", "wake-up p50, us"),
    ("wake-up latency p99, us", "wake-up p99, us"),
    ("response p99, us", "response p99, us"),
]
# Times and rates that programs print, with the factor that converts them to the unit of the score.
PRINTED = [
    (r"^Time: ([\d.]+)$", 1.0),  # hackbench, s
    # perf bench sched pipe, which also prints its total time: an operation passes the token twice
    (r"([\d.]+) usecs/op", 0.5),
    (r"Total time: ([\d.]+) \[sec\]", 1.0),  # perf bench sched messaging, s
    (r"average rps: ([\d.]+)", 1.0),  # schbench, requests/s
]
# Figures that are counts.
COUNTS = ("context switches", "preemptions", "migrations", "wake-ups")
# The 99th percentile of schbench's request latencies, in us.
PRINTED_P99 = r"Request Latencies.*?99\.0th: (\d+)"


def compare(path, workload, folder):
    """Reads the figures of one live side and of the simulation of its workload."""
    file = HERE / "guest" / workload
    workload = str(file) if file.exists() else workload
    command = [LIVE, "compare", "eevdf", workload, "-m", str(path), "--for", "5s", "--markdown", "--saved", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"programs: {' '.join(command)}:\n{done.stderr}")
    rows = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in done.stdout.splitlines()]
    simulated = {row[2]: number(row[3]) for row in rows}
    live = {row[2]: number(row[4]) for row in rows}
    return simulated, live


def score(figures):
    """Returns the score and its unit."""
    found = [(name.removeprefix("score, "), value) for name, value in figures.items() if name.startswith("score")]
    return found[0] if found else ("", None)


def printed(folder):
    """Returns the score and the 99th percentile of the response times that a program has printed."""
    path = folder / "printed.txt"
    text = path.read_text() if path.exists() else ""
    scores = [float(found[1]) * factor for pattern, factor in PRINTED if (found := re.search(pattern, text, re.M))]
    # The last report covers the whole run.
    requests = re.findall(PRINTED_P99, text, re.S)
    return (scores[0] if scores else None), (float(requests[-1]) if requests else None)


def cell(value):
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.3g}"


def table(directory, cpus):
    path = machine(directory, cpus)
    heads = ["program", "side", "score"] + [heading for _, heading in COLUMNS]
    heads += ["switches per operation", "wake-ups per operation"]
    lines = ["| " + " | ".join(heads) + " |", "|---|---|" + "---:|" * (len(heads) - 2)]
    for line in (directory / "programs.txt").read_text().splitlines():
        name, workload, _ = line.split(";")
        folders = directory / "workload" / name, directory / "program" / name
        if not all((folder / "live.json").exists() for folder in folders):
            print(f"programs: {name} on {cpus} CPUs has no result", file=sys.stderr)
            continue
        simulated, live = compare(path, workload, folders[0])
        _, program = compare(path, workload, folders[1])
        unit, _ = score(live)
        operations = json.loads((folders[0] / "live.json").read_text())["result"]["throughput"]["operations"]
        value, response = printed(folders[1])
        program["response p99, us"] = response
        for side, figures, value in [
            ("program", program, value),
            ("`live run`", live, score(live)[1]),
            ("simulated", simulated, score(simulated)[1]),
        ]:
            shown = f"{cell(value)} {unit}" if value is not None else "-"
            done = operations
            if not unit or unit.endswith("/s"):
                # The lengths of the sides differ, so counts are per second.
                done = value
                seconds = figures["time of the run, s"]
                figures = {figure: number / seconds if number and figure in COUNTS else number
                           for figure, number in figures.items()}
            cells = [name if side == "program" else "", side, shown]
            cells += [cell(figures.get(figure)) for figure, _ in COLUMNS]
            for figure in ("context switches", "wake-ups"):
                count = figures.get(figure)
                cells.append(cell(count / done if count and done else None))
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--document")
    parser.add_argument("guests", nargs="+", metavar="CPUS=DIRECTORY")
    options = parser.parse_args()
    for guest in options.guests:
        cpus, directory = guest.split("=")
        text = table(Path(directory).resolve(), int(cpus))
        print(f"{cpus} CPUs:\n{text}")
        if options.document:
            insert(options.document, f"{cpus} CPUs", text)


if __name__ == "__main__":
    main()
