# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the installed package."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import polars
import pyarrow
import pytest

import windtunnel as package

LOAD = {"machine": "smp4", "workload": "closed:n=6,compute=1ms,think=1ms", "for_": "50ms"}
LONG = {**LOAD, "for_": "36000s"}


def command(*words: str) -> subprocess.CompletedProcess:
    """Runs the package's command."""
    return subprocess.run([sys.executable, "-m", "windtunnel", *words], capture_output=True, text=True)


def interrupt_soon() -> None:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()


def test_a_run_equals_the_commands():
    run = package.run("steal", **LOAD, seed=3)
    words = ["--machine", LOAD["machine"], "--workload", LOAD["workload"], "--for", LOAD["for_"]]
    done = command("run", "steal", *words, "--seed", "3", "--json", "-")
    [fields] = json.loads(done.stdout)
    del fields["wall_ns"], run.fields["wall_ns"]
    assert run.fields == fields
    assert run.trace_hash == fields["trace_hash"]


def test_settings_change_the_run():
    load = {"machine": "smp4", "workload": "closed:n=6,compute=50ms", "for_": "500ms"}
    short, long = (package.run("fifo", **load, set={"slice_ns": ns}) for ns in (10_000_000, 100_000_000))
    assert short.preemptions > long.preemptions
    assert package.run("rr", **LOAD, set={"exact": False}).settings == ["exact=0"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seed": -1}, "seed: invalid value: integer `-1`"),
        ({"phase": "randm"}, "phase randm: expected fixed or random"),
        ({"kernel": "5.4"}, "kernel 5.4: "),
        ({"for_": "100"}, "for: '100' has no unit"),
        ({"sanitize": "yes"}, "sanitize: invalid type"),
    ],
)
def test_the_error_of_a_wrong_argument_names_it(wrong, message):
    with pytest.raises(package.Error) as error:
        package.run("fifo", **{**LOAD, **wrong})
    assert message in str(error.value)


def test_background_work_is_a_parameter_of_runs_and_an_axis_of_sweeps():
    load = {"machine": "smp4", "workload": "closed:n=3", "for_": "20ms"}
    off, quiet, server = (package.run("fifo", noise=level, **load) for level in ("off", "quiet", "server"))
    assert len({off.trace_hash, quiet.trace_hash, server.trace_hash}) == 3
    assert off.trace_hash == package.run("fifo", **load).trace_hash
    with pytest.raises(package.Error, match="did you mean 'server'"):
        package.run("fifo", noise="sever", **load)
    table = package.sweep(
        ["fifo"], machines=["smp4"], workloads=["closed:n=3"], for_="20ms", noise=["off", "server"], phase="fixed"
    )
    rows = polars.DataFrame(table)
    assert rows["noise"].to_list() == ["off", "server"]
    assert rows["trace_hash"].to_list() == [off.trace_hash, server.trace_hash]


def test_tables_agree_with_the_figures():
    run = package.run("fifo", **LOAD, tables=True)
    switches, wakeups = polars.DataFrame(run.switches), polars.DataFrame(run.wakeups)
    assert len(switches) == len(run.switches) == run.context_switches
    assert len(polars.DataFrame(run.tables["tasks"])) == run.tasks_total
    assert wakeups["latency_ns"].null_count() == 0
    assert pyarrow.table(run.tables["callbacks"]).column_names == run.tables["callbacks"].columns
    # Collecting tables does not change the schedule.
    assert run.trace_hash == package.run("fifo", **LOAD).trace_hash


def test_a_table_that_was_not_requested_is_named():
    with pytest.raises(AttributeError, match="tables=True"):
        package.run("eevdf", **LOAD).switches


def test_an_unknown_policy_is_an_error_with_a_hint():
    with pytest.raises(package.Error) as caught:
        package.run("fifoo", **LOAD)
    assert "did you mean fifo" in caught.value.hint
    with pytest.raises(package.Error, match="minus"):
        package.run("fifo", machine="smp4", workload="closed:n=minus")


def test_a_policy_that_fails_is_a_result(tmp_path):
    source = """
#include "include/scx.h"
char _license[] SEC("license") = "GPL";
void SCX_OP(lost_enqueue, struct task_struct *p, u64 enq_flags) { scx_bpf_dsq_insert(p, 99, 1000, 0); }
SCX_OPS(lost_ops, .enqueue = (void *)lost_enqueue, .name = "lost");
"""
    run = package.run(package.compile(source, tmp_path / "lost.bpf.o"), **LOAD)
    assert run.failed and run.status == "ejected"
    assert "non-existent DSQ" in run.exit["message"]
    assert run.figures["score"] is None
    assert "non-existent DSQ" in repr(run) and "non-existent DSQ" in run._repr_html_()


def test_a_source_that_does_not_compile_is_an_error(tmp_path):
    with pytest.raises(package.Error, match="nonsense"):
        package.compile("int x = nonsense;\n", tmp_path / "x.bpf.o")


def test_ctrl_c_ends_a_run():
    started = time.monotonic()
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        package.run("fifo", **LONG)
    assert time.monotonic() - started < 30


