#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# compat.sh: schedulers that others wrote, unmodified: fetched, compiled, loaded, run.
# Everything lies in target/compat; the second time nothing is fetched or compiled again.
set -u
cd "$(dirname "$0")/.."
dir=target/compat
command=target/release/windtunnel
failed=()

scripts/compat/sources.sh "$dir" </dev/null || {
  echo "compat: the sources could not be fetched" >&2
  exit 1
}
scripts/compat/objects.sh "$dir" || failed+=("compiling")

objects=("$dir"/objects/{kernel,selftests,scx}/*.bpf.o)
echo "== loading ${#objects[@]} objects"
"$command" check "${objects[@]}" || failed+=("loading")

echo "== running"
for object in kernel/scx_simple kernel/scx_central kernel/scx_cpu0 scx/scx_bpfland; do
  "$command" run "$dir/objects/$object.bpf.o" --machine numa32 --for 2s || failed+=("running $object")
done

if [ ${#failed[@]} -gt 0 ]; then
  printf 'compat FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "compat: all objects load, all four schedulers run to the end"
