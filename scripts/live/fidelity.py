#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""fidelity.py [--document FILE] [--rows FILE] [--data FILE] NAME=CPUS=DIRECTORY...: compares simulated and live runs.

Each DIRECTORY contains guest.toml and POLICY/WORKLOAD/live.json, as `windtunnel live compare --save`
writes them. The script simulates the same runs and prints, for each NAME, a table of the errors and
their medians. Directories with the same NAME form one table. With --document, the tables and the
first paragraph are inserted into FILE. With --rows, all values are written to a second file. With
--data, the errors are written to the data file that the command contains
(crates/lab/src/model_error.csv). Without guests, --data reads the tables of --document instead.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIVE = os.environ.get("WINDTUNNEL_LIVE", str(ROOT / "target/release/windtunnel-live"))
# Columns of the table: the figure's name in the output of `live compare`, and the heading.
COLUMNS = [
    ("score", "score"),
    ("context switches", "switches"),
    ("preemptions", "preemptions"),
    ("migrations", "migrations"),
    ("wake-up latency p50, us", "wake-up p50"),
    ("wake-up latency p99, us", "wake-up p99"),
    ("response mean, us", "response mean"),
    ("response p99, us", "response p99"),
    ("fairness (Jain)", "fairness"),
    ("busy, %", "busy"),
]
# Names of the figures in the data file, which are those of `windtunnel compare` where it has the figure.
NAMES = {"wake-up p50": "p50_wakeup", "wake-up p99": "p99_wakeup", "response mean": "mean_response",
         "response p99": "p99_response"}
# The live run must have at least this many wake-ups for a percentile of their latencies to be compared.
# Of fewer, the 99th percentile would be the longest latency.
FEWEST_WAKEUPS = {"wake-up latency p50, us": 20, "wake-up latency p99, us": 100}
# These counts are compared if one side has at least FEWEST_EVENTS. Below that, the sides agree, but a
# difference of one event would be an error of many percent.
FEWEST_EVENTS = 20
COUNTS = ("context switches", "preemptions", "migrations")
# Longest turn of a CPU in the guests with several CPUs: TURN in scripts/live/test.sh.
TURN_US = 12
# Live scores that differ by less than this percentage count as equal.
TIE_PERCENT = 2.0


def workloads():
    lines = (HERE / "guest/fidelity.txt").read_text().splitlines()
    return dict(line.split() for line in lines if line.strip() and not line.startswith("#"))


def machine(directory, cpus):
    """Reads the machine file of the guest. With several CPUs, adds that they run in turn in one thread of
    QEMU (TURN of boot.sh)."""
    path = directory / "guest.toml"
    if cpus > 1:
        text = path.read_text()
        if "turns =" not in text:
            turns = f'turns = {{ us = {TURN_US}, source = "one thread of QEMU executes the CPUs of the guest" }}'
            text = re.sub(r"^smt_throughput = .*\n", "", text, flags=re.M)
            text = re.sub(r"^(?=\[)", turns + "\n\n", text, count=1, flags=re.M)
        path = directory / "simulated.toml"
        path.write_text(text)
    return path


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def compare(job):
    """Reads the rows of one policy and workload: figure, simulated value, live value."""
    directory, path, policy, name, description = job
    command = [LIVE, "compare", policy, description, "-m", str(path), "--for", "2s", "--markdown",
               "--saved", str(directory / policy / name)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if "the live side is default" in done.stderr:
        # The kernel ended the policy while the workload ran.
        return policy, name, []
    if done.returncode != 0:
        sys.exit(f"fidelity: {' '.join(command)}:\n{done.stderr}")
    rows = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in done.stdout.splitlines()]
    wakeups = json.loads((directory / policy / name / "live.json").read_text())["result"]["wakeup_latency_ns"]["count"]
    rows = [row for row in rows if wakeups >= FEWEST_WAKEUPS.get(row[2], 0)]
    figures = [(row[2], number(row[3]), number(row[4])) for row in rows]
    few = lambda figure, *sides: figure in COUNTS and max(side or 0 for side in sides) < FEWEST_EVENTS
    return policy, name, [figure for figure in figures if not few(*figure)]


def error(simulated, live):
    return None if simulated is None or not live else 100 * (simulated - live) / live


def quantile(values, share):
    """A quantile of the values; 0.5 is the median."""
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def right_order(scores):
    """Returns how many pairs of policies have the same order of scores (simulated, live) on both sides, out
    of how many."""
    same = pairs = 0
    names = sorted(scores)
    for index, left in enumerate(names):
        for right in names[index + 1:]:
            a, b = scores[left], scores[right]
            if abs(a[1] - b[1]) * 100 <= TIE_PERCENT * max(a[1], b[1]):
                continue
            pairs += 1
            same += (a[0] - b[0]) * (a[1] - b[1]) > 0
    return same, pairs


