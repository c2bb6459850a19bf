#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# demo.sh: the main job: schedulers under one workload on a simulated 2-node, 32-CPU machine.
set -eu
cd "$(dirname "$0")/.."
exec target/release/windtunnel run eevdf fifo percpu vtime \
  --machine numa32 --workload mixed.json "$@"
