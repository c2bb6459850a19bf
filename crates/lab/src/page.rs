// SPDX-License-Identifier: GPL-2.0-only
//! Collects and writes the HTML page of one or more runs.

use crate::model_error::{self, Trust};
use crate::predict;
use crate::validate::Validation;
use input::error::Error;
use machine::MachineSpec;
use report::html::{self, Scan};
use report::{Better, RunResult};
use runner::destination;
use std::path::Path;
use trace::Header;
use trace::recording::RECORDED;

/// Maximum number of timeline segments on a page, which makes a page of about 5 MB. A segment shows
/// one uninterrupted activity of a CPU. Each run on a page gets an equal share of the segments, but
/// at least SEGMENTS_LEAST.
const SEGMENTS: usize = 1 << 20;
const SEGMENTS_LEAST: usize = 1 << 16;

/// Returns a collector for one of the `runs` runs on a page. It collects data from the records of
/// the run. `machine` is the machine of the run, if it is known.
pub fn scan(header: &Header, machine: Option<&MachineSpec>, runs: usize) -> Scan {
    let capacities = machine.map(|machine| machine.topology.cpus.iter().map(|cpu| cpu.capacity).collect());
    let scan = Scan::new(header, (SEGMENTS / runs.max(1)).max(SEGMENTS_LEAST));
    scan.with_capacities(capacities.unwrap_or_default())
}

/// Returns the machine of a trace file, which names it, if it is still the same machine.
pub fn machine_of(header: &Header) -> Option<MachineSpec> {
    // A name in a trace file must not make the command read other files.
    let name = Some(&header.machine).filter(|name| !name.contains(['/', '.']))?;
    let machine = runner::search::definition(name).ok()?.spec;
    (runner::traced::places(&machine) == header.cpus).then_some(machine)
}

/// Returns a finished run for the page. If `timeslice_ns` is given, the page shows the response
/// times that theory predicts for round robin with this time slice. The equations assume CPUs of
/// equal speed. There is therefore no prediction for a machine on which several CPUs are hardware
/// threads of one core.
pub fn finish_run(header: &Header, mut scan: Scan, result: RunResult, timeslice_ns: Option<u64>) -> html::Run {
    scan.finish(result.simulated_ns);
    let predicted = match share_cores(header) {
        true => Vec::new(),
        false => predict::responses(&result.workload, result.cpus, timeslice_ns),
    };
    html::Run {
        result,
        scan,
        predicted,
        lacks: Vec::new(),
        explained: Vec::new(),
        why: String::new(),
    }
}

/// Returns whether several CPUs are hardware threads of one core.
fn share_cores(header: &Header) -> bool {
    let mut cores: Vec<u32> = header.cpus.iter().map(|position| position.core).collect();
    cores.sort_unstable();
    cores.windows(2).any(|two| two[0] == two[1])
}

/// Writes the page of these runs. `validation` has the errors of the replay, if the workload is a
/// recording.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, runs: &[html::Run], validation: Option<&Validation>) -> Result<(), Error> {
    let errors = match validation {
        Some(validation) => vec![validation.sentence()],
        None => {
            let results: Vec<&RunResult> = runs.iter().map(|run| &run.result).collect();
            model_errors(&results, &html::labels(runs))
        }
    };
    destination::write(path, html::page(runs, &errors).as_bytes())
}

