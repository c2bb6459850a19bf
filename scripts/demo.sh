#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# demo.sh: compares schedulers on a simulated machine with 2 nodes and 32 CPUs, under a mixed rt-app
# workload, a chat server and parallel builds.
set -eu
cd "$(dirname "$0")/.."
run() { target/release/windtunnel run "$@" --machine numa32; }
run eevdf fifo percpu vtime --workload mixed.json --details target/demo/mixed.txt "$@"
echo
run eevdf dss mqs pmqs o1 steal --workload chat:rooms=10,messages=100 --details target/demo/chat.txt
echo
run eevdf dss mqs pmqs o1 steal --workload mkbench:builds=4,jobs=16 --details target/demo/mkbench.txt
