# SPDX-License-Identifier: GPL-2.0-only
"""Gains of a policy's settings over its default settings, with confidence intervals."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Gain:
    """A gain over the default settings in percent, with its 95 % confidence interval over seeds."""

    percent: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, logarithms: Sequence[float], comparisons: int = 1) -> Gain:
        """Averages gains, given as natural logarithms. If gains will decide which of several settings is best,
        pass the number of settings as `comparisons`: it divides the 5 % error (Bonferroni's correction)."""
        mean = statistics.fmean(logarithms)
        low = high = None
        if len(logarithms) > 1:
            quantile = student(len(logarithms) - 1, 1 - 0.05 / comparisons)
            half = quantile * statistics.stdev(logarithms) / math.sqrt(len(logarithms))
            low, high = percent(mean - half), percent(mean + half)
        return cls(percent(mean), low, high)

    @property
    def confident(self) -> bool:
        """Whether the whole interval is above 0. Without an interval, the answer is no."""
        return self.low is not None and self.low > 0

    def __str__(self) -> str:
        interval = "" if self.low is None else f" (95 % CI {self.low:+.1f} to {self.high:+.1f} %)"
        return f"{self.percent:+.1f} %{interval}"


def percent(logarithm: float) -> float:
    return 100 * (math.exp(logarithm) - 1)


@functools.cache
def student(degrees: int, probability: float) -> float:
    """Returns the t for which a value of Student's t distribution is between -t and t with this
    probability."""
    low, high = 0.0, 1.0
    while _within(degrees, high) < probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(degrees, middle) < probability else (low, middle)
    return high


def _within(degrees: int, t: float) -> float:
    """Returns the probability of a value between -t and t. For integer degrees of freedom, it is a finite
    series (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(degrees))
    odd = degrees % 2
    total, term = 0.0, math.cos(angle) if odd else 1.0
    for exponent in range(odd, degrees - 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (exponent + 1) / (exponent + 2)
    total *= math.sin(angle)
    return (angle + total) * 2 / math.pi if odd else total
