# SPDX-License-Identifier: GPL-2.0-only
"""A wind tunnel for Linux CPU schedulers.

Runs sched_ext BPF objects, and the kernel's fair class, on simulated machines. Equal arguments give
equal results on every host.
"""

from windtunnel._commands import compare, diff, experiment, invariants, parameters, score
from windtunnel._compile import compile
from windtunnel._inputs import Machine, Workload
from windtunnel._report import Report, report
from windtunnel._result import Result
from windtunnel._run import run
from windtunnel._sweep import sweep
from windtunnel._tune import Tuned, tune
from windtunnel._windtunnel import Error, Table

__all__ = [
    "Error",
    "Machine",
    "Report",
    "Result",
    "Table",
    "Tuned",
    "Workload",
    "compare",
    "compile",
    "diff",
    "experiment",
    "invariants",
    "parameters",
    "report",
    "run",
    "score",
    "sweep",
    "tune",
]
