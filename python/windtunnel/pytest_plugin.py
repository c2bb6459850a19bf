# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures for tests of schedulers with pytest."""

from __future__ import annotations

from typing import Any

import pytest

import windtunnel as package
from windtunnel._commands import Argument, execute


class Windtunnel:
    """What the fixture `windtunnel` provides: the package's functions, and assertions about policies."""

    run = staticmethod(package.run)
    compare = staticmethod(package.compare)
    diff = staticmethod(package.diff)
    invariants = staticmethod(package.invariants)
    score = staticmethod(package.score)
    sweep = staticmethod(package.sweep)
    compile = staticmethod(package.compile)

    def holds(self, policy: Argument, **options: Any) -> None:
        """Fail the test if an invariant is violated, and show the schedule around the violation.

        options: those of `windtunnel invariants`, for example `idle="2ms"` and `starvation="1s"`.
        """
        __tracebackhide__ = True
        done = execute("invariants", [policy], options)
        if done.returncode != 0:
            pytest.fail(done.stdout + done.stderr, pytrace=False)

    def not_worse(self, a: Argument, b: Argument, *conditions: str, **options: Any) -> None:
        """Fail the test if the change from a to b meets one of the conditions.

        conditions: as in `windtunnel compare --fail-if`, for example "p99_wakeup > +5%".
        options: further options of the command, for example `runs=20`.
        """
        __tracebackhide__ = True
        done = execute("compare", [a, b], {**options, "fail_if": list(conditions)})
        if done.returncode != 0:
            pytest.fail(done.stdout + done.stderr, pytrace=False)


@pytest.fixture(scope="session")
def windtunnel() -> Windtunnel:
    """Functions that run, compare and check policies."""
    return Windtunnel()
