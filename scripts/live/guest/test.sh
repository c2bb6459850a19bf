#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# test.sh: the tests that run in the guest. Their options are on the kernel's command line:
#   parts=PART,...    parts to run
#   only=NAME,...     policies to load, or programs or schedulers to execute, by default all
#   seconds=N         for how long each policy is loaded
#   long=POLICY:N     for how long this policy is loaded
#   plain=1           loads policies only with their default parameters
#   soak=1            prints a table row for each policy, and does not require its counters to move
#   brief=1           makes `speed` measure with fewer rounds of the ping-pong, and the schedulers
#                     without a limit with fewer messages and one seed
#   keep=1            keeps the recordings of programs and schedulers
#   half=1 or half=2  runs half of the schedulers that `speed` compares; both halves begin with scx_simple
word() { sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" /proc/cmdline; }
parts=$(word parts)
only=$(word only)
seconds=$(word seconds)
seconds=${seconds:-6}
long=$(word long)
plain=$(word plain)
soak=$(word soak)
failed=0
fail() { echo "FAILED $*"; failed=1; }
now() { cut -d' ' -f1 /proc/uptime; }
live() { windtunnel live "$@"; }
wanted() { case ",$only," in ,, | *",$1,"*) true ;; *) false ;; esac; }
part() { case ",$parts," in *",$1,"*) true ;; *) false ;; esac; }
hotplug_seq() { cat /sys/kernel/sched_ext/hotplug_seq; }
# Processes that have ended are still in the process table until somebody waits for them.
alive() { grep -q -v ') Z' /proc/"$1"/stat 2>/dev/null; }
# Starts a load in the background, with output in /tmp/out and /tmp/err, and waits until it is complete.
load() {
  windtunnel live load "$@" >/tmp/out 2>/tmp/err &
  loader=$!
  while alive $loader && ! grep -q 'loaded in' /tmp/out; do usleep 50000; done
}
# expect STATUS TEXT COMMAND...: runs the command. Checks the exit status, and that the output contains
# TEXT.
expect() {
  want=$1 text=$2
  shift 2
  "$@" >/tmp/said 2>&1
  got=$?
  [ $got = "$want" ] || fail "$*: expected exit status $want, found $got"
  grep -q "$text" /tmp/said || { fail "$*: expected '$text' in the output, found:"; cat /tmp/said; }
}

