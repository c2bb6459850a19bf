# SPDX-License-Identifier: GPL-2.0-only
"""Tests of times and sizes that callers give."""

from datetime import timedelta

import pytest

import windtunnel as package

LOAD = {"machine": "smp4", "workload": "closed:n=6,compute=1ms,think=1ms"}


def test_a_time_may_be_a_timedelta():
    text = package.run("fifo", **LOAD, for_="20ms")
    assert package.run("fifo", **LOAD, for_=timedelta(milliseconds=20)).trace_hash == text.trace_hash
    table = package.sweep(["fifo"], machines=["smp4"], workloads=[LOAD["workload"]], for_=timedelta(milliseconds=20))
    assert len(table) == 1
    found = package.compare("fifo", "rr", **LOAD, for_=timedelta(milliseconds=20), runs=2)
    assert found == package.compare("fifo", "rr", **LOAD, for_="20ms", runs=2)


@pytest.mark.parametrize("value", [200, 1.5])
def test_a_number_without_a_unit_is_an_error_that_names_the_unit(value):
    expected = rf'for_={value} has no unit\n  hint: write for_="{value}ms" \(or ns, us, s, min\), or a datetime.timedelta'
    with pytest.raises(package.Error, match=expected) as caught:
        package.run("fifo", **LOAD, for_=value)
    assert caught.value.message == f"for_={value} has no unit"
    with pytest.raises(package.Error, match=expected):
        package.sweep(["fifo"], for_=value)
    with pytest.raises(package.Error, match=f"'{value}' has no unit, expected ns, us, ms, s or min, for example {value}ms"):
        package.compare("fifo", "rr", **LOAD, for_=value)


def test_a_size_without_a_unit_is_an_error_that_names_the_unit():
    with pytest.raises(package.Error, match=r'memory=512 has no unit\n  hint: write memory="512M"'):
        package.run("fifo", **LOAD, memory=512)
    with pytest.raises(package.Error, match="'512' has no unit, expected B, K, M, G or T, for example 512M"):
        package.run("fifo", **LOAD, memory="512")


def test_other_values_are_refused_with_an_example():
    with pytest.raises(package.Error, match=r"for_=\[5\]: expected a text such as for_=\"100ms\""):
        package.run("fifo", **LOAD, for_=[5])


def test_the_constraint_of_a_search_needs_its_unit():
    pytest.importorskip("optuna")
    with pytest.raises(ValueError, match=r"'5' has no unit; expected METRIC <= \+5%"):
        package.tune("fifo", machines=["smp4"], workloads=[LOAD["workload"]], constraints=["p99_wakeup <= 5"])
    with pytest.raises(package.Error, match="for_=200 has no unit"):
        package.tune("fifo", machines=["smp4"], workloads=[LOAD["workload"]], for_=200)
