# SPDX-License-Identifier: GPL-2.0-only
"""Runs one policy."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from typing import Any

from windtunnel import _windtunnel
from windtunnel._result import Result
from windtunnel._units import Time, duration, size

Setting = int | bool | str


def run(
    policy: str | os.PathLike[str],
    *,
    machine: str | os.PathLike[str] | None = None,
    workload: str | os.PathLike[str] = "mixed.json",
    seed: int = 1,
    set: Mapping[str, Setting] | None = None,
    sub: Mapping[str, str | os.PathLike[str]] | None = None,
    for_: Time | None = None,
    profile: str | os.PathLike[str] | None = None,
    profile_fit: str = "strict",
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

    The parameters are the options of `windtunnel run`.

    policy: an object (`mine.bpf.o`), the name of one of the package's policies, or "eevdf".
    machine, workload: a name or a file; a workload may also be a generator such as "closed:n=7".
        By default, the machine is "numa32", or has as many CPUs as the recording that is replayed.
    set: values of the policy's parameters by name.
    sub: sub-schedulers: objects by the cgroups whose tasks they schedule.
    for_: simulated time, for example "500ms" or a datetime.timedelta. By default the workload's own
        length.
    profile_fit: with "loose", parts of the profile that do not fit the policy are left out.
    noise: background work of the machine: "off", "quiet", "server" or "desktop". By default the
        machine's own.
    phase: with "random", the seed also determines the times of the ticks and of the tasks' starts, as
        in `compare` and `sweep`.
    sanitize: check every memory access and call (the sanitizer).
    after_failure: if the policy fails, let the fair class schedule the rest of the run.
    memory: limit of the memory on this host, for example "512M". By default 2 GiB.
    tables: also return the run's events as tables for data frames.
    trace: file to write all events to.
    check: the former name of `sanitize`.

    Several threads can run policies at once, because a run releases the GIL. Ctrl-C raises
    KeyboardInterrupt.

    Raises windtunnel.Error if an input cannot be used. A policy that fails is a result, not an error:
    see `Result.status` and `Result.exit`.
    """
    if check is not None:
        warnings.warn("run(check=...) is now run(sanitize=...)", DeprecationWarning, stacklevel=2)
        sanitize = check
    spec = {
        "policy": os.fspath(policy),
        "machine": None if machine is None else os.fspath(machine),
        "workload": os.fspath(workload),
        "seed": seed,
        "set": [f"{name}={_text(value)}" for name, value in (set or {}).items()],
        "sub": [f"{cgroup}={os.fspath(child)}" for cgroup, child in (sub or {}).items()],
        "for": duration("for_", for_),
        "profile": [] if profile is None else [os.fspath(profile)],
        "profile_fit": profile_fit,
        "noise": noise,
        "phase": phase,
        "sanitize": sanitize,
        "after_failure": after_failure,
    }
    optional = {"kernel": kernel, "memory": size("memory", memory)}
    spec |= {name: value for name, value in optional.items() if value is not None}
    return execute(spec, tables=tables, trace=trace)


def execute(spec: Mapping[str, Any], tables: bool = False, trace: str | os.PathLike[str] | None = None) -> Result:
    """Executes the run that a description (`RunSpec` of the crate runner) describes."""
    fields, figures, notes, found = _windtunnel.run(json.dumps(spec), tables=tables, trace=trace)
    return Result(json.loads(fields), figures, notes, found)


def _text(value: Setting) -> str:
    """Formats a setting for the command's option --set, which knows no True and False."""
    return str(int(value)) if isinstance(value, bool) else str(value)
