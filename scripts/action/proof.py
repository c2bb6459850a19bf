#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures how often the GitHub action is right, and how long it takes.

usage: proof.py unchanged [--commits N] | regressions | time OBJECT...

unchanged    makes N commits (100 by default) that change no decision of a policy: comments, renamed
             functions and variables, unused code, statistics counters. Compares the policy before
             and after each commit on a matrix of machines and workloads. Every verdict that is not
             "passed" is a false alarm.
regressions  makes ten changes that cost a policy about 5 % of its score. The size of each change is
             calibrated and then measured with seeds that the action does not use. Then counts how
             many of the changes the action finds.
time         runs the action for each object on 4 machines and 4 workloads, and prints the CPU time.

The script compiles copies of the policies in a temporary directory with clang-19. It needs the
command windtunnel; the variable WINDTUNNEL names another one. It runs in the directory of the
repository. The exit status is 0 if the counts are good enough: no false alarm, at least 9 of 10
regressions found, at most 15 minutes for 20 objects on 4 CPUs.
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
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
VERDICT = Path(__file__).with_name("verdict.py")
CLANG = ["clang-19", "-g", "-O2", "-mcpu=v3", "-target", "bpf"]

# Workloads with the condition that their score got worse by more than 3 %. The score of hackbench is
# a time, and the other scores are rates.
HACKBENCH = ("hackbench:groups=4,loops=50", "score > +3%")
CLOSED = ("closed:n=48,compute=2ms,think=3ms,compute_dist=M,think_dist=M", "score < -3%")
CHAT = ("chat", "score < -3%")
SCHBENCH = ("schbench:workers=12", "score < -3%")
LATENCY = "p99_wakeup > +5%"
LENGTH = "200ms"
# Number of pairs of runs of each verdict. The default of the action is 10.
RUNS = 20
DEFAULT_RUNS = 10

# The commits of unchanged() are many, so their runs are short.
SHORT = ("hackbench:groups=4,loops=20", "score > +3%")
SHORT_LENGTH = "50ms"

# Policies that fulfil the invariants of the action on the matrix.
POLICIES = ["fifo", "percpu", "rr", "vtime", "steal", "o1", "p9", "pls", "mqs", "dss", "dss25", "windows"]
MATRIX = [(machine, load) for machine in ("hybrid", "numa32") for load in (SHORT, CLOSED)]

# A statement of C that costs `{n}` rounds of an empty loop.
SPIN = "{ u32 spin; bpf_for(spin, 0, {n}) asm volatile(\"\"); }"
# A statement that reads the clock `{n}` times.
CLOCK = "{ u32 read; bpf_for(read, 0, {n}) bpf_ktime_get_ns(); }"
# A statement that writes to a cache line which all CPUs share `{n}` times.
SHARED = "{ u32 add; bpf_for(add, 0, {n}) __sync_fetch_and_add(&shared_line, 1); }"

# Policy, callback at whose beginning the statement is inserted, statement, machine, workload, and
# the numbers between which the calibration searches. A score falls with a larger number if the
# first number is smaller than the second.
REGRESSIONS = [
    ("fifo", "dispatch", SPIN, "hybrid", HACKBENCH, (1, 4000)),
    ("rr", "enqueue", SPIN, "numa32", HACKBENCH, (1, 4000)),
    ("vtime", "dispatch", CLOCK, "hybrid", HACKBENCH, (1, 2000)),
    ("percpu", "select_cpu", SPIN, "numa32", HACKBENCH, (1, 4000)),
    ("steal", "dispatch", SPIN, "numa32", HACKBENCH, (1, 4000)),
    ("mqs", "dispatch", SHARED, "hybrid", HACKBENCH, (1, 1000)),
    ("o1", "enqueue", CLOCK, "numa32", HACKBENCH, (1, 2000)),
    # Now and then a woken task does not get the idle CPU, but waits for its previous CPU.
    ("percpu", "select_cpu", "if (__sync_fetch_and_add(&shared_line, 1) % 1000 < {n}) return prev_cpu;",
     "numa32", CLOSED, (1, 1000)),
    # Now and then a queued task interrupts the CPU that it was on.
    ("fifo", "enqueue", "if (__sync_fetch_and_add(&shared_line, 1) % 1000 < {n}) "
     "scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);", "numa32", HACKBENCH, (1, 1000)),
    # A shorter slice, in ms, for tasks that find a cold cache after each switch.
    ("fifo", None, "slice", "hybrid", ("closed:n=40,compute=10ms,compute_dist=M,footprint=6m", "score < -3%"), (5, 1)),
]  # fmt: skip


