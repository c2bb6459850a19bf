# SPDX-License-Identifier: GPL-2.0-only
"""Machines and workloads that are built in Python.

Both are path-like objects: every function that takes the name of a machine or workload takes them as
well, and writes their file when it needs the path.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_folder: Path | None = None


def _write(name: str, text: str) -> str:
    """Writes a file that is removed when this process exits, and returns its path."""
    global _folder
    if _folder is None:
        _folder = Path(tempfile.mkdtemp(prefix="windtunnel-"))
        atexit.register(shutil.rmtree, _folder, ignore_errors=True)
    path = _folder / hashlib.sha256(text.encode()).hexdigest()[:16] / name
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return os.fspath(path)


def toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {toml(one)}" for name, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, (bool, int)):
        return json.dumps(value)
    if isinstance(value, float):
        # repr() always writes a point or an exponent, so the value stays a float.
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else json.dumps(name)


class Machine:
    """A simulated machine, in the format of machine files.

    >>> machine = Machine("mine", topology="node:2 core:8 pu:2", hz=250)
    >>> machine.cost("context_switch", ns=600, source="lmbench lat_ctx")
    >>> windtunnel.run("fifo", machine=machine)

    `fields` has the keys of the file, and `name` is its name without `.toml`.
    """

    name: str
    fields: dict[str, Any]

    def __init__(self, name: str, *, topology: Any = None, hz: int = 250, description: str = "", **fields: Any) -> None:
        self.name = name
        self.fields = {"description": description or name, "hz": hz}
        if topology is not None:
            self.fields["topology"] = topology
        self.fields |= fields

    def cost(self, constant: str, *, source: str, ns: Any = None, ps: int | None = None) -> Machine:
        """Set a constant of the cost table.

        ns: a time, or a mapping with the keys same, core, llc, node and remote.
        source: where the number comes from.
        """
        value: dict[str, Any] = {"ns": ns} if ps is None else {"ps": ps}
        self.fields.setdefault("costs", {})[constant] = {**value, "source": source}
        return self

    def to_toml(self) -> str:
        return "".join(f"{_key(name)} = {toml(value)}\n" for name, value in self.fields.items())

    @classmethod
    def from_toml(cls, text: str, name: str = "machine") -> Machine:
        """Read the text of a machine file."""
        made = cls(name)
        made.fields = tomllib.loads(text)
        return made

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Machine:
        """Read a machine file."""
        path = Path(path)
        return cls.from_toml(path.read_text(), path.stem)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the machine file."""
        Path(path).write_text(self.to_toml())

    def __fspath__(self) -> str:
        return _write(f"{self.name}.toml", self.to_toml())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Machine) and (self.name, self.fields) == (other.name, other.fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<windtunnel.Machine {self.name}: {self.fields.get('description', '')}>"


class _Object(list[tuple[str, Any]]):
    """A JSON object that keeps the order of its keys and may repeat them, as rt-app's files do."""

    def get(self, key: str) -> Any:
        return next((value for name, value in self if name == key), None)


def _json(value: Any, depth: int = 0) -> str:
    if isinstance(value, Mapping):
        value = _Object(value.items())
    if isinstance(value, _Object):
        if not value:
            return "{}"
        pad = "\t" * (depth + 1)
        lines = ",\n".join(f"{pad}{json.dumps(name)} : {_json(one, depth + 1)}" for name, one in value)
        return f"{{\n{lines}\n{pad[1:]}}}"
    if isinstance(value, (list, tuple)):
        return "[ " + ", ".join(_json(one, depth + 1) for one in value) + " ]"
    return json.dumps(value)


def _without_comments(text: str) -> str:
    """Removes the comments of an rt-app file."""
    out, at = [], 0
    while at < len(text):
        if text[at] == '"':
            end = at + 1
            while end < len(text) and text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            out.append(text[at : end + 1])
            at = end + 1
        elif text.startswith("/*", at):
            end = text.find("*/", at)
            at = len(text) if end < 0 else end + 2
            out.append(" ")
        elif text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


class Events:
    """Events of a task or of one of its phases, in order. Times are in microseconds."""

    def __init__(self, pairs: _Object) -> None:
        self._pairs = pairs

    def event(self, name: str, value: Any) -> Events:
        """Add any event of rt-app, for example `event("timer", {"ref": "tick", "period": 1000})`."""
        self._pairs.append((name, value))
        return self

    def run(self, us: int) -> Events:
        """Do work that takes the machine's fastest CPU `us` microseconds."""
        return self.event("run", us)

    def sleep(self, us: int) -> Events:
        return self.event("sleep", us)

    def timer(self, ref: str, period: int) -> Events:
        """Sleep until the next multiple of the period, counted from the start of the task."""
        return self.event("timer", {"ref": ref, "period": period})

    def lock(self, mutex: str) -> Events:
        return self.event("lock", mutex)

    def unlock(self, mutex: str) -> Events:
        return self.event("unlock", mutex)

    def send(self, channel: str, bytes: int = 1) -> Events:
        return self.event("send", {"ref": channel, "bytes": bytes})

    def recv(self, channel: str) -> Events:
        return self.event("recv", channel)

    def fork(self, task: str) -> Events:
        return self.event("fork", task)


class Task(Events):
    """A task of a workload."""

    def phase(self, name: str, **keys: Any) -> Events:
        """Add a phase, for example `phase("batch", loop=4).run(100)`."""
        phases = self._pairs.get("phases")
        if phases is None:
            phases = _Object()
            self._pairs.append(("phases", phases))
        pairs = _Object(keys.items())
        phases.append((name, pairs))
        return Events(pairs)


class Workload:
    """A workload, in the format of rt-app files.

    >>> workload = Workload("pair", duration=2)
    >>> workload.resource("a", type="pipe")
    >>> workload.task("ping", instance=2).run(10).send("a").sleep(100)
    """

    name: str

    def __init__(self, name: str, *, duration: int | None = None, **settings: Any) -> None:
        """Start an empty workload.

        duration, settings: keys of the section `global` of the file. The duration is in seconds.
        """
        self.name = name
        self._root = _Object()
        section = _Object(settings.items())
        if duration is not None:
            section.append(("duration", duration))
        if section:
            self._root.append(("global", section))

    def _section(self, name: str) -> _Object:
        found = self._root.get(name)
        if found is None:
            found = _Object()
            self._root.append((name, found))
        return found

    def task(self, name: str, **keys: Any) -> Task:
        """Add a task, for example `task("hog", instance=4, priority=10).run(1000)`."""
        pairs = _Object(keys.items())
        self._section("tasks").append((name, pairs))
        return Task(pairs)

    def resource(self, name: str, **keys: Any) -> Workload:
        """Add a resource, for example `resource("a", type="pipe", capacity=4096)`."""
        self._section("resources").append((name, _Object(keys.items())))
        return self

    def disturbance(self, **keys: Any) -> Workload:
        """Add an event that no task causes, for example `disturbance(at=100000, offline=3)`."""
        found = self._root.get("disturbances")
        if found is None:
            found = []
            self._root.append(("disturbances", found))
        found.append(_Object(keys.items()))
        return self

    def to_json(self) -> str:
        """Returns the text of the rt-app file."""
        return _json(self._root) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str = "workload") -> Workload:
        """Read the text of an rt-app file. Comments are dropped."""
        made = cls(name)
        made._root = json.loads(_without_comments(text), object_pairs_hook=_Object)
        return made

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Workload:
        """Read an rt-app file."""
        path = Path(path)
        return cls.from_json(path.read_text(), path.stem)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rt-app file."""
        Path(path).write_text(self.to_json())

    def __fspath__(self) -> str:
        return _write(f"{self.name}.json", self.to_json())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workload) and (self.name, self.to_json()) == (other.name, other.to_json())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<windtunnel.Workload {self.name}: {len(self._root.get('tasks') or [])} tasks>"
