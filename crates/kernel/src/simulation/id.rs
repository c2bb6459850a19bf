// SPDX-License-Identifier: GPL-2.0-only
//! The numbers of tasks.

use super::table::id;
use std::fmt;

id! {
    /// Number of a CPU of the machine.
    CpuId
}

id! {
    /// A task's slot. Slots are used again after exit; pids are not.
    TaskId
}

/// The task that runs on a CPU which has nothing else to run. It is in no table.
pub const IDLE: TaskId = TaskId(u32::MAX);

impl TaskId {
    /// Number of the slot, for what is kept by slot elsewhere.
    #[inline(always)]
    pub fn slot(self) -> u32 {
        self.0
    }
}

impl CpuId {
    /// CPU 0, which every machine has.
    pub const BOOT: CpuId = CpuId(0);

    /// Returns the plain number, for records, policies and messages.
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

impl PartialEq<u32> for CpuId {
    fn eq(&self, other: &u32) -> bool {
        self.0 == *other
    }
}
