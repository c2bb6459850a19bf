#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# test.sh [PART...]: boots a real sched_ext kernel in QEMU, without KVM, and runs tests in it. Does
# not touch the host's kernel. The default parts are:
#
#   policies   4 CPUs: every policy under the mixed load, with each of its settings
#   numa       4 CPUs on 2 nodes: every policy again, with its default parameters
#   commands   4 CPUs: the commands of `windtunnel live`, profiles, workloads, refusals, recordings
#   speed      messages and a ping-pong under several schedulers, in exact time
#
# They run in two guests at a time, with loads of a fixed length, which a slow host does not prolong.
# Other parts run alone, and only when they are named:
#
#   fidelity   Executes workloads in exact time, on one and on four CPUs, and simulates them. Writes
#              docs/fidelity.md.
#   fidelity-host
#              Compares EEVDF on this host with its simulation, RUNS times (by default 5). Needs root.
#   programs   Executes real programs and the workloads that stand for them in exact time on one CPU, and
#              simulates these workloads. Writes docs/programs.md. SCHBENCH names an
#              executable file of schbench, which Debian does not have.
#   whole      Executes workloads under the programs of schedulers in the directory SCHEDULERS (scx_lavd,
#              scx_rusty, ...) in exact time, on 4 CPUs of two LLCs, and simulates them with
#              these programs. Writes docs/programs.md.
#   soak       Loads every policy for a long time while a mixed load runs, on a slow machine. Prints a
#              table at the end (`make soak`).
#   verifier   Loads every program of the sanitizer's tests. Writes crates/kernel/tests/verdicts.tsv.
#
# In exact time, each instruction of the guest takes 1 ns (see live/boot.sh).
#
# Environment variables:
#
#   DOCS=1                 makes `speed` measure all schedulers longer, with three seeds, and write docs/live-speed.md
#   POLICIES="steal rr"    selects policies
#   PROGRAMS="schbench"    selects programs by their names in live/guest/programs.txt
#   CPUS="1 4"             numbers of CPUs for `programs` and `whole`
#   SCHEDULERS=DIRECTORY   the programs of schedulers for `whole`; POLICIES selects some by name
#   KEEP=1                 keeps the recordings of programs and schedulers
#   SECONDS_EACH=60        loads each policy for so long; CPU 3 goes offline once in 6 s
#   LONG=steal:300         makes `numa` load one policy for longer
#   BUILD=dev              tests a different build (see build.sh)
set -u
cd "$(dirname "$0")/../.."
PROGRAMS=${PROGRAMS:-}
dir=target/live
initramfs=$dir/initramfs.cpio
simple=target/compat/objects/kernel/scx_simple.bpf.o
mkdir -p $dir
# All instances of this script use the same directory, so only one may run at a time.
exec 9>$dir/lock
flock 9
begun=$(date +%s)

skip() {
  echo "live-test SKIPPED: $*"
  exit 0
}
step() {
  local name=$1 start status
  shift
  start=$(date +%s.%N)
  "$@"
  status=$?
  printf 'live-test: %s: %.1f s\n' "$name" "$(echo "$(date +%s.%N) $start" | awk '{ print $1 - $2 }')"
  return $status
}
failed=()
part() {
  local name=$1
  shift
  step "$name" "$@" || failed+=("$name")
}

# [VARIABLE=VALUE...] guest NAME: starts a guest in the background as soon as fewer than two guests
# run. The variables are those of boot.sh. When the guest ends, its console is printed.
guest() {
  local name=$1 out=$dir/$1.out
  while [ "$(jobs -pr | wc -l)" -ge 2 ]; do wait -n; done
  # With job control, a guest is a process group, which the trap below can end.
  set -m
  {
    step "$name" scripts/live/boot.sh $dir $initramfs "$name" >"$out" 2>&1 || echo "$name" >>$dir/failed
    cat "$out"
  } &
  set +m
}
wait_for_guests() {
  wait
  mapfile -t -O ${#failed[@]} failed <$dir/failed
  : >$dir/failed
}
: >$dir/failed
trap 'for group in $(jobs -p); do kill -- -"$group"; done 2>/dev/null' EXIT
trap 'exit 130' INT TERM

parts=("$@")
# `commands` takes longest, so its guest starts first.
[ $# -gt 0 ] || parts=(commands policies numa speed)
only=${POLICIES:-}
only=${only// /,}

[ "$(uname -m)" = x86_64 ] || skip "the guest is x86-64; this machine is $(uname -m)"
command -v apt-get >/dev/null || skip "the kernel and QEMU are installed with apt, which is missing here"
step "set-up" scripts/setup.sh live || skip "QEMU's packages cannot be installed"
. scripts/build/build.sh
step "build" build_commands || exit 1
scripts/build/policies.sh || exit 1
step "kernel and QEMU" scripts/live/fetch.sh $dir 2>$dir/fetch.log
case $? in
  0) ;;
  3) skip "$(tail -1 $dir/fetch.log)" ;;
  *) cat $dir/fetch.log >&2; exit 1 ;;
