#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# live-test.sh: boots a real sched_ext kernel in QEMU, without KVM, and loads every policy into it. Nothing touches the
# kernel of this machine. Words for the guest: WORDS="only=steal,rr seconds=3" scripts/live-test.sh
set -u
cd "$(dirname "$0")/.."
dir=target/live
mkdir -p $dir
# One at a time: they share the folder.
exec 9>$dir/lock
flock 9

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

[ "$(uname -m)" = x86_64 ] || skip "the guest is x86-64; this machine is $(uname -m)"
command -v apt-get >/dev/null || skip "the kernel and QEMU come through apt; there is none here"
step "set-up" scripts/setup.sh live || skip "QEMU's packages cannot be installed"
step "build" cargo build --release --quiet -p windtunnel -p live || exit 1
scripts/policies.sh || exit 1
step "kernel and QEMU" scripts/live/fetch.sh $dir 2>$dir/fetch.log
case $? in
  0) ;;
  3) skip "$(tail -1 $dir/fetch.log)" ;;
  *) cat $dir/fetch.log >&2; exit 1 ;;
esac
step "initramfs" scripts/live/initramfs.sh $dir/initramfs.cpio || exit 1
step "guest" scripts/live/boot.sh $dir $dir/initramfs.cpio
status=$?
if [ $status -ne 0 ]; then
  echo "live-test FAILED (status $status; the guest's console: $dir/console.log)" >&2
  exit 1
fi
echo "live-test passed"
