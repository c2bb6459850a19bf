#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# fidelity-host.sh DIR RUNS: executes workloads under EEVDF on this host several times, and simulates
# them on a machine with this host's costs, which are measured first. Prints the median and the range of
# each live figure, and the error of the simulation. Other programs on the host disturb the result.
set -eu
cd "$(dirname "$0")/../.."
dir=$1/host runs=$2
live=${WINDTUNNEL_LIVE:-target/release/windtunnel-live}
rm -rf "$dir"
mkdir -p "$dir"
${live%-live} machine calibrate -o "$dir/guest.toml"
while read -r name workload; do
  case $name in "" | "#"*) continue ;; esac
  for run in $(seq "$runs"); do
    $live compare eevdf "$workload" -m "$dir/guest.toml" --for 2s --markdown >>"$dir/rows" 2>>"$dir/notes"
  done
done <scripts/live/guest/fidelity.txt
sort -u "$dir/notes"
scripts/live/spread.awk "$dir/rows"
