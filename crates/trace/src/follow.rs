// SPDX-License-Identifier: GPL-2.0-only
//! Tracks the state of tasks and CPUs from record to record: names, priorities, the running tasks,
//! how long tasks wait for a CPU, and the number of runnable tasks.
//!
//! All sinks follow one rule. Turns and waits begin and end at local times
//! ([`Record::local_time`]), as a tracepoint on a real machine would report them. The length of a
//! runqueue, in contrast, is state of the machine, so it changes at [`Record::time`].

use crate::by_number::ByNumber;
use crate::event::{Event, Record, TaskState};

/// Whether a task runs or waits for a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunState {
    /// Sleeping, exited, or not yet woken for the first time.
    #[default]
    Away,
    /// Waits for a CPU after a wake-up.
    Woken,
    /// Waits for a CPU because another task took its CPU.
    Preempted,
    OnCpu,
}

/// A time during which a task waited for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Local time in ns at which the wait began.
    pub since: u64,
    pub ns: u64,
    /// Whether the wait began with a wake-up. Its length is then the wake-up latency.
    pub woken: bool,
}

/// What a task does, and since when it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    pub state: RunState,
    /// Local time in ns at which the current wait began, if the task waits for a CPU.
    since: u64,
}

impl Activity {
    /// Makes the task runnable, unless it is already runnable.
    #[inline]
    pub fn wake(&mut self, now: u64) {
        if self.state == RunState::Away {
            (self.state, self.since) = (RunState::Woken, now);
        }
    }

    /// Gives a CPU to the task. Returns the wait that this ends.
    #[inline]
    pub fn switch_in(&mut self, now: u64) -> Option<Wait> {
        let wait = self.wait(now);
        self.state = RunState::OnCpu;
        wait
    }

    /// Takes the CPU from the task.
    #[inline]
    pub fn switch_out(&mut self, now: u64, state: TaskState) {
        self.since = now;
        self.state = match state {
            TaskState::Running => RunState::Preempted,
            TaskState::Interruptible | TaskState::Uninterruptible | TaskState::Dead => RunState::Away,
        };
    }

    /// Returns the task's wait up to `now`, or `None` if the task does not wait for a CPU.
    #[inline]
    pub fn wait(&self, now: u64) -> Option<Wait> {
        matches!(self.state, RunState::Woken | RunState::Preempted).then(|| Wait {
            since: self.since,
            ns: now.saturating_sub(self.since),
            woken: self.state == RunState::Woken,
        })
    }
}

/// State of a task according to the records so far.
#[derive(Clone, Debug, Default)]
pub struct Task {
    pub comm: String,
    pub tgid: u32,
    /// The kernel's priority from 0 to 139. It is 120 if no record has set it.
    pub prio: i32,
    /// CPU on which the task is running or waiting to run. For a sleeping task, the CPU on which it
    /// last ran.
    pub cpu: u32,
    pub runnable: bool,
    pub activity: Activity,
    known: bool,
}

/// What ended with a switch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ended {
    /// The task that left the CPU, and the local time at which it got the CPU. The time is `None`
    /// if this was the CPU's first switch.
    pub turn: Option<(u32, Option<u64>)>,
    /// The wait of the task that got the CPU.
    pub wait: Option<Wait>,
}

/// Tracks the state of all tasks and CPUs while records are added.
#[derive(Clone, Debug, Default)]
pub struct Follow {
    tasks: ByNumber<Task>,
    /// For each CPU, the pid of the running task, and the local time of the last switch.
    current: Vec<(u32, Option<u64>)>,
    runnable: Vec<u32>,
    changed: Vec<u32>,
}

impl Follow {
    pub fn new(nr_cpus: usize) -> Follow {
        Follow {
            current: vec![(0, None); nr_cpus],
            runnable: vec![0; nr_cpus],
            ..Follow::default()
        }
    }

    /// Returns a task by its pid. If no record has introduced the task, it has no name.
    pub fn task(&mut self, pid: u32) -> &Task {
        self.entry(pid)
    }

    /// Returns the pid of the task that runs on a CPU, or 0 if the CPU is idle.
    pub fn current(&self, cpu: u32) -> u32 {
        self.current[cpu as usize].0
    }

