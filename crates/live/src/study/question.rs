// SPDX-License-Identifier: GPL-2.0-only
//! What the study asks: workloads, and what is read off a run of each. The same list serves the machine and the simulator.

use super::loads;
use super::reference::References;
use crate::run::Look;
use std::collections::BTreeMap;
use windtunnel::experiment::measure::{Arguments, Measure};
use windtunnel::experiment::observe::Observed;
use windtunnel::experiment::recursion::{Job, fcfs, sharing};

/// Work of a request of the closed questions, ms.
const COMPUTE_MS: u64 = 250;
/// Mean time between arrivals, and mean work of a job, of the open one, ms.
const INTERARRIVAL_MS: u64 = 21;
const WORK_MS: u64 = 20;
/// Nice values of the second task.
const NICE: [u32; 7] = [0, 1, 2, 5, 10, 15, 19];

/// One of the study's questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Question {
    /// 7 tasks that compute 250 ms without end, all started on the first CPU: who spreads them, how, how soon
    Heavy,
    /// The same with 10 ms of thinking after each request
    Moderate,
    /// Two tasks on one CPU, computing 500 ms without end, the second of a lower priority: what share does it get
    Priorities,
    /// Jobs of 20 ms on average (exponential) arrive on one CPU every 21 ms on average: RR, FCFS or PS
    Open,
}

/// What is executed for it.
pub struct Case {
    pub workload: String,
    pub for_ns: u64,
    /// CPUs it needs; more are used if they are named.
    pub cpus: usize,
    /// Of the priorities: the distance.
    nice: u32,
}

/// A run, real or simulated.
#[derive(Default)]
pub struct Seen {
    pub observed: Observed,
    pub looks: Vec<Look>,
    /// When each task came to be, and the CPU time it used, ns.
    pub jobs: Vec<Job>,
}

/// A figure's name, the measure it is and that one's arguments.
type Row = (String, &'static str, Vec<(&'static str, String)>);

/// Figures by name, in order; `None` where a run does not tell.
pub type Figures = Vec<(String, Option<f64>)>;

impl Question {
    pub const ALL: [Question; 4] = [
        Question::Heavy,
        Question::Moderate,
        Question::Priorities,
        Question::Open,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Question::Heavy => "heavy",
            Question::Moderate => "moderate",
            Question::Priorities => "priorities",
            Question::Open => "open",
        }
    }

    /// How long a run takes unless it is said, s.
    fn seconds(self) -> u64 {
        match self {
            Question::Heavy | Question::Moderate | Question::Open => 60,
            Question::Priorities => 20,
        }
    }

    pub fn cases(self, for_ns: Option<u64>) -> Vec<Case> {
        let for_ns = for_ns.unwrap_or(self.seconds() * 1_000_000_000);
        let case = |workload: String, cpus| Case {
            workload,
            for_ns,
            cpus,
            nice: 0,
        };
        let closed = |think: &str| {
            format!("closed:n=7,compute={COMPUTE_MS}ms,think={think},start_cpu=0,bound=yes,duration=86400s")
        };
        match self {
            Question::Heavy => vec![case(closed("0"), 2)],
            Question::Moderate => vec![case(closed("10ms"), 2)],
            Question::Priorities => NICE
                .iter()
                .map(|&nice| Case {
                    nice,
                    ..case(format!("closed:n=2,compute=500ms,nice=0/{nice},duration=86400s"), 1)
                })
                .collect(),
            Question::Open => {
                let number = (for_ns / (INTERARRIVAL_MS * 1_000_000)).max(1);
                let workload = format!(
                    "open:arrival=M,interarrival={INTERARRIVAL_MS}ms,service=M,work={WORK_MS}ms,number={number}"
                );
                // Until all are done, whatever has piled up.
                vec![Case {
                    for_ns: 4 * for_ns + 10_000_000_000,
                    ..case(workload, 1)
                }]
            }
        }
    }

    /// What the repository has of it.
    pub fn references(self) -> References {
        match self {
            Question::Heavy => References::read("smp/heavy"),
            Question::Moderate => References::read("smp/moderate"),
            Question::Priorities => References::read("smp/priorities"),
            Question::Open => References::default(),
        }
    }

    /// What theory says of a figure.
    pub fn theory(self, figure: &str, cpus: usize) -> Option<f64> {
        let share = 7.0 / cpus as f64;
        let compute = COMPUTE_MS as f64;
        match (self, figure) {
            (Question::Heavy, "mean_response_ms") => Some(share * compute),
            // Who thinks 10 ms leaves that to the others.
            (Question::Moderate, "mean_response_ms") => Some(share * compute - 10.0),
            // M/M/1, whatever the discipline, if it does not look at the work.
            (Question::Open, "mean_response_ms") => {
                let (interarrival, work) = (INTERARRIVAL_MS as f64, WORK_MS as f64);
                Some(work / (1.0 - work / interarrival))
            }
            _ => None,
        }
    }

    /// What a run tells.
    pub fn figures(self, case: &Case, cpus: usize, seen: &Seen) -> Figures {
        let mut figures = Vec::new();
        if matches!(self, Question::Heavy | Question::Moderate) {
            figures.extend(load_figures(seen, cpus));
        }
        for (name, measure, arguments) in self.rows(case) {
            let arguments: Vec<(String, String)> = arguments
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect();
            let value = Measure::make(measure, &Arguments::new(&arguments)).and_then(|of| of.value(&seen.observed));
            figures.push((name, value.ok()));
        }
        if self == Question::Open {
            figures.extend(open_figures(seen));
        }
        figures
    }

    fn rows(self, case: &Case) -> Vec<Row> {
        let row = |name: &str, measure, arguments: &[(&'static str, String)]| -> Row {
            (name.to_owned(), measure, arguments.to_vec())
        };
        let text = |value: &str| value.to_owned();
        let closed = ("task", text("closed"));
        let mut rows = Vec::new();
        match self {
            Question::Heavy | Question::Moderate => {
                rows.push(row("mean_response_ms", "response_ms", std::slice::from_ref(&closed)));
                if self == Question::Moderate {
                    rows.push(row("mean_wait_ms", "between_ms", std::slice::from_ref(&closed)));
                }
                rows.push(row(
                    "cv_percent",
                    "task_mean_response_ms",
                    &[("stat", text("cv_percent")), closed.clone()],
                ));
                for load in 1..=7_u64 {
                    let from = (2 * load - 1) * COMPUTE_MS / 2;
                    let to = (2 * load + 1) * COMPUTE_MS / 2;
                    let mut range = vec![("from_ms", if load == 1 { 0 } else { from }.to_string())];
                    if load < 7 {
                        range.push(("to_ms", to.to_string()));
                    }
                    rows.push(row(&format!("share_load_{load}"), "response_share_percent", &range));
                }
                if self == Question::Heavy {
                    for (peak, from, to) in [(1, 550, 750), (2, 750, 950), (3, 1050, 1250)] {
                        let range = [("from_ms", from.to_string()), ("to_ms", to.to_string())];
                        rows.push(row(&format!("peak_{peak}_ms"), "response_peak_ms", &range));
                    }
                }
                rows.push(row("highest_peak_ms", "response_peak_ms", &[]));
                for stat in ["min", "max"] {
                    let arguments = [("stat", text(stat)), closed.clone()];
                    rows.push(row(&format!("{stat}_ms"), "response_ms", &arguments));
                }
                rows.push(row("requests_per_minute", "responses_per_minute", &[]));
            }
            Question::Priorities => {
                for (name, task) in [("high", "closed0"), ("low", "closed1")] {
                    let name = format!("{} {name}", case.nice);
                    rows.push(row(&name, "responses_per_minute", &[("task", text(task))]));
                }
            }
            Question::Open => {
                let job = ("task", text("job"));
                rows.push(row("mean_response_ms", "response_ms", std::slice::from_ref(&job)));
                for stat in ["p50", "p90", "p99", "max"] {
                    let arguments = [("stat", text(stat)), job.clone()];
                    rows.push(row(&format!("{stat}_ms"), "response_ms", &arguments));
                }
            }
        }
        rows
    }
}

