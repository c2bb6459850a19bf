#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Checks a changed scheduler against its baseline for CI, and writes the result in several formats.

usage: verdict.py --source MY.bpf.c --base COMMIT [--head COMMIT] [--build COMMAND] [OPTION]...
       verdict.py --new NEW.bpf.o [--old OLD.bpf.o] [OPTION]...

With --source, compiles the scheduler as of two commits of the repository in the current directory.
Otherwise compares two objects; the baseline of --new is eevdf by default.

Compares on every --machine with every --workload (the matrix). A change fails if a condition of
--fail-if holds somewhere in the matrix and holds again with different seeds. It also fails if the new
object does not compile or load, or breaks a rule that the baseline keeps.

Writes to --output: verdict.md (Markdown, with the first decision that differs), junit.xml (JUnit),
results.sarif (SARIF 2.1.0), and report.html (a report about a run of both).

The exit status is 0 if the change passes, 1 if a check fails, and 2 if an input is wrong. The script
needs the command windtunnel, or the one that the variable WINDTUNNEL names. --source also needs git
and clang.
"""

import argparse
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import building
import formats

# Position in the source of a policy, as in the messages of the command.
SOURCE = re.compile(r"(?P<file>[\w./-]+\.(?:c|h)):(?P<line>\d+)")
# Control characters that XML cannot contain.
FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

# The default matrix. Computing times, pauses and arrivals are random, so every seed is a different
# load. The score is a time for hackbench, a rate for closed, and a mean response time for open.
MACHINES = ["hybrid", "numa32"]
WORKLOADS = [
    "hackbench:groups=4,loops=50",
    "closed:n=48,compute=2ms,think=3ms,compute_dist=M,think_dist=M",
    "closed:n=40,compute=10ms,compute_dist=M,footprint=6m",
    "open:interarrival=150us,work=1500us,service=H2",
]
LENGTH = "200ms"
CONDITIONS = ["score worse 3%", "p99_wakeup worse 10%", "mean_response worse 5%", "overhead worse 1pp"]
# First seed of the runs that confirm a condition.
FRESH_SEED = 1_000_001
# The new object is checked with the first of these seeds. A rule that it breaks is the baseline's own
# fault if the baseline breaks it with any of them.
SEEDS = range(1, 6)
# The verdict shows at most this many lines about the first decision that differs.
DIVERGENCE_LINES = 80


class Check:
    """The outcome of one check, with an explanation."""

    def __init__(self, rule, name, holds, text, source=None):
        self.rule, self.name, self.holds, self.text = rule, name, holds, FORBIDDEN.sub("?", text.strip())
        found = SOURCE.search(source or "")
        self.file, self.line = (os.path.normpath(found["file"]), int(found["line"])) if found else (None, None)


class Place:
    """A machine with a workload (a cell of the matrix), and the results there."""

    def __init__(self, machine, workload, length):
        self.machine, self.workload, self.name = machine, workload, f"{workload} on {machine}"
        self.inputs = ["--machine", machine, "--workload", workload, *(["--for", length] if length else [])]
        self.checks, self.comparison, self.metrics = [], None, []


def command(*words):
    """Runs windtunnel. Returns its exit status and output. Wrong inputs end the script."""
    words = [os.environ.get("WINDTUNNEL", "windtunnel"), *map(str, words)]
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except FileNotFoundError:
        building.fatal(f"{words[0]}: the command does not exist; install windtunnel, or set the variable WINDTUNNEL")
    if done.returncode not in (0, 1):
        building.fatal(done.stdout + done.stderr)
    return done.returncode, done.stdout, done.stderr


def loads(policy):
    status, out, err = command("check", policy)
    return Check("loads", f"{policy.name if isinstance(policy, Path) else policy} loads", status == 0, out + err, out + err)


def sanitized(policy, inputs, seed):
    """Runs a policy in the sanitizer. Returns the failure, if there is one: its kind, mapped to its text
    and its position in the source."""
    _, out, _ = command("run", policy, *inputs, "--seed", seed, "--phase", "random", "--sanitize", "--json", "-")
    [result] = json.loads(out)
    if result["status"] == "ran":
        return {}
    if result["status"] == "deadlock":
        waits = [f"{task['comm']}[{task['pid']}] waits for {task['waits_for']}" for task in result["deadlock"]]
        return {("deadlock", None): ("deadlock: " + "; ".join(waits), None)}
    end = result.get("exit") or {}
    text = f"{result['status']}: {end.get('reason', '')}: {end.get('message', '')}"
    return {(result["status"], end.get("reason")): (text, end.get("source"))}


def violated(policy, inputs, seed, limits):
    """Returns the first violation of each invariant that is violated."""
    _, out, _ = command("invariants", policy, *inputs, "--seed", seed, "--phase", "random", *limits, "--json")
    [found] = json.loads(out)
    return {one["invariant"]: (f"{one['about']}\n{one['drawing'] or ''}\nrepeat: {one['command'] or ''}", None)
            for one in found["invariants"] if one["violations"]}  # fmt: skip


def own_faults(rule, name, place, old, new, broken):
    """Checks that the new object keeps every rule that the baseline keeps. Also returns notes about rules
    that both break. `broken` returns the rules that a policy breaks with a seed."""
    faults, known = broken(new, SEEDS[0]), []
    for seed in SEEDS if old is not None else []:
        if all(fault in known for fault in faults):
            break
        known += broken(old, seed)
    new_faults = {fault: text for fault, text in faults.items() if fault not in known}
    text = "\n\n".join(text for text, _ in new_faults.values()) or "holds"
    source = next((source for _, source in new_faults.values() if source), text)
    notes = [f"{place.name}: {(text.splitlines() or [''])[0]}: the baseline has this fault, too"
             for fault, (text, _) in faults.items() if fault in known]  # fmt: skip
    if notes:
        name = f"{name} (except for faults of the baseline)"
    return Check(rule, f"{place.name}: {name}", not new_faults, text, source), notes


def compared(place, old, new, conditions, pairs, notes):
    """Compares both objects in a place, and adds a check for each condition."""

    def compare(a, b, conditions, *more):
        words = [word for condition in conditions for word in ("--fail-if", condition)]
        return json.loads(command("compare", a, b, *place.inputs, *more, *words, "--json")[1])

    def failed(side):
        return found["failures"][side] + found["lost_tasks"][side]

    place.comparison = found = compare(old, new, conditions, *pairs)
    place.metrics = list(dict.fromkeys(condition.split()[0].rstrip("<>=") for condition in conditions))
    verdict = "\n".join(found["verdict"])
    if failed("a"):
        notes.append(f"{place.name}: the baseline fails, so there is no comparison: {failed('a')[0]}")
    if failed("b") and not failed("a"):
        text = "\n".join(failed("b"))
        place.checks.append(Check("compare", f"{place.name}: all runs succeed", False, text, text))
    if found["failures"]["a"] or found["failures"]["b"]:
        return
    results = {one["condition"]: one for one in found["fail_if"]}
    held = [name for name, one in results.items() if one["holds"]]
    again = compare(old, new, held, "--seed", FRESH_SEED, *pairs) if held else {"fail_if": []}
    confirmed = {one["condition"] for one in again["fail_if"] if one["holds"]}
    for name, one in results.items():
        text, holds = "does not hold", False
        if one["undecided"]:
            text = f"undecided after {len(found['seeds'])} pairs of runs, so it does not hold"
        if name in held:
            holds = name in confirmed
            text = "holds, also with other seeds" if holds else "holds, but not with other seeds"
        if one["holds"] is None:
            [alone] = compare(old, old, [name], "--runs", "1")["fail_if"]
            if alone["holds"] is None:
                continue
            text, holds = "cannot be evaluated: a run of the new object has no such number", True
        place.checks.append(Check("compare", f"{place.name}: fail if {name}", not holds, f"{text}\n{verdict}"))


def first_divergence(places, old, new):
    """Describes the first decision that differs, preferably in a place with failed checks."""
    for place in sorted(places, key=lambda place: all(check.holds for check in place.checks)):
        _, out, _ = command("diff", old, new, *place.inputs, "--json")
        found = json.loads(out)
        if found["first"] is None:
            continue
        lines = command("diff", old, new, *place.inputs, "--window", "5ms")[1].splitlines()
        if len(lines) > DIVERGENCE_LINES:
            lines = [*lines[:DIVERGENCE_LINES], f"... {len(lines) - DIVERGENCE_LINES} more lines"]
        return f"The first decision that differs: {place.name}\n" + "\n".join(lines), place
    return "No decision differs", None


def report(place, old, new, file):
    """Writes an HTML report about a run of both policies."""
    words = [*place.inputs, "--html", file]
    command("run", old, new, *words) if old is not None else command("run", new, *words)


def built(args, folder, checks, notes):
    """Compiles the source as of both commits. Returns the old and the new object, each None if it cannot
    be built."""
    headers = folder / "headers"
    command("init", headers)
    objects = []
    for commit, side in ((args.base, "old"), (args.head, "new")):
        made, messages = None, f"{args.source}: the commit {commit} has no such file"
        if building.has(commit, args.source):
            tree = folder / side
            building.extract(commit, tree)
            made, messages = building.compiled(args.source, tree, args.build, headers)
        if side == "new":
            checks.append(Check("compiles", f"{args.source} compiles", made is not None, messages, messages))
        elif made is None:
            reason = messages.strip().splitlines()[0]
            notes.append(f"there is no baseline, so nothing is compared: {reason}")
        if made is not None:
            # Keeps the file's name, which is the policy's name and selects the profile.
            kept = args.output / side / made.name
            kept.parent.mkdir(parents=True, exist_ok=True)
            made = Path(shutil.copyfile(made, kept))
        objects.append(made)
    return objects


def policy(text):
    """Returns the path if the text names a file, and otherwise the text, a policy's name."""
    return Path(text) if "/" in text or text.endswith(".o") else text


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--source", help="source of the scheduler, relative to the current directory")
    add("--base", help="commit of the baseline")
    add("--head", default="HEAD", help="commit of the change [default: HEAD]")
    add("--build", metavar="COMMAND", help="command that makes MY.bpf.o from MY.bpf.c, in place of clang")
    add("--new", type=policy, help="object of the scheduler, in place of --source")
    add("--old", type=policy, help="object of the baseline [default: eevdf]")
    add("--machine", action="append", metavar="M", help=f"can be repeated [default: {' and '.join(MACHINES)}]")
    add("--workload", action="append", metavar="W", help="can be repeated [default: four random workloads]")
    add("--for", dest="length", metavar="TIME", help=f"simulated time [default: {LENGTH} for the default workloads]")
    add("--runs", type=int, default=10, help="pairs of runs of each place [default: 10]")
    add("--max-runs", type=int, default=80, help="pairs of runs while a condition is undecided [default: 80]")
    conditions = ", ".join(CONDITIONS).replace("%", "%%")
    add("--fail-if", action="append", metavar="CONDITION", help=f"can be repeated [default: {conditions}]")
    add("--idle", default="2ms", help="limit of `windtunnel invariants` [default: 2ms]")
    add("--starvation", default="500ms", help="limit of `windtunnel invariants` [default: 500ms]")
    add("--output", type=Path, default=Path("windtunnel-results"), metavar="DIR", help="[default: windtunnel-results]")
    args = parser.parse_args()
    if (args.source is None) == (args.new is None):
        parser.error("give either --source with --base, or --new")
    if args.source is not None and args.base is None:
        parser.error("--source needs --base, the commit of the baseline")
    return args