# policy "NAME [SETTING...]" "COUNTER...": loads a policy under the mixed load. It must stay loaded until
# the end, and increase each of the counters.
policy() {
  begun=$(now)
  hotplugs=$(hotplug_seq)
  name=${1%% *}
  set=""
  for setting in ${1#"$name"}; do set="$set --set $setting"; done
  load "$name" $set --quiet --for "$((seconds + 1))s"
  : >/tmp/offline
  alive $loader && sh /load.sh "$seconds" >/dev/null 2>&1
  # The policy is unloaded while a CPU is offline.
  echo 0 >/sys/devices/system/cpu/cpu3/online
  wait $loader
  status=$?
  echo 1 >/sys/devices/system/cpu/cpu3/online
  slowest=$(sort -n /tmp/offline | tail -1)
  # Taking the CPU offline takes longer than 25 s only if the policy starves the CPU's kernel threads (or
  # the watchdog ends it after 30 s). It took 2 s on a quiet host, but a busy one slows the guest down: 18 s
  # with four times as many busy tasks as CPUs. The soak, a long test whose time does not depend on the
  # host, has a strict limit (soak.awk).
  [ -n "$soak" ] || echo "${slowest:-0}" | awk '{ exit ($1 > 25) }' || fail "$1: CPU 3 went offline in $slowest s"
  if [ $status != 0 ]; then
    fail "$1: exit status $status"
    head -20 /tmp/out /tmp/err
  fi
  # Adds the counts of all loads, because counters restart from 0 when the policy is loaded again.
  zero=""
  for counter in $2; do
    sum=$(grep -o "\b$counter=[0-9]*" /tmp/out | cut -d= -f2 | awk '{ s += $1 } END { print s + 0 }')
    [ "$sum" -gt 0 ] || zero="$zero $counter"
  done
  held=$(sed -n 's/.* \(unloaded\|online or offline\|by the kernel\) after \([0-9.]*\) s.*/\2/p' /tmp/out /tmp/err | awk '{ s += $1 } END { print s + 0 }')
  loads=$(grep -c 'loaded in' /tmp/out)
  [ "$loads" = 1 ] || fail "$1: loaded $loads times"
  echo "policy $1: status $status, scheduled $held s while CPUs went offline or online $(($(hotplug_seq) - hotplugs)) times, loaded in $(sed -n 's/.*loaded in \([0-9.]* s\).*, \([0-9]*\) instr.* \([0-9]*\) of them for \(.*\)/\1 (\2 instructions verified, \3 for \4)/p' /tmp/out), $(echo "$(now) $begun" | awk '{ printf "%.1f", $1 - $2 }') s"
  sed -n 's/^.*counted:/   /p' /tmp/out | sed 's/ SCX_EV_[A-Z_]*=[0-9]*//g' | grep -v '^ *$'
  # Prints a row of the table that scripts/live/soak.awk formats.
  [ -z "$soak" ] || {
    why=""
    [ $status = 0 ] || why=$(sed -n '/[^ ]/s/^ *//p' /tmp/err | tail -1)
    echo "soak|$1|$status|$held|$(wc -l </tmp/offline)|${slowest:-0}|$loads|$why"
    return
  }
  [ -z "$zero" ] && return
  # On a slow emulated machine, the load may be too short for some counters.
  [ "$seconds" = "$longer" ] && { fail "$1: counters at 0:$zero"; return; }
  echo "   repeating with a longer load; counters at 0:$zero"
  (seconds=$longer; failed=0; policy "$1" "$2"; exit $failed) || failed=1
}
longer=$((seconds * 3))

policies() {
  [ -z "$soak" ] || {
    begun=$(now)
    sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done'
    echo "guest: 20000 turns of a shell loop take $(echo "$(now) $begun" | awk '{ printf "%.2f", $1 - $2 }') s"
  }
  for object in /policies/*.bpf.o; do
    name=$(basename "$object" .bpf.o)
    grep -q "^$name[ :]" /mechanisms || fail "policies/policies.toml has no record of $name"
  done
  grep -v '^[#!]' /mechanisms >/tmp/mechanisms
  while IFS=: read -r spec counters <&3; do
    wanted "${spec%% *}" || continue
    [ -n "$plain" ] && [ "$spec" != "${spec%% *}" ] && continue
    # long= applies to the default parameters only.
    [ "$spec" = "${long%:*}" ] && { (seconds=${long#*:}; longer=$seconds; failed=0; policy "$spec" "$counters"; exit $failed) || failed=1; continue; }
    policy "$spec" "$counters"
  done 3</tmp/mechanisms
}

# Tests the commands set, status and unload on a running policy.
tuning() {
  expect 2 'no policy is loaded' live set slice_ns=1
  load fifo --set slice_ns=3000000
  expect 0 'scheduler: fifo' live status
  expect 2 "another scheduler 'fifo' is loaded" live load vtime
  expect 2 'fixed when the policy is loaded' live set slice_ns=1000000
  expect 0 'fifo: unloaded' live unload
  wait $loader || fail "fifo: exit status $?"
  expect 0 'sched_ext: disabled' live status
  load steal
  expect 0 'migration_cost_ns 500000 -> 70000' live set migration_cost_ns=70000
  expect 0 'migration_cost_ns = 70000' live status
  expect 2 'out of range' live set idle_balance=7
  expect 2 'did you mean' live set idle_balanc=1
  sleep 2
  grep -q 'enabled .* switches/s' /tmp/out || fail "steal: no statistics line each second"
  kill -INT $loader
  wait $loader || fail "steal: exit status $?"
  grep -q 'steal: unloaded after' /tmp/out || fail "steal: the message about unloading is missing"
  expect 0 'simulated[ |]*live[ |]*error' live compare fifo hackbench:groups=1,fds=5,loops=20
  expect 0 'sched_ext: disabled' live status
  echo "tuning: done"
}

# Tests policies that must be refused, and the messages when the kernel rejects or ejects one.
refusals() {
  expect 1 "rejected.bpf.c:19: \*count += 1;" live load /objects/rejected.bpf.o --for 3s
  expect 1 "rejected is rejected by the verifier: R[0-9] invalid mem access 'map_value_or_null'" live load /objects/rejected.bpf.o --for 3s
  expect 2 'no privilege' su nobody -s /bin/sh -c 'windtunnel live load fifo'
  load /objects/stalling.bpf.o
  printf '#!/bin/sh\nwhile :; do usleep 1000; done\n' >/tmp/victim
  chmod +x /tmp/victim
  /tmp/victim &
  victim=$!
  expect 0 'forget 0 -> 1' live set forget=1
  wait $loader
  status=$?
  [ $status = 1 ] || fail "stalling: exit status $status"
  grep -q 'runnable task stall' /tmp/err || { fail "stalling: no exit record"; cat /tmp/err; }
  kill -9 $victim
  echo "refusals: done"
}

# Tests profiles, which set callback flags and sizes and run programs of type syscall.
prepared() {
  # scx's headers read the kernel's configuration, which is hidden at first.
  [ ! -f /config ] || mv /config /hidden
  [ ! -f /objects/scx_bpfland.bpf.o ] || expect 1 'no configuration of this kernel' live load /objects/scx_bpfland.bpf.o --for 1s
  mkdir -p /boot && echo CONFIG_PREEMPT_RCU=y >"/boot/config-$(uname -r)"
  cp /objects/prepared.bpf.o /tmp/unprepared.bpf.o
  expect 1 'unprepared was not enabled' live load /tmp/unprepared.bpf.o --for 1s
  for object in /objects/prepared.bpf.o /objects/scx_*.bpf.o; do
    [ -f "$object" ] || continue
    load "$object" --quiet --for 3s
    windtunnel live run hackbench:groups=1,fds=5,loops=20 --for 1s >/dev/null 2>&1
    wait $loader || { fail "$object: exit status $?"; head -20 /tmp/out /tmp/err; }
    echo "prepared: $(basename "$object"): $(sed -n 's/^.*counted: *//p' /tmp/out | sed 's/ *SCX_EV_[A-Z_]*=[0-9]*//g')"
    case $object in
      */prepared.bpf.o) grep -q "nr_last=[1-9].* nr_prepared=$(nproc)" /tmp/out || fail "prepared: a step of the profile is missing" ;;
    esac
  done
}

