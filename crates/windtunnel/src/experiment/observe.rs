// SPDX-License-Identifier: GPL-2.0-only
//! What measures look at: a run's result, and what the records tell beyond it.

use report::RunResult;
use std::collections::BTreeMap;
use trace::{Event, Record, Sink, TaskState};

/// Queues are kept for so many tasks that are left, and fewer.
pub const MOST_LEFT: usize = 100;

/// A finished run.
#[derive(Debug, Default)]
pub struct Observed {
    pub result: RunResult,
    pub trail: Trail,
    /// Globals of the policy by time of the look (`None`: at the end) and name.
    pub globals: BTreeMap<(Option<u64>, String), f64>,
}

/// A request that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    pub pid: u32,
    pub end_ns: u64,
    pub ns: u64,
}

/// A task, by its pid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Index into [`Trail::names`].
    name: u32,
    pub born_ns: u64,
    pub cpu_ns: u64,
    /// The CPU whose queue it is on or was last.
    cpu: u32,
    runnable: bool,
    /// It has answered a request or exited.
    left: bool,
}

/// What is kept of a run's records.
#[derive(Debug, Default)]
pub struct Trail {
    pub end_ns: u64,
    pub responses: Vec<Response>,
    tasks: Vec<Option<Seen>>,
    /// Names that tasks were created with.
    names: Vec<String>,
    /// Who has each CPU, and since when.
    on: Vec<(u32, u64)>,
    /// Tasks that run or wait on each CPU.
    queued: Vec<u32>,
    /// When to look at the queues, in ascending order, and what was seen.
    looks: Vec<u64>,
    lengths: BTreeMap<u64, Vec<u32>>,
    /// Queues when so many tasks were left, just before the next one exited.
    left: BTreeMap<usize, Vec<u32>>,
    alive: usize,
    /// Switches from a task, and switches to idle.
    pub switches_from_task: u64,
    pub switches_to_idle: u64,
    /// Tasks that have neither answered a request nor exited, per name, the time integral of their number, when it was last brought up to date.
    census: Vec<(u64, u128, u64)>,
    created: Vec<u64>,
}

impl Trail {
    /// Of a machine with so many CPUs, looking at its queues at these times.
    pub fn new(nr_cpus: u32, mut looks: Vec<u64>) -> Trail {
        looks.sort_unstable();
        looks.dedup();
        // The next one is taken from the end.
        looks.reverse();
        Trail {
            on: vec![(0, 0); nr_cpus as usize],
            queued: vec![0; nr_cpus as usize],
            looks,
            ..Trail::default()
        }
    }

    /// The run is over: what still runs has run until now.
    pub fn finish(&mut self, end_ns: u64) {
        self.look(end_ns + 1);
        self.end_ns = end_ns;
        for (pid, since) in std::mem::take(&mut self.on) {
            if let Some(task) = self.task(pid) {
                task.cpu_ns += end_ns - since;
            }
        }
        for of in &mut self.census {
            settle(of, end_ns);
        }
    }

    /// Adds what a machine without a trace of every switch knows: lengths of its queues by time, CPU times by pid.
    pub fn counted(&mut self, lengths: BTreeMap<u64, Vec<u32>>, cpu_ns: &BTreeMap<u32, u64>) {
        self.lengths = lengths;
        for (&pid, &ns) in cpu_ns {
            if let Some(task) = self.task(pid) {
                task.cpu_ns = ns;
            }
        }
    }

    /// Tasks whose name at creation begins with `prefix`.
    pub fn named<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (u32, &'a Seen)> {
        let tasks = self.tasks.iter().enumerate();
        tasks
            .filter_map(|(pid, task)| Some((pid as u32, task.as_ref()?)))
            .filter(move |(_, task)| self.names[task.name as usize].starts_with(prefix))
    }

    /// Response times of tasks whose name begins with `prefix`, in ms, that ended at `after_ns` or later.
    pub fn responses_ms(&self, prefix: &str, after_ns: u64) -> Vec<f64> {
        let wanted: Vec<bool> = self.names.iter().map(|name| name.starts_with(prefix)).collect();
        let of = self.responses.iter().filter(|response| response.end_ns >= after_ns);
        let of = of.filter(|response| {
            let task = self.tasks.get(response.pid as usize).and_then(Option::as_ref);
            task.is_some_and(|task| wanted[task.name as usize])
        });
        of.map(|response| response.ns as f64 / 1e6).collect()
    }