    /// Returns the tasks that are running, with the local times at which they got their CPUs.
    pub fn running(&self) -> impl Iterator<Item = (u32, u64)> {
        let running = self.current.iter().filter(|(pid, _)| *pid != 0);
        running.map(|&(pid, since)| (pid, since.unwrap_or(0)))
    }

    /// Returns the number of runnable tasks on a CPU, including the running one (`rq->nr_running`).
    pub fn runnable(&self, cpu: u32) -> u32 {
        self.runnable[cpu as usize]
    }

    /// Returns the numbers of runnable tasks of all CPUs.
    pub fn queues(&self) -> &[u32] {
        &self.runnable
    }

    /// Returns the CPUs on which the last record changed the number of runnable tasks. The list may
    /// contain a CPU twice.
    pub fn changed(&self) -> &[u32] {
        &self.changed
    }

    fn entry(&mut self, pid: u32) -> &mut Task {
        let task = self.tasks.entry(pid);
        if !task.known {
            task.known = true;
            task.tgid = pid;
            task.prio = 120;
        }
        task
    }

    /// Sets the CPU of a task and whether the task is runnable. Updates the CPUs' numbers of
    /// runnable tasks.
    fn set_cpu(&mut self, pid: u32, cpu: u32, runnable: bool) {
        if pid == 0 {
            return;
        }
        let task = self.entry(pid);
        let before = task.runnable.then_some(task.cpu);
        let after = runnable.then_some(cpu);
        (task.cpu, task.runnable) = (cpu, runnable);
        if before != after {
            if let Some(cpu) = before {
                self.runnable[cpu as usize] -= 1;
                self.changed.push(cpu);
            }
            if let Some(cpu) = after {
                self.runnable[cpu as usize] += 1;
                self.changed.push(cpu);
            }
        }
    }

    /// Updates the state with a record. Records must be added in time order. Returns what the record
    /// ended.
    pub fn add(&mut self, record: &Record) -> Ended {
        self.changed.clear();
        let now = record.local_time();
        match record.event {
            Event::TaskNew {
                pid,
                tgid,
                prio,
                ref comm,
                ..
            } => {
                let task = self.entry(pid);
                (task.tgid, task.prio) = (tgid, prio);
                task.comm.clone_from(comm);
            }
            Event::TaskRename { pid, ref comm } => self.entry(pid).comm.clone_from(comm),
            Event::TaskExit { pid } => {
                // The exit record of a running task precedes the switch away from the task. That
                // switch removes the task from the runqueue.
                let task = self.entry(pid);
                let cpu = task.cpu;
                if task.activity.state != RunState::OnCpu {
                    task.activity.state = RunState::Away;
                    self.set_cpu(pid, cpu, false);
                }
            }
            Event::Prio { pid, prio } => self.entry(pid).prio = prio,
            Event::Waking { pid, .. } => self.entry(pid).activity.wake(now),
            Event::Wakeup { pid, target, .. } => {
                self.entry(pid).activity.wake(now);
                self.set_cpu(pid, target, true);
            }
            Event::Migrate { pid, to, .. } => {
                let runnable = self.entry(pid).runnable;
                self.set_cpu(pid, to, runnable);
            }
            Event::Switch { prev, prev_state, next } => {
                return self.switch(now, record.cpu, prev, prev_state, next);
            }
            _ => {}
        }
        Ended::default()
    }

