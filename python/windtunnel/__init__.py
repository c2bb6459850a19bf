# SPDX-License-Identifier: GPL-2.0-only
"""A wind tunnel for Linux CPU schedulers.

Runs sched_ext BPF objects, and the kernel's fair class, on simulated machines. Equal arguments give
equal results on every host.
"""

from windtunnel._commands import compare, diff, invariants
from windtunnel._compile import compile
from windtunnel._result import Result
from windtunnel._run import run
from windtunnel._sweep import sweep
from windtunnel._windtunnel import Error, Table

__all__ = ["Error", "Result", "Table", "compare", "compile", "diff", "invariants", "run", "sweep"]
