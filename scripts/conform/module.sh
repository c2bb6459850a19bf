#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# module.sh DIR: builds the kernel module for the kernel in DIR: DIR/step.ko
set -eu
cd "$(dirname "$0")/../.."
dir=$(cd "$1" && pwd)
scripts/conform/headers.sh "$dir"
release=$(sed 's/^linux-binary-//' "$dir/kernel")
build=$dir/module
mkdir -p "$build"
[ -f "$build/vmlinux.h" ] || PATH=$PATH:/usr/sbin bpftool btf dump file "$dir/vmlinux" format c >"$build/vmlinux.h.new"
[ ! -f "$build/vmlinux.h.new" ] || mv "$build/vmlinux.h.new" "$build/vmlinux.h"
cp -u scripts/conform/module/* "$build/"
headers=$dir/headers/usr/src/linux-headers-$release
make -s -C "$headers" M="$build" CC="$dir/headers/gcc" CROSS_COMPILE= PAHOLE=true CONFIG_DEBUG_INFO_BTF_MODULES= modules
cp "$build/step.ko" "$dir/step.ko"
