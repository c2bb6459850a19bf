// SPDX-License-Identifier: GPL-2.0-only
//! The BPF timers of a policy.

use crate::simulation::id::CpuId;
use std::collections::BTreeMap;

/// The policy's timers that were ever started. A timer fires on the CPU that started it, pinned there or not.
#[derive(Default)]
pub struct Timers {
    pub(crate) slots: Vec<Timer>,
    pub(crate) by_addr: BTreeMap<u64, u32>,
}

pub(crate) struct Timer {
    pub(crate) addr: u64,
    pub(crate) cpu: CpuId,
    /// Number of the start that is pending ([`Core::timer_starts`](crate::sched::ext::core::Core)), or `None`. An event of another number is
    /// of a timer that was started anew or cancelled, or of a policy that is gone.
    pub(crate) pending: Option<u32>,
}
