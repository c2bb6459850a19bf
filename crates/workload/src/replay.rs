// SPDX-License-Identifier: GPL-2.0-only
//! Replay: converts a recording into a workload whose tasks do the same work.
//!
//! Each task computes for as long as in the recording. If another task woke it in the recording, it
//! waits until a task wakes it. Otherwise it sleeps for as long as in the recording. A different
//! scheduler thus changes how long tasks wait for a CPU, but not what they do.
//!
//! - The time that a task computes between two other steps becomes one [`Op::Run`], even if the
//!   task was preempted or changed CPUs. A recorded time contains the kernel's work on the task's
//!   CPU: system calls, switches, wake-ups and interrupts. In a replay
//!   ([`Workload::recorded_on`]), the simulated machine subtracts its own costs of this work.
//! - Each task has a semaphore. The tasks that wake it in the recording post the semaphore, and the
//!   task waits for it. A wake-up that happens earlier than in the recording is not lost, and it
//!   does not matter which of several wakers is the first: a reader of a queue takes the first
//!   message, whoever sent it.
//! - A task that waits for a wake-up which has already happened sleeps nevertheless, and wakes at
//!   once, if other tasks wait for its CPU. A recording shows only those wake-ups for which a task
//!   slept. In the recorded run, a late task also found work that had arrived meanwhile, and an
//!   early task slept more often. Without this rule, a task that is late skips sleeps, but a task
//!   that is early cannot have more, so a replay would always have too few switches.
//! - A wake-up by an interrupt becomes a sleep. A task in TASK_UNINTERRUPTIBLE waits for a device,
//!   and sleeps as long as recorded. Any other task waits for a timer or for a message from outside
//!   of the machine. These come at the recorded times, even if the task is late: it then sleeps
//!   shorter ([`Op::Timer`]). With equal sleeps, a periodic task would fall behind by each delay.
//! - A fork is replayed as a fork. A task that existed at the start of the recording starts at time
//!   0. A task whose first event is a wake-up by an interrupt starts with that wake-up.
//! - A task exits where it exited in the recording, or where the recording ends.
//!
//! - If the recording contains a [`Snapshot`], tasks have its affinities, scheduling policies, nice
//!   values, processes and groups (cgroups and autogroups). A task that is not in the snapshot has
//!   the attributes of its parent.
//!
//! A replay leaves out changes of these attributes, execs, and the caches and speeds of the
//! recorded CPUs: all computing is assumed to have happened at capacity 1024.
//!
//! In a recording that does not mark interrupts, a wake-up by an interrupt looks like a wake-up by
//! the interrupted task, and is replayed as a wake-up by this task.

use crate::generator::{empty, semaphore, task};
use crate::program::{Cgroup, Dist, Op, Program, SchedPolicy, Score, Workload};
use crate::task_specs::TaskSpec;
use input::{Error, cpu_list};
use std::collections::BTreeMap;
use trace::recording::MAX_CPUS;
use trace::snapshot::{self, TaskAttributes};
use trace::{Event, Record, Snapshot, TaskState};

/// State of a task, with the time in ns at which it began.
#[derive(Clone, Copy)]
enum Doing {
    Runs(u64),
    /// Runnable, waiting for a CPU.
    Waits,
    Sleeps(u64),
    /// Sleeps in TASK_UNINTERRUPTIBLE.
    WaitsForDevice(u64),
    Exited,
}

/// A task of the recording, and the program built for it so far.
struct Replayed {
    spec: TaskSpec,
    ops: Vec<Op>,
    doing: Doing,
    /// Computing time in ns that is not yet part of a step.
    computed: u64,
    /// Recorded time of the last expiry of the task's timer.
    expired: Option<u64>,
    /// Whether the task has run or has been woken since the start of the recording.
    met: bool,
}

impl Replayed {
    /// Adds the time up to `time` to `computed` if the task is running.
    fn compute_until(&mut self, time: u64) {
        if let Doing::Runs(since) = self.doing {
            self.computed += time - since;
            self.doing = Doing::Runs(time);
        }
    }

