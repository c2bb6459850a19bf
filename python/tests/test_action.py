# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the script of the GitHub action."""

import json
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as xml

import windtunnel as package

REPOSITORY = pathlib.Path(__file__).parents[2]
SCRIPT = REPOSITORY / "scripts/action/verdict.py"
LOAD = ["--machine", "smp4", "--workload", "closed:n=6,compute=1ms,think=1ms", "--for", "20ms", "--runs", "3"]


def verdict(tmp_path, *words: str):
    command = pathlib.Path(sys.executable).with_name("windtunnel")
    done = subprocess.run(
        [sys.executable, SCRIPT, *LOAD, "--output", tmp_path / "out", *words],
        capture_output=True, text=True, env={**os.environ, "WINDTUNNEL": str(command)}, cwd=tmp_path,
    )  # fmt: skip
    if done.returncode == 2:
        return done, None, None
    junit = xml.parse(tmp_path / "out/junit.xml").getroot()[0]
    sarif = json.loads((tmp_path / "out/results.sarif").read_text())
    assert (tmp_path / "out/verdict.md").read_text() == done.stdout
    return done, junit, sarif["runs"][0]["results"]


def test_a_good_policy_passes(tmp_path):
    done, junit, results = verdict(tmp_path, "--new", "fifo", "--old", "fifo", "--fail-if", "switches > +5%", "--idle", "20ms")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("## windtunnel: all checks passed")
    assert "| switches |" in done.stdout and r"fail if switches \> +5%" in done.stdout
    assert (junit.get("tests"), junit.get("failures"), results) == ("4", "0", [])


def test_a_condition_that_holds_fails(tmp_path):
    done, junit, results = verdict(tmp_path, "--new", "fifo", "--fail-if", "switches > -99%", "--idle", "20ms")
    assert done.returncode == 1
    assert junit.get("failures") == "1" and junit.find("testcase/failure") is not None
    assert [result["ruleId"] for result in results] == ["compare"]


def test_a_failure_has_the_position_in_the_source(tmp_path):
    source = """
#include "include/scx.h"
char _license[] SEC("license") = "GPL";
void SCX_OP(lost_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, 99, 1000, 0);
}
SCX_OPS(lost_ops, .enqueue = (void *)lost_enqueue, .name = "lost");
"""
    (tmp_path / "lost.bpf.c").write_text(source)
    package.compile(tmp_path / "lost.bpf.c")
    done, junit, results = verdict(tmp_path, "--new", "lost.bpf.o")
    assert done.returncode == 1 and int(junit.get("failures")) >= 2
    assert "non-existent DSQ" in done.stdout
    place = results[0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("lost.bpf.c") and place["region"]["startLine"] == 6


def test_a_wrong_input_is_an_error(tmp_path):
    done, _, _ = verdict(tmp_path, "--new", "fifoo")
    assert done.returncode == 2 and "did you mean fifo" in done.stderr
