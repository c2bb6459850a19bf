#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# objects.sh DIR: compiles the sources that sources.sh has fetched into DIR, without changing them.
# Writes these objects:
#
#   DIR/objects/kernel/scx_NAME.bpf.o   the kernel's examples
#   DIR/objects/selftests/NAME.bpf.o    the kernel's sched_ext selftests
#   DIR/objects/linux-7.3/NAME.bpf.o    the selftests and scx_qmap of Linux 7.3
#   DIR/objects/scx/scx_NAME.bpf.o      schedulers from crates.io
#
# The exit status is 1 if a source cannot be compiled.
set -u
here=$(cd "$(dirname "$0")" && pwd)
# From here on, all paths are relative to DIR, because they become part of the objects, which must not
# depend on where DIR is.
cd "$1" || exit 1
dir=.
libbpf=$dir/crates/libbpf-sys/libbpf
linux=$dir/linux
scx=$dir/crates/scx_cargo/bpf_h
flags=(-g -O2 -mcpu=v3 -mlittle-endian -D__TARGET_ARCH_x86 -fms-extensions -Wno-everything -target bpf)
system=(-idirafter "$(clang-19 -print-resource-dir)/include" -idirafter /usr/include/x86_64-linux-gnu
  -idirafter /usr/include)

# A file that records a failure, because the background processes cannot set a variable of this script.
failed=$dir/objects/failed
fail() {
  echo "compat: $1" >&2
  : >"$failed"
}

# background COMMAND...: runs COMMAND in the background, as soon as fewer commands run than there are
# CPUs.
background() {
  while [ "$(jobs -pr | wc -l)" -ge "$(nproc)" ]; do wait -n; done
  "$@" &
}

# Provides libbpf's headers as <bpf/...>, and builds a command that calls libbpf's linker.
if [ ! -x "$dir/tools/link" ]; then
  mkdir -p "$dir/tools/include"
  ln -sfn "../../$libbpf/src" "$dir/tools/include/bpf"
  echo "building libbpf's linker"
  gcc -O1 -w -D_GNU_SOURCE -I"$libbpf/include" -I"$libbpf/include/uapi" -I"$dir/tools/include" -I"$libbpf/src" \
    "$here/link.c" "$libbpf"/src/*.c -lelf -lz -o "$dir/tools/link.new" || exit 1
  mv "$dir/tools/link.new" "$dir/tools/link"
fi

# kernel LINUX TYPES SOURCE OBJECT: compiles a source from the kernel tree LINUX. TYPES is the directory of
# vmlinux.h.
kernel() {
  local linux=$1 types=$2
  shift 2
  [ -f "$2" ] && return
  clang-19 "${flags[@]}" -I"$linux/tools/sched_ext/include" -I"$linux/tools/sched_ext/include/bpf-compat" \
    -I"$dir/tools/include" -I"$types" -I"$linux/tools/include/uapi" -I"$linux/tools/include" \
    -I"$(dirname "$1")" -I"$linux/tools/sched_ext" "${system[@]}" -c "$1" -o "$2.new" &&
    mv "$2.new" "$2" || fail "$1 does not compile"
}

# crate NAME FOLDER SOURCE...: compiles the sources of a scheduler from crates.io and links them.
crate() {
  local name=$1 folder=$2 object=$dir/objects/scx/$1.bpf.o parts=() source part
  shift 2
  [ -f "$object" ] && return
  for source in "$@"; do
    part=$dir/objects/parts/$name-$(basename "$source" .bpf.c).o
    clang-19 "${flags[@]}" -D__SCX_TARGET_ARCH_x86 -I"$dir/crates/vmlinux/vmlinux/arch/x86" \
      -I"$dir/crates/vmlinux/arch/x86" -I"$scx" -I"$scx/bpf-compat" -I"$dir/tools/include" \
      "${system[@]}" -c "$folder/$source" -o "$part" || {
      fail "$name: $source does not compile"
      return
    }
    parts+=("$part")
  done
  "$dir/tools/link" "$object.new" "${parts[@]}" && mv "$object.new" "$object" || fail "$name does not link"
}

mkdir -p "$dir"/objects/{kernel,selftests,linux-7.3,scx,parts}
rm -f "$failed"

types=$dir/crates/vmlinux/vmlinux/arch/x86
[ -d "$types" ] || types=$dir/crates/vmlinux/arch/x86
if [ -f "$linux/vmlinux.h" ]; then
  types=$linux
else
  echo "compat: $(cat "$linux/no-vmlinux"): using scx_cargo's vmlinux.h, with which scx_qmap cannot be compiled"
fi
for source in "$linux"/tools/sched_ext/*.bpf.c; do
  name=$(basename "$source" .bpf.c)
  if [ "$name" = scx_qmap ] && [ "$types" != "$linux" ]; then
    echo "compat: scx_qmap is left out, because it needs the vmlinux.h of its own kernel"
    continue
  fi
  background kernel "$linux" "$types" "$source" "$dir/objects/kernel/$name.bpf.o"
done
for source in "$linux"/tools/testing/selftests/sched_ext/*.bpf.c; do
  background kernel "$linux" "$types" "$source" "$dir/objects/selftests/$(basename "$source" .bpf.c).bpf.o"
done
next=$dir/linux-7.3
if [ -f "$next/vmlinux.h" ]; then
  for source in "$next"/tools/testing/selftests/sched_ext/*.bpf.c "$next/tools/sched_ext/scx_qmap.bpf.c"; do
    background kernel "$next" "$next" "$source" "$dir/objects/linux-7.3/$(basename "$source" .bpf.c).bpf.o"
  done
else
  echo "compat: $(cat "$next/no-vmlinux"): its selftests are left out"
fi

for folder in "$dir"/crates/scx_*; do
  name=$(basename "$folder")
  case $name in
    scx_rustland) background crate "$name" "$dir/crates/scx_rustland_core/assets/bpf" main.bpf.c ;;
    scx_arena | scx_bpf_compat) ;; # libraries with a BPF part, not schedulers
    *)
      # The names of the sources are in the build script of the crate.
      mapfile -t sources < <(grep -oE '"src/bpf/[^"]*\.bpf\.c"' "$folder/build.rs" 2>/dev/null | tr -d '"')
      [ ${#sources[@]} -eq 0 ] || background crate "$name" "$folder" "${sources[@]}"
      ;;
  esac
done
wait
[ ! -e "$failed" ]
