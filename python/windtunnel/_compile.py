# SPDX-License-Identifier: GPL-2.0-only
"""Compiles policies."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from windtunnel import _windtunnel
from windtunnel._errors import error

_OPTIONS = ["-g", "-O2", "-mcpu=v3", "-Wall", "-target", "bpf", "-c"]
_COMPILERS = ["clang-19", "clang"]


def compile(source: str | os.PathLike[str], output: str | os.PathLike[str] | None = None) -> Path:
    """Compile a policy with clang, and return the path of the object.

    source: a file, or the text of a policy. It can include the headers of the package's policies,
        such as `include/scx.h`.
    output: path of the object. By default it is next to the source file, or in a new temporary
        directory if the source is a text.

    Raises FileNotFoundError without clang, and windtunnel.Error with clang's messages if the source
    does not compile.
    """
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise FileNotFoundError("clang is not installed (looked for clang-19 and clang)")
    text = isinstance(source, str) and "\n" in source
    if output is None:
        if text:
            import tempfile

            output = Path(tempfile.mkdtemp(prefix="windtunnel-")) / "policy.bpf.o"
        else:
            path = Path(source)
            output = path.with_name(path.name.removesuffix(".c").removesuffix(".bpf") + ".bpf.o")
    headers = f"-I{_windtunnel.folder()}/policies"
    command = [compiler, *_OPTIONS, headers, "-x", "c", "-" if text else os.fspath(source), "-o", os.fspath(output)]
    done = subprocess.run(command, input=source if text else None, capture_output=True, text=True)
    if done.returncode != 0:
        raise error(f"the policy does not compile:\n{done.stderr}", kind="compile")
    return Path(output)
