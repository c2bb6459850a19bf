# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the scripts of the GitHub action."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest

import windtunnel as package

REPOSITORY = pathlib.Path(__file__).parents[2]
SCRIPT = REPOSITORY / "scripts/action/verdict.py"
COMMAND = pathlib.Path(sys.executable).with_name("windtunnel")
LOAD = ["--machine", "smp4", "--workload", "closed:n=6,compute=1ms,think=1ms", "--for", "20ms", "--runs", "3"]


def verdict(folder, *words: str, load=LOAD):
    done = subprocess.run(
        [sys.executable, SCRIPT, *load, "--output", folder / "out", *words],
        capture_output=True, text=True, env={**os.environ, "WINDTUNNEL": str(COMMAND)}, cwd=folder,
    )  # fmt: skip
    if done.returncode == 2:
        return done, None, None
    junit = xml.parse(folder / "out/junit.xml").getroot()[0]
    sarif = json.loads((folder / "out/results.sarif").read_text())
    assert (folder / "out/verdict.md").read_text() == done.stdout, done.stderr
    return done, junit, sarif["runs"][0]["results"]


def compiled(folder, name: str, **callbacks: str):
    """Compiles a policy with one shared queue from the bodies of its callbacks."""
    bodies = {"enqueue": "scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, 1000000, enq_flags);", **callbacks}
    kinds = {"enqueue": "struct task_struct *p, u64 enq_flags", "dispatch": "s32 cpu, struct task_struct *prev"}
    texts = [f"void SCX_OP({name}_{one}, {kinds[one]})\n{{\n\t{body}\n}}\n" for one, body in bodies.items()]
    table = ", ".join(f".{one} = (void *){name}_{one}" for one in bodies)
    head = '#include "include/scx.h"\nchar _license[] SEC("license") = "GPL";\n'
    (folder / f"{name}.bpf.c").write_text(head + "".join(texts) + f'SCX_OPS({name}_ops, {table}, .name = "{name}");\n')
    return package.compile(folder / f"{name}.bpf.c")


def test_a_good_policy_passes(tmp_path):
    done, junit, results = verdict(tmp_path, "--new", "fifo", "--old", "fifo", "--fail-if", "switches > +5%", "--idle", "20ms")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("## windtunnel: all checks passed")
    assert "| switches |" in done.stdout and r"fail if switches \> +5%" in done.stdout
    assert "No decision differs" in done.stdout
    assert (junit.get("tests"), junit.get("failures"), results) == ("4", "0", [])


def test_a_condition_that_holds_fails(tmp_path):
    # A random workload, so that the confirming runs with fresh seeds differ from the first ones.
    load = [word.replace("think=1ms", "think=1ms,think_dist=M") for word in LOAD]
    done, junit, results = verdict(tmp_path, "--new", "fifo", "--fail-if", "switches > -99%", "--idle", "20ms", load=load)
    assert done.returncode == 1
    assert junit.get("failures") == "1" and "holds, also with other seeds" in junit.find("testcase/failure").text
    assert [result["ruleId"] for result in results] == ["compare"]


def test_the_verdict_shows_each_place_and_the_first_decision_that_differs(tmp_path):
    more = ["--machine", "up", "--fail-if", "switches > +900%", "--idle", "20ms"]
    done, junit, _ = verdict(tmp_path, "--new", "rr", "--old", "fifo", *more)
    assert done.returncode == 0, done.stdout + done.stderr
    assert junit.get("tests") == "7"
    for machine in ("smp4", "up"):
        assert f"| {machine} | closed:n=6,compute=1ms,think=1ms |" in done.stdout
    _, _, divergence = done.stdout.partition("### The first decision that differs: closed:n=6,compute=1ms,think=1ms on ")
    assert "\nA fifo, " in divergence and "\nB rr, " in divergence
    page = (tmp_path / "out/report.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html") and "report.html shows" in done.stdout


