# SPDX-License-Identifier: GPL-2.0-only
"""Runs one policy."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping

from windtunnel import _windtunnel
from windtunnel._result import Result
from windtunnel._units import Time, duration, size

Setting = int | bool | str


def run(
    policy: str | os.PathLike[str],
    *,
    machine: str | os.PathLike[str] = "numa32",
    workload: str | os.PathLike[str] = "mixed.json",
    seed: int = 1,
    set: Mapping[str, Setting] | None = None,
    for_: Time | None = None,
    profile: str | os.PathLike[str] | None = None,
    kernel: str | None = None,
    noise: str | None = None,
    phase: str = "fixed",
    sanitize: bool = False,
    after_failure: bool = False,
    memory: str | None = None,
    tables: bool = False,
    trace: str | os.PathLike[str] | None = None,
    check: bool | None = None,
) -> Result:
    """Run a policy on a simulated machine.

    The parameters have the same meaning as the options of `windtunnel run`.

    policy: an object (`mine.bpf.o`), the name of a policy of the package, or "eevdf".
    machine, workload: a name or a file; a workload may also be a generator such as "closed:n=7".
    set: values of the policy's parameters by name.
    for_: simulated time, for example "500ms" or a datetime.timedelta. By default the workload's own
        length.
    noise: level of the machine's background work: "off", "quiet", "server" or "desktop". By default,
        the machine determines it.
    phase: with "random", the seed also determines the times of the ticks and of the tasks' starts, as
        in `compare` and `sweep`.
    sanitize: check every memory access and call (the sanitizer).
    after_failure: after the policy has failed, let the fair class schedule the rest of the run.
    memory: memory that the run may use on this host, for example "512M". By default 2 GiB.
    tables: collect the events of the run as tables for data frames.
    trace: file to which all events are written.
    check: the former name of `sanitize`.

    The run releases the lock of the interpreter (GIL), so several threads can run policies at once.
    Ctrl-C ends the run with KeyboardInterrupt.

    Raises windtunnel.Error if an input cannot be used. A policy that fails is not an error: see
    `Result.status` and `Result.exit`.
    """
    if check is not None:
        warnings.warn("run(check=...) is now run(sanitize=...)", DeprecationWarning, stacklevel=2)
        sanitize = check
    settings = [(name, _text(value)) for name, value in (set or {}).items()]
    fields, figures, notes, found = _windtunnel.run(
        os.fspath(policy),
        machine=os.fspath(machine),
        workload=os.fspath(workload),
        seed=seed,
        settings=settings,
        for_ns=duration("for_", for_),
        profile=profile,
        kernel=kernel,
        noise=noise,
        phase=phase,
        sanitize=sanitize,
        after_failure=after_failure,
        memory=size("memory", memory),
        tables=tables,
        trace=trace,
    )
    return Result(json.loads(fields), figures, notes, found)


def _text(value: Setting) -> str:
    """Returns the value of a setting as text, in the form that the command's option --set
    accepts."""
    return str(int(value)) if isinstance(value, bool) else str(value)
