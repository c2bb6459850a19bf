// SPDX-License-Identifier: GPL-2.0-only
//! The verdict: the most important results in words. It says which run was best and by how much,
//! and what went wrong.
//!
//! Scores are compared only if the machine and the workload are equal. With one run per policy,
//! small differences may be chance. Runs that differ by less than [`LEVEL_PERCENT`] are therefore
//! called equal, and the page recommends several seeds.

use super::Run;
use super::data::{class_name, classes};
use crate::failure::{ExitRecord, Status};
use crate::figures::RunResult;
use crate::score::Better;
use crate::table::{Column, columns};
use crate::units;
use trace::recording::RECORDED;

/// If two scores differ by less than this percentage, they are called equal.
const LEVEL_PERCENT: f64 = 1.0;
/// Minimum idle time of CPUs while tasks waited, in percent of all CPU time. A run that reaches it
/// gets a remark.
const IDLE_PERCENT: f64 = 1.0;
/// Minimum idle time of CPUs while tasks waited, in percent of all CPU time, that the verdict
/// reports as a problem.
const WASTE_PERCENT: f64 = 5.0;
/// Minimum overhead, in percent of CPU time. A run that reaches it gets a remark.
const OVERHEAD_PERCENT: f64 = 5.0;
/// Minimum overhead, in percent of CPU time, that a sentence of the verdict reports.
const COSTLY_PERCENT: f64 = 15.0;
/// A run gets a remark if its p99 wake-up latency is at least this many times the best one.
const SLOWER: f64 = 1.5;
/// If Jain's fairness index is less than this, the run is called unfair.
const UNEVEN: f64 = 0.95;

/// Kind of a remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagKind {
    Good,
    Bad,
    Note,
}

/// A short remark in the row of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    pub kind: TagKind,
    pub text: String,
}

/// The verdict on all runs of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub headline: String,
    pub points: Vec<String>,
    /// Remarks on each run.
    pub tags: Vec<Vec<Tag>>,
    pub caveat: String,
}

/// Returns the verdict on these runs. `labels` are the names of the runs.
pub fn verdict(runs: &[Run], labels: &[String]) -> Verdict {
    let results: Vec<RunResult> = runs.iter().map(|run| run.result.clone()).collect();
    let columns = columns(&results);
    let score = &columns[0];
    let same = |field: fn(&RunResult) -> &str| results.iter().all(|r| field(r) == field(&results[0]));
    let comparable = same(|r| &r.machine) && same(|r| &r.workload);
    let mut verdict = Verdict {
        headline: match results.as_slice() {
            [one] => describe_single_run(one, score, &labels[0]),
            _ if comparable => ranking(&results, score, labels),
            _ => "These runs have different machines or workloads, so they are not ranked.".to_owned(),
        },
        tags: vec![Vec::new(); runs.len()],
        ..Verdict::default()
    };
    failures(&results, labels, &mut verdict);
    if comparable && results.len() > 1 {
        best_score(&results, score, &mut verdict);
        latencies(&results, labels, &mut verdict);
    }
    waste(&results, labels, &mut verdict);
    fairness(runs, labels, &mut verdict);
    verdict.caveat = caveat(&results, comparable);
    verdict
}

fn describe_single_run(result: &RunResult, score: &Column, label: &str) -> String {
    if result.status == Status::Refused {
        return format!("{label} was refused, so there was no run");
    }
    let ran = format!(
        "{label} ran {} on {} for {}",
        result.workload,
        result.machine,
        units::time(result.simulated_ns)
    );
    match (result.failed(), score_text(score, result)) {
        _ if result.status == Status::Deadlock => format!("{ran}, then deadlocked"),
        (true, _) => format!("{ran}, then failed"),
        (false, Some(value)) => format!("{ran}: {value}"),
        (false, None) => ran,
    }
}

/// Formats a run's score with its unit. Returns `None` if the run has no score.
fn score_text(score: &Column, result: &RunResult) -> Option<String> {
    let text = (score.text)(score.value(result)?);
    Some(match score.head.rsplit_once('\n') {
        Some(("throughput", unit)) => format!("{text} {unit}"),
        Some((quantity, kind)) if result.score_unit == "ms" => format!("{kind} {quantity} time {text}"),
        _ => format!("{} {text}", heading(&score.head)),
    })
}

/// Returns the heading of a column on one line.
pub fn heading(head: &str) -> String {
    head.replace("-\n", "").replace('\n', " ")
}

