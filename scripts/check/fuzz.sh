#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# fuzz.sh SECONDS [TARGET...]: runs the named fuzz targets, or all of them, at idle priority for the
# given time each. The fuzzer starts from objects, machine files and workloads of the repository, and
# keeps inputs that cause a failure in fuzz/artifacts.
set -eu
cd "$(dirname "$0")/../.."
if ! cargo fuzz --version >/dev/null 2>&1; then
  echo "fuzz: cargo-fuzz is missing: cargo install cargo-fuzz; rustup toolchain install nightly" >&2
  exit 1
fi
seconds=$1
shift
[ $# -gt 0 ] || set -- $(cargo +nightly fuzz list)
export RUSTC_WRAPPER=$PWD/scripts/check/fuzz-rustc.sh
cd fuzz
for target in "$@"; do
  echo "== $target"
  mkdir -p "corpus/$target"
  lengths=()
  case $target in
  object) cp -n ../target/policies/*.bpf.o corpus/object/ 2>/dev/null || true ;;
  machine)
    cp -n ../machines/*.toml ../crates/machine/tests/data/*.xml corpus/machine/
    printf "node:2 core:4 pu:2" > corpus/machine/synthetic
    ;;
  workload)
    cp -n ../workloads/*.json corpus/workload/
    printf '{"tasks": {"t": {"dl-runtime": 500, "loop": 2, "suspend": "u", "timer": {}, "run": 1}, "u": {"resume": "u", "sleep": 9}}}' \
      > corpus/workload/slices
    ;;
  dump) cp -n ../crates/windtunnel/tests/dumps/*.txt corpus/dump/ ;;
  profile) cp -n ../profiles/*.toml corpus/profile/ ;;
  policy)
    # The bytes of an input decide what the policy does; when they run out, a fixed random generator
    # takes over. So start with 4096 bytes, and allow long inputs from the beginning.
    lengths=(-len_control=0 -max_len=4096)
    head -c 4096 /dev/urandom > corpus/policy/decisions
    ;;
  esac
  nice -n 19 chrt -i 0 cargo +nightly fuzz run -O "$target" -- \
    -max_total_time="$seconds" -timeout=600 "${lengths[@]}"
done
