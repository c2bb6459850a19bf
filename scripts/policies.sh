#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# policies.sh [NAME...]: compiles the named policies, or all policies, from policies/NAME.bpf.c to
# target/policies/NAME.bpf.o. An object is compiled again only if its source, a header or a flag has
# changed.
set -eu
cd "$(dirname "$0")/.."
out=target/policies
mkdir -p "$out"
names=("$@")
[ $# -gt 0 ] || { names=(policies/*.bpf.c); names=("${names[@]##*/}"); names=("${names[@]%.bpf.c}"); }
flags=(-g -O2 -mcpu=v3 -Wall -target bpf)
headers=$(cat policies/include/*.h | sha256sum)
for name in "${names[@]}"; do
  source=policies/$name.bpf.c object=$out/$name.bpf.o
  contents=$(echo "${flags[*]} $headers" | cat - "$source" | sha256sum)
  [ -f "$object" ] && [ "$contents" = "$(cat "$object.of" 2>/dev/null)" ] && continue
  # The compiler writes to a temporary file, so that an incomplete object never has the name of a
  # complete one. The file's name contains the process id, because two instances of this script may
  # run at the same time.
  clang-19 "${flags[@]}" -c "$source" -o "$object.$$"
  mv "$object.$$" "$object"
  echo "$contents" >"$object.of"
  echo "compiled $object"
done
