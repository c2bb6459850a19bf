#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# fidelity.sh POLICY...: executes workloads under each policy, and saves the results in /tmp/out for
# scripts/live/fidelity.py, with a machine file that has this guest's topology and measured costs.
# Recordings are large, so only those under EEVDF are kept.
failed=0
out=/tmp/out
mkdir -p $out
windtunnel machine calibrate -o $out/guest.toml 2>/dev/null || { echo "FAILED calibrate"; exit 1; }
sh /costs.sh $out/guest.toml || failed=1
for policy; do
  while read -r name workload; do
    case $name in "" | "#"*) continue ;; esac
    windtunnel live compare "$policy" "$workload" --for 2s --save "$out/$policy/$name" >/tmp/err 2>&1 </dev/null ||
      { echo "FAILED $policy $workload"; cat /tmp/err; failed=1; }
    [ "$policy" = eevdf ] || rm -f "$out/$policy/$name/live.trace"
    echo "fidelity: $policy $name, up $(cut -d' ' -f1 /proc/uptime) s"
  done </fidelity.txt
done
exit $failed
