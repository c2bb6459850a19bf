#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# test.sh: checks the formatting, and runs the lints and all tests, even if one of them fails. At the
# end, names the parts that failed and the commands that repeat them.
set -u
cd "$(dirname "$0")/../.."
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-auto}
failed=()
# Tests append a line to this file if they cannot run here (golden::skip!).
export SKIPPED_TESTS=$PWD/target/skipped.txt
mkdir -p target
rm -f "$SKIPPED_TESTS"
# part NAME COMMAND...
part() {
  local name=$1
  shift
  echo "== $name"
  local start=$SECONDS
  "$@" </dev/null || failed+=("$name (to repeat it: $*)")
  echo "== $name: $((SECONDS - start)) s"
}

# Compiles the command for hosts without the JIT. The live command needs a C compiler for such a host.
other_hosts() {
  local target=aarch64-unknown-linux-gnu
  if ! rustup target add $target 2>target/rustup.log; then
    echo "SKIPPED other hosts: the compiler has no standard library for $target: $(tail -1 target/rustup.log)" >>"$SKIPPED_TESTS"
    return
  fi
  RUSTFLAGS="-D warnings" cargo check --quiet --target $target -p windtunnel
}

for component in fmt clippy; do
  if ! cargo $component --version >/dev/null 2>&1; then
    echo "test: cargo $component is missing: rustup component add rustfmt clippy" >&2
    exit 1
  fi
done

part "format" cargo fmt --all --check
part "policies" scripts/build/policies.sh
part "features" scripts/check/features.sh
part "third-party crates" scripts/check/deny.sh
part "lints" cargo clippy --workspace --all-targets --quiet -- -D warnings
part "other hosts" other_hosts
part "kernel rules" scripts/check/kernel-rules.sh
part "tests" cargo test --workspace --quiet --no-fail-fast
# These inputs are the same each time; `make attack` tries new ones, for hours.
part "random attacks" target/debug/attack count 1000 1
# From here on, the development build is compared with one of our crates as they are released.
BUILD=as-released
. scripts/build/build.sh
part "build as released" build_commands
part "determinism and installation as released" env WINDTUNNEL=$build/windtunnel \
  cargo test --quiet -p windtunnel --test integration -- determinism:: installed::
part "instructions" scripts/measure/instructions.sh $build/windtunnel

if [ -s "$SKIPPED_TESTS" ]; then
  sort -u "$SKIPPED_TESTS"
fi
if [ ${#failed[@]} -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "all tests passed"