/// Returns sentences about the errors of the model for these runs. `labels` are the names of the
/// runs. For a single run, the sentence names the usual error of each figure. For several runs, it
/// says whether the best score is better than the next one by more than the model's error.
fn model_errors(results: &[&RunResult], labels: &[String]) -> Vec<String> {
    let simulated = |result: &&RunResult| result.policy != RECORDED && result.can_win();
    let Some(first) = results.first().filter(|_| results.iter().all(simulated)) else {
        return Vec::new();
    };
    let comparable = |other: &RunResult| (&other.machine, &other.workload) == (&first.machine, &first.workload);
    if results.len() == 1 {
        return model_error::usual(first.cpus, &first.workload).into_iter().collect();
    }
    if !results.iter().all(|result| comparable(result)) {
        return Vec::new();
    }
    let mut ranked: Vec<(f64, &str)> = results
        .iter()
        .zip(labels)
        .filter_map(|(result, label)| Some((result.score.filter(|&score| score > 0.0)?, label.as_str())))
        .collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    if first.score_better == Better::Higher {
        ranked.reverse();
    }
    let (Some(error), [best, next, rest @ ..]) =
        (model_error::of("score", first.cpus, &first.workload), ranked.as_slice())
    else {
        return Vec::new();
    };
    let ratio = |other: f64| other / best.0;
    let order = model_error::of("order", first.cpus, &first.workload);
    let name = format!("Score of {}, compared with {}", next.1, best.1);
    let mut lines = vec![error.sentence(&name, ratio(next.0), first.cpus, order) + "."];
    let undecided: Vec<&str> = rest
        .iter()
        .filter(|(score, _)| error.trust(ratio(*score)) == Trust::Undecided)
        .map(|(_, label)| *label)
        .collect();
    if !undecided.is_empty() {
        lines.push(format!(
            "The model does not decide either whether {} is better than {}.",
            best.1,
            undecided.join(", ")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(policy: &str, score: f64) -> RunResult {
        RunResult {
            policy: policy.to_owned(),
            machine: "smp4".to_owned(),
            workload: "hackbench:groups=1".to_owned(),
            cpus: 4,
            score: Some(score),
            score_better: Better::Lower,
            ..RunResult::default()
        }
    }

    fn errors(results: &[RunResult]) -> String {
        let labels: Vec<String> = results.iter().map(|result| result.policy.clone()).collect();
        model_errors(&results.iter().collect::<Vec<_>>(), &labels).join(" ")
    }

    #[test]
    fn the_error_for_one_run_is_that_of_each_figure() {
        let text = errors(&[result("eevdf", 1.0)]);
        let score = text
            .strip_prefix("The model's usual errors: score ")
            .unwrap_or_default();
        let (percent, figures) = score.split_once(" %, switches ").unwrap_or_default();
        assert!(percent.parse::<f64>().is_ok() && figures.contains(" %"), "{text}");
        assert!(text.ends_with(" (hackbench on 4 CPUs)."), "{text}");
    }

    #[test]
    fn the_best_run_is_compared_with_the_others() {
        let text = errors(&[
            result("slow", 1.05),
            result("fast", 1.0),
            result("slower", 1.06),
            result("slowest", 9.0),
        ]);
        assert!(
            text.starts_with("Score of slow, compared with fast: 5.0 % is undecided by the model"),
            "{text}"
        );
        assert!(text.ends_with("whether fast is better than slower."), "{text}");
        let higher = [result("a", 1.0), result("b", 9.0)].map(|result| RunResult {
            score_better: Better::Higher,
            ..result
        });
        let text = errors(&higher);
        assert!(
            text.starts_with("Score of a, compared with b: 89 % is beyond the model's error"),
            "{text}"
        );
    }

    #[test]
    fn recordings_and_different_workloads_have_no_error() {
        let other = RunResult {
            workload: "chat".to_owned(),
            ..result("fifo", 1.0)
        };
        assert_eq!(errors(&[result("eevdf", 1.0), other]), "");
        assert_eq!(errors(&[result(RECORDED, 1.0)]), "");
        let failed = RunResult {
            interrupted: true,
            ..result("fifo", 1.0)
        };
        assert_eq!(errors(&[result("eevdf", 1.0), failed]), "");
    }

    #[test]
    fn hardware_threads_share_a_core() {
        for (machine, expected) in [("core:4 pu:1", false), ("core:2 pu:2", true), ("hybrid", true)] {
            let spec = machine::load(machine, &[]).expect("the machine is known");
            let header = Header {
                cpus: runner::traced::places(&spec),
                ..Header::default()
            };
            assert_eq!(share_cores(&header), expected, "{machine}");
        }
    }
}
