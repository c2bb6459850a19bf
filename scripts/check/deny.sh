#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# deny.sh: checks the licences, sources and versions of third-party crates with cargo-deny.
set -eu
cd "$(dirname "$0")/../.."
if ! cargo deny --version >/dev/null 2>&1; then
  echo "SKIPPED deny.sh: cargo-deny is missing (cargo install --locked cargo-deny)" |
    tee -a "${SKIPPED_TESTS:-/dev/null}"
  exit 0
fi
cargo deny --log-level warn --config scripts/check/deny.toml check --hide-inclusion-graph licenses bans sources
