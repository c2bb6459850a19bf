#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# fuzz-rustc.sh RUSTC ARGUMENTS: runs the compiler without the fuzzer's coverage counters for the crates
# of the JIT's code generator. With counters, these would take minutes to build and half a second to
# compile each program, and their coverage would distract the fuzzer from this repository's code.
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
