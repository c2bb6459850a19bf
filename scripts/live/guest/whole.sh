#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# whole.sh: executes workloads under EEVDF and under each scheduler's program (/bin/scx_*), and saves
# the results in /tmp/out for scripts/live/schedulers.py. Sends those of each scheduler to the host at once,
# because a slow host may end the guest before its last scheduler. If ONLY is set, all other schedulers are
# skipped. Recordings are large, so they are kept only if KEEP is set.
failed=0
out=/tmp/out
mkdir -p $out
# The second serial port is a file on the host, so no byte may change.
stty -F /dev/ttyS1 raw -echo
send() { tar -C $out -c "$1" | gzip >/dev/ttyS1; }
windtunnel machine calibrate -o $out/guest.toml 2>/dev/null || { echo "FAILED calibrate"; exit 1; }
sh /costs.sh $out/guest.toml || failed=1
send guest.toml
for scheduler in eevdf /bin/scx_*; do
  name=${scheduler##*/} policy=$scheduler
  [ "$name" = eevdf ] || policy="exec: $scheduler $(sed -n "s/^$name //p" /schedulers.txt)"
  case ",$ONLY," in ,, | *",$name,"*) ;; *) continue ;; esac
  mkdir -p "$out/$name"
  while read -r workload description; do
    case $workload in "" | "#"*) continue ;; esac
    windtunnel live compare "$policy" "$description" --for 200ms --save "$out/$name/$workload" >/tmp/err 2>&1 </dev/null || {
      echo "whole: no result: $name $workload"
      sed 's/^/  /' /tmp/err
      # A scheduler that was not enabled within a minute would not be enabled for the next workload, either.
      ! grep -q ' enabled ' /tmp/err || break
    }
    [ -n "$KEEP" ] || rm -f "$out/$name/$workload/live.trace"
    echo "whole: $name $workload, up $(cut -d' ' -f1 /proc/uptime) s"
  done </whole.txt
  send "$name"
done
exit $failed
