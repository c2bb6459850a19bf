// SPDX-License-Identifier: GPL-2.0-only
//! Collects from a run the data that measures need: the result of the run, and data from its
//! records.

use report::RunResult;
use std::collections::BTreeMap;
use trace::{Event, Follow, Record, Sink};

/// Queue lengths are recorded whenever a task is about to exit, but only while at most this many
/// tasks have not exited.
pub const MAX_LEFT: usize = 100;

/// A finished run, with all the data that measures need.
#[derive(Debug, Default)]
pub struct Observed {
    pub result: RunResult,
    pub trail: Trail,
    /// Values of the policy's global variables. The keys are the time at which the variable was
    /// read (`None` means the end of the run) and its name.
    pub globals: BTreeMap<(Option<u64>, String), f64>,
}

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    pub pid: u32,
    /// Simulated time at which the request was completed.
    pub end_ns: u64,
    /// Time from the request to its completion.
    pub ns: u64,
}

/// Data about one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedTask {
    /// Index of the task's name in [`Trail::names`].
    name: u32,
    pub born_ns: u64,
    pub cpu_ns: u64,
    /// Whether the task has completed a request or exited.
    finished: bool,
}

/// Data that is collected from the records of a run.
#[derive(Debug, Default)]
pub struct Trail {
    /// End of the run.
    pub end_ns: u64,
    pub responses: Vec<Response>,
    tasks: Vec<Option<ObservedTask>>,
    /// Names that the tasks had when they were created.
    names: Vec<String>,
    follow: Follow,
    /// Times at which queue lengths are recorded, in descending order.
    sample_times: Vec<u64>,
    /// Queue lengths of all CPUs, by the time at which they were recorded.
    lengths: BTreeMap<u64, Vec<u32>>,
    /// Queue lengths of all CPUs just before a task exits. The key is the number of tasks that have
    /// not exited at that time.
    left: BTreeMap<usize, Vec<u32>>,
    alive: usize,
    /// Number of switches away from a task.
    pub switches_from_task: u64,
    /// Number of switches to the idle task.
    pub switches_to_idle: u64,
    /// For each task name, three values: the number of unfinished tasks, the integral of this
    /// number over time (in ns), and the time up to which the integral is computed. An unfinished
    /// task has neither completed a request nor exited.
    census: Vec<(u64, u128, u64)>,
    /// For each task name, the number of tasks that were created with it.
    created: Vec<u64>,
}

impl Trail {
    /// Creates a collector for a machine with `nr_cpus` CPUs. Queue lengths will be recorded at the
    /// times `sample_times`, in ns.
    pub fn new(nr_cpus: u32, mut sample_times: Vec<u64>) -> Trail {
        sample_times.sort_unstable();
        sample_times.dedup();
        // The earliest time is the last element, so that it can be popped.
        sample_times.reverse();
        Trail {
            follow: Follow::new(nr_cpus as usize),
            sample_times,
            ..Trail::default()
        }
    }

    /// Ends the collection at `end_ns`. The CPU time of running tasks is counted up to this time.
    pub fn finish(&mut self, end_ns: u64) {
        self.record_lengths(end_ns + 1);
        self.end_ns = end_ns;
        for (pid, since) in self.follow.running().collect::<Vec<_>>() {
            if let Some(task) = self.task(pid) {
                task.cpu_ns += end_ns.saturating_sub(since);
            }
        }
        for entry in &mut self.census {
            settle(entry, end_ns);
        }
    }

    /// Adds the data of a run on a real machine, whose records do not contain every switch.
    /// `lengths` contains queue lengths by time, and `cpu_ns` the CPU times by pid.
    pub fn add_counters(&mut self, lengths: BTreeMap<u64, Vec<u32>>, cpu_ns: &BTreeMap<u32, u64>) {
        self.lengths = lengths;
        for (&pid, &ns) in cpu_ns {
            if let Some(task) = self.task(pid) {
                task.cpu_ns = ns;
            }
        }
    }

    /// Returns the tasks whose name began with `prefix` when they were created, with their pids.
    pub fn named<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (u32, &'a ObservedTask)> {
        let tasks = (0..).zip(&self.tasks);
        tasks
            .filter_map(|(pid, task)| Some((pid, task.as_ref()?)))
            .filter(move |(_, task)| self.names[task.name as usize].starts_with(prefix))
    }

