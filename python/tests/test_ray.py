# SPDX-License-Identifier: GPL-2.0-only
"""Tests of sweeps on a Ray cluster of two nodes on this host."""

import os
import signal
import threading
import time

import pytest

import windtunnel as package

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'windtunnel[ray]'")

AXES = dict(
    machines=["smp4"], workloads=["closed:n=6,compute=1ms,think=1ms"], seeds=40, for_="400ms", set={"slice_ns": [500_000, 4_000_000]}
)


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def parent(process: int) -> int:
    with open(f"/proc/{process}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def worker() -> int | None:
    """Returns the process id of a worker of this test's cluster that executes a batch. Its parent is
    a node of the cluster, which is a child of this process."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline") as file:
                    busy = "ray::_batch" in file.read()
                if busy and parent(parent(int(entry))) == os.getpid():
                    return int(entry)
            except (OSError, ValueError):
                continue
    return None


def test_a_sweep_on_two_nodes_equals_a_local_one_although_a_worker_is_killed(cluster, tmp_path):
    local, remote = tmp_path / "local.parquet", tmp_path / "remote.parquet"
    package.sweep(["eevdf", "fifo"], **AXES, output=local)
    killed: list[int] = []

    def kill() -> None:
        for _ in range(600):
            found = worker()
            if found is not None:
                # The worker has begun its batch. Its death destroys the results of the batch.
                os.kill(found, signal.SIGKILL)
                killed.append(found)
                return
            time.sleep(0.02)

    killer = threading.Thread(target=kill)
    killer.start()
    store = tmp_path / "store"
    package.sweep(["eevdf", "fifo"], **AXES, output=remote, store=store, engine="ray")
    killer.join()
    assert killed, "no worker was found"
    assert remote.read_bytes() == local.read_bytes()
    assert len(list(store.glob("*/*.json"))) == 120
    # A sweep whose results are all in the store starts no task.
    again = tmp_path / "again.parquet"
    package.sweep(["eevdf", "fifo"], **AXES, output=again, store=store, engine="ray")
    assert again.read_bytes() == local.read_bytes()


def test_an_unknown_engine_is_an_error():
    with pytest.raises(ValueError, match="expected None or 'ray'"):
        package.sweep(["eevdf"], engine="slurm")
