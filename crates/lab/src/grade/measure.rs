// SPDX-License-Identifier: GPL-2.0-only
//! Measures: the figures of a run to which the conditions of a lab refer.
//!
//! | measure | meaning | unit |
//! |---|---|---|
//! | `turn.min(T)`, `.mean`, `.max` | time that a task T stays on a CPU at a stretch | time |
//! | `wait.min(T)`, `.mean`, `.max` | time that a runnable task T waits for a CPU | time |
//! | `wakeup.min(T)`, `.mean`, `.max` | the same, only for waits that begin with a wake-up | time |
//! | `response.min(T)`, `.mean`, `.max` | time from the arrival of a task T until it first runs | time |
//! | `turnaround.min(T)`, `.mean`, `.max` | time from the arrival of a task T until it exits | time |
//! | `cpu.min(T)`, `.mean`, `.max` | CPU time of a task T | time |
//! | `turns(T)` | number of turns of all tasks T | count |
//! | `migrations(T)` | how often tasks T ran on a different CPU than before | count |
//! | `llc_migrations(T)` | how often tasks T ran in a different last-level cache than before | count |
//! | `idle.max` | longest time that a CPU idled while a task that may run there waited | time |
//! | `switches` | number of context switches | count |
//! | `busy`, `overhead` | CPU time of the tasks, and of the kernel and the policy | percent |
//!
//! T is the name of a task, or of a group of tasks T-0, T-1, T-8-0 and so on.

use super::condition::nanoseconds;
use input::Error;
use input::suggest;
use kernel::violation::Tally;
use report::RunResult;
use std::collections::BTreeMap;
use trace::{CpuPosition, Event, Follow, Record, Sink};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    Percent,
    Count,
}

/// A measure of a run, or of the tasks with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// The name without the task, for example `turn.max`.
    name: &'static str,
    unit: Unit,
    task: Option<String>,
}

/// Names and units of the measures of tasks.
const OF_TASKS: [(&str, Unit); 21] = [
    ("turn.min", Unit::Time),
    ("turn.mean", Unit::Time),
    ("turn.max", Unit::Time),
    ("wait.min", Unit::Time),
    ("wait.mean", Unit::Time),
    ("wait.max", Unit::Time),
    ("wakeup.min", Unit::Time),
    ("wakeup.mean", Unit::Time),
    ("wakeup.max", Unit::Time),
    ("response.min", Unit::Time),
    ("response.mean", Unit::Time),
    ("response.max", Unit::Time),
    ("turnaround.min", Unit::Time),
    ("turnaround.mean", Unit::Time),
    ("turnaround.max", Unit::Time),
    ("cpu.min", Unit::Time),
    ("cpu.mean", Unit::Time),
    ("cpu.max", Unit::Time),
    ("turns", Unit::Count),
    ("migrations", Unit::Count),
    ("llc_migrations", Unit::Count),
];
/// Names and units of the measures of whole runs.
const OF_RUNS: [(&str, Unit); 4] = [
    ("idle.max", Unit::Time),
    ("switches", Unit::Count),
    ("busy", Unit::Percent),
    ("overhead", Unit::Percent),
];

impl Measure {
    /// Parses a measure such as `turn.max(hog)` or `switches`.
    ///
    /// # Errors
    /// There is no such measure, or a task is missing or superfluous.
    pub fn parse(text: &str) -> Result<Measure, Error> {
        let (name, task) = match text.split_once('(') {
            Some((name, rest)) => {
                let task = rest
                    .strip_suffix(')')
                    .ok_or_else(|| format!("'{text}' has no closing parenthesis"))?;
                (name.trim(), Some(task.trim().to_owned()))
            }
            None => (text, None),
        };
        let find = |list: &'static [(&'static str, Unit)]| list.iter().find(|(known, _)| *known == name);
        match (find(&OF_TASKS), find(&OF_RUNS), &task) {
            (Some(&(name, unit)), _, Some(_)) | (_, Some(&(name, unit)), None) => Ok(Measure { name, unit, task }),
            (Some(_), ..) => Err(Error::new(format!(
                "{name} needs the name of a task, for example {name}(hog)"
            ))),
            (_, Some(_), _) => Err(Error::new(format!(
                "{name} is a measure of the whole run, not of a task"
            ))),
            (None, None, _) => {
                let names = OF_TASKS.iter().chain(&OF_RUNS).map(|(name, _)| *name);
                let near = suggest::nearest(name, names).map(|near| format!(": did you mean {near}?"));
                Err(Error::new(format!(
                    "there is no measure '{name}'{}",
                    near.unwrap_or_default()
                )))
            }
        }
    }

    pub fn unit(&self) -> Unit {
        self.unit
    }

    pub fn text(&self) -> String {
        match &self.task {
            Some(task) => format!("{}({task})", self.name),
            None => self.name.to_owned(),
        }
    }
}