    /// Appends a sleep that ends at `time` without a wake-up by a task.
    fn sleep_until(&mut self, time: u64) {
        let step = match self.doing {
            Doing::Sleeps(since) => {
                let period = time - self.expired.replace(time).unwrap_or(since);
                Op::Timer {
                    timer: 0,
                    period,
                    absolute: true,
                }
            }
            Doing::WaitsForDevice(since) => Op::Sleep(Dist::Fixed(time - since)),
            Doing::Waits | Doing::Runs(_) | Doing::Exited => return,
        };
        self.step(Some(step));
    }

    /// Appends a step for the time computed since the last step, and then `op`.
    fn step(&mut self, op: Option<Op>) {
        let ns = std::mem::take(&mut self.computed);
        self.ops.extend((ns > 0).then_some(Op::Run(Dist::Fixed(ns))));
        self.ops.extend(op);
    }
}

/// Tasks of a recording, in the order of their creation.
#[derive(Default)]
struct Replay<'a> {
    snapshot: Option<&'a Snapshot>,
    tasks: Vec<Replayed>,
    /// Index of the task that currently has each pid. A later task can have the pid of an exited
    /// one.
    by_pid: BTreeMap<u32, usize>,
    /// Semaphore of each task that another task wakes, by the index of the task.
    semaphores: BTreeMap<usize, u32>,
}

/// Converts records into a workload. The records must contain every switch. If several records
/// describe the same wake-up, only the first of them may be included.
///
/// # Errors
/// Fails if no task runs.
pub fn from_records(records: &[Record], snapshot: Option<&Snapshot>, name: &str) -> Result<Workload, Error> {
    let mut replay = Replay {
        snapshot,
        ..Replay::default()
    };
    for record in records {
        replay.take(record);
    }
    let end = records.last().map_or(0, |record| record.time);
    let mut workload = empty("tasks", None);
    workload.name = name.into();
    workload.score = Score::CompletionTime;
    let groups = snapshot.map_or(&[][..], |snapshot| &snapshot.groups);
    workload.cgroups.extend(groups.iter().map(|group| Cgroup {
        path: group.path.clone(),
        weight: group.weight,
    }));
    let mut semaphores: Vec<_> = replay.semaphores.into_iter().collect();
    semaphores.sort_by_key(|&(_, id)| id);
    workload.resources = semaphores
        .into_iter()
        .map(|(woken, _)| semaphore(format!("wake-ups of task {woken}")))
        .collect();
    for mut task in replay.tasks {
        task.compute_until(end);
        task.step(None);
        // A task without steps is not created. It stays in the list nevertheless, because forks
        // refer to tasks by their index.
        task.spec.spawn &= !task.ops.is_empty();
        workload.programs.push(Program {
            ops: task.ops,
            counters: 0,
        });
        workload.tasks.push(task.spec);
    }
    if !workload.tasks.iter().any(|task| task.spawn) {
        return Err(Error::at(name, "no task runs in this recording"));
    }
    workload.check()?;
    Ok(workload)
}

