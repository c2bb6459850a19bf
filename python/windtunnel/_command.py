# SPDX-License-Identifier: GPL-2.0-only
"""The command `windtunnel` of the package."""

import signal
import sys

from windtunnel import _windtunnel


def main() -> None:
    """Run the command with the arguments of this process."""
    # The command handles signals and closed pipes itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_windtunnel.command(["windtunnel", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
