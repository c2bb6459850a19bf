#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""stage.py DIRECTORY: copies the pages that docs/SUMMARY.md lists, and the files to which they link, to DIRECTORY for mdBook.

mdBook turns README.md into index.html, but does not change links to README.md. The copy of a
README.md is therefore called index.md, and links to it are changed. A link becomes plain text if
its target is not copied, for example a link to a source directory."""
import os
import re
import shutil
import sys

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
SUMMARY = "docs/SUMMARY.md"


def index(path):
    return re.sub(r"(^|/)README\.md$", r"\1index.md", path)


def target(page, link):
    """Returns the target of a link, as a path in the repository."""
    return os.path.normpath(os.path.join(os.path.dirname(page), link))


def make_parent(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)


def stage(page, pages, destination):
    """Copies a page, and the pictures and data files to which it links."""

    def link(match):
        mark, text, link, anchor = match.groups()
        path = target(page, link)
        if "://" in link or not link or path in pages:
            return f"{mark}[{text}]({index(link)}{anchor or ''})"
        if os.path.isfile(path) and not path.endswith(".md"):
            make_parent(os.path.join(destination, path))
            shutil.copy(path, os.path.join(destination, path))
            return match.group(0)
        return text

    with open(page) as file:
        text = LINK.sub(link, file.read())
    make_parent(os.path.join(destination, page))
    with open(os.path.join(destination, index(page)), "w") as file:
        file.write(text)


def main():
    destination = sys.argv[1]
    with open(SUMMARY) as file:
        summary = file.read()
    pages = {target(SUMMARY, match.group(3)) for match in LINK.finditer(summary)}
    for page in pages:
        stage(page, pages, destination)
    # In the copy, the summary is in the top directory. Its links change accordingly: tutorial.md
    # becomes docs/tutorial.md, and ../README.md becomes index.md.
    summary = LINK.sub(lambda match: f"[{match.group(2)}]({index(target(SUMMARY, match.group(3)))})", summary)
    with open(os.path.join(destination, "SUMMARY.md"), "w") as file:
        file.write(summary)


main()
