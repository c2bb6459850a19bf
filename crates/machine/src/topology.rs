// SPDX-License-Identifier: GPL-2.0-only
//! The topology of a machine: its CPUs, and the cores, caches and nodes that they share.

use crate::costs::ByDistance;
use serde::Serialize;

/// A logical CPU. Ids of cores, LLCs, nodes and packages start at 0 and have no gaps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cpu {
    pub core: u32,
    /// Number of the hardware thread within its core, starting at 0.
    pub thread: u32,
    pub llc: u32,
    pub node: u32,
    pub package: u32,
    /// Computing speed relative to the fastest CPU, which has 1024 (arch_scale_cpu_capacity).
    pub capacity: u32,
    /// Sizes of the caches that this CPU uses, in bytes; 0 for a missing cache.
    pub l1d_bytes: u64,
    pub l2_bytes: u64,
    pub llc_bytes: u64,
}

/// Placement of task_structs at addresses that are multiples of a power of two. All task_structs
/// then map to the same few sets of an L2, which can therefore cache only a few of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TaskSets {
    /// Distance in bytes from one task_struct to the next.
    pub stride: u64,
    /// Number of ways of the L2.
    pub ways: u32,
    /// Cost in ns of transferring the cache line of a task_struct that a scheduling decision reads.
    /// It depends on the distance to the CPU that last wrote the cache line.
    pub line: ByDistance,
}

impl TaskSets {
    /// Returns the number of sets of an L2 of `l2_bytes` to which the first bytes of task_structs
    /// map. The result is at least 1.
    pub fn count(&self, l2_bytes: u64) -> u64 {
        (l2_bytes / self.stride / u64::from(self.ways)).max(1)
    }
}

/// Distance between two CPUs, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// The same CPU.
    Same,
    /// Hardware threads of one core.
    Core,
    /// Cores that share a last-level cache.
    Llc,
    /// CPUs in one NUMA node with different LLCs.
    Node,
    /// Different NUMA nodes.
    Remote,
}

/// The CPUs of a machine, ordered by id, and the distances between nodes.
#[derive(Clone, Debug, Serialize)]
pub struct Topology {
    pub cpus: Vec<Cpu>,
    /// CPU ids of each core, in ascending order. The next three fields contain the CPU ids of LLCs,
    /// nodes and packages.
    pub cores: Vec<Vec<u32>>,
    pub llcs: Vec<Vec<u32>>,
    pub nodes: Vec<Vec<u32>>,
    pub packages: Vec<Vec<u32>>,
    /// SLIT distances between nodes; 10 is the distance within a node.
    pub node_distances: Vec<Vec<u32>>,
    /// Node whose memory contains all of the kernel's data. A cache line that several caches hold
    /// is then transferred from this memory. With `None`, the default, kernel data are on the node
    /// that uses them, and such a cache line is transferred from the nearest cache.
    pub kernel_node: Option<u32>,
    /// If set, limits how many task_structs an L2 can cache.
    pub task_sets: Option<TaskSets>,
    /// Node, LLC and core of each CPU, packed into one word for [`Topology::distance`].
    packed_ids: Vec<u64>,
}

/// Number of bits for each id in a word of `packed_ids`. No id exceeds [`crate::MAX_CPUS`].
const ID_BITS: u32 = 20;
const ID_MASK: u64 = (1 << ID_BITS) - 1;

impl Topology {
    /// Groups the CPUs by their ids. If `node_distances` is empty, distances are 10 within nodes
    /// and 20 between nodes.
    pub fn new(cpus: Vec<Cpu>, node_distances: Vec<Vec<u32>>) -> Topology {
        fn group(cpus: &[Cpu], id: impl Fn(&Cpu) -> u32) -> Vec<Vec<u32>> {
            let mut groups: Vec<Vec<u32>> = Vec::new();
            for (cpu, info) in (0..).zip(cpus) {
                let id = id(info) as usize;
                if groups.len() <= id {
                    groups.resize(id + 1, Vec::new());
                }
                groups[id].push(cpu);
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
            packed_ids: cpus
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

    /// Checks that parts are nested as scheduling domains require, and returns a description of the
    /// first violation. The threads of a core must share an LLC and a node. An LLC must be within
    /// one node, or contain all CPUs of several nodes.
    pub(crate) fn nesting_error(&self) -> Option<String> {
        let infos = |cpus: &[u32]| cpus.iter().map(|&cpu| &self.cpus[cpu as usize]).collect::<Vec<_>>();
        for (core, cpus) in self.cores.iter().enumerate() {
            let cpus = infos(cpus);
            if cpus
                .windows(2)
                .any(|two| (two[0].llc, two[0].node) != (two[1].llc, two[1].node))
            {
                return Some(format!("the threads of core {core} are in different caches or nodes"));
            }
        }
        for (llc, cpus) in self.llcs.iter().enumerate() {
            let cpus = infos(cpus);
            let one_node = cpus.windows(2).all(|two| two[0].node == two[1].node);
            let whole_nodes = || {
                let nodes = cpus.iter().map(|cpu| &self.nodes[cpu.node as usize]);
                nodes.flatten().all(|&cpu| self.cpus[cpu as usize].llc as usize == llc)
            };
            if !one_node && !whole_nodes() {
                return Some(format!(
                    "last-level cache {llc} contains CPUs of several nodes, but not all of their CPUs"
                ));
            }
        }
        None
    }

    pub fn nr_cpus(&self) -> u32 {
        input::index(self.cpus.len())
    }

    /// Returns the distance between two CPUs in constant time.
    #[inline]
    pub fn distance(&self, a: u32, b: u32) -> Distance {
        let differ = self.packed_ids[a as usize] ^ self.packed_ids[b as usize];
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

    /// Returns the hardware threads of a CPU's core in ascending order, including the CPU itself.
    pub fn siblings(&self, cpu: u32) -> &[u32] {
        &self.cores[self.cpus[cpu as usize].core as usize]
    }

    /// Returns the CPUs that share a CPU's last-level cache in ascending order, including the CPU
    /// itself.
    pub fn llc_cpus(&self, cpu: u32) -> &[u32] {
        &self.llcs[self.cpus[cpu as usize].llc as usize]
    }

    /// Returns the CPUs of a CPU's NUMA node in ascending order, including the CPU itself.
    pub fn node_cpus(&self, cpu: u32) -> &[u32] {
        &self.nodes[self.cpus[cpu as usize].node as usize]
    }

    /// Returns the CPUs of a CPU's package in ascending order, including the CPU itself.
    pub fn package_cpus(&self, cpu: u32) -> &[u32] {
        &self.packages[self.cpus[cpu as usize].package as usize]
    }

    /// Returns the SLIT distance between the nodes of two CPUs; 10 is the same node.
    pub fn node_distance(&self, a: u32, b: u32) -> u32 {
        let (a, b) = (self.cpus[a as usize].node, self.cpus[b as usize].node);
        self.node_distances[a as usize][b as usize]
    }
}
