# SPDX-License-Identifier: GPL-2.0-only
"""Tests of machines and workloads that are built in Python, of errors, and of pages."""

import html
import os
import pathlib
import signal
import threading
import time
import tomllib

import pytest

import windtunnel as package

REPOSITORY = pathlib.Path(__file__).parents[2]
LOAD = {"machine": "smp4", "workload": "closed:n=6,compute=1ms,think=1ms", "for_": "20ms"}


def machine() -> package.Machine:
    made = package.Machine("mine", topology="node:2 core:2 pu:2", hz=1000, description="two \"nodes\"\tof\\two cores")
    made.cost("context_switch", ns=600, source="lmbench lat_ctx")
    made.cost("bpf_insn", ps=350, source="estimate")
    return made.cost("cache_line", ns={"same": 0, "core": 5, "llc": 25, "node": 60, "remote": 120}, source="estimate")


def workload() -> package.Workload:
    made = package.Workload("pair", duration=1)
    made.resource("a", type="pipe").resource("b", type="pipe")
    made.task("ping", instance=1).run(10).send("a").recv("b").run(5)
    made.task("pong").recv("a").run(10).send("b", bytes=100)
    batch = made.task("batch", instance=2, loop=-1)
    batch.phase("busy", loop=3).run(100).sleep(50)
    batch.phase("quiet").timer("unique_tick", 1000)
    return made.disturbance(at=5000, irq=[0], length=200)


def test_a_machine_round_trips_to_toml(tmp_path):
    made = machine()
    again = package.Machine.from_toml(made.to_toml(), "mine")
    assert again == made and again.to_toml() == made.to_toml()
    assert tomllib.loads(made.to_toml())["costs"]["cache_line"]["ns"]["remote"] == 120
    made.save(tmp_path / "mine.toml")
    assert package.Machine.load(tmp_path / "mine.toml") == made
    # A machine object and the file that was written from it give the same run.
    runs = [package.run("fifo", **{**LOAD, "machine": one}) for one in (made, tmp_path / "mine.toml")]
    assert runs[0].trace_hash == runs[1].trace_hash and runs[0].machine == "mine"


@pytest.mark.parametrize("file", sorted(REPOSITORY.glob("machines/*.toml")), ids=lambda file: file.stem)
def test_shipped_machines_round_trip(file):
    made = package.Machine.load(file)
    assert tomllib.loads(made.to_toml()) == tomllib.loads(file.read_text())
    load = {**LOAD, "for_": "2ms"}
    hashes = {package.run("eevdf", **{**load, "machine": one}).trace_hash for one in (made, file)}
    assert len(hashes) == 1


def test_a_run_warns_of_estimated_capacities():
    machine = REPOSITORY / "crates/machine/tests/data/hybrid-memory.xml"
    warnings = package.run("eevdf", machine=machine, workload="closed:n=2,compute=1ms", for_="2ms").warnings
    assert [text.split(":")[0] for text in warnings] == [
        "no CPU belongs to NUMA node 1, so its memory is not modelled",
        "the capacity that the kernel exported, 1024 for all CPUs, is ignored, because their core types and "
        "highest frequencies differ",
        "capacities are estimated from core types and highest frequencies",
        "an IntelAtom or IntelLowPower core is assumed to do 3/4 of a fast core's work per cycle",
    ]


def test_a_workload_round_trips_to_json(tmp_path):
    made = workload()
    again = package.Workload.from_json(made.to_json(), "pair")
    assert again == made
    # Two events of one name are both kept.
    assert made.to_json().count('"run" : ') == 4
    made.save(tmp_path / "pair.json")
    load = {**LOAD, "machine": machine()}
    runs = [package.run("fifo", **{**load, "workload": one}) for one in (made, tmp_path / "pair.json")]
    assert runs[0].trace_hash == runs[1].trace_hash and runs[0].workload == "pair"
    assert runs[0].context_switches > 100


@pytest.mark.parametrize("file", sorted(REPOSITORY.glob("workloads/*.json")), ids=lambda file: file.stem)
def test_shipped_workloads_round_trip(file):
    made = package.Workload.load(file)
    load = {**LOAD, "machine": "numa32", "for_": "5ms"}
    hashes = {package.run("eevdf", **{**load, "workload": one}).trace_hash for one in (made, file)}
    assert len(hashes) == 1


def test_built_inputs_work_in_commands_and_sweeps():
    load = {"machine": machine(), "workload": workload(), "for_": "20ms"}
    assert package.compare("fifo", "fifo", runs=2, **load)["machine"] == "mine"
    assert package.invariants("eevdf", idle="10ms", **load)
    assert len(package.sweep(["eevdf"], machines=[machine()], workloads=[workload()], seeds=2, for_="5ms")) == 2


def test_errors_have_a_kind_a_place_and_a_hint(tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text('description = "x"\nhzz = 3\n')
    for call in (lambda: package.run("fifo", machine=bad), lambda: package.compare("fifo", "fifo", machine=bad)):
        with pytest.raises(package.Error) as caught:
            call()
        error = caught.value
        assert (error.kind, error.place, error.line) == ("input", str(bad), 2)
        assert "hz" in error.hint and "hzz" in error.message
    with pytest.raises(package.Error) as caught:
        package.compare("fifo", "fifo", nonsense=1)
    assert caught.value.kind == "usage" and "--nonsense" in caught.value.message
    with pytest.raises(package.Error) as caught:
        package.compile("int x = nonsense;\n", tmp_path / "x.bpf.o")
    assert caught.value.kind == "compile"
    with pytest.raises(package.Error) as caught:
        package.diff("fifoo", "fifo")
    assert caught.value.place is None and "fifo" in caught.value.hint


def test_ctrl_c_ends_a_command():
    started = time.monotonic()
    threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        package.compare("fifo", "steal", machine="smp4", workload=LOAD["workload"], for_="36000s")
    assert time.monotonic() - started < 30


def test_reports_are_pages(tmp_path):
    page = package.report("eevdf", "fifo", **LOAD)
    assert page.html.startswith("<!DOCTYPE html>") and "fifo" in page.html
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and html.escape(page.html) in shown and "<script" not in shown
    package.run("fifo", **LOAD, trace=tmp_path / "fifo.wtt")
    assert "fifo" in package.report(tmp_path / "fifo.wtt").html
    package.sweep(["eevdf", "fifo"], machines=["smp4"], workloads=[LOAD["workload"]], for_="5ms", output=tmp_path / "s.parquet")
    swept = package.report(tmp_path / "s.parquet")
    assert "Pareto front" in swept.html
    swept.save(tmp_path / "s.html")
    assert (tmp_path / "s.html").read_text() == swept.html
    with pytest.raises(TypeError):
        package.report("fifo", tmp_path / "fifo.wtt")


def test_parameters_have_the_ranges_that_a_policy_declares():
    found = {one["name"]: one for one in package.parameters("steal")}
    slice_ns = found["slice_ns"]
    assert (slice_ns["low"], slice_ns["high"], slice_ns["unit"]) == (100_000, 1_000_000_000, "ns")
    assert slice_ns["value"] == "4000000" and not slice_ns["live"]
    assert package.parameters("eevdf") == []


def test_an_experiment_is_repeated():
    found = package.experiment("theory", seeds=1)
    assert "theory" in str(found)
