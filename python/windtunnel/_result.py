# SPDX-License-Identifier: GPL-2.0-only
"""The result of a run."""

from __future__ import annotations

import html
from typing import Any

from windtunnel._windtunnel import Table


class Result:
    """What happened when one policy ran on one machine under one workload.

    The fields of `windtunnel run --json` are attributes, for example `result.trace_hash`,
    `result.score` and `result.wakeup_latency_ns["p99"]`. A policy that was refused has only `status`,
    `exit`, and the fields that describe the run.

    With `run(tables=True)`, so are the tables `callbacks`, `locks`, `migrations`, `switches`, `tasks`
    and `wakeups`. The table `tasks` has all tasks, `fields["tasks"]` only those with the most CPU time.
    """

    fields: dict[str, Any]
    figures: dict[str, float | None]
    """The metrics of `windtunnel compare`, with times in ns. None if the policy failed or the workload
    has no such figure."""
    warnings: list[str]
    """Warnings of the loader, for example about functions that are not modelled."""
    tables: dict[str, Table]
    """Empty without `run(tables=True)`."""

    def __init__(
        self,
        fields: dict[str, Any],
        figures: dict[str, float | None],
        warnings: list[str],
        tables: dict[str, Table] | None,
    ) -> None:
        self.fields = fields
        self.figures = figures
        self.warnings = warnings
        self.tables = tables or {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        for values in (self.tables, self.fields):
            if name in values:
                return values[name]
        if name in ("callbacks", "locks", "migrations", "switches", "tasks", "wakeups"):
            raise AttributeError(f"this run has no table {name}: start it with tables=True")
        raise AttributeError(f"the result of a run with status {self.fields['status']} has no {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.fields, *self.tables})

    @property
    def failed(self) -> bool:
        """Whether the policy was refused or ended before the end of the run, or the workload ended in
        a deadlock."""
        return self.fields["status"] != "ran"

    def __repr__(self) -> str:
        about = f"{self.policy} on {self.machine}, {self.workload}, seed {self.seed}"
        if self.failed:
            return f"<windtunnel.Result: {about}: {self.status}: {self._reason()}>"
        return f"<windtunnel.Result: {about}: score {self.score} {self.score_unit}, trace hash {self.trace_hash}>"

    def _reason(self) -> str:
        if blocked := self.fields.get("deadlock"):
            return "; ".join(f"{task['comm']}[{task['pid']}] waits for {task['waits_for']}" for task in blocked)
        record = self.fields.get("exit") or {}
        return record.get("message") or record.get("reason") or "no reason given"

    def _repr_html_(self) -> str:
        """The figures as a table, for Jupyter."""
        rows = [("status", self.fields["status"])]
        if self.failed:
            rows.append(("reason", self._reason()))
        rows += [(name, f"{value:,.6g}") for name, value in self.figures.items() if value is not None]
        cells = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows
        )
        title = f"{self.policy} on {self.machine}, {self.workload}, seed {self.seed}"
        return f"<table><caption>{html.escape(title)}</caption>{cells}</table>"
