#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# kernel-rules.sh: tests crates/kernel/clippy.toml. This file contains clippy rules against code
# that could make two runs of the same simulation differ, for example hash maps and clocks. The
# script writes a crate that breaks every rule, and checks that clippy refuses each line.
set -eu
cd "$(dirname "$0")/.."
dir=target/kernel-rules
mkdir -p "$dir/src"
cp crates/kernel/clippy.toml "$dir/"
cat >"$dir/Cargo.toml" <<'TOML'
[package]
name = "kernel-rules"
version = "0.0.0"
edition = "2024"
[workspace]
TOML
cat >"$dir/src/lib.rs" <<'RUST'
pub fn hash_map() -> std::collections::HashMap<u32, u32> { Default::default() }
pub fn hash_set() -> std::collections::HashSet<u32> { Default::default() }
pub fn instant(_: std::time::Instant) {}
pub fn system_time(_: std::time::SystemTime) {}
pub fn file(_: std::fs::File) {}
pub fn spawn() { let _ = std::thread::spawn(|| ()); }
pub fn read() { let _ = std::fs::read("x"); }
pub fn variable() { let _ = std::env::var("X"); }
RUST
lines=$(wc -l <"$dir/src/lib.rs")
found=$(CARGO_TARGET_DIR=$dir/target cargo clippy --quiet --manifest-path "$dir/Cargo.toml" --message-format short -- \
  -D clippy::disallowed_types -D clippy::disallowed_methods 2>&1 | grep -o 'src/lib.rs:[0-9]*' | sort -u | wc -l)
if [ "$found" -ne "$lines" ]; then
  echo "crates/kernel/clippy.toml refuses only $found of $lines forbidden uses; clippy's output:" >&2
  echo "  cargo clippy --manifest-path $dir/Cargo.toml -- -D clippy::disallowed_types -D clippy::disallowed_methods" >&2
  exit 1
fi
# clippy applies the rules to crates/kernel only if lib.rs of this crate sets the levels of the
# lints.
grep -q 'clippy::float_arithmetic' crates/kernel/src/lib.rs || {
  echo "crates/kernel/src/lib.rs does not forbid clippy::float_arithmetic" >&2
  exit 1
}
