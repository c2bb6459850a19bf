# SPDX-License-Identifier: GPL-2.0-only
"""The errors of the model for the gains of a search."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from windtunnel._gain import Gain
from windtunnel._windtunnel import model_error


@dataclass(frozen=True)
class ModelError:
    """Usual (median) errors of the model for a change of a figure, over several machines and workloads.

    They were measured between different policies. The change from one setting of a policy to another
    was not compared with a kernel."""

    low: float
    """Smallest of the errors, in percent."""
    high: float
    """Largest of the errors, in percent."""
    undecided: bool
    """Whether the gain is at most as large as the largest error."""

    @classmethod
    def of(cls, figure: str, gain: Gain, places: Iterable[tuple[int, str]]) -> ModelError | None:
        """Returns the errors of a figure, or None if it was not compared with a kernel. `places` has the
        number of CPUs and the workload of each measurement."""
        known = [json.loads(text) for cpus, workload in places if (text := model_error(figure, cpus, workload))]
        errors = [one["change_median_percent"] for one in known]
        if not errors:
            return None
        # A figure that becomes half as large changes as much as one that becomes twice as large.
        ratio = max(1 + gain.percent / 100, 1 / (1 + gain.percent / 100))
        return cls(min(errors), max(errors), 100 * (ratio - 1) <= max(errors))

    def __str__(self) -> str:
        low, high = f"{self.low:.0f}", f"{self.high:.0f}"
        errors = f"{low} %" if low == high else f"{low} to {high} %"
        verdict = "undecided by the model" if self.undecided else "larger than the model's usual error"
        return f"{errors} for such a change: the gain is {verdict}"
