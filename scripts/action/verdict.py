#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Checks and compares schedulers for CI, and writes the result in three formats.

usage: verdict.py --new NEW.bpf.o [--old OLD.bpf.o] [--machine M] [--workload W] [--runs N]
                  [--fail-if CONDITION]... [--idle TIME] [--starvation TIME] [--output DIR]

The directory contains verdict.md (Markdown), junit.xml (JUnit) and results.sarif (SARIF 2.1.0). The
exit status is 0 if everything holds, 1 if a check fails, and 2 if an input is wrong. Without --old,
the baseline of the comparison is eevdf.

It needs only the command windtunnel; the variable WINDTUNNEL names another one.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

# Position in the source of a policy, as in the messages of the command.
SOURCE = re.compile(r"(?P<file>[\w./-]+\.(?:c|h)):(?P<line>\d+)")
# Control characters that XML cannot contain.
FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class Check:
    """One check: its name, whether it holds, and a text about it."""

    def __init__(self, rule, name, holds, text, source=None):
        self.rule, self.name, self.holds, self.text = rule, name, holds, FORBIDDEN.sub("?", text.strip())
        found = SOURCE.search(source or "")
        self.file, self.line = (found["file"], int(found["line"])) if found else (None, None)


def command(*words):
    """Runs the command, and returns its exit status and its output. Wrong inputs end the script."""
    done = subprocess.run([os.environ.get("WINDTUNNEL", "windtunnel"), *words], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.stderr.write(done.stdout + done.stderr)
        sys.exit(2)
    return done.returncode, done.stdout, done.stderr


def loads(policy):
    status, out, err = command("check", policy)
    text = out + err
    return Check("loads", f"{policy} loads", status == 0, text, text)


def runs(policy, inputs):
    status, out, err = command("run", policy, *inputs, "--check", "--json", "-")
    [result] = json.loads(out)
    end = result.get("exit") or {}
    text = "ran" if status == 0 else f"{result['status']}: {end.get('reason', '')}: {end.get('message', '')}"
    return Check("sanitizer", f"{policy} runs in the sanitizer", status == 0, text, end.get("source"))


def holds(policy, inputs, limits):
    status, out, err = command("invariants", policy, *inputs, *limits)
    text = out + err
    return Check("invariants", f"{policy}: no CPU idles while a task waits, and no task starves", status == 0, text, text)


def compared(old, new, inputs, conditions, number):
    """Returns a check for each condition, and the comparison."""
    words = [word for condition in conditions for word in ("--fail-if", condition)]
    _, out, _ = command("compare", old, new, *inputs, "--runs", str(number), *words, "--json")
    found = json.loads(out)
    verdict = "\n".join(found["verdict"])
    checks = []
    for one in found["fail_if"]:
        text = {True: "holds", False: "does not hold"}.get(one["holds"], "cannot be evaluated")
        checks.append(Check("compare", f"fail if {one['condition']}", one["holds"] is False, f"{text}\n{verdict}"))
    failures = [text for side in "ab" for text in found["failures"][side] + found["lost_tasks"][side]]
    if failures:
        checks.append(Check("compare", "all runs of the comparison succeed", False, "\n".join(failures), "\n".join(failures)))
    return checks, found


def escaped(text):
    """Returns a text that Markdown shows as it is, also in the cell of a table."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", text).replace("\n", " ")


def fenced(text):
    fence = "`" * (max([2, *map(len, re.findall("`+", text))]) + 1)
    return f"{fence}text\n{text}\n{fence}"


def markdown(checks, comparison):
    failed = [check for check in checks if not check.holds]
    head = f"## windtunnel: {len(failed)} of {len(checks)} checks failed" if failed else "## windtunnel: all checks passed"
    lines = [head, ""]
    if comparison:
        lines += [escaped(line) if index == 0 else f"- {escaped(line.removeprefix('- '))}"
                  for index, line in enumerate(comparison["verdict"])]  # fmt: skip
        lines += ["", "| figure | A | B | change | 95 % CI | B is |", "|---|---:|---:|---:|---|---|"]
        number = lambda value: "" if value is None else f"{value:+.1f} %"
        for metric in comparison["metrics"]:
            low, high = metric["change_percent_low"], metric["change_percent_high"]
            interval = f"{number(low)} to {number(high)}" if low is not None and high is not None else ""
            cells = [metric["name"], f"{metric['a']['mean']:.6g}", f"{metric['b']['mean']:.6g}",
                     number(metric["change_percent"]), interval, metric["shown"] or ""]  # fmt: skip
            lines.append("| " + " | ".join(map(escaped, cells)) + " |")
        lines.append("")
    lines += ["| check | result |", "|---|---|"]
    lines += [f"| {escaped(check.name)} | {'passed' if check.holds else '**failed**'} |" for check in checks]
    for check in failed:
        lines += ["", f"### {escaped(check.name)}", "", fenced(check.text)]
    return "\n".join(lines) + "\n"


def junit(checks):
    failures = str(sum(not check.holds for check in checks))
    suite = xml.Element("testsuite", name="windtunnel", tests=str(len(checks)), failures=failures)
    for check in checks:
        case = xml.SubElement(suite, "testcase", classname=f"windtunnel.{check.rule}", name=check.name)
        if not check.holds:
            failure = xml.SubElement(case, "failure", message=check.text.split("\n")[0])
            failure.text = check.text
    suites = xml.Element("testsuites")
    suites.append(suite)
    return xml.tostring(suites, encoding="unicode", xml_declaration=True)


RULES = {
    "loads": "The object loads into the simulated kernel",
    "sanitizer": "The policy keeps the rules of the kernel's verifier",
    "invariants": "No CPU idles while a task waits, and no task starves",
    "compare": "The policy is not worse than its baseline",
}


def sarif(checks, policy):
    results = []
    for check in checks:
        if check.holds:
            continue
        # GitHub shows only results with a position. If no source line is known, the position is
        # line 1 of the object.
        place = {"artifactLocation": {"uri": check.file or policy}, "region": {"startLine": check.line or 1}}
        results.append({"ruleId": check.rule, "level": "error", "message": {"text": f"{check.name}\n{check.text}"},
                        "locations": [{"physicalLocation": place}]})  # fmt: skip
    rules = [{"id": rule, "shortDescription": {"text": text}} for rule, text in RULES.items()]
    driver = {"name": "windtunnel", "rules": rules}
    run = {"tool": {"driver": driver}, "results": results}
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--new", required=True)
    parser.add_argument("--old", default="eevdf")
    parser.add_argument("--machine", default="numa32")
    parser.add_argument("--workload", default="mixed.json")
    parser.add_argument("--for", dest="length")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--fail-if", action="append", default=[])
    parser.add_argument("--idle", default="2ms")
    parser.add_argument("--starvation", default="500ms")
    parser.add_argument("--output", type=Path, default=Path("windtunnel-results"))
    args = parser.parse_args()
    inputs = ["--machine", args.machine, "--workload", args.workload]
    inputs += ["--for", args.length] if args.length else []
    checks, comparison = [loads(args.new)], None
    if checks[0].holds:
        checks.append(runs(args.new, inputs))
        checks.append(holds(args.new, inputs, ["--idle", args.idle, "--starvation", args.starvation]))
        more, comparison = compared(args.old, args.new, inputs, [one for one in args.fail_if if one.strip()], args.runs)
        checks += more
    args.output.mkdir(parents=True, exist_ok=True)
    text = markdown(checks, comparison)
    (args.output / "verdict.md").write_text(text)
    (args.output / "junit.xml").write_text(junit(checks))
    (args.output / "results.sarif").write_text(json.dumps(sarif(checks, args.new), indent=2))
    print(text, end="")
    sys.exit(0 if all(check.holds for check in checks) else 1)


if __name__ == "__main__":
    main()
