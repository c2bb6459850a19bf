// SPDX-License-Identifier: GPL-2.0-only
//! The types that identify tasks, CPUs and the deadline servers of a CPU.

use super::table::id;
use std::fmt;

id! {
    /// The number of a CPU of the machine.
    CpuId
}

id! {
    /// The slot of a task, which is its index in the table of tasks. Slots are reused after a task
    /// exits, pids are not.
    TaskId
}

/// Identifies the idle task of any CPU, which runs if the CPU has no other task to run. The table
/// of tasks does not contain it.
pub const IDLE: TaskId = TaskId(u32::MAX);

/// A deadline server of a CPU, named after the class that it reserves CPU time for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// `rq->fair_server`
    Fair,
    /// `rq->ext_server`
    Ext,
}

impl Server {
    pub const ALL: [Server; 2] = [Server::Fair, Server::Ext];
}

impl TaskId {
    /// Returns the slot as a plain number, for use as an index in other tables.
    #[inline(always)]
    pub fn slot(self) -> u32 {
        self.0
    }
}

impl CpuId {
    /// CPU 0, which every machine has.
    pub const BOOT: CpuId = CpuId(0);

    /// Returns the number as an integer, for trace records, policies and messages.
    #[inline(always)]
    pub fn nr(self) -> u32 {
        self.0
    }

    /// Returns the number as an index of a slice.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<CpuId> for u64 {
    #[inline(always)]
    fn from(cpu: CpuId) -> u64 {
        cpu.0.into()
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
