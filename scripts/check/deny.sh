#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# deny.sh: checks the licences, sources, versions and known vulnerabilities of third-party crates
# with cargo-deny.
set -eu
cd "$(dirname "$0")/../.."
skip() {
  echo "SKIPPED deny.sh: $*" | tee -a "${SKIPPED_TESTS:-/dev/null}"
}
if ! cargo deny --version >/dev/null 2>&1; then
  skip "cargo-deny is missing (cargo install --locked cargo-deny)"
  exit 0
fi
deny=(cargo deny --log-level warn --config scripts/check/deny.toml)
checks=(licenses bans sources)
# Without a network, the other checks still work.
if output=$("${deny[@]}" fetch db 2>&1); then
  checks+=(advisories)
else
  skip "the advisory database cannot be fetched: $(tail -1 <<<"$output")"
fi
"${deny[@]}" check --hide-inclusion-graph "${checks[@]}"
