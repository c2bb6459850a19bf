// SPDX-License-Identifier: GPL-2.0-only
//! Validates the replay of a recording: the recorded scheduler is simulated on the recorded machine,
//! and its figures are compared with those of the recording. The difference is the error of the
//! model for this recording. What the same replay says about another scheduler cannot be more
//! accurate.

use crate::compare::metric::{self, Metric};
use input::error::Error;
use report::layout::{Grid, Surface};
use report::{RunResult, Unit};
use runner::inputs::Inputs;
use runner::policy::Policy;
use runner::scenario::{Observer, Scenario};
use runner::spec::RunSpec;
use runner::traced::Traced;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trace::{Event, Follow, Record, Sink, Tee};
use workload::{Lack, RecordedMachine};

/// Name of the fair class as a policy.
const EEVDF: &str = "eevdf";
/// Share of the recorded busy time in percent from which a task's run time is compared. The time of
/// a shorter task depends on single events.
const SMALLEST_PERCENT: f64 = 1.0;
/// Number of tasks with the largest errors that are listed.
const LISTED: usize = 3;

/// A figure of the recording and of its simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the figure as in `compare`, or of a time that only this comparison has.
    pub name: &'static str,
    pub recorded: f64,
    pub simulated: f64,
    pub unit: Unit,
}

impl Row {
    /// Returns the error in percent of the recorded value. `None` if that is 0.
    pub fn error_percent(&self) -> Option<f64> {
        (self.recorded > 0.0).then(|| (self.simulated / self.recorded - 1.0) * 100.0)
    }
}

/// The comparison of a recording with its simulation.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The recording.
    pub recording: String,
    /// The recorded scheduler, which was simulated.
    pub policy: String,
    pub machine: String,
    pub rows: Vec<Row>,
    /// Run times of the tasks by name, recorded and simulated, with the largest errors first.
    pub tasks: Vec<(String, u64, u64)>,
    pub lacks: Vec<Lack>,
    /// Remarks about the machine.
    pub notes: Vec<String>,
}

/// Sums up the CPU time of the tasks by name. A task has the name with which it was created, which
/// is the same in a recording and in its replay.
struct RunTimes {
    names: BTreeMap<u32, String>,
    follow: Follow,
    ns: BTreeMap<String, u64>,
    end: u64,
}

impl RunTimes {
    fn new(nr_cpus: usize) -> RunTimes {
        RunTimes {
            names: BTreeMap::new(),
            follow: Follow::new(nr_cpus),
            ns: BTreeMap::new(),
            end: 0,
        }
    }

    fn add_turn(&mut self, pid: u32, ns: u64) {
        if let Some(name) = self.names.get(&pid) {
            *self.ns.entry(name.clone()).or_insert(0) += ns;
        }
    }

    fn finish(mut self) -> BTreeMap<String, u64> {
        let running: Vec<(u32, u64)> = self.follow.running().collect();
        for (pid, since) in running {
            self.add_turn(pid, self.end.saturating_sub(since));
        }
        self.ns
    }
}

impl Sink for RunTimes {
    fn take(&mut self, records: &[Record]) {
        for record in records {
            let time = record.local_time();
            self.end = self.end.max(time);
            if let Event::TaskNew { pid, comm, .. } = &record.event {
                self.names.insert(*pid, comm.chars().take(15).collect());
            }
            if let Some((pid, Some(since))) = self.follow.add(record).turn {
                self.add_turn(pid, time.saturating_sub(since));
            }
        }
    }
}

/// Validates the replay in a run's workload. `spec` describes the run, of which the machine and the
/// workload count. Without a machine, the recorded one is used. `scheduler` replaces the recorded
/// scheduler. Returns `None` if the workload is no recording.
///
/// # Errors
/// The recording or the machine cannot be read, or no policy has the name of the recorded
/// scheduler.
pub fn validate(inputs: &Inputs, spec: &RunSpec, scheduler: Option<&str>) -> Result<Option<Validation>, Error> {
    let Some(recorded) = inputs.workload(spec)?.recorded_on else {
        return Ok(None);
    };
    let policy = scheduler.unwrap_or(&recorded.policy).to_owned();
    if policy != EEVDF && Policy::find(&policy).is_err() {
        let message = format!(
            "{}: recorded under '{policy}', and there is no policy with this name",
            recorded.path.display()
        );
        return Err(Error::new(message).hint("give its object to windtunnel replay --scheduler"));
    }
    let replay = RunSpec {
        policy: policy.clone(),
        set: Vec::new(),
        profile: Vec::new(),
        hotplug: Vec::new(),
        for_ns: None,
        scaled: None,
        sanitize: false,
        // A recording says how many ticks its machine has. An explicit machine has its own.
        hz: spec
            .hz
            .or((spec.machine.is_none() && recorded.hz > 0).then_some(recorded.hz)),
        ..spec.clone()
    };
    let mut scenario = inputs.resolve(&replay)?;
    // A recording of a real machine has the times of the kernel's tracepoints. A simulated one has
    // those of the simulator.
    let is_simulated = !recorded.name.is_empty() && !recorded.name.starts_with("live, ");
    scenario.machine.kernel.trace_before_switch = !is_simulated;
    let traced = Traced::open(&recorded.path, None)?;
    let mut recorded_times = RunTimes::new(traced.header.cpus.len());
    let original = traced.summarise(&mut recorded_times, &mut |_| {})?;
    let mut simulated_times = RunTimes::new(scenario.machine.topology.cpus.len());
    let mut sinks = Tee::new().with(&mut simulated_times);
    let mut observer = Observer {
        sink: &mut sinks,
        reads: Vec::new(),
        counters: false,
        details: false,
    };
    let simulated = scenario.run_observed(&mut observer, &mut |_| {})?.result;
    drop(sinks);
    Ok(Some(Validation {
        recording: recorded.path.display().to_string(),
        policy,
        machine: simulated.machine.clone(),
        rows: rows(&original, &simulated),
        tasks: tasks(&recorded_times.finish(), &simulated_times.finish()),
        notes: notes(&recorded, &scenario, spec.machine.is_some(), is_simulated),
        lacks: recorded.lacks,
    }))
}

