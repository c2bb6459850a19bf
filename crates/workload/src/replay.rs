// SPDX-License-Identifier: GPL-2.0-only
//! Replay: converts a recording into a workload whose tasks do the same work.
//!
//! Each task computes for as long as in the recording. If another task woke it in the recording, it
//! waits until that task wakes it. Otherwise it sleeps for as long as in the recording. A different
//! scheduler thus changes how long tasks wait for a CPU, but not what they do.
//!
//! - The time that a task computes between two other steps becomes one [`Op::Run`], even if the
//!   task was preempted or changed CPUs.
//! - A wake-up by another task becomes a semaphore for this pair of tasks. The waker posts it, and
//!   the woken task waits for it. A wake-up that happens earlier than in the recording is therefore
//!   not lost.
//! - A wake-up by an interrupt becomes a sleep for the time from the task's last switch to the
//!   wake-up.
//! - A fork is replayed as a fork. A task that existed at the start of the recording starts at time
//!   0. A task whose first event is a wake-up by an interrupt starts with that wake-up.
//! - A task exits where it exited in the recording, or where the recording ends.
//!
//! A replay leaves out affinities, changes of priority, execs, the assignment of threads to
//! processes, and the caches and speeds of the recorded CPUs: all computing is assumed to have
//! happened at capacity 1024. Simulated costs of system calls, forks and exits are added to the
//! recorded times.
//!
//! In a recording that does not mark interrupts, a wake-up by an interrupt looks like a wake-up by
//! the interrupted task, and is replayed as a wake-up by this task.

use crate::generator::{empty, task};
use crate::program::{Dist, Op, Policy, Program, Resource, Score, TaskSpec, Workload};
use input::Error;
use std::collections::BTreeMap;
use trace::{Event, Record, TaskState};

/// State of a task, with the time in ns at which it began.
#[derive(Clone, Copy)]
enum Doing {
    Runs(u64),
    /// Runnable, waiting for a CPU.
    Waits,
    Sleeps(u64),
    Exited,
}

/// A task of the recording, and the program built for it so far.
struct Replayed {
    spec: TaskSpec,
    ops: Vec<Op>,
    doing: Doing,
    /// Computing time in ns that is not yet part of a step.
    computed: u64,
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

    /// Appends a step for the time computed since the last step, and then `op`.
    fn step(&mut self, op: Option<Op>) {
        let ns = std::mem::take(&mut self.computed);
        self.ops.extend((ns > 0).then_some(Op::Run(Dist::Fixed(ns))));
        self.ops.extend(op);
    }
}

/// Tasks of a recording, in the order of their creation.
#[derive(Default)]
struct Replay {
    tasks: Vec<Replayed>,
    /// Index of the task that currently has each pid. A later task can have the pid of an exited
    /// one.
    by_pid: BTreeMap<u32, usize>,
    /// Semaphore of each pair of waker and woken task.
    pairs: BTreeMap<(usize, usize), u32>,
}

