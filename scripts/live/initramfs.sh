#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# initramfs.sh OUT [PROGRAM...]: packs the file system of the guest. It contains busybox, windtunnel and
# its libraries, policies, workloads, the test, the given executable files, and the kernel's
# configuration, if it is in the directory of OUT.
set -eu
cd "$(dirname "$0")/../.."
out=$(realpath -m "$1")
shift
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
mkdir -p "$root"/{bin,dev,etc,proc,sys,tmp,run,policies,objects}
cp scripts/live/guest/init "$root/init"
[ ! -f "$(dirname "$out")/config" ] || cp "$(dirname "$out")/config" "$root/config"
cp scripts/live/guest/{test.sh,load.sh,speed.sh,costs.sh,fidelity.sh,fidelity.txt,programs.sh,programs.txt,whole.sh,whole.txt,schedulers.txt} "$root/"
scripts/live/mechanisms.py >"$root/mechanisms"
cp /bin/busybox "$root/bin/"
for applet in $(/bin/busybox --list); do [ "$applet" = busybox ] || ln -sf busybox "$root/bin/$applet"; done
. scripts/build/build.sh
for binary in "$build"/windtunnel "$build"/windtunnel-live "$(PATH=$PATH:/usr/sbin command -v bpftool)" "$@"; do
  rm -f "$root/bin/$(basename "$binary")"
  strip -o "$root/bin/$(basename "$binary")" "$binary"
  # ldd prints lines like "libz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x...)". The line of the
  # dynamic loader has no arrow.
  for library in $(ldd "$binary" | grep -oE '/[^ ]+'); do
    mkdir -p "$root$(dirname "$library")"
    [ -f "$root$library" ] || cp -L "$library" "$root$library"
  done
done
cp target/policies/*.bpf.o "$root/policies/"
cp -r profiles workloads "$root/"
cp scripts/live/guest/{cyclictest,start}.json "$root/workloads/"
# The experiment that the guest executes.
mkdir -p "$root/experiments/smp"
cp -r experiments/smp/heavy "$root/experiments/smp/"
for source in scripts/live/objects/*.bpf.c; do
  clang-19 -g -O2 -mcpu=v3 -Ipolicies/include -target bpf -c "$source" -o "$root/objects/$(basename "$source" .c).o"
done
cp scripts/live/objects/*.toml "$root/profiles/"
# Third-party schedulers that need a user-space part, if `make compat` has compiled them.
for object in target/compat/objects/{kernel/scx_central,kernel/scx_flatcg,scx/scx_bpfland}.bpf.o; do
  [ ! -f $object ] || cp $object "$root/objects/"
done
# The kernel's example scx_simple for comparison, if `make compat` has compiled it.
simple=target/compat/objects/kernel/scx_simple.bpf.o
if [ -f $simple ]; then cp $simple "$root/objects/"; fi
(cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) >"$out.new"
mv "$out.new" "$out"
