#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# conform.sh [OPTION...] SCRIPT...: executes scripts (docs/scripts.md) in a real kernel in QEMU. The
# options are those of conform/oracle.py.
# conform.sh compare [OPTION...]: compares the simulator with the kernel, see conform/compare.py.
#
# The kernel and QEMU are fetched (see live/fetch.sh), and the module and the guest are built if
# anything has changed. BUILD selects the build of windtunnel-live (see build.sh).
set -eu
cd "$(dirname "$0")/.."
dir=target/live
. scripts/build/build.sh
mkdir -p $dir
prepare() {
  scripts/setup.sh live
  build_commands
  scripts/build/policies.sh
  [ -f $dir/vmlinux ] || scripts/live/fetch.sh $dir
  scripts/conform/guest.sh $dir
}
(
  flock 9
  prepare >&2
) 9>$dir/conform.lock
if [ "${1-}" = compare ]; then
  shift
  # The comparison ends with its parent process, and its guest with it.
  exec setpriv --pdeathsig TERM scripts/conform/compare.py --dir $dir --command "$build/windtunnel" "$@"
fi
exec scripts/conform/oracle.py --dir $dir "$@"
