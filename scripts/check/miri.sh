#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# miri.sh: executes tests of the code that policies' pointers reach in Miri, which finds undefined
# behaviour: accesses outside of an allocation, misaligned or uninitialised values, and references that
# alias.
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
