// SPDX-License-Identifier: GPL-2.0-only
//! State of NO_HZ_FULL, see `sched::nohz_full`.

use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::CpuId;
use machine::MachineSpec;

/// State of NO_HZ_FULL.
pub(crate) struct NohzFull {
    /// CPUs whose tick can stop.
    cpus: CpuSet,
    on: bool,
    /// CPUs to which an IPI that starts the tick again has been sent.
    pub(crate) kicked: CpuSet,
}

impl NohzFull {
    pub(crate) fn new(spec: &MachineSpec) -> NohzFull {
        NohzFull {
            cpus: CpuSet::from_cpus(spec.topology.nr_cpus(), &spec.nohz_full),
            kicked: CpuSet::empty(spec.topology.nr_cpus()),
            on: !spec.nohz_full.is_empty(),
        }
    }

    /// Returns whether a CPU is one of those without a tick (tick_nohz_full_cpu).
    #[inline]
    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        self.on && self.cpus.contains(cpu)
    }
}
