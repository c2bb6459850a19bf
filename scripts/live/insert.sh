#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# insert.sh FILE MARK: replaces a part of FILE by standard input. The part is between the line
# "<!-- MARK -->" and the next line "<!-- end -->".
set -eu
table=$(mktemp)
trap 'rm -f "$table"' EXIT
cat >"$table"
awk -v table="$table" -v from="<!-- $2 -->" '
  $0 == from { print; while ((getline line < table) > 0) print line; inside = 1; next }
  inside && $0 == "<!-- end -->" { inside = 0 }
  !inside' "$1" >"$1.new"
mv "$1.new" "$1"