# Tests workloads with cgroups and exec, and `live study`, under the default scheduler and a policy.
workloads() {
  group='"loop": 20, "run": 1000, "sleep": 1000'
  printf '{ "tasks": { "a": { "taskgroup": "/a", %s }, "b": { "taskgroup": "/a/b", %s } } }' "$group" "$group" >/tmp/groups.json
  for name in default steal; do
    loader=""
    [ $name = default ] || load $name --quiet
    expect 0 "groups under $name" live run /tmp/groups.json
    ! grep -q 'cgroup' /tmp/said || { fail "cgroups under $name:"; cat /tmp/said; }
    expect 0 "wake-up latency" live run hackbench:groups=1,fds=5,loops=20
    expect 0 "10 in all" live run lat_proc:operation=exec,n=10
    ! grep -q 'refused' /tmp/said || { fail "exec under $name:"; cat /tmp/said; }
    windtunnel live study smp/heavy --with seconds=8 --with settled_s=6 --with warmup_s=1 2>&1 | grep -E 'scheduler|load_|balanced|mean'
    [ -z "$loader" ] || { kill $loader; wait $loader || fail "$name: exit status $?"; }
  done
  echo "workloads: done"
}

# Records a trace, replays it in the simulator, and checks that the recording leaves nothing behind in
# tracefs.
recording() {
  instances=/sys/kernel/tracing/instances
  clock=$(cat /sys/kernel/tracing/trace_clock)
  expect 0 'switches of .* tasks on 4 CPUs .* under default' live record -o /tmp/a.trace -- hackbench:groups=1,fds=5,loops=50
  expect 0 'eevdf: trace hash' windtunnel run eevdf --machine host --workload /tmp/a.trace
  expect 0 'receiver:' windtunnel report /tmp/a.trace --latency
  expect 0 'records, ' live record -o /tmp/b.trace --for 1s
  expect 1 'exit status: 3' live record -o /tmp/b.trace -- sh -c 'for i in 1 2 3 4; do /bin/true; done; exit 3'
  expect 0 'eevdf: trace hash' windtunnel run eevdf --machine host --workload /tmp/b.trace
  expect 2 'hint: run it as root' su nobody -s /bin/sh -c 'windtunnel live record -o /tmp/c.trace'
  load fifo --quiet
  expect 0 'under fifo' live record -o /tmp/d.trace --buffer 64 -- lat_ctx:processes=2,rounds=20000
  windtunnel live record -o /tmp/e.trace >/tmp/said 2>&1 &
  recorder=$!
  # On a busy host, the recorder needs some seconds to start.
  for i in $(seq 60); do [ -n "$(ls $instances)" ] && break; sleep 1; done
  sleep 5
  for i in 1 2 3 4 5 6 7 8; do /bin/true; done
  [ -n "$(ls $instances)" ] || fail "record: there is no tracefs instance"
  kill -INT $recorder
  wait $recorder || { fail "record: exit status $? after Ctrl-C"; cat /tmp/said; }
  kill -INT $loader
  wait $loader || fail "fifo: exit status $?"
  [ -z "$(ls $instances)" ] || fail "record: leaves $(ls $instances) in $instances"
  [ "$clock" = "$(cat /sys/kernel/tracing/trace_clock)" ] || fail "record: the trace clock has changed"
  echo "recording: done"
}

