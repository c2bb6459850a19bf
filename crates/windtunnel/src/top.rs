// SPDX-License-Identifier: GPL-2.0-only
//! The state and the event rates of a running simulation, which `windtunnel top` shows.

use input::error::Error;
use kernel::Machine;
use kernel::decision::{Queue, Snapshot};
use runner::running::Running;
use serde_json::json;
use std::collections::BTreeMap;
use trace::{Event, Record, Sink, escape};

/// State at an update of the display. Rates are per second of simulated time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Simulated time, in ns.
    pub at: u64,
    /// Time at which the run ends at the latest, in ns.
    pub until: u64,
    pub ended: bool,
    /// Simulated time since the previous update, in ns.
    pub elapsed: u64,
    pub cpus: Vec<Cpu>,
    /// Names and lengths of the queues that are not empty, longest first.
    pub queues: Vec<(String, usize)>,
    /// The tasks, busiest first.
    pub tasks: Vec<Task>,
    pub nr_tasks: usize,
    /// Number of tasks that wait for a CPU.
    pub waiting: usize,
    pub busy_percent: f64,
    pub overhead_percent: f64,
    pub switches: f64,
    pub wakeups: f64,
    pub migrations: f64,
    pub operations: f64,
    /// Names of the numbers that the policy has changed, their values, and their growth per second
    /// of simulated time.
    pub counters: Vec<(String, i128, f64)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cpu {
    pub online: bool,
    pub busy_percent: f64,
    /// Overhead of the kernel and the policy, which is a part of the busy time.
    pub overhead_percent: f64,
    /// Name of the running task. `None` if the CPU idles.
    pub runs: Option<String>,
    /// Number of tasks that wait on this CPU.
    pub waiting: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Task {
    pub name: String,
    pub cpu: u32,
    pub cpu_percent: f64,
    /// How long the task has been waiting for a CPU, in ns. `None` if it runs or sleeps.
    pub waits: Option<u64>,
}

/// Numbers of events since the previous update of the display.
#[derive(Default)]
struct EventCounts {
    wakeups: u64,
    migrations: u64,
    operations: u64,
}

impl Sink for EventCounts {
    fn take(&mut self, records: &[Record]) {
        for record in records {
            match record.event {
                Event::Wakeup { .. } => self.wakeups += 1,
                Event::Migrate { .. } => self.migrations += 1,
                Event::Done { count, .. } => self.operations += u64::from(count),
                _ => {}
            }
        }
    }
}

/// Values of the cumulative counters at an update of the display.
#[derive(Default)]
struct Counters {
    at: u64,
    busy: Vec<u64>,
    overhead: Vec<u64>,
    switches: u64,
    tasks: BTreeMap<u32, u64>,
    numbers: BTreeMap<String, i128>,
}

/// Advances a run, and computes the rates since the previous update.
#[derive(Default)]
pub struct Top {
    counts: EventCounts,
    before: Counters,
}

impl Top {
    /// Runs up to the time `to` (ns) and returns the state at that time.
    ///
    /// # Errors
    /// The errors of [`Running::advance`].
    pub fn advance(&mut self, running: &mut Running, to: u64) -> Result<View, Error> {
        self.counts = EventCounts::default();
        if self.before.at == 0 && running.counters.is_none() {
            running.count();
        }
        running.advance(to, &mut self.counts)?;
        let numbers = match &mut running.counters {
            Some(counters) => counters.current(&running.machine),
            None => Vec::new(),
        };
        let m = &running.machine;
        // If the run has ended by itself, it ended with its last event. `clock` then returns
        // `u64::MAX` instead of the time of this event.
        let now = if running.clock() == u64::MAX {
            m.now
        } else {
            running.at()
        };
        let after = Counters {
            numbers: numbers.iter().cloned().collect(),
            ..Counters::read(m, now)
        };
        let mut view = self.compared(m, &after);
        let grown = |(name, value): (String, i128)| {
            let before = self.before.numbers.get(&name).copied().unwrap_or(0);
            let rate = (value - before) as f64 * 1e9 / view.elapsed.max(1) as f64;
            (name, value, rate)
        };
        view.counters = numbers.into_iter().map(grown).collect();
        (view.until, view.ended) = (running.until(), running.ended());
        self.before = after;
        Ok(view)
    }

    fn compared(&self, m: &Machine, after: &Counters) -> View {
        let before = &self.before;
        let elapsed = after.at.saturating_sub(before.at);
        let share = |now: u64, then: u64| 100.0 * now.saturating_sub(then) as f64 / elapsed.max(1) as f64;
        let counter = |counts: &[u64], index: usize| counts.get(index).copied().unwrap_or(0);
        let rate = |count: u64| count as f64 * 1e9 / elapsed.max(1) as f64;
        let seen = m.snapshot(None);
        let mut cpus = Vec::new();
        for (index, state) in seen.cpus.iter().enumerate() {
            cpus.push(Cpu {
                online: state.online,
                busy_percent: share(after.busy[index], counter(&before.busy, index)).min(100.0),
                overhead_percent: share(after.overhead[index], counter(&before.overhead, index)).min(100.0),
                runs: (state.curr != 0).then(|| name(&seen, state.curr)),
                waiting: state.nr_running - u32::from(state.curr != 0).min(state.nr_running),
            });
        }
        let mean = |percent: fn(&Cpu) -> f64| {
            let online = cpus.iter().filter(|cpu| cpu.online);
            online.clone().map(percent).sum::<f64>() / online.count().max(1) as f64
        };
        let (busy_percent, overhead_percent) = (mean(|cpu| cpu.busy_percent), mean(|cpu| cpu.overhead_percent));
        let mut tasks: Vec<Task> = Vec::new();
        for (pid, &used) in &after.tasks {
            let Some(task) = m.task(*pid) else {
                continue;
            };
            tasks.push(Task {
                name: format!("{}:{pid}", task.comm()),
                cpu: task.cpu().nr(),
                cpu_percent: share(used, before.tasks.get(pid).copied().unwrap_or(0)).min(100.0),
                waits: (task.on_rq() && !task.on_cpu()).then(|| after.at.saturating_sub(task.waiting_since)),
            });
        }
        tasks.sort_by(|a, b| {
            b.cpu_percent
                .total_cmp(&a.cpu_percent)
                .then_with(|| b.waits.cmp(&a.waits))
        });
        let length = |queue: &Queue| (queue.name.clone(), queue.tasks.len());
        let mut queues: Vec<(String, usize)> = seen.queues.iter().map(length).collect();
        queues.sort_by_key(|(_, length)| std::cmp::Reverse(*length));
        View {
            at: after.at,
            elapsed,
            waiting: queues.iter().map(|(_, length)| length).sum(),
            queues,
            nr_tasks: tasks.len(),
            tasks,
            busy_percent,
            overhead_percent,
            switches: rate(after.switches.saturating_sub(before.switches)),
            wakeups: rate(self.counts.wakeups),
            migrations: rate(self.counts.migrations),
            operations: rate(self.counts.operations),
            cpus,
            ..View::default()
        }
    }
}

impl Counters {
    fn read(m: &Machine, now: u64) -> Counters {
        // A running task has also used the time since its runqueue's clock was updated last.
        let since = |cpu: usize| {
            let rq = &m.rqs()[cpu];
            if rq.idle() { 0 } else { now.saturating_sub(rq.clock) }
        };
        let cpus = 0..m.nr_cpus() as usize;
        let busy = cpus
            .clone()
            .map(|cpu| m.rqs()[cpu].time.tasks_ns + m.rqs()[cpu].time.overhead_ns + since(cpu));
        let alive = m.tasks().iter().filter(|task| m.task(task.pid()).is_some());
        let used = alive.map(|task| {
            let running = if task.on_cpu() { since(task.cpu().index()) } else { 0 };
            (task.pid(), task.sum_exec_runtime() + running)
        });
        Counters {
            at: now,
            busy: busy.collect(),
            overhead: cpus.map(|cpu| m.rqs()[cpu].time.overhead_ns).collect(),
            switches: m.rqs().iter().map(|rq| rq.nr_switches).sum(),
            tasks: used.collect(),
            numbers: BTreeMap::new(),
        }
    }
}

fn name(seen: &Snapshot, pid: u32) -> String {
    let comm = seen.tasks.get(&pid).map_or("task", |task| task.comm.as_str());
    format!("{comm}:{pid}")
}

/// Heading above the rows that [`View::line`] returns.
pub const HEADING: &str =
    "     time ms    tasks  waiting   busy %  overhead %  switches/s  wake-ups/s  migrations/s  busiest, counters";

/// Number of counters in a row of text.
const COUNTERS: usize = 3;

impl View {
    /// Returns the numbers that the policy changes, fastest first.
    pub fn fastest_counters(&self) -> Vec<&(String, i128, f64)> {
        let mut counters: Vec<&(String, i128, f64)> = self.counters.iter().collect();
        counters.sort_by(|(_, _, a), (_, _, b)| b.abs().total_cmp(&a.abs()));
        counters
    }

    /// Returns the state as one line of JSON: the figures of [`View::line`], and all CPUs, queues,
    /// tasks and counters.
    pub fn json(&self) -> serde_json::Value {
        let cpus = self.cpus.iter().enumerate().map(|(cpu, state)| {
            json!({
                "cpu": cpu, "online": state.online, "busy_percent": state.busy_percent,
                "overhead_percent": state.overhead_percent, "runs": state.runs, "waiting": state.waiting,
            })
        });
        let tasks = self.tasks.iter().map(|task| {
            json!({
                "name": task.name, "cpu": task.cpu, "cpu_percent": task.cpu_percent, "waited_ns": task.waits,
            })
        });
        let queues = self
            .queues
            .iter()
            .map(|(name, length)| json!({"name": name, "tasks": length}));
        // JSON's integers end at 64 bits; the few larger counters become floating-point numbers.
        let counters = self.counters.iter().map(|(name, value, rate)| {
            let value = i64::try_from(*value).map_or(json!(*value as f64), |value| json!(value));
            json!({"name": name, "value": value, "per_second": rate})
        });
        json!({
            "at_ns": self.at, "nr_tasks": self.nr_tasks, "waiting": self.waiting,
            "busy_percent": self.busy_percent, "overhead_percent": self.overhead_percent,
            "switches_per_second": self.switches, "wakeups_per_second": self.wakeups,
            "migrations_per_second": self.migrations, "operations_per_second": self.operations,
            "cpus": cpus.collect::<Vec<_>>(), "queues": queues.collect::<Vec<_>>(),
            "tasks": tasks.collect::<Vec<_>>(), "counters": counters.collect::<Vec<_>>(),
        })
    }

    /// Returns the state as one row of text, for output that is not a terminal.
    pub fn line(&self) -> String {
        let busiest = self
            .tasks
            .first()
            .map(|task| format!("{} {:.0} %", escape::line(&task.name), task.cpu_percent));
        format!(
            "{:>12.3} {:>8} {:>8} {:>8.2} {:>11.2} {:>11.0} {:>11.0} {:>13.0}  {}",
            self.at as f64 / 1e6,
            self.nr_tasks,
            self.waiting,
            self.busy_percent,
            self.overhead_percent,
            self.switches,
            self.wakeups,
            self.migrations,
            busiest.unwrap_or_default()
        ) + &self.counters_text()
    }

    /// Returns the growth of the fastest counters, for the end of a row.
    fn counters_text(&self) -> String {
        let fastest = self.fastest_counters().into_iter().take(COUNTERS);
        let grown = fastest.filter(|(_, _, rate)| rate.abs() >= 0.5);
        grown
            .map(|(name, _, rate)| format!(", {} {rate:+.0}/s", escape::line(name)))
            .collect()
    }
}
