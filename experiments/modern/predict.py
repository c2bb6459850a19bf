#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Computes predictions.csv: simulates every row of predictions.toml with the seeds 1 to 5.

Also updates two tables in README.md: the medians, between <!-- medians --> and <!-- end -->, and the
CPU time of groups of tasks, between <!-- groups --> and <!-- end of groups -->.

Run it from the root of the repository.

Objects of third parties are those that `make compat` builds, and those in objects/versions are those
that scripts/compat/versions.sh builds. A scheduler with a `program` is run with its user-space part,
and `cargo install` builds that program. A row whose object or program is missing is an error. With
ROW, only these rows are computed, and the other lines of the file stay.
"""

import argparse
import csv
import json
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
COLUMNS = ["row", "date", "machine", "workload", "scheduler", "set", "seed", "figure", "value", "simulator"]
FIGURES = {
    "score": lambda run: run["score"],
    "context_switches": lambda run: run["context_switches"],
    "migrations": lambda run: run["migrations"],
    "wakeup_p50_us": lambda run: run["wakeup_latency_ns"]["p50"] / 1000,
    "wakeup_p99_us": lambda run: run["wakeup_latency_ns"]["p99"] / 1000,
    "response_p50_us": lambda run: run["response_ns"]["p50"] / 1000,
    "response_p99_us": lambda run: run["response_ns"]["p99"] / 1000,
}
# Prefix of the figures of groups, which are tasks of one name: their part of the CPU time of all tasks.
GROUP = "cpu_percent."


def version(windtunnel):
    """Returns the simulator's version: a digest of its source code."""
    done = subprocess.run([windtunnel, "--version"], capture_output=True, text=True, check=True)
    if "(simulation " not in done.stdout:
        sys.exit(f"{windtunnel} --version prints no version of the simulation: build it again")
    return done.stdout.split("(simulation ")[1].split(")")[0]


def run_command(row, case, *command):
    """Returns what a command prints. If it prints nothing, the program ends.

    Status 1 is no error here, because `run` ends with it if tasks wait for a CPU for very long.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(f"{row['name']}: {case} ends with status {done.returncode}:\n{done.stderr}")
    return done.stdout


def find_programs(rows, folder):
    """Gives each scheduler that is a program the policy text that runs it. If a program is missing, the script ends."""
    for row in rows:
        for scheduler in row["schedulers"]:
            if program := scheduler.get("program"):
                path = folder.absolute() / program
                if not path.is_file():
                    sys.exit(
                        f"{row['name']}: there is no program {path}. Build it with `BPF_CLANG=clang-19 cargo install {program} "
                        f"--version {scheduler['version']} --root target/programs --locked`, or name its directory with --programs"
                    )
                scheduler["scheduler"] = "exec: " + shlex.join([str(path), *scheduler["arguments"]])


def write_machine(folder, case):
    """Writes the machine of a case: its file in machines/, with the settings of the kernel. Returns the path."""
    text = (HERE / "machines" / f"{case['machine']}.toml").read_text()
    settings = "".join(f"{key} = {json.dumps(value)}\n" for key, value in case["kernel"].items())
    path = Path(folder, f"{case['machine']}.toml")
    path.write_text(re.sub("^hz = ", f"{settings}hz = ", text, count=1, flags=re.MULTILINE))
    return path


def simulate(windtunnel, row, case, seed):
    """Returns the names and values of a run's figures."""
    workload = case["workload"]
    if workload.endswith(".json"):
        workload = HERE / "workloads" / workload
    command = [windtunnel, "run", case["scheduler"], "--workload", workload]
    command += ["--for", row["for"], "--seed", str(seed), "--phase", "random", "--json", "-"]
    for name, value in case.get("set", {}).items():
        command += ["--set", f"{name}={value}"]
    with tempfile.TemporaryDirectory() as folder:
        command += ["--machine", write_machine(folder, case)]
        trace = Path(folder, "run.wtt")
        if row.get("groups"):
            command += ["--trace", trace]
        run = json.loads(run_command(row, case, *command))[0]
        if run["status"] != "ran":
            sys.exit(f"{row['name']}: {case} with seed {seed} ends with {run['status']}: {run['exit']}")
        yield from figures(run)
        if row.get("groups"):
            yield from groups(run_command(row, case, windtunnel, "report", trace, "--latency"))


def figures(run):
    """Returns the figures of a run that its JSON contains."""
    for figure, read in FIGURES.items():
        if not figure.startswith("response") or run["response_ns"].get("count"):
            yield figure, read(run)
    if run.get("lost_tasks"):
        yield "lost_tasks", run["lost_tasks"]["count"]


def groups(latency):
    """Returns the figures of groups from the output of `report --latency`, which has a row for each name."""
    times = {name: float(ms) for name, ms in re.findall(r"^  (\S+):\S+ +\| +([0-9.]+) ms", latency, re.MULTILINE)}
    for name, ms in sorted(times.items()):
        yield GROUP + name, 100 * ms / sum(times.values())


