// SPDX-License-Identifier: GPL-2.0-only
//! Counters of one task. They are updated while the task's records are added.

use crate::histogram::Buckets;
use trace::{Activity, RunState, TaskState, Wait};

/// Counters of one task. All times are in ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    pub activity: Activity,
    pub prio: i32,
    pub cpu_ns: u64,
    /// Time during which the task was runnable without a CPU.
    pub wait_ns: u64,
    /// Number of waits for a CPU.
    pub waits: u64,
    /// Number of switches away from the task.
    pub switches: u64,
    /// Number of switches away from the task while it was still runnable.
    pub preemptions: u64,
    pub migrations: u64,
    /// Time at which the task was first runnable, plus 1. It is 0 if the task has not been runnable.
    /// (`Option<u64>` takes twice the memory.)
    pub began: u64,
    pub exited: bool,
    /// Whether the task has slept at least once.
    pub slept: bool,
    /// Number of the task's name in the summary's list of names.
    pub comm: u32,
    /// Whether the task is background work of the machine, which does not belong to the workload.
    pub noise: bool,
    /// Wake-up latencies.
    pub wakeup: Buckets<3>,
}

impl Task {
    /// Returns the time at which the task was first runnable.
    pub fn began(&self) -> Option<u64> {
        self.began.checked_sub(1)
    }

    /// Records that the task is runnable at this time.
    #[inline]
    pub fn begin(&mut self, now: u64) {
        if self.began == 0 {
            self.began = now.saturating_add(1);
        }
    }

    /// Makes the task runnable, unless it is already runnable.
    #[inline]
    pub fn wake(&mut self, now: u64) {
        if self.activity.state == RunState::Away {
            self.activity.wake(now);
            self.begin(now);
        }
    }

    /// Gives a CPU to the task. If the task has waited since a wake-up, returns the wake-up
    /// latency. The caller adds it to `wakeup`.
    #[inline]
    pub fn switch_in(&mut self, now: u64) -> Option<u64> {
        let wait = self.activity.switch_in(now);
        self.begin(now);
        self.add_wait(wait)
    }

    /// Takes the CPU from the task, which has run for `ns`.
    #[inline]
    pub fn switch_out(&mut self, now: u64, ns: u64, state: TaskState) {
        self.cpu_ns = self.cpu_ns.saturating_add(ns);
        self.switches += 1;
        self.activity.switch_out(now, state);
        match state {
            TaskState::Running => self.preemptions += 1,
            TaskState::Interruptible | TaskState::Uninterruptible => self.slept = true,
            TaskState::Dead => self.exited = true,
        }
    }

    /// Counts the wait of a task that still waits at the end of the run. If the wait began with a
    /// wake-up, returns its length. It is not in `wakeup`; see [`Task::wakeup_until`].
    pub fn end_wait(&mut self, now: u64) -> Option<u64> {
        let wait = self.activity.wait(now);
        self.add_wait(wait)
    }

    /// Returns the wake-up latencies, including that of a task that still waits at the end of the run.
    pub fn wakeup_until(&self, end: u64) -> Buckets<3> {
        let mut wakeup = self.wakeup.clone();
        if let Some(wait) = self.activity.wait(end).filter(|wait| wait.woken) {
            wakeup.add(wait.ns);
        }
        wakeup
    }

    #[inline]
    fn add_wait(&mut self, wait: Option<Wait>) -> Option<u64> {
        let wait = wait?;
        self.wait_ns = self.wait_ns.saturating_add(wait.ns);
        self.waits += 1;
        wait.woken.then_some(wait.ns)
    }

    /// Returns whether the task was always runnable from its start to the end, and existed for at
    /// least half of the run. The CPU time of such a task depends only on the policy, not on how
    /// much CPU time the task wanted.
    pub fn always_runnable(&self, end: u64) -> bool {
        !self.slept
            && !self.exited
            && self
                .began()
                .is_some_and(|began| end.saturating_sub(began) >= end.div_ceil(2))
    }
}
