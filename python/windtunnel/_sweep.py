# SPDX-License-Identifier: GPL-2.0-only
"""Runs all combinations of policies, machines, workloads, parameters and seeds."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

from windtunnel import _windtunnel
from windtunnel._inputs import toml
from windtunnel._units import Time, duration, size
from windtunnel._windtunnel import Table

Name = str | os.PathLike[str]
Value = int | bool | str


def sweep(
    policies: Iterable[Name],
    *,
    machines: Iterable[Name] = ("numa32",),
    workloads: Iterable[Name] = ("mixed.json",),
    seeds: int | Iterable[int] = 1,
    set: Mapping[str, Iterable[Value]] | None = None,
    kernels: Iterable[str] | None = None,
    noise: Iterable[str] | None = None,
    phase: str | None = None,
    for_: Time | None = None,
    memory: str | None = None,
    zip: Iterable[Iterable[str]] = (),
    skip: Iterable[Mapping[str, Any]] = (),
    only: Iterable[Mapping[str, Any]] = (),
    output: Name | None = None,
    store: Name | None = None,
    threads: int | None = None,
    engine: str | None = None,
) -> Table:
    """Run all combinations on all CPUs of this host, and return a table with a row per run.

    policies, machines, workloads, set, kernels, noise, seeds: the values of each axis. `seeds=10` means
        1 to 10. A policy without a parameter of `set` runs once for all its values.
    phase: with "random", as by default, the seed also determines the times of the ticks and of the
        tasks' starts. "fixed" switches this off.
    zip: lists of axes that advance together, for example [["machines", "workloads"]].
    skip: combinations to leave out, for example [{"policy": "fifo", "machine": "smp4"}].
    only: combinations to keep. Those that match none of these filters are left out.
    output: Parquet file for the table.
    store: directory that keeps results, so that an interrupted sweep can be continued: runs whose
        results are there are not executed again. By default, no results are kept.
    threads: by default one for each CPU of this host.
    engine: "ray" executes the runs on a Ray cluster (pip install 'windtunnel[ray]'), whose nodes need
        the same version of windtunnel and the same files under the same paths.

    The columns are those of `windtunnel sweep`. A policy that fails has a row without figures.

    Raises windtunnel.Error if an input cannot be used.
    """
    text = definition(
        policies=_names(policies),
        machines=_names(machines),
        workloads=_names(workloads),
        seeds=seeds if isinstance(seeds, int) else list(seeds),
        kernels=kernels and list(kernels),
        noise=noise and list(noise),
        phase=phase,
        for_=duration("for_", for_),
        memory=size("memory", memory),
        zip=[list(names) for names in zip],
        set={name: list(values) for name, values in set.items()} if set else None,
        skip=[dict(one) for one in skip],
        only=[dict(one) for one in only],
    )
    if engine is None:
        return _windtunnel.sweep(text, output=output, store=store, threads=threads)
    if engine != "ray":
        raise ValueError(f"engine={engine!r}: expected None or 'ray'")
    from windtunnel._ray import execute

    with tempfile.TemporaryDirectory(prefix="windtunnel-") as folder:
        kept = folder if store is None else os.fspath(store)
        execute(text, kept)
        # With all results in the store, a local sweep runs nothing and only makes the table.
        return _windtunnel.sweep(text, output=output, store=kept, threads=threads)


def definition(**keys: Any) -> str:
    """Returns a sweep file. Its keys are those of docs/how-to/sweep.md; None leaves a key out."""
    known = {name.rstrip("_"): value for name, value in keys.items() if value is not None}
    return "".join(f"{json.dumps(name)} = {toml(value)}\n" for name, value in known.items())


def _names(names: Iterable[Name]) -> list[str]:
    if isinstance(names, str):
        raise TypeError(f"expected a list of names, not the string {names!r}")
    return [os.fspath(name) for name in names]