def cases(row):
    """Returns all combinations of the row's machines, settings of the kernel, workloads and schedulers."""
    for machine in row["machines"]:
        for kernel in row.get("kernels", [{}]):
            for workload in row["workloads"]:
                for scheduler in row["schedulers"]:
                    yield {"machine": machine, "kernel": kernel, "workload": workload, **scheduler}


def settings_of(case):
    """Returns the settings of a case as text: the arguments of its program, and the settings of the kernel and the policy."""
    yield from case.get("arguments", [])
    for name, value in {**case["kernel"], **case.get("set", {})}.items():
        yield f"{name}={','.join(value) if isinstance(value, list) else str(value).lower()}"


def lines(windtunnel, row, simulator):
    """Simulates a row and returns its lines of the CSV file."""
    for case in cases(row):
        settings = " ".join(settings_of(case))
        start = [row["name"], str(row["date"]), case["machine"], case["workload"]]
        name = case.get("program") or Path(case["scheduler"]).name.removesuffix(".bpf.o")
        for seed in range(1, 6):
            for figure, value in simulate(windtunnel, row, case, seed):
                yield [*start, name, settings, seed, figure, f"{value:.6g}", simulator]


def medians(kept):
    """Returns the median of each figure over the seeds, by case and by figure."""
    cells = {}
    for row, _, machine, workload, scheduler, settings, _, figure, value, _ in kept:
        workload = workload.removesuffix(",duration=" + workload.split("=")[-1]).removesuffix(".json")
        case = (row, machine, workload, f"{scheduler} {settings}".strip())
        cells.setdefault(case, {}).setdefault(figure, []).append(float(value))
    return {case: {name: statistics.median(cell) for name, cell in values.items()} for case, values in cells.items()}


def median_table(cells):
    """Returns the lines of the table of medians."""
    shown = ["score", "context_switches", "migrations", "wakeup_p50_us", "wakeup_p99_us", "response_p50_us", "response_p99_us"]
    names = ["score", "switches", "migrations", "wake-up p50, us", "p99", "response p50, us", "p99"]
    yield "| row | machine | workload | scheduler | " + " | ".join(names) + " |"
    yield "|---|---|---|---|" + "---:|" * len(names)
    for case, values in cells.items():
        numbers = [f"{values[name]:.4g}" if name in values else "-" for name in shown]
        yield "| " + " | ".join([*case, *numbers]) + " |"


def group_table(cells):
    """Returns the lines of the table of groups."""
    yield "| row | machine | workload | scheduler | CPU time of each group, % | lost tasks |"
    yield "|---|---|---|---|---|---:|"
    for case, values in cells.items():
        groups = [f"{name.removeprefix(GROUP)} {value:.3g}" for name, value in values.items() if name.startswith(GROUP)]
        if groups:
            lost = f"{values['lost_tasks']:g}" if "lost_tasks" in values else "-"
            yield "| " + " | ".join([*case, ", ".join(groups), lost]) + " |"


def replace(page, name, end, table):
    """Replaces the lines of a page between two markers."""
    before, rest = page.split(f"<!-- {name} -->\n")
    after = rest.split(f"<!-- {end} -->", 1)[1]
    return before + f"<!-- {name} -->\n" + "\n".join(table) + f"\n<!-- {end} -->" + after


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("windtunnel", help="the command")
    parser.add_argument("wanted", nargs="*", metavar="row", help="a row of predictions.toml [default: all]")
    directory = "directory with the schedulers' programs [default: %(default)s]"
    parser.add_argument("--programs", type=Path, metavar="DIR", default="target/programs/bin", help=directory)
    options = parser.parse_args()
    windtunnel, wanted = options.windtunnel, options.wanted
    rows = tomllib.loads((HERE / "predictions.toml").read_text())["row"]
    if unknown := set(wanted) - {row["name"] for row in rows}:
        sys.exit(f"predictions.toml has no row {', '.join(sorted(unknown))}")
    find_programs([row for row in rows if not wanted or row["name"] in wanted], options.programs)
    path = HERE / "predictions.csv"
    simulator = version(windtunnel)
    kept = []
    if wanted and path.exists():
        with path.open(newline="") as file:
            kept = [line for line in csv.reader(file) if line[0] not in [*wanted, "row"]]
    order = {row["name"]: place for place, row in enumerate(rows)}
    for row in rows:
        if not wanted or row["name"] in wanted:
            print(row["name"], file=sys.stderr, flush=True)
            kept += lines(windtunnel, row, simulator)
            kept.sort(key=lambda line: order[line[0]])
            # After each row, because some take an hour.
            with path.open("w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([COLUMNS, *kept])
    cells = medians(kept)
    page = HERE / "README.md"
    text = replace(page.read_text(), "medians", "end", median_table(cells))
    page.write_text(replace(text, "groups", "end of groups", group_table(cells)))


main()
