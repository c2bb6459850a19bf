// SPDX-License-Identifier: GPL-2.0-only
//! Executing a task's program, step by step.

use crate::machine::Machine;
use crate::task::{State, TaskId};
use workload::Workload;

/// Where a task is in its program.
#[derive(Default)]
pub struct Cursor {}

/// What the running task does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Work was set; the CPU is kept.
    Work,
    Yield,
    /// The task sleeps (or, with `State::Dead`, has exited).
    Block(State),
}

impl Cursor {
    pub fn new(_workload: &Workload, _program: u32, _now: u64) -> Cursor {
        Cursor {}
    }

    /// `ns` of CPU time were used on a CPU of `capacity`.
    pub fn consume(&mut self, _ns: u64, _capacity: u64) {}

    /// CPU time left of the work at hand on a CPU of `capacity`, ns.
    pub fn time_left(&self, _capacity: u64) -> u64 {
        0
    }

    pub fn work_done(&self) -> bool {
        true
    }

    /// The sleep of the current step is over.
    pub fn timer_expired(&mut self) {}
}

/// Executes the steps of the running task until one takes time.
pub(crate) fn advance(_m: &mut Machine, _cpu: u32, _task: TaskId) -> Next {
    Next::Block(State::Dead)
}

pub(crate) fn child_exited(_m: &mut Machine, _parent: TaskId) {}
