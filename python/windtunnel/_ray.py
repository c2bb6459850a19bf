# SPDX-License-Identifier: GPL-2.0-only
"""Executes the runs of a sweep on a Ray cluster.

A Ray task executes a batch of runs, and the driver writes its results into the sweep's store. The name
of a result is a hash of everything that the result depends on. A node with a different version of
windtunnel, or with different files, would produce different names, so it is noticed as an error.
"""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from typing import Any

from windtunnel import _windtunnel

# Batches are made so large that a task takes at least this long, and its start does not matter.
_SECONDS = 1.5
# How often a task is started again if its worker or node dies.
_RETRIES = 20


def _batch(text: str, indices: list[int]) -> tuple[float, dict[str, bytes]]:
    """Executes some runs of a sweep. Returns the host time that they took, and the result files."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="windtunnel-") as folder:
        _windtunnel.sweep(text, output=None, store=folder, threads=1, only=indices)
        root = Path(folder)
        files = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.glob("*/*.json")}
    return time.monotonic() - started, files


def execute(text: str, store: str) -> None:
    """Executes the runs of the sweep file `text` whose results are not in the store yet."""
    try:
        import ray
    except ImportError as error:
        raise ImportError("engine='ray' needs Ray: pip install 'windtunnel[ray]'") from error
    root = Path(store)
    names = _windtunnel.sweep_names(text)
    waiting = [index for index, name in enumerate(names) if not (root / name).exists()]
    if not waiting:
        return
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
    task = ray.remote(_batch).options(num_cpus=1, max_retries=_RETRIES, retry_exceptions=False)
    waiting.reverse()
    running: dict[Any, list[int]] = {}
    size = 1
    try:
        while waiting or running:
            # With two tasks per CPU, the cluster stays busy while results travel.
            while waiting and len(running) < 2 * cpus:
                indices = [waiting.pop() for _ in range(min(size, len(waiting)))]
                running[task.remote(text, indices)] = indices
            [done], _ = ray.wait(list(running), num_returns=1)
            indices = running.pop(done)
            try:
                seconds, files = ray.get(done)
            except ray.exceptions.RayTaskError:
                raise
            except ray.exceptions.RayError:
                # The node is lost. Let the remaining nodes execute these runs.
                waiting += reversed(indices)
                continue
            _keep(root, {names[index] for index in indices}, files)
            size = max(1, math.ceil(_SECONDS * len(indices) / max(seconds, 1e-6)))
    finally:
        for unfinished in running:
            ray.cancel(unfinished, force=True)


def _keep(root: Path, expected: set[str], files: dict[str, bytes]) -> None:
    if expected != set(files):
        raise RuntimeError("a node of the cluster has a different version of windtunnel, or different files, than this host")
    for name, contents in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Renaming a complete file keeps partial results of an interrupted sweep out of the store.
        part = path.with_suffix(".part")
        part.write_bytes(contents)
        part.rename(path)
