#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""pictures.py terminal|report...: draws the pictures of the pages, with the `windtunnel` in the PATH.

`terminal` draws docs/terminal.svg, the output of a command on a terminal. `report` draws docs/report.png, the top of an
HTML report in a browser. Each picture contains its command, and report.png also the checksum of the report, so that a
test (documents::pictures) can run the command and notice an outdated picture."""
import fcntl
import html
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import zlib

TERMINAL = "windtunnel run fifo percpu -m smp4 -w closed:n=6,compute=8ms,think=2ms --for 60ms --draw"
REPORT = "windtunnel run fifo percpu -m x6-2 -w hackbench:groups=4,loops=100"
# Size of the browser's window in pixels. The window shows the verdict, the summary and one timeline.
WINDOW = "1180,1275"
BROWSERS = ["chromium-headless-shell", "chromium", "chromium-browser"]
COLUMNS = 100
# Size of a character cell in pixels, and the colours of a dark terminal.
WIDTH, HEIGHT, MARGIN = 8.4, 17, 16
BACKGROUND, TEXT = "#1b1d23", "#d8dee9"
COLOURS = {8: "#7f8796", 9: "#f07178", 10: "#a5d67a", 11: "#ecc48d", 12: "#82aaff", 13: "#c792ea", 14: "#89ddff"}


def terminal_output():
    """Runs the command on a terminal, with colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "CLICOLOR_FORCE": "1", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(TERMINAL.split(), stdin=subprocess.DEVNULL, stdout=theirs, env=environment)
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
        raise SystemExit(f"pictures: {TERMINAL} fails")
    return data.decode().replace("\r\n", "\n").rstrip("\n")


def spans(line):
    """Splits a line into parts of one colour and weight."""
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
            raise SystemExit(f"pictures: the escape sequence {part!r} is unknown")


def draw_terminal():
    lines = [f"$ {TERMINAL}"]
    for line in terminal_output().split("\n"):
        # Long lines wrap, as on a terminal. None of them has colours.
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
        "<!-- Drawn by scripts/build/pictures.py from a run. -->",
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


def draw_report():
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit(f"pictures: none of {BROWSERS} is installed: scripts/setup.sh test")
    with tempfile.TemporaryDirectory() as folder:
        page, picture = f"{folder}/report.html", f"{folder}/report.png"
        subprocess.run([*REPORT.split(), "--html", page], stdout=subprocess.DEVNULL, check=True)
        # The virtual time lets the page's scripts finish before the screenshot.
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={WINDOW}"]
        options += ["--virtual-time-budget=5000", f"--user-data-dir={folder}/profile", f"--screenshot={picture}"]
        subprocess.run([browser, *options, f"file://{page}"], stderr=subprocess.DEVNULL, check=True)
        with open(page, "rb") as file:
            checksum = zlib.crc32(file.read())
        with open(picture, "rb") as file:
            png = file.read()
    with open("docs/report.png", "wb") as file:
        file.write(with_texts(png, {"Command": REPORT, "Report": f"{checksum:08x}"}))


def with_texts(png, texts):
    """Inserts a text chunk (tEXt) for each key in front of the end of a PNG file."""
    end = png.rindex(b"IEND") - 4
    chunks = b""
    for key, text in texts.items():
        body = b"tEXt" + key.encode() + b"\0" + text.encode()
        chunks += struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return png[:end] + chunks + png[end:]


def main():
    pictures = {"terminal": draw_terminal, "report": draw_report}
    names = sys.argv[1:]
    if not names or not pictures.keys() >= set(names):
        raise SystemExit(f"usage: pictures.py {'|'.join(pictures)}...")
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    for name in names:
        pictures[name]()


main()
