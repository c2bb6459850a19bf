#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# features.sh: tests that third-party crates have the same features whichever package is built.
# Otherwise cargo would compile them, and everything that uses them, once for each set of features.
#
# Compares the features in `cargo build -p NAME` and `cargo test -p NAME` with those in the same command
# for the whole workspace. crates/features exists to make them the same.
set -eu
cd "$(dirname "$0")/../.."
# Packages whose features differ. They are small, so little is compiled again.
exceptions=" report shipped "

# features EDGES PACKAGES...: prints each crate with its version and features.
features() {
  local edges=$1
  shift
  cargo tree "$@" --edges "$edges" --prefix none --format '{p} [{f}]' |
    sed 's/ (\*)$//; s/ (proc-macro)//; s| (/[^)]*)||' | sort -u
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0
for edges in normal,build normal,build,dev; do
  features $edges --workspace >"$scratch/all"
  for manifest in crates/*/Cargo.toml; do
    name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -1)
    [[ $exceptions = *" $name "* ]] && continue
    features $edges -p "$name" >"$scratch/one"
    different=$(comm -13 "$scratch/all" "$scratch/one")
    [ -n "$different" ] || continue
    status=1
    {
      echo "features: with -p $name ($edges), these crates have other features than with --workspace:"
      while read -r crate version has; do
        echo "  $crate $version: $has, but $(grep -F "$crate $version " "$scratch/all" | cut -d' ' -f3- | tr '\n' ' ')with --workspace"
      done <<<"$different"
    } >&2
  done
done
[ $status = 0 ] || echo "features: add the features of --workspace to crates/features/Cargo.toml" >&2
exit $status