impl Replay<'_> {
    /// Returns the task that currently has a pid.
    fn find(&mut self, pid: u32) -> Option<(usize, &mut Replayed)> {
        let &at = self.by_pid.get(&pid)?;
        Some((at, &mut self.tasks[at]))
    }

    /// Processes one record.
    fn take(&mut self, record: &Record) {
        let time = record.time;
        match record.event {
            Event::TaskNew {
                pid,
                tgid,
                parent,
                prio,
                ref comm,
            } => self.create(time, [pid, tgid, parent], prio, comm),
            Event::Switch { prev, prev_state, next } => {
                if let Some((_, task)) = self.find(prev) {
                    task.compute_until(time);
                    task.doing = match prev_state {
                        TaskState::Running => Doing::Waits,
                        TaskState::Interruptible => Doing::Sleeps(time),
                        TaskState::Uninterruptible => Doing::WaitsForDevice(time),
                        TaskState::Dead => Doing::Exited,
                    };
                }
                if let Some((_, task)) = self.find(next) {
                    // The recording contains no wake-up for this sleep.
                    task.sleep_until(time);
                    task.doing = Doing::Runs(time);
                    task.met = true;
                }
            }
            Event::Waking { pid, waker } => self.wake(time, pid, waker),
            _ => {}
        }
    }

    /// Adds a task. `pids` are its pid, its process and its parent.
    fn create(&mut self, time: u64, pids: [u32; 3], prio: i32, comm: &str) {
        let [pid, tgid, parent] = pids;
        let number = self.tasks.len();
        let id = input::index(number);
        let mut spec = task(comm, id, tgid);
        spec.policy = policy(prio);
        let known = self.snapshot.and_then(|snapshot| snapshot.task(pid));
        if let Some((_, parent)) = self.find(parent) {
            // A new task inherits these attributes. The kernel's priority is in the record.
            spec.cpus.clone_from(&parent.spec.cpus);
            spec.cgroup = parent.spec.cgroup;
            if matches!(
                (parent.spec.policy, spec.policy),
                (SchedPolicy::Batch { .. }, SchedPolicy::Normal { .. })
            ) {
                spec.policy = parent.spec.policy;
            }
        }
        if let Some(known) = known {
            apply(known, &mut spec);
        }
        if let Some((_, parent)) = self
            .find(parent)
            .filter(|(_, task)| matches!(task.doing, Doing::Runs(_)))
        {
            parent.compute_until(time);
            parent.step(Some(Op::Fork {
                task: id,
                thread: spec.process == parent.spec.process,
            }));
            spec.spawn = false;
        } else {
            spec.start_ns = time;
        }
        self.by_pid.insert(pid, number);
        self.tasks.push(Replayed {
            spec,
            ops: Vec::new(),
            doing: Doing::Waits,
            computed: 0,
            expired: None,
            met: false,
        });
    }

    fn wake(&mut self, time: u64, pid: u32, waker: u32) {
        let Some((woken, task)) = self.find(pid) else { return };
        match task.doing {
            Doing::Sleeps(_) | Doing::WaitsForDevice(_) => {}
            // This wake-up is the task's first event, so the task has slept since the start of the
            // recording.
            Doing::Waits if !task.met && task.spec.spawn => task.met = true,
            Doing::Waits | Doing::Runs(_) | Doing::Exited => return,
        }
        let began = !task.ops.is_empty() || task.computed > 0;
        let by_task = self
            .find(waker)
            .filter(|(_, task)| matches!(task.doing, Doing::Runs(_)));
        let Some((waker, by)) = by_task else {
            let task = &mut self.tasks[woken];
            match began {
                true => task.sleep_until(time),
                false => task.spec.start_ns = time,
            }
            task.doing = Doing::Waits;
            return;
        };
        by.compute_until(time);
        let next = input::index(self.semaphores.len());
        let semaphore = *self.semaphores.entry(woken).or_insert(next);
        self.tasks[waker].step(Some(Op::SemPost(semaphore)));
        self.tasks[woken].step(Some(Op::SemWait(semaphore)));
        self.tasks[woken].doing = Doing::Waits;
    }
}

/// Sets the attributes of a task that are in a snapshot.
fn apply(known: &TaskAttributes, spec: &mut TaskSpec) {
    let nice = known.nice;
    spec.process = known.tgid;
    spec.cgroup = known.group;
    spec.policy = match known.policy {
        snapshot::SCHED_NORMAL | snapshot::SCHED_EXT => SchedPolicy::Normal { nice },
        snapshot::SCHED_BATCH => SchedPolicy::Batch { nice },
        snapshot::SCHED_IDLE => SchedPolicy::Idle,
        snapshot::SCHED_FIFO if known.rt_priority > 0 => SchedPolicy::Fifo {
            rt_priority: known.rt_priority,
        },
        snapshot::SCHED_RR if known.rt_priority > 0 => SchedPolicy::RoundRobin {
            rt_priority: known.rt_priority,
        },
        _ => spec.policy,
    };
    // A list that cannot be read allows all CPUs. Without the limit, `0-4294967294` would use up the
    // memory.
    spec.cpus = cpu_list::parse(&known.cpus, MAX_CPUS)
        .ok()
        .filter(|cpus| !cpus.is_empty());
}

/// Converts the kernel's priority: 100..139 are nice -20..19. Lower values are real-time
/// priorities; 98 is rt_priority 1.
fn policy(prio: i32) -> SchedPolicy {
    match prio {
        100..=139 => SchedPolicy::Normal { nice: prio - 120 },
        140.. => SchedPolicy::Normal { nice: 19 },
        _ => SchedPolicy::Fifo {
            rt_priority: 99u32.saturating_sub_signed(prio).clamp(1, 99),
        },
    }
}

#[cfg(test)]
mod tests;
