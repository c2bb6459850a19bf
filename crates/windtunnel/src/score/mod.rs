// SPDX-License-Identifier: GPL-2.0-only
//! The score of a policy: one number that says how good it is on several machines and workloads.
//!
//! A score suite ([`definition`]) lists cases. The policy and a baseline run every case with every
//! seed. For each pair of runs, the ratio of their figures is computed so that a ratio above 1
//! means that the policy is better than the baseline. The score is the weighted geometric mean of
//! all ratios. A policy that fails, is refused or loses tasks in a run has no score.

pub mod definition;
mod present;

pub use definition::{Case, ScoreSuite};
pub use present::{json, table};

use crate::error::Error;
use crate::experiment::statistics::estimate;
use crate::parallel::{self, Progress};
use crate::policy::Policy;
use crate::scenario::{Phase, Scenario};
use crate::search;
use bpf::engine::Engine;
use kernel::release::Release;
use report::{Better, RunResult};
use std::num::NonZero;
use std::path::{Path, PathBuf};

/// How the policy is loaded.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names and values of the `--set` options.
    pub settings: Vec<(String, String)>,
    pub profile: Option<PathBuf>,
    pub kernel: Release,
    pub phase: Phase,
    /// Maximum host memory of a run, in bytes.
    pub memory: u64,
    pub threads: Option<NonZero<usize>>,
}

/// The score of a policy with its parts.
#[derive(Clone, Debug)]
pub struct Scored {
    pub policy: String,
    pub settings: Vec<(String, String)>,
    pub baseline: String,
    pub seeds: Vec<u64>,
    pub cases: Vec<ScoredCase>,
    /// The weighted geometric mean of the cases' ratios. `None` if `failures` is not empty.
    pub score: Option<f64>,
    /// The 95 % confidence interval of the score over the seeds. `None` if there is no score or
    /// only one seed.
    pub interval: Option<(f64, f64)>,
    /// One text for each run that makes a score impossible.
    pub failures: Vec<String>,
}

/// A case with the figures of its runs.
#[derive(Clone, Debug)]
pub struct ScoredCase {
    pub case: Case,
    pub unit: String,
    pub better: Better,
    /// The figures of the policy and of the baseline, for each seed. The policy's figure is `None`
    /// if the run failed or has no such figure.
    pub values: Vec<(Option<f64>, f64)>,
    /// Geometric mean over the seeds. `None` if a figure is missing.
    pub ratio: Option<f64>,
}

/// Runs all cases of a suite. Returns `None` if a signal ended the runs early.
///
/// # Errors
/// User errors: an input that does not exist, a setting that does not match the policy, or a
/// baseline that has no figure in a case.
pub fn run(
    suite: &ScoreSuite,
    policy: &Policy,
    options: &Options,
    progress: &Progress,
) -> Result<Option<Scored>, Error> {
    let baseline = Policy::find(&suite.baseline)?;
    let mut jobs = Vec::new();
    for case in &suite.cases {
        let scenario = scenario(case, options)?;
        for &seed in &suite.seeds {
            jobs.push(Scenario {
                seed,
                policy: policy.clone(),
                profile: options.profile.clone(),
                settings: options.settings.clone(),
                ..scenario.clone()
            });
            jobs.push(Scenario {
                seed,
                policy: baseline.clone(),
                ..scenario.clone()
            });
        }
    }
    let run = |scenario: &Scenario, report: &mut dyn FnMut(u64)| {
        Ok(Some(scenario.run(report)?.result).filter(|result| !result.interrupted))
    };
    let results = parallel::run_until_interrupted(&jobs, options.threads, progress, run)?;
    let Some(results) = results.into_iter().collect::<Option<Vec<RunResult>>>() else {
        return Ok(None);
    };
    let scored = Scored {
        policy: policy.name().to_owned(),
        settings: options.settings.clone(),
        ..scored(suite, &results)?
    };
    Ok(Some(scored))
}

/// Returns the run of a case with the baseline's options. The policy is a placeholder.
fn scenario(case: &Case, options: &Options) -> Result<Scenario, Error> {
    let (machines, workloads) = (search::folders("machines"), search::folders("workloads"));
    let machines: Vec<&Path> = machines.iter().map(PathBuf::as_path).collect();
    let workloads: Vec<&Path> = workloads.iter().map(PathBuf::as_path).collect();
    Ok(Scenario {
        policy: Policy::Eevdf,
        profile: None,
        settings: Vec::new(),
        engine: Engine::default(),
        sanitizer: false,
        machine: machine::load(&case.machine, &machines)?,
        workload: workload::load(&case.workload, &workloads)?,
        seed: 0,
        phase: options.phase,
        for_ns: Some(case.for_ns),
        kernel: options.kernel,
        after_failure: false,
        hotplug: Vec::new(),
        memory: options.memory,
        trace: None,
        draw: None,
    })
}

