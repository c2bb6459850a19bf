// SPDX-License-Identifier: GPL-2.0-only
//! State of a policy's BPF timers.

use crate::simulation::id::CpuId;
use std::collections::BTreeMap;

/// All timers that the policy has started. A timer fires on the CPU that started it, whether or not
/// it was pinned to it.
#[derive(Default)]
pub struct Timers {
    pub(crate) slots: Vec<Timer>,
    pub(crate) by_addr: BTreeMap<u64, u32>,
}

pub(crate) struct Timer {
    pub(crate) addr: u64,
    pub(crate) cpu: CpuId,
    /// Number of the pending start, from [`Core::timer_starts`](crate::sched::ext::core::Core). An
    /// event with another number is obsolete: the timer was restarted or cancelled, or the policy
    /// has been unloaded.
    pub(crate) pending: Option<u32>,
}
