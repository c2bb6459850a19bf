#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# costs.sh MACHINE: measures costs that user space cannot measure, and adds them to a machine file. The
# guest must run in exact time (see boot.sh).
#
# `bpf_insn`, `callback`, and `[costs.kfuncs]`: the policy /objects/costs.bpf.o measures its own calls
# while two processes pass a byte back and forth.
#
# `schedule`, `schedule_idle`, `context_switch`, `switch_to_idle` and `switch_from_idle`:
# /objects/costs_idle.bpf.o measures schedule() with its tracepoint sched_switch. `machine calibrate`
# measures the sum of wakeup, schedule and context_switch, of which `wakeup` is the rest. The three
# programs that run in a switch read the clock once each. Half of a program's time belongs to the interval
# that ends there, half to the next; a ping-pong measures how long the three take.
#
# `idle_exit` and `ipi_latency`: QEMU continues a halted CPU at once, so a single CPU has no `idle_exit`.
# With several, `machine calibrate` assumes that the sender of a byte becomes idle while the receiver
# wakes up. Here the CPUs take turns, so a pass also contains a schedule() and the switch to the idle
# task, which are subtracted.
#
# `fork_start` and `thread_start`: tasks of `live run`, which the machine file is made for, need more CPU
# time until their first step than the bare processes and threads of `machine calibrate`. A process copies
# about 50 pages that it shares with its parent, for example. Measured with tasks that do next to nothing;
# the CPU time of a process contains its exit.
#
# Times include a part of bpf_ktime_get_ns(), which is measured with no call in between and subtracted.
# Calls that are not measured cost as much as scx_bpf_task_cpu() (`kfunc`), because most of them also
# just return a value.
machine=$1
run() {
  windtunnel live load "/objects/$1.bpf.o" --quiet >/tmp/costs 2>/tmp/err &
  loader=$!
  while grep -q -v ') Z' /proc/$loader/stat 2>/dev/null && ! grep -q 'loaded in' /tmp/costs; do usleep 20000; done
  $before windtunnel live run lat_ctx:processes=2,rounds=2000 2>/dev/null | sed -n 's/^  score  *\([0-9.]*\).*/\1/p'
  [ -z "$after" ] || $after >/dev/null 2>&1
  kill "$loader"
  wait "$loader"
  grep 'counted:' /tmp/costs >"/tmp/$1.counted"
}
# Prints the score of the fastest of five runs. In one of a few boots, each pass of a run waited for a tick, or
# the passes took a few microseconds longer.
fastest() { for _ in 1 2 3 4 5; do run "$1"; done | sort -n | head -1; }
# On a single CPU, where the turns of other CPUs do not lengthen the passes.
before="taskset 1" after=""
few=$(fastest costs)
many=$(fastest costs_empty)
# On all CPUs, so that tasks need scx_bpf_select_cpu_dfl().
before=""
run costs >/dev/null
tr ' ' '\n' </tmp/costs.counted | awk -F= -v few="$few" -v many="$many" '
  /^nr_ns_/ { ns[substr($1, 7)] = $2 }
  /^nr_calls_/ { calls[substr($1, 10)] = $2 }
  END {
    source = "source = \"measured in a policy, between two readings of the clock\""
    if (!calls["nothing"] || !few || many <= few) exit 1
    nothing = ns["nothing"] / calls["nothing"]
    printf "bpf_insn = { ps = %d, source = \"measured: a loop in BPF that searches an array, 320 instructions\" }\n",
      (ns["loop"] / calls["loop"] - nothing) * 1000 / (64 * 5)
    printf "callback = { ns = %d, source = \"measured: four empty callbacks, added to each pass of a ping-pong\" }\n",
      (many - few) * 1000 / 4
    for (name in ns) {
      if (name == "nothing" || name == "loop" || !calls[name]) continue
      cost = ns[name] / calls[name] - nothing
      cost = cost < 1 ? 1 : int(cost + 0.5)
      kfuncs = kfuncs sprintf("%s = { ns = %d, %s }\n", name, cost, source)
      if (name == "scx_bpf_task_cpu") simple = cost
    }
    printf "kfunc = { ns = %d, source = \"measured: as scx_bpf_task_cpu, which only returns a value\" }\n", simple
    printf "\n[costs.kfuncs]\n%s", kfuncs
  }' >/tmp/costs.toml || { echo "FAILED costs"; cat /tmp/err; exit 1; }
# Replaces the constants in [costs] that were measured without BPF.
sed -i '/^bpf_insn = /d' "$machine"
awk '/^\[costs\]$/ { print; while ((getline line < "/tmp/costs.toml") > 0 && line != "") print line; next }
  /^\[costs.channel\]$/ { while ((getline line < "/tmp/costs.toml") > 0) print line; print "" }
  { print }' "$machine" >/tmp/machine.new && mv /tmp/machine.new "$machine"

