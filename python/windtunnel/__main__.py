# SPDX-License-Identifier: GPL-2.0-only
"""`python -m windtunnel` is the command `windtunnel`."""

from windtunnel._command import main

main()
