#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Executes scripts in a real kernel and in the simulator, and compares the logs.

The scripts are those of crates/kernel/tests/scripts, and then random ones until the time is over.
For the first difference, prints the shortest script that still has a difference, both lines, and the
function of the kernel that decides what they show.
"""

import argparse
import collections
import hashlib
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import functions
import generate
from oracle import Crash, Guest, cpus_of

EXAMPLES = pathlib.Path("crates/kernel/tests/scripts")
# Number of random scripts between two looks at the clock.
BATCH = 100
# Header of the table that --write changes.
HEADER = "| random scripts | seeds | number | lines | decisions | equal to the last line |"
# Longest time of a script in the simulator, seconds.
LIMIT = 10
# Longest time for a random script in a guest, seconds.
GUEST_LIMIT = 120


def difference(kernel, simulator):
    """Returns the first difference of two logs: the last command before it, and both lines."""
    command = "?"
    for theirs, ours in itertools.zip_longest(kernel.splitlines(), simulator.splitlines()):
        if theirs and theirs.startswith("> "):
            command = theirs
        if theirs != ours:
            return command, theirs, ours
    return None


def kind_of(found):
    """Returns a rough description of a difference, by which differences are counted."""
    _, theirs, ours = found

    def first(line):
        words = (line or "(end)").split()
        if words[0].startswith("@"):
            return " ".join(words[1:3]) if words[1] in ("call", "return") else words[1]
        return words[0]

    if first(theirs) == first(ours) and theirs and ours:
        names = [a.split("=")[0] for a, b in zip(theirs.split(), ours.split()) if a != b and "=" in a]
        return f"{first(theirs)}: {names[0] if names else 'other'}"
    return f"{first(theirs)} instead of {first(ours)}"


class Both:
    """The kernel, in a guest for each number of CPUs, and the simulator."""

    def __init__(self, options):
        self.options = options
        # Guests by the number of their CPUs. A guest that waits for a script takes no CPU time, but a boot
        # takes as long as tens of scripts, so guests stay until the end.
        self.guests = {}
        # Number of scripts that the guest did not execute.
        self.unanswered = 0

    def kernel(self, script):
        """Returns the kernel's log of a script, or None if the guest does not answer.

        With --logs, the log is read from this directory if an earlier run has put it there.
        """
        if not self.options.logs:
            return self.execute(script)
        kept = self.options.logs / f"{hashlib.sha256(script.encode()).hexdigest()[:16]}.log"
        if kept.exists():
            return kept.read_text()
        log = self.execute(script)
        if log is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(log)
        return log

    def execute(self, script):
        """Executes a script in the guest. Returns the log, or None if the guest does not answer."""
        cpus = cpus_of("script", script)
        try:
            if cpus not in self.guests:
                objects = sorted(pathlib.Path(self.options.dir, "policies").glob("*.bpf.o"))
                self.guests[cpus] = Guest(self.options.dir, cpus, objects=objects)
                self.guests[cpus].limit = GUEST_LIMIT
            return self.guests[cpus].run(script)
        except Crash as crash:
            if guest := self.guests.pop(cpus, None):
                guest.close(keep_console=True)
            self.unanswered += 1
            print(f"conform: a script is skipped: {crash}", file=sys.stderr)
            return None

    def simulate(self, words, seconds):
        """Executes scripts in the simulator. Returns an error message, or an empty text."""
        try:
            command = [self.options.command, "--no-cache", "script", "--policies", f"{self.options.dir}/policies"]
            run = subprocess.run([*command, *words], capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return f"failed: the simulator does not end within {seconds} s, this is a bug"
        return "" if run.returncode == 0 else f"failed: {run.stderr.strip()[-300:]}"

    def simulators(self, scripts):
        """Returns the simulator's log of each script, or a text that begins with `failed`."""
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for number, script in enumerate(scripts):
                paths.append(pathlib.Path(folder, f"{number}.script"))
                paths[-1].write_text(script)
            # One process executes all scripts, unless one of them fails.
            if self.simulate(["-o", folder, *paths], LIMIT * len(paths)):
                for path in paths:
                    log = path.with_suffix(".log")
                    log.unlink(missing_ok=True)
                    if error := self.simulate(["-o", folder, path], LIMIT):
                        log.write_text(error)
            return [path.with_suffix(".log").read_text() for path in paths]

    def differences(self, scripts):
        """Yields (script, log of the kernel, first difference or None) for each script.

        The log is None if the guest does not answer.
        """
        scripts = list(scripts)
        for script, ours in zip(scripts, self.simulators(scripts)):
            theirs = self.kernel(script)
            yield script, theirs, theirs and difference(theirs, ours)

    def shrink(self, script, limit):
        """Removes lines while the logs still differ, for at most `limit` seconds."""
        end = time.monotonic() + limit
        lines = script.splitlines()
        size = max(1, len(lines) // 4)
        while time.monotonic() < end:
            tries = [lines[:at] + lines[at + size :] for at in range(1, len(lines), size)]
            tries = ["\n".join(one) + "\n" for one in tries if len(one) > 1]
            # The parser refuses scripts that use a task or group whose line was removed.
            logs = self.simulators(tries)
            better = None
            for one, ours in zip(tries, logs):
                if ours.startswith("failed: ") and "is a bug" not in ours:
                    continue
                theirs = self.kernel(one)
                if theirs is not None and difference(theirs, ours):
                    better = one.splitlines()
                    break
            if better:
                lines = better
                size = min(size, max(1, len(lines) // 4))
            elif size > 1:
                size = max(1, size // 2)
            else:
                break
        return "\n".join(lines) + "\n"

    def close(self):
        for guest in self.guests.values():
            guest.close()
        self.guests.clear()


class Counts:
    """What was compared."""

    def __init__(self):
        self.scripts = self.lines = self.decisions = 0
        self.kinds = collections.Counter()
        # Seeds of the scripts with each kind of difference.
        self.seeds = collections.defaultdict(list)

    def add(self, script, log, found, seed=None):
        self.scripts += 1
        self.lines += len(script.splitlines())
        self.decisions += sum(line.startswith("@") for line in log.splitlines())
        if found:
            self.kinds[kind_of(found)] += 1
            self.seeds[kind_of(found)].append(seed)

    def differ(self):
        return sum(self.kinds.values())

    def __str__(self):
        return f"{self.scripts} scripts, {self.lines} lines, {self.decisions} decisions: {self.differ()} scripts differ"


def show(name, script, found):
    command, theirs, ours = found
    number = int(command.split()[2]) if command != "?" else 0
    print(f"{name} differs. The script up to the difference:")
    print("\n".join("  " + line for line in script.splitlines()[:number]))
    print(f"  kernel:    {theirs}\n  simulator: {ours}")
    if function := functions.of_difference(theirs, ours):
        print(f"  decided in {function}")


def write_row(page, name, seeds, counts):
    """Writes the result of a run into the page's table of random scripts: the row with this name."""
    text = page.read_text()
    found = re.search(re.escape(HEADER) + r"\n\|[-|]+\|\n((?:\|.*\n)*)", text)
    if not found:
        raise SystemExit(f"conform: {page} has no table with the header {HEADER}")
    numbers = [counts.scripts, counts.lines, counts.decisions, counts.scripts - counts.differ()]
    row = f"| {name} | {seeds} | " + " | ".join(f"{number:,}".replace(",", " ") for number in numbers) + " |\n"
    rows = [line + "\n" for line in found[1].splitlines()]
    at = [index for index, line in enumerate(rows) if line.startswith(f"| {name} |")]
    rows[at[0] if at else len(rows) : at[0] + 1 if at else len(rows)] = [row]
    page.write_text(text[: found.start(1)] + "".join(rows) + text[found.end(1) :])


def random_scripts(both, options, counts):
    """Compares random scripts until the time is over or enough are compared.

    Returns the first script with a difference, with its seed, and the last seed.
    """
    first, seed, end = None, options.seed, time.monotonic() + options.seconds
    last = options.seed + options.scripts if options.scripts else None
    results = open(options.results, "a") if options.results else None
    while time.monotonic() < end and (last is None or seed < last):
        # A short run begins with a small batch.
        size = min(BATCH, 24 if options.seconds <= 120 else BATCH, *([last - seed] if last else []))
        batch = {options.set.script(number): number for number in range(seed, seed + size)}
        for script, log, found in both.differences(batch):
            if log is None:
                print(f"seed {batch[script]}: the guest does not answer")
                continue
            counts.add(script, log, found, batch[script])
            if results:
                kind = kind_of(found) if found else None
                lines = {"line": found[0], "kernel": found[1], "simulator": found[2]} if found else {}
                results.write(json.dumps({"seed": batch[script], "kind": kind, **lines}) + "\n")
                results.flush()
            if found and first is None:
                first = (batch[script], script)
        seed += size
    return first, seed - 1


def main():
    sys.stdout.reconfigure(line_buffering=True)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", default="target/live", help="directory with the kernel, QEMU and the guest")
    parser.add_argument("--command", required=True, help="the command windtunnel")
    parser.add_argument("--seconds", type=float, default=60, help="time for random scripts")
    parser.add_argument("--scripts", type=int, default=0, help="number of random scripts, if the time suffices")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first random script")
    parser.add_argument(
        "--set",
        type=generate.named_set,
        default=generate.SETS["all"],
        help=f"kind of random scripts: {', '.join(generate.SETS)}, or the name of a policy",
    )
    parser.add_argument("--no-examples", action="store_true", help="leave the example scripts out")
    parser.add_argument("--results", help="add a line of JSON for each random script to this file")
    parser.add_argument(
        "--logs",
        type=pathlib.Path,
        help="keep the kernel's logs in this directory, and execute no script whose log is there. Remove the "
        "directory when the kernel or the module changes",
    )
    parser.add_argument("--write", type=pathlib.Path, help="write the counts into this page")
    parser.add_argument("--shrink", type=float, default=60, help="time for shrinking the first difference, seconds")
    options = parser.parse_args()
    both, examples, random = Both(options), Counts(), Counts()
    if not options.no_examples:
        names = {path.read_text(): path.stem for path in sorted(EXAMPLES.glob("*.script"))}
        for script, log, found in both.differences(names):
            if log is None:
                print(f"{names[script]}: the guest does not answer")
                continue
            examples.add(script, log, found)
            if found:
                show(names[script], script, found)
        print(f"examples: {examples}")
    first, last = random_scripts(both, options, random)
    skipped = f", {both.unanswered} skipped" if both.unanswered else ""
    print(f"random scripts ({options.set.name}) with the seeds {options.seed} to {last}: {random}{skipped}")
    for kind, count in random.kinds.most_common(20):
        print(f"  {count:4}  {kind}  (seeds {', '.join(map(str, random.seeds[kind][:5]))})")
    if options.write:
        write_row(options.write, options.set.name, f"{options.seed} to {last}", random)
    if first and options.shrink:
        number, script = first
        short = both.shrink(script, options.shrink)
        for script, _, found in both.differences([short]):
            if found:
                show(f"seed {number}", script, found)
    both.close()
    sys.exit(bool(random.kinds))


if __name__ == "__main__":
    main()
