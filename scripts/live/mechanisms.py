#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
# mechanisms.py: prints the loads of `make live-test` from policies/policies.toml, in lines for a
# shell:
#   POLICY [SETTING...]: COUNTER...   a load, and the counters that it must move
#   !POLICY: COUNTER...               counters that no load moves reliably
import tomllib

with open("policies/policies.toml", "rb") as file:
    records = tomllib.load(file)
for name, record in records.items():
    if "still" in record:
        print(f"!{name}: {record['still']}")
for name, record in records.items():
    for load in record["live"]:
        print(f"{name} {load.get('set', '')}".strip() + f": {load['moves']}".rstrip())
