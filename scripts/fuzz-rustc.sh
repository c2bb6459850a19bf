#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# fuzz-rustc.sh RUSTC ARGUMENTS: runs the compiler, but leaves out the fuzzer's coverage counters if
# the crate belongs to the JIT's code generator. With counters, the code generator would take
# minutes to build, and half a second to compile each program. New coverage in the code generator
# would also distract the fuzzer from this repository's code.
rustc=$1
shift
case " $* " in
*" --crate-name "cranelift_* | *" --crate-name regalloc2 "* | *" --crate-name gimli "*) ;;
*) exec "$rustc" "$@" ;;
esac
n=$#
while [ "$n" -gt 0 ]; do
  arg=$1
  shift
  n=$((n - 1))
  case $arg in
  -Cpasses=sancov-module | -Cllvm-args=-sanitizer-coverage-* | -Cllvm-args=-simplifycfg-branch-fold-threshold=0 | -Cllvm-args=-sanitizer-coverage-trace-compares) ;;
  -Zsanitizer=address) ;;
  *) set -- "$@" "$arg" ;;
  esac
done
exec "$rustc" "$@"
