#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures how often the GitHub action is right, and how long it takes.

usage: proof.py all | unchanged | regressions | time [OBJECT]... [--commits N]

unchanged    runs the action for N commits (100 by default) that change no decision of a policy:
             comments, renamed functions and variables, unused code, statistics counters. Every
             verdict that is not "passed" is a false alarm.
regressions  counts how many of ten changes the action finds. Each costs a policy about 5 % of its
             score on one machine with one workload; its size is calibrated and then measured with
             seeds that the action does not use.
time         runs the action for each object on 4 machines and 4 workloads, and extrapolates to 20
             objects. By default, the objects are steal and the schedulers that `make compat` has
             compiled (scx_bpfland, scx_lavd).
all          does all of this, and prints a table.

The action runs with its default matrix and conditions, but `unchanged` has so many runs that they are
shorter.

Needs clang-19 and the command windtunnel, or the one that the variable WINDTUNNEL names. The exit
status is 0 if the counts are good enough: no false alarm, at least 9 of 10 regressions found, at most
15 minutes for 20 objects on 4 CPUs.
"""

import argparse
import json
import math
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from verdict import WORKLOADS

REPOSITORY = Path(__file__).resolve().parents[2]
VERDICT = Path(__file__).with_name("verdict.py")
CLANG = ["clang-19", "-g", "-O2", "-mcpu=v3", "-target", "bpf"]

# Workloads of the action's default matrix.
HACKBENCH, CLOSED, FOOTPRINT, OPEN = WORKLOADS
LENGTH = "200ms"
SHORT_LENGTH = "50ms"
# Machines of `time`.
TIME_MACHINES = ["x6-2", "hybrid", "numa32", "rpi4"]

POLICIES = ["fifo", "percpu", "rr", "vtime", "steal", "o1", "p9", "pls", "mqs", "dss", "dss25", "windows"]

# A C statement that executes an empty loop `{n}` times.
SPIN = "{ u32 spin; bpf_for(spin, 0, {n}) asm volatile(\"\"); }"
# A statement that reads the clock `{n}` times.
CLOCK = "{ u32 read; bpf_for(read, 0, {n}) bpf_ktime_get_ns(); }"
# A statement that writes `{n}` times to a cache line that all CPUs share.
SHARED = "{ u32 add; bpf_for(add, 0, {n}) __sync_fetch_and_add(&shared_line, 1); }"

# Policy, callback to insert the statement into, statement, machine, workload, and the numbers between
# which the calibration searches. If the first is smaller, a larger number makes the score worse.
REGRESSIONS = [
    ("fifo", "dispatch", SPIN, "hybrid", HACKBENCH, (1, 4000)),
    ("rr", "enqueue", SPIN, "numa32", HACKBENCH, (1, 4000)),
    ("vtime", "dispatch", CLOCK, "hybrid", HACKBENCH, (1, 2000)),
    ("percpu", "select_cpu", SPIN, "numa32", HACKBENCH, (1, 4000)),
    ("steal", "dispatch", SPIN, "numa32", HACKBENCH, (1, 4000)),
    ("mqs", "dispatch", SHARED, "hybrid", HACKBENCH, (1, 1000)),
    ("o1", "enqueue", CLOCK, "numa32", HACKBENCH, (1, 2000)),
    # Now and then, a woken task waits for its previous CPU instead of getting an idle one.
    ("percpu", "select_cpu", "if (__sync_fetch_and_add(&shared_line, 1) % 1000 < {n}) return prev_cpu;",
     "numa32", CLOSED, (1, 1000)),
    # Now and then, a queued task interrupts the CPU that it ran on last.
    ("fifo", "enqueue", "if (__sync_fetch_and_add(&shared_line, 1) % 1000 < {n}) "
     "scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);", "numa32", HACKBENCH, (1, 1000)),
    # A shorter slice, in ms, for tasks that find a cold cache after each switch.
    ("fifo", None, "slice", "hybrid", FOOTPRINT, (5, 1)),
]  # fmt: skip


def command(*words):
    done = subprocess.run([os.environ.get("WINDTUNNEL", "windtunnel"), *words], capture_output=True, text=True, cwd=REPOSITORY)
    if done.returncode not in (0, 1):
        sys.exit(f"proof: windtunnel {' '.join(words)}:\n{done.stdout}{done.stderr}")
    return done.stdout


def verdict(old, new, *more):
    """Runs the action. Returns the failed checks, and the CPU time in seconds."""
    before = cpu_time()
    done = subprocess.run([sys.executable, VERDICT, "--new", new, "--old", old, *more],
                          capture_output=True, text=True, cwd=REPOSITORY)  # fmt: skip
    if done.returncode not in (0, 1):
        sys.exit(f"proof: {new}: {' '.join(map(str, more))}:\n{done.stdout}{done.stderr}")
    checks = done.stdout.partition("All checks")[2].splitlines()
    failed = [line.split("|")[1].strip() for line in checks if "**failed**" in line]
    return failed, cpu_time() - before


def cpu_time():
    """CPU time of all ended child processes, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def build(source, text, folder):
    """Compiles the text of a policy. Returns None if it does not compile."""
    path = folder / source.name
    path.write_text(text)
    made = path.with_suffix(".o")
    done = subprocess.run([*CLANG, "-c", path.name, "-o", made.name], cwd=folder, capture_output=True)
    return made if done.returncode == 0 else None


