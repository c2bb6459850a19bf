# SPDX-License-Identifier: GPL-2.0-only
"""Searches for good parameters of a policy with Optuna.

Every run with tried settings is paired with a run of the default settings that has the same machine,
workload and seed (common random numbers). The *gain* is the logarithm of the ratio of a figure in the
two runs, with a sign that makes more better. An objective is the mean or the worst gain over all
machines and workloads.

The best of many measured gains is partly luck. The best settings are therefore validated with fresh
seeds, and the defaults are kept unless a gain is confirmed.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import shlex
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from windtunnel._aims import Aims, Constraint, Objective, aggregate, by_seed, excess, over_seeds
from windtunnel._commands import Argument, parameters
from windtunnel._gain import Gain, percent
from windtunnel._model import ModelError
from windtunnel._result import Result
from windtunnel._run import execute
from windtunnel._sweep import definition
from windtunnel._units import Time, duration, nanoseconds
from windtunnel._windtunnel import sweep_runs

Range = tuple[int, int] | Sequence[int]
Settings = dict[str, int]

_STUDY = "windtunnel"
# A parameter in the command line of a scheduler's program.
_PARAMETER = re.compile(r"\{([A-Za-z_]\w*)=([^}]*)\}")
# One of this many trials survives each stage of the successive halving.
_KEEP = 2
# Ranges that span more than this factor are searched on a logarithmic scale.
_LOGARITHMIC = 100
# So are ranges from 0 to at least this value, after adding 1. On a linear scale, a search of 0..1 s
# would hardly ever try values below 10 ms.
_LOGARITHMIC_FROM_0 = 10_000
# The validation takes this many settings and rounds.
_FINALISTS = 5
_VALIDATION_ROUNDS = 4
# First seed of the validation, far from the seeds of the search and of the held-out measurements.
_FRESH = 1_000_001
_SAMPLERS = ("tpe", "nsga2", "gp")


@dataclass
class Tuned:
    """The result of `tune()`."""

    policy: str
    settings: Settings
    """Chosen settings. Empty if the defaults are kept."""
    objectives: list[str]
    gains: dict[str, Gain]
    """Gain of each objective on the machines and seeds of the search."""
    held_out_seeds: dict[str, Gain]
    """Gain on the same machines with held-out seeds."""
    held_out: dict[str, Gain]
    """Gain on held-out machines with held-out seeds. Empty if no machines were held out."""
    finalists: list[dict[str, Any]]
    """Best settings of the search, best first: `settings`, the gains in percent in the `search`, the
    `validated` gains with fresh seeds, the number of these seeds, and whether the gain is `confirmed`."""
    front: list[dict[str, Any]]
    """Pareto front of the trials that meet all constraints: settings, and gains in percent."""
    importances: dict[str, dict[str, float]]
    """Importance of each parameter for each objective, from 0 to 1."""
    trials: int
    pruned: int
    failed: int
    defaults: Settings = field(default_factory=dict)
    model_errors: dict[str, ModelError] = field(default_factory=dict)
    """Usual errors of the model for each objective, and whether the gain on held-out machines (or seeds) is
    larger. Lacks the objectives that were not compared with a kernel, and all if the defaults are kept."""

    @property
    def set_options(self) -> str:
        """Chosen settings as options for the command line."""
        return " ".join(f"--set {name}={value}" for name, value in self.settings.items())

    @property
    def live_command(self) -> str:
        """Command that loads the policy with the chosen settings into a real kernel, or starts the program of
        the scheduler."""
        program = self.policy.removeprefix("exec:").strip()
        if program != self.policy:
            settings = {name: str(value) for name, value in self.settings.items()}
            chosen = _PARAMETER.sub(lambda found: settings.get(found[1], found[2]), program)
            return f"sudo {chosen}"
        return f"sudo windtunnel live load {shlex.quote(self.policy)} {self.set_options}".rstrip()

    @property
    def optimism(self) -> dict[str, float]:
        """How much the search overstates each gain, in percentage points: its gain minus that on held-out
        machines, or on held-out seeds if no machines were held out."""
        held_out = self.held_out or self.held_out_seeds
        return {name: self.gains[name].percent - gain.percent for name, gain in held_out.items()}

    def to_json(self) -> dict[str, Any]:
        gains = {name: getattr(self, name) for name in ("gains", "held_out_seeds", "held_out")}
        return {
            "policy": self.policy,
            "settings": self.settings,
            "set_options": self.set_options,
            "live_command": self.live_command,
            "defaults": self.defaults,
            **{name: {key: vars(gain) for key, gain in one.items()} for name, one in gains.items()},
            "optimism": self.optimism,
            "model_errors": {name: vars(error) for name, error in self.model_errors.items()},
            "finalists": [
                {**one, "validated": {name: vars(gain) for name, gain in one["validated"].items()}}
                for one in self.finalists
            ],
            "front": self.front,
            "importances": self.importances,
            "trials": self.trials,
            "pruned": self.pruned,
            "failed": self.failed,
        }

    def __str__(self) -> str:
        lines = [f"{self.policy}: {self.trials} trials, {self.pruned} ended early, {self.failed} failed"]
        if self.finalists:
            lines.append(f"validation of the best {len(self.finalists)} settings with fresh seeds:")
        for one in self.finalists:
            settings = " ".join(f"{name}={value}" for name, value in one["settings"].items())
            shown = ", ".join(f"{name} {gain}" for name, gain in one["validated"].items())
            result = one.get("failure") or f"{shown}, {one['validation_seeds']} seeds"
            lines.append(f"  {settings}: {result}{', confirmed' if one['confirmed'] else ''}")
        reason = "no others were better with confidence" if self.finalists else "no others were better"
        lines.append(f"chosen: {self.set_options or f'the default settings; {reason}'}")
        for name in self.objectives if self.settings else []:
            lines.append(f"{name}:")
            lines.append(f"  in the search            {self.gains[name]}")
            if name in self.held_out_seeds:
                lines.append(f"  other seeds              {self.held_out_seeds[name]}")
            if name in self.held_out:
                lines.append(f"  other machines and seeds {self.held_out[name]}")
            if name in self.optimism:
                lines.append(f"  optimism of the search   {self.optimism[name]:+.1f} points")
            if name in self.model_errors:
                lines.append(f"  error of the model       {self.model_errors[name]}")
            for parameter, share in self.importances.get(name, {}).items():
                lines.append(f"  importance of {parameter}: {share:.2f}")
        if len(self.front) > 1:
            lines.append("Pareto front:")
            for one in self.front:
                shown = ", ".join(f"{name} {gain:+.1f} %" for name, gain in one["gains"].items())
                settings = " ".join(f"{name}={value}" for name, value in one["settings"].items())
                lines.append(f"  {settings}: {shown}")
        lines.append(f"live: {self.live_command}")
        return "\n".join(lines)


class _Failed(Exception):
    """With some settings, the policy failed, lost tasks, or has no figure."""


class _Bench:
    """Runs settings and the defaults side by side, and computes gains."""

    def __init__(self, policy: Argument, workloads: Sequence[Argument], for_ns: int | None, phase: str, threads: int | None) -> None:
        self.phase = phase
        self.policy = os.fspath(policy)
        self.workloads = [os.fspath(load) for load in workloads]
        self.for_ns = for_ns
        self.threads = threads or len(os.sched_getaffinity(0))
        self._defaults: dict[str, Result] = {}
        # Number of CPUs and workload of all pairs of runs.
        self.places: dict[tuple[int, str], None] = {}

    def gains(
        self, settings: Settings, machines: Sequence[Argument], seeds: Sequence[int], share: float,
        metrics: Iterable[tuple[str, bool | None]],
    ) -> dict[str, dict[tuple[str, int], float]]:  # fmt: skip
        """Returns the gains of each metric by place (machine and workload) and seed."""
        grid = definition(
            policies=[self.policy],
            machines=[os.fspath(machine) for machine in machines],
            workloads=self.workloads,
            seeds=list(seeds),
            phase=self.phase,
            for_=None if self.for_ns is None else f"{max(1, int(self.for_ns * share))}ns",
        )
        set_options = [f"{name}={value}" for name, value in settings.items()]

        def pair(text: str) -> tuple[dict[str, Any], Result, Result]:
            spec = json.loads(text)
            if text not in self._defaults:
                self._defaults[text] = execute(spec)
            return spec, self._defaults[text], execute(spec | {"set": set_options})

        with ThreadPoolExecutor(self.threads) as pool:
            try:
                pairs = list(pool.map(pair, sweep_runs(grid)))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        self.places.update(((default.cpus, spec["workload"]), None) for spec, default, _ in pairs)
        gains: dict[str, dict[tuple[str, int], float]] = {}
        for metric, higher in metrics:
            for spec, default, tuned in pairs:
                place, seed = f"{spec['workload']} on {spec['machine']}", spec["seed"]
                before = _figure(default, metric, f"with the default settings on {place}, seed {seed}")
                after = _figure(tuned, metric, f"on {place}, seed {seed}")
                more = higher if higher is not None else default.score_better == "higher"
                gain = math.log(after / before) if more else math.log(before / after)
                gains.setdefault(metric, {})[place, seed] = gain
        return gains


def _figure(result: Result, metric: str, where: str) -> float:
    if result.failed:
        raise _Failed(f"{where}: {result!r}")
    if result.fields.get("lost_tasks"):
        raise _Failed(f"{where}: the policy lost tasks")
    if metric not in result.figures:
        raise ValueError(f"there is no metric {metric!r}; the metrics are {', '.join(result.figures)}")
    value = result.figures[metric]
    if not value or value <= 0:
        raise _Failed(f"{where}: {metric} is {value}, so there is no ratio")
    return value


def tune(
    policy: Argument,
    *,
    machines: Sequence[Argument],
    workloads: Sequence[Argument],
    params: Mapping[str, Range] | Iterable[str] | None = None,
    objectives: Sequence[str] = ("score",),
    constraints: Sequence[str] = (),
    robust: str = "mean",
    trials: int = 30,
    seeds: int = 4,
    for_: Time | None = None,
    phase: str = "random",
    held_out_machines: Sequence[Argument] = (),
    held_out_seeds: int = 8,
    validation_seeds: int = 8,
    storage: str | os.PathLike[str] | None = None,
    sampler: str = "tpe",
    sampler_seed: int = 1,
    threads: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Tuned:
    """Search for settings of a policy's parameters that beat its defaults.

    params: parameters to search, by default all for which the policy declares a range. In a mapping
        such as `{"slice_ns": (500_000, 20_000_000), "steal": [0, 1]}`, a tuple is a range, and a list
        has the values to try.
    objectives: metrics of `windtunnel compare`, with `:min` or `:max`. Without either, lower is better
        for all metrics except the score. Several objectives result in a Pareto front.
    constraints: bounds on the change of a metric, for example "p99_wakeup <= +5%". A positive change of
        the score is an improvement.
    robust: "mean" or "worst" gain over all machines and workloads.
    trials: number of settings to try. Half of them end after a short run with few seeds, and half of
        the rest after a longer one (successive halving).
    seeds, for_: number of seeds (1 to N) and simulated time of the longest runs.
    phase: with "random", the seed also determines the times of the ticks and of the tasks' starts.
    held_out_machines, held_out_seeds: machines and number of seeds that the search never sees. They
        measure the gain of the chosen settings at the end.
    validation_seeds: number of fresh seeds for the five best settings. The better half then runs with
        twice as many, and so on until one is left. It is chosen if the confidence interval of its gain
        (with several objectives, of the sum of its gains) is above 0; otherwise the defaults are kept.
        0 chooses the best settings without a validation.
    storage: file that keeps the trials, so that the same call continues an interrupted search.
    sampler: how settings are proposed: "tpe" (tree-structured Parzen estimator), "nsga2" (a genetic
        algorithm for several objectives, which needs about a hundred trials), or "gp" (a Gaussian
        process, which needs PyTorch and SciPy: pip install 'windtunnel[gp]').
    sampler_seed: the same seed gives the same result.

    Needs Optuna: pip install 'windtunnel[tune]'.
    """
    try:
        import optuna
    except ImportError as error:
        raise ImportError("tune() needs Optuna: pip install 'windtunnel[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if robust not in ("mean", "worst"):
        raise ValueError(f"robust={robust!r}: expected 'mean' or 'worst'")
    if sampler not in _SAMPLERS:
        raise ValueError(f"sampler={sampler!r}: expected 'tpe', 'nsga2' or 'gp'")
    if sampler == "gp":
        _need_gp()
    goals = [Objective.parse(text) for text in objectives]
    bounds = [Constraint.parse(text) for text in constraints]
    aims = Aims(objectives, goals, bounds, robust)
    metrics = aims.metrics
    space, defaults = _space(policy, params)
    bench = _Bench(policy, workloads, nanoseconds("for_", for_), phase, threads)
    report = progress or (lambda text: None)

    backend = None
    if storage is not None:
        backend = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(os.fspath(storage)))
    study = optuna.create_study(
        study_name=_STUDY, storage=backend, directions=["maximize"] * len(goals), load_if_exists=True
    )
    definition = json.dumps(
        [os.fspath(policy), [*map(os.fspath, machines)], [*map(os.fspath, workloads)], space, list(objectives),
         list(constraints), robust, seeds, duration("for_", for_), phase, sampler, sampler_seed]
    )  # fmt: skip
    if study.user_attrs.setdefault("definition", definition) != definition:
        raise ValueError(f"{storage}: the trials of this file are for other arguments of tune()")
    study.set_user_attr("definition", definition)
    for trial in study.get_trials(deepcopy=False):
        if not trial.state.is_finished():
            # An earlier process was killed during this trial.
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)

    def complete() -> list[Any]:
        return [trial for trial in study.get_trials(deepcopy=False) if "done" in trial.user_attrs]

    stages = _stages(seeds, bench.for_ns is not None)
    while (number := len(complete())) < trials:
        # A new sampler for each trial, seeded by its number, lets an interrupted search continue as if it
        # had not been interrupted.
        study.sampler = _sampler(optuna, sampler, sampler_seed * 1_000_003 + number, trials)
        if number == 0 and _inside(defaults, space):
            study.enqueue_trial({name: value + _offset(space[name]) for name, value in defaults.items()})
        trial = study.ask()
        for name, known in space.items():
            _suggest(trial, name, known)
        settings = _settings(trial, space)
        try:
            values = None
            for stage, (count, share) in enumerate(stages):
                gains = bench.gains(settings, machines, range(1, count + 1), share, metrics)
                values = [aggregate(gains[goal.metric], robust) for goal in goals]
                if len(goals) == 1:
                    # Lets the sampler learn from trials that end early, too.
                    trial.report(values[0], stage)
                if stage + 1 < len(stages):
                    others = [one.user_attrs[f"stage{stage}"] for one in complete() if f"stage{stage}" in one.user_attrs]
                    trial.set_user_attr(f"stage{stage}", sum(values))
                    better = sum(other > sum(values) for other in others)
                    if len(others) + 1 >= _KEEP and better >= math.ceil((len(others) + 1) / _KEEP):
                        values = None
                        break
            if values is not None:
                for index, bound in enumerate(bounds):
                    trial.set_constraint(f"c{index}", excess(gains[bound.metric], bound, goals, robust))
        except _Failed as failure:
            trial.set_user_attr("failure", str(failure))
            trial.set_user_attr("done", True)
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            if "default settings" in str(failure):
                raise ValueError(str(failure)) from failure
        else:
            trial.set_user_attr("done", True)
            if values is None:
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            else:
                study.tell(trial, values)
        shown = " ".join(f"{name}={value}" for name, value in settings.items())
        text = "ended early" if values is None else ", ".join(f"{percent(value):+.1f} %" for value in values)
        report(f"trial {number + 1} of {trials}: {shown}: {text}")

    states = optuna.trial.TrialState
    finished = complete()
    usable = [one for one in finished if one.state == states.COMPLETE and all(v <= 0 for v in one.constraints.values())]
    front = sorted(study.best_trials, key=lambda one: -sum(one.values))
    best = sorted((one for one in usable if sum(one.values) > 0), key=lambda one: -sum(one.values))
    finalists = _distinct(
        {"settings": _settings(one, space),
         "search": {text: percent(value) for text, value in zip(objectives, one.values, strict=True)}}
        for one in best
    )[:_FINALISTS]  # fmt: skip
    chosen = finalists[0]["settings"] if finalists else {}
    if validation_seeds and finalists:
        report(f"validating {len(finalists)} settings with fresh seeds")
        chosen = _validate(bench, finalists, machines, validation_seeds, aims)

    def measured(where: Sequence[Argument], which: Sequence[int]) -> dict[str, Gain]:
        found = bench.gains(chosen, where, which, 1.0, metrics[: len(goals)])
        return {text: over_seeds(found[goal.metric], which, robust) for text, goal in zip(objectives, goals, strict=True)}

    others = range(seeds + 1, seeds + 1 + held_out_seeds)
    found = measured(machines, range(1, seeds + 1))
    same_machines = measured(machines, others) if held_out_seeds else {}
    other_machines = measured(held_out_machines, others) if held_out_machines and held_out_seeds else {}
    last = other_machines or same_machines or found
    errors = {
        text: ModelError.of(goal.metric, last[text], bench.places) for text, goal in zip(objectives, goals, strict=True)
    }
    return Tuned(
        policy=os.fspath(policy),
        settings=chosen,
        defaults=defaults,
        objectives=list(objectives),
        gains=found,
        held_out_seeds=same_machines,
        held_out=other_machines,
        model_errors={text: error for text, error in errors.items() if error is not None and chosen},
        finalists=finalists if validation_seeds else [],
        front=_distinct(
            {"settings": _settings(one, space),
             "gains": {text: percent(value) for text, value in zip(objectives, one.values, strict=True)}}
            for one in front
        ),  # fmt: skip
        importances=_importances(optuna, study, objectives, usable, len(space)),
        trials=len(finished),
        pruned=sum(one.state == states.PRUNED for one in finished),
        failed=sum(one.state == states.FAIL for one in finished),
    )


def _validate(
    bench: _Bench, finalists: Sequence[dict[str, Any]], machines: Sequence[Argument], seeds: int, aims: Aims
) -> Settings:
    """Measures all finalists with `seeds` fresh seeds, the better half with twice as many, and so on. Adds
    `validated`, `validation_seeds` and `confirmed` to each finalist.

    Returns the settings of the last finalist if its gain is confirmed, and no settings otherwise."""
    rounds = [seeds * 2**index for index in range(_VALIDATION_ROUNDS)]
    left = list(finalists)
    measured: list[dict[str, dict[tuple[str, int], float]]] = [{} for _ in finalists]
    totals = [Gain(0, None, None) for _ in finalists]
    for one in finalists:
        one.update(validated={}, validation_seeds=0, confirmed=False)
    for before, count in zip([0, *rounds], rounds):
        for one in list(left):
            index = finalists.index(one)
            try:
                new = bench.gains(one["settings"], machines, range(_FRESH + before, _FRESH + count), 1.0, aims.metrics)
            except _Failed as failure:
                one["failure"] = str(failure)
                left.remove(one)
                continue
            for metric, gains in new.items():
                measured[index].setdefault(metric, {}).update(gains)
            which = range(_FRESH, _FRESH + count)
            series = [by_seed(measured[index][goal.metric], which, aims.robust) for goal in aims.goals]
            # Any finalist may turn out to be the last, so the intervals are corrected for all of them.
            gains = [Gain.of(values, len(finalists)) for values in series]
            one["validated"] = dict(zip(aims.texts, gains, strict=True))
            one["validation_seeds"] = count
            totals[index] = Gain.of([sum(values) for values in zip(*series, strict=True)], len(finalists))
        left.sort(key=lambda one: -totals[finalists.index(one)].percent)
        if count != rounds[-1]:
            del left[(len(left) + 1) // 2 :]
    if not left:
        return {}
    found = measured[finalists.index(left[0])]
    met = all(excess(found[bound.metric], bound, aims.goals, aims.robust) <= 0 for bound in aims.bounds)
    left[0]["confirmed"] = met and totals[finalists.index(left[0])].confident
    return left[0]["settings"] if left[0]["confirmed"] else {}


def _sampler(optuna: Any, name: str, seed: int, trials: int) -> Any:
    if name == "nsga2":
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=max(8, trials // 5))
    startup = max(4, min(10, trials // 3))
    if name == "gp":
        return optuna.samplers.GPSampler(seed=seed, n_startup_trials=startup, deterministic_objective=False)
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup)


def _need_gp() -> None:
    """Raises ImportError if a package is missing. Optuna's GPSampler would only notice during the search."""
    for name in ("scipy", "torch"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ImportError(
                f"the sampler 'gp' needs PyTorch and SciPy, but {name} cannot be imported ({error}): "
                "pip install 'windtunnel[gp]', or use the sampler 'tpe'"
            ) from error


def _space(policy: Argument, params: Mapping[str, Range] | Iterable[str] | None) -> tuple[dict[str, Any], Settings]:
    """Returns the ranges to search, and the defaults of these parameters."""
    declared = {one["name"]: one for one in parameters(policy)}
    given = params if isinstance(params, Mapping) else dict.fromkeys(params or ())
    if params is None:
        given = {name: None for name, one in declared.items() if one["low"] is not None and one["high"] is not None}
        if not given:
            raise ValueError(f"{os.fspath(policy)} declares no ranges: give them with params={{NAME: (LOW, HIGH)}}")
    space: dict[str, Any] = {}
    defaults: Settings = {}
    for name, known in given.items():
        if name not in declared:
            raise ValueError(f"{os.fspath(policy)} has no parameter {name!r}; it has {', '.join(declared) or 'none'}")
        one = declared[name]
        if known is None:
            known = (one["low"], one["high"])
            if None in known:
                raise ValueError(f"{os.fspath(policy)} declares no range for {name!r}: give one with params=")
        if isinstance(known, tuple) and (len(known) != 2 or known[0] > known[1]):
            raise ValueError(f"range of {name!r}: expected (LOW, HIGH)")
        # JSON has no tuples, so the key distinguishes the ends of a range from single values.
        space[name] = {"range": list(known)} if isinstance(known, tuple) else {"values": list(known)}
        if isinstance(known, tuple) and known[0] == 0 and known[1] >= _LOGARITHMIC_FROM_0:
            space[name]["offset"] = 1
        default = _default(one)
        if default is not None:
            defaults[name] = default
    return space, defaults


def _default(parameter: Mapping[str, Any]) -> int | None:
    """Returns the value that a run uses by default: the profile's, or else the object's. None if the
    profile computes it from the machine."""
    text = parameter["value"] if parameter["profile"] is None else parameter["profile"]
    text = {"true": "1", "false": "0"}.get(text, text)
    try:
        return int(text, 0)
    except ValueError:
        return None


def _suggest(trial: Any, name: str, known: dict[str, Any]) -> None:
    if "values" in known:
        trial.suggest_categorical(name, known["values"])
        return
    low, high = (end + _offset(known) for end in known["range"])
    trial.suggest_int(name, low, high, log=low > 0 and high / low >= _LOGARITHMIC)


def _offset(known: dict[str, Any]) -> int:
    """Returns what is added to a parameter's values for Optuna (1 if a logarithmic range begins at 0)."""
    return known.get("offset", 0)


def _settings(trial: Any, space: dict[str, Any]) -> Settings:
    return {name: trial.params[name] - _offset(known) for name, known in space.items()}


def _inside(settings: Settings, space: dict[str, Any]) -> bool:
    def inside(value: int, known: dict[str, list[int]]) -> bool:
        if "values" in known:
            return value in known["values"]
        return known["range"][0] <= value <= known["range"][1]

    return all(name in settings and inside(settings[name], known) for name, known in space.items())


def _stages(seeds: int, shorten: bool) -> list[tuple[int, float]]:
    """Returns the number of seeds and the share of the simulated time of each stage."""
    # With a single seed, noise hides most gains, and the best settings often end early. So even the
    # first stage has several.
    half = (seeds + 1) // 2
    if shorten:
        stages = [(half, 0.25), (seeds, 0.5), (seeds, 1.0)]
    else:
        stages = [((half + 1) // 2, 1.0), (half, 1.0), (seeds, 1.0)]
    return [stage for index, stage in enumerate(stages) if stage not in stages[:index]]


def _distinct(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for one in found:
        if one not in kept:
            kept.append(one)
    return kept


def _importances(optuna: Any, study: Any, objectives: Sequence[str], usable: Sequence[Any], size: int) -> Any:
    # Importances from fewer trials would be noise.
    if len(usable) < 8 or size < 2:
        return {}
    found = {}
    for index, name in enumerate(objectives):
        if len({one.values[index] for one in usable}) > 1:
            # Optuna's evaluator assumes that a lower target is better, and warns about it.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                shares = optuna.importance.get_param_importances(
                    study, target=lambda trial, index=index: -trial.values[index]
                )
            found[name] = {parameter: float(share) for parameter, share in shares.items()}
    return found


def main(options: Mapping[str, Any]) -> int:
    """The command `windtunnel tune`. The options are those that `windtunnel tune --help` lists."""
    import sys

    try:
        tuned = tune(
            options["policy"],
            machines=options["machine"],
            workloads=options["workload"],
            params=_params(options["param"]),
            objectives=options["objective"] or ["score"],
            constraints=options["constraint"],
            robust=options["robust"],
            trials=options["trials"],
            seeds=options["seeds"],
            for_=options["for_"],
            phase=options["phase"],
            held_out_machines=options["held_out_machine"],
            held_out_seeds=options["held_out_seeds"],
            validation_seeds=options["validation_seeds"],
            storage=options["storage"],
            sampler=options["sampler"],
            sampler_seed=options["sampler_seed"],
            threads=options["threads"],
            progress=lambda text: print(text, file=sys.stderr),
        )
    except (ImportError, ValueError) as error:
        print(f"windtunnel: tune: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("windtunnel: interrupted; with --storage, the same command goes on from there", file=sys.stderr)
        return 130
    print(json.dumps(tuned.to_json(), indent=2) if options["json"] else tuned)
    return 0


def _params(texts: Sequence[str] | None) -> Mapping[str, Range] | list[str] | None:
    if texts is None:
        return None
    found: dict[str, Any] = {}
    for text in texts:
        name, _, known = text.partition("=")
        try:
            if ".." in known:
                low, high = known.split("..")
                found[name] = (int(low), int(high))
            else:
                found[name] = [int(value) for value in known.split(",")] if known else None
        except ValueError:
            raise ValueError(f"--param {text}: expected NAME, NAME=LOW..HIGH or NAME=A,B,C") from None
    return found
