# SPDX-License-Identifier: GPL-2.0-only
"""The command `windtunnel` of the package."""

import signal
import sys

from windtunnel import _windtunnel


def main() -> None:
    """Run the command with the arguments of this process."""
    words = sys.argv[1:]
    if words[:1] == ["tune"]:
        from windtunnel._tune import main as tune

        sys.exit(_reported(tune, words[1:]))
    if words[:1] == ["mcp"]:
        from windtunnel._mcp import main as mcp

        sys.exit(_reported(mcp, words[1:]))
    # The command handles signals and closed pipes itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_windtunnel.command(["windtunnel", *words]))


def _reported(command, words):  # type: ignore[no-untyped-def]
    """Runs a command that is written in Python, and reports wrong inputs as the other commands do."""
    try:
        return command(words)
    except _windtunnel.Error as error:
        print(f"windtunnel: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    main()
