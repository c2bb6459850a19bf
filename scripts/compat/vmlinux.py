#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""vmlinux.py BZIMAGE OUT: unpacks the kernel's ELF file from a bzImage. The ELF file contains the kernel's BTF.

The header of the boot protocol (Documentation/arch/x86/boot.rst) contains the position of the compressed kernel.
"""
import struct
import subprocess
import sys

SETUP_SECTS, PAYLOAD_OFFSET, PAYLOAD_LENGTH = 0x1F1, 0x248, 0x24C
TOOLS = {b"\x28\xb5\x2f\xfd": ["zstd", "-dc"], b"\xfd7zX": ["xz", "-dc"], b"\x1f\x8b": ["gzip", "-dc"]}

with open(sys.argv[1], "rb") as file:
    image = file.read()
if image[0x202:0x206] and image[0x1FE:0x200] != b"\x55\xaa":
    sys.exit(f"{sys.argv[1]}: not a bzImage")
start = 512 * ((image[SETUP_SECTS] or 4) + 1) + struct.unpack_from("<I", image, PAYLOAD_OFFSET)[0]
payload = image[start : start + struct.unpack_from("<I", image, PAYLOAD_LENGTH)[0]]
for magic, tool in TOOLS.items():
    if payload.startswith(magic):
        # The last four bytes are not part of the compressed stream. They are the uncompressed size.
        payload = subprocess.run(tool, input=payload[:-4], stdout=subprocess.PIPE, check=True).stdout
if not payload.startswith(b"\x7fELF"):
    sys.exit(f"{sys.argv[1]}: unknown compression format: {payload[:6].hex()}")
with open(sys.argv[2], "wb") as file:
    file.write(payload)