fn ranking(results: &[RunResult], score: &Column, labels: &[String]) -> String {
    let mut ranked: Vec<(usize, f64)> = results
        .iter()
        .enumerate()
        .filter(|(_, r)| r.can_win())
        .filter_map(|(i, r)| Some((i, score.value(r)?)))
        .collect();
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    if results[0].score_better == Better::Higher {
        ranked.reverse();
    }
    let quality = match (results[0].score_better, results[0].score_unit.as_str()) {
        (Better::Higher, _) => "does the most work",
        (Better::Lower, "s") => "finishes first",
        (Better::Lower, "ms") => "responds fastest",
        (Better::Lower, _) => "is fastest",
    };
    match ranked.as_slice() {
        [] if results.iter().all(RunResult::failed) => "Every policy failed.".to_owned(),
        [] => "No run has a score, because none finished the workload or completed an operation".to_owned(),
        [(only, _)] => format!(
            "Only {} has a score: {}",
            labels[*only],
            score_or_empty(score, &results[*only])
        ),
        [(first, best), .., (last, worst)] => {
            let second = ranked[1];
            let ahead = percent_apart(*best, second.1);
            if ranked.len() > 2 && percent_apart(*best, *worst) < LEVEL_PERCENT {
                return format!(
                    "All runs are about equal at {}, with differences below {} %",
                    score_or_empty(score, &results[*first]),
                    LEVEL_PERCENT
                );
            }
            let winner = &labels[*first];
            let value = score_or_empty(score, &results[*first]);
            let (next, last) = (&labels[second.0], &labels[*last]);
            let (behind, far) = (percent(*best, second.1), percent(*best, *worst));
            let higher = results[0].score_better == Better::Higher;
            match (ahead < LEVEL_PERCENT, ranked.len()) {
                (true, 2) => format!("{winner} and {next} are about equal at {value}"),
                (true, _) if higher => {
                    format!("{winner} and {next} are about equally good: {value}, {far} more than {last}, the last")
                }
                (true, _) => {
                    format!("{winner} and {next} are about equally good: {value}; {last}, the last, takes {far} longer")
                }
                (false, 2) if higher => format!("{winner} {quality}: {value}, {behind} more than {next}"),
                (false, 2) => format!("{winner} {quality}: {value}; {next} takes {behind} longer"),
                (false, _) if higher => {
                    format!(
                        "{winner} {quality}: {value}, {behind} more than {next}, the next, and {far} more than {last}, the last"
                    )
                }
                (false, _) => {
                    format!(
                        "{winner} {quality}: {value}; {next}, the next, takes {behind} longer, and {last}, the last, {far}"
                    )
                }
            }
        }
    }
}

fn score_or_empty(score: &Column, result: &RunResult) -> String {
    score_text(score, result).unwrap_or_default()
}

/// Returns by how many percent the larger of two values exceeds the smaller one.
fn percent_apart(a: f64, b: f64) -> f64 {
    100.0 * (a.max(b) / a.min(b).max(1e-9) - 1.0)
}

fn percent(a: f64, b: f64) -> String {
    match percent_apart(a, b) {
        p if p >= 900.0 => format!("{:.0} times", p / 100.0),
        p if p >= 10.0 => format!("{p:.0} %"),
        p => format!("{p:.1} %"),
    }
}

fn failures(results: &[RunResult], labels: &[String], verdict: &mut Verdict) {
    for (i, result) in results.iter().enumerate() {
        if let Some(lost) = &result.lost_tasks {
            verdict.tags[i].push(Tag {
                kind: TagKind::Bad,
                text: format!("lost {} tasks", lost.count),
            });
            verdict
                .points
                .push(format!("{} lost tasks: {}.", labels[i], lost.sentence()));
        }
        if result.failed_forks > 0 {
            verdict.tags[i].push(Tag {
                kind: TagKind::Bad,
                text: format!("refused {} tasks", result.failed_forks),
            });
        }
        let (Some(fate), Some(failure)) = (result.fate(), result.failure()) else {
            continue;
        };
        verdict.tags[i].push(Tag {
            kind: TagKind::Bad,
            text: fate.clone(),
        });
        let location = result.exit.as_ref().map(ExitRecord::location).unwrap_or_default();
        let source = match location.as_slice() {
            [] => String::new(),
            parts => format!(", in {}", parts.join(", ")),
        };
        verdict.points.push(format!("{} {failure}{source}.", labels[i]));
    }
}

fn best_score(results: &[RunResult], score: &Column, verdict: &mut Verdict) {
    let best = score.best(results);
    for (result, tags) in results.iter().zip(&mut verdict.tags) {
        let value = score.value(result);
        if value.is_some() && value == best && result.can_win() {
            tags.push(Tag {
                kind: TagKind::Good,
                text: match score.head.split_once('\n') {
                    Some(("throughput", _)) => "highest throughput".to_owned(),
                    _ => format!("best {}", heading(&score.head)),
                },
            });
        }
    }
}

