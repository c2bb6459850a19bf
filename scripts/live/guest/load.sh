#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# load.sh SECONDS: runs a mixed load of computing tasks with different nice values, hackbench, chat,
# forks, pipes, changes of affinity and nice value, and a real-time task.
#
# Meanwhile, CPU 3, to which three tasks are bound, goes offline and online again and again. It is
# offline only when all tasks have left it. The seconds that this takes go to /tmp/offline.
end=$(($(date +%s) + $1))
others=""
until_end() { while [ "$(date +%s)" -lt $end ]; do "$@"; done; }
for nice in 0 0 0 5 19; do
  nice -n $nice sh -c 'while :; do :; done' &
  others="$others $!"
  last=$!
done
pinned=""
for hog in 1 2 3; do
  sh -c 'while :; do :; done' &
  pinned="$pinned $!"
done
forks() { /bin/true; (/bin/true); /bin/true; }
pipes() { seq 50 | while read -r line; do echo "$line"; done | cat >/dev/null; usleep 500; }
changes() {
  taskset -p 1 $last >/dev/null; usleep 20000
  taskset -p f $last >/dev/null; renice -n 5 -p $last >/dev/null; usleep 20000
  renice -n 0 -p $last >/dev/null; usleep 20000
}
realtime() { chrt -f 10 sh -c 'i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); done'; usleep 50000; }
hotplug() {
  # The kernel lets a task whose only CPU went offline run on all CPUs from then on.
  for hog in $pinned; do taskset -p 8 "$hog" >/dev/null; done
  sleep 3
  began=$(cut -d' ' -f1 /proc/uptime)
  echo 0 >/sys/devices/system/cpu/cpu3/online 2>/dev/null
  echo "$began $(cut -d' ' -f1 /proc/uptime)" | awk '{ printf "%.1f\n", $2 - $1 }' >>/tmp/offline
  sleep 1; echo 1 >/sys/devices/system/cpu/cpu3/online 2>/dev/null
  sleep 2
}
chat() { windtunnel live run chat:rooms=1,users=4 --for 500ms; }
messages() { windtunnel live run hackbench:groups=1,fds=5,loops=20 --for 500ms; usleep 200000; }
until_end chat & pids=$!
until_end messages & pids="$pids $!"
until_end forks & pids="$pids $!"
until_end pipes & pids="$pids $!"
until_end pipes & pids="$pids $!"
until_end changes & pids="$pids $!"
until_end realtime & pids="$pids $!"
until_end hotplug & pids="$pids $!"
wait $pids
kill -9 $others $pinned
wait 2>/dev/null
