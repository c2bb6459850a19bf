#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# docs.sh: builds the documentation as a web site (target/docs/site/index.html), with a sample report
# (report.html), and as man pages (target/docs/man).
#
# mdBook, which is installed into target/tools, requires all pages in one directory. The repository's
# Markdown files are therefore copied to target/docs/src. They keep their relative paths, so that links
# between them still work.
set -eu
cd "$(dirname "$0")/../.."
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
scripts/build/stage.py $out/src
MDBOOK_LOG=warn $mdbook build $out
# The report of the tutorial, whose top is docs/report.png.
target/release/windtunnel run fifo percpu -m x6-2 -w hackbench:groups=4,loops=100 \
  --html $out/site/report.html >/dev/null
echo "documentation: $out/site/index.html, man pages: $out/man, a sample report: $out/site/report.html"
