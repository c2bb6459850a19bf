#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""found.py DIR WINDTUNNEL: checks that docs/found.md shows what its commands print.

The commands need the schedulers that objects.sh compiles into DIR, so no test of the documents runs them. Each line that
the page shows must be part of the output, in the same order; `...` stands for lines that the page leaves out. The exit
status is 1 if a line is missing."""
import os
import re
import subprocess
import sys
import tempfile

PAGE = "docs/found.md"
BLOCK = re.compile(r"^```(json file=(?P<file>\S+)|console norun=compat)\n(?P<lines>.*?)^```$", re.M | re.S)


def main():
    folder, windtunnel = map(os.path.abspath, sys.argv[1:])
    environment = {**os.environ, "PATH": f"{os.path.dirname(windtunnel)}:{os.environ['PATH']}", "NO_COLOR": "1"}
    with open(PAGE) as file:
        page = file.read()
    wrong = []
    with tempfile.TemporaryDirectory() as work:
        # The commands of the page name the objects relative to the repository.
        os.mkdir(f"{work}/target")
        os.symlink(folder, f"{work}/target/compat")
        for name in ("profiles", "workloads"):
            os.symlink(os.path.abspath(name), f"{work}/{name}")
        for block in BLOCK.finditer(page):
            if block["file"]:
                with open(f"{work}/{block['file']}", "w") as file:
                    file.write(block["lines"])
                continue
            command, *shown = block["lines"].splitlines()
            ran = subprocess.run(command.removeprefix("$ "), shell=True, cwd=work, env=environment, capture_output=True, text=True)
            output = ran.stderr + ran.stdout
            missing = first_missing(shown, output.splitlines())
            if missing is not None:
                wrong.append(command)
                print(f"{PAGE}: {command}\n  is shown with the line: {missing}\n  and prints:\n{output}", file=sys.stderr)
    print(f"{PAGE}: {len(BLOCK.findall(page)) - page.count('```json file=')} commands, {len(wrong)} with a different output")
    sys.exit(1 if wrong else 0)


def first_missing(shown, output):
    """The first shown line that does not follow the lines before it in the output, or None."""
    rest = iter(line.rstrip() for line in output)
    for line in shown:
        if line != "..." and line not in rest:
            return line
    return None


main()