def sources(folder, name):
    """Creates a directory with a copy of the policies' headers."""
    made = folder / name
    made.mkdir()
    shutil.copytree(REPOSITORY / "policies/include", made / "include")
    return made


def callback(text, name):
    """Returns the offset at which the body of the callback `name` begins, or None if there is none."""
    found = re.search(rf"SCX_OP\(\w+_{name},[^{{]*\{{", text)
    return found.end() if found else None


def with_statement(text, name, statement):
    """Inserts a statement into a callback, after the declarations."""
    begin = callback(text, name)
    lines = text[begin:].split("\n")
    at = 1
    while re.match(r"\t(?:const |struct \w+ )?\**\w+ [*\w, ]+(?: = .*)?[;,]?$", lines[at]) and "return" not in lines[at]:
        at += 1
    return text[:begin] + "\n".join([*lines[:at], f"\t{statement}", *lines[at:]])


# The edits of unchanged(). Each takes the text of a policy, a random generator and the number of the
# commit. It returns the new text, or None if the edit does not apply.


def comment(text, chance, number):
    lines = text.split("\n")
    places = [index for index, line in enumerate(lines) if line == "}"]
    lines.insert(chance.choice(places) + 1, f"\n/* Note {number}: no other function calls the one above. */")
    return "\n".join(lines)


def rename_function(text, chance, number):
    names = sorted(set(re.findall(r"SCX_OP(?:_SLEEPABLE)?\((\w+)", text)))
    return renamed(text, chance.choice(names), f"renamed_{number}")


def rename_variable(text, chance, number):
    names = sorted(set(re.findall(r"^\t+(?:s32|u32|u64|s64|bool) (\w+)(?: =|;|,)", text, re.MULTILINE)))
    return renamed(text, chance.choice(names), f"renamed_{number}") if names else None


def renamed(text, old, new):
    return re.sub(rf"(?<![\w.>]){old}\b(?!\s*\()", new, text)


def unused(text, chance, number):
    place = text.index("char _license")
    return f"{text[:place]}u64 unused_{number} = {chance.randrange(100)};\n\n{text[place:]}"


def counter(text, chance, number):
    names = [name for name in ("select_cpu", "enqueue", "dispatch") if callback(text, name)]
    if not names:
        return None
    place = text.index("char _license")
    text = f"{text[:place]}/* Number of calls. */\nu64 nr_calls_{number};\n\n{text[place:]}"
    return with_statement(text, chance.choice(names), f"__sync_fetch_and_add(&nr_calls_{number}, 1);")


EDITS = [comment, rename_function, rename_variable, unused, counter]


def unchanged(folder, numbers):
    alarms = same = 0
    seconds = []
    for number in numbers:
        chance = random.Random(number)
        policy, edit = POLICIES[number % len(POLICIES)], EDITS[number % len(EDITS)]
        source = REPOSITORY / f"policies/{policy}.bpf.c"
        text = source.read_text()
        old = build(source, text, sources(folder, f"{number}-old"))
        new_folder, new, changed = sources(folder, f"{number}-new"), None, None
        # Some edits do not compile, for example if a new name is also a macro's. The loop then tries
        # other places, and then other edits.
        for one in [edit] * 8 + EDITS:
            changed = one(text, chance, number)
            new = changed != text and changed and build(source, changed, new_folder)
            if new:
                edit = one
                break
        failed, used = verdict(old, new, "--for", SHORT_LENGTH, "--output", folder / "out")
        seconds.append(used)
        alarms += bool(failed)
        if failed:
            print(f"false alarm: commit {number} ({edit.__name__} in {policy}): {failed}", flush=True)
        same += code(old) == code(new)
        for made in (old, new):
            shutil.rmtree(made.parent)
    return alarms == 0, (f"{len(numbers)} commits that change no decision, of which {len(numbers) - same} change the code",
                         f"{alarms} false alarms", mean_time(seconds))  # fmt: skip


def mean_time(seconds):
    return f"{sum(seconds) / len(seconds):.1f} s of CPU time for each, at most {max(seconds):.1f} s"


def code(made):
    """Disassembles an object."""
    done = subprocess.run(["llvm-objdump-19", "-d", "--no-show-raw-insn", made], capture_output=True, text=True, check=True)
    return [line.split("\t", 1)[-1] for line in done.stdout.splitlines() if "\t" in line]