    /// Returns the response times in ms of the tasks whose name begins with `prefix`. Responses
    /// that ended before `after_ns` are left out.
    pub fn responses_ms(&self, prefix: &str, after_ns: u64) -> Vec<f64> {
        let wanted: Vec<bool> = self.names.iter().map(|name| name.starts_with(prefix)).collect();
        let responses = self.responses.iter().filter(|response| response.end_ns >= after_ns);
        let responses = responses.filter(|response| {
            let task = self.tasks.get(response.pid as usize).and_then(Option::as_ref);
            task.is_some_and(|task| wanted[task.name as usize])
        });
        responses.map(|response| response.ns as f64 / 1e6).collect()
    }

    /// Returns the queue lengths of all CPUs at one of the times in `sample_times`.
    pub fn lengths(&self, at_ns: u64) -> Option<&[u32]> {
        self.lengths.get(&at_ns).map(Vec::as_slice)
    }

    /// Returns the queue lengths of all CPUs when `tasks` tasks had not exited, just before one of
    /// them exited. `tasks` is at most [`MAX_LEFT`].
    pub fn lengths_left(&self, tasks: usize) -> Option<&[u32]> {
        self.left.get(&tasks).map(Vec::as_slice)
    }

    /// Returns two values for the tasks whose name begins with `prefix`: the number of created
    /// tasks, and the integral of the number of unfinished tasks over time, in seconds.
    pub fn census(&self, prefix: &str) -> (u64, f64) {
        let entries = self.names.iter().zip(self.created.iter().zip(&self.census));
        let entries = entries.filter(|(name, _)| name.starts_with(prefix));
        entries.fold((0, 0.0), |(n, sum), (_, (created, (_, integral, _)))| {
            (n + created, sum + *integral as f64 / 1e9)
        })
    }

    fn task(&mut self, pid: u32) -> Option<&mut ObservedTask> {
        self.tasks.get_mut(pid as usize)?.as_mut()
    }

    fn record_lengths(&mut self, now: u64) {
        while let Some(at) = self.sample_times.pop_if(|at| *at < now) {
            self.lengths.insert(at, self.follow.queues().to_vec());
        }
    }

    fn create(&mut self, pid: u32, comm: &str, now: u64) {
        let known = self.names.iter().position(|name| name == comm);
        let name = known.unwrap_or_else(|| {
            self.names.push(comm.to_owned());
            self.census.push((0, 0, 0));
            self.created.push(0);
            self.names.len() - 1
        });
        let pid = pid as usize;
        if pid >= self.tasks.len() {
            self.tasks.resize(pid + 1, None);
        }
        self.tasks[pid] = Some(ObservedTask {
            name: input::index(name),
            born_ns: now,
            ..ObservedTask::default()
        });
        self.created[name] += 1;
        self.alive += 1;
        settle(&mut self.census[name], now);
        self.census[name].0 += 1;
    }

    /// Marks a task as finished, if it is not finished yet.
    fn leave(&mut self, pid: u32, now: u64) {
        let Some(task) = self.task(pid).filter(|task| !task.finished) else {
            return;
        };
        task.finished = true;
        let name = task.name as usize;
        settle(&mut self.census[name], now);
        self.census[name].0 -= 1;
    }
}

/// Updates an entry of [`Trail::census`]: adds the time since the last update to the integral.
fn settle((tasks, integral, since): &mut (u64, u128, u64), now: u64) {
    *integral += u128::from(*tasks) * u128::from(now - *since);
    *since = now;
}

impl Sink for Trail {
    fn take(&mut self, records: &[Record]) {
        for record in records {
            if self.sample_times.last().is_some_and(|at| *at < record.time) {
                self.record_lengths(record.time);
            }
            match record.event {
                Event::TaskNew { pid, ref comm, .. } => self.create(pid, comm, record.time),
                Event::TaskExit { pid } => {
                    if self.alive <= MAX_LEFT {
                        self.left.insert(self.alive, self.follow.queues().to_vec());
                    }
                    self.alive -= 1;
                    self.leave(pid, record.time);
                }
                Event::Switch { prev, next, .. } if prev != next => self.switches_to_idle += u64::from(next == 0),
                Event::Done { pid, response_ns, .. } if response_ns > 0 => {
                    self.leave(pid, record.time);
                    self.responses.push(Response {
                        pid,
                        end_ns: record.time,
                        ns: response_ns,
                    });
                }
                _ => {}
            }
            if let Some((pid, since)) = self.follow.add(record).turn {
                let ns = record.local_time().saturating_sub(since.unwrap_or(0));
                if let Some(task) = self.task(pid) {
                    task.cpu_ns += ns;
                    self.switches_from_task += 1;
                }
            }
        }
    }
}
