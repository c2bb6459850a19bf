# SPDX-License-Identifier: GPL-2.0-only
"""Reads the timeout of the watchdog from a sched_ext object. It is the initial value of timeout_ms in the callback table."""
import json
import os
import struct
import subprocess

# The kernel uses this timeout if timeout_ms is 0 (SCX_WATCHDOG_MAX_TIMEOUT).
DEFAULT_MS = 30_000


def timeout_ms(path):
    tool_path = os.environ["PATH"] + ":/usr/sbin"
    dumped = subprocess.run(
        ["bpftool", "-j", "btf", "dump", "file", path], capture_output=True, check=True, env={**os.environ, "PATH": tool_path}
    )
    types = json.loads(dumped.stdout)["types"]
    by_id = {entry["id"]: entry for entry in types}
    tables = [entry for entry in types if entry["kind"] == "STRUCT" and entry["name"] == "sched_ext_ops"]
    offsets = {
        entry["id"]: member["bits_offset"] // 8 for entry in tables for member in entry["members"] if member["name"] == "timeout_ms"
    }
    found = []
    for section in types:
        if section["kind"] != "DATASEC" or not section["name"].startswith(".struct_ops"):
            continue
        data = section_bytes(path, section["name"])
        for variable in section["vars"]:
            table = by_id[variable["type_id"]]["type_id"]
            if table in offsets:
                found.append(struct.unpack_from("<I", data, variable["offset"] + offsets[table])[0])
    return max((value or DEFAULT_MS for value in found), default=DEFAULT_MS)


def section_bytes(path, name):
    """Returns the contents of a section of a 64-bit little-endian ELF file."""
    with open(path, "rb") as file:
        elf = file.read()
    headers, (size, number, names) = struct.unpack_from("<Q", elf, 0x28)[0], struct.unpack_from("<HHH", elf, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", elf, headers + index * size) for index in range(number)]
    strings = sections[names][4]
    for at, _, _, _, offset, length in sections:
        start = strings + at
        if elf[start : elf.index(b"\0", start)].decode() == name:
            return elf[offset : offset + length]
    raise ValueError(f"{path}: there is no section {name}")