def change_errors(errors):
    """Returns the errors in percent of the changes from one policy to another. If the figures of two
    policies are wrong by the same factor, the change between them is right."""
    factors = [1 + error / 100 for error in errors if error > -100]
    return [100 * abs(max(a, b) / min(a, b) - 1) for index, a in enumerate(factors) for b in factors[index + 1:]]


def data(tables):
    """Formats the errors of all tables as the data file."""
    lines = ["cpus,workload,figure,count,median,p90,change_median,change_p90"]
    for table in tables:
        cpus = table.name.split()[0]
        workloads = list(dict.fromkeys(workload for _, workload in table.errors))
        for workload in workloads + [None]:
            for index, (_, heading) in enumerate(COLUMNS):
                of = [workload] if workload else workloads
                errors = [[row[index] for key, row in table.errors.items() if key[1] == name and row[index] is not None]
                          for name in of]
                alone = [abs(error) for group in errors for error in group]
                # Only policies under the same workload are compared with each other.
                changes = [change for group in errors for change in change_errors(group)]
                if changes:
                    cells = [statistics.median(alone), quantile(alone, 0.9),
                             statistics.median(changes), quantile(changes, 0.9)]
                    lines.append(",".join([cpus, workload or "all", NAMES.get(heading, heading), str(len(alone))]
                                          + [f"{cell:.1f}" for cell in cells]))
            same, pairs = table.order(workload)
            if pairs:
                lines.append(f"{cpus},{workload or 'all'},order,{pairs},,,{100 * same / pairs:.1f},")
    return "\n".join(lines) + "\n"


class Table:
    def __init__(self, name, results):
        self.name = name
        self.results = results
        self.orders = {}
        # Errors by policy and workload, in the order of COLUMNS.
        self.errors = {}
        for policy, workload, rows in results:
            row = []
            for figure, _ in COLUMNS:
                found = [error(s, l) for name, s, l in rows if name == figure or name.startswith(figure + ", ")]
                row.append(found[0] if found else None)
            self.errors[policy, workload] = row

    def column(self, index, workload=None):
        rows = (row for key, row in self.errors.items() if workload in (None, key[1]))
        return [abs(row[index]) for row in rows if row[index] is not None]

    def all(self):
        return [value for index in range(len(COLUMNS)) for value in self.column(index)]

    def scores(self):
        scores = {}
        for policy, workload, rows in self.results:
            for figure, simulated, live in rows:
                if figure.startswith("score") and simulated and live:
                    scores.setdefault(workload, {})[policy] = simulated, live
        return scores

    def order(self, workload=None):
        """Returns how many pairs of policies have the same order of scores on both sides, out of how many."""
        orders = self.orders or {name: right_order(scores) for name, scores in self.scores().items()}
        found = [order for name, order in orders.items() if workload is None or name == workload]
        return sum(same for same, _ in found), sum(pairs for _, pairs in found)

    def text(self):
        used = [index for index in range(len(COLUMNS)) if self.column(index)]
        heads = [COLUMNS[index][1] for index in used]
        lines = ["| policy | workload | " + " | ".join(heads) + " |", "|---|---|" + "---:|" * len(used)]

        def row(first, second, cells):
            lines.append(f"| {first} | {second} | " + " | ".join(cells) + " |")

        def percent(value):
            return "-" if value is None else f"{value:+.0f} %" if abs(value) >= 10 else f"{value:+.1f} %"

        for (policy, workload), errors in self.errors.items():
            row(policy, workload, [percent(errors[index]) for index in used])
        for workload in dict.fromkeys(key[1] for key in self.errors):
            medians = [self.column(index, workload) for index in used]
            row("median of the absolute errors", workload,
                [f"{statistics.median(values):.1f} %" if values else "-" for values in medians])
        for name, share in (("median of the absolute errors", 0.5), ("90th percentile", 0.9)):
            row(name, "all", [f"{quantile(self.column(index), share):.1f} %" for index in used])
        return "\n".join(lines) + "\n"

    def summary(self):
        def median(heading):
            index = [head for _, head in COLUMNS].index(heading)
            values = self.column(index)
            return f"{statistics.median(values):.0f} %" if values else "-"

        same, pairs = self.order()
        cells = [f"{100 * same / pairs:.0f} % of {pairs} pairs" if pairs else "-"]
        cells += [median(head) for _, head in COLUMNS if head not in ("migrations", "busy")]
        cells += [f"{statistics.median(self.all()):.0f} %", f"{quantile(self.all(), 0.9):.0f} %"]
        return [self.name] + cells


