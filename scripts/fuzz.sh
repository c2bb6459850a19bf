#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# fuzz.sh SECONDS: runs each fuzz target that long.
set -eu
cd "$(dirname "$0")/.."
if ! cargo fuzz --version >/dev/null 2>&1; then
  echo "fuzz: cargo-fuzz is missing: cargo install cargo-fuzz; rustup toolchain install nightly" >&2
  exit 1
fi
for target in $(cargo +nightly fuzz list); do
  echo "== $target"
  cargo +nightly fuzz run "$target" -- -max_total_time="$1"
done
