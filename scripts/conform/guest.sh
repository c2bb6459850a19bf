#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# guest.sh DIR: builds the module for the kernel in DIR, and packs the guest's file system:
# DIR/conform.cpio. The guest loads policies with the windtunnel-live of the build BUILD (build.sh).
set -eu
cd "$(dirname "$0")/../.."
dir=$1
scripts/conform/module.sh "$dir"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
mkdir -p "$root"/{bin,dev,proc,sys,tmp,run}
cp scripts/conform/guest/init "$root/init"
cp "$dir/step.ko" "$root/"
gcc -O1 -Wall -static -Iscripts/conform/module scripts/conform/guest/*.c -o "$root/bin/runner"
. scripts/build/build.sh
binary=$build/windtunnel-live
strip -o "$root/bin/windtunnel-live" "$binary"
for library in $(ldd "$binary" | grep -oE '/[^ ]+'); do
  mkdir -p "$root$(dirname "$library")"
  [ -f "$root$library" ] || cp -L "$library" "$root$library"
done
mkdir -p "$root/target"
cp -r target/policies "$root/target/"
mkdir -p "$dir/policies"
for source in scripts/conform/policies/*.bpf.c; do
  object=$dir/policies/$(basename "$source" .c).o
  clang-19 -g -O2 -mcpu=v3 -Wall -target bpf -c "$source" -o "$object"
  cp "$object" "$root/target/policies/"
done
cp -r profiles policies "$root/"
# libbpf reads the kernel's configuration for objects that use CONFIG_ values.
mkdir "$root/boot"
cp "$dir/config" "$root/boot/config-$(sed 's/^linux-binary-//' "$dir/kernel")"
cp /bin/busybox "$root/bin/"
for applet in $(/bin/busybox --list); do [ "$applet" = busybox ] || ln -sf busybox "$root/bin/$applet"; done
(cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) >"$dir/conform.cpio.new"
mv "$dir/conform.cpio.new" "$dir/conform.cpio"
