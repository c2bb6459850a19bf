// SPDX-License-Identifier: GPL-2.0-only
//! Contention between hardware threads, see `hardware::smt`.

use crate::simulation::id::CpuId;
use crate::simulation::table::Id;
use machine::MachineSpec;
use machine::smt::FULL_SPEED;

/// Contention between the hardware threads of each core, or between all CPUs.
pub(crate) struct Smt {
    /// Speed of a CPU in 1/1024 of its full speed. The index is one less than the number of busy
    /// CPUs in the CPU's part of the machine. Empty if CPUs do not slow each other.
    pub(crate) speeds: Vec<u64>,
    /// The parts of the machine whose CPUs slow each other: the cores, or the whole machine.
    pub(crate) parts: Vec<Vec<CpuId>>,
    /// Part of each CPU.
    pub(crate) part_of: Vec<usize>,
    /// Number of busy CPUs of each part.
    pub(crate) busy: Vec<usize>,
    /// Whether busy CPUs also lengthen the costs of the kernel and the policy.
    pub(crate) stretches_costs: bool,
}

impl Smt {
    pub(crate) fn new(spec: &MachineSpec) -> Smt {
        let shared = !spec.shared_speed.is_empty();
        let speeds = if shared {
            &spec.shared_speed
        } else {
            &spec.smt_throughput
        };
        let contended = speeds.iter().any(|&speed| speed != FULL_SPEED);
        let speeds = if contended { &speeds[..] } else { &[] };
        let cpus = &spec.topology.cpus;
        let part_of: Vec<usize> = cpus
            .iter()
            .map(|cpu| if shared { 0 } else { cpu.core as usize })
            .collect();
        let mut parts = vec![Vec::new(); if shared { 1 } else { spec.topology.cores.len() }];
        for (cpu, &part) in part_of.iter().enumerate() {
            parts[part].push(CpuId::new(cpu));
        }
        Smt {
            speeds: speeds.iter().map(|&speed| speed.into()).collect(),
            busy: vec![0; parts.len()],
            parts,
            part_of,
            stretches_costs: shared && contended,
        }
    }
}
