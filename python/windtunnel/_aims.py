# SPDX-License-Identifier: GPL-2.0-only
"""The objectives and constraints of a search, computed from the gains of single runs."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from windtunnel._gain import Gain


@dataclass(frozen=True)
class Objective:
    """A metric of `windtunnel compare`, and whether higher values are better. `higher` is None for
    the score, whose better direction depends on the workload."""

    metric: str
    higher: bool | None

    @classmethod
    def parse(cls, text: str) -> Objective:
        metric, _, direction = text.partition(":")
        if direction not in ("", "min", "max"):
            raise ValueError(f"objective {text!r}: expected METRIC, METRIC:min or METRIC:max")
        if metric == "busy" and not direction:
            raise ValueError("objective 'busy': write busy:min or busy:max")
        return cls(metric, (None if metric == "score" else False) if not direction else direction == "max")


@dataclass(frozen=True)
class Constraint:
    """A bound on a metric, relative to its value with the default settings."""

    metric: str
    below: bool
    ratio: float

    @classmethod
    def parse(cls, text: str) -> Constraint:
        found = re.fullmatch(r"\s*(\w+)\s*(<=|>=)\s*([+-]?\d+(?:\.\d+)?)\s*%\s*", text)
        if not found:
            number = re.search(r"[\d.]+\s*$", text)
            missing = f"{number[0].strip()!r} has no unit; " if number else ""
            raise ValueError(f"constraint {text!r}: {missing}expected METRIC <= +5% or METRIC >= -5%")
        return cls(found[1], found[2] == "<=", 1 + float(found[3]) / 100)


@dataclass(frozen=True)
class Aims:
    """The objectives and constraints of a search."""

    texts: Sequence[str]
    goals: Sequence[Objective]
    bounds: Sequence[Constraint]
    robust: str

    @property
    def metrics(self) -> list[tuple[str, bool | None]]:
        """Metrics to measure. Those of the objectives come first."""
        metrics = [(goal.metric, goal.higher) for goal in self.goals]
        for bound in self.bounds:
            if bound.metric not in dict(metrics):
                metrics.append((bound.metric, None if bound.metric == "score" else True))
        return metrics


def by_place(gains: dict[tuple[str, int], float]) -> dict[str, float]:
    places: dict[str, list[float]] = {}
    for (place, _), gain in gains.items():
        places.setdefault(place, []).append(gain)
    return {place: statistics.fmean(values) for place, values in places.items()}


def aggregate(gains: dict[tuple[str, int], float], robust: str) -> float:
    values = by_place(gains).values()
    return min(values) if robust == "worst" else statistics.fmean(values)


def change(gains: dict[tuple[str, int], float], bound: Constraint, goals: Sequence[Objective], robust: str) -> float:
    """Returns the change that a constraint bounds, as the logarithm of a ratio."""
    lower_is_better = any(goal.metric == bound.metric and goal.higher is False for goal in goals)
    changes = [-gain if lower_is_better else gain for gain in by_place(gains).values()]
    if robust == "worst":
        return max(changes) if bound.below else min(changes)
    return statistics.fmean(changes)


def excess(gains: dict[tuple[str, int], float], bound: Constraint, goals: Sequence[Objective], robust: str) -> float:
    """Returns how far a change is beyond a constraint, as a logarithm: not above 0 if the constraint is
    met."""
    distance = change(gains, bound, goals, robust) - math.log(bound.ratio)
    return distance if bound.below else -distance


def by_seed(gains: dict[tuple[str, int], float], seeds: Sequence[int], robust: str) -> list[float]:
    """Returns one gain per seed: the mean over all places, or the worst place."""
    pick = min if robust == "worst" else statistics.fmean
    return [pick([gain for (_, own), gain in gains.items() if own == seed]) for seed in seeds]


def over_seeds(gains: dict[tuple[str, int], float], seeds: Sequence[int], robust: str) -> Gain:
    return Gain.of(by_seed(gains, seeds, robust))
