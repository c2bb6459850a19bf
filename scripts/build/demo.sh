#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# demo.sh: the last part of `make run`. Compares schedulers on a simulated machine with 2 nodes and
# 32 CPUs under three workloads, and says what to do next.
set -eu
cd "$(dirname "$0")/../.."
. scripts/build/build.sh
windtunnel=$build/windtunnel

# compare N TITLE NAME ARGUMENT...: prints the N-th comparison. Its details go to target/demo/NAME.txt.
compare() {
  echo
  echo "== $1 of 3: $2"
  "$windtunnel" run "${@:4}" --machine numa32 --details "target/demo/$3.txt"
}
echo "== three comparisons on a simulated server with 32 CPUs (a second or two each)"
compare 1 "a mix of 125 tasks: periodic work, servers, CPU-bound tasks" mixed \
  eevdf fifo percpu vtime --workload mixed.json "$@"
compare 2 "a chat server with 10 rooms, under EEVDF and schedulers from papers" chat \
  eevdf dss mqs pmqs o1 steal --workload chat:rooms=10,messages=100
compare 3 "four parallel builds, under the same schedulers" mkbench \
  eevdf dss mqs pmqs o1 steal --workload mkbench:builds=4,jobs=16

cat <<END

A star marks the best value of a column; target/demo has the details of each run. Next:

  export PATH=$PWD/$build:\$PATH
  docs/tutorial.md          find out why one scheduler is slower than another (ten minutes)
  windtunnel init mine      start a scheduler of your own
  windtunnel --help         see all commands
END
