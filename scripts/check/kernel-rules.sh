#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# kernel-rules.sh: tests the clippy rules of crates/kernel and crates/bpf (clippy.toml), which forbid
# code that could make two runs of a simulation differ, such as hash maps and clocks. For each of the
# crates, writes a crate that breaks every rule, and checks that clippy refuses each line.
set -eu
cd "$(dirname "$0")/../.."

# refuses CRATE: checks that the rules of a crate refuse each line of standard input.
refuses() {
  local dir=target/kernel-rules/$1 lines found
  mkdir -p "$dir/src"
  cp "crates/$1/clippy.toml" "$dir/"
  printf '[package]\nname = "rules"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n' >"$dir/Cargo.toml"
  cat >"$dir/src/lib.rs"
  lines=$(wc -l <"$dir/src/lib.rs")
  found=$(CARGO_TARGET_DIR=$dir/target cargo clippy --quiet --manifest-path "$dir/Cargo.toml" --message-format short -- \
    -D clippy::disallowed_types -D clippy::disallowed_methods 2>&1 | grep -o 'src/lib.rs:[0-9]*' | sort -u | wc -l)
  if [ "$found" -ne "$lines" ]; then
    echo "crates/$1/clippy.toml refuses only $found of $lines forbidden uses; clippy's output:" >&2
    echo "  cargo clippy --manifest-path $dir/Cargo.toml -- -D clippy::disallowed_types -D clippy::disallowed_methods" >&2
    exit 1
  fi
}

types='pub fn hash_map() -> std::collections::HashMap<u32, u32> { Default::default() }
pub fn hash_set() -> std::collections::HashSet<u32> { Default::default() }
pub fn instant(_: std::time::Instant) {}
pub fn system_time(_: std::time::SystemTime) {}'
refuses bpf <<<"$types"
refuses kernel <<RUST
$types
pub fn file(_: std::fs::File) {}
pub fn spawn() { let _ = std::thread::spawn(|| ()); }
pub fn read() { let _ = std::fs::read("x"); }
pub fn variable() { let _ = std::env::var("X"); }
RUST
# The rules have no effect unless crates/kernel/src/lib.rs sets the levels of the lints.
grep -q 'clippy::float_arithmetic' crates/kernel/src/lib.rs || {
  echo "crates/kernel/src/lib.rs does not forbid clippy::float_arithmetic" >&2
  exit 1
}
