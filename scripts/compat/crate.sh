# SPDX-License-Identifier: GPL-2.0-only
# Functions of objects.sh and versions.sh that compile BPF objects from the sources of crates.io.
# The scripts set here (the directory of the scripts) and dir (their argument DIR), and define
# fail MESSAGE, which reports a failure.
# shellcheck shell=bash disable=SC2154

libbpf=$dir/crates/libbpf-sys/libbpf
flags=(-g -O2 -mcpu=v3 -mlittle-endian -D__TARGET_ARCH_x86 -fms-extensions -Wno-everything -target bpf)
system=(-idirafter "$(clang-19 -print-resource-dir)/include" -idirafter /usr/include/x86_64-linux-gnu
  -idirafter /usr/include)

# Provides libbpf's headers as <bpf/...>, and builds a command that calls libbpf's linker.
provide_libbpf() {
  [ -x "$dir/tools/link" ] && return
  mkdir -p "$dir/tools/include"
  ln -sfn "../../$libbpf/src" "$dir/tools/include/bpf"
  echo "building libbpf's linker"
  gcc -O1 -w -D_GNU_SOURCE -I"$libbpf/include" -I"$libbpf/include/uapi" -I"$dir/tools/include" -I"$libbpf/src" \
    "$here/link.c" "$libbpf"/src/*.c -lelf -lz -o "$dir/tools/link.new" &&
    mv "$dir/tools/link.new" "$dir/tools/link"
}

# crate_sources FOLDER: prints the names of the BPF sources, which are in the build script of the crate.
crate_sources() { grep -oE '"src/bpf/[^"]*\.bpf\.c"' "$1/build.rs" 2>/dev/null | tr -d '"'; }

# crate NAME OBJECT TYPES SCX FOLDER SOURCE...: compiles the sources of a scheduler and links them.
# TYPES is the directory of vmlinux.h for all architectures. SCX is the directory of the scx headers.
crate() {
  local name=$1 object=$2 types=$3 scx=$4 folder=$5 parts=() source part
  shift 5
  [ -f "$object" ] && return
  for source in "$@"; do
    part=$dir/objects/parts/$name-$(basename "$source" .bpf.c).o
    clang-19 "${flags[@]}" -D__SCX_TARGET_ARCH_x86 -I"$types/vmlinux/arch/x86" \
      -I"$types/arch/x86" -I"$scx" -I"$scx/bpf-compat" -I"$dir/tools/include" \
      "${system[@]}" -c "$folder/$source" -o "$part" || {
      fail "$name: $source does not compile"
      return
    }
    parts+=("$part")
  done
  { "$dir/tools/link" "$object.new" "${parts[@]}" && mv "$object.new" "$object"; } || fail "$name does not link"
}
