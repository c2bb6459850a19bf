#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# compat.sh [long]: schedulers that others wrote, unmodified: fetched, compiled, loaded, run.
# long: for longer than every watchdog, on four machines under five workloads; writes docs/compat.md.
# Everything lies in target/compat; the second time nothing is fetched or compiled again.
# COMPAT_OBJECTS names objects of one's own, by spaces, to be loaded and run as well.
set -u
cd "$(dirname "$0")/.."
dir=target/compat
windtunnel=target/release/windtunnel
failed=()

scripts/compat/sources.sh "$dir" </dev/null || {
  echo "compat FAILED: the sources could not be fetched" >&2
  exit 1
}
scripts/compat/objects.sh "$dir" || failed+=("compiling")

# The selftests are judged below: some of them must be refused.
# shellcheck disable=SC2206 # names by spaces
objects=("$dir"/objects/{kernel,scx}/*.bpf.o ${COMPAT_OBJECTS:-})
echo "== loading ${#objects[@]} objects"
"$windtunnel" check "${objects[@]}" >"$dir/check.log" 2>&1 || failed+=("loading (all of it: $dir/check.log)")
grep -v ': loads with 0 warnings$' "$dir/check.log"

echo "== the kernel's selftests"
"$windtunnel" suite scripts/compat/selftests.toml --objects "$dir/objects/selftests" >"$dir/selftests.log" ||
  failed+=("selftests (all of it: $dir/selftests.log)")
grep -v '^ok ' "$dir/selftests.log"

echo "== the kernel's examples with something to set up"
"$windtunnel" suite scripts/compat/examples.toml --objects "$dir/objects/kernel" || failed+=("examples")

echo "== running"
if [ "${1:-}" = long ]; then
  scripts/compat/schedulers.py "$dir" "$windtunnel" long docs/compat.md || failed+=("running")
else
  scripts/compat/schedulers.py "$dir" "$windtunnel" || failed+=("running")
fi

if [ ${#failed[@]} -gt 0 ]; then
  printf 'compat FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "compat: all objects load; every scheduler runs to the end or ends for a reason in docs/compat.md"
