// SPDX-License-Identifier: GPL-2.0-only
//! The score of a policy: one number that says how good it is on several machines and workloads.
//!
//! The policy and a baseline run every case of a score suite ([`definition`]) with every seed. The
//! ratio of their figures is above 1 if the policy is better, and the score is the weighted
//! geometric mean of all ratios. A policy that fails, is refused or loses tasks has no score.
//!
//! The policy runs in the sanitizer, because a kernel would not load a policy that breaks the
//! rules of the verifier. Probes are runs without a figure, which call callbacks of the policy
//! that the cases do not call.

pub mod definition;
mod present;

pub use definition::{Case, ScoreSuite, Setting};
pub use present::{json, lines, table};

use crate::experiment::statistics::estimate;
use input::error::Error;
use report::{Better, CheckedResult, RunResult};
use runner::inputs::Inputs;
use runner::load;
use runner::parallel::{self, Progress};
use runner::policy::Policy;
use runner::scenario::{Outcome, Scenario};
use runner::spec::RunSpec;
use std::collections::BTreeMap;
use std::num::NonZero;

/// The score of a policy with its parts.
#[derive(Clone, Debug)]
pub struct Scored {
    pub policy: String,
    /// Settings NAME=VALUE of the policy.
    pub settings: Vec<String>,
    pub baseline: String,
    pub seeds: Vec<u64>,
    pub cases: Vec<ScoredCase>,
    /// The weighted geometric mean of the cases' ratios. `None` if `failures` is not empty.
    pub score: Option<f64>,
    /// The 95 % confidence interval of the score over the seeds. `None` if there is no score or
    /// only one seed.
    pub interval: Option<(f64, f64)>,
    /// The runs that make a score impossible.
    pub failures: Vec<Failure>,
    /// Numbers of the sanitizer's checks in all runs. `None` if the policy did not run in it.
    pub checked: Option<CheckedResult>,
    /// Callbacks of the policy that no run called. Empty if there are failures.
    pub uncalled: Vec<&'static str>,
    /// Warnings of the policy's runs, without duplicates.
    pub warnings: Vec<String>,
}

/// A run of the policy without a valid figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Workload, machine and seed.
    pub place: String,
    pub reason: String,
    /// The reason without times, tasks and addresses, which differ from run to run. Failures with
    /// the same cause are printed once.
    pub cause: String,
}

/// A case with the figures of its runs.
#[derive(Clone, Debug)]
pub struct ScoredCase {
    pub case: Case,
    pub unit: String,
    pub nr_cpus: u64,
    pub better: Better,
    /// The figures of the policy and of the baseline, for each seed. The policy's figure is `None`
    /// if the run failed or has no such figure.
    pub values: Vec<(Option<f64>, f64)>,
    /// Geometric mean over the seeds. `None` if a figure is missing.
    pub ratio: Option<f64>,
}

/// Runs all cases of a suite. `policy` describes the runs of the policy; the suite replaces the
/// machine, the workload, the length and the seed. Returns `None` if a signal ended the runs early.
///
/// # Errors
/// User errors: an input that does not exist, a setting that does not match the policy, or a
/// baseline that has no figure in a case.
pub fn run(
    suite: &ScoreSuite,
    policy: &RunSpec,
    threads: Option<NonZero<usize>>,
    progress: &Progress,
) -> Result<Option<Scored>, Error> {
    let inputs = Inputs::default();
    let on = |setting: &Setting, seed: u64| RunSpec {
        machine: Some(setting.machine.clone()),
        workload: setting.workload.clone(),
        for_ns: Some(setting.for_ns),
        seed,
        ..policy.clone()
    };
    let mut runs = Vec::new();
    for case in &suite.cases {
        for &seed in &suite.seeds {
            let candidate = on(&case.setting, seed);
            // The baseline has its default parameters, and is not checked.
            let baseline = RunSpec {
                policy: suite.baseline.clone(),
                set: Vec::new(),
                profile: Vec::new(),
                sanitize: false,
                ..candidate.clone()
            };
            runs.extend([candidate, baseline]);
        }
    }
    let nr_scored = runs.len();
    runs.extend(suite.probes.iter().map(|probe| on(probe, suite.seeds[0])));
    let outcomes = parallel::run_all(&inputs, &runs, threads, progress)?;
    let Some(outcomes) = outcomes.into_iter().collect::<Option<Vec<Outcome>>>() else {
        return Ok(None);
    };
    let results: Vec<&RunResult> = outcomes.iter().map(|outcome| &outcome.result).collect();
    let (results, probes) = results.split_at(nr_scored);
    let mut scored = scored(suite, results, probes)?;
    Policy::find(&policy.policy)?.name().clone_into(&mut scored.policy);
    scored.settings.clone_from(&policy.set);
    let (paired, probes) = outcomes.split_at(nr_scored);
    observe(&mut scored, paired.iter().step_by(2).chain(probes));
    // Whatever the runs have found already explains more than the analysis of the code.
    if policy.sanitize && scored.failures.is_empty() {
        analyse(&mut scored, &inputs.resolve(&runs[0])?)?;
    }
    Ok(Some(scored))
}

