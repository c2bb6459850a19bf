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
linux=$dir/linux
# shellcheck source-path=SCRIPTDIR source=crate.sh
. "$here/crate.sh"

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

provide_libbpf || exit 1

# kernel LINUX TYPES SOURCE OBJECT: compiles a source from the kernel tree LINUX. TYPES is the directory of
# vmlinux.h.
kernel() {
  local linux=$1 types=$2
  shift 2
  [ -f "$2" ] && return
  if clang-19 "${flags[@]}" -I"$linux/tools/sched_ext/include" -I"$linux/tools/sched_ext/include/bpf-compat" \
    -I"$dir/tools/include" -I"$types" -I"$linux/tools/include/uapi" -I"$linux/tools/include" \
    -I"$(dirname "$1")" -I"$linux/tools/sched_ext" "${system[@]}" -c "$1" -o "$2.new"; then
    mv "$2.new" "$2"
  else
    fail "$1 does not compile"
  fi
}

# scheduler NAME FOLDER SOURCE...: compiles a scheduler from crates.io with the headers of scx_cargo.
scheduler() {
  local name=$1
  shift
  crate "$name" "$dir/objects/scx/$name.bpf.o" "$dir/crates/vmlinux" "$dir/crates/scx_cargo/bpf_h" "$@"
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
    scx_rustland) background scheduler "$name" "$dir/crates/scx_rustland_core/assets/bpf" main.bpf.c ;;
    scx_arena | scx_bpf_compat) ;; # libraries with a BPF part, not schedulers
    *)
      mapfile -t sources < <(crate_sources "$folder")
      [ ${#sources[@]} -eq 0 ] || background scheduler "$name" "$folder" "${sources[@]}"
      ;;
  esac
done
wait
[ ! -e "$failed" ]
