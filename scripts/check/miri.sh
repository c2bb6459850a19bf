#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# miri.sh: executes tests of the code that policies' pointers reach, and whole short simulations with and
# without policies, in Miri, which finds undefined behaviour: accesses outside of an allocation, misaligned
# or uninitialised values, and references that alias.
#
# Miri interprets the tests for a host without the JIT, because it cannot execute machine code. It needs a
# nightly compiler with the components miri and rust-src, so it is no part of `make test`.
set -eu
cd "$(dirname "$0")/../.."
target=aarch64-unknown-linux-gnu
cargo +nightly miri --version >/dev/null 2>&1 || {
  echo "miri: Miri is missing: rustup toolchain install nightly --component miri,rust-src" >&2
  exit 1
}
# Tests read files. Addresses in the region are numbers, which become pointers when they are used.
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance"
# The corpus of the interpreter (the test program "engine") is left out: one of its files takes longer than
# three minutes.
cargo +nightly miri test --quiet --target $target -p bpf --lib -- memory:: cache:: map:: helper:: loader::
# Miri cannot start clang, so the simulations use the policies that a run of the same tests without Miri
# compiles.
cargo test --quiet -p kernel --test integration -- whole::
objects=target/miri/$target/tmp/kernel
mkdir -p "$(dirname "$objects")"
rm -rf "$objects"
ln -s ../../../tmp/kernel "$objects"
cargo +nightly miri test --quiet --target $target -p kernel --test integration -- whole::