esac
# `speed` compares policies with the kernel's example scx_simple, compiled from Debian's source package
# as in `make compat`.
[ -f $simple ] || step "scx_simple" sh -c 'scripts/compat/sources.sh target/compat && scripts/compat/objects.sh target/compat' \
  >$dir/compat.log 2>&1 || echo "live-test: scx_simple is missing, so there is no baseline ($dir/compat.log)"
step "initramfs" scripts/live/initramfs.sh $initramfs || exit 1

for part in "${parts[@]}"; do
  case $part in
    policies)
      WORDS="parts=policies only=$only seconds=${SECONDS_EACH:-6}" guest policies ;;
    numa)
      NODES=2 WORDS="parts=policies plain=1 only=$only seconds=${SECONDS_EACH:-6} long=${LONG:-}" guest numa ;;
    commands)
      WORDS="parts=recording,tuning,prepared,workloads,refusals" guest commands ;;
    speed)
      # Both guests begin with scx_simple, with which each compares its policies.
      brief=brief=1
      [ -z "${DOCS:-}" ] || brief=
      # Other programs may take most of the CPU time, because the guests are nice.
      CLOCK=exact LIMIT=2400 WORDS="parts=speed $brief half=1 only=$only" guest speed1
      [ -n "$only" ] || CLOCK=exact LIMIT=2400 WORDS="parts=speed $brief half=2" guest speed2 ;;
    fidelity)
      wait_for_guests
      names=(${only//,/ })
      [ -n "$only" ] || { names=(policies/*.bpf.c); names=("${names[@]##*/}"); names=(eevdf "${names[@]%.bpf.c}"); }
      # Each of the two guests that run at once executes half of the policies.
      half=$(((${#names[@]} + 1) / 2))
      guests=()
      for cpus in 1 4; do
        for from in 0 $half; do
          of=("${names[@]:$from:$half}")
          [ ${#of[@]} -gt 0 ] || continue
          name=fidelity$cpus-$from
          guests+=("$cpus CPU=$cpus=$dir/$name")
          CPUS=$cpus CLOCK=exact TURN=12 LIMIT=7200 WORDS="parts=fidelity only=$(IFS=,; echo "${of[*]}")" guest "$name"
        done
      done
      wait_for_guests
      for guest in "${guests[@]}"; do
        folder=${guest##*=}
        rm -rf "$folder"
        mkdir "$folder"
        tar -C "$folder" -xzf "$folder.data" || failed+=("$folder.data")
      done
      # POLICIES measures only a part of the tables, so it does not write the document.
      document=(--document docs/fidelity.md --data crates/lab/src/model_error.csv)
      [ -z "$only" ] || document=()
      export WINDTUNNEL_LIVE=$build/windtunnel-live
      part "fidelity, simulations" scripts/live/fidelity.py "${document[@]}" --rows $dir/fidelity.tsv "${guests[@]}" ;;
    programs)
      wait_for_guests
      scripts/setup.sh programs || exit 1
      programs=()
      for program in hackbench cyclictest stress-ng perf; do programs+=("$(command -v $program)"); done
      [ -z "${SCHBENCH:-}" ] || programs+=("$SCHBENCH")
      scripts/live/initramfs.sh $dir/programs.cpio "${programs[@]}" || exit 1
      guests=()
      for cpus in ${CPUS:-1}; do
        name=programs$cpus
        guests+=("$cpus=$dir/$name")
        initramfs=$dir/programs.cpio CPUS=$cpus CLOCK=exact TURN=12 LIMIT=3600 \
          WORDS="parts=programs only=${PROGRAMS// /,} keep=${KEEP:-}" guest $name
      done
      wait_for_guests
      for guest in "${guests[@]}"; do
        folder=${guest##*=}
        rm -rf "$folder"
        mkdir "$folder"
        tar -C "$folder" -xzf "$folder.data" || failed+=("$folder.data")
      done
      export WINDTUNNEL_LIVE=$build/windtunnel-live
      document=(--document docs/programs.md)
      [ -z "$PROGRAMS" ] || document=()
      part "programs, simulations" scripts/live/programs.py "${document[@]}" "${guests[@]}" ;;
    whole)
      wait_for_guests
      [ -d "${SCHEDULERS:-}" ] || { echo "live-test: whole needs SCHEDULERS, a directory with programs of schedulers" >&2; exit 2; }
      scripts/live/initramfs.sh $dir/whole.cpio "$SCHEDULERS"/scx_* || exit 1
      guests=()
      for cpus in ${CPUS:-4}; do
        name=whole$cpus
        guests+=("$cpus=$dir/$name")
        initramfs=$dir/whole.cpio CPUS=$cpus LLCS=2 CLOCK=exact TURN=12 LIMIT=7200 \
          WORDS="parts=whole only=$only keep=${KEEP:-}" guest $name
      done
      wait_for_guests
      for guest in "${guests[@]}"; do
        folder=${guest##*=}
        rm -rf "$folder"
        mkdir "$folder"
        tar -C "$folder" --ignore-zeros -xzf "$folder.data" || failed+=("$folder.data")
      done
      export WINDTUNNEL_LIVE=$build/windtunnel-live
      document=(--document docs/programs.md)
      [ -z "$only" ] || document=()
      part "whole, simulations" scripts/live/schedulers.py "${document[@]}" --programs "$SCHEDULERS" "${guests[@]}" ;;
    fidelity-host)
      wait_for_guests
      export WINDTUNNEL_LIVE=$build/windtunnel-live
      part fidelity-host scripts/live/fidelity-host.sh $dir "${RUNS:-5}" ;;
    soak)
      wait_for_guests
      CLOCK=slow LIMIT=${LIMIT:-36000} WORDS="parts=policies soak=1 only=$only seconds=${SECONDS_EACH:-120}" \
        part soak scripts/live/boot.sh $dir $initramfs soak
      scripts/live/soak.awk $dir/soak.log || failed+=("soak: a policy did not survive") ;;
    verifier)
      wait_for_guests
      part verifier scripts/live/verdicts.sh $dir crates/kernel/tests/verdicts.tsv ;;
    *) echo "live-test: there is no part '$part'" >&2; exit 2 ;;
  esac
done
wait_for_guests
if [[ " ${parts[*]} " = *" speed "* ]]; then
  speed=($dir/speed1.log)
  [ -n "$only" ] || speed+=($dir/speed2.log)
  scripts/live/speed.awk "${speed[@]}" || failed+=("speed: slower than allowed")
  # Only on request, because a different QEMU or kernel would change the figures of the document.
  [ -z "${DOCS:-}" ] || scripts/live/speed.awk -v markdown=1 "${speed[@]}" | scripts/live/insert.sh docs/live-speed.md table
fi
# Checks that every counter increased in at least one load of the two guests.
if [ -z "$only" ] && [[ " ${parts[*]} " = *" policies "* && " ${parts[*]} " = *" numa "* ]]; then
  scripts/live/mechanisms.py >$dir/mechanisms
  scripts/live/counters.awk $dir/mechanisms $dir/policies.log $dir/numa.log || failed+=("counters")
fi
echo "live-test: total: $(($(date +%s) - begun)) s"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'live-test FAILED: %s\n' "${failed[@]}" >&2
  echo "live-test: the guests' consoles: $dir/*.log; to repeat it: make live-test PARTS='${parts[*]}'" >&2
  echo "live-test: for one policy only, add POLICIES=NAME" >&2
  exit 1
fi
echo "live-test passed"
