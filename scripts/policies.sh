#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# policies.sh: compiles policies/*.bpf.c into target/policies/, those that changed.
set -eu
cd "$(dirname "$0")/.."
out=target/policies
mkdir -p "$out"
for source in policies/*.bpf.c; do
  name=$(basename "$source" .bpf.c)
  object=$out/$name.bpf.o
  newest=$(find "$source" policies/include -type f -newer "$object" 2>/dev/null | head -1) || newest=$source
  if [ ! -f "$object" ] || [ -n "$newest" ]; then
    # A half-written object must not look like a finished one.
    clang-19 -g -O2 -mcpu=v3 -Wall -target bpf -c "$source" -o "$object.new"
    mv "$object.new" "$object"
    echo "compiled $object"
  fi
done
