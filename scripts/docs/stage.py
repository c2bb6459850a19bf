#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""stage.py DIRECTORY: copies the pages of docs/SUMMARY.md to DIRECTORY for mdBook, with the files that they link to.

mdBook turns README.md into index.html but leaves links to README.html, so a copy of README.md is called index.md here.
Links to files and directories that are no pages of the site, such as source directories, become plain text."""
import os
import re
import shutil
import sys

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
SUMMARY = "docs/SUMMARY.md"


def index(path):
    return re.sub(r"(^|/)README\.md$", r"\1index.md", path)


def target(page, link):
    """Returns the path in the repository of a link's target."""
    return os.path.normpath(os.path.join(os.path.dirname(page), link))


def make_parent(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)


def stage(page, pages, destination):
    """Copies a page, and the pictures and data files that it links to."""

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
    # The summary lies at the top of the copy: docs/tutorial.md instead of tutorial.md, index.md instead of ../README.md.
    summary = LINK.sub(lambda match: f"[{match.group(2)}]({index(target(SUMMARY, match.group(3)))})", summary)
    with open(os.path.join(destination, "SUMMARY.md"), "w") as file:
        file.write(summary)


main()