def change(old, new, machine, workload, seed, runs):
    """Returns by how many percent the score of `new` is worse than that of `old`, and the confidence
    interval. The loss is infinite if a run of `new` does not finish and thus has no score."""
    words = ["compare", old, new, "--machine", machine, "--workload", workload, "--for", LENGTH, "--json"]
    found = json.loads(command(*map(str, words), "--seed", str(seed), "--runs", str(runs)))
    score = next((metric for metric in found["metrics"] if metric["name"] == "score"), None)
    if score is None:
        return [math.inf] * 3
    sign = 1 if score["better"] == "lower" else -1
    values = [score[name] for name in ("change_percent", "change_percent_low", "change_percent_high")]
    return [math.nan if value is None else sign * value for value in values]


def regressed(text, where, statement, number):
    if statement == "slice":
        return re.sub(r"(slice_ns PARAM\(.*?\) = )\d+", rf"\g<1>{number * 1_000_000}", text)
    place = text.index("char _license")
    text = f"{text[:place]}u64 shared_line;\n\n{text[place:]}"
    return with_statement(text, where, statement.replace("{n}", str(number)))


def calibrated(worse, low, high):
    """Searches for the number that makes the score about 5 % worse. `worse` measures a number in a given
    number of runs."""
    rising = low < high
    # Bisects on a logarithmic scale.
    for _ in range(6):
        number = round(math.sqrt(low * high))
        low, high = (number, high) if worse(number, 5) < 5 else (low, number)
    number = round(math.sqrt(low * high))
    for _ in range(5):
        found = worse(number, 40)
        if abs(found - 5) <= 0.4:
            break
        factor = min(2, max(0.5, 5 / found)) if found > 0 else 2
        number = max(1, round(number * factor if rising else number / factor))
    return number


def regressions(folder):
    caught = 0
    seconds = []
    for index, (policy, where, statement, machine, load, (low, high)) in enumerate(REGRESSIONS):
        source = REPOSITORY / f"policies/{policy}.bpf.c"
        text = source.read_text()
        old = build(source, text, sources(folder, f"{index}-old"))
        place = sources(folder, f"{index}-new")

        def made(number):
            new = build(source, regressed(text, where, statement, number), place)
            assert new, f"{policy} with {statement} does not compile"
            return new

        number = calibrated(lambda number, runs: change(old, made(number), machine, load, 1001, runs)[0], low, high)
        real = change(old, made(number), machine, load, 2001, 40)
        failed, used = verdict(old, made(number), "--output", folder / "out")
        seconds.append(used)
        caught += bool(failed)
        kind = "slice in ms" if statement == "slice" else f"in {where}: {statement}"
        print(f"{'caught' if failed else 'MISSED'}: {policy}, {machine}, {load}, {kind}, n={number}: score worse by "
              f"{real[0]:.1f} % ({min(real[1:]):.1f} to {max(real[1:]):.1f} %); {used:.0f} s of CPU time; failed: "
              f"{'; '.join(failed)}", flush=True)  # fmt: skip
    return caught >= 9, (f"{len(REGRESSIONS)} changes that cost about 5 % of a score", f"{caught} found", mean_time(seconds))


def timed(folder, objects):
    compiled = [REPOSITORY / f"target/compat/objects/scx/scx_{name}.bpf.o" for name in ("bpfland", "lavd")]
    objects = objects or ["steal", *filter(Path.exists, compiled)]
    words = [word for machine in TIME_MACHINES for word in ("--machine", machine)]
    words += [word for load in WORKLOADS for word in ("--workload", load)]
    seconds = []
    for made in objects:
        seconds.append(verdict(made, made, *words, "--for", LENGTH, "--output", folder / "out")[1])
        print(f"{made}: {seconds[-1]:.0f} s of CPU time for {len(TIME_MACHINES) * len(WORKLOADS)} places", flush=True)
    minutes = sum(seconds) / len(seconds) * 20 / 4 / 60
    return minutes <= 15, ("20 schedulers on 4 machines with 4 workloads",
                           f"{minutes:.1f} minutes on 4 CPUs, calculated from {len(objects)} schedulers",
                           mean_time(seconds))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=["all", "unchanged", "regressions", "time"])
    parser.add_argument("objects", nargs="*", help="objects or names, for `time`")
    parser.add_argument("--commits", type=int, default=100)
    args = parser.parse_args()
    parts = {
        "unchanged": lambda folder: unchanged(folder, range(args.commits)),
        "regressions": regressions,
        "time": lambda folder: timed(folder, args.objects),
    }
    results = {}
    with tempfile.TemporaryDirectory(prefix="proof-") as name:
        for part in parts if args.what == "all" else [args.what]:
            results[part] = parts[part](Path(name))
            print(f"{part}: {', '.join(results[part][1])}", flush=True)
    print("| content | result | cost |\n|---|---|---|")
    for _, row in results.values():
        print(f"| {' | '.join(row)} |")
    bad = [part for part, (good, _) in results.items() if not good]
    if bad:
        print(f"not good enough: {', '.join(bad)}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
