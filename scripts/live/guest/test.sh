#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# test.sh: the guest's test. Words on the kernel's command line narrow it: only=PART-OR-POLICY,... and seconds=N of load each.
word() { sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" /proc/cmdline; }
only=$(word only)
seconds=$(word seconds)
seconds=${seconds:-6}
failed=0
fail() { echo "FAILED $*"; failed=1; }
now() { cut -d' ' -f1 /proc/uptime; }
live() { windtunnel live "$@"; }
wanted() { case ",$only," in ,, | *",$1,"*) true ;; *) false ;; esac; }
# A process that has ended stays in the table until it is waited for.
alive() { grep -q -v ') Z' /proc/"$1"/stat 2>/dev/null; }
# Loads a policy in the background and waits until it schedules; its words are in /tmp/out and /tmp/err.
load() {
  windtunnel live load "$@" >/tmp/out 2>/tmp/err &
  loader=$!
  while alive $loader && ! grep -q 'loaded in' /tmp/out; do usleep 50000; done
}
# expect STATUS TEXT COMMAND...: the command ends so and says so.
expect() {
  want=$1 text=$2
  shift 2
  "$@" >/tmp/said 2>&1
  got=$?
  [ $got = "$want" ] || fail "$*: exit status $got, not $want"
  grep -q "$text" /tmp/said || { fail "$*: does not say '$text':"; cat /tmp/said; }
}

# policy "NAME [SETTING...]" "COUNTER...": must be there at the end of the mixed load, and its mechanisms must have run.
policy() {
  begun=$(now)
  name=${1%% *}
  set=""
  for setting in ${1#"$name"}; do set="$set --set $setting"; done
  load "$name" $set --quiet --for "$((seconds + 1))s"
  alive $loader && sh /load.sh "$seconds" >/dev/null 2>&1
  wait $loader
  status=$?
  if [ $status != 0 ]; then
    fail "$1: exit status $status"
    head -20 /tmp/out /tmp/err
  fi
  # A policy that is loaded again counts from 0: what counts is the sum.
  zero=""
  for counter in $2; do
    sum=$(grep -o "\b$counter=[0-9]*" /tmp/out | cut -d= -f2 | awk '{ s += $1 } END { print s + 0 }')
    [ "$sum" -gt 0 ] || zero="$zero $counter"
  done
  echo "policy $1: status $status, $(grep -c 'loaded in' /tmp/out) loads, $(echo "$(now) $begun" | awk '{ printf "%.1f", $1 - $2 }') s"
  sed -n 's/^.*counted:/   /p' /tmp/out | sed 's/ SCX_EV_[A-Z_]*=[0-9]*//g' | grep -v '^ *$'
  [ -z "$zero" ] && return
  # An emulated machine that is slow may not have come to it.
  [ "$seconds" = "$longer" ] && { fail "$1: 0:$zero"; return; }
  echo "   once more, longer: 0:$zero"
  (seconds=$longer; failed=0; policy "$1" "$2"; exit $failed) || failed=1
}
longer=$((seconds * 3))

policies() {
  for object in /policies/*.bpf.o; do
    name=$(basename "$object" .bpf.o)
    grep -q "^$name[ :]" /mechanisms || fail "scripts/live/mechanisms has no line for $name"
  done
  grep -v '^#' /mechanisms >/tmp/mechanisms
  while IFS=: read -r spec counters <&3; do
    wanted "${spec%% *}" && policy "$spec" "$counters"
  done 3</tmp/mechanisms
}

# The command's other words, on a policy that runs.
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
  grep -q 'enabled .* switches/s' /tmp/out || fail "steal: no statistics each second"
  kill -INT $loader
  wait $loader || fail "steal: exit status $?"
  grep -q 'steal: unloaded after' /tmp/out || fail "steal: does not say that it was unloaded"
  expect 0 'simulated  *live  *error' live compare fifo hackbench:groups=1,fds=5,loops=20
  expect 0 'sched_ext: disabled' live status
  echo "tuning: done"
}

# What must be refused, and how the kernel's own judgements are told.
refusals() {
  expect 1 "rejected.bpf.c:19: \*count += 1;" live load /objects/rejected.bpf.o --for 3s
  expect 1 "rejected is rejected by the verifier: R[0-9] invalid mem access 'map_value_or_null'" live load /objects/rejected.bpf.o --for 3s
  echo 'nobody:x:65534:65534::/:/bin/sh' >/etc/passwd
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

# Schedulers side by side: messages and a pipe ping-pong under each.
speed() {
  score() { windtunnel live run "$@" | sed -n 's/^  score  *//p'; }
  for name in default /objects/scx_simple.bpf.o o1 pmqs steal torus percpu; do
    case $name in
      default) loader="" ;;
      /*) [ -f "$name" ] || continue; load "$name" --quiet ;;
      *) load "$name" --quiet ;;
    esac
    printf 'speed %-12s hackbench %-12s ping-pong %s\n' "$(basename "$name" .bpf.o)" "$(score hackbench:groups=1,loops=50)" \
      "$(score lat_ctx:processes=2,rounds=20000)"
    [ -n "$loader" ] && { kill $loader; wait $loader || fail "$name: exit status $?"; }
  done
}

wanted tuning && tuning
wanted speed && speed
wanted refusals && refusals
policies
exit $failed
