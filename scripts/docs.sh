#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# docs.sh: builds the documentation as a site, target/docs/site/index.html, and man pages, target/docs/man.
#
# mdBook is installed into target/tools. mdBook wants all pages in one directory, so the repository's Markdown files are
# copied to target/docs/src at the same relative paths, and links between them work unchanged.
set -eu
cd "$(dirname "$0")/.."
mdbook_version=0.5.4

mdbook=target/tools/bin/mdbook
if [ "$($mdbook --version 2>/dev/null)" != "mdbook v$mdbook_version" ]; then
  cargo install mdbook --version $mdbook_version --locked --quiet --no-default-features --features search --root target/tools
fi

out=target/docs
rm -rf $out/src $out/site
mkdir -p $out/src
target/release/windtunnel docs $out
cp docs/book.toml $out/
scripts/docs/stage.py $out/src
MDBOOK_LOG=warn $mdbook build $out
echo "documentation: $out/site/index.html, man pages: $out/man"
