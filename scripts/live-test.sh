#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# live-test.sh [PART...]: boots a real sched_ext kernel in QEMU, without KVM, and runs tests in it.
# The host's kernel is not touched. The default parts are:
#
#   policies   4 CPUs: every policy under the mixed load; commands, profiles, workloads, refusals, recordings
#   numa       4 CPUs on 2 nodes: every policy again
#   speed      messages and a ping-pong under several schedulers, in exact time
#
# Other parts run only when they are named:
#
#   fidelity   compares simulated and live results in exact time; writes docs/fidelity.md
#   soak       every policy under a long mixed load on a slow machine, with a table at the end (`make soak`)
#   verifier   loads every program of the sanitizer's tests; writes crates/kernel/tests/verdicts.tsv
#
# Environment variables: DOCS=1 makes `speed` write docs/live-speed.md. POLICIES="steal rr" selects
# policies. SECONDS_EACH=60 sets the length of each load. LONG=steal:300 makes `numa` load one
# policy for longer. A load of 6 s lasts until CPU 3 has been offline once.
set -u
cd "$(dirname "$0")/.."
dir=target/live
initramfs=$dir/initramfs.cpio
simple=target/compat/objects/kernel/scx_simple.bpf.o
mkdir -p $dir
# Only one instance may run at a time because all share the directory.
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

parts=("$@")
[ $# -gt 0 ] || parts=(policies numa speed)
only=${POLICIES:-}
only=${only// /,}

[ "$(uname -m)" = x86_64 ] || skip "the guest is x86-64; this machine is $(uname -m)"
command -v apt-get >/dev/null || skip "the kernel and QEMU are installed with apt, which is missing here"
step "set-up" scripts/setup.sh live || skip "QEMU's packages cannot be installed"
step "build" cargo build --release --quiet -p windtunnel -p live || exit 1
scripts/policies.sh || exit 1
step "kernel and QEMU" scripts/live/fetch.sh $dir 2>$dir/fetch.log
case $? in
  0) ;;
  3) skip "$(tail -1 $dir/fetch.log)" ;;
  *) cat $dir/fetch.log >&2; exit 1 ;;
esac
# scx_simple, the kernel's example, is the baseline of `speed`. It is compiled from Debian's source,
# as by make compat.
[ -f $simple ] || step "scx_simple" sh -c 'scripts/compat/sources.sh target/compat && scripts/compat/objects.sh target/compat' \
  >$dir/compat.log 2>&1 || echo "live-test: scx_simple is missing, so there is no baseline ($dir/compat.log)"
step "initramfs" scripts/live/initramfs.sh $initramfs || exit 1

for part in "${parts[@]}"; do
  case $part in
    policies)
      WORDS="parts=recording,tuning,prepared,workloads,refusals,policies only=$only seconds=${SECONDS_EACH:-6}" \
        part policies scripts/live/boot.sh $dir $initramfs policies ;;
    numa)
      NODES=2 WORDS="parts=policies plain=1 only=$only seconds=${SECONDS_EACH:-6} long=${LONG:-}" \
        part numa scripts/live/boot.sh $dir $initramfs numa ;;
    speed)
      CLOCK=exact WORDS="parts=speed only=$only" part speed scripts/live/boot.sh $dir $initramfs speed
      scripts/live/speed.awk $dir/speed.log || failed+=("speed: slower than allowed")
      # The document is written only on request, because another QEMU or kernel gives other figures.
      [ -z "${DOCS:-}" ] || scripts/live/speed.awk -v markdown=1 $dir/speed.log | scripts/live/insert.sh docs/live-speed.md table ;;
    fidelity)
      for cpus in 1 4; do
        CPUS=$cpus CLOCK=exact WORDS="parts=fidelity only=$only" part "fidelity, $cpus CPUs" \
          scripts/live/boot.sh $dir $initramfs fidelity$cpus >/dev/null
      done
      scripts/live/fidelity.sh $dir docs/fidelity.md ;;
    soak)
      CLOCK=slow LIMIT=${LIMIT:-36000} WORDS="parts=policies soak=1 only=$only seconds=${SECONDS_EACH:-120}" \
        part soak scripts/live/boot.sh $dir $initramfs soak
      scripts/live/soak.awk $dir/soak.log || failed+=("soak: a policy did not survive") ;;
    verifier) part verifier scripts/live/verdicts.sh $dir crates/kernel/tests/verdicts.tsv ;;
    *) echo "live-test: there is no part '$part'" >&2; exit 2 ;;
  esac
done
# Checks that every counter moved in at least one load of the two guests.
if [ -z "$only" ] && [[ " ${parts[*]} " = *" policies "* && " ${parts[*]} " = *" numa "* ]]; then
  scripts/live/mechanisms.py >$dir/mechanisms
  scripts/live/counters.awk $dir/mechanisms $dir/policies.log $dir/numa.log || failed+=("counters")
fi
echo "live-test: total: $(($(date +%s) - begun)) s"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'live-test FAILED: %s\n' "${failed[@]}" >&2
  echo "live-test: the guests' consoles: $dir/*.log" >&2
  exit 1
fi
echo "live-test passed"