def test_threads_give_the_results_of_one_thread():
    names = ["eevdf", "fifo", "steal", "vtime"]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda name: package.run(name, **LOAD).trace_hash, names))
    assert together == [package.run(name, **LOAD).trace_hash for name in names]


def test_a_sweep_has_a_row_for_each_combination(tmp_path):
    axes = dict(
        machines=["smp4"],
        workloads=[LOAD["workload"]],
        seeds=2,
        for_="20ms",
        set={"slice_ns": [10**6, 10**7]},
        skip=[{"policy": "fifo", "seed": 2}],
        store=tmp_path / "store",
    )
    rows = polars.DataFrame(package.sweep(["eevdf", "fifo"], output=tmp_path / "sweep.parquet", **axes))
    assert rows["policy"].to_list() == ["eevdf", "eevdf", "fifo", "fifo"]
    assert rows["set.slice_ns"].to_list() == [None, None, "1000000", "10000000"]
    assert rows.equals(polars.read_parquet(tmp_path / "sweep.parquet"))
    fixed, *drawn = (package.run("eevdf", **{**LOAD, "for_": "20ms"}, phase=phase, seed=seed).trace_hash
                     for phase, seed in [("fixed", 1), ("random", 1), ("random", 2)])  # fmt: skip
    assert rows["trace_hash"].to_list()[:2] == drawn and fixed not in drawn
    rows_fixed = polars.DataFrame(package.sweep(["eevdf", "fifo"], **axes, phase="fixed"))
    assert rows_fixed["trace_hash"][0] == fixed
    with pytest.raises(package.Error, match="phase"):
        package.run("eevdf", **LOAD, phase="sometimes")
    assert rows.equals(polars.DataFrame(package.sweep(["eevdf", "fifo"], **axes)))
    with pytest.raises(package.Error, match="slice_us"):
        package.sweep(["fifo"], set={"slice_us": [1]})
    with pytest.raises(TypeError):
        package.sweep("fifo")


def test_ctrl_c_ends_a_sweep_and_the_next_one_runs():
    interrupt_soon()
    load = dict(machines=["smp4"], workloads=[LOAD["workload"]])
    with pytest.raises(KeyboardInterrupt):
        package.sweep(["eevdf"], seeds=500, for_="20s", **load)
    assert len(package.sweep(["eevdf"], seeds=2, for_="5ms", **load)) == 2


def test_commands_return_their_json():
    load = {**LOAD, "for_": "20ms"}
    assert package.compare("fifo", "fifo", runs=3, **load)
    assert package.diff("fifo", "steal", **load)
    assert package.invariants("fifo", idle="5ms", **load)


def test_a_score_has_parts(tmp_path):
    suite = tmp_path / "suite.toml"
    suite.write_text(
        "seeds = 2\n[[case]]\nmachine = 'smp4'\nworkload = 'closed:n=6,compute=1ms,think=1ms'\nfor = '20ms'\n"
    )
    score = package.score("fifo", suite=suite)
    assert score["score"] > 0.5 and len(score["cases"][0]["policy"]) == 2
    assert score["checked"]["calls"] > 0
    fast = package.score("fifo", suite=suite, no_sanitize=True)
    assert fast["checked"] is None and fast["score"] == score["score"]
    assert package.score("eevdf", suite=suite)["score"] == 1.0


def test_the_fixture_shows_the_schedule_of_a_violation(windtunnel):
    windtunnel.holds("eevdf", idle="20ms", **LOAD)
    windtunnel.not_worse("fifo", "fifo", "score < -5%", runs=3, **LOAD)
    with pytest.raises(pytest.fail.Exception, match="one column ="):
        windtunnel.holds("percpu", idle="100us", machine="smp8", workload="hackbench:groups=2,loops=100")


def test_the_examples_of_the_documentation_run(tmp_path, monkeypatch):
    page = pathlib.Path(__file__).parents[2] / "docs/how-to/python.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    examples = [block for block in blocks if "def test_" not in block]
    assert len(examples) == 4
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for example in examples:
        exec(example, names)


def test_the_command_has_its_own_files():
    assert "pmqs" in command("policy", "list").stdout
    assert command("experiment", "list").returncode == 0


def test_a_workload_that_makes_no_progress_is_a_deadlock(tmp_path):
    waiting = {"instance": 1, "lock": "first", "run": 1000, "lock1": "second", "unlock1": "second", "unlock": "first"}
    other = {"instance": 1, "lock": "second", "run": 1000, "lock1": "first", "unlock1": "first", "unlock": "second"}
    path = tmp_path / "deadlock.json"
    path.write_text(json.dumps({"tasks": {"a": waiting, "b": other}}))
    result = package.run("fifo", machine="smp4", workload=path, for_="200ms")
    assert result.status == "deadlock" and len(result.deadlock) == 2


def test_a_recording_runs_on_the_recorded_number_of_cpus(tmp_path):
    trace = tmp_path / "small.wtt"
    package.run("fifo", machine="core:3 pu:1", workload=LOAD["workload"], for_="20ms", trace=trace)
    result = package.run("eevdf", workload=trace, for_="20ms")
    assert result.machine == "core:3 pu:1" and result.cpus == 3
