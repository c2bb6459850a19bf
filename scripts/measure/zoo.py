#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Reads all recordings in a directory, and compares their events with those that other tools count.

usage: zoo.py WINDTUNNEL DIRECTORY

perf counts the events of perf.data files, trace-cmd those of trace.dat files, and babeltrace2 those
of CTF traces. If babeltrace2 cannot merge the streams of a trace, because a time goes backwards, it
counts the events of each stream alone. No tool counts the events of texts and of Perfetto traces.
Other files, such as scripts and tables, are left out. docs/traces.md names public recordings. The
exit status is 1 if a count differs.
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
NAME = re.compile(r"\b(sched_[a-z_]+): |\} Event `(sched_[a-z_]+)`")
# Messages about files that are no recordings at all.
FOREIGN = re.compile(
    r"expected an event|this is a JSON file|compressed by xz|this is a binary file of an unknown format|the file is empty"
)


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


def count_streams(folder, scratch):
    """Returns the number of events of each name in a CTF trace whose streams are read one by one,
    and whether babeltrace2 fails."""
    counts, failed = collections.Counter(), False
    for name in sorted(os.listdir(folder)):
        stream = os.path.join(folder, name)
        if name == "metadata" or not os.path.isfile(stream):
            continue
        single = os.path.join(scratch, f"stream-{name}")
        os.mkdir(single)
        for file in ("metadata", name):
            os.symlink(os.path.abspath(os.path.join(folder, file)), os.path.join(single, file))
        part, wrong = count(
            ["babeltrace2", "run", "--component=in:source.ctf.fs", "--params", f'inputs=["{single}"]']
            + ["--component=out:sink.text.details", "--params", 'compact=yes,color="never"', "--connect=in:out"]
        )
        counts.update(part)
        failed |= wrong
    return counts, failed


def count(command):
    """Returns the number of events of each name that a tool prints, and whether it fails."""
    counts = collections.Counter()
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as tool:
            for line in tool.stdout:
                name = NAME.search(line.decode("utf-8", "replace"))
                if name and (name[1] or name[2]) in EVENTS:
                    counts[name[1] or name[2]] += 1
        return counts, tool.returncode != 0


def own(windtunnel, path):
    """Returns the counts of windtunnel, and its message if it refuses the recording."""
    result = subprocess.run([windtunnel, "report", "--events", path], capture_output=True, text=True, check=False)
    counts = collections.Counter()
    for line in result.stdout.splitlines():
        name, number = line.rsplit(" ", 1)
        counts[name] = int(number)
    return counts, result.stderr.strip().splitlines()[0] if result.returncode else ""


def compare(windtunnel, path):
    """Returns the line for a recording and the kind of its result, or None for another file."""
    counts, refused = own(windtunnel, path)
    if FOREIGN.search(refused) and not os.path.isdir(path):
        return None
    shown = ", ".join(f"{name} {counts[name]}" for name in EVENTS if counts[name])
    how = ""
    with tempfile.TemporaryDirectory() as scratch:
        command = reference(path, scratch)
        wanted, failed = count(command) if command else (None, False)
        if failed and os.path.isdir(path):
            (wanted, failed), how = count_streams(path, scratch), ", stream by stream"
    if wanted is None:
        kind, verdict = "without a tool to compare with", "no tool to compare with"
    elif failed:
        kind, verdict = "that the other tool cannot read", f"{command[0]} fails after {sum(wanted.values())} events"
    elif all(counts[name] == wanted[name] for name in EVENTS):
        kind = "with equal counts" if shown else "without scheduler events, also for the other tool"
        verdict = f"as {command[0]}{how}"
    else:
        kind, verdict = "DIFFERENT", f"DIFFERENT: {command[0]} counts {dict(wanted)}"
    return f"{shown or refused.split(path + ': ')[-1] or 'no events'} ({verdict})", kind


def main():
    windtunnel, folder = sys.argv[1:]
    kinds = collections.Counter()
    for path in recordings(folder):
        result = compare(windtunnel, path)
        if result is None:
            kinds["other files"] += 1
            continue
        line, kind = result
        kinds[kind] += 1
        print(f"{os.path.relpath(path, folder)}: {line}", flush=True)
    print("\n" + "\n".join(f"{number} {kind}" for kind, number in sorted(kinds.items())))
    return 1 if kinds["DIFFERENT"] else 0


if __name__ == "__main__":
    sys.exit(main())
