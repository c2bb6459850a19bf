// SPDX-License-Identifier: GPL-2.0-only
//! Regular machines, which consist of equal CPUs in groups of equal size. Experiments and tests use
//! them if they do not need a particular machine.

use crate::costs::{ByDistance, CONSTANTS, Costs, Slot};
use crate::message::{CHANNELS, MessageCosts};
use crate::topology::{Cpu, Topology};
use crate::{CpuIdle, KernelConfig, MAX_CPUS, MachineSpec, smt};

impl MachineSpec {
    /// Returns a machine with `nodes` packages, each of which is a NUMA node with `llcs` last-level
    /// caches. Each LLC has `cores` cores with `threads` hardware threads. Threads of a core have
    /// consecutive numbers. The machine has 1000 ticks per second and default costs.
    ///
    /// # Panics
    /// If there are no CPUs, or more than [`MAX_CPUS`].
    pub fn regular(nodes: u32, llcs: u32, cores: u32, threads: u32) -> MachineSpec {
        let nr_cpus = nodes * llcs * cores * threads;
        assert!((1..=MAX_CPUS).contains(&nr_cpus), "{nr_cpus} CPUs");
        let cpu = |cpu| Cpu {
            core: cpu / threads,
            thread: cpu % threads,
            llc: cpu / (threads * cores),
            node: cpu / (threads * cores * llcs),
            package: cpu / (threads * cores * llcs),
            capacity: 1024,
            l1d_bytes: 32 << 10,
            l2_bytes: 1 << 20,
            llc_bytes: 32 << 20,
        };
        let topology = Topology::new((0..nr_cpus).map(cpu).collect(), Vec::new());
        MachineSpec {
            name: format!("regular-{nodes}x{llcs}x{cores}x{threads}"),
            description: String::new(),
            smt_throughput: smt::default_throughput(&topology),
            turn_ns: 0,
            topology,
            hz: 1000,
            cpuperf_min: 1024,
            frequency: crate::Frequency::default(),
            priorities: Vec::new(),
            nohz_full: Vec::new(),
            speeds: Vec::new(),
            kernel: KernelConfig::default(),
            noise: None,
            cpuidle: CpuIdle::default(),
            costs: Costs::default(),
        }
    }

    /// Returns a machine with `nr_cpus` single-threaded cores that share a last-level cache.
    ///
    /// # Panics
    /// The same as those of [`MachineSpec::regular`].
    pub fn smp(nr_cpus: u32) -> MachineSpec {
        MachineSpec::regular(1, 1, nr_cpus, 1)
    }

    /// Returns the machine with all costs set to 0, so that the kernel's own work takes no time.
    /// Hardware threads of a core still slow each other.
    pub fn free(mut self) -> MachineSpec {
        self.costs = Costs::none();
        self.cpuidle = CpuIdle::default();
        self
    }
}

impl Costs {
    /// Returns a table in which all costs are 0, so that a schedule shows only the decisions.
    pub fn none() -> Costs {
        let mut costs = Costs::default();
        for constant in &CONSTANTS {
            match constant.slot {
                Slot::Ps(cost) | Slot::Ns(cost) | Slot::MbPerS(cost) => *cost(&mut costs) = 0,
                Slot::ByDistance(cost) => *cost(&mut costs) = ByDistance::default(),
            }
        }
        for kind in &CHANNELS {
            *(kind.row)(&mut costs) = MessageCosts::default();
        }
        costs.kfuncs.clear();
        costs.native = false;
        costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distance;

    #[test]
    fn cpus_are_numbered_from_the_thread_up() {
        let machine = MachineSpec::regular(2, 2, 3, 2);
        let topology = &machine.topology;
        assert_eq!(topology.nr_cpus(), 24);
        assert_eq!(topology.siblings(3), [2, 3]);
        assert_eq!(topology.llc_cpus(0), [0, 1, 2, 3, 4, 5]);
        assert_eq!(topology.node_cpus(12), (12..24).collect::<Vec<u32>>());
        let from_0 = [1, 2, 6, 12].map(|cpu| topology.distance(0, cpu));
        assert_eq!(
            from_0,
            [Distance::Core, Distance::Llc, Distance::Node, Distance::Remote]
        );
        assert_eq!(MachineSpec::smp(4).topology.cores.len(), 4);
    }

    #[test]
    fn a_free_machine_has_no_costs() {
        let mut costs = MachineSpec::smp(1).free().costs;
        for constant in &CONSTANTS {
            match constant.slot {
                Slot::Ps(cost) | Slot::Ns(cost) | Slot::MbPerS(cost) => {
                    assert_eq!(*cost(&mut costs), 0, "{}", constant.name);
                }
                Slot::ByDistance(cost) => assert_eq!(cost(&mut costs).values(), [0; 5], "{}", constant.name),
            }
        }
        for kind in &CHANNELS {
            assert_eq!(*(kind.row)(&mut costs), MessageCosts::default(), "{}", kind.name);
        }
    }
}
