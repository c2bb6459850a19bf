// SPDX-License-Identifier: GPL-2.0-only
//! The number of a CPU.

use crate::simulation::table::id;

id! {
    /// A CPU of the machine.
    CpuId
}

impl CpuId {
    /// Its number in Linux.
    #[inline(always)]
    pub fn nr(self) -> u32 {
        self.0
    }
}