def command(*words):
    done = subprocess.run([os.environ.get("WINDTUNNEL", "windtunnel"), *words], capture_output=True, text=True, cwd=REPOSITORY)
    if done.returncode not in (0, 1):
        sys.exit(f"proof: windtunnel {' '.join(words)}:\n{done.stdout}{done.stderr}")
    return done.stdout


def verdict(old, new, machine, workload, folder, runs=RUNS, length=LENGTH):
    """Runs the action. Returns the failed checks of its verdict."""
    name, condition = workload
    words = ["--new", new, "--old", old, "--machine", machine, "--workload", name, "--for", length]
    words += ["--runs", str(runs), "--fail-if", condition, "--fail-if", LATENCY, "--output", folder]
    done = subprocess.run([sys.executable, VERDICT, *words], capture_output=True, text=True, cwd=REPOSITORY)
    if done.returncode not in (0, 1):
        sys.exit(f"proof: {new} on {machine}, {name}:\n{done.stdout}{done.stderr}")
    return [line for line in done.stdout.splitlines() if "**failed**" in line]


def build(source, text, folder):
    """Compiles the text of a policy. Returns the object, or None if the text is not valid C."""
    path = folder / source.name
    path.write_text(text)
    made = path.with_suffix(".o")
    done = subprocess.run([*CLANG, "-c", path.name, "-o", made.name], cwd=folder, capture_output=True)
    return made if done.returncode == 0 else None


def sources(folder, name):
    """Makes a directory with a copy of the policies' headers, and returns it."""
    made = folder / name
    made.mkdir()
    shutil.copytree(REPOSITORY / "policies/include", made / "include")
    return made


def callback(text, name):
    """Returns the position after the opening brace of the callback whose name ends with `name`."""
    found = re.search(rf"SCX_OP\(\w+_{name},[^{{]*\{{", text)
    return found.end() if found else None


def with_statement(text, name, statement):
    """Inserts a statement after the declarations at the beginning of a callback."""
    begin = callback(text, name)
    lines = text[begin:].split("\n")
    at = 1
    while re.match(r"\t(?:const |struct \w+ )?\**\w+ [*\w, ]+(?: = .*)?[;,]?$", lines[at]) and "return" not in lines[at]:
        at += 1
    return text[:begin] + "\n".join([*lines[:at], f"\t{statement}", *lines[at:]])


# The edits of unchanged(). Each takes the text of a policy, a random generator and the number of
# the commit, and returns the new text, or None if the text has no place for this edit.


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
    for number in numbers:
        chance = random.Random(number)
        policy, edit = POLICIES[number % len(POLICIES)], EDITS[number % len(EDITS)]
        source = REPOSITORY / f"policies/{policy}.bpf.c"
        text = source.read_text()
        old = build(source, text, sources(folder, f"{number}-old"))
        new_folder, new, changed = sources(folder, f"{number}-new"), None, None
        # Some edits do not compile, for example if a new name hides a macro's. Another place is
        # chosen then, or another edit.
        for one in [edit] * 8 + EDITS:
            changed = one(text, chance, number)
            new = changed != text and changed and build(source, changed, new_folder)
            if new:
                edit = one
                break
        for machine, load in MATRIX:
            failed = verdict(old, new, machine, load, folder / "out", DEFAULT_RUNS, SHORT_LENGTH)
            alarms += len(failed)
            if failed:
                print(f"false alarm: commit {number} ({edit.__name__} in {policy}), {machine}, {load[0]}: {failed}", flush=True)
        same += code(old) == code(new)
        for made in (old, new):
            shutil.rmtree(made.parent)
    print(f"{len(numbers)} commits x {len(MATRIX)} places: {alarms} false alarms; "
          f"{len(numbers) - same} commits change the code")  # fmt: skip
    return alarms == 0