fn load_figures(seen: &Seen, cpus: usize) -> Figures {
    let usual = loads::usual(&seen.looks, seen.observed.trail.end_ns / 2);
    let load = |cpu: usize| usual.as_ref().and_then(|(loads, _)| loads.get(cpu)).copied();
    let mut figures: Figures = (0..cpus)
        .map(|cpu| (format!("load_cpu{cpu}"), load(cpu).map(f64::from)))
        .collect();
    figures.push(("load_share_percent".to_owned(), usual.as_ref().map(|(_, share)| *share)));
    figures.push(("balanced_7_tasks_s".to_owned(), loads::even_from_s(&seen.looks)));
    figures
}

/// What the disciplines would have made of the very same jobs.
fn open_figures(seen: &Seen) -> Figures {
    let mut jobs = seen.jobs.clone();
    jobs.sort_unstable();
    let Some((first, last)) = jobs.first().zip(jobs.last()) else {
        return Vec::new();
    };
    let n = jobs.len() as f64;
    let work: u64 = jobs.iter().map(|(_, work)| work).sum();
    let span = (last.0 - first.0).max(1) as f64;
    vec![
        ("jobs".to_owned(), Some(n)),
        ("offered_load".to_owned(), Some(work as f64 / span)),
        ("fcfs_of_these_ms".to_owned(), Some(fcfs(&jobs, 1) / 1e6 / n)),
        ("ps_of_these_ms".to_owned(), Some(sharing(&jobs) / 1e6 / n)),
    ]
}

/// One line for a figure's name.
pub fn about(figure: &str) -> Option<&'static str> {
    let known: BTreeMap<&str, &str> = BTreeMap::from([
        ("load_share_percent", "of the looks in the second half saw these loads"),
        (
            "balanced_7_tasks_s",
            "loads even from then on, for a second; of experiments: as response times show it",
        ),
        ("cv_percent", "of the tasks' mean response times"),
        ("share_load_1", "of the responses, as 250 ms times 1, 2, ..., rounded"),
        (
            "peak_1_ms",
            "most frequent response time of 550 to 750 ms, 750 to 950, 1050 to 1250",
        ),
        ("offered_load", "CPU time of the jobs in the time they arrived in"),
        ("fcfs_of_these_ms", "mean response, had these jobs been served in order"),
        ("ps_of_these_ms", "mean response, had these jobs shared the CPU evenly"),
    ]);
    known.get(figure).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_has_cases_that_are_workloads() {
        for question in Question::ALL {
            for case in question.cases(Some(2_000_000_000)) {
                workload::load(&case.workload, &[]).unwrap_or_else(|error| panic!("{error}"));
            }
        }
        assert_eq!(Question::Priorities.cases(None).len(), NICE.len());
    }

    #[test]
    fn theory_is_the_studys() {
        let of = |question: Question, cpus| question.theory("mean_response_ms", cpus).map(f64::round);
        assert_eq!(of(Question::Heavy, 2), Some(875.0));
        assert_eq!(of(Question::Moderate, 2), Some(865.0));
        assert_eq!(of(Question::Open, 1), Some(420.0));
        assert_eq!(Question::Heavy.theory("cv_percent", 2), None);
    }
}
