#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# fast.sh: builds the command with profile-guided optimisation (PGO), which makes it simulate about a
# quarter more time per second than a plain release build. The simulator spends its time in many
# functions, and better decisions about inlining and branches help in all of them.
#
# fast.sh          builds target/fast/release/windtunnel
# fast.sh bench    also builds and runs the speed benchmark with PGO
# fast.sh COMMAND  runs a command that calls cargo, so that it builds with PGO
#
# The crates of the simulator are built twice: first with crates/report/examples/train.rs, which records
# a profile, then with the profile. RUSTC_WORKSPACE_WRAPPER does not apply to their dependencies, so
# those are built only once, or taken from a release build.
set -eu
cd "$(dirname "$0")/../.."
export CARGO_TARGET_DIR=target/fast
raw=$PWD/$CARGO_TARGET_DIR/raw profile=$PWD/$CARGO_TARGET_DIR/windtunnel.profdata
profdata=$(command -v llvm-profdata-19 || command -v llvm-profdata || true)
if [ -z "$profdata" ]; then
  echo "fast.sh: llvm-profdata is missing (Debian's llvm-19; scripts/setup.sh installs it)" >&2
  exit 1
fi

# Rebuilds the repository's crates with additional flags. The wrapper's path must be the same in both
# builds: it is part of the symbol names, by which the compiler finds a function's profile.
export RUSTC_WORKSPACE_WRAPPER=$PWD/$CARGO_TARGET_DIR/rustc
build_with() {
  local flags=$1
  shift
  printf '#!/bin/sh\nexec "$@" %s\n' "$flags" >"$RUSTC_WORKSPACE_WRAPPER"
  chmod +x "$RUSTC_WORKSPACE_WRAPPER"
  for crate in input profile bpf machine workload trace kernel report windtunnel; do
    cargo clean --release --quiet -p $crate
  done
  cargo build --release --quiet "$@"
}

sources() {
  find crates Cargo.lock Cargo.toml scripts/build/fast.sh -type f -print0 | sort -z | xargs -0 cat | sha256sum
  rustc -V
}

mkdir -p "$CARGO_TARGET_DIR"
if [ ! -d target/fast/release ] && [ -d target/release/deps ]; then
  mkdir target/fast/release
  cp -a target/release/{deps,build,.fingerprint} target/fast/release
fi
scripts/build/policies.sh
if [ "$(sources)" != "$(cat "$profile.of" 2>/dev/null)" ]; then
  build_with "-Cprofile-generate=$raw -Cdebuginfo=0" -p report --example train
  rm -rf "$raw"
  "$CARGO_TARGET_DIR/release/examples/train" >/dev/null
  # Raw profiles change with LLVM. An llvm-profdata that is older than the LLVM in rustc cannot read
  # them.
  if ! "$profdata" merge -o "$profile" "$raw"; then
    echo "fast.sh: $("$profdata" --version | grep -m1 version) cannot read what $(rustc -V) wrote: install that version's llvm" >&2
    exit 1
  fi
  build_with -Cprofile-use="$profile" -p windtunnel
  sources >"$profile.of"
fi
case ${1:-} in
  '') ;;
  bench)
    BENCH_BUILD="profile-guided build" cargo bench --quiet -p windtunnel --bench speed
    scripts/measure/instructions.sh $CARGO_TARGET_DIR/release/windtunnel ;;
  *) "$@" ;;
esac
