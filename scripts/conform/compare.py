#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Executes scripts in a real kernel and in the simulator, and compares the logs.

The scripts are those of crates/kernel/tests/scripts, and then random ones until the time is over.
For the first difference, prints the shortest script that still has a difference, and both lines.
"""

import argparse
import collections
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import generate
from oracle import Crash, Guest, cpus_of

EXAMPLES = pathlib.Path("crates/kernel/tests/scripts")
# Number of random scripts between two looks at the clock.
BATCH = 24
# Longest time of a script in the simulator, seconds.
LIMIT = 10
# Longest time of a script in the guest, seconds.
GUEST_LIMIT = 20


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
        return words[1] if words[0].startswith("@") else words[0]

    if first(theirs) == first(ours) and theirs and ours:
        names = [a.split("=")[0] for a, b in zip(theirs.split(), ours.split()) if a != b and "=" in a]
        return f"{first(theirs)}: {names[0] if names else 'other'}"
    return f"{first(theirs)} instead of {first(ours)}"


class Both:
    """The kernel, in one guest for each number of CPUs, and the simulator."""

    def __init__(self, options):
        self.options = options
        self.guests = {}
        # Number of scripts that the guest did not execute.
        self.unanswered = 0

    def kernel(self, script):
        """Executes a script in the kernel. Returns the log, or None if the guest does not answer."""
        cpus = cpus_of("script", script)
        try:
            if cpus not in self.guests:
                self.guests[cpus] = Guest(self.options.dir, cpus, limit=GUEST_LIMIT)
            return self.guests[cpus].run(script)
        except Crash as crash:
            if cpus in self.guests:
                self.guests.pop(cpus).close()
            self.unanswered += 1
            print(f"conform: a script is skipped: {crash}", file=sys.stderr)
            return None

    def simulate(self, path):
        """Executes a script in the simulator. Returns the log, or a text that begins with `failed`."""
        words = [self.options.command, "--no-cache", "script", path]
        try:
            run = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return f"failed: the simulator does not end within {LIMIT} s, this is a bug"
        return run.stdout if run.returncode == 0 else f"failed: {run.stderr.strip()[-300:]}"

    def simulators(self, scripts):
        """Returns the simulator's log of each script, or an error message."""
        with tempfile.TemporaryDirectory() as folder:
            logs = []
            for number, script in enumerate(scripts):
                path = pathlib.Path(folder, f"{number}.script")
                path.write_text(script)
                logs.append(self.simulate(path))
            return logs

    def differences(self, scripts):
        """Yields (script, log of the kernel, first difference or None) for each script."""
        for script, ours in zip(scripts, self.simulators(scripts)):
            theirs = self.kernel(script)
            if theirs is not None:
                yield script, theirs, difference(theirs, ours)

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


class Counts:
    """What was compared."""

    def __init__(self):
        self.scripts = self.lines = self.decisions = 0
        self.kinds = collections.Counter()

    def add(self, script, log, found):
        self.scripts += 1
        self.lines += len(script.splitlines())
        self.decisions += sum(line.startswith("@") for line in log.splitlines())
        if found:
            self.kinds[kind_of(found)] += 1

    def __str__(self):
        differ = sum(self.kinds.values())
        return f"{self.scripts} scripts, {self.lines} lines, {self.decisions} decisions: {differ} scripts differ"


def show(name, script, found):
    command, theirs, ours = found
    number = int(command.split()[2]) if command != "?" else 0
    print(f"{name} differs. The script up to the difference:")
    print("\n".join("  " + line for line in script.splitlines()[:number]))
    print(f"  kernel:    {theirs}\n  simulator: {ours}")


def main():
    sys.stdout.reconfigure(line_buffering=True)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", default="target/live", help="directory with the kernel, QEMU and the guest")
    parser.add_argument("--command", required=True, help="the command windtunnel")
    parser.add_argument("--seconds", type=float, default=60, help="time for random scripts")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first random script")
    parser.add_argument("--without", default="", help="features that random scripts do not use, for example groups,rt")
    parser.add_argument("--shrink", type=float, default=60, help="time for shrinking the first difference, seconds")
    options = parser.parse_args()
    without = [name for name in options.without.split(",") if name]
    if unknown := set(without) - set(generate.FEATURES):
        parser.error(f"--without: unknown features {', '.join(sorted(unknown))}; known are {', '.join(generate.FEATURES)}")
    both, examples, random = Both(options), Counts(), Counts()
    first = None
    texts = [path.read_text() for path in sorted(EXAMPLES.glob("*.script"))]
    for script, log, found in both.differences(texts):
        examples.add(script, log, found)
    print(f"examples: {examples}")
    seed, end = options.seed, time.monotonic() + options.seconds
    while time.monotonic() < end:
        batch = {generate.generate(number, without): number for number in range(seed, seed + BATCH)}
        # Scripts with the same number of CPUs share a guest.
        for script, log, found in both.differences(sorted(batch, key=lambda text: cpus_of("script", text))):
            random.add(script, log, found)
            if found and first is None:
                first = (batch[script], script)
        seed += BATCH
    skipped = f", {both.unanswered} skipped" if both.unanswered else ""
    print(f"random scripts with the seeds {options.seed} to {seed - 1}: {random}{skipped}")
    for kind, count in random.kinds.most_common(12):
        print(f"  {count:4}  {kind}")
    if first:
        number, script = first
        short = both.shrink(script, options.shrink)
        for script, _, found in both.differences([short]):
            if found:
                show(f"seed {number}", script, found)
    both.close()
    sys.exit(bool(random.kinds))


if __name__ == "__main__":
    main()
