# SPDX-License-Identifier: GPL-2.0-only
"""HTML pages of runs, traces and sweeps."""

from __future__ import annotations

import html
import os
import tempfile
from pathlib import Path
from typing import Any

from windtunnel._commands import Argument, execute

_HEIGHT = 900


class Report:
    """An HTML page. Jupyter shows it inside the notebook."""

    html: str
    """The page, which works without a network."""

    def __init__(self, page: str) -> None:
        self.html = page

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.html)

    def _repr_html_(self) -> str:
        # The page's styles and scripts would disturb the notebook, so it gets a document of its own.
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts" '
            f'style="width: 100%; height: {_HEIGHT}px; border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<windtunnel.Report: {len(self.html)} characters of HTML>"


def report(*sources: Argument, **options: Any) -> Report:
    """Return an HTML page about policies, trace files, or a sweep.

    sources: policies, which are run first; or trace files and recordings; or the Parquet file of
        `sweep(output=...)`.
    options: for policies those of `windtunnel run`, such as `machine=` and `workload=`, and for files
        those of `windtunnel report`.
    """
    files = [source for source in sources if _is_record(source)]
    if files and len(files) != len(sources):
        raise TypeError("report() takes either policies or files, but not both")
    with tempfile.TemporaryDirectory(prefix="windtunnel-") as folder:
        page = os.path.join(folder, "page.html")
        if files:
            execute("report", files, {**options, "output": page})
        else:
            execute("run", sources, {**options, "html": page})
        return Report(Path(page).read_text())


def _is_record(source: Argument) -> bool:
    """Whether a source is a file about earlier runs: neither an object nor C code."""
    path = Path(source)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) != b"\x7fELF" and path.suffix != ".c"
