#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# conform.sh [OPTION...] SCRIPT...: executes scripts (docs/scripts.md) in a real kernel in QEMU. The
# options are those of conform/oracle.py.
#
# The kernel and QEMU are fetched (see live/fetch.sh), and the module and the guest are built if
# anything has changed. BUILD selects the build of windtunnel-live (see build.sh).
set -eu
cd "$(dirname "$0")/.."
dir=target/live
mkdir -p $dir
prepare() {
  scripts/setup.sh live
  . scripts/build.sh
  cargo build --profile "$BUILD" --quiet -p live
  scripts/policies.sh
  [ -f $dir/vmlinux ] || scripts/live/fetch.sh $dir
  scripts/conform/guest.sh $dir
}
(
  flock 9
  prepare >&2
) 9>$dir/conform.lock
exec scripts/conform/oracle.py --dir $dir "$@"