/// Formats a value with its unit.
pub fn format(value: f64, unit: Unit) -> String {
    match unit {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Unit::Time => {
            let us = (value / 1000.0).round().max(0.0) as u64;
            format!("{}.{:03} ms", us / 1000, us % 1000)
        }
        Unit::Percent => format!("{value:.1} %"),
        Unit::Count => format!("{value:.0}"),
    }
}

/// Number, sum and extremes of lengths in ns.
#[derive(Clone, Copy, Debug, Default)]
struct Lengths {
    count: u64,
    sum: u64,
    min: Option<u64>,
    max: u64,
}

impl Lengths {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.sum += ns;
        self.min = Some(self.min.unwrap_or(ns).min(ns));
        self.max = self.max.max(ns);
    }

    fn join(mut self, other: &Lengths) -> Lengths {
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.into_iter().chain(other.min).min();
        self.max = self.max.max(other.max);
        self
    }

    fn mean(&self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }
}

/// What a task did in a run. Times are in ns.
#[derive(Clone, Debug, Default)]
pub struct TaskFigures {
    pub comm: String,
    /// Time of the first wake-up.
    pub arrived: Option<u64>,
    pub first_run: Option<u64>,
    pub exited: Option<u64>,
    pub cpu_ns: u64,
    pub waited_ns: u64,
    cpu: Option<u32>,
    turns: Lengths,
    waits: Lengths,
    wakeups: Lengths,
    migrations: u64,
    llc_migrations: u64,
}

impl TaskFigures {
    pub fn turns(&self) -> u64 {
        self.turns.count
    }

    pub fn response_ns(&self) -> Option<u64> {
        Some(self.first_run?.saturating_sub(self.arrived?))
    }

    pub fn turnaround_ns(&self) -> Option<u64> {
        Some(self.exited?.saturating_sub(self.arrived?))
    }
}

/// Collects the figures of all tasks from the records of a run.
pub struct Watch {
    follow: Follow,
    places: Vec<CpuPosition>,
    tasks: BTreeMap<u32, TaskFigures>,
}

impl Watch {
    pub fn new(places: Vec<CpuPosition>) -> Watch {
        Watch {
            follow: Follow::new(places.len()),
            places,
            tasks: BTreeMap::new(),
        }
    }

    fn task(&mut self, pid: u32) -> &mut TaskFigures {
        self.tasks.entry(pid).or_default()
    }

    fn runs_on(&mut self, pid: u32, cpu: u32, now: u64) {
        let llc = |cpu: u32| self.places.get(cpu as usize).map(|place| place.llc);
        let here = llc(cpu);
        let before = self.tasks.get(&pid).and_then(|task| task.cpu);
        let crossed = before.is_some_and(|before| llc(before) != here);
        let task = self.task(pid);
        task.first_run.get_or_insert(now);
        task.migrations += u64::from(before.is_some_and(|before| before != cpu));
        task.llc_migrations += u64::from(crossed);
        task.cpu = Some(cpu);
    }

    /// Ends the run at time `end` (ns). A task that runs or waits then is counted up to this time.
    pub fn finish(mut self, end: u64, result: RunResult, idle: Tally) -> Observed {
        let running: Vec<(u32, u64)> = self.follow.running().collect();
        for (pid, since) in running {
            let length = end.saturating_sub(since);
            let task = self.task(pid);
            task.cpu_ns += length;
            task.turns.max = task.turns.max.max(length);
        }
        let pids: Vec<u32> = self.tasks.keys().copied().collect();
        for pid in pids {
            let wait = self.follow.task(pid).activity.wait(end);
            let (Some(wait), task) = (wait, self.task(pid)) else {
                continue;
            };
            task.waited_ns += wait.ns;
            // A wait that has not ended counts, or a task that never runs would wait for no time.
            task.waits.add(wait.ns);
            if wait.woken {
                task.wakeups.add(wait.ns);
            }
        }
        let longest_idle = idle.worst.map_or(0, |worst| worst.until - worst.from);
        Observed {
            tasks: self.tasks.into_values().collect(),
            result,
            longest_idle,
        }
    }
}

