#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Reads all recordings in a directory, and compares their events with those that other tools count.

usage: zoo.py WINDTUNNEL DIRECTORY

perf counts the events of perf.data files, trace-cmd those of trace.dat files, and babeltrace2 those
of CTF traces. No tool counts the events of texts and of Perfetto traces. docs/traces.md names public
recordings. The exit status is 1 if a count differs.
"""

import collections
import gzip
import os
import re
import subprocess
import sys
import tempfile

EVENTS = (
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_migrate_task",
    "sched_process_fork",
    "sched_process_exec",
    "sched_process_exit",
)
NAME = re.compile(r"\b(sched_[a-z_]+): ")


def recordings(folder):
    """Yields the files below a directory, and the directories that contain CTF traces."""
    for path, folders, files in os.walk(folder, followlinks=True):
        folders.sort()
        if "metadata" in files:
            folders.clear()
            yield path
        else:
            yield from (os.path.join(path, file) for file in sorted(files))


def unpacked(path, scratch):
    """Returns the path of the decompressed file."""
    with open(path, "rb") as file:
        magic = file.read(4)
    if magic[:2] == b"\x1f\x8b":
        with gzip.open(path) as file:
            content = file.read()
    elif magic == b"\x28\xb5\x2f\xfd":
        # zstd refuses the names of symbolic links.
        with open(path, "rb") as file:
            content = subprocess.run(["zstd", "-dcq"], stdin=file, check=True, capture_output=True).stdout
    else:
        return path
    copy = os.path.join(scratch, "unpacked")
    with open(copy, "wb") as file:
        file.write(content)
    return copy


def reference(path, scratch):
    """Returns the command of the tool that prints the events of a recording, or None."""
    if os.path.isdir(path):
        return ["babeltrace2", path]
    path = unpacked(path, scratch)
    with open(path, "rb") as file:
        magic = file.read(10)
    if magic[:8] in (b"PERFILE2", b"2ELIFREP"):
        return ["perf", "script", "-i", path]
    if magic == b"\x17\x08\x44tracing":
        return ["trace-cmd", "report", path]
    return None


def count(command):
    """Returns the number of events of each name that a tool prints, and whether it fails."""
    counts = collections.Counter()
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as tool:
            for line in tool.stdout:
                name = NAME.search(line.decode("utf-8", "replace"))
                if name and name[1] in EVENTS:
                    counts[name[1]] += 1
        return counts, tool.returncode != 0


def own(windtunnel, path):
    """Returns the counts of windtunnel, and its message if it refuses the recording."""
    result = subprocess.run([windtunnel, "report", "--events", path], capture_output=True, text=True, check=False)
    counts = collections.Counter()
    for line in result.stdout.splitlines():
        name, number = line.rsplit(" ", 1)
        counts[name] = int(number)
    return counts, result.stderr.strip().splitlines()[0] if result.returncode else ""


def main():
    windtunnel, folder = sys.argv[1:]
    different = 0
    for path in recordings(folder):
        counts, refused = own(windtunnel, path)
        shown = ", ".join(f"{name} {counts[name]}" for name in EVENTS if counts[name])
        with tempfile.TemporaryDirectory() as scratch:
            command = reference(path, scratch)
            wanted, failed = count(command) if command else (None, False)
        if wanted is None:
            verdict = "no tool to compare with"
        elif failed:
            verdict = f"{command[0]} fails after {sum(wanted.values())} events"
        elif all(counts[name] == wanted[name] for name in EVENTS):
            verdict = f"as {command[0]}"
        else:
            different += 1
            verdict = f"DIFFERENT: {command[0]} counts {dict(wanted)}"
        print(f"{os.path.relpath(path, folder)}: {shown or refused or 'no events'} ({verdict})", flush=True)
    if different:
        print(f"{different} recordings differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