fn latencies(results: &[RunResult], labels: &[String], verdict: &mut Verdict) {
    let p99 = |r: &RunResult| (r.wakeup_latency_ns.count > 0 && r.can_win()).then_some(r.wakeup_latency_ns.p99);
    let known = results
        .iter()
        .enumerate()
        .filter_map(|(i, r)| Some((p99(r)?.max(1), i)));
    let (Some((least, best)), Some((most, worst))) = (known.clone().min(), known.clone().max()) else {
        return;
    };
    let times = most as f64 / least as f64;
    if times < SLOWER {
        return;
    }
    verdict.points.push(format!(
        "{} has the fastest wake-ups: 99 % take at most {}, with {} up to {}.",
        labels[best],
        units::time(least),
        labels[worst],
        units::time(most),
    ));
    verdict.tags[best].push(Tag {
        kind: TagKind::Good,
        text: "fastest wake-ups".to_owned(),
    });
    for (ns, i) in known {
        let times = ns as f64 / least as f64;
        if times >= SLOWER {
            let times = match times {
                t if t >= 100.0 => format!("{t:.0}"),
                t => format!("{t:.1}"),
            };
            verdict.tags[i].push(Tag {
                kind: TagKind::Note,
                text: format!("p99 wake-up {times}× the best"),
            });
        }
    }
}

fn waste(results: &[RunResult], labels: &[String], verdict: &mut Verdict) {
    let mut idlers = Vec::new();
    for (i, result) in results.iter().enumerate() {
        let all = result.simulated_ns as f64 * result.cpus as f64;
        let idle = 100.0 * result.idle_while_waiting_ns as f64 / all.max(1.0);
        if idle >= IDLE_PERCENT {
            verdict.tags[i].push(Tag {
                kind: if idle < WASTE_PERCENT {
                    TagKind::Note
                } else {
                    TagKind::Bad
                },
                text: format!("idle while tasks waited {idle:.0} %"),
            });
            idlers.push((idle, &labels[i]));
        }
        if result.overhead_percent >= COSTLY_PERCENT {
            verdict.points.push(format!(
                "{} spends {:.0} % of all CPU time on scheduling.",
                labels[i], result.overhead_percent
            ));
        }
        if let (Some(percent), Some(storm)) = (result.kick_storm_percent(), result.kick_storm()) {
            verdict.points.push(format!("{}: {storm}.", labels[i]));
            verdict.tags[i].push(Tag {
                kind: TagKind::Bad,
                text: format!("kick storm, {percent:.0} % of the overhead"),
            });
        }
        if result.overhead_percent >= OVERHEAD_PERCENT {
            verdict.tags[i].push(Tag {
                kind: TagKind::Note,
                text: format!("overhead {:.0} %", result.overhead_percent),
            });
        }
    }
    idlers.sort_by(|a, b| b.0.total_cmp(&a.0));
    if idlers.first().is_some_and(|(idle, _)| *idle >= WASTE_PERCENT) {
        let shares: Vec<String> = idlers
            .iter()
            .map(|(idle, label)| format!("{label} {idle:.0} %"))
            .collect();
        verdict.points.push(format!(
            "CPUs were idle while tasks waited that could have run there. Idle time in percent of all CPU time: {}.",
            shares.join(", ")
        ));
    }
}

fn fairness(runs: &[Run], labels: &[String], verdict: &mut Verdict) {
    // A recording does not contain the weights and the allowed CPUs of its tasks, so it does not show
    // which shares would be fair.
    let simulated = |(_, run): &(usize, &Run)| run.result.policy != RECORDED;
    for (i, run) in runs.iter().enumerate().filter(simulated) {
        let classes = classes(&run.scan);
        let worst = classes.iter().min_by(|a, b| a.jain.total_cmp(&b.jain));
        if let Some(class) = worst.filter(|class| class.jain < UNEVEN) {
            let class_name = class_name(class.prio);
            verdict.tags[i].push(Tag {
                kind: TagKind::Bad,
                text: format!("unfair at {class_name}: Jain {:.2}", class.jain),
            });
            let (least, most) = (class.shares.first(), class.shares.last());
            verdict.points.push(format!(
                "{} is unfair: among {} always runnable tasks at {class_name}, one got {:.1} % of a CPU and another {:.1} %.",
                labels[i],
                class.tasks,
                least.copied().unwrap_or(0) as f64 / 1e4,
                most.copied().unwrap_or(0) as f64 / 1e4,
            ));
        }
    }
}

fn caveat(results: &[RunResult], comparable: bool) -> String {
    let seeds = results.iter().all(|r| r.seed == results[0].seed);
    match (results.len(), comparable, seeds) {
        (1, ..) | (_, false, _) => String::new(),
        (_, true, false) => "The runs have different seeds, so part of their differences is chance.".to_owned(),
        (_, true, true) => "Each policy ran once, so differences of a few percent can be chance. Compare runs with several seeds to be sure.".to_owned(),
    }
}