/// Analyses all code of the policy. If the kernel's verifier would reject code that no run has
/// executed, the policy has no score.
fn analyse(scored: &mut Scored, run: &Scenario) -> Result<(), Error> {
    for reason in load::check_with(&run.policy, run.profile.as_ref(), &run.settings, run.spec.kernel)?.refused {
        scored.failures.push(Failure {
            place: "code that did not run".to_owned(),
            cause: reason.clone(),
            reason,
        });
        (scored.score, scored.interval) = (None, None);
    }
    Ok(())
}

/// Adds what the runs of the policy reveal besides its figures: the sanitizer's checks, callbacks
/// that were never called, and warnings.
fn observe<'a>(scored: &mut Scored, outcomes: impl Iterator<Item = &'a Outcome> + Clone) {
    for outcome in outcomes.clone() {
        if let Some(checked) = outcome.result.checked {
            let all = scored.checked.get_or_insert_default();
            all.accesses += checked.accesses;
            all.calls += checked.calls;
        }
        for warning in &outcome.warnings {
            if !scored.warnings.contains(warning) {
                scored.warnings.push(warning.clone());
            }
        }
    }
    if scored.failures.is_empty() {
        let mut uncalled = outcomes.map(|outcome| outcome.uncalled.clone());
        scored.uncalled = uncalled.next().unwrap_or_default();
        for others in uncalled {
            scored.uncalled.retain(|name| others.contains(name));
        }
    }
}

/// Computes the score. `results` contains, for each case and each seed, the result of the policy
/// and then that of the baseline. `probes` contains the policy's result of each probe.
fn scored(suite: &ScoreSuite, results: &[&RunResult], probes: &[&RunResult]) -> Result<Scored, Error> {
    let mut failures = Vec::new();
    let mut cases = Vec::new();
    for (case, results) in suite.cases.iter().zip(results.chunks_exact(2 * suite.seeds.len())) {
        let better = case.metric.figure.better.unwrap_or(results[1].score_better);
        let mut values = Vec::new();
        for (seed, pair) in suite.seeds.iter().zip(results.chunks_exact(2)) {
            let place = place(&case.setting, *seed);
            let base = figure(case, pair[1]).map_err(|reason| {
                Error::new(format!("score: the baseline {} on {place}: {reason}", suite.baseline))
                    .hint("choose another metric, or a longer time for this case")
            })?;
            let value = figure(case, pair[0]).map_err(|reason| failures.push(Failure::new(place, reason, pair[0])));
            values.push((value.ok(), base));
        }
        let ratios: Option<Vec<f64>> = values
            .iter()
            .map(|&(value, base)| ratio(better, value?, base))
            .collect();
        cases.push(ScoredCase {
            case: case.clone(),
            unit: unit(case, results[1]),
            nr_cpus: results[1].cpus,
            better,
            ratio: ratios.map(|ratios| geometric(ratios.iter().map(|&ratio| (1.0, ratio)))),
            values,
        });
    }
    for (probe, result) in suite.probes.iter().zip(probes) {
        if let Some(reason) = failure(result) {
            let place = place(probe, suite.seeds[0]);
            failures.push(Failure::new(place, reason, result));
        }
    }
    // The mean over the cases is computed for each seed, so that the seeds give an interval.
    let by_seed: Option<Vec<f64>> = (0..suite.seeds.len())
        .map(|seed| {
            let ratios = cases.iter().map(|case| {
                let (value, base) = case.values[seed];
                Some((case.case.weight, ratio(case.better, value?, base)?))
            });
            let ratios: Vec<(f64, f64)> = ratios.collect::<Option<_>>()?;
            Some(geometric(ratios.into_iter()))
        })
        .collect();
    let by_seed = by_seed.filter(|_| failures.is_empty());
    let interval = by_seed.as_ref().and_then(|scores| {
        let logarithms: Vec<f64> = scores.iter().map(|score| score.ln()).collect();
        let found = estimate(&logarithms)?;
        let half = found.half_width?;
        Some(((found.mean - half).exp(), (found.mean + half).exp()))
    });
    Ok(Scored {
        policy: String::new(),
        settings: Vec::new(),
        baseline: suite.baseline.clone(),
        seeds: suite.seeds.clone(),
        score: by_seed.map(|scores| geometric(scores.into_iter().map(|score| (1.0, score)))),
        interval,
        cases,
        failures,
        checked: None,
        uncalled: Vec::new(),
        warnings: Vec::new(),
    })
}

