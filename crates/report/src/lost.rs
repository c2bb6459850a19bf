// SPDX-License-Identifier: GPL-2.0-only
//! Detects tasks that a policy has probably lost. A lost task still waits for a CPU when the run
//! ends. Its wait is much longer than every wait after which a task got a CPU, and it is either
//! very long, or CPUs that could run a waiting task were idle during much of it.

use crate::units;
use serde::{Deserialize, Serialize};

/// Waits up to this length are not suspicious if no CPU was idle meanwhile.
const BOUND_NS: u64 = 500_000_000;
/// CPUs that are idle for this time or less while a task waits are not suspicious. A policy may
/// need a timer or an IPI to bring the task there.
const IDLE_BOUND_NS: u64 = 1_000_000;
/// On a loaded machine, every task has to wait long. A wait is therefore suspicious only if it is
/// longer than this number times the longest wait that ended.
const BEYOND_LONGEST: u64 = 2;

/// A task that waited for a CPU when the run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub pid: u32,
    pub comm: String,
    /// Time in ns since the start of the run at which the wait began.
    pub since_ns: u64,
    /// Whether the task has run since it was created.
    pub has_run: bool,
    /// Time since the wait began during which a CPU was idle although it could have run a waiting
    /// task, summed over all CPUs, ns.
    pub idle_ns: u64,
    /// Description of the queue that contains the task, or an empty string if it is unknown.
    pub kept: String,
}

/// Tasks that the policy has probably lost. At the end of the run, they have waited suspiciously
/// long, or while CPUs were idle that could run waiting tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostTasks {
    pub count: u64,
    /// Number of these tasks that have never run.
    #[serde(default)]
    pub never_ran: u64,
    /// Length of the longest wait in ns. The next four fields describe the task with this wait.
    pub longest_ns: u64,
    pub pid: u32,
    pub comm: String,
    /// Time since the wait began during which a CPU was idle although it could have run a waiting
    /// task, summed over all CPUs, ns.
    #[serde(default)]
    pub idle_ns: u64,
    /// Description of the queue that contains the task.
    pub kept: String,
}

/// Returns whether a task that still waits may be lost, as far as its own wait shows this. `idle_ns` is
/// the time during which CPUs that could run a waiting task were idle meanwhile.
pub fn may_be_lost(waited_ns: u64, idle_ns: u64) -> bool {
    waited_ns > BOUND_NS || idle_ns > IDLE_BOUND_NS && idle_ns > waited_ns / 2
}

/// Returns the waiting tasks that are probably lost. `longest_ended_ns` is the longest wait after
/// which a task got a CPU.
pub fn lost_tasks(waiting: &[Waiting], end_ns: u64, longest_ended_ns: u64) -> Option<LostTasks> {
    let waited = |task: &Waiting| end_ns.saturating_sub(task.since_ns);
    let is_lost = |task: &&Waiting| {
        let waited = waited(task);
        waited > longest_ended_ns.saturating_mul(BEYOND_LONGEST) && may_be_lost(waited, task.idle_ns)
    };
    let lost: Vec<&Waiting> = waiting.iter().filter(is_lost).collect();
    let longest = lost.iter().min_by_key(|task| task.since_ns)?;
    Some(LostTasks {
        count: lost.len() as u64,
        never_ran: lost.iter().filter(|task| !task.has_run).count() as u64,
        longest_ns: waited(longest),
        pid: longest.pid,
        comm: longest.comm.clone(),
        idle_ns: longest.idle_ns,
        kept: longest.kept.clone(),
    })
}

impl LostTasks {
    /// Returns a sentence about the lost tasks, without the policy's name.
    pub fn sentence(&self) -> String {
        let tasks = match self.count {
            1 => "1 task waited".to_owned(),
            n => format!("{n} tasks waited"),
        };
        let never_ran = match self.never_ran {
            0 => String::new(),
            n if n == self.count => " and never ran".to_owned(),
            1 => " and 1 of them never ran".to_owned(),
            n => format!(" and {n} of them never ran"),
        };
        let idle = match self.idle_ns {
            0 => String::new(),
            ns => format!(
                ", while CPUs that could run waiting tasks were idle for {} in total",
                units::time(ns)
            ),
        };
        let queue = match self.kept.as_str() {
            "" => String::new(),
            kept => format!(", {kept}"),
        };
        format!(
            "{tasks} for a CPU when the run ended{never_ran}; {}[{}] waited for {}{queue}{idle}",
            self.comm,
            self.pid,
            units::time(self.longest_ns)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn waiting(pid: u32, since_ns: u64) -> Waiting {
        Waiting {
            pid,
            since_ns,
            has_run: true,
            idle_ns: 0,
            comm: "task".to_owned(),
            kept: "on DSQ 0x1".to_owned(),
        }
    }

    #[test]
    fn a_task_that_waits_longer_than_any_before_is_lost() {
        let tasks = [waiting(7, 100 * MS), waiting(8, 300 * MS), waiting(9, 900 * MS)];
        let lost = lost_tasks(&tasks, 1000 * MS, 10 * MS).expect("two tasks are lost");
        assert_eq!((lost.count, lost.pid, lost.longest_ns), (2, 7, 900 * MS));
        assert_eq!(lost.kept, "on DSQ 0x1");
    }

    #[test]
    fn long_waits_are_normal_if_all_tasks_wait_long() {
        let tasks = [waiting(7, 0)];
        assert_eq!(lost_tasks(&tasks, 3000 * MS, 2000 * MS), None);
        assert!(lost_tasks(&tasks, 3000 * MS, 1000 * MS).is_some());
        assert_eq!(lost_tasks(&tasks, 400 * MS, 0), None);
    }

    #[test]
    fn in_a_short_run_a_task_is_lost_if_cpus_idle_meanwhile() {
        let stuck = |idle_ns| Waiting {
            has_run: false,
            idle_ns,
            ..waiting(7, 20 * MS)
        };
        let lost = lost_tasks(&[stuck(60 * MS), waiting(8, 10 * MS)], 100 * MS, 0).expect("a task is lost");
        assert_eq!((lost.count, lost.never_ran, lost.pid), (1, 1, 7));
        assert_eq!(
            lost.sentence(),
            "1 task waited for a CPU when the run ended and never ran; task[7] waited for 80.0 ms, on DSQ 0x1, \
             while CPUs that could run waiting tasks were idle for 60.0 ms in total"
        );
        // The CPUs were busy for most of the wait, or tasks that ran have waited as long.
        assert_eq!(lost_tasks(&[stuck(30 * MS)], 100 * MS, 0), None);
        assert_eq!(lost_tasks(&[stuck(60 * MS)], 100 * MS, 40 * MS), None);
        // A policy may need a millisecond to bring a task to an idle CPU.
        let brief = Waiting {
            since_ns: 99 * MS,
            ..stuck(MS)
        };
        assert_eq!(lost_tasks(&[brief], 100 * MS, 0), None);
    }
}