before="taskset 1" after="windtunnel live run sleepers:n=1,run=10us,sleep=200us --for 300ms"
with=$(run costs_idle)
without=$($before windtunnel live run lat_ctx:processes=2,rounds=2000 2>/dev/null | sed -n 's/^  score  *\([0-9.]*\).*/\1/p')
# First input: the result of this measurement. Second input: the machine file.
tr ' ' '\n' </tmp/costs_idle.counted | awk -F= -v cpus="$(nproc)" -v with="$with" -v without="$without" '
  NR == FNR && /^nr_ns_/ { ns[substr($1, 7)] = $2 }
  NR == FNR && /^nr_calls_/ { calls[substr($1, 10)] = $2 }
  NR == FNR { next }
  function value(line) { sub(/.*(ns|llc) = /, "", line); return line + 0 }
  /^context_switch = / { sum += value($0); line[n + 1] = "here" }
  /^(schedule|wakeup) = / { sum += value($0); next }
  /^idle_exit = / { idle += value($0); next }
  /^ipi_latency = / { sub(/.*llc = /, ""); idle += $0; next }
  { lines[++n] = $0 }
  function whole(value) { return value < 1 ? 1 : int(value + 0.5) }
  function put(name, cost, source) { printf "%s = { ns = %s, source = \"measured%s\" }\n", name, cost, source }
  END {
    for (name in ns) if (calls[name]) time[name] = ns[name] / calls[name]
    program = (with - without) * 1000 / 3
    if (!time["direct"] || !time["to_idle"] || !time["from_idle"] || !time["pick_idle"] || program <= 0) exit 1
    schedule = whole(time["pick"] - program)
    context_switch = whole(time["direct"] - 2 * program - schedule)
    to = whole(time["to_idle"] - 2 * program - schedule)
    schedule_idle = whole(time["pick_idle"] - program)
    from = whole(time["from_idle"] - 2 * program - schedule_idle)
    # schedule() and the switch to idle of one CPU, and those from idle of the other CPU, replace one
    # schedule() and one switch.
    wait = cpus > 1 ? (idle + context_switch - to - schedule_idle - from) / 2 : 0
    wait = wait < 0 ? 0 : int(wait + 0.5)
    for (i = 1; i <= n; i++) {
      if (line[i] != "here") { print lines[i]; continue }
      put("context_switch", context_switch, " by BPF programs: from the tracepoint sched_switch to the end of schedule()")
      put("switch_to_idle", to, " by BPF programs: from the entry of schedule() until the CPU is idle, minus schedule")
      put("switch_from_idle", from, " by BPF programs: from the tracepoint sched_switch to the end of schedule()")
      put("schedule", schedule, " by BPF programs: from the entry of schedule() to the tracepoint sched_switch")
      put("schedule_idle", schedule_idle, " by BPF programs: from the end of the idle state to the tracepoint sched_switch")
      put("wakeup", whole(sum - schedule - context_switch), \
        ": a byte passed between two processes on one CPU, minus the cost of the pipe, schedule and context_switch")
      source = ": half of the extra time of passing a byte between idle CPUs, without the switches"
      put("idle_exit", wait, cpus > 1 ? source : ": QEMU continues a halted CPU at once")
      if (cpus > 1) put("ipi_latency", sprintf("{ same = 0, core = %d, llc = %d, node = %d, remote = %d }", wait, wait, wait, wait), source)
    }
  }' - "$machine" >/tmp/machine.new && mv /tmp/machine.new "$machine" || { echo "FAILED costs of switches"; cat /tmp/err; exit 1; }

# Prints the least CPU time in ns of the tasks with a name in a workload that is executed on one CPU.
cpu_time() {
  taskset 1 windtunnel live run "$1" --json /tmp/tasks.json >/dev/null 2>/tmp/err
  awk -v name="\"$2\"," '$1 == "\"comm\":" { found = $2 == name } $1 == "\"cpu_ns\":" && found { print $2 + 0; found = 0 }' \
    /tmp/tasks.json | sort -n | head -1
}
thread=$(cpu_time start.json child)
process=$(cpu_time hackbench:groups=1,fds=1,loops=1 sender)
awk -v thread="$thread" -v process="$process" '
  /^exit = / { exits = $0; sub(/.*ns = /, "", exits) }
  { lines[++n] = $0 }
  END {
    if (!thread || !process) exit 1
    start["thread_start"] = thread; of["thread_start"] = "thread"
    start["fork_start"] = process - exits; of["fork_start"] = "process, minus exit"
    for (i = 1; i <= n; i++) {
      name = lines[i]; sub(/ = .*/, "", name)
      if (name in start && start[name] > 0)
        printf "%s = { ns = %d, source = \"measured: CPU time of a task of live run that does nothing, in a %s\" }\n", name, start[name], of[name]
      else print lines[i]
    }
  }' "$machine" >/tmp/machine.new && mv /tmp/machine.new "$machine" || { echo "FAILED costs of starts"; cat /tmp/err; exit 1; }
