// SPDX-License-Identifier: GPL-2.0-only
//! Detects tasks that a policy has probably lost. A lost task still waits for a CPU when the run
//! ends. Its wait is much longer than every wait after which a task got a CPU.

use crate::result::{LostTasks, Waiting};

/// Waits up to this length are never suspicious. This is also the default limit of `windtunnel
/// invariants --starvation`.
pub const BOUND_NS: u64 = 500_000_000;
/// On a loaded machine, every task has to wait long. A wait is therefore suspicious only if it is
/// longer than this number times the longest wait that ended.
const BEYOND_LONGEST: u64 = 2;

/// Returns the waiting tasks that are probably lost. `longest_ended_ns` is the longest wait after
/// which a task got a CPU.
pub fn lost_tasks(waiting: &[Waiting], end_ns: u64, longest_ended_ns: u64) -> Option<LostTasks> {
    let bound = BOUND_NS.max(longest_ended_ns.saturating_mul(BEYOND_LONGEST));
    let waited = |task: &&Waiting| end_ns.saturating_sub(task.since_ns);
    let lost: Vec<&Waiting> = waiting.iter().filter(|task| waited(task) > bound).collect();
    let longest = lost.iter().min_by_key(|task| task.since_ns)?;
    Some(LostTasks {
        count: lost.len() as u64,
        longest_ns: waited(longest),
        pid: longest.pid,
        comm: longest.comm.clone(),
        kept: longest.kept.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn waiting(pid: u32, since_ns: u64) -> Waiting {
        Waiting {
            pid,
            since_ns,
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
}
