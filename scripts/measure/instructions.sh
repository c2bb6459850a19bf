#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# instructions.sh [COMMAND]: counts the instructions that the host executes for a simulated context
# switch. COMMAND is the simulator, by default target/release/windtunnel. Fails if there are over
# 1.5 % more than in the last row for a release build in docs/speed.md.
#
# Valgrind counts them, so a busy host does not matter. Two runs of different length are subtracted,
# which removes the start of the run and the compilation of the policy.
set -eu
cd "$(dirname "$0")/../.."
command=${1:-target/release/windtunnel}
short=10ms long=40ms

if ! command -v valgrind >/dev/null; then
  echo "SKIPPED instructions.sh: valgrind is missing (scripts/setup.sh test installs it)" |
    tee -a "${SKIPPED_TESTS:-/dev/null}"
  exit 0
fi

# Prints the instructions and the context switches of a run.
count() {
  local log
  log=$(mktemp)
  valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null --log-file="$log" \
    "$command" run vtime --machine "core:64 pu:1" --workload sleepers:n=1000,run=50us,sleep=50us \
    --for "$1" --no-cache --json - |
    sed -n 's/^ *"context_switches": \([0-9]*\),$/\1/p' | head -1
  sed -n 's/.*I *refs: *//p' "$log" | tr -d ,
  rm "$log"
}

{
  read -r short_switches
  read -r short_instructions
} < <(count $short)
{
  read -r long_switches
  read -r long_instructions
} < <(count $long)
now=$(((long_instructions - short_instructions) / (long_switches - short_switches)))

# The columns are: date, host, build, instructions per switch.
before=$(awk -F' *[|] *' '$4 == "release" && $5 ~ /^[0-9]+$/ { n = $5 } END { print n }' docs/speed.md)
echo "$now instructions per context switch; docs/speed.md has ${before:-no row for a release build}"
if [ -z "$before" ]; then
  exit 1
fi
if [ $((now * 1000)) -gt $((before * 1015)) ]; then
  echo "instructions.sh: this is over 1.5 % more. Make the change cheaper, or add a row with the reason" \
    "to the table in docs/speed.md" >&2
  exit 1
fi
