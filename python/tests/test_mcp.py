# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the MCP server through the client of the SDK, in one process."""

import asyncio
import json
import pathlib
from urllib.parse import unquote, urlsplit

import pytest

mcp = pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'windtunnel[mcp]'")

from windtunnel._mcp import server  # noqa: E402

LOAD = {"machine": "smp4", "workload": "closed:n=6,compute=1ms,think=1ms", "for_": "20ms"}


def call(made, name: str, **arguments):
    """Calls a tool, and returns its answer."""

    async def main():
        async with mcp.Client(made) as client:
            return await client.call_tool(name, arguments)

    result = asyncio.run(main())
    assert not result.is_error, result
    return result.structured_content


def text(link: str) -> str:
    return pathlib.Path(unquote(urlsplit(link).path)).read_text()


def test_the_server_lists_its_tools(tmp_path):
    async def main():
        async with mcp.Client(server(tmp_path)) as client:
            return await client.list_tools()

    tools = {tool.name: tool for tool in asyncio.run(main()).tools}
    assert set(tools) == {"check", "run", "compare", "diff", "explain", "score"}
    assert all(tool.description for tool in tools.values())


def test_answers_are_short_and_have_links(tmp_path):
    made = server(tmp_path)
    ran = call(made, "run", policies=["eevdf", "fifo"], **LOAD)
    assert ran["status"] == "ok" and "trace hash" in ran["text"]
    assert len(ran["text"].splitlines()) <= 40
    assert text(ran["files"][1]).startswith("<!DOCTYPE html>")
    compared = call(made, "compare", a="fifo", b="fifo", runs=3, fail_if=["switches > 1%"], **LOAD)
    assert compared["status"] == "ok" and "fail if" in text(compared["files"][0])
    different = call(made, "diff", a="fifo", b="percpu", **LOAD)
    assert "differ" in different["text"]
    assert call(made, "check", policy="fifo")["status"] == "ok"
    old = call(made, "run", policies=["fifo"], kernel="6.18", **LOAD)
    assert old["status"] == "failed" and "(--kernel 7.1)" in old["text"]


def test_explain_draws_the_first_violation(tmp_path):
    load = {"machine": "smp8", "workload": "hackbench:groups=2,loops=100", "idle": "100us"}
    answer = call(server(tmp_path), "explain", policy="percpu", **load)
    assert answer["status"] == "failed" and "idled for" in answer["text"] and "one column" in text(answer["files"][0])


def test_score_is_a_number_with_parts(tmp_path):
    suite = tmp_path / "suite.toml"
    suite.write_text("[[case]]\nmachine = 'smp4'\nworkload = 'closed:n=6,compute=1ms,think=1ms'\nfor = '20ms'\n")
    answer = call(server(tmp_path / "files"), "score", policy="eevdf", suite=str(suite))
    assert answer["text"].startswith("score 1.0000\n1.000 score: closed")
    assert json.loads(text(answer["files"][0]))["score"] == 1.0
    suite.write_text(suite.read_text() + "aspect = 'rounds'\n")
    answer = call(server(tmp_path / "files"), "score", policy="eevdf", suite=str(suite))
    assert answer["text"].startswith("score 1.0000\n1.000 rounds\n1.000 score: closed")


def test_wrong_inputs_and_long_runs_are_answers(tmp_path):
    answer = call(server(tmp_path), "run", policies=["fifoo"], **LOAD)
    assert answer["status"] == "error" and "did you mean fifo" in answer["text"]
    long = call(server(tmp_path, seconds=1.0), "run", policies=["fifo"], **{**LOAD, "for_": "36000s"})
    assert long["status"] == "error" and "ended after 1 s" in long["text"]
