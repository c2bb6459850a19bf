#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# boot.sh DIR INITRAMFS [QEMU ARGUMENT...]: boots the kernel and prints its console; the exit status is the test's.
#
# There is no KVM for a stock kernel everywhere, so QEMU emulates. With several threads it sometimes crashes a guest (a race
# while the kernel patches its code): one retry when the guest died without a result. CPUS, MEMORY, LIMIT (seconds) and
# WORDS (for the guest's test) come from the environment.
set -u
dir=$1 initramfs=$2
shift 2
words="quiet panic=-1 maxcpus=1 rcupdate.rcu_expedited=1 cryptomgr.notests tsc=reliable nowatchdog mitigations=off"
for try in 1 2; do
  nice timeout "${LIMIT:-900}" "$dir/qemu-system-x86_64" -nodefaults -no-user-config -no-reboot -display none -monitor none \
    -machine q35 -accel tcg,thread=multi -cpu Nehalem -smp "${CPUS:-4}" -m "${MEMORY:-2G}" \
    -kernel "$dir/vmlinux" -initrd "$initramfs" -append "console=ttyS0 $words ${WORDS:-}" -serial stdio \
    "$@" </dev/null | tee "$dir/console.log"
  status=$(sed -n 's/^RESULT \([0-9]*\).*/\1/p' "$dir/console.log" | tail -1)
  [ -n "$status" ] && exit "$status"
  echo "boot: the guest died without a result (attempt $try)" >&2
done
exit 125
