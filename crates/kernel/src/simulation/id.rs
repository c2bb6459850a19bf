// SPDX-License-Identifier: GPL-2.0-only
//! The numbers of tasks.

use super::table::id;

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