def paragraph(tables):
    """Formats a summary in Markdown, with a column for each table of errors."""
    heads = ["", "policies in the order of the kernel"]
    heads += [f"{head}, median error" for _, head in COLUMNS if head not in ("migrations", "busy")]
    heads += ["all figures, median error", "all figures, 90th percentile"]
    columns = [table.summary() for table in tables]
    lines = ["| | " + " | ".join(column[0] for column in columns) + " |", "|---|" + "---:|" * len(columns)]
    for index, head in enumerate(heads[1:], 1):
        lines.append(f"| {head} | " + " | ".join(column[index] for column in columns) + " |")
    return "\n".join(lines) + "\n"


def words(table):
    """Describes in sentences how large the errors of each figure are."""
    levels = {"at most 10 %": [], "10 to 30 %": [], "above 30 %": []}
    for index, (_, head) in enumerate(COLUMNS):
        values = table.column(index)
        if values:
            median = statistics.median(values)
            level = 0 if median <= 10 else 1 if median <= 30 else 2
            list(levels.values())[level].append(f"{head} ({median:.0f} %)")
    same, pairs = table.order()
    cpus = "one CPU" if table.name.startswith("1 ") else table.name + "s"
    text = f"On {cpus}, the simulation puts {same} of {pairs} pairs of policies in the same order as the kernel"
    text += f" ({100 * same / max(1, pairs):.0f} %). The median error is "
    text += "; ".join(f"{level} for {', '.join(figures)}" for level, figures in levels.items() if figures)
    text += f". Of all errors, half are below {statistics.median(table.all()):.0f} %,"
    text += f" and 90 % are below {quantile(table.all(), 0.9):.0f} %."
    return textwrap.fill(text, 100, break_on_hyphens=False)


def insert(document, mark, text):
    subprocess.run([HERE / "insert.sh", document, mark], input=text, text=True, check=True)


def costs(path):
    lines = [re.sub(r', source = ".*', " }", line) for line in path.read_text().splitlines()
             if re.match(r"[a-z_]+ = \{ (ns|ps)", line)]
    return "```toml\n" + "\n".join(lines) + "\n```\n"


def tables_of(document):
    """Reads the tables of errors in a document. It has the order of scores only for all workloads."""
    text = Path(document).read_text()
    tables = []
    for name, body in re.findall(r"<!-- (\d+ CPU) -->\n(.*?)<!-- end -->", text, re.S):
        table = Table(name, [])
        head, _, *rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in body.splitlines()]
        for policy, workload, *cells in rows:
            if "median" in policy or "percentile" in policy:
                continue
            known = {heading: number(cell.removesuffix("%").strip()) for heading, cell in zip(head[2:], cells)}
            table.errors[policy, workload] = [known.get(heading) for _, heading in COLUMNS]
        words = "On one CPU" if name == "1 CPU" else f"On {name}s"
        found = re.search(words + r", the simulation puts (\d+) of (\d+)", " ".join(text.split()))
        table.orders = {"all": tuple(int(count) for count in found.groups())}
        tables.append(table)
    return tables


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--document")
    parser.add_argument("--rows")
    parser.add_argument("--data")
    parser.add_argument("guests", nargs="*", metavar="NAME=CPUS=DIRECTORY")
    options = parser.parse_args()
    if options.data and not options.guests:
        if not options.document:
            parser.error("--data needs guests or --document")
        Path(options.data).write_text(data(tables_of(options.document)))
        return
    if not options.guests:
        parser.error("there is no guest")
    jobs, machines = {}, {}
    for guest in options.guests:
        name, cpus, directory = guest.split("=")
        directory = Path(directory).resolve()
        path = machine(directory, int(cpus))
        machines.setdefault(name, path)
        for workload, description in workloads().items():
            for saved in sorted(directory.glob(f"*/{workload}/live.json")):
                job = directory, path, saved.parent.parent.name, workload, description
                jobs.setdefault(name, []).append(job)
    tables = []
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for name, of_name in jobs.items():
            of_name.sort(key=lambda job: (job[2] != "eevdf", job[2]))
            tables.append(Table(name, list(pool.map(compare, of_name))))
    if options.rows:
        with open(options.rows, "w") as rows:
            for table in tables:
                for policy, workload, figures in table.results:
                    for figure, simulated, live in figures:
                        print(table.name, policy, workload, figure, simulated, live, sep="\t", file=rows)
    if options.data:
        Path(options.data).write_text(data(tables))
    print(paragraph(tables))
    print("\n\n".join(words(table) for table in tables) + "\n")
    for table in tables:
        print(table.text())
        if options.document:
            insert(options.document, table.name, table.text())
            insert(options.document, f"costs {table.name}", costs(machines[table.name]))
    if options.document:
        insert(options.document, "summary", "\n\n".join(words(table) for table in tables) + "\n")


if __name__ == "__main__":
    main()
