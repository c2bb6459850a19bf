#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Computes predictions.csv: simulates every row of predictions.toml with seeds 1 to 5.

Also updates the table of medians in README.md, between <!-- medians --> and <!-- end -->.

usage: experiments/modern/predict.py WINDTUNNEL [ROW...]   (from the root of the repository)

Objects of third parties are those that `make compat` builds. A row whose object is missing is an
error. With ROW, only these rows are computed, and the other lines of the file stay.
"""

import csv
import json
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
COLUMNS = ["row", "date", "machine", "workload", "scheduler", "set", "seed", "figure", "value"]
FIGURES = {
    "score": lambda run: run["score"],
    "context_switches": lambda run: run["context_switches"],
    "migrations": lambda run: run["migrations"],
    "wakeup_p50_us": lambda run: run["wakeup_latency_ns"]["p50"] / 1000,
    "wakeup_p99_us": lambda run: run["wakeup_latency_ns"]["p99"] / 1000,
    "response_p50_us": lambda run: run["response_ns"]["p50"] / 1000,
    "response_p99_us": lambda run: run["response_ns"]["p99"] / 1000,
}


def simulate(windtunnel, row, case, seed):
    """Returns the result of one run as the command's JSON describes it."""
    machine = HERE / "machines" / f"{case['machine']}.toml"
    command = [windtunnel, "run", case["scheduler"], "--machine", machine, "--workload", case["workload"]]
    command += ["--for", row["for"], "--seed", str(seed), "--phase", "random", "--json", "-"]
    for name, value in case.get("set", {}).items():
        command += ["--set", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{row['name']}: {case} ends with status {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)[0]


def cases(row):
    """Returns all combinations of the row's machines, workloads and schedulers."""
    for machine in row["machines"]:
        for workload in row["workloads"]:
            for scheduler in row["schedulers"]:
                yield {"machine": machine, "workload": workload, **scheduler}


def lines(windtunnel, row):
    """Simulates a row and returns its lines of the CSV file."""
    for case in cases(row):
        settings = " ".join(f"{name}={value}" for name, value in case.get("set", {}).items())
        for seed in range(1, 6):
            run = simulate(windtunnel, row, case, seed)
            for figure, read in FIGURES.items():
                if figure.startswith("response") and not run["response_ns"].get("count"):
                    continue
                start = [row["name"], str(row["date"]), case["machine"], case["workload"]]
                name = Path(case["scheduler"]).name.removesuffix(".bpf.o")
                yield [*start, name, settings, seed, figure, f"{read(run):.6g}"]


def medians(kept):
    """Returns the table of README.md: the median of each figure over the seeds."""
    cells = {}
    for row, _, machine, workload, scheduler, settings, _, figure, value in kept:
        case = (row, machine, workload.removesuffix(",duration=" + workload.split("=")[-1]), f"{scheduler} {settings}".strip())
        cells.setdefault(case, {}).setdefault(figure, []).append(float(value))
    shown = ["score", "context_switches", "migrations", "wakeup_p50_us", "wakeup_p99_us", "response_p50_us", "response_p99_us"]
    names = ["score", "switches", "migrations", "wake-up p50, us", "p99", "response p50, us", "p99"]
    yield "| row | machine | workload | scheduler | " + " | ".join(names) + " |"
    yield "|---|---|---|---|" + "---:|" * len(names)
    for case, figures in cells.items():
        values = [f"{statistics.median(figures[name]):.4g}" if name in figures else "-" for name in shown]
        yield "| " + " | ".join([*case, *values]) + " |"


def main():
    windtunnel, *wanted = sys.argv[1:] or sys.exit(__doc__)
    rows = tomllib.loads((HERE / "predictions.toml").read_text())["row"]
    if unknown := set(wanted) - {row["name"] for row in rows}:
        sys.exit(f"predictions.toml has no row {', '.join(sorted(unknown))}")
    path = HERE / "predictions.csv"
    kept = []
    if wanted and path.exists():
        with path.open(newline="") as file:
            kept = [line for line in csv.reader(file) if line[0] not in [*wanted, "row"]]
    for row in rows:
        if not wanted or row["name"] in wanted:
            print(row["name"], file=sys.stderr, flush=True)
            kept += lines(windtunnel, row)
    order = {row["name"]: place for place, row in enumerate(rows)}
    kept.sort(key=lambda line: order[line[0]])
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *kept])
    page = HERE / "README.md"
    before, rest = page.read_text().split("<!-- medians -->\n")
    after = rest.split("<!-- end -->")[1]
    page.write_text(before + "<!-- medians -->\n" + "\n".join(medians(kept)) + "\n<!-- end -->" + after)


main()
