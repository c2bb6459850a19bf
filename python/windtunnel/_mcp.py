# SPDX-License-Identifier: GPL-2.0-only
"""A server for the Model Context Protocol (MCP), with windtunnel's commands as tools.

Answers are short, and link to files with the complete output.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from windtunnel._commands import execute
from windtunnel._windtunnel import Error

# An answer takes up room in a model's context.
_LINES = 40
_WIDTH = 200
_SECONDS = 300.0
# The default release of `--kernel`.
_KERNEL = "7.2"


class Answer(TypedDict):
    """The answer of a tool."""

    status: str
    """`ok`; `failed` if a policy failed or a condition holds (`fail_if`); `error` for wrong inputs."""
    text: str
    """The result in a few lines."""
    files: list[str]
    """Links to files with the complete result."""


def _short(text: str) -> str:
    lines = [line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..." for line in text.strip().splitlines()]
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], f"... {len(lines) - _LINES + 1} more lines"]
    return "\n".join(lines)


def server(folder: str | os.PathLike[str] | None = None, seconds: float = _SECONDS) -> Any:
    """Return the server.

    folder: directory for files, by default a new one in the directory for temporary files.
    seconds: limit of the host time of a tool.

    Needs the official SDK: pip install 'windtunnel[mcp]'.
    """
    try:
        from mcp.server import MCPServer
    except ImportError as error:
        raise ImportError("mcp needs the SDK of the protocol: pip install 'windtunnel[mcp]'") from error
    files = Path(folder or tempfile.mkdtemp(prefix="windtunnel-mcp-"))
    files.mkdir(parents=True, exist_ok=True)
    made = MCPServer(
        "windtunnel",
        instructions="Simulates Linux CPU schedulers (sched_ext BPF objects). A policy is the path of a .bpf.o file, the "
        "name of a shipped policy such as fifo or steal, or eevdf (the scheduler of Linux). Results are deterministic.",
    )

    def kept(name: str, text: str) -> str:
        """Writes a file under a new name, and returns a link to it."""
        number = 1 + len(list(files.iterdir()))
        path = files / f"{number:04}-{name}"
        path.write_text(text)
        return path.resolve().as_uri()

    def answer(command: str, policies: Sequence[str], options: dict[str, Any], links: Sequence[Path] = ()) -> Answer:
        try:
            done = execute(command, policies, options, timeout=seconds)
        except Error as error:
            return {"status": "error", "text": _short(str(error)), "files": []}
        except subprocess.TimeoutExpired:
            text = f"ended after {seconds:g} s; choose a shorter simulated time (for_) or a smaller workload"
            return {"status": "error", "text": text, "files": []}
        text = done.stdout + done.stderr
        written = [kept(f"{command}.txt", text)] + [path.resolve().as_uri() for path in links if path.exists()]
        return {"status": "ok" if done.returncode == 0 else "failed", "text": _short(text), "files": written}

    def release(kernel: str) -> dict[str, str]:
        return {"kernel": kernel} if kernel != _KERNEL else {}

    def inputs(
        machine: str | None, workload: str, for_: str | None, seed: int, set: dict[str, str] | None, kernel: str
    ) -> dict[str, Any]:
        options = {"machine": machine, "workload": workload, "for_": for_, "seed": seed, "set": set or {}}
        return {**options, **release(kernel)}

    @made.tool()
    def check(policy: str, kernel: str = _KERNEL) -> Answer:
        """Check that a policy loads into a Linux release (6.12 to 7.3) and keeps the verifier's rules, and list
        what is not modelled. The status is `failed` if the release refuses the policy."""
        return answer("check", [policy], release(kernel))

    @made.tool()
    def run(
        policies: list[str],
        machine: str | None = None,
        workload: str = "mixed.json",
        for_: str | None = None,
        seed: int = 1,
        set: dict[str, str] | None = None,
        sanitizer: bool = False,
        kernel: str = _KERNEL,
    ) -> Answer:
        """Run policies on a machine under a workload, and return a table of figures.

        machine: a name such as smp4, numa32 or epyc-2s, or an hwloc string such as "node:2 core:4 pu:2".
        The default is numa32, or for a recording as many CPUs as recorded.
        workload: an rt-app file, or a generator such as "hackbench:groups=2" or "schbench".
        for_: simulated time, such as "200ms". sanitizer: check each memory access of the policies.
        kernel: Linux release for which the policies are loaded, 6.12 to 7.3.
        The files include an HTML page with timelines.
        """
        page = files / f"run-{len(list(files.iterdir()))}.html"
        options = {**inputs(machine, workload, for_, seed, set, kernel), "html": page, "sanitize": sanitizer}
        return answer("run", policies, options, [page])

    @made.tool()
    def compare(
        a: str,
        b: str,
        machine: str | None = None,
        workload: str = "mixed.json",
        for_: str | None = None,
        runs: int = 10,
        fail_if: list[str] | None = None,
        set: dict[str, str] | None = None,
        kernel: str = _KERNEL,
    ) -> Answer:
        """Compare two policies over many seeds: each figure with its change and confidence interval.

        fail_if: conditions such as "p99_wakeup > +5%". The status is `failed` if one of them holds.
        """
        options = {**inputs(machine, workload, for_, 1, set, kernel), "runs": runs, "fail_if": fail_if or []}
        return answer("compare", [a, b], options)

    @made.tool()
    def diff(
        a: str,
        b: str,
        machine: str | None = None,
        workload: str = "mixed.json",
        for_: str | None = None,
        seed: int = 1,
        set: dict[str, str] | None = None,
        kernel: str = _KERNEL,
    ) -> Answer:
        """Find the first decision that two policies make differently, with the source line of each."""
        return answer("diff", [a, b], inputs(machine, workload, for_, seed, set, kernel))

    @made.tool()
    def explain(
        policy: str,
        machine: str | None = None,
        workload: str = "mixed.json",
        for_: str | None = None,
        seed: int = 1,
        idle: str = "2ms",
        starvation: str = "500ms",
        kernel: str = _KERNEL,
    ) -> Answer:
        """Find out what a policy does wrong: the first CPU that idles while a task waits, the first task
        that starves, and tasks on CPUs where they may not run; with a drawing of the schedule there."""
        options = {**inputs(machine, workload, for_, seed, None, kernel), "idle": idle, "starvation": starvation}
        return answer("invariants", [policy], options)

    @made.tool()
    def score(policy: str, suite: str = "default", set: dict[str, str] | None = None) -> Answer:
        """Compare a policy with eevdf on several machines and workloads: one number, above 1 if better. A policy
        that fails, or that the kernel's verifier would reject, has no score."""
        found = answer("score", [policy], {"suite": suite, "set": set or {}, "json": True})
        if found["status"] == "error":
            return found
        parts = json.loads(_text_of(found["files"][0]))
        link = kept("score.json", json.dumps(parts, indent=2))
        lines = [f"score {parts['score']:.4f}" if parts["score"] is not None else "no score", *parts["failures"]]
        if parts["score"] is not None:
            lines += [f"{ratio:.3f} {aspect}" for aspect, ratio in parts["by_aspect"].items()]
        lines += [
            f"{case['ratio']:.3f} {case['metric']}: {case['workload']} on {case['machine']}"
            for case in parts["cases"]
            if case["ratio"] is not None
        ]
        return {"status": found["status"], "text": _short("\n".join(lines)), "files": [link]}

    return made


def _text_of(link: str) -> str:
    """Reads the file that a link names."""
    from urllib.parse import unquote, urlsplit

    return Path(unquote(urlsplit(link).path)).read_text()


def main(options: Mapping[str, Any]) -> int:
    """The command `windtunnel mcp`, which serves on standard input and output."""
    import sys

    try:
        made = server(options["files"], options["seconds"])
    except ImportError as error:
        print(f"windtunnel: mcp: {error}", file=sys.stderr)
        return 2
    made.run("stdio")
    return 0