/// Returns the time that all CPUs were busy, in ns.
fn busy_ns(result: &RunResult) -> f64 {
    Metric::find("busy").map_or(0.0, |metric| {
        let percent = (metric.figure.value)(result).unwrap_or(0.0);
        percent / 100.0 * result.simulated_ns as f64 * result.cpus as f64
    })
}

fn rows(recorded: &RunResult, simulated: &RunResult) -> Vec<Row> {
    let mut rows = vec![
        Row {
            name: "length",
            recorded: recorded.simulated_ns as f64,
            simulated: simulated.simulated_ns as f64,
            unit: Unit::Duration,
        },
        Row {
            name: "busy time",
            recorded: busy_ns(recorded),
            simulated: busy_ns(simulated),
            unit: Unit::Duration,
        },
    ];
    for name in ["switches", "p50_wakeup", "p99_wakeup"] {
        let Ok(metric) = Metric::find(name) else { continue };
        if let (Some(a), Some(b)) = ((metric.figure.value)(recorded), (metric.figure.value)(simulated)) {
            rows.push(Row {
                name,
                recorded: a,
                simulated: b,
                unit: metric.figure.unit,
            });
        }
    }
    rows
}

/// Returns the run times of all tasks that ran for at least [`SMALLEST_PERCENT`] of the recorded
/// time, with the largest errors first.
fn tasks(recorded: &BTreeMap<String, u64>, simulated: &BTreeMap<String, u64>) -> Vec<(String, u64, u64)> {
    let total: u64 = recorded.values().sum();
    let large = |ns: u64| ns as f64 * 100.0 >= total as f64 * SMALLEST_PERCENT && ns > 0;
    let found = recorded.iter().filter(|(_, ns)| large(**ns));
    let found = found.map(|(name, &ns)| (name.clone(), ns, simulated.get(name).copied().unwrap_or(0)));
    let mut found: Vec<(String, u64, u64)> = found.collect();
    found.sort_by(|a, b| task_error(b).abs().total_cmp(&task_error(a).abs()).then(a.0.cmp(&b.0)));
    found
}

fn task_error((_, recorded, simulated): &(String, u64, u64)) -> f64 {
    (*simulated as f64 / *recorded as f64 - 1.0) * 100.0
}

/// Returns remarks about the differences between the recorded machine and the simulated one.
fn notes(recorded: &RecordedMachine, scenario: &Scenario, is_named: bool, is_simulated: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let nr_cpus = scenario.machine.topology.cpus.len();
    if nr_cpus != recorded.nr_cpus as usize {
        notes.push(format!(
            "recorded on {} CPUs, but simulated on {nr_cpus}: the error contains the difference of the machines",
            recorded.nr_cpus
        ));
    }
    if !is_simulated && !is_named {
        notes.push(
            "the costs of the recorded machine are unknown, so defaults are used. `windtunnel machine calibrate` \
             measures them there; pass its file with --machine"
                .to_owned(),
        );
    }
    if !recorded.names_scheduler() {
        notes.push(format!(
            "the recording does not name its scheduler or its kernel, so {} replays it; kernels before 6.6 had a \
             different scheduler",
            recorded.policy
        ));
    }
    if recorded.hz > 0 && recorded.hz != scenario.machine.hz {
        notes.push(format!(
            "recorded with {} ticks per second, but simulated with {}",
            recorded.hz, scenario.machine.hz
        ));
    }
    notes
}

impl Validation {
    /// Returns the error of a figure in percent, without its sign. The error of the score, which is
    /// the length of the replay, is that of the length.
    pub fn error_percent(&self, name: &str) -> Option<f64> {
        let name = match name {
            "score" => "length",
            "busy" => "busy time",
            name => name,
        };
        let row = self.rows.iter().find(|row| row.name == name)?;
        row.error_percent().map(f64::abs)
    }