# Sends the directory /tmp/out to the host.
send() {
  # The second serial port is a file on the host, so no byte may change.
  stty -F /dev/ttyS1 raw -echo
  tar -C /tmp/out -c . | gzip >/dev/ttyS1
}

echo 'nobody:x:65534:65534::/:/bin/sh' >/etc/passwd
policies_of() { [ -n "$only" ] && echo "$only" | tr , ' ' || echo "$@"; }
part recording && recording
part tuning && tuning
part prepared && prepared
part workloads && workloads
part refusals && refusals
part policies && policies
if part speed; then
  simple=/objects/scx_simple.bpf.o
  length="3 20000 200"
  [ -z "$(word brief)" ] || length="3 5000 200"
  if [ "$(word half)" = 2 ]; then
    # speed.awk checks none of these.
    [ -z "$(word brief)" ] || length="1 5000 50"
    sh /speed.sh $length $simple fifo linux26 mqs p9 rr || failed=1
  else
    sh /speed.sh $length default $simple $(policies_of o1 pmqs steal torus percpu) || failed=1
  fi
fi
if part fidelity; then
  sh /fidelity.sh $(policies_of eevdf fifo) || failed=1
  send
fi
if part programs; then
  KEEP=$(word keep) ONLY=$only sh /programs.sh || failed=1
  send
fi
if part whole; then
  KEEP=$(word keep) ONLY=$only sh /whole.sh || failed=1
fi
exit $failed
