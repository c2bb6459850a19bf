#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
# extract_vmlinux.py BZIMAGE OUT: extracts the kernel's ELF file from a zstd-compressed bzImage. QEMU
# boots it directly (PVH), which saves the guest the decompression.
import sys, struct, subprocess
d = open(sys.argv[1], 'rb').read()
setup = (d[0x1f1] or 4) + 1
off, ln = struct.unpack_from('<II', d, 0x248)      # payload_offset, payload_length
p = d[setup*512 + off : setup*512 + off + ln]
if p[:4] == b'\x28\xb5\x2f\xfd':
    p = subprocess.run(['zstd','-dc'], input=p[:-4], stdout=subprocess.PIPE).stdout
assert p[:4] == b'\x7fELF', p[:4]
open(sys.argv[2], 'wb').write(p)
