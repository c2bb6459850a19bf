#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# check.sh [long]: fetches, compiles, loads and runs third-party schedulers without changing them.
#
# With "long", the schedulers run on four machines under five workloads, each time for longer than the
# timeout of their watchdogs, so that stalls are noticed. The results go to docs/compat.md.
#
# target/compat keeps all files, so a second run fetches and compiles nothing. COMPAT_OBJECTS can name
# more objects, separated by spaces. BUILD=dev uses the development build.
set -u
cd "$(dirname "$0")/../.."
dir=target/compat
. scripts/build/build.sh
windtunnel=$build/windtunnel
failed=()

scripts/compat/sources.sh "$dir" </dev/null || {
  echo "compat FAILED: the sources could not be fetched; what is missing is fetched by the next make compat" >&2
  exit 1
}
scripts/compat/objects.sh "$dir" || failed+=("compiling")

# Without the kernel's selftests, some of which must be refused; see below.
# shellcheck disable=SC2206 # names are separated by spaces
objects=("$dir"/objects/{kernel,scx}/*.bpf.o ${COMPAT_OBJECTS:-})
echo "== loading ${#objects[@]} objects"
"$windtunnel" check "${objects[@]}" >"$dir/check.log" 2>&1 || failed+=("loading (full output: $dir/check.log)")
grep -v ': loads with 0 warnings$' "$dir/check.log"

echo "== the kernel's selftests"
"$windtunnel" suite scripts/compat/selftests.toml --objects "$dir/objects/selftests" >"$dir/selftests.log" ||
  failed+=("selftests (full output: $dir/selftests.log)")
grep -v '^ok ' "$dir/selftests.log"

if [ -f "$dir/linux-7.3/vmlinux.h" ]; then
  echo "== the selftests of Linux 7.3"
  for suite in selftests linux-7.3; do
    "$windtunnel" suite "scripts/compat/$suite.toml" --kernel 7.3 --objects "$dir/objects/linux-7.3" >"$dir/$suite-7.3.log" ||
      failed+=("selftests of Linux 7.3 (full output: $dir/$suite-7.3.log)")
    grep -v '^ok ' "$dir/$suite-7.3.log"
  done
fi

echo "== the kernel's examples that need more than loading"
"$windtunnel" suite scripts/compat/examples.toml --objects "$dir/objects/kernel" || failed+=("examples")

echo "== running"
if [ "${1:-}" = long ]; then
  scripts/compat/schedulers.py "$dir" "$windtunnel" long docs/compat.md || failed+=("running")
else
  scripts/compat/schedulers.py "$dir" "$windtunnel" || failed+=("running")
fi

echo "== the commands of docs/found.md"
scripts/compat/found.py "$dir" "$windtunnel" || failed+=("docs/found.md")

if [ ${#failed[@]} -gt 0 ]; then
  printf 'compat FAILED: %s\n' "${failed[@]}" >&2
  echo "compat: to repeat it: make compat; sources and objects are kept in $dir" >&2
  exit 1
fi
echo "compat: all objects load; each scheduler runs to the end or ends early for a reason listed in docs/compat.md"
