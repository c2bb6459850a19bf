#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""stage.py DIRECTORY: copies the pages of docs/SUMMARY.md and the files that they link to, for mdBook.

mdBook turns README.md into index.html but keeps links to README.md, so the copy is called index.md and
links follow. Links to files that are not copied, such as a source directory, become plain text."""
import os
import re
import shutil
import sys

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
SUMMARY = "docs/SUMMARY.md"


def index(path):
    return re.sub(r"(^|/)README\.md$", r"\1index.md", path)


def target(page, link):
    """Resolves a link to a path in the repository."""
    return os.path.normpath(os.path.join(os.path.dirname(page), link))


def make_parent(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)


def stage(page, pages, destination):
    """Copies a page with the pictures and data files that it links to."""

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
    # The copy of the summary is in the top directory, so tutorial.md becomes docs/tutorial.md, and
    # ../README.md becomes index.md.
    summary = LINK.sub(lambda match: f"[{match.group(2)}]({index(target(SUMMARY, match.group(3)))})", summary)
    with open(os.path.join(destination, "SUMMARY.md"), "w") as file:
        file.write(summary)


main()
