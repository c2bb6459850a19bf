#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# programs.sh: executes real programs and the workloads that stand for them under EEVDF, and saves the
# results in /tmp/out for scripts/live/programs.py. Programs that the guest lacks are skipped, and if
# ONLY is set, all but those names.
failed=0
out=/tmp/out
mkdir -p $out/workload $out/program
windtunnel machine calibrate -o $out/guest.toml 2>/dev/null || { echo "FAILED calibrate"; exit 1; }
sh /costs.sh $out/guest.toml || failed=1
work=1us
if command -v schbench >/dev/null; then
  # In calibration mode, the request latency is the computing time.
  work=$(schbench -C -L -m 1 -t 1 -r 1 -w 0 -i 10 -n 1 -F 18 -s 0 2>&1 |
    awk '/^Request/ { requests = 1 } requests && /50.0th/ { print $2; exit }')us
  echo "programs: a request of schbench computes for $work"
fi
try() {
  name=$1 side=$2
  shift 2
  windtunnel live compare eevdf "$@" --for 5s --save "$out/$side/$name" >/tmp/err 2>&1 </dev/null ||
    { echo "FAILED $side $name: $*"; cat /tmp/err; failed=1; }
}
while IFS=';' read -r name workload command; do
  case $name in "" | "#"*) continue ;; esac
  case ",$ONLY," in ,, | *",$name,"*) ;; *) continue ;; esac
  workload=$(echo "$workload" | sed "s/^ *//; s/@WORK@/$work/")
  command=$(echo "$command" | sed 's/^ *//')
  command -v "${command%% *}" >/dev/null || { echo "programs: ${command%% *} is missing, so $name is skipped"; continue; }
  echo "$name;$workload;$command" >>$out/programs.txt
  try "$name" workload "$workload"
  try "$name" program "$workload" --program "$command"
  # Recordings are large.
  [ -n "$KEEP" ] || rm -f "$out"/*/"$name"/live.trace
  echo "programs: $name, up $(cut -d' ' -f1 /proc/uptime) s"
done </programs.txt
exit $failed
