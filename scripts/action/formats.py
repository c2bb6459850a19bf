# SPDX-License-Identifier: GPL-2.0-only
"""Writes a verdict as Markdown, JUnit and SARIF."""

import re
import xml.etree.ElementTree as xml

RULES = {
    "compiles": "The source compiles",
    "loads": "The object loads into the simulated kernel",
    "sanitizer": "The policy keeps the rules of the kernel's verifier",
    "invariants": "No CPU idles while a task waits, and no task starves",
    "compare": "The policy is not worse than its baseline",
}


def escaped(text):
    """Escapes a text for Markdown, even inside a table."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", text).replace("\n", " ")


def fenced(text):
    fence = "`" * (max([2, *map(len, re.findall("`+", text))]) + 1)
    return f"{fence}text\n{text}\n{fence}"


def percent(value):
    return "" if value is None else f"{value:+.1f} %"


def change(metric):
    if metric["shown"] == "equal":
        return "none"
    return f"{percent(metric['change_percent'])} ({interval(metric)})"


def interval(metric):
    low, high = metric["change_percent_low"], metric["change_percent_high"]
    return f"{percent(low)} to {percent(high)}" if low is not None and high is not None else ""


def matrix(places):
    """Formats a table with a row for each place of the matrix."""
    names = []
    for place in places:
        names += [name for name in place.metrics if name not in names]
    lines = ["| machine | workload | pairs | " + " | ".join(map(escaped, names)) + " | result |"]
    lines.append("|---|---|---:|" + "---|" * (len(names) + 1))
    for place in places:
        found = {metric["name"]: metric for metric in place.comparison["metrics"]} if place.comparison else {}
        cells = [escaped(place.machine), escaped(place.workload), str(len(place.comparison["seeds"])) if found else ""]
        for name in names:
            known = name in found and name in place.metrics
            cells.append(escaped(change(found[name])) if known else "")
        cells.append("passed" if all(check.holds for check in place.checks) else "**failed**")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def figures(place):
    """Formats a comparison: its verdict, and a table of all figures."""
    comparison = place.comparison
    lines = ["", f"### {escaped(place.name)}", ""]
    lines += [escaped(line) if index == 0 else f"- {escaped(line.removeprefix('- '))}"
              for index, line in enumerate(comparison["verdict"])]  # fmt: skip
    lines += ["", "| figure | old | new | change | 95 % CI | new is |", "|---|---:|---:|---:|---|---|"]
    for metric in comparison["metrics"]:
        cells = [metric["name"], f"{metric['a']['mean']:.6g}", f"{metric['b']['mean']:.6g}",
                 percent(metric["change_percent"]), interval(metric), metric["shown"] or ""]  # fmt: skip
        lines.append("| " + " | ".join(map(escaped, cells)) + " |")
    return lines


def markdown(checks, places, notes, divergence):
    """checks: all checks. notes: sentences. divergence: text about the first decision that differs,
    with its title as the first line, or None."""
    failed = [check for check in checks if not check.holds]
    head = f"## windtunnel: {len(failed)} of {len(checks)} checks failed" if failed else "## windtunnel: all checks passed"
    lines = [head, ""]
    lines += [f"- {escaped(note)}" for note in notes]
    if places:
        lines += ["", *matrix(places)]
    for check in failed:
        lines += ["", f"### Failed: {escaped(check.name)}", "", fenced(check.text)]
    if divergence:
        title, _, text = divergence.partition("\n")
        lines += ["", f"### {escaped(title)}", ""]
        lines += [fenced(text)] if text.strip() else []
    compared = [place for place in places if place.comparison]
    for place in compared:
        if len(compared) == 1 or not all(check.holds for check in place.checks):
            lines += figures(place)
    lines += ["", "<details><summary>All checks</summary>", "", "| check | result |", "|---|---|"]
    lines += [f"| {escaped(check.name)} | {'passed' if check.holds else '**failed**'} |" for check in checks]
    lines += ["", "</details>"]
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


def sarif(checks, policy):
    results = []
    for check in checks:
        if check.holds:
            continue
        # GitHub shows only results with a position, so line 1 stands in for an unknown line.
        place = {"artifactLocation": {"uri": check.file or str(policy)}, "region": {"startLine": check.line or 1}}
        results.append({"ruleId": check.rule, "level": "error", "message": {"text": f"{check.name}\n{check.text}"},
                        "locations": [{"physicalLocation": place}]})  # fmt: skip
    rules = [{"id": rule, "shortDescription": {"text": text}} for rule, text in RULES.items()]
    driver = {"name": "windtunnel", "rules": rules}
    run = {"tool": {"driver": driver}, "results": results}
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