def main():
    args = arguments()
    args.output.mkdir(parents=True, exist_ok=True)
    checks, notes, places, divergence = [], [], [], None
    with tempfile.TemporaryDirectory(prefix="windtunnel-") as folder:
        if args.source is None:
            old, new = args.old or "eevdf", args.new
        else:
            old, new = built(args, Path(folder), checks, notes)
    if new is not None:
        checks.append(loads(new))
    if old is not None and old != "eevdf" and not loads(old).holds:
        notes.append("the baseline does not load, so nothing is compared")
        old = None
    if all(check.holds for check in checks):
        length = args.length or (None if args.workload else LENGTH)
        workloads = args.workload or WORKLOADS
        places = [Place(machine, load, length) for machine in args.machine or MACHINES for load in workloads]
        limits = ["--idle", args.idle, "--starvation", args.starvation]
        conditions = [one for one in args.fail_if or [] if one.strip()] or CONDITIONS
        pairs = ["--runs", args.runs, "--max-runs", max(args.runs, args.max_runs)]
        for place in places:
            for rule, name, broken in (
                ("sanitizer", "runs in the sanitizer", lambda policy, seed: sanitized(policy, place.inputs, seed)),
                ("invariants", "invariants hold", lambda policy, seed: violated(policy, place.inputs, seed, limits)),
            ):
                check, more = own_faults(rule, name, place, old, new, broken)
                place.checks.append(check)
                notes += more
            if old is not None:
                compared(place, old, new, conditions, pairs, notes)
            checks += place.checks
        shown = places[0]
        same = isinstance(old, Path) and isinstance(new, Path) and filecmp.cmp(old, new, shallow=False)
        if old is not None and not same:
            divergence, found = first_divergence(places, old, new)
            shown = found or shown
        elif same:
            divergence = "No decision differs: both objects are the same file"
        report(shown, old, new, args.output / "report.html")
        notes.append(f"report.html shows {shown.name}")
    text = formats.markdown(checks, places, notes, divergence)
    (args.output / "verdict.md").write_text(text)
    (args.output / "junit.xml").write_text(formats.junit(checks))
    (args.output / "results.sarif").write_text(json.dumps(formats.sarif(checks, args.source or new), indent=2))
    print(text, end="")
    sys.exit(0 if all(check.holds for check in checks) else 1)


if __name__ == "__main__":
    main()
