// SPDX-License-Identifier: GPL-2.0-only
//! CPUs and what they share.

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
}

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
            cpus,
        }
    }

    pub fn nr_cpus(&self) -> u32 {
        self.cpus.len() as u32
    }

    pub fn distance(&self, a: u32, b: u32) -> Distance {
        let (x, y) = (&self.cpus[a as usize], &self.cpus[b as usize]);
        if a == b {
            Distance::Same
        } else if x.core == y.core {
            Distance::Core
        } else if x.llc == y.llc {
            Distance::Llc
        } else if x.node == y.node {
            Distance::Node
        } else {
            Distance::Remote
        }
    }
}
