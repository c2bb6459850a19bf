// SPDX-License-Identifier: GPL-2.0-only
//! Compares two policies, A and B, over many seeds.
//!
//! For each seed, both policies run the same workload, so each metric has a pair of values for each
//! seed. From these pairs, [`effect`] computes the change from A to B with its confidence interval.
//! [`verdict()`] states the result in words.

pub mod attribution;
pub mod condition;
pub mod effect;
pub mod metric;
pub mod page;
pub mod places;
mod present;
pub mod robust;
mod verdict;

pub use condition::{Condition, Judgement};
pub use present::{json, table};
pub use verdict::verdict;

use crate::model_error::{self, Trust};
use crate::validate::Validation;
use effect::{Conclusion, Effect};
use input::error::Error;
use metric::{Metric, metrics};
use report::{Better, RunResult, Unit};
use runner::inputs::Inputs;
use runner::parallel::{self, Progress};
use runner::scenario::Scenario;
use runner::spec::RunSpec;
use std::num::NonZero;

/// How many pairs of runs a comparison has.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Seed of the first pair. Each further pair has the next seed.
    pub seed: u64,
    /// Number of pairs of the first round.
    pub runs: u64,
    /// While a conclusion is undecided, the number of pairs doubles, up to this number.
    pub max_runs: u64,
}

impl Plan {
    /// Returns the number of pairs after each round, if no round decides the comparison.
    fn rounds(&self) -> Vec<u64> {
        let mut rounds = vec![self.runs];
        let mut pairs = self.runs;
        while pairs < self.max_runs {
            pairs = (2 * pairs).min(self.max_runs);
            rounds.push(pairs);
        }
        rounds
    }
}

/// A metric and its change from A to B.
#[derive(Clone, Debug)]
pub struct Compared {
    pub metric: Metric,
    /// `None` if a run has no value for this metric.
    pub effect: Option<Effect>,
}

/// Result of a comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Names of A and B.
    pub names: [String; 2],
    pub machine: String,
    pub nr_cpus: u64,
    pub workload: String,
    /// Seeds of the complete pairs of runs.
    pub seeds: Vec<u64>,
    /// Number of requested pairs of runs, of the rounds that began. `seeds` has fewer entries if a
    /// signal ended the comparison.
    pub planned: usize,
    /// Number of rounds after which the comparison could have ended. The confidence intervals are
    /// corrected for it.
    pub looks: usize,
    pub score_unit: String,
    pub score_better: Better,
    pub metrics: Vec<Compared>,
    /// Descriptions of the failed runs of A's policy, and of those of B's policy.
    pub failures: [Vec<String>; 2],
    /// Descriptions of the runs in which A's policy probably lost tasks, and of those in which B's
    /// policy did.
    pub lost: [Vec<String>; 2],
    /// Descriptions of the runs of A, and of those of B, whose overhead a storm of kicks caused.
    pub storms: [Vec<String>; 2],
}

impl Comparison {
    pub fn failed(&self) -> bool {
        self.failures.iter().any(|failures| !failures.is_empty())
    }

    pub fn effect(&self, metric: &Metric) -> Option<&Effect> {
        let found = self.metrics.iter().find(|known| known.metric == *metric);
        found?.effect.as_ref()
    }

    /// Returns the judgement of a condition, or `None` if a run has no value of its metric.
    pub fn judge(&self, condition: &Condition) -> Option<Judgement> {
        let effect = self.effect(&condition.metric)?;
        Some(condition.judge(effect, self.better(&condition.metric)))
    }

    /// Returns whether more pairs of runs could change the conclusion: a condition is undecided, or,
    /// without conditions, the direction in which the score changes.
    fn undecided(&self, conditions: &[Condition]) -> bool {
        if self.failed() {
            return false;
        }
        // A single pair has no confidence interval.
        let one_pair = self.seeds.len() == 1;
        match conditions {
            [] => self
                .metrics
                .first()
                .and_then(|known| known.effect.as_ref())
                .is_some_and(|score| one_pair || score.conclusion() == Conclusion::Unclear),
            _ => conditions.iter().any(|condition| match self.judge(condition) {
                Some(judgement) => one_pair || judgement == Judgement::Undecided,
                None => false,
            }),
        }
    }