impl Sink for Watch {
    fn take(&mut self, records: &[Record]) {
        for record in records {
            let now = record.local_time();
            match &record.event {
                Event::TaskNew { pid, comm, .. } | Event::TaskRename { pid, comm } => {
                    self.task(*pid).comm.clone_from(comm);
                }
                Event::Waking { pid, .. } | Event::Wakeup { pid, .. } => {
                    self.task(*pid).arrived.get_or_insert(now);
                }
                Event::TaskExit { pid } => self.task(*pid).exited = Some(now),
                _ => {}
            }
            let ended = self.follow.add(record);
            if let Some((pid, since)) = ended.turn {
                let length = now.saturating_sub(since.unwrap_or(0));
                let task = self.task(pid);
                task.cpu_ns += length;
                task.turns.add(length);
            }
            if let Event::Switch { prev, next, .. } = record.event
                && next != 0
                && prev != next
            {
                self.runs_on(next, record.cpu, now);
                if let Some(wait) = ended.wait {
                    let task = self.task(next);
                    task.waited_ns += wait.ns;
                    task.waits.add(wait.ns);
                    if wait.woken {
                        task.wakeups.add(wait.ns);
                    }
                }
            }
        }
    }
}

/// The figures of a run.
#[derive(Clone, Debug)]
pub struct Observed {
    /// All tasks in the order of their pids.
    pub tasks: Vec<TaskFigures>,
    pub result: RunResult,
    /// Longest time that a CPU idled while a task waited that may run there, ns.
    longest_idle: u64,
}

impl Observed {
    /// Returns the value of a measure.
    ///
    /// # Errors
    /// The run has no such value. The message says why.
    pub fn value(&self, measure: &Measure) -> Result<f64, String> {
        let r = &self.result;
        let Some(name) = &measure.task else {
            return match measure.name {
                "idle.max" => Ok(nanoseconds(self.longest_idle)),
                "switches" => Ok(nanoseconds(r.context_switches)),
                "busy" => Ok(r.busy_percent),
                _ => Ok(r.overhead_percent),
            };
        };
        let tasks: Vec<&TaskFigures> = self.tasks.iter().filter(|task| is_called(&task.comm, name)).collect();
        if tasks.is_empty() {
            return Err(format!("the workload has no task called '{name}'"));
        }
        let sum = |count: &dyn Fn(&TaskFigures) -> u64| Ok(nanoseconds(tasks.iter().map(|task| count(task)).sum()));
        let (base, part) = measure.name.split_once('.').unwrap_or((measure.name, ""));
        let join = |lengths: &dyn Fn(&TaskFigures) -> Lengths| {
            tasks
                .iter()
                .fold(Lengths::default(), |sum, task| sum.join(&lengths(task)))
        };
        let each = |length: &dyn Fn(&TaskFigures) -> Option<u64>, missing: &str| {
            let mut lengths = Lengths::default();
            for task in &tasks {
                lengths.add(length(task).ok_or_else(|| format!("{} {missing}", task.comm))?);
            }
            Ok::<_, String>(lengths)
        };
        let lengths = match base {
            "turns" => return sum(&|task| task.turns.count),
            "migrations" => return sum(&|task| task.migrations),
            "llc_migrations" => return sum(&|task| task.llc_migrations),
            "turn" => join(&|task| task.turns),
            "wait" => join(&|task| task.waits),
            "wakeup" => join(&|task| task.wakeups),
            "response" => each(&TaskFigures::response_ns, "never ran")?,
            "turnaround" => each(&TaskFigures::turnaround_ns, "did not finish")?,
            _ => each(&|task| Some(task.cpu_ns), "")?,
        };
        let value = match part {
            "min" => lengths.min,
            "mean" => lengths.mean(),
            // A turn that the end of the run cuts off is a lower bound of its length.
            _ => Some(lengths.max).filter(|&max| max > 0 || lengths.count > 0),
        };
        value
            .map(nanoseconds)
            .ok_or_else(|| format!("no task called '{name}' has ended a {base}"))
    }
}

/// Returns whether a task is called `name`, or `name` with numbers as in `name-3` and `name-8-3`.
fn is_called(comm: &str, name: &str) -> bool {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    match comm.strip_prefix(name) {
        Some("") => true,
        Some(rest) => rest
            .strip_prefix('-')
            .is_some_and(|numbers| numbers.split('-').all(is_number)),
        None => false,
    }
}
