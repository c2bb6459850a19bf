// SPDX-License-Identifier: GPL-2.0-only
//! A run that has ended: the counts from which [`RunResult::computed`] computes the figures.

use super::{Callback, Lock, Summary};
use crate::figures::RunResult;
use crate::result::{
    CallbackResult, FrequencyResult, IdleStateResult, LockResult, NoiseResult, Run, TaskResult, Throughput, decimals,
    percent, ratio,
};
use crate::score::{Measured, Score, score};
use crate::task::Task;
use std::cmp::Reverse;

/// A run that has ended, with all data from which figures are computed.
pub(crate) struct Ended<'a> {
    pub run: &'a Run,
    pub counts: &'a Summary,
    /// All tasks with their pids, in the order of the pids.
    pub tasks: &'a [(u32, Task)],
    /// All locks. The lock with the longest total wait is the first.
    pub locks: Vec<LockResult>,
    pub throughput: Throughput,
    pub score: Score,
    /// Sum over all CPUs of the time in ns during which the CPU was online.
    pub cpu_ns: u128,
}

impl<'a> Ended<'a> {
    pub(super) fn new(counts: &'a mut Summary, tasks: &'a [(u32, Task)], run: &'a Run) -> Ended<'a> {
        let mut locks = match run.lock_waits.is_empty() {
            true => lock_results(std::mem::take(&mut counts.locks).into_sorted(), &run.locks),
            false => run.lock_waits.clone(),
        };
        // The sort is stable, so locks with equal waits stay ordered by number.
        locks.sort_by_key(|lock| Reverse((lock.wait_ns, lock.acquisitions)));
        let end = run.simulated_ns;
        let measured_ns = end.saturating_sub(counts.measured_from);
        let per_second = ratio(
            u128::from(counts.operations) * 1_000_000_000,
            u128::from(measured_ns),
            10,
        );
        let throughput = Throughput {
            unit: run.unit.clone(),
            operations: counts.operations,
            per_second: decimals(per_second, 1),
        };
        let score = score(
            run.score,
            &Measured {
                ns: measured_ns,
                throughput: &throughput,
                switches: counts.switches,
                responses: counts.response.count(),
                response_ns: counts.response.mean(),
                completed: run.completed,
            },
        );
        Ended {
            cpu_ns: (u128::from(end) * counts.cpus.len() as u128).saturating_sub(counts.offline_ns),
            run,
            counts,
            tasks,
            locks,
            throughput,
            score,
        }
    }

    /// Returns the totals of each callback. If the run counted callbacks, these are its counts.
    /// Otherwise the totals are computed from the records.
    pub fn callbacks(&self) -> Vec<CallbackResult> {
        match self.run.callbacks.is_empty() {
            true => callback_results(&self.counts.callbacks, &self.run.ops),
            false => self.run.callbacks.clone(),
        }
    }

    /// Returns the time that the CPUs spent in each idle state.
    pub fn idle_states(&self) -> Vec<IdleStateResult> {
        let states = self.run.idle_states.iter();
        let result = |(name, ns): &(String, u64)| IdleStateResult {
            name: name.clone(),
            ns: *ns,
            percent: percent((*ns).into(), self.cpu_ns),
        };
        states.map(result).collect()
    }

    /// Returns the mean frequency of each CPU.
    pub fn frequencies(&self) -> Vec<FrequencyResult> {
        let cpus = (0..).zip(&self.run.frequencies);
        let result = |(cpu, &(busy_ns, mean)): (u32, &(u64, u64))| FrequencyResult {
            cpu,
            busy_ns,
            percent: percent(mean.into(), 1024),
        };
        cpus.map(result).collect()
    }

    /// Returns the totals of the background work, or `None` if the machine has none.
    pub fn noise(&self) -> Option<NoiseResult> {
        let noise = self.counts.noise;
        (noise.tasks > 0).then(|| NoiseResult {
            tasks: noise.tasks,
            cpu_ns: u64::try_from(noise.cpu_ns).unwrap_or(u64::MAX),
            percent: percent(noise.cpu_ns, self.cpu_ns),
            switches: noise.switches,
            wakeups: noise.wakeups,
        })
    }

    pub fn lock_wait_ns(&self) -> u64 {
        self.locks.iter().fold(0, |sum, lock| sum.saturating_add(lock.wait_ns))
    }

    /// Returns the CPU time of all tasks, divided by the number of switches away from them. It is 0 if
    /// there was no switch.
    pub fn turn_mean_ns(&self) -> u64 {
        let tasks = || self.tasks.iter().map(|(_, task)| task).filter(|task| !task.noise);
        let (cpu_ns, turns) = tasks().fold((0_u128, 0_u64), |(ns, turns), task| {
            (ns + u128::from(task.cpu_ns), turns.saturating_add(task.switches))
        });
        let mean = cpu_ns.checked_div(u128::from(turns)).unwrap_or(0);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// Returns the tasks with the most CPU time, in descending order of their CPU time.
    pub fn longest_running(&self) -> Vec<TaskResult> {
        // The longest tasks so far, without a list of all tasks.
        let mut longest: Vec<&(u32, Task)> = Vec::with_capacity(RunResult::TASKS + 1);
        for entry in self.tasks {
            let at = longest.partition_point(|(_, longer)| longer.cpu_ns >= entry.1.cpu_ns);
            if at < RunResult::TASKS {
                longest.insert(at, entry);
                longest.truncate(RunResult::TASKS);
            }
        }
        let result = |(pid, task): &(u32, Task)| TaskResult {
            pid: *pid,
            comm: self.counts.names.get(task.comm).to_owned(),
            prio: task.prio,
            cpu_ns: task.cpu_ns,
            wait_ns: task.wait_ns,
            waits: task.waits,
            switches: task.switches,
            preemptions: task.preemptions,
            migrations: task.migrations,
            wakeup_latency_p99_ns: task.wakeup_until(self.run.simulated_ns).quantile(990_000),
        };
        longest.into_iter().map(result).collect()
    }
}

fn callback_results(callbacks: &[Callback], names: &[String]) -> Vec<CallbackResult> {
    let result = |(op, callback): (usize, &Callback)| {
        let name = names.get(op).cloned().unwrap_or_else(|| format!("callback {op}"));
        CallbackResult::new(&name, callback.count, callback.insns, u64::from(callback.max))
    };
    callbacks
        .iter()
        .enumerate()
        .filter(|(_, callback)| callback.count > 0)
        .map(result)
        .collect()
}

fn lock_results(locks: Vec<(u32, Lock)>, names: &[String]) -> Vec<LockResult> {
    let result = |(number, lock): (u32, Lock)| LockResult {
        lock: names
            .get(number as usize)
            .cloned()
            .unwrap_or_else(|| format!("lock {number}")),
        waits: lock.waits,
        wait_ns: lock.ns,
        wait_max_ns: lock.max,
        ..LockResult::default()
    };
    locks.into_iter().map(result).collect()
}