    /// Returns what the model's error means for the changes: a sentence about the score, and the
    /// other metrics whose change the error leaves undecided.
    /// `validation` has the errors of the replay, if the workload is a recording.
    pub fn model_errors(&self, validation: Option<&Validation>) -> Vec<String> {
        let (mut lines, mut others) = (Vec::new(), Vec::new());
        for known in &self.metrics {
            let Some(effect) = &known.effect else { continue };
            let (name, change) = (known.metric.name, effect.ratio.value - 1.0);
            let differs = matches!(
                effect.conclusion(),
                Conclusion::More | Conclusion::Less | Conclusion::OnePair
            );
            if !differs || !change.is_finite() || effect.ratio.value <= 0.0 {
                continue;
            }
            if let Some(validation) = validation {
                let Some(error) = validation.error_percent(name) else {
                    continue;
                };
                if name == "score" || change.abs() * 100.0 <= error {
                    lines.push(format!(
                        "{name}: the replay's error for this figure is {error:.1} % under {}: {:.1} % is {}",
                        validation.policy,
                        change.abs() * 100.0,
                        match change.abs() * 100.0 <= error {
                            true => "undecided by the model",
                            false => "larger than this error",
                        }
                    ));
                }
                continue;
            }
            let Some(error) = model_error::of(name, self.nr_cpus, &self.workload) else {
                continue;
            };
            let ratio = effect.ratio.value;
            if name == "score" {
                let order = model_error::of("order", self.nr_cpus, &self.workload);
                lines.push(error.sentence(name, ratio, self.nr_cpus, order));
            } else if known.metric.figure.better.is_some()
                && change.abs() >= verdict::WORTH_WORDS
                && error.trust(ratio) == Trust::Undecided
            {
                others.push(error.short(name, ratio));
            }
        }
        if !others.is_empty() {
            lines.push(format!("undecided by the model, too: {}", others.join(", ")));
        }
        lines
    }

    fn better(&self, metric: &Metric) -> Option<Better> {
        match metric.figure.unit {
            Unit::Score => Some(self.score_better),
            _ => metric.figure.better,
        }
    }
}

/// Runs both policies with the seeds of the plan, until the conditions are decided.
///
/// # Errors
/// User errors, or a signal before the first pair was complete. A policy that fails is not an
/// error: see [`Comparison::failures`].
pub fn run(
    inputs: &Inputs,
    sides: &[RunSpec; 2],
    plan: &Plan,
    conditions: &[Condition],
    threads: Option<NonZero<usize>>,
    progress: &Progress,
) -> Result<Comparison, Error> {
    let names = names(&[inputs.resolve(&sides[0])?, inputs.resolve(&sides[1])?]);
    let rounds = plan.rounds();
    let (mut planned, mut done, mut results) = (0, Vec::new(), Vec::new());
    loop {
        let Some(&pairs) = rounds.iter().find(|&&pairs| pairs > planned) else {
            unreachable!("the last round ends the loop");
        };
        let seeds: Vec<u64> = (planned..pairs).map(|run| plan.seed.wrapping_add(run)).collect();
        // The two runs of a pair take about the same time. They are adjacent in the list, so that
        // they also finish at about the same time.
        let with_seed = |seed: u64| sides.clone().map(|side| RunSpec { seed, ..side });
        let runs: Vec<RunSpec> = seeds.iter().flat_map(|&seed| with_seed(seed)).collect();
        // Each job counts as 1000, and each earlier pair had two jobs.
        let before = 2000 * planned;
        let report = |done, total| progress(before + done, before + total);
        let found = parallel::run_all(inputs, &runs, threads, &report)?;
        let found: Vec<Option<RunResult>> = found.into_iter().map(|outcome| Some(outcome?.result)).collect();
        let (seeds, found) = complete_pairs(&seeds, &found);
        done.extend(seeds);
        results.extend(found);
        planned = pairs;
        if results.is_empty() {
            return Err(Error::new("interrupted before a pair of runs was complete"));
        }
        let comparison = compared(names.clone(), &done, &results, rounds.len());
        let interrupted = (done.len() as u64) < planned;
        if interrupted || pairs >= plan.max_runs || !comparison.undecided(conditions) {
            return Ok(Comparison {
                planned: usize::try_from(planned).unwrap_or(usize::MAX),
                ..comparison
            });
        }
    }
}