def test_a_failure_has_the_position_in_the_source(tmp_path):
    compiled(tmp_path, "lost", enqueue="scx_bpf_dsq_insert(p, 99, 1000, 0);")
    done, junit, results = verdict(tmp_path, "--new", "lost.bpf.o")
    assert done.returncode == 1 and int(junit.get("failures")) >= 2
    assert "non-existent DSQ" in done.stdout
    place = results[0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("lost.bpf.c") and place["region"]["startLine"] == 5


def test_a_fault_of_the_baseline_does_not_fail_the_change(tmp_path):
    # All tasks wait in one CPU's queue for each other's long slices, while other CPUs idle.
    lazy = "scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | 0, 20000000, enq_flags);"
    compiled(tmp_path, "lazy", enqueue=lazy)
    compiled(tmp_path, "slower", enqueue=f"bpf_ktime_get_ns(); {lazy}")
    words = ["--fail-if", "switches > +900%", "--idle", "200us"]
    done, junit, results = verdict(tmp_path, "--new", "slower.bpf.o", "--old", "lazy.bpf.o", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the baseline has this fault, too" in done.stdout and results == []
    # The same fault fails a change whose baseline does not have it.
    done, junit, results = verdict(tmp_path, "--new", "slower.bpf.o", "--old", "fifo", *words)
    assert done.returncode == 1
    assert [result["ruleId"] for result in results] == ["invariants"]
    # Fixing a broken baseline passes, and there is nothing to compare.
    compiled(tmp_path, "lost", enqueue="scx_bpf_dsq_insert(p, 99, 1000, 0);")
    done, _, _ = verdict(tmp_path, "--new", "fifo", "--old", "lost.bpf.o", "--idle", "20ms")
    assert done.returncode == 0 and "the baseline fails, so there is no comparison" in done.stdout, done.stdout


def git(folder, *words: str) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_two_commits_of_a_starter_project(tmp_path):
    project = tmp_path / "project"
    subprocess.run([COMMAND, "init", project], check=True, capture_output=True)
    source = project / "first.bpf.c"
    text = source.read_text()

    def commit(new: str) -> str:
        source.write_text(new)
        git(project, "add", "--all")
        git(project, "commit", "--quiet", "--allow-empty", "--message", "change")
        return git(project, "rev-parse", "HEAD")

    # Tasks must compute for longer than the third commit's slice, or it would make no difference.
    load = [word.replace("compute=1ms", "compute=5ms") for word in LOAD]

    def judge(*words: str):
        return verdict(project, "--source", "first.bpf.c", *words, "--fail-if", "switches > +1%", load=load)

    git(project, "init", "--quiet")
    first = commit(text)
    # A comment changes nothing.
    second = commit(text + "/* The end. */\n")
    done, junit, results = judge("--base", first)
    assert done.returncode == 0 and results == [], done.stdout + done.stderr
    assert junit.find("testcase").get("name") == "first.bpf.c compiles"
    assert (project / "out/new/first.bpf.o").is_file() and (project / "out/old/first.bpf.o").is_file()
    # A shorter slice leads to more switches. Changes that are not committed do not count.
    third = commit(text.replace(" = 5000000;", " = 100000;"))
    source.write_text("no C")
    done, junit, results = judge("--base", second)
    assert done.returncode == 1 and [one["ruleId"] for one in results] == ["compare"], done.stdout + done.stderr
    assert "### The first decision that differs" in done.stdout
    # A build command uses the headers of each commit.
    done, _, _ = judge("--base", second, "--head", third, "--build", "make first.bpf.o")
    assert done.returncode == 1
    # A source that does not compile is a failed check with the position of the error.
    commit(text.replace("return cpu;", "return cpus;"))
    done, junit, results = judge("--base", first)
    place = results[0]["locations"][0]["physicalLocation"]
    line = text[: text.index("return cpu;")].count("\n") + 1
    assert done.returncode == 1 and results[0]["ruleId"] == "compiles"
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("first.bpf.c", line)
    # A new scheduler has no baseline.
    git(project, "mv", "first.bpf.c", "other.bpf.c")
    (project / "other.bpf.c").write_text(text)
    git(project, "commit", "--all", "--quiet", "--message", "rename")
    done, _, results = verdict(project, "--source", "other.bpf.c", "--base", third)
    assert done.returncode == 0 and "there is no baseline" in done.stdout, done.stdout + done.stderr
    done, _, _ = judge("--base", "no-such-commit")
    assert done.returncode == 2 and "this clone has no commit 'no-such-commit'" in done.stderr


def test_a_wrong_input_is_an_error(tmp_path):
    done, _, _ = verdict(tmp_path, "--new", "fifoo")
    assert done.returncode == 2 and "did you mean fifo" in done.stderr
    done, _, _ = verdict(tmp_path, "--new", "fifo", "--source", "fifo.bpf.c")
    assert done.returncode == 2 and "give either --source with --base, or --new" in done.stderr


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_step_of_the_action(tmp_path):
    """Executes the shell script of action.yml like a runner, with inputs in environment variables."""
    text = (REPOSITORY / "action.yml").read_text()
    step = text[text.index("    - id: verdict") : text.index("    - if: always()")]
    script = "\n".join(line.removeprefix("        ") for line in step.partition("run: |\n")[2].splitlines())
    names = re.findall(r"^        (\w+): \$\{\{ inputs\.([\w-]+) \}\}$", step, re.MULTILINE)
    defaults = dict(re.findall(r'^  ([\w-]+):\n    description: .*\n    default: "?(.*?)"?$', text, re.MULTILINE))
    project = tmp_path / "project"
    subprocess.run([COMMAND, "init", project], check=True, capture_output=True)
    git(project, "init", "--quiet")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "begin")
    inputs = {
        **defaults, "source": "first.bpf.c", "base": "HEAD", "machine": "smp4\nup\n", "for": "20ms", "runs": "2",
        "workload": "closed:n=6,compute=1ms,think=1ms", "fail-if": "switches > +5%\nscore worse 3%\n",
    }  # fmt: skip
    runner = {"RUNNER_TEMP": tmp_path, "GITHUB_OUTPUT": tmp_path / "output", "GITHUB_STEP_SUMMARY": tmp_path / "summary"}
    variables = {name: inputs[key] for name, key in names}
    variables["SCRIPT"] = str(SCRIPT)
    variables["PATH"] = f"{COMMAND.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script], cwd=project, capture_output=True, text=True,
        env={**os.environ, **{name: str(value) for name, value in runner.items()}, **variables},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    results = tmp_path / "windtunnel-results"
    assert (tmp_path / "output").read_text() == f"results={results}\n"
    assert (tmp_path / "summary").read_text() == (results / "verdict.md").read_text()
    assert {"verdict.md", "junit.xml", "results.sarif", "report.html"} <= set(os.listdir(results))
    # Two checks and two conditions on each of two machines, and "compiles" and "loads".
    assert xml.parse(results / "junit.xml").getroot()[0].get("tests") == "10"
