#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# fidelity.sh POLICY...: executes and simulates workloads under each policy. Prints the results as
# rows of a Markdown table. The simulated machine has the topology of this guest, and costs that the
# script measures in this guest.
failed=0
machine=/tmp/guest.toml
windtunnel machine calibrate -o $machine 2>/dev/null || { echo "FAILED calibrate"; exit 1; }
grep -v '[<>]' $machine
for policy; do
  for workload in hackbench:groups=1,loops=200 lat_ctx:processes=2,rounds=10000 chat:rooms=1,users=5,messages=50 closed:n=6,compute=4ms,rounds=50 mixed.json; do
    windtunnel live compare "$policy" "$workload" -m $machine --for 3s --markdown >/tmp/rows 2>/tmp/err || { echo "FAILED $policy $workload"; cat /tmp/err; failed=1; }
    cat /tmp/rows
    grep -v '^ ' /tmp/err
  done
done
exit $failed
