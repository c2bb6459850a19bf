#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# fast.sh: builds the command with profile-guided optimisation (PGO). The resulting command
# simulates about a quarter more time per second than a plain release build. The simulator spends its
# time in many functions, so better decisions about inlining and branches help in all of them.
#
# fast.sh          builds target/fast/release/windtunnel
# fast.sh bench    also builds the speed benchmark in this way, and runs it
# fast.sh COMMAND  runs a command that builds with cargo, so that it builds in this way
#
# The crates of the simulator are built twice: first with crates/report/examples/train.rs, which
# records a profile, then with the profile. The dependencies are built only once, because
# RUSTC_WORKSPACE_WRAPPER does not apply to them. If there is a release build, its dependencies are
# used.
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
  find crates Cargo.lock Cargo.toml scripts/fast.sh -type f -print0 | sort -z | xargs -0 cat | sha256sum
  rustc -V
}

mkdir -p "$CARGO_TARGET_DIR"
if [ ! -d target/fast/release ] && [ -d target/release/deps ]; then
  mkdir target/fast/release
  cp -a target/release/{deps,build,.fingerprint} target/fast/release
fi
scripts/policies.sh
if [ "$(sources)" != "$(cat "$profile.of" 2>/dev/null)" ]; then
  build_with "-Cprofile-generate=$raw -Cdebuginfo=0" -p report --example train
  rm -rf "$raw"
  "$CARGO_TARGET_DIR/release/examples/train" >/dev/null
  # The format of raw profiles depends on the version of LLVM. If the LLVM in rustc is newer than
  # llvm-profdata, llvm-profdata cannot read the profiles.
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
    scripts/instructions.sh $CARGO_TARGET_DIR/release/windtunnel ;;
  *) "$@" ;;
esac
