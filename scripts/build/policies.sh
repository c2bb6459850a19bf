#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# policies.sh [NAME...]: compiles the named policies, or all of them, from policies/NAME.bpf.c to
# target/policies/NAME.bpf.o, if a source, a header or a flag has changed.
set -eu
cd "$(dirname "$0")/../.."
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
  # An incomplete object must not have the final name, and two instances of this script may run at the
  # same time. So each compiles to a file of its own.
  clang-19 "${flags[@]}" -c "$source" -o "$object.$$"
  mv "$object.$$" "$object"
  echo "$contents" >"$object.of"
  echo "compiled $object"
done
