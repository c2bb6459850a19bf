# SPDX-License-Identifier: GPL-2.0-only
"""Functions that run a command of windtunnel and return its JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from windtunnel._errors import error
from windtunnel._units import duration

Argument = str | os.PathLike[str]


def execute(
    command: str, policies: Iterable[Argument], options: Mapping[str, Any], timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command of windtunnel in a process of its own, which Ctrl-C ends.

    options: the command's options by name, without dashes (`for_` is `--for`). True passes an option
    without a value, and False or None leaves it out. A list repeats the option for each element, and
    a mapping for each item as NAME=VALUE. Times may be datetime.timedelta.

    Raises windtunnel.Error if the command finds an error in its inputs (exit status 2).
    """
    words = [os.fspath(policy) for policy in policies]
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, Mapping):
            words += [f"{option}={key}={_text(one)}" for key, one in value.items()]
        elif isinstance(value, (list, tuple)):
            words += [f"{option}={_text(one)}" for one in value]
        else:
            words.append(f"{option}={_text(value)}")
    done = subprocess.run(
        [sys.executable, "-m", "windtunnel", command, *words], capture_output=True, text=True, timeout=timeout
    )
    if done.returncode not in (0, 1):
        raise error(done.stderr)
    return done


def _text(value: Any) -> str:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, timedelta):
        return str(duration("", value))
    return str(int(value)) if isinstance(value, bool) else str(value)


def compare(a: Argument, b: Argument, **options: Any) -> Any:
    """Compare two policies over many seeds, as `windtunnel compare` does.

    options: those of the command, for example `machine=`, `workload=`, `runs=`, `for_=`,
        `fail_if=["p99_wakeup > +5%"]`.

    Returns the command's JSON: the verdict, and each metric's change with its confidence interval.
    """
    return json.loads(execute("compare", [a, b], {**options, "json": True}).stdout)


def diff(a: Argument, b: Argument, **options: Any) -> Any:
    """Find the first decision that two policies make differently, as `windtunnel diff` does.

    Returns the command's JSON.
    """
    return json.loads(execute("diff", [a, b], {**options, "json": True}).stdout)


def invariants(policy: Argument, **options: Any) -> Any:
    """Check that no CPU idles while a task waits, that no task starves, and that affinities hold.

    options: those of `windtunnel invariants`, for example `idle="2ms"` and `starvation="1s"`.

    Returns the command's JSON for the policy.
    """
    return json.loads(execute("invariants", [policy], {**options, "json": True}).stdout)[0]


def score(policy: Argument, **options: Any) -> Any:
    """Compare a policy with eevdf on several machines and workloads, as `windtunnel score` does.

    options: those of the command, for example `suite="mine.toml"`, `set={"slice_ns": 2000000}` and
        `no_sanitize=True`.

    Returns the command's JSON. `score` is None if the policy failed or broke a rule of the kernel's
    verifier, and `failures` says why.
    """
    return json.loads(execute("score", [policy], {**options, "json": True}).stdout)


def experiment(name: Argument, **options: Any) -> Any:
    """Repeat a published experiment, and compare its results with the published ones.

    options: those of `windtunnel experiment run`, for example `seeds=3`.

    Returns the command's JSON.
    """
    done = execute("experiment", ["run", name], {**options, "json": True})
    return json.loads(done.stdout)


def parameters(policy: Argument, **options: Any) -> list[dict[str, Any]]:
    """Return a policy's parameters and the ranges that it declares.

    options: those of `windtunnel policy show`, for example `kernel="6.12"`.
    """
    return json.loads(execute("policy", ["show", policy], {**options, "json": True}).stdout)