/// Converts records into a workload. The records must contain every switch. If several records
/// describe the same wake-up, only the first of them may be included.
///
/// # Errors
/// Fails if no task runs.
pub fn from_records(records: &[Record], name: &str) -> Result<Workload, Error> {
    let mut replay = Replay::default();
    for record in records {
        replay.take(record);
    }
    let end = records.last().map_or(0, |record| record.time);
    let mut workload = empty("tasks", None);
    workload.name = name.into();
    workload.score = Score::CompletionTime;
    let mut pairs: Vec<_> = replay.pairs.into_iter().collect();
    pairs.sort_by_key(|&(_, id)| id);
    workload.resources = pairs
        .into_iter()
        .map(|((waker, woken), _)| Resource::Semaphore {
            name: format!("{waker}>{woken}"),
            value: 0,
        })
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

impl Replay {
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
                parent,
                prio,
                ref comm,
                ..
            } => self.create(time, pid, parent, prio, comm),
            Event::Switch { prev, prev_state, next } => {
                if let Some((_, task)) = self.find(prev) {
                    task.compute_until(time);
                    task.doing = match prev_state {
                        TaskState::Running => Doing::Waits,
                        TaskState::Interruptible | TaskState::Uninterruptible => Doing::Sleeps(time),
                        TaskState::Dead => Doing::Exited,
                    };
                }
                if let Some((_, task)) = self.find(next) {
                    // The recording contains no wake-up for this sleep.
                    if let Doing::Sleeps(since) = task.doing {
                        task.step(Some(Op::Sleep(Dist::Fixed(time - since))));
                    }
                    task.doing = Doing::Runs(time);
                    task.met = true;
                }
            }
            Event::Waking { pid, waker } => self.wake(time, pid, waker),
            _ => {}
        }
    }

    fn create(&mut self, time: u64, pid: u32, parent: u32, prio: i32, comm: &str) {
        let number = self.tasks.len();
        let id = input::index(number);
        let mut spec = task(comm, id, id);
        spec.policy = policy(prio);
        if let Some((_, parent)) = self
            .find(parent)
            .filter(|(_, task)| matches!(task.doing, Doing::Runs(_)))
        {
            parent.compute_until(time);
            parent.step(Some(Op::Fork {
                task: id,
                thread: false,
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
            met: false,
        });
    }

    fn wake(&mut self, time: u64, pid: u32, waker: u32) {
        let Some((woken, task)) = self.find(pid) else { return };
        let since = match task.doing {
            Doing::Sleeps(since) => since,
            // This wake-up is the task's first event, so the task has slept since the start of the
            // recording.
            Doing::Waits if !task.met && task.spec.spawn => {
                task.met = true;
                task.spec.start_ns
            }
            Doing::Waits | Doing::Runs(_) | Doing::Exited => return,
        };
        task.doing = Doing::Waits;
        let began = !task.ops.is_empty() || task.computed > 0;
        let by_task = self
            .find(waker)
            .filter(|(_, task)| matches!(task.doing, Doing::Runs(_)));
        let Some((waker, by)) = by_task else {
            let task = &mut self.tasks[woken];
            if began {
                task.step(Some(Op::Sleep(Dist::Fixed(time - since))));
            } else {
                task.spec.start_ns = time;
            }
            return;
        };
        by.compute_until(time);
        let pairs = input::index(self.pairs.len());
        let pair = *self.pairs.entry((waker, woken)).or_insert(pairs);
        self.tasks[waker].step(Some(Op::SemPost(pair)));
        self.tasks[woken].step(Some(Op::SemWait(pair)));
    }
}

/// Converts the kernel's priority: 100..139 are nice -20..19. Lower values are real-time
/// priorities; 98 is rt_priority 1.
fn policy(prio: i32) -> Policy {
    match prio {
        100..=139 => Policy::Normal { nice: prio - 120 },
        140.. => Policy::Normal { nice: 19 },
        _ => Policy::Fifo {
            rt_priority: 99u32.saturating_sub_signed(prio).clamp(1, 99),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(text: &str) -> Workload {
        let recording = trace::recording::read(text).expect("the text is a recording");
        from_records(&recording.records, "x.txt").expect("the recording can be replayed")
    }

    fn program<'a>(workload: &'a Workload, comm: &str) -> &'a [Op] {
        let task = workload
            .tasks
            .iter()
            .find(|task| task.comm == comm)
            .expect("the workload has this task");
        &workload.programs[task.program as usize].ops
    }

    fn run(us: u64) -> Op {
        Op::Run(Dist::Fixed(us * 1000))
    }

    #[test]
    fn wakeups_are_replayed_but_waits_for_a_cpu_are_not() {
        let w = replay(
            "\
 swapper 0 [000] 1.000000: sched_switch: swapper/0:0 [120] R ==> a:1 [110]
 a 1 [000] 1.000010: sched_switch: a:1 [110] R ==> b:2 [95]
 b 2 [000] 1.000030: sched_switch: b:2 [95] S ==> a:1 [110]
 a 1 [000] 1.000035: sched_waking: comm=b pid=2 prio=95 target_cpu=000
 a 1 [000] 1.000036: sched_switch: a:1 [110] S ==> b:2 [95]
 b 2 [000] 1.000040: sched_switch: b:2 [95] D ==> swapper/0:0 [120]
 swapper 0 [000] 1.000100: sched_waking: comm=b pid=2 prio=95 target_cpu=000
 swapper 0 [000] 1.000101: sched_switch: swapper/0:0 [120] R ==> b:2 [95]
 b 2 [000] 1.000108: sched_process_exit: comm=b pid=2 prio=95
 b 2 [000] 1.000109: sched_switch: b:2 [95] Z ==> swapper/0:0 [120]
",
        );
        assert_eq!(program(&w, "a"), [run(15), Op::SemPost(0), run(1)]);
        let slept = Op::Sleep(Dist::Fixed(60_000));
        assert_eq!(program(&w, "b"), [run(20), Op::SemWait(0), run(4), slept, run(8)]);
        assert_eq!(w.tasks[0].policy, Policy::Normal { nice: -10 });
        assert_eq!(w.tasks[1].policy, Policy::Fifo { rt_priority: 4 });
    }

    #[test]
    fn forks_stay_forks_and_sleepers_start_when_they_are_woken() {
        let w = replay(
            "\
 a 1 [000] 1.000000: sched_waking: comm=early pid=7 prio=120 target_cpu=001
 a 1 [000] 1.000005: sched_process_fork: comm=a pid=1 child_comm=kid child_pid=9
 a 1 [000] 1.000006: sched_wakeup_new: comm=kid pid=9 prio=120 target_cpu=000
 a 1 [000] 1.000007: sched_switch: a:1 [120] S ==> kid:9 [120]
 kid 9 [000] 1.000020: sched_switch: kid:9 [120] X ==> early:7 [120]
 early 7 [000] 1.000021: sched_switch: early:7 [120] S ==> swapper/0:0 [120]
 swapper 0 [000] 1.000050: sched_waking: comm=late pid=8 prio=120 target_cpu=000
 swapper 0 [000] 1.000051: sched_switch: swapper/0:0 [120] R ==> late:8 [120]
 late 8 [000] 1.000053: sched_switch: late:8 [120] S ==> swapper/0:0 [120]
",
        );
        let kid = w
            .tasks
            .iter()
            .position(|task| task.comm == "kid")
            .expect("the forked task exists") as u32;
        let fork = Op::Fork {
            task: kid,
            thread: false,
        };
        assert_eq!(program(&w, "a"), [Op::SemPost(0), run(5), fork, run(2)]);
        assert_eq!(program(&w, "kid"), [run(13)]);
        assert_eq!(program(&w, "early"), [Op::SemWait(0), run(1)]);
        assert_eq!(program(&w, "late"), [run(2)]);
        let start = |comm: &str| {
            w.tasks
                .iter()
                .find(|task| task.comm == comm)
                .map(|task| (task.spawn, task.start_ns))
        };
        assert_eq!(
            [start("kid"), start("early"), start("late")],
            [Some((false, 0)), Some((true, 0)), Some((true, 50_000))]
        );
    }
}
