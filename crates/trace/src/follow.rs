// SPDX-License-Identifier: GPL-2.0-only
//! Tracks the state of tasks and CPUs from record to record: names, priorities, the running tasks,
//! and the number of runnable tasks.

use crate::by_number::ByNumber;
use crate::event::{Event, Record, TaskState};

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
    known: bool,
}

/// Tracks the state of all tasks and CPUs while records are added.
#[derive(Clone, Debug, Default)]
pub struct Follow {
    tasks: ByNumber<Task>,
    current: Vec<u32>,
    runnable: Vec<u32>,
    changed: Vec<u32>,
}

impl Follow {
    pub fn new(nr_cpus: usize) -> Follow {
        Follow {
            current: vec![0; nr_cpus],
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
        self.current[cpu as usize]
    }

    /// Returns the number of runnable tasks on a CPU, including the running one (`rq->nr_running`).
    pub fn runnable(&self, cpu: u32) -> u32 {
        self.runnable[cpu as usize]
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

    /// Updates the state with a record. Records must be added in time order.
    pub fn add(&mut self, record: &Record) {
        self.changed.clear();
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
            Event::Prio { pid, prio } => self.entry(pid).prio = prio,
            Event::Wakeup { pid, target, .. } => self.set_cpu(pid, target, true),
            Event::Migrate { pid, to, .. } => {
                let runnable = self.entry(pid).runnable;
                self.set_cpu(pid, to, runnable);
            }
            Event::Switch { prev, prev_state, next } => {
                self.set_cpu(prev, record.cpu, prev_state == TaskState::Running);
                self.set_cpu(next, record.cpu, true);
                self.current[record.cpu as usize] = next;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::MigrateReason;

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
