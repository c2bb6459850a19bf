// SPDX-License-Identifier: GPL-2.0-only
//! Computes Jain's fairness index of the CPU times of tasks. In a simulated run, these are the tasks
//! that were always runnable, because such tasks wanted as much CPU time as they could get.

use crate::figures::RunResult;
use crate::result::{Fairness, decimals};
use crate::task::Task;
use std::collections::BTreeMap;

/// Largest share in ppm. The limit keeps the sum of squares from overflowing. No real task runs
/// longer than it exists, but a damaged trace can claim this.
const MAX_SHARE: u128 = 1_000_000_000;

/// Returns the CPU shares of all tasks that were always runnable, by priority. A share is the CPU
/// time divided by the time since the task began, in ppm. A task that began late therefore does not
/// look starved. Priorities with fewer than two such tasks are left out.
pub(crate) fn shares(tasks: &[(u32, Task)], end: u64) -> BTreeMap<i32, Vec<u64>> {
    let mut groups: BTreeMap<i32, Vec<u64>> = BTreeMap::new();
    for (_, task) in tasks.iter().filter(|(_, task)| task.always_runnable(end)) {
        let alive = end.saturating_sub(task.began().unwrap_or(0));
        let share = u128::from(task.cpu_ns) * 1_000_000 / u128::from(alive.max(1));
        groups
            .entry(task.prio)
            .or_default()
            .push(u64::try_from(share.min(MAX_SHARE)).unwrap_or(u64::MAX));
    }
    groups.retain(|_, shares| shares.len() > 1);
    groups
}

/// Returns the fairness among the always runnable tasks of each priority.
pub(crate) fn fairness(tasks: &[(u32, Task)], end: u64) -> Vec<Fairness> {
    let fairness = |(prio, shares): (i32, Vec<u64>)| Fairness {
        prio,
        tasks: shares.len() as u64,
        jain: index(&shares),
        least_percent: decimals(shares.iter().copied().min().unwrap_or(0), 4),
        most_percent: decimals(shares.iter().copied().max().unwrap_or(0), 4),
    };
    shares(tasks, end).into_iter().map(fairness).collect()
}

/// Returns Jain's index, rounded to four decimals.
pub(crate) fn index(shares: &[u64]) -> f64 {
    decimals(jain_myriad(shares), 4)
}

/// Returns Jain's index, `(sum x)^2 / (n sum x^2)`, in ten-thousandths. It is 10000 if all shares
/// are equal, and 10000 / n if one task has everything.
fn jain_myriad(shares: &[u64]) -> u64 {
    let sum: u128 = shares.iter().map(|&x| u128::from(x)).sum();
    let squares: u128 = shares.iter().map(|&x| u128::from(x) * u128::from(x)).sum();
    let denominator = squares * shares.len() as u128;
    let jain = (sum * sum * 10_000 + denominator / 2)
        .checked_div(denominator)
        .unwrap_or(10_000);
    u64::try_from(jain).unwrap_or(u64::MAX)
}

/// Returns Jain's fairness index of the CPU times of the largest group of tasks with the same name.
/// Digits and hyphens at the end of a name are ignored.
///
/// `RunResult::fairness` is not usable for real machines. It excludes tasks that have ever slept,
/// but on a real machine every thread sleeps when it starts.
pub(crate) fn fairness_by_name(r: &RunResult) -> Option<f64> {
    let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for task in &r.tasks {
        let name = task.comm.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        groups.entry(name).or_default().push(task.cpu_ns as f64);
    }
    let shares = groups
        .into_values()
        .filter(|shares| shares.len() > 1)
        .max_by_key(Vec::len)?;
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::TaskResult;

    #[test]
    fn known_shares_have_the_expected_index() {
        assert_eq!(jain_myriad(&[5, 5, 5, 5]), 10_000);
        assert_eq!(jain_myriad(&[7, 0, 0, 0]), 2_500);
        assert_eq!(jain_myriad(&[3, 1]), 8_000);
        assert_eq!(jain_myriad(&[0, 0]), 10_000);
        assert_eq!(jain_myriad(&vec![1_000_000; 100_000]), 10_000);
    }

    #[test]
    fn only_always_runnable_tasks_of_equal_priority_are_compared() {
        let task = |prio, cpu_ns, began| {
            let mut task = Task {
                prio,
                cpu_ns,
                ..Task::default()
            };
            task.begin(began);
            task
        };
        let tasks = [
            task(120, 300, 0),
            task(120, 50, 500),
            Task {
                slept: true,
                ..task(120, 1, 0)
            },
            Task {
                exited: true,
                ..task(120, 1, 0)
            },
            task(120, 1, 501),
            task(100, 9, 0),
        ];
        let tasks: Vec<(u32, Task)> = (1..).zip(tasks).collect();
        let fair = fairness(&tasks, 1000);
        assert_eq!(fair.len(), 1);
        // The shares are 30 % of 1000 ns and 10 % of 500 ns.
        assert_eq!((fair[0].prio, fair[0].tasks, fair[0].jain), (120, 2, 0.8));
        assert_eq!((fair[0].least_percent, fair[0].most_percent), (10.0, 30.0));
    }

    #[test]
    fn equal_cpu_times_are_fair_among_tasks_with_the_same_name() {
        let task = |comm: &str, cpu_ns| TaskResult {
            comm: comm.into(),
            cpu_ns,
            ..TaskResult::default()
        };
        let mut r = RunResult {
            tasks: vec![task("hog-1", 30), task("main", 7), task("hog-2", 10), task("nap1", 1)],
            ..RunResult::default()
        };
        assert_eq!(fairness_by_name(&r), Some(0.8));
        r.tasks.remove(0);
        assert_eq!(fairness_by_name(&r), None);
    }
}
