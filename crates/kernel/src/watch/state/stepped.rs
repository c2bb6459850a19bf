// SPDX-License-Identifier: GPL-2.0-only
//! Data for the log of a script (`stepping`) that trace records do not contain.

use crate::simulation::id::CpuId;
use crate::simulation::prandom::Prandom;

/// Part of the scheduler that is moving tasks to other CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mover {
    #[default]
    None,
    /// sched_balance_rq()
    Balance {
        cpu: CpuId,
        level: usize,
        /// State of the CPU that pulls: `busy`, `idle` or `newidle`.
        idle: &'static str,
    },
    /// active_load_balance_cpu_stop()
    ActiveBalance,
    /// migration_cpu_stop()
    Stopper,
    RtPush,
    RtPull,
    Hotplug,
}

/// Events of the current line of a script that are not trace records.
#[derive(Debug, Default)]
pub(crate) struct Stepped {
    /// Texts of events in the order in which they happened, each with the number of trace records
    /// that precede the event.
    pub(crate) events: Vec<(usize, String)>,
    /// Random generators of the CPUs for policies (bpf_user_rnd_state). Their first values are those
    /// that the stepped kernel gets.
    pub(crate) bpf_random: Vec<Prandom>,
}
