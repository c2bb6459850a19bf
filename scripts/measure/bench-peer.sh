#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# bench-peer.sh PEER_DIR [REPEAT]: compares the speed of windtunnel with that of scxsim, which
# simulates sched_ext schedulers that are compiled to native code. PEER_DIR is a clone of
# https://github.com/rrnewton/sched-test, built as its README says (`cargo build --release` and
# `make -C schedulers` in scx-sim), or of the branch simulator.v3 of https://github.com/sched-ext/scx,
# an earlier state of it (`cargo build --release` in rust/scx_simulator).
#
# Both programs run the same rt-app workloads in turn, REPEAT times each (by default 5). The script
# prints the medians of the CPU times, the peak memory, and how many times as long the peer takes. CPU
# time depends less than wall time on what else the host does.
#
# Needs the objects of scx_simple and scx_lavd (`make compat` compiles them), Python, and a build of
# the command: WINDTUNNEL, or by default that of `make fast`, or else the release build.
set -eu
cd "$(dirname "$0")/../.."
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: bench-peer.sh PEER_DIR [REPEAT]" >&2
  exit 2
fi
peer_dir=$1 repeat=${2:-5}
for folder in "$peer_dir/scx-sim" "$peer_dir/rust/scx_simulator" "$peer_dir"; do
  if [ -x "$folder/target/release/scxsim" ]; then
    peer_dir=$(cd "$folder" && pwd)
    break
  fi
done
if [ ! -x "$peer_dir/target/release/scxsim" ]; then
  echo "bench-peer.sh: $peer_dir has no target/release/scxsim: build the peer as its README says" >&2
  exit 1
fi
windtunnel=${WINDTUNNEL:-}
for build in target/fast/release target/release; do
  [ -n "$windtunnel" ] || [ ! -x $build/windtunnel ] || windtunnel=$build/windtunnel
done
simple=target/compat/objects/kernel/scx_simple.bpf.o lavd=target/compat/objects/scx/scx_lavd.bpf.o
for file in "${windtunnel:-target/release/windtunnel}" $simple $lavd; do
  if [ ! -f "$file" ]; then
    echo "bench-peer.sh: $file is missing: run \`make fast\` and \`make compat\`" >&2
    exit 1
  fi
done

exec python3 - "$peer_dir" "$windtunnel" "$simple" "$lavd" "$repeat" <<'END'
import json, os, statistics, subprocess, sys, tempfile

peer_dir, windtunnel, simple, lavd, repeat = sys.argv[1:]
objects = {"simple": os.path.abspath(simple), "lavd": os.path.abspath(lavd)}
# Scheduler, tasks, CPUs, the us that a task runs and sleeps, simulated seconds.
LOADS = [
    ("simple", 100, 16, 500, 500, 10),
    ("simple", 1000, 64, 500, 500, 1),
    ("simple", 1000, 64, 50, 50, 1),
    ("simple", 4000, 128, 500, 500, 1),
    ("lavd", 1000, 64, 500, 500, 1),
    ("lavd", 1000, 64, 500, 500, 10),
]


def measure(command, folder):
    """Returns the CPU time in s and the peak memory in MB of a command that must succeed."""
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            errors.seek(0)
            sys.exit(f"bench-peer.sh: {' '.join(command)} failed: {errors.read().decode(errors='replace')[-500:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


# Earlier states of the peer have no subcommands.
help_text = subprocess.run(["target/release/scxsim", "--help"], cwd=peer_dir, capture_output=True, text=True).stdout
subcommand = ["run"] if "Commands:" in help_text else []


print(f"| scheduler | load | peer | {windtunnel} | peer / ours |\n|---|---|---|---|---|", flush=True)
with tempfile.TemporaryDirectory() as folder:
    for scheduler, tasks, cpus, run, sleep, seconds in LOADS:
        workload = os.path.join(folder, "load.json")
        task = {"instance": tasks, "loop": -1, "run": run, "sleep": sleep}
        with open(workload, "w") as file:
            json.dump({"tasks": {"task": task}}, file)
        theirs = ["target/release/scxsim", *subcommand, "-s", scheduler, "-c", str(cpus)]
        theirs += ["--end-time", f"{seconds}s", workload]
        ours = [windtunnel, "run", objects[scheduler], "--machine", f"node:1 core:{cpus} pu:1"]
        ours += ["--workload", workload, "--for", f"{seconds}s"]
        results = [(measure(theirs, peer_dir), measure(ours, ".")) for _ in range(int(repeat))]
        (their_time, their_mb), (our_time, our_mb) = (
            (statistics.median(time for time, _ in side), max(mb for _, mb in side)) for side in zip(*results)
        )
        load = f"{tasks} tasks on {cpus} CPUs, {run}/{sleep} us, {seconds} s"
        print(
            f"| {scheduler} | {load} | {their_time:.2f} s, {their_mb:.0f} MB | {our_time:.2f} s, {our_mb:.0f} MB "
            f"| {their_time / our_time:.1f} |",
            flush=True,
        )
END
