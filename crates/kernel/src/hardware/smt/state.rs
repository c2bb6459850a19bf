// SPDX-License-Identifier: GPL-2.0-only
//! Contention between hardware threads, see `hardware::smt`.

use crate::simulation::id::CpuId;
use crate::simulation::table::Id;
use machine::MachineSpec;
use machine::smt::FULL_SPEED;

/// Contention between the hardware threads of each core.
pub(crate) struct Smt {
    /// Speed of a CPU in 1/1024 of its full speed. The index is one less than the number of busy
    /// CPUs of the CPU's core. Empty if CPUs do not slow each other.
    pub(crate) speeds: Vec<u64>,
    /// CPUs of each core.
    pub(crate) cores: Vec<Vec<CpuId>>,
    /// Core of each CPU.
    pub(crate) core_of: Vec<usize>,
    /// Number of busy CPUs of each core.
    pub(crate) busy: Vec<usize>,
}

impl Smt {
    pub(crate) fn new(spec: &MachineSpec) -> Smt {
        let speeds = &spec.smt_throughput;
        let contended = speeds.iter().any(|&speed| speed != FULL_SPEED);
        let speeds = if contended { &speeds[..] } else { &[] };
        let core_of: Vec<usize> = spec.topology.cpus.iter().map(|cpu| cpu.core as usize).collect();
        let mut cores = vec![Vec::new(); spec.topology.cores.len()];
        for (cpu, &core) in core_of.iter().enumerate() {
            cores[core].push(CpuId::new(cpu));
        }
        Smt {
            speeds: speeds.iter().map(|&speed| speed.into()).collect(),
            busy: vec![0; cores.len()],
            cores,
            core_of,
        }
    }
}
