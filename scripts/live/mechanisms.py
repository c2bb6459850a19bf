#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
# mechanisms.py: prints how `make live-test` must load each policy, from policies/policies.toml, in
# lines for a shell:
#   POLICY [SETTING...]: COUNTER...   a load with these settings must increase the counters
#   !POLICY: COUNTER...               no load increases these counters reliably
import tomllib

with open("policies/policies.toml", "rb") as file:
    records = tomllib.load(file)
for name, record in records.items():
    if "still" in record:
        print(f"!{name}: {record['still']}")
for name, record in records.items():
    for load in record["live"]:
        print(f"{name} {load.get('set', '')}".strip() + f": {load['moves']}".rstrip())