/// Returns the seeds for which both runs are complete, and the results of these runs.
fn complete_pairs(seeds: &[u64], results: &[Option<RunResult>]) -> (Vec<u64>, Vec<RunResult>) {
    let (mut done, mut complete) = (Vec::new(), Vec::new());
    for (seed, pair) in seeds.iter().zip(results.chunks_exact(2)) {
        if let [Some(a), Some(b)] = pair {
            done.push(*seed);
            complete.extend([a.clone(), b.clone()]);
        }
    }
    (done, complete)
}

/// Computes the comparison. `results` contains two results for each seed: first A's, then B's.
fn compared(names: [String; 2], seeds: &[u64], results: &[RunResult], looks: usize) -> Comparison {
    let pairs: Vec<[&RunResult; 2]> = results.chunks_exact(2).map(|pair| [&pair[0], &pair[1]]).collect();
    let value = |metric: &Metric| -> Option<Vec<(f64, f64)>> {
        let pair = |pair: &[&RunResult; 2]| Some((metric.value(pair[0])?, metric.value(pair[1])?));
        pairs.iter().map(pair).collect()
    };
    let metrics = metrics().map(|metric| Compared {
        metric,
        effect: value(&metric).and_then(|pairs| Effect::from_pairs(&pairs, looks)),
    });
    let side_results = |side: usize| pairs.iter().map(move |pair| pair[side]);
    let failures = [0, 1].map(|side| {
        let failed = side_results(side).filter_map(|result| Some((result.seed, result.failure()?)));
        let described = |(seed, failure): (u64, String)| format!("seed {seed}: {failure}");
        failed.map(described).collect()
    });
    let lost = [0, 1].map(|side| {
        let lost = side_results(side).filter_map(|result| Some((result, result.lost_tasks.as_ref()?)));
        lost.map(|(result, lost)| format!("seed {}: {}", result.seed, lost.sentence()))
            .collect()
    });
    let storms = [0, 1].map(|side| side_results(side).filter_map(RunResult::kick_storm).collect());
    let first = &results[0];
    Comparison {
        names,
        machine: first.machine.clone(),
        nr_cpus: first.cpus,
        workload: first.workload.clone(),
        seeds: seeds.to_vec(),
        planned: seeds.len(),
        looks,
        score_unit: first.score_unit.clone(),
        score_better: first.score_better,
        metrics: metrics.collect(),
        failures,
        lost,
        storms,
    }
}