impl Scored {
    /// Returns the weighted geometric mean of the ratios of cases that agree in a property, by that
    /// property and in the order of the suite. The mean is `None` if one of these cases has no
    /// ratio. Cases without the property are left out.
    pub fn by<'a>(&'a self, property: impl Fn(&'a ScoredCase) -> Option<&'a str>) -> Vec<(&'a str, Option<f64>)> {
        let mut order: Vec<&str> = Vec::new();
        let mut parts: BTreeMap<&str, Vec<Option<(f64, f64)>>> = BTreeMap::new();
        for case in &self.cases {
            if let Some(name) = property(case) {
                let part = parts.entry(name).or_insert_with(|| {
                    order.push(name);
                    Vec::new()
                });
                part.push(case.ratio.map(|ratio| (case.case.weight, ratio)));
            }
        }
        let mean = |name: &str| {
            let ratios: Vec<(f64, f64)> = parts[name].iter().copied().collect::<Option<_>>()?;
            Some(geometric(ratios.into_iter()))
        };
        order.into_iter().map(|name| (name, mean(name))).collect()
    }
}

impl Failure {
    fn new(place: String, reason: String, result: &RunResult) -> Failure {
        let cause = match (&result.exit, &result.lost_tasks) {
            (Some(exit), _) => format!("{}: {}", exit.reason, exit.source.as_ref().unwrap_or(&exit.message)),
            (None, Some(_)) => "lost tasks".to_owned(),
            (None, None) => reason.clone(),
        };
        Failure { place, reason, cause }
    }
}

fn place(setting: &Setting, seed: u64) -> String {
    format!("{} on {}, seed {seed}", setting.workload, setting.machine)
}

/// Returns how the policy failed or was refused, or `None` if it survived the run.
fn failure(result: &RunResult) -> Option<String> {
    let failed = result.failed().then(|| "the policy failed".to_owned());
    result.failure().or(failed)
}

/// Returns the figure of a run that counts.
///
/// # Errors
/// The reason why the run has none.
fn figure(case: &Case, result: &RunResult) -> Result<f64, String> {
    if let Some(failure) = failure(result) {
        return Err(failure);
    }
    if let Some(lost) = &result.lost_tasks {
        return Err(format!("lost tasks: {}", lost.sentence()));
    }
    if result.failed_forks > 0 {
        return Err(format!("{} tasks could not be created", result.failed_forks));
    }
    match case.metric.value(result) {
        Some(value) if value > 0.0 => Ok(value),
        Some(value) => Err(format!("{} is {value}, so there is no ratio", case.metric.name)),
        None if case.metric.name == "score" && result.score_unit == "s" => {
            let limit = input::duration::format(case.setting.for_ns);
            Err(format!("the workload did not end within {limit}"))
        }
        None => Err(format!("the run has no {}", case.metric.name)),
    }
}

/// Returns how much better the policy is than the baseline: above 1 if it is better.
fn ratio(better: Better, value: f64, base: f64) -> Option<f64> {
    (value > 0.0 && base > 0.0).then(|| match better {
        Better::Higher => value / base,
        Better::Lower => base / value,
    })
}

/// Returns the weighted geometric mean of pairs of a weight and a value.
fn geometric(values: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (weights, sum) = values.fold((0.0, 0.0), |(weights, sum), (weight, value)| {
        (weights + weight, sum + weight * value.ln())
    });
    (sum / weights).exp()
}

