#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# policy.sh POLICY: compiles one policy, runs it with the sanitizer, and runs its tests. Once the tests
# are built, this takes a few seconds. UPDATE_GOLDEN=1 also updates the tables of policies/README.md.
set -eu
cd "$(dirname "$0")/../.."
policy=${1:-}
source=policies/$policy.bpf.c
if [ -z "$policy" ] || [ ! -f "$source" ]; then
  echo "check: there is no policy '$policy'; POLICY is one of: $(cd policies && echo *.bpf.c | sed 's/\.bpf\.c//g')" >&2
  exit 2
fi
scripts/build/policies.sh "$policy"
cargo build --quiet -p windtunnel
windtunnel=target/debug/windtunnel
echo "== load"
$windtunnel check "target/policies/$policy.bpf.o"
echo "== a run with the sanitizer"
$windtunnel run "$policy" --sanitize --machine numa16 --workload mixed.json --for 200ms
# The tests that apply to every policy (run for this one only), and the test files that name it.
# policy_records fails if there is no such file, or if it is not compiled.
mapfile -t files < <(cd crates/windtunnel/tests/integration && grep -l "\"$policy\"" policy_*.rs schedules.rs)
tests=$(printf '%s::\n' policy_properties policy_records "${files[@]%.rs}" | sort -u | tr '\n' ' ')
echo "== tests: $tests"
# shellcheck disable=SC2086 # names are separated by spaces
POLICY=$policy cargo test --quiet -p windtunnel --test integration -- $tests
cargo test --quiet -p runner --lib -- policy::suggestion
echo "== format"
cargo fmt --all --check