/// Returns a different name for each side. The names are the first of the following that differ
/// between the sides: the policies' names, their settings, the paths of the objects, the letters A
/// and B.
pub fn names(sides: &[Scenario; 2]) -> [String; 2] {
    let settings = |side: &Scenario| {
        let other = if std::ptr::eq(side, &raw const sides[0]) {
            &sides[1]
        } else {
            &sides[0]
        };
        let own = side.settings.iter().filter(|setting| !other.settings.contains(setting));
        let own: Vec<String> = own.map(|(name, value)| format!("{name}={value}")).collect();
        format!("{} {}", side.policy.name(), own.join(" "))
            .trim_end()
            .to_owned()
    };
    let path = |side: &Scenario| match &side.policy {
        runner::policy::Policy::Object { path, .. } => path.display().to_string(),
        policy => policy.name().to_owned(),
    };
    let namings: [&dyn Fn(&Scenario) -> String; 3] = [&|side| side.policy.name().to_owned(), &settings, &path];
    let found = namings.iter().map(|name| [name(&sides[0]), name(&sides[1])]);
    let mut different = found.filter(|[a, b]| a != b);
    different.next().unwrap_or_else(|| {
        let name = sides[0].policy.name();
        [format!("{name} (A)"), format!("{name} (B)")]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::ExitRecord;

    fn result(seed: u64, score: Option<f64>, p99: u64) -> RunResult {
        let mut result = RunResult {
            seed,
            score,
            score_unit: "messages/s".into(),
            workload: "hackbench".into(),
            ..RunResult::default()
        };
        result.wakeup_latency_ns.count = 1;
        result.wakeup_latency_ns.p99 = p99;
        result
    }

    fn compare(results: &[RunResult]) -> Comparison {
        let seeds: Vec<u64> = (1..=results.len() as u64 / 2).collect();
        compared(["old".into(), "new".into()], &seeds, results, 1)
    }

    #[test]
    fn the_number_of_pairs_doubles_up_to_the_limit() {
        let rounds = |runs, max_runs| {
            Plan {
                seed: 1,
                runs,
                max_runs,
            }
            .rounds()
        };
        assert_eq!(rounds(10, 80), [10, 20, 40, 80]);
        assert_eq!(rounds(10, 50), [10, 20, 40, 50]);
        assert_eq!(rounds(10, 10), [10]);
    }

    #[test]
    fn a_comparison_is_undecided_until_its_conditions_are() {
        let pairs = |b: [f64; 3]| {
            let pairs = b.into_iter().zip(1..);
            let results = pairs.flat_map(|(b, seed)| [result(seed, Some(100.0), 10), result(seed, Some(b), 10)]);
            compare(&results.collect::<Vec<_>>())
        };
        let condition = |text| Condition::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let faster = pairs([109.0, 110.0, 111.0]);
        assert!(!faster.undecided(&[]) && !faster.undecided(&[condition("score > +5%")]));
        assert!(faster.undecided(&[condition("score > +5%"), condition("score > +10%")]));
        // No run has this value, and more runs do not help.
        assert!(!faster.undecided(&[condition("mean_response > +5%")]));
        let unclear = pairs([99.0, 101.0, 100.0]);
        assert!(unclear.undecided(&[]) && !unclear.undecided(&[condition("score > +5%")]));
        let one = compare(&[result(1, Some(1.0), 10), result(1, Some(2.0), 10)]);
        assert!(one.undecided(&[]) && one.undecided(&[condition("score > +5%")]));
    }

    #[test]
    fn the_verdict_reports_significant_effects() {
        let mut results = Vec::new();
        for seed in 1..=6 {
            let noise = seed as f64;
            results.push(result(seed, Some(1000.0 + 10.0 * noise), 1000 + seed * 7));
            results.push(result(seed, Some(1120.0 + 11.0 * noise), 3000 + seed * 25));
        }
        let comparison = compare(&results);
        let text = verdict(&comparison);
        assert!(
            text.starts_with("new is 12 % faster than old on hackbench (95 % CI 11.9 to 12.0 %)"),
            "{text}"
        );
        assert!(text.contains("- p99 wake-up latency: 3.0 times as long"), "{text}");
        assert!(!comparison.failed());
        let json = json(&comparison, &[]);
        let score = &json["metrics"][0];
        assert_eq!(
            (score["name"].as_str(), score["shown"].as_str()),
            (Some("score"), Some("better"))
        );
        assert!((score["change_percent"].as_f64().expect("the change is a number") - 12.0).abs() < 0.1);
    }

    #[test]
    fn only_complete_pairs_of_runs_count() {
        let run = |seed| Some(result(seed, Some(1.0), 10));
        let (seeds, results) = complete_pairs(&[4, 5, 6], &[run(4), run(4), run(5), None, run(6), run(6)]);
        assert_eq!((seeds, results.len()), (vec![4, 6], 4));
        assert_eq!(complete_pairs(&[4], &[None, run(4)]), (Vec::new(), Vec::new()));
    }

    #[test]
    fn noise_is_no_difference() {
        let scores = [(1000.0, 1010.0), (1000.0, 985.0), (1010.0, 1020.0), (990.0, 985.0)];
        let pairs = scores
            .iter()
            .zip(1..)
            .flat_map(|(&(a, b), seed)| [result(seed, Some(a), 1000), result(seed, Some(b), 1000)]);
        let text = verdict(&compare(&pairs.collect::<Vec<_>>()));
        assert!(
            text.starts_with("4 pairs of runs show no difference between old and new on hackbench"),
            "{text}"
        );
    }

    #[test]
    fn a_missing_value_is_no_effect_and_failures_are_reported() {
        let mut failed = result(1, None, 10);
        failed.status = report::Status::Ejected;
        failed.exit = Some(ExitRecord {
            at_ns: 31_000_000_000,
            kind: "SCX_EXIT_ERROR_STALL".into(),
            reason: "runnable task stall".into(),
            message: "loop[3] failed to run for 30.001s".into(),
            ..ExitRecord::default()
        });
        let comparison = compare(&[result(1, Some(1.0), 10), failed]);
        assert!(comparison.metrics[0].effect.is_none() && comparison.failed());
        let text = verdict(&comparison);
        assert!(
            text.contains("new did not complete 1 of 1 runs (seed 1: failed at 31.0 s: runnable task stall: loop[3]"),
            "{text}"
        );
    }
}