/// Computes the score. `results` contains, for each case and each seed, the result of the policy
/// and then that of the baseline.
fn scored(suite: &ScoreSuite, results: &[RunResult]) -> Result<Scored, Error> {
    let mut failures = Vec::new();
    let mut cases = Vec::new();
    for (case, results) in suite.cases.iter().zip(results.chunks_exact(2 * suite.seeds.len())) {
        let better = case.metric.figure.better.unwrap_or(results[1].score_better);
        let mut values = Vec::new();
        for (seed, pair) in suite.seeds.iter().zip(results.chunks_exact(2)) {
            let place = format!("{} on {}, seed {seed}", case.workload, case.machine);
            let base = figure(case, &pair[1]).map_err(|reason| {
                Error::new(format!("score: the baseline {} on {place}: {reason}", suite.baseline))
                    .hint("choose another metric, or a longer time for this case")
            })?;
            let value = figure(case, &pair[0]).map_err(|reason| failures.push(format!("{place}: {reason}")));
            values.push((value.ok(), base));
        }
        let ratios: Option<Vec<f64>> = values
            .iter()
            .map(|&(value, base)| ratio(better, value?, base))
            .collect();
        cases.push(ScoredCase {
            case: case.clone(),
            unit: unit(case, &results[1]),
            better,
            ratio: ratios.map(|ratios| geometric(ratios.iter().map(|&ratio| (1.0, ratio)))),
            values,
        });
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
    })
}

/// Returns the figure of a run that counts.
///
/// # Errors
/// The reason why the run has none.
fn figure(case: &Case, result: &RunResult) -> Result<f64, String> {
    if let Some(failure) = result.failure() {
        return Err(failure);
    }
    if result.failed() {
        return Err("the policy failed".to_owned());
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
            let limit = crate::duration::format(case.for_ns);
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

    const SUITE: &str = "seeds = 2\n[[case]]\nmachine = 'a'\nworkload = 'w'\nfor = '1s'\nweight = 3.0\n\
                         [[case]]\nmachine = 'b'\nworkload = 'w'\nfor = '1s'\nmetric = 'p99_wakeup'";

    fn suite() -> ScoreSuite {
        ScoreSuite::parse(&Source::new("x.toml", SUITE)).expect("the suite is valid")
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

    #[test]
    fn the_score_is_the_weighted_geometric_mean_of_ratios() {
        // The policy has twice the throughput in the first case, and four times the latency in the
        // second one.
        let results: Vec<RunResult> = [(200.0, 1), (100.0, 1), (200.0, 1), (100.0, 1)]
            .into_iter()
            .chain([(1.0, 400), (1.0, 100), (1.0, 400), (1.0, 100)])
            .map(|(score, p99)| result(score, p99))
            .collect();
        let scored = scored(&suite(), &results).expect("the baseline has all figures");
        assert_eq!(scored.cases[0].ratio.map(|ratio| (ratio * 1e9).round()), Some(2e9));
        assert_eq!(scored.cases[1].ratio.map(|ratio| (ratio * 1e9).round()), Some(25e7));
        // (2^3 * 1/4)^(1/4)
        let expected = 2f64.powf(0.25);
        assert!((scored.score.expect("a score") - expected).abs() < 1e-12);
        let (low, high) = scored.interval.expect("two seeds have an interval");
        assert!((low - expected).abs() < 1e-9 && (high - expected).abs() < 1e-9);
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
        let scored = scored(&suite(), &results).expect("the baseline has all figures");
        assert_eq!((scored.score, scored.cases[0].ratio), (None, Some(1.0)));
        assert!(scored.failures[0].starts_with("w on b, seed 1: lost tasks: 1 task waited"));
    }

    #[test]
    fn a_baseline_without_a_figure_is_an_error() {
        let mut results: Vec<RunResult> = (0..8).map(|_| result(1.0, 100)).collect();
        results[1].score = None;
        let error = scored(&suite(), &results).expect_err("the baseline has no score");
        assert!(
            error.message.contains("the baseline eevdf on w on a, seed 1"),
            "{error}"
        );
    }
}
