// SPDX-License-Identifier: GPL-2.0-only
//! CPUs and what they share.

use crate::costs::ByDistance;

/// One logical CPU. Ids of cores, LLCs, nodes and packages are dense and start at 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    pub core: u32,
    /// Position among the hardware threads of its core; 0 is the first.
    pub thread: u32,
    pub llc: u32,
    pub node: u32,
    pub package: u32,
    /// Computing speed relative to the fastest CPU, 1024 = fastest (arch_scale_cpu_capacity).
    pub capacity: u32,
    /// Cache sizes in bytes as this CPU sees them; 0 where there is none.
    pub l1d_bytes: u64,
    pub l2_bytes: u64,
    pub llc_bytes: u64,
}

/// task_structs lie at multiples of a power of two, so that an L2 keeps what is looked at of few of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSets {
    /// Bytes from one task_struct to the next.
    pub apart: u64,
    /// Ways of the L2.
    pub ways: u32,
    /// Transfer of the one line that a choice looks at, last written by distance, ns.
    pub line: ByDistance,
}

impl TaskSets {
    /// Sets of an L2 of so many bytes in which task_structs begin: 1 or more.
    pub fn count(&self, l2_bytes: u64) -> u64 {
        (l2_bytes / self.apart / u64::from(self.ways)).max(1)
    }
}

/// How far apart two CPUs are, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// The same CPU.
    Same,
    /// Hardware threads of one core.
    Core,
    /// Cores that share a last-level cache.
    Llc,
    /// CPUs of one NUMA node in different LLCs.
    Node,
    /// Different NUMA nodes.
    Remote,
}

/// The CPUs of a machine, in CPU id order, and the node distances.
#[derive(Clone, Debug)]
pub struct Topology {
    pub cpus: Vec<Cpu>,
    /// CPU ids of each core, LLC, node and package, ascending.
    pub cores: Vec<Vec<u32>>,
    pub llcs: Vec<Vec<u32>>,
    pub nodes: Vec<Vec<u32>>,
    pub packages: Vec<Vec<u32>>,
    /// SLIT distances between nodes, 10 = local.
    pub node_distances: Vec<Vec<u32>>,
    /// All data of the kernel are on this node, and caches get what others share from memory; `None`, as made: data are where
    /// they are used, and what others share comes from the nearest cache.
    pub kernel_node: Option<u32>,
    /// Which task_structs the L2s have room for; `None`, as made: all.
    pub task_sets: Option<TaskSets>,
    /// node, LLC and core of each CPU in one word, see [`Topology::distance`].
    places: Vec<u64>,
}

/// Bits of one id in a word of `places`; there are at most [`crate::MAX_CPUS`] of anything.
const ID_BITS: u32 = 20;
const ID_MASK: u64 = (1 << ID_BITS) - 1;

impl Topology {
    /// Groups the CPUs by their ids. `node_distances` may be empty: then 10 local and 20 remote.
    pub fn new(cpus: Vec<Cpu>, node_distances: Vec<Vec<u32>>) -> Topology {
        fn group(cpus: &[Cpu], id: impl Fn(&Cpu) -> u32) -> Vec<Vec<u32>> {
            let mut groups: Vec<Vec<u32>> = Vec::new();
            for (cpu, info) in cpus.iter().enumerate() {
                let id = id(info) as usize;
                if groups.len() <= id {
                    groups.resize(id + 1, Vec::new());
                }
                groups[id].push(cpu as u32);
            }
            groups
        }
        let nodes = group(&cpus, |c| c.node);
        let node_distances = if node_distances.is_empty() {
            (0..nodes.len())
                .map(|a| (0..nodes.len()).map(|b| if a == b { 10 } else { 20 }).collect())
                .collect()
        } else {
            node_distances
        };
        Topology {
            cores: group(&cpus, |c| c.core),
            llcs: group(&cpus, |c| c.llc),
            packages: group(&cpus, |c| c.package),
            nodes,
            node_distances,
            kernel_node: None,
            task_sets: None,
            places: cpus
                .iter()
                .map(|c| {
                    let (core, llc, node) = (c.core.into(), c.llc.into(), c.node.into());
                    assert!([core, llc, node].iter().all(|&id: &u64| id <= ID_MASK));
                    core | llc << ID_BITS | node << (2 * ID_BITS)
                })
                .collect(),
            cpus,
        }
    }

    /// Returns what does not lie inside each other: a core's CPUs share a cache and a node; a cache lies in a node, or a
    /// node in a cache. Scheduling domains rely on it.
    pub(crate) fn not_nested(&self) -> Option<String> {
        let cpus_of = |cpus: &[u32]| cpus.iter().map(|&cpu| &self.cpus[cpu as usize]).collect::<Vec<_>>();
        for (core, cpus) in self.cores.iter().enumerate() {
            let cpus = cpus_of(cpus);
            if cpus
                .windows(2)
                .any(|two| (two[0].llc, two[0].node) != (two[1].llc, two[1].node))
            {
                return Some(format!("the threads of core {core} are in different caches or nodes"));
            }
        }
        for (llc, cpus) in self.llcs.iter().enumerate() {
            let cpus = cpus_of(cpus);
            let one_node = cpus.windows(2).all(|two| two[0].node == two[1].node);
            let whole_nodes = || {
                let nodes = cpus.iter().map(|cpu| &self.nodes[cpu.node as usize]);
                nodes.flatten().all(|&cpu| self.cpus[cpu as usize].llc as usize == llc)
            };
            if !one_node && !whole_nodes() {
                return Some(format!("last-level cache {llc} has parts of several nodes"));
            }
        }
        None
    }

    pub fn nr_cpus(&self) -> u32 {
        self.cpus.len() as u32
    }

    /// How far apart two CPUs are. O(1): one load per CPU and a few tests.
    #[inline]
    pub fn distance(&self, a: u32, b: u32) -> Distance {
        let differ = self.places[a as usize] ^ self.places[b as usize];
        if a == b {
            Distance::Same
        } else if differ & ID_MASK == 0 {
            Distance::Core
        } else if (differ >> ID_BITS) & ID_MASK == 0 {
            Distance::Llc
        } else if differ >> (2 * ID_BITS) == 0 {
            Distance::Node
        } else {
            Distance::Remote
        }
    }

    /// The hardware threads of a CPU's core, itself included, ascending.
    pub fn siblings(&self, cpu: u32) -> &[u32] {
        &self.cores[self.cpus[cpu as usize].core as usize]
    }

    /// The CPUs that share a CPU's last-level cache, itself included, ascending.
    pub fn llc_cpus(&self, cpu: u32) -> &[u32] {
        &self.llcs[self.cpus[cpu as usize].llc as usize]
    }

    /// The CPUs of a CPU's NUMA node, itself included, ascending.
    pub fn node_cpus(&self, cpu: u32) -> &[u32] {
        &self.nodes[self.cpus[cpu as usize].node as usize]
    }

    /// The CPUs of a CPU's package, itself included, ascending.
    pub fn package_cpus(&self, cpu: u32) -> &[u32] {
        &self.packages[self.cpus[cpu as usize].package as usize]
    }

    /// SLIT distance between the nodes of two CPUs, 10 = the same node.
    pub fn node_distance(&self, a: u32, b: u32) -> u32 {
        let (a, b) = (self.cpus[a as usize].node, self.cpus[b as usize].node);
        self.node_distances[a as usize][b as usize]
    }
}
