// SPDX-License-Identifier: GPL-2.0-only
//! What is kept of one task while its records pass.

use crate::histogram::Histogram;
use trace::TaskState;

/// Where a task is, as far as the trace has told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// Sleeping, not yet woken for the first time, or gone.
    #[default]
    Away,
    /// Runnable without a CPU since `Task::since`, after a wake-up.
    Woken,
    /// Runnable without a CPU since `Task::since`, after losing it.
    Preempted,
    OnCpu,
}

/// One task's counters; all times in ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    pub at: Whereabouts,
    pub since: u64,
    pub prio: i32,
    pub cpu_ns: u64,
    /// Runnable without a CPU.
    pub wait_ns: u64,
    /// How often it waited.
    pub waits: u64,
    /// Times it left a CPU.
    pub switches: u64,
    /// Those while still runnable.
    pub preemptions: u64,
    pub migrations: u64,
    /// First time it was runnable.
    pub began: Option<u64>,
    pub exited: bool,
    /// It has slept at least once.
    pub slept: bool,
    pub comm: String,
    pub wakeup: Histogram<3>,
}

impl Task {
    /// It is runnable from now on, if it was not already.
    #[inline]
    pub fn wake(&mut self, now: u64) {
        if self.at == Whereabouts::Away {
            self.at = Whereabouts::Woken;
            self.since = now;
            self.began.get_or_insert(now);
        }
    }

    /// It gets a CPU. Gives the latency, for `wakeup`, if this ends a wake-up.
    #[inline]
    pub fn switch_in(&mut self, now: u64) -> Option<u64> {
        let latency = self.stop_waiting(now);
        self.began.get_or_insert(now);
        self.at = Whereabouts::OnCpu;
        latency
    }

    /// It leaves its CPU after `ns` there.
    #[inline]
    pub fn switch_out(&mut self, now: u64, ns: u64, state: TaskState) {
        self.cpu_ns = self.cpu_ns.saturating_add(ns);
        self.switches += 1;
        self.since = now;
        self.at = match state {
            TaskState::Running => {
                self.preemptions += 1;
                Whereabouts::Preempted
            }
            TaskState::Interruptible | TaskState::Uninterruptible => {
                self.slept = true;
                Whereabouts::Away
            }
            TaskState::Dead => {
                self.exited = true;
                Whereabouts::Away
            }
        };
    }

    /// Accounts a wait that ends now, or that the run's end cuts off. One after a wake-up is for the caller to add to `wakeup`.
    #[inline]
    pub fn stop_waiting(&mut self, now: u64) -> Option<u64> {
        if !matches!(self.at, Whereabouts::Woken | Whereabouts::Preempted) {
            return None;
        }
        let waited = now.saturating_sub(self.since);
        self.wait_ns = self.wait_ns.saturating_add(waited);
        self.waits += 1;
        if self.at == Whereabouts::Preempted {
            return None;
        }
        Some(waited)
    }

    /// Runnable from its first moment to the end, and that at least for half of the run: CPU time
    /// of such tasks is what a policy gave them, not what they asked for.
    pub fn always_runnable(&self, end: u64) -> bool {
        !self.slept
            && !self.exited
            && self
                .began
                .is_some_and(|began| end.saturating_sub(began) >= end.div_ceil(2))
    }
}