    fn switch(&mut self, now: u64, cpu: u32, prev: u32, prev_state: TaskState, next: u32) -> Ended {
        let runnable = prev_state == TaskState::Running;
        // A running task can be moved, for example to a CPU of higher capacity. The record of the move
        // precedes the switch, after which the task waits on its new CPU.
        let moved = runnable && self.current(cpu) == prev && self.task(prev).runnable;
        let home = if moved { self.task(prev).cpu } else { cpu };
        self.set_cpu(prev, home, runnable);
        self.set_cpu(next, cpu, true);
        let mut ended = Ended::default();
        if prev == next {
            self.current[cpu as usize].0 = next;
        } else {
            let (_, since) = std::mem::replace(&mut self.current[cpu as usize], (next, Some(now)));
            if prev != 0 {
                self.entry(prev).activity.switch_out(now, prev_state);
                ended.turn = Some((prev, since));
            }
            if next != 0 {
                ended.wait = self.entry(next).activity.switch_in(now);
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::MigrateReason;

    #[test]
    fn turns_and_waits_have_local_times() {
        let mut follow = Follow::new(1);
        let mut add = |time, after, event| {
            let cpu = 0;
            let record = Record {
                time,
                cpu,
                after,
                event,
            };
            follow.add(&record)
        };
        let switch = |prev, prev_state, next| Event::Switch { prev, prev_state, next };
        let wait = |since, ns, woken| Some(Wait { since, ns, woken });
        add(10, 5, Event::Waking { pid: 7, waker: 0 });
        // The wake-up of a task that is already runnable does not begin a wait.
        add(
            20,
            0,
            Event::Wakeup {
                pid: 7,
                target: 0,
                new: false,
            },
        );
        let ended = add(30, 2, switch(0, TaskState::Running, 7));
        assert_eq!((ended.turn, ended.wait), (None, wait(15, 17, true)));
        let ended = add(40, 1, switch(7, TaskState::Running, 8));
        assert_eq!((ended.turn, ended.wait), (Some((7, Some(32))), None));
        let ended = add(50, 0, switch(8, TaskState::Interruptible, 7));
        assert_eq!((ended.turn, ended.wait), (Some((8, Some(41))), wait(41, 9, false)));
        add(60, 0, Event::TaskExit { pid: 7 });
        add(60, 0, switch(7, TaskState::Dead, 0));
        assert_eq!((follow.running().count(), follow.queues()), (0, [0].as_slice()));
        assert_eq!(follow.task(8).activity.wait(70), None);
    }

    #[test]
    fn a_task_that_is_moved_while_it_runs_waits_on_its_new_cpu() {
        let mut follow = Follow::new(2);
        let mut add = |cpu, event| {
            follow.add(&Record {
                time: 0,
                cpu,
                after: 0,
                event,
            });
            ((follow.runnable(0), follow.runnable(1)), follow.task(7).cpu)
        };
        let switch = |prev, next| Event::Switch {
            prev,
            prev_state: TaskState::Running,
            next,
        };
        assert_eq!(add(0, switch(0, 7)), ((1, 0), 0));
        let (from, to, reason) = (0, 1, MigrateReason::Balance);
        add(
            0,
            Event::Migrate {
                pid: 7,
                from,
                to,
                reason,
            },
        );
        assert_eq!(add(0, switch(7, 0)), ((0, 1), 1));
        assert_eq!(add(1, switch(0, 7)), ((0, 1), 1));
        // A task that stays loses its CPU, but not its place.
        assert_eq!(add(1, switch(7, 0)), ((0, 1), 1));
    }

    #[test]
    fn runnable_tasks_are_counted_for_each_cpu() {
        let mut follow = Follow::new(2);
        let mut counts = Vec::new();
        let wake = |pid, target| Event::Wakeup {
            pid,
            target,
            new: false,
        };
        let switch = |prev, prev_state, next| Event::Switch { prev, prev_state, next };
        for (cpu, event) in [
            (0, wake(7, 1)),
            (1, switch(0, TaskState::Running, 7)),
            (0, wake(8, 1)),
            (1, wake(8, 1)), // a repeated wake-up must count once
            (
                1,
                Event::Migrate {
                    pid: 8,
                    from: 1,
                    to: 0,
                    reason: MigrateReason::Balance,
                },
            ),
            (0, switch(0, TaskState::Running, 8)),
            (1, switch(7, TaskState::Interruptible, 0)),
            (0, switch(8, TaskState::Running, 7)), // a switch to a task without a wake-up
            (
                1,
                Event::Migrate {
                    pid: 9,
                    from: 1,
                    to: 0,
                    reason: MigrateReason::Wakeup,
                },
            ),
        ] {
            follow.add(&Record {
                time: 0,
                cpu,
                after: 0,
                event,
            });
            counts.push((follow.runnable(0), follow.runnable(1)));
        }
        assert_eq!(
            counts,
            [(0, 1), (0, 1), (0, 2), (0, 2), (1, 1), (1, 1), (1, 0), (2, 0), (2, 0)]
        );
        assert_eq!((follow.current(0), follow.current(1)), (7, 0));
        assert_eq!(follow.task(9).cpu, 0);
        assert_eq!((follow.task(77).prio, follow.task(77).tgid), (120, 77));
    }
}
