// SPDX-License-Identifier: GPL-2.0-only
//! What is known of tasks and CPUs after each record: names, priorities, who runs where, how many are runnable.

use crate::by_number::ByNumber;
use crate::event::{Event, Record, TaskState};

/// A task as the records so far tell of it.
#[derive(Clone, Debug, Default)]
pub struct Task {
    pub comm: String,
    pub tgid: u32,
    /// The kernel's 0..139; 120 if nothing was said of it.
    pub prio: i32,
    /// Where it runs, waits or ran last.
    pub cpu: u32,
    pub runnable: bool,
    known: bool,
}

/// Goes through records.
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

    /// The task of a pid; one that no record introduced has no name.
    pub fn task(&mut self, pid: u32) -> &Task {
        self.entry(pid)
    }

    /// Who runs on a CPU; 0 is idle.
    pub fn current(&self, cpu: u32) -> u32 {
        self.current[cpu as usize]
    }

    /// Runnable tasks of a CPU, with the one that runs (`rq->nr_running`).
    pub fn runnable(&self, cpu: u32) -> u32 {
        self.runnable[cpu as usize]
    }

    /// CPUs whose number of runnable tasks the last record changed; some may come twice.
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

    /// The task is runnable on a CPU, or is not.
    fn place(&mut self, pid: u32, cpu: u32, runnable: bool) {
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

    /// Takes a record in.
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
            Event::Wakeup { pid, target, .. } => self.place(pid, target, true),
            Event::Migrate { pid, to, .. } => {
                let runnable = self.entry(pid).runnable;
                self.place(pid, to, runnable);
            }
            Event::Switch { prev, prev_state, next } => {
                self.place(prev, record.cpu, prev_state == TaskState::Running);
                self.place(next, record.cpu, true);
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
    fn counts_who_is_runnable_where() {
        let mut follow = Follow::new(2);
        let mut told = Vec::new();
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
            (1, wake(8, 1)), // said twice: counted once
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
            (0, switch(8, TaskState::Running, 7)), // never said to have been woken
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
            follow.add(&Record { time: 0, cpu, event });
            told.push((follow.runnable(0), follow.runnable(1)));
        }
        assert_eq!(
            told,
            [(0, 1), (0, 1), (0, 2), (0, 2), (1, 1), (1, 1), (1, 0), (2, 0), (2, 0)]
        );
        assert_eq!((follow.current(0), follow.current(1)), (7, 0));
        assert_eq!(follow.task(9).cpu, 0);
        assert_eq!((follow.task(77).prio, follow.task(77).tgid), (120, 77));
    }
}
