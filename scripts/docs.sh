#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# docs.sh: builds the documentation as a web site (target/docs/site/index.html) and as man pages
# (target/docs/man).
#
# The site is built by mdBook, which the script installs into target/tools. mdBook requires all
# pages to be in one directory. The repository's Markdown files are therefore copied to
# target/docs/src, with the same relative paths, so that links between them still work.
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
