#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""picture.py: draws the picture that the README shows, docs/terminal.svg.

The picture shows the output of the command below on a terminal of 100 columns, with the colours of the terminal."""
import fcntl
import html
import os
import pty
import re
import struct
import subprocess
import termios

COMMAND = "windtunnel run fifo percpu -m smp4 -w closed:n=6,compute=8ms,think=2ms --for 60ms --draw"
COLUMNS = 100
# Size of a character cell in pixels, and the colours of a dark terminal.
WIDTH, HEIGHT, MARGIN = 8.4, 17, 16
BACKGROUND, TEXT = "#1b1d23", "#d8dee9"
COLOURS = {8: "#7f8796", 9: "#f07178", 10: "#a5d67a", 11: "#ecc48d", 12: "#82aaff", 13: "#c792ea", 14: "#89ddff"}


def output():
    """Returns what the command prints to a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    path = os.path.abspath("target/release") + ":" + os.environ["PATH"]
    environment = {"PATH": path, "TERM": "xterm", "CLICOLOR_FORCE": "1", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(COMMAND.split(), stdin=subprocess.DEVNULL, stdout=theirs, env=environment)
    os.close(theirs)
    data = b""
    while True:
        try:
            read = os.read(ours, 4096)
        except OSError:
            break
        if not read:
            break
        data += read
    if process.wait() != 0:
        raise SystemExit(f"picture: {COMMAND} fails")
    return data.decode().replace("\r\n", "\n").rstrip("\n")


def spans(line):
    """Yields the parts of a line with their colour and weight."""
    colour, weight = TEXT, "normal"
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if not part.startswith("\x1b"):
            if part:
                yield part, colour, weight
            continue
        code = part[2:-1]
        if code == "0":
            colour, weight = TEXT, "normal"
        elif code == "1":
            weight = "bold"
        elif code.startswith("38;5;"):
            colour = COLOURS[int(code.removeprefix("38;5;"))]
        else:
            raise SystemExit(f"picture: the escape sequence {part!r} is unknown")


def main():
    lines = [f"$ {COMMAND}"]
    for line in output().split("\n"):
        # A line that is longer than a row continues on the next row, as on a terminal. Only lines
        # without colours are so long.
        while "\x1b" not in line and len(line) > COLUMNS:
            lines.append(line[:COLUMNS])
            line = line[COLUMNS:]
        lines.append(line)
    width = COLUMNS * WIDTH + 2 * MARGIN
    height = len(lines) * HEIGHT + 2 * MARGIN
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" font-size="14"'
        ' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace">',
        "<!-- SPDX-License-Identifier: GPL-2.0-only -->",
        "<!-- Drawn by scripts/picture.py from a run. -->",
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
    ]
    for number, line in enumerate(lines):
        column = 0
        y = MARGIN + (number + 0.75) * HEIGHT
        for text, colour, weight in spans(line):
            if text.strip():
                # textLength keeps the columns aligned in every font.
                svg.append(
                    f'<text x="{MARGIN + column * WIDTH:.1f}" y="{y:.1f}" fill="{colour}" font-weight="{weight}"'
                    f' textLength="{len(text) * WIDTH:.1f}" xml:space="preserve">{html.escape(text)}</text>'
                )
            column += len(text)
    svg.append("</svg>")
    with open("docs/terminal.svg", "w") as file:
        file.write("\n".join(svg) + "\n")


os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
main()
