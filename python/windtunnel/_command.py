# SPDX-License-Identifier: GPL-2.0-only
"""The command `windtunnel` of the package."""

import json
import signal
import sys

from windtunnel import _windtunnel


def main() -> None:
    """Run the command with the arguments of this process."""
    words = sys.argv[1:]
    if words[:1] in (["tune"], ["mcp"]):
        sys.exit(_in_python(words))
    # The command handles signals and closed pipes itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_windtunnel.command(["windtunnel", *words]))


def _in_python(words: list[str]) -> int:
    """Runs a command that is written in Python. Reports wrong inputs like the other commands."""
    options, status = _windtunnel.options(["windtunnel", *words])
    if options is None:
        return status
    if words[0] == "tune":
        from windtunnel._tune import main as command
    else:
        from windtunnel._mcp import main as command
    try:
        return command(json.loads(options))
    except _windtunnel.Error as error:
        print(f"windtunnel: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    main()
