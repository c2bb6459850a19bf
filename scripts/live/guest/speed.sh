#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# speed.sh SEEDS ROUNDS LOOPS SCHEDULER...: measures hackbench, with LOOPS messages from each sender to
# each receiver, and a ping-pong of ROUNDS rounds through pipes under each scheduler. `default` is the
# kernel's own. Each figure is the median over SEEDS (an odd number). With CLOCK=exact (see ../boot.sh),
# which is required, the same boot always gives the same figures.
#
# Then runs the ping-pong again with the kernel's BPF statistics, and prints how often each callback was
# called and how long the calls took.
seeds=$1 rounds=$2 loops=$3
shift 3
fail() { echo "FAILED $*"; failed=1; }
failed=0
score() { windtunnel live run "$@" | sed -n 's/^  score  *\([0-9.]*\).*/\1/p'; }
median() { for seed in $(seq $seeds); do score "$1" --seed $seed; done | sort -n | sed -n $((seeds / 2 + 1))p; }
stop() { kill "$loader"; wait "$loader" || fail "$1: exit status $?"; }
start() {
  windtunnel live load "$1" --quiet >/tmp/out 2>/tmp/err &
  loader=$!
  while grep -q -v ') Z' /proc/$loader/stat 2>/dev/null && ! grep -q 'loaded in' /tmp/out; do usleep 50000; done
}
for scheduler; do
  case $scheduler in
    default) loader="" ;;
    /*) [ -f "$scheduler" ] || continue; start "$scheduler" ;;
    *) start "$scheduler" ;;
  esac
  name=$(basename "$scheduler" .bpf.o)
  echo "speed $name hackbench $(median hackbench:groups=1,loops=$loops) ping-pong $(median lat_ctx:processes=2,rounds=$rounds)"
  if [ -n "$loader" ]; then
    echo 1 >/proc/sys/kernel/bpf_stats_enabled
    score lat_ctx:processes=2,rounds=$rounds >/dev/null
    echo 0 >/proc/sys/kernel/bpf_stats_enabled
    bpftool prog show | awk -v name="$name" -v passes=$((2 * rounds)) '/ struct_ops / { for (i = 1; i < NF; i++) if ($i == "name") callback = $(i + 1)
      for (i = 1; i < NF; i++) { if ($i == "run_time_ns") time = $(i + 1); if ($i == "run_cnt") count = $(i + 1) } 
      if ($0 ~ /run_cnt/) printf "profile %s %s calls-per-pass %.2f ns %.0f\n", name, callback, count / passes, time / count }'
    stop "$name"
  fi
done
exit $failed