    /// Returns one sentence with the errors of all figures.
    pub fn sentence(&self) -> String {
        let errors = self.rows.iter().filter_map(|row| {
            let error = row.error_percent()?;
            Some(format!("{} {error:+.1} %", row.name))
        });
        format!(
            "This is a replay of {}. When the recorded scheduler ({}) is simulated on {}, its figures differ from the \
             recorded ones by: {}.",
            self.recording,
            self.policy,
            self.machine,
            errors.collect::<Vec<_>>().join(", ")
        )
    }

    /// Formats the comparison.
    pub fn text(&self, surface: impl Into<Surface>) -> String {
        let surface = surface.into();
        let mut grid = Grid::new();
        grid.left("validation", 0);
        grid.right("recorded", 0);
        grid.right("simulated", 0);
        grid.right("error", 0);
        let error = |percent: f64| format!("{percent:+.1} %");
        for row in &self.rows {
            grid.row([
                row.name.to_owned(),
                value(row.recorded, row.unit),
                value(row.simulated, row.unit),
                row.error_percent().map_or_else(|| "-".to_owned(), error),
            ]);
        }
        for task in self.tasks.iter().take(LISTED) {
            grid.row([
                format!("run time of {}", trace::escape::line(&task.0)),
                value(task.1 as f64, Unit::Duration),
                value(task.2 as f64, Unit::Duration),
                error(task_error(task)),
            ]);
        }
        let mut text = surface.line(
            &format!(
                "{}: the recorded scheduler ({}) simulated on {}, compared with the recording",
                self.recording, self.policy, self.machine
            ),
            " ",
        );
        text += &grid.render(surface);
        for lack in &self.lacks {
            let line = format!(
                "the recording lacks {}: {} (to record it: {})",
                lack.what, lack.effect, lack.how
            );
            text += &surface.line(&line, " ");
        }
        for note in &self.notes {
            text += &surface.line(note, " ");
        }
        text
    }

    pub fn json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "name": row.name,
                "recorded": row.recorded,
                "simulated": row.simulated,
                "error_percent": row.error_percent(),
            })
        };
        let task = |task: &(String, u64, u64)| {
            json!({
                "task": task.0,
                "recorded_ns": task.1,
                "simulated_ns": task.2,
                "error_percent": task_error(task),
            })
        };
        json!({
            "recording": self.recording,
            "policy": self.policy,
            "machine": self.machine,
            "figures": self.rows.iter().map(row).collect::<Vec<_>>(),
            "tasks": self.tasks.iter().map(task).collect::<Vec<_>>(),
            "lacks": self.lacks,
            "notes": self.notes,
        })
    }
}

fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Duration => metric::time(value),
        _ if value < 1e4 => format!("{value:.0}"),
        _ => metric::three_digits(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_times_are_compared_by_name_with_the_largest_errors_first() {
        let times = |times: &[(&str, u64)]| times.iter().map(|&(name, ns)| (name.to_owned(), ns)).collect();
        let recorded = times(&[("a", 1000), ("b", 500), ("tiny", 1)]);
        let simulated = times(&[("a", 1010), ("b", 400)]);
        let found = tasks(&recorded, &simulated);
        assert_eq!(found, [("b".to_owned(), 500, 400), ("a".to_owned(), 1000, 1010)]);
        assert_eq!(task_error(&found[0]).round(), -20.0);
    }

    #[test]
    fn errors_are_relative_to_the_recording() {
        let mut recorded = RunResult {
            simulated_ns: 1000,
            cpus: 2,
            context_switches: 100,
            ..RunResult::default()
        };
        recorded.wakeup_latency_ns.count = 1;
        recorded.wakeup_latency_ns.p50 = 10;
        let mut simulated = recorded.clone();
        simulated.context_switches = 88;
        simulated.simulated_ns = 1100;
        simulated.wakeup_latency_ns.p50 = 25;
        let validation = Validation {
            recording: "r.txt".into(),
            policy: EEVDF.into(),
            machine: "smp2".into(),
            rows: rows(&recorded, &simulated),
            tasks: Vec::new(),
            lacks: vec![Lack {
                what: "timers",
                effect: "sleeps are wrong",
                how: "perf record -e timer",
            }],
            notes: vec!["a note".into()],
        };
        let error = |name| validation.error_percent(name).map(f64::round);
        assert_eq!(error("switches"), Some(12.0));
        assert_eq!(error("score"), Some(10.0));
        assert_eq!(error("p50_wakeup"), Some(150.0));
        assert_eq!(error("busy"), None);
        let text = validation.text(false);
        assert!(
            text.contains("the recording lacks timers: sleeps are wrong") && text.contains("-12.0 %"),
            "{text}"
        );
        assert_eq!(validation.json()["figures"][2]["name"], "switches");
        assert_eq!(
            validation.sentence(),
            "This is a replay of r.txt. When the recorded scheduler (eevdf) is simulated on smp2, its figures differ from \
             the recorded ones by: length +10.0 %, switches -12.0 %, p50_wakeup +150.0 %."
        );
    }
}
