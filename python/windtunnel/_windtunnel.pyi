# SPDX-License-Identifier: GPL-2.0-only
import os

class Error(Exception):
    """An input that cannot be used."""

    kind: str
    """`input`, `usage` (wrong options of a command) or `compile` (clang's messages)."""
    message: str
    place: str | None
    """The file, if the error is in a file."""
    line: int | None
    column: int | None
    hint: str | None
    """What the user can do about the error."""

class Table:
    """A table of a run or a sweep.

    Polars, pandas, pyarrow and DuckDB read it through the Arrow PyCapsule interface, for example
    `polars.DataFrame(table)`.
    """

    columns: list[str]
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def command(arguments: list[str]) -> int: ...
def options(arguments: list[str]) -> tuple[str | None, int]: ...
def folder() -> str: ...
def model_error(figure: str, cpus: int, workload: str) -> str | None: ...
def run(
    spec: str,
    *,
    tables: bool,
    trace: str | os.PathLike[str] | None,
) -> tuple[str, dict[str, float | None], list[str], dict[str, Table] | None]: ...
def sweep(
    text: str,
    *,
    output: str | os.PathLike[str] | None,
    store: str | os.PathLike[str] | None,
    threads: int | None,
    only: list[int] | None = None,
) -> Table: ...
def sweep_names(text: str) -> list[str]: ...
def sweep_runs(text: str) -> list[str]: ...
