# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the search for parameters."""

import importlib.util
import subprocess
import sys

import pytest

import windtunnel as package

pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'windtunnel[tune]'")

# A short slice costs context switches, so the throughput of these tasks grows with the slice.
SEARCH = dict(
    machines=["smp4", "core:2 pu:2"],
    workloads=["closed:n=10,compute=50ms"],
    params={"slice_ns": (1_000_000, 40_000_000)},
    objectives=["switches:min"],
    seeds=2,
    for_="200ms",
    trials=8,
    held_out_seeds=3,
    validation_seeds=2,
)


def test_a_search_finds_better_settings_and_measures_them_elsewhere():
    tuned = package.tune("fifo", **SEARCH, held_out_machines=["smp8"])
    assert tuned.settings["slice_ns"] > 5_000_000
    gain = tuned.gains["switches:min"]
    assert gain.percent > 0 and gain.low <= gain.percent <= gain.high
    assert tuned.trials == 8 and tuned.pruned > 0
    assert tuned.set_options == f"--set slice_ns={tuned.settings['slice_ns']}"
    assert tuned.live_command == f"sudo windtunnel live load fifo {tuned.set_options}"
    held_out = tuned.held_out["switches:min"]
    assert tuned.optimism["switches:min"] == pytest.approx(gain.percent - held_out.percent)
    assert "optimism of the search" in str(tuned) and "other machines and seeds" in str(tuned)
    error = tuned.model_errors["switches:min"]
    assert 0 < error.low <= error.high and error.undecided == (held_out.percent <= error.high)
    assert f"error of the model       {error}" in str(tuned)
    assert tuned.to_json()["model_errors"]["switches:min"] == vars(error)
    [confirmed] = [one for one in tuned.finalists if one["confirmed"]]
    assert confirmed["settings"] == tuned.settings and confirmed["validation_seeds"] == 8 * 2
    assert confirmed["validated"]["switches:min"].low > 0 and ", confirmed" in str(tuned)
    assert {one["validation_seeds"] for one in tuned.finalists if not one["confirmed"]} <= {2, 4, 8}
    # The gains are those of the chosen settings.
    runs = [
        package.run("fifo", machine="smp8", workload=SEARCH["workloads"][0], for_="200ms", seed=3, set=settings)
        for settings in ({}, tuned.settings)
    ]
    assert runs[1].context_switches < runs[0].context_switches


def test_the_command_of_a_program_has_the_chosen_options():
    policy = "exec: ./scx_flash -s {slice=4096} --mode={mode=auto}"
    settings = package.Tuned(
        policy, {"slice": 500}, [], {}, {}, {}, finalists=[], front=[], importances={}, trials=1, pruned=0, failed=0
    )
    assert settings.live_command == "sudo ./scx_flash -s 500 --mode=auto"


# Slices of about the same length differ by luck only.
LUCK = {
    **SEARCH, "machines": ["smp4"], "workloads": ["closed:n=10,compute=2ms,think=1ms,compute_dist=M,think_dist=M"],
    "params": {"slice_ns": (4_000_000, 6_000_000)}, "objectives": ["p99_wakeup"], "for_": "50ms", "seeds": 1,
    "phase": "fixed",
}  # fmt: skip


def test_the_defaults_are_kept_if_fresh_seeds_do_not_confirm_a_gain():
    lucky = package.tune("fifo", **{**LUCK, "validation_seeds": 0})
    assert lucky.settings and lucky.gains["p99_wakeup"].percent > 0 and lucky.finalists == []
    tuned = package.tune("fifo", **{**LUCK, "validation_seeds": 4})
    assert tuned.settings == {} and tuned.set_options == "" and tuned.model_errors == {}
    assert tuned.finalists[0]["settings"] == lucky.settings
    assert tuned.finalists[0]["search"]["p99_wakeup"] == pytest.approx(lucky.gains["p99_wakeup"].percent)
    assert not any(one["confirmed"] for one in tuned.finalists)
    assert max(one["validation_seeds"] for one in tuned.finalists) == 32
    assert "chosen: the default settings; no others were better with confidence" in str(tuned)
    assert tuned.gains["p99_wakeup"].percent == tuned.held_out_seeds["p99_wakeup"].percent == 0


