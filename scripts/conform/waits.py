#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Prints which tasks wait for a CPU for long in logs of scripts (docs/scripts.md), and which CPUs idle meanwhile.

The logs may be those of `windtunnel script` or of a real kernel (scripts/conform.sh).
"""

import argparse
import pathlib
import re


def cpu_list(text):
    """Returns the CPUs of a list such as 1-3,5."""
    cpus = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


class Watch:
    """Follows the events of a log."""

    def __init__(self):
        self.now = 0
        self.command = ""
        # Start of the current wait of each waiting task.
        self.waits = {}
        # The longest wait of each task: length, start, and whether it lasts until the end.
        self.longest = {}
        self.affinity = {}
        self.idle = {}
        # Longest time for which a CPU idles while a task waits that may use it: length, start, task.
        self.wasted = {}
        self.longest_wasted = {}
        self.ended = None
        self.classes = {}

    def advance(self, time):
        """Lets time pass until `time`."""
        for cpu, is_idle in self.idle.items():
            free = next((t for t in self.waits if is_idle and cpu in self.affinity.get(t, ())), None)
            if free is None or time == self.now:
                if free is None:
                    self.wasted.pop(cpu, None)
                continue
            start, task = self.wasted.setdefault(cpu, (self.now, free))
            self.longest_wasted[cpu] = max(self.longest_wasted.get(cpu, (0, 0, "")), (time - start, start, task))
        self.now = time

    def end_wait(self, task, at_end=False):
        start = self.waits.pop(task, None)
        if start is not None:
            self.longest[task] = max(self.longest.get(task, (0, 0, False)), (self.now - start, start, at_end))

    def event(self, words):
        values = dict(word.split("=", 1) for word in words if "=" in word)
        if words[0] in ("wakeup", "wakeup_new"):
            self.waits.setdefault(words[1], self.now)
        elif words[0] == "switch":
            previous, following = values["prev"], values["next"]
            if previous != "idle" and values.get("state") == "runnable":
                self.waits[previous] = self.now
            self.end_wait(following)
            self.idle[int(values["cpu"])] = following == "idle"

    def row(self, line):
        words = line.split()
        values = dict(word.split("=", 1) for word in words if "=" in word)
        if words[0] == "cpu":
            self.idle.setdefault(int(words[1]), values.get("curr") == "idle")
        elif words[0] == "task" and "cpus" in values:
            self.affinity[words[1]] = cpu_list(values["cpus"])
            if self.classes.get(words[1]) == "ext" and values["class"] == "fair" and not self.command.startswith("set "):
                self.ended = self.now if self.ended is None else self.ended
            self.classes[words[1]] = values["class"]
            if values["state"] in ("blocked", "dead"):
                self.waits.pop(words[1], None)

    def read(self, text):
        for line in text.splitlines():
            if line.startswith("> "):
                _, time, _, self.command = [*line.split(maxsplit=3), ""][:4]
                self.advance(int(time))
            elif found := re.match(r"@(\d+) (.*)", line):
                self.advance(int(found[1]))
                self.event(found[2].split())
            elif not line.startswith("!"):
                self.row(line)
        for task in list(self.waits):
            self.end_wait(task, at_end=True)


def ms(ns):
    return f"{ns / 1e6:.3f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--over", type=float, default=100, metavar="MS", help="shortest time that is printed (default: %(default)s)")
    parser.add_argument("logs", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    for path in options.logs:
        watch = Watch()
        watch.read(path.read_text())
        print(f"{path.name}: {ms(watch.now)}")
        if watch.ended is not None:
            print(f"  the policy ends at {ms(watch.ended)}")
        waits = sorted(watch.longest.items(), key=lambda item: -item[1][0])
        for task, (length, start, at_end) in waits:
            if length >= options.over * 1e6:
                end = "until the end" if at_end else f"for {ms(length)}"
                print(f"  {task} waits from {ms(start)} on, {end}")
        for cpu, (length, start, task) in sorted(watch.longest_wasted.items()):
            if length >= options.over * 1e6:
                print(f"  CPU {cpu} idles from {ms(start)} on, for {ms(length)}, while tasks wait that may use it ({task})")


if __name__ == "__main__":
    main()
