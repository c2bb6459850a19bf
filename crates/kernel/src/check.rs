// SPDX-License-Identifier: GPL-2.0-only
//! Checkers that watch the machine and never steer it.
//!
//! Always on: work conservation. `idle_while_waiting_ns` adds up the time in which a CPU idled while a task that could
//! have run somewhere waited, counting as many CPUs as there were waiting tasks.

use crate::task::{IDLE, TaskId};

#[derive(Default)]
pub struct Checks {
    /// Runnable tasks that are not running.
    pub nr_waiting: u64,
    pub nr_idle: u64,
    last: u64,
    /// The integral over min(idle CPUs, waiting tasks), ns.
    pub idle_while_waiting_ns: u64,
}

impl Checks {
    fn advance(&mut self, now: u64) {
        self.idle_while_waiting_ns += (now - self.last) * self.nr_waiting.min(self.nr_idle);
        self.last = now;
    }

    pub(crate) fn queued(&mut self, now: u64, _task: TaskId) {
        self.advance(now);
        self.nr_waiting += 1;
    }

    pub(crate) fn dequeued(&mut self, now: u64, _task: TaskId, on_cpu: bool) {
        self.advance(now);
        self.nr_waiting -= u64::from(!on_cpu);
    }

    pub(crate) fn switched(&mut self, now: u64, prev: TaskId, prev_runnable: bool, next: TaskId) {
        self.advance(now);
        if prev == IDLE {
            self.nr_idle -= 1;
        } else {
            self.nr_waiting += u64::from(prev_runnable);
        }
        if next == IDLE {
            self.nr_idle += 1;
        } else {
            self.nr_waiting -= 1;
        }
    }
}