    /// Tasks that ran or waited on each CPU at a time that was asked for.
    pub fn lengths(&self, at_ns: u64) -> Option<&[u32]> {
        self.lengths.get(&at_ns).map(Vec::as_slice)
    }

    /// Tasks that ran or waited on each CPU when so many were left, no more than [`MOST_LEFT`].
    pub fn lengths_left(&self, tasks: usize) -> Option<&[u32]> {
        self.left.get(&tasks).map(Vec::as_slice)
    }

    /// Of tasks with this prefix: how many were created, and the time integral of their number, in task seconds.
    pub fn census(&self, prefix: &str) -> (u64, f64) {
        let of = self.names.iter().zip(self.created.iter().zip(&self.census));
        let of = of.filter(|(name, _)| name.starts_with(prefix));
        of.fold((0, 0.0), |(n, sum), (_, (created, (_, integral, _)))| {
            (n + created, sum + *integral as f64 / 1e9)
        })
    }

    fn task(&mut self, pid: u32) -> Option<&mut Seen> {
        self.tasks.get_mut(pid as usize)?.as_mut()
    }

    fn look(&mut self, now: u64) {
        while let Some(at) = self.looks.pop_if(|at| *at < now) {
            self.lengths.insert(at, self.queued.clone());
        }
    }

    fn queue(&mut self, pid: u32, cpu: u32, runnable: bool) {
        let Some(task) = self.tasks.get_mut(pid as usize).and_then(Option::as_mut) else {
            return;
        };
        if task.runnable {
            self.queued[task.cpu as usize] -= 1;
        }
        (task.cpu, task.runnable) = (cpu, runnable);
        if runnable {
            self.queued[cpu as usize] += 1;
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
        self.tasks[pid] = Some(Seen {
            name: name as u32,
            born_ns: now,
            ..Seen::default()
        });
        self.created[name] += 1;
        self.alive += 1;
        settle(&mut self.census[name], now);
        self.census[name].0 += 1;
    }

    /// A task is done, if it was not before.
    fn leave(&mut self, pid: u32, now: u64) {
        let Some(task) = self.task(pid).filter(|task| !task.left) else {
            return;
        };
        task.left = true;
        let name = task.name as usize;
        settle(&mut self.census[name], now);
        self.census[name].0 -= 1;
    }

    fn switch(&mut self, record: &Record, prev: u32, prev_state: TaskState, next: u32) {
        let (now, cpu) = (record.time, record.cpu);
        let (_, since) = std::mem::replace(&mut self.on[cpu as usize], (next, now));
        if let Some(task) = self.task(prev) {
            task.cpu_ns += now - since;
            self.switches_from_task += 1;
            self.queue(prev, cpu, prev_state == TaskState::Running);
        }
        if next == 0 {
            self.switches_to_idle += 1;
        }
        self.queue(next, cpu, true);
    }
}

/// Brings the time integral of a number of tasks up to date.
fn settle((tasks, integral, since): &mut (u64, u128, u64), now: u64) {
    *integral += u128::from(*tasks) * u128::from(now - *since);
    *since = now;
}

impl Sink for Trail {
    fn take(&mut self, records: &[Record]) {
        for record in records {
            if self.looks.last().is_some_and(|at| *at < record.time) {
                self.look(record.time);
            }
            match record.event {
                Event::TaskNew { pid, ref comm, .. } => self.create(pid, comm, record.time),
                Event::TaskExit { pid } => {
                    if self.alive <= MOST_LEFT {
                        self.left.insert(self.alive, self.queued.clone());
                    }
                    self.alive -= 1;
                    self.leave(pid, record.time);
                }
                Event::Switch { prev, prev_state, next } if prev != next => {
                    self.switch(record, prev, prev_state, next);
                }
                Event::Wakeup { pid, target, .. } => self.queue(pid, target, true),
                Event::Migrate { pid, to, .. } => {
                    let runnable = self.task(pid).is_some_and(|task| task.runnable);
                    self.queue(pid, to, runnable);
                }
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
        }
    }
}