fn unit(case: &Case, result: &RunResult) -> String {
    use report::Unit;
    match case.metric.figure.unit {
        Unit::Score => result.score_unit.clone(),
        Unit::Duration | Unit::TotalTime => "ns".to_owned(),
        Unit::Count | Unit::Index => String::new(),
        Unit::Percent => "%".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use input::Source;
    use report::LostTasks;

    const SUITE: &str = "seeds = 2\n[[case]]\nmachine = 'a'\nworkload = 'w'\nfor = '1s'\nweight = 3.0\naspect = 'y'\n\
                         [[case]]\nmachine = 'b'\nworkload = 'w'\nfor = '1s'\nmetric = 'p99_wakeup'\naspect = 'x'\n\
                         [[probe]]\nmachine = 'c'\nworkload = 'v'\nfor = '1s'";

    fn score(results: &[RunResult], probe: &RunResult) -> Result<Scored, Error> {
        let suite = ScoreSuite::parse(&Source::new("x.toml", SUITE)).expect("the suite is valid");
        scored(&suite, &results.iter().collect::<Vec<_>>(), &[probe])
    }

    fn result(score: f64, p99: u64) -> RunResult {
        let mut result = RunResult {
            score: Some(score),
            score_unit: "messages/s".into(),
            ..RunResult::default()
        };
        result.wakeup_latency_ns.count = 1;
        result.wakeup_latency_ns.p99 = p99;
        result
    }

    fn outcome(uncalled: &[&'static str], warning: &str) -> Outcome {
        let mut result = result(1.0, 1);
        result.checked = Some(CheckedResult { accesses: 5, calls: 2 });
        Outcome {
            result,
            drawing: None,
            warnings: vec![warning.to_owned()],
            uncalled: uncalled.to_vec(),
            unwritten: None,
        }
    }

    #[test]
    fn the_score_is_the_weighted_geometric_mean_of_ratios() {
        // The policy has twice the throughput in the first case, and four times the latency in the
        // second one.
        let results: Vec<RunResult> = [(200.0, 1), (100.0, 1), (200.0, 1), (100.0, 1)]
            .into_iter()
            .chain([(1.0, 400), (1.0, 100), (1.0, 400), (1.0, 100)])
            .map(|(score, p99)| result(score, p99))
            .collect();
        let scored = score(&results, &result(1.0, 1)).expect("the baseline has all figures");
        assert_eq!(scored.cases[0].ratio.map(|ratio| (ratio * 1e9).round()), Some(2e9));
        assert_eq!(scored.cases[1].ratio.map(|ratio| (ratio * 1e9).round()), Some(25e7));
        // (2^3 * 1/4)^(1/4)
        let expected = 2f64.powf(0.25);
        assert!((scored.score.expect("a score") - expected).abs() < 1e-12);
        let (low, high) = scored.interval.expect("two seeds have an interval");
        assert!((low - expected).abs() < 1e-9 && (high - expected).abs() < 1e-9);
        // The aspects are in the order of the suite.
        let aspects = scored.by(|case| case.case.aspect.as_deref());
        let aspects: Vec<_> = aspects
            .into_iter()
            .map(|(name, ratio)| (name, ratio.map(|ratio| (ratio * 100.0).round())))
            .collect();
        assert_eq!(aspects, [("y", Some(200.0)), ("x", Some(25.0))]);
        assert_eq!(scored.by(|_| None), []);
    }

    #[test]
    fn a_policy_that_loses_tasks_has_no_score() {
        let mut results: Vec<RunResult> = (0..8).map(|_| result(1.0, 100)).collect();
        results[4].lost_tasks = Some(LostTasks {
            count: 1,
            longest_ns: 900_000_000,
            comm: "victim".into(),
            ..LostTasks::default()
        });
        let scored = score(&results, &result(1.0, 1)).expect("the baseline has all figures");
        assert_eq!((scored.score, scored.cases[0].ratio), (None, Some(1.0)));
        assert_eq!(scored.failures[0].place, "w on b, seed 1");
        assert!(scored.failures[0].reason.starts_with("lost tasks: 1 task waited"));
        let aspects = scored.by(|case| case.case.aspect.as_deref());
        assert_eq!(aspects, [("y", Some(1.0)), ("x", None)]);
    }

    #[test]
    fn a_policy_that_fails_in_a_probe_has_no_score() {
        let results: Vec<RunResult> = (0..8).map(|_| result(1.0, 100)).collect();
        let mut probe = RunResult {
            lost_tasks: Some(LostTasks::default()),
            ..RunResult::default()
        };
        let scored = score(&results, &probe).expect("the baseline has all figures");
        assert_eq!(scored.score, Some(1.0));
        probe.lost_tasks = None;
        probe.status = report::Status::Ejected;
        let scored = score(&results, &probe).expect("the baseline has all figures");
        assert_eq!((scored.score, scored.interval), (None, None));
        let failure = Failure {
            place: "v on c, seed 1".into(),
            reason: "the policy failed".into(),
            cause: "the policy failed".into(),
        };
        assert_eq!(scored.failures, [failure]);
    }

    #[test]
    fn a_callback_is_uncalled_if_no_run_called_it() {
        let results: Vec<RunResult> = (0..8).map(|_| result(1.0, 100)).collect();
        let mut scored = score(&results, &result(1.0, 1)).expect("the baseline has all figures");
        let outcomes = [
            outcome(&["tick", "dump"], "a"),
            outcome(&["dump", "yield"], "b"),
            outcome(&["tick", "yield", "dump"], "a"),
        ];
        observe(&mut scored, outcomes.iter());
        assert_eq!(scored.uncalled, ["dump"]);
        assert_eq!(scored.warnings, ["a", "b"]);
        assert_eq!(scored.checked.map(|all| (all.accesses, all.calls)), Some((15, 6)));
    }

    #[test]
    fn a_baseline_without_a_figure_is_an_error() {
        let mut results: Vec<RunResult> = (0..8).map(|_| result(1.0, 100)).collect();
        results[1].score = None;
        let error = score(&results, &result(1.0, 1)).expect_err("the baseline has no score");
        assert!(
            error.message.contains("the baseline eevdf on w on a, seed 1"),
            "{error}"
        );
    }
}
