#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# boot.sh DIR INITRAMFS NAME: boots the kernel DIR/vmlinux in QEMU, and ends with the exit status of the
# test that runs in the guest. The guest's console is printed and written to DIR/NAME.log; its second
# serial port is the file DIR/NAME.data.
#
# KVM is not available everywhere, so QEMU emulates the CPUs. CLOCK says how time passes in the guest:
#
#   real   Each CPU of the guest is a thread of QEMU and runs in real time, so CPUs race as on real
#          hardware. Because of a race in QEMU, the guest sometimes crashes while its kernel patches
#          code, so a boot that ends without a result is repeated once.
#   exact  All CPUs take turns in one thread. Each instruction takes 1 ns of guest time, and idle time
#          is skipped. The same boot always gives the same figures, whatever else the host does. CPUs
#          that are busy at the same time share the guest's time.
#   slow   The same as exact, but an instruction takes 16 ns. All CPUs together execute 62.5 million
#          instructions in a second of guest time. With CLOCK=real, two host CPUs execute about four
#          times as many.
#
# The other environment variables are
#
#   CPUS     number of CPUs
#   LLCS     number of LLCs, among which the CPUs are divided
#   NODES    number of NUMA nodes: 1, or 2 with half of the CPUs and the memory each
#   MEMORY   memory in MiB
#   LIMIT    time limit in seconds
#   TURN     for CLOCK=exact: longest time in us for which a CPU runs before the next CPU runs
#   WORDS    options for the guest's test, which are appended to the kernel's command line
set -u
cd "$(dirname "$0")/../.."
dir=$1 initramfs=$2 name=$3
cpus=${CPUS:-4} nodes=${NODES:-1} memory=${MEMORY:-2048}
words="quiet panic=-1 rcupdate.rcu_expedited=1 cryptomgr.notests tsc=reliable nowatchdog mitigations=off no_timer_check"
# Prints the frequency of the host's time-stamp counter, which the guest uses, too. If the guest measured
# it on a busy host, its clock could become 14 times too fast.
tsc_khz() {
  if [ ! -x "$dir/tsc_khz" ]; then
    gcc -O1 -Wall scripts/live/tsc_khz.c -o "$dir/tsc_khz.$name" && mv "$dir/tsc_khz.$name" "$dir/tsc_khz"
  fi
  "$dir/tsc_khz"
}
exact() { how=(-accel "tcg,thread=single" -icount "shift=$1,sleep=off" -rtc "base=2026-01-01,clock=vm"); }
case ${CLOCK:-real} in
  real) how=(-accel "tcg,thread=multi"); words="$words maxcpus=1 tsc_early_khz=$(tsc_khz)" ;;
  exact) exact 0 ;;
  slow) exact 4 ;;
  *) echo "boot: CLOCK=$CLOCK: expected real, exact or slow" >&2; exit 2 ;;
esac
shape=(-smp "$cpus,sockets=${LLCS:-1},cores=$((cpus / ${LLCS:-1}))" -m "$memory")
if [ "$nodes" = 2 ]; then
  shape=(-smp "$cpus,sockets=2,cores=$((cpus / 2))" -m "$memory")
  for node in 0 1; do
    shape+=(-object "memory-backend-ram,id=memory$node,size=$((memory / 2))M"
      -numa "node,nodeid=$node,memdev=memory$node,cpus=$((node * cpus / 2))-$(((node + 1) * cpus / 2 - 1))")
  done
  shape+=(-numa "dist,src=0,dst=1,val=20")
fi
# A CPU's turn ends when 1/cpus of the time until QEMU's next timer has passed. A network filter that
# buffers nothing is such a timer, which the guest does not notice.
if [ -n "${TURN:-}" ] && [ "$cpus" -gt 1 ]; then
  shape+=(-netdev hubport,id=turns,hubid=0 -object "filter-buffer,id=turn,netdev=turns,interval=$((TURN * cpus))")
fi
for try in 1 2; do
  nice timeout --foreground "${LIMIT:-900}" "$dir/qemu-system-x86_64" -nodefaults -no-user-config -no-reboot -display none -monitor none \
    -machine q35 "${how[@]}" -cpu Nehalem "${shape[@]}" \
    -kernel "$dir/vmlinux" -initrd "$initramfs" -append "console=ttyS0 $words ${WORDS:-}" -serial stdio -serial "file:$dir/$name.data" \
    </dev/null | tee "$dir/$name.log"
  status=$(sed -n 's/^RESULT \([0-9]*\).*/\1/p' "$dir/$name.log" | tail -1)
  [ -n "$status" ] && exit "$status"
  echo "boot: the guest ended without a result (attempt $try)" >&2
done
exit 125