def code(made):
    """Returns the instructions of an object."""
    done = subprocess.run(["llvm-objdump-19", "-d", "--no-show-raw-insn", made], capture_output=True, text=True, check=True)
    return [line.split("\t", 1)[-1] for line in done.stdout.splitlines() if "\t" in line]


def change(old, new, machine, workload, seed, runs):
    """Returns by how many percent the score of `new` is worse than that of `old`, with its
    confidence interval."""
    words = ["compare", old, new, "--machine", machine, "--workload", workload[0], "--for", LENGTH, "--json"]
    found = json.loads(command(*map(str, words), "--seed", str(seed), "--runs", str(runs)))
    [score] = [metric for metric in found["metrics"] if metric["name"] == "score"]
    sign = 1 if ">" in workload[1] else -1
    values = [score[name] for name in ("change_percent", "change_percent_low", "change_percent_high")]
    return [math.nan if value is None else sign * value for value in values]


def regressed(text, where, statement, number):
    if statement == "slice":
        return re.sub(r"(slice_ns PARAM\(.*?\) = )\d+", rf"\g<1>{number * 1_000_000}", text)
    place = text.index("char _license")
    text = f"{text[:place]}u64 shared_line;\n\n{text[place:]}"
    return with_statement(text, where, statement.replace("{n}", str(number)))


def calibrated(worse, low, high):
    """Returns the number with which the score is about 5 % worse. `worse` measures a number with a
    number of runs."""
    rising = low < high
    # The geometric mean of two numbers halves the interval on a logarithmic scale.
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
        failed = verdict(old, made(number), machine, load, folder / "out")
        found = any("score" in line for line in failed)
        caught += found
        kind = "slice in ms" if statement == "slice" else f"in {where}: {statement}"
        print(f"{'caught' if found else 'MISSED'}: {policy}, {machine}, {load[0]}, {kind}, n={number}: score worse by "
              f"{real[0]:.1f} % ({min(real[1:]):.1f} to {max(real[1:]):.1f} %)", flush=True)  # fmt: skip
    print(f"{caught} of {len(REGRESSIONS)} regressions caught")
    return caught >= 9


def timed(folder, objects):
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    cells = 0
    for made in objects:
        for machine in ("x6-2", "hybrid", "numa32", "rpi4"):
            for load in (HACKBENCH, CLOSED, SCHBENCH, CHAT):
                verdict(made, made, machine, load, folder / "out", DEFAULT_RUNS)
                cells += 1
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    minutes = cpu / 4 / 60 * 20 / len(objects)
    print(f"{len(objects)} objects x 16 places: {cpu:.0f} s of CPU time, {cpu / cells:.2f} s a place, "
          f"{time.monotonic() - begin:.0f} s on this host")  # fmt: skip
    print(f"20 objects on 4 CPUs: {minutes:.1f} minutes, calculated from the CPU time")
    return minutes <= 15


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=["unchanged", "regressions", "time"])
    parser.add_argument("objects", nargs="*", help="objects or names, for `time`")
    parser.add_argument("--commits", type=int, default=100)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="proof-") as name:
        folder = Path(name)
        if args.what == "unchanged":
            good = unchanged(folder, range(args.commits))
        elif args.what == "regressions":
            good = regressions(folder)
        else:
            good = timed(folder, args.objects)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
