# SPDX-License-Identifier: GPL-2.0-only
"""Converts messages of the command into exceptions."""

from __future__ import annotations

import re

from windtunnel._windtunnel import Error

_MESSAGE = re.compile(
    r"(?:(?P<place>[^\s:][^:\n]*):(?P<line>\d+):(?P<column>\d+): )?(?P<message>.*?)(?:\n  hint: (?P<hint>.*))?",
    re.DOTALL,
)


def error(text: str, kind: str = "input") -> Error:
    """Parses a message such as `sweep.toml:4:1: unknown key`, which a hint may follow."""
    text = text.strip().removeprefix("windtunnel: ")
    if text.startswith("error: "):
        kind = "usage"
    found = _MESSAGE.fullmatch(text)
    made = Error(text)
    made.kind = kind
    made.message = found["message"] if found else text
    made.place = found["place"] if found else None
    made.line = int(found["line"]) if found and found["line"] else None
    made.column = int(found["column"]) if found and found["column"] else None
    made.hint = found["hint"] if found else None
    return made