def test_the_seeds_of_the_validation_are_fresh(monkeypatch):
    from windtunnel import _tune

    used: list[tuple[int, float]] = []
    gains = _tune._Bench.gains

    def noted(self, settings, machines, seeds, share, metrics):
        used.append((max(seeds), min(seeds)))
        return gains(self, settings, machines, seeds, share, metrics)

    monkeypatch.setattr(_tune._Bench, "gains", noted)
    package.tune("fifo", **LUCK)
    fresh = [seeds for seeds in used if seeds[1] > 1000]
    # The search has the seed 1, and the held-out seeds are the three after it.
    assert fresh and max(high for high, low in used if low <= 1000) == 4


def test_intervals_follow_students_distribution():
    from windtunnel._gain import Gain, student

    for degrees, probability, quantile in [
        (1, 0.95, 12.706), (2, 0.95, 4.303), (7, 0.99, 3.499), (10, 0.999, 4.587), (30, 0.95, 2.042), (63, 0.99, 2.656),
    ]:  # fmt: skip
        assert student(degrees, probability) == pytest.approx(quantile, abs=1e-3)
    once, chosen = Gain.of([0.1, 0.2, 0.3]), Gain.of([0.1, 0.2, 0.3], 5)
    assert once.percent == chosen.percent and chosen.low < once.low < once.high < chosen.high
    assert Gain.of([0.1]).low is None and not Gain.of([0.1]).confident
    assert Gain.of([0.1, 0.1]).confident and not Gain.of([-0.1, 0.3]).confident


def test_a_gain_below_the_models_error_is_undecided():
    from windtunnel._gain import Gain
    from windtunnel._model import ModelError

    places = [(1, "hackbench:groups=2"), (64, "hackbench")]
    small, halved = (ModelError.of("score", Gain(percent, None, None), places) for percent in (1.0, -50.0))
    assert small.low < small.high and small.undecided and not halved.undecided
    assert str(small).endswith(" % for such a change: the gain is undecided by the model")
    assert ModelError.of("lock_wait", Gain(1.0, None, None), places) is None


def test_an_interrupted_search_goes_on(tmp_path):
    whole = package.tune("fifo", **SEARCH)
    parts = tmp_path / "trials"

    class Stop(Exception):
        pass

    def stop(text: str) -> None:
        if text.startswith("trial 3 "):
            raise Stop

    with pytest.raises(Stop):
        package.tune("fifo", **SEARCH, storage=parts, progress=stop)
    lines: list[str] = []
    again = package.tune("fifo", **SEARCH, storage=parts, progress=lines.append)
    assert lines[0].startswith("trial 4 of 8")
    assert again.to_json() == whole.to_json()
    # A search with other arguments does not continue in this file.
    with pytest.raises(ValueError, match="other arguments"):
        package.tune("fifo", **{**SEARCH, "seeds": 3}, storage=parts)


def test_a_large_range_from_0_is_searched_on_a_logarithmic_scale(tmp_path):
    lines: list[str] = []
    search = {**SEARCH, "params": {"wakeup_granularity_ns": (0, 1_000_000_000)}, "trials": 20, "seeds": 1, "for_": "20ms"}
    tuned = package.tune("steal", **search, progress=lines.append)
    tried = [int(line.split("wakeup_granularity_ns=")[1].split(":")[0]) for line in lines]
    assert tried[0] == tuned.defaults["wakeup_granularity_ns"] == 15_000_000
    # On a linear scale, one value in a hundred is below 10 ms.
    assert sum(value < 10_000_000 for value in tried) >= 5 and all(0 <= value <= 1_000_000_000 for value in tried)


