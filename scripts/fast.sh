#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# fast.sh: builds the command with profile-guided optimisation (PGO). The resulting command
# simulates about a third more time per second than a plain release build. The simulator spends its
# time in many functions, so better decisions about inlining and branches help in all of them.
#
# fast.sh          builds target/fast/release/windtunnel
# fast.sh bench    also builds the speed benchmark in this way, and runs it
#
# The crates of this repository are built twice: first to record a profile, then with the profile.
# The dependencies are built only once, because RUSTC_WORKSPACE_WRAPPER does not apply to them.
set -eu
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=target/fast
raw=$PWD/$CARGO_TARGET_DIR/raw profile=$PWD/$CARGO_TARGET_DIR/windtunnel.profdata
profdata=$(command -v llvm-profdata-19 || command -v llvm-profdata || true)
if [ -z "$profdata" ]; then
  echo "fast.sh: llvm-profdata is missing (Debian's llvm-19; scripts/setup.sh installs it)" >&2
  exit 1
fi

# Rebuilds the repository's crates with additional flags. Both builds must use the same path for the
# wrapper, because the path is part of the symbol names, and the compiler finds the profile of a
# function by its symbol name.
export RUSTC_WORKSPACE_WRAPPER=$PWD/$CARGO_TARGET_DIR/rustc
build_with() {
  printf '#!/bin/sh\nexec "$@" %s\n' "$*" >"$RUSTC_WORKSPACE_WRAPPER"
  chmod +x "$RUSTC_WORKSPACE_WRAPPER"
  for crate in bpf machine workload trace kernel report windtunnel; do cargo clean --release --quiet -p $crate; done
  cargo build --release --quiet -p windtunnel
}

sources() {
  find crates Cargo.lock Cargo.toml scripts/fast.sh -type f -print0 | sort -z | xargs -0 cat | sha256sum
  rustc -V
}

# Runs the workloads from which the profile is recorded: a shared queue on many CPUs, the fair
# class, other policies, and chat, which uses sockets. A workload whose speed is more important runs
# longer.
train() {
  "$1" run vtime --machine "node:2 core:16 pu:2" --workload sleepers:n=1000,run=50us,sleep=50us --for 300ms
  "$1" run eevdf --machine "node:2 core:16 pu:2" --workload sleepers:n=1000,run=50us,sleep=50us --for 100ms
  "$1" run percpu steal pmqs o1 --machine "core:4 pu:2" --workload sleepers:n=100,run=50us,sleep=50us --for 50ms
  "$1" run dss mqs o1 steal eevdf --machine smp8 --workload chat:rooms=1,messages=2
}

mkdir -p "$CARGO_TARGET_DIR"
scripts/policies.sh
if [ "$(sources)" != "$(cat "$profile.of" 2>/dev/null)" ]; then
  build_with -Cprofile-generate="$raw"
  rm -rf "$raw"
  train "$CARGO_TARGET_DIR/release/windtunnel" >/dev/null
  # The format of raw profiles depends on the version of LLVM. If the LLVM in rustc is newer than
  # llvm-profdata, llvm-profdata cannot read the profiles.
  if ! "$profdata" merge -o "$profile" "$raw"; then
    echo "fast.sh: $("$profdata" --version | grep -m1 version) cannot read what $(rustc -V) wrote: install that version's llvm" >&2
    exit 1
  fi
  build_with -Cprofile-use="$profile"
  sources >"$profile.of"
fi
[ "${1:-}" != bench ] || cargo bench --quiet -p windtunnel --bench speed
