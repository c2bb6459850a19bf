#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# fidelity.sh DIR FILE: reads the tables that the guests printed from the logs in DIR, and inserts
# them into FILE.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
for cpus in 1 4; do
  log=$1/fidelity$cpus.log
  grep -q '^| ' "$log" || { echo "fidelity: no rows in $log" >&2; exit 1; }
  {
    printf '| policy | workload | figure | simulated | live | error |\n|---|---|---|---:|---:|---:|\n'
    tr -d '\r' <"$log" | grep '^| '
  } | "$here/insert.sh" "$2" "$cpus CPU"
  {
    echo '```toml'
    tr -d '\r' <"$log" | sed -nE '/^[a-z_]+ = \{/s/, source.*/ }/p'
    echo '```'
  } | "$here/insert.sh" "$2" "costs $cpus CPU"
done
echo "fidelity: $2"
