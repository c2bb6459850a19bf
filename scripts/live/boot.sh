#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# boot.sh DIR INITRAMFS NAME: boots the kernel and prints its console, also into DIR/NAME.log. The
# exit status is that of the guest's test.
#
# KVM is not available everywhere, so QEMU emulates the CPUs. CLOCK selects how:
#
#   real   Each CPU is a thread in real time, and CPUs race as on hardware. A race in QEMU sometimes crashes the
#          guest while its kernel patches code, so a boot that ends without a result is repeated once.
#   exact  All CPUs take turns in one thread. Each instruction takes 1 ns of guest time, and idle time is skipped.
#          The same boot gives the same figures whatever else the host does. CPUs that are busy at the same time
#          share the guest's time.
#   slow   Like exact, but an instruction takes 16 ns. All CPUs together execute 62.5 million instructions a
#          second, about a quarter of the speed at which two host CPUs emulate in real time.
#
# More environment variables: CPUS, NODES (2: half of the CPUs and memory on each), MEMORY (MiB),
# LIMIT (seconds) and WORDS (kernel command line for the guest's test).
set -u
dir=$1 initramfs=$2 name=$3
cpus=${CPUS:-4} nodes=${NODES:-1} memory=${MEMORY:-2048}
words="quiet panic=-1 rcupdate.rcu_expedited=1 cryptomgr.notests tsc=reliable nowatchdog mitigations=off no_timer_check"
exact() { how=(-accel "tcg,thread=single" -icount "shift=$1,sleep=off" -rtc "base=2026-01-01,clock=vm"); }
case ${CLOCK:-real} in
  real) how=(-accel "tcg,thread=multi"); words="$words maxcpus=1" ;;
  exact) exact 0 ;;
  slow) exact 4 ;;
  *) echo "boot: CLOCK is real, exact or slow" >&2; exit 2 ;;
esac
shape=(-smp "$cpus" -m "$memory")
if [ "$nodes" = 2 ]; then
  shape=(-smp "$cpus,sockets=2,cores=$((cpus / 2))" -m "$memory")
  for node in 0 1; do
    shape+=(-object "memory-backend-ram,id=memory$node,size=$((memory / 2))M"
      -numa "node,nodeid=$node,memdev=memory$node,cpus=$((node * cpus / 2))-$(((node + 1) * cpus / 2 - 1))")
  done
  shape+=(-numa "dist,src=0,dst=1,val=20")
fi
for try in 1 2; do
  nice timeout "${LIMIT:-900}" "$dir/qemu-system-x86_64" -nodefaults -no-user-config -no-reboot -display none -monitor none \
    -machine q35 "${how[@]}" -cpu Nehalem "${shape[@]}" \
    -kernel "$dir/vmlinux" -initrd "$initramfs" -append "console=ttyS0 $words ${WORDS:-}" -serial stdio \
    </dev/null | tee "$dir/$name.log"
  status=$(sed -n 's/^RESULT \([0-9]*\).*/\1/p' "$dir/$name.log" | tail -1)
  [ -n "$status" ] && exit "$status"
  echo "boot: the guest died without a result (attempt $try)" >&2
done
exit 125
