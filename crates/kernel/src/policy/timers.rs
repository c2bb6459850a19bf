// SPDX-License-Identifier: GPL-2.0-only
//! State of the BPF timers of a policy (BPF scheduler).

use crate::simulation::id::CpuId;
use std::collections::BTreeMap;

/// All timers that the policy has started. A timer always fires on the CPU that started it, even if
/// it was not pinned to that CPU.
#[derive(Default)]
pub struct Timers {
    pub(crate) slots: Vec<Timer>,
    /// Index in `slots` of each timer, by the address of its struct bpf_timer.
    pub(crate) by_addr: BTreeMap<u64, u32>,
}

pub(crate) struct Timer {
    pub(crate) addr: u64,
    pub(crate) cpu: CpuId,
    /// Generation number of the pending start, from
    /// [`Core::timer_starts`](crate::sched::ext::core::Core). `None` if the timer is not pending.
    /// Timer events with another number are ignored. They are left over if the timer was restarted
    /// or cancelled, or if the policy was unloaded.
    pub(crate) pending: Option<u32>,
}
