# SPDX-License-Identifier: GPL-2.0-only
"""Settings for all tests."""

import signal

# Shells let their background jobs ignore Ctrl-C, and processes inherit this. Python then raises no
# KeyboardInterrupt, for which several tests wait.
signal.signal(signal.SIGINT, signal.default_int_handler)