def test_constraints_and_several_objectives():
    search = {**SEARCH, "objectives": ["switches:min", "p99_wakeup"], "workloads": ["closed:n=9,compute=20ms,think=5ms"]}
    free = package.tune("fifo", **search)
    assert free.front and all(set(one["gains"]) == {"switches:min", "p99_wakeup"} for one in free.front)
    for a in free.front:
        for b in free.front:
            assert not all(b["gains"][name] > a["gains"][name] for name in a["gains"])
    genetic = package.tune("fifo", **search, sampler="nsga2")
    assert genetic.front and genetic.to_json() == package.tune("fifo", **search, sampler="nsga2").to_json()
    bound = package.tune("fifo", **{**search, "objectives": ["switches:min"]}, constraints=["p99_wakeup <= +1%"])
    chosen = bound.settings or bound.defaults
    changes = []
    for machine in search["machines"]:
        for seed in (1, 2):
            load = dict(machine=machine, workload=search["workloads"][0], for_="200ms", seed=seed)
            figures = [package.run("fifo", **load, set=one).figures["p99_wakeup"] for one in ({}, chosen)]
            changes.append(figures[1] / figures[0])
    product = 1.0
    for change in changes:
        product *= change
    assert product ** (1 / len(changes)) <= 1.01 + 1e-9


def test_the_gp_sampler_needs_packages_that_an_error_names(monkeypatch):
    for name in ("torch", "scipy"):
        with monkeypatch.context() as without:
            # Importing a module whose entry is None raises ImportError.
            without.setitem(sys.modules, name, None)
            without.setitem(sys.modules, "scipy" if name == "torch" else "torch", sys)
            with pytest.raises(ImportError, match=f"{name} cannot be imported.*'windtunnel\\[gp\\]', or use the sampler 'tpe'"):
                package.tune("fifo", **SEARCH, sampler="gp")


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "scipy"))), reason="PyTorch or SciPy is not installed"
)
def test_the_gp_sampler_finds_better_settings():
    tuned = package.tune("fifo", **SEARCH, sampler="gp")
    assert tuned.settings["slice_ns"] > 5_000_000 and tuned.gains["switches:min"].percent > 0
    assert package.tune("fifo", **SEARCH, sampler="gp").to_json() == tuned.to_json()
    both = {**SEARCH, "objectives": ["switches:min", "p99_wakeup"], "workloads": ["closed:n=9,compute=20ms,think=5ms"]}
    assert package.tune("fifo", **both, sampler="gp", constraints=["p99_wakeup <= +50%"]).front


def test_defaults_are_those_of_the_profile():
    from windtunnel._tune import _space

    def parameter(value, profile=None):
        return {"name": "x", "value": value, "profile": profile, "low": None, "high": None}

    for known, default in [
        (parameter("5"), {"x": 5}),
        (parameter("0", "6"), {"x": 6}),
        (parameter("true"), {"x": 1}),
        (parameter("true", "false"), {"x": 0}),
        (parameter("0", "nr_cpus"), {}),
    ]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("windtunnel._tune.parameters", lambda policy, known=known: [known])
            assert _space("policy", {"x": (0, 10)})[1] == default


def test_wrong_arguments_are_errors():
    for more, message in [
        ({"params": {"slice": (1, 2)}}, "has no parameter 'slice'"),
        ({"objectives": ["busy"]}, "busy:min or busy:max"),
        ({"objectives": ["nonsense"]}, "there is no metric 'nonsense'"),
        ({"constraints": ["p99_wakeup < 3"]}, "expected METRIC <="),
        ({"sampler": "annealing"}, "expected 'tpe', 'nsga2' or 'gp'"),
        ({"robust": "median"}, "expected 'mean' or 'worst'"),
    ]:
        with pytest.raises(ValueError, match=message):
            package.tune("fifo", **{**SEARCH, **more})


def test_the_command_prints_the_options():
    words = ["-m", "smp4", "-w", SEARCH["workloads"][0], "--param", "slice_ns=1000000..40000000", "--objective"]
    words += ["switches:min", "--for", "100ms", "--trials", "3", "--seeds", "2", "--held-out-seeds", "2"]
    done = subprocess.run([sys.executable, "-m", "windtunnel", "tune", "fifo", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "chosen: " in done.stdout and "other seeds" in done.stdout
    done = subprocess.run([sys.executable, "-m", "windtunnel", "tune", "fifoo", *words], capture_output=True, text=True)
    assert done.returncode == 2 and "did you mean fifo" in done.stderr
