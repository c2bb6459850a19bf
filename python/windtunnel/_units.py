# SPDX-License-Identifier: GPL-2.0-only
"""Times and sizes that callers give. A number without a unit is an error."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from windtunnel._errors import error

Time = str | timedelta

_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}


def duration(name: str, value: Time | None) -> str | None:
    """Converts a time to the notation of the command's options, for example "500ms".

    name: the parameter, for error messages.

    Raises windtunnel.Error if the value is neither a text nor a timedelta.
    """
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)}us"
    if value is None or isinstance(value, str):
        return value
    raise _without_unit(name, value, f'"{value}ms"', ' (or ns, us, s, min), or a datetime.timedelta')


def nanoseconds(name: str, value: Time | None) -> int | None:
    """Converts a time to nanoseconds."""
    text = duration(name, value)
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ns|us|ms|s|min)", text)
    if not found:
        raise ValueError(f"{name}={text!r}: expected a number with ns, us, ms, s or min, for example 500ms")
    return int(float(found[1]) * _NS[found[2]])


def size(name: str, value: str | None) -> str | None:
    """Checks that a size of memory is a text with a unit, for example "512M"."""
    if value is None or isinstance(value, str):
        return value
    raise _without_unit(name, value, f'"{value}M"', " (or B, K, G, T)")


def _without_unit(name: str, value: Any, example: str, others: str) -> Exception:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return error(f"{name}={value} has no unit\n  hint: write {name}={example}{others}")
    usual = example.replace(str(value), "100")
    return error(f"{name}={value!r}: expected a text such as {name}={usual}{others}")
