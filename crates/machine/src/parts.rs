// SPDX-License-Identifier: GPL-2.0-only
//! The parts of a machine that contain each CPU: cores, caches, nodes and packages. The readers of
//! all formats produce [`Parts`]. [`Parts::number`] then numbers the parts from 0 without gaps,
//! which yields the topology.
//!
//! CPU ids follow the order of the OS indexes. A CPU's last-level cache (LLC) is its cache of the
//! highest level. If a CPU has no cache above L1, it is assumed to share an LLC with all CPUs of
//! its package that are in the same node. Nodes without CPUs are ignored, because they do not
//! affect scheduling.

use crate::MAX_CPUS;
use crate::speed::{self, Speed};
use crate::synthetic;
use crate::topology::{Cpu, Topology};
use input::{Error, cpu_list};
use std::collections::BTreeMap;

/// A topology, with notes (sentences) about parts that were ignored and values that were assumed.
pub(crate) struct Found {
    pub topology: Topology,
    pub notes: Vec<String>,
    /// Notes about capacities that were estimated or ignored.
    pub speed_notes: Vec<String>,
    /// Name of the processor, if the description contains it.
    pub model: Option<String>,
}

/// Kind of a part of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ObjectKind {
    Machine,
    Group,
    Package,
    Die,
    /// A NUMA node.
    Node,
    /// A data or unified cache of the given level, 1..=5.
    Cache(u8),
    InstructionCache,
    Core,
    /// A hardware thread, which is a CPU for Linux.
    Pu,
}

/// The parts that contain one CPU. A part is identified by a key, which is the same for all its
/// CPUs.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuParts {
    pub os_index: u32,
    core: Option<u64>,
    llc: Option<u64>,
    llc_level: u8,
    package: Option<u64>,
    /// OS index of the CPU's NUMA node.
    pub node: Option<u32>,
    l1d_bytes: u64,
    l2_bytes: u64,
    llc_bytes: u64,
    pub speed: Speed,
}

impl CpuParts {
    pub(crate) fn new(os_index: u32) -> CpuParts {
        CpuParts {
            os_index,
            ..CpuParts::default()
        }
    }

    /// Adds a part that contains the CPU. Parts must be added from the innermost to the outermost.
    pub(crate) fn add(&mut self, kind: ObjectKind, key: u64, bytes: u64) {
        match kind {
            ObjectKind::Core => self.core = Some(key),
            ObjectKind::Package => self.package = Some(key),
            ObjectKind::Cache(1) => self.l1d_bytes = bytes,
            ObjectKind::Cache(level) => {
                if level == 2 {
                    self.l2_bytes = bytes;
                }
                if level > self.llc_level {
                    (self.llc_level, self.llc, self.llc_bytes) = (level, Some(key), bytes);
                }
            }
            ObjectKind::Machine
            | ObjectKind::Group
            | ObjectKind::Die
            | ObjectKind::Node
            | ObjectKind::InstructionCache
            | ObjectKind::Pu => {}
        }
    }
}

/// SLIT distances between NUMA nodes, row by row. `nodes` contains their OS indexes.
pub(crate) struct Distances {
    pub nodes: Vec<u32>,
    pub values: Vec<u64>,
}

/// The contents of a description, before the parts of the machine are numbered.
#[derive(Default)]
pub(crate) struct Parts {
    /// Online CPUs, ordered by OS index.
    pub cpus: Vec<CpuParts>,
    /// Number of CPUs that are offline or disallowed.
    pub offline: usize,
    /// OS indexes of the NUMA nodes to which no CPU belongs, for example nodes of high-bandwidth
    /// or CXL memory.
    pub memory_nodes: Vec<u32>,
    /// Matrices of node distances, best first. The first matrix that contains all nodes is used.
    pub distances: Vec<Distances>,
    pub model: Option<String>,
}

impl Parts {
    /// Numbers the parts, and checks that they are properly nested.
    ///
    /// # Errors
    /// Fails if there are no CPUs or too many, and if parts overlap.
    pub(crate) fn number(self, place: &str) -> Result<Found, Error> {
        let nr_cpus = self.cpus.len();
        if nr_cpus == 0 {
            return Err(Error::at(place, "the topology has no CPU").hint(synthetic::HINT));
        }
        if nr_cpus > MAX_CPUS as usize {
            let message = format!("the topology has {nr_cpus} CPUs, but Linux on x86 has at most {MAX_CPUS} (NR_CPUS)");
            return Err(Error::at(place, message));
        }
        let mut notes = Vec::new();
        if self.offline > 0 {
            notes.push(match self.offline {
                1 => "1 CPU is ignored, because it is offline or disallowed; the others are renumbered".into(),
                n => format!("{n} CPUs are ignored, because they are offline or disallowed; the others are renumbered"),
            });
        }
        match self.memory_nodes.as_slice() {
            [] => {}
            [node] => notes.push(format!(
                "no CPU belongs to NUMA node {node}, so its memory is not modelled"
            )),
            nodes => notes.push(format!(
                "no CPU belongs to NUMA nodes {}, so their memory is not modelled",
                cpu_list::format(nodes)
            )),
        }
        let mut speed_notes = Vec::new();
        let capacities = speed::capacities(&self.cpus, &mut speed_notes);
        let topology = topology(&self.cpus, &capacities, &self.distances, &mut notes);
        if let Some(problem) = topology.nesting_error() {
            return Err(Error::at(place, problem)
                .hint("make each CPU set of a core, cache or NUMA node contain or exclude the others completely"));
        }
        let model = self.model.map(|m| m.split_whitespace().collect::<Vec<_>>().join(" "));
        Ok(Found {
            topology,
            notes,
            speed_notes,
            model,
        })
    }
}

/// Builds the topology. Parts are numbered from 0 in the order of their first CPUs, but nodes in
/// the order of their OS indexes.
fn topology(parts: &[CpuParts], capacities: &[u32], distances: &[Distances], notes: &mut Vec<String>) -> Topology {
    fn dense<K: Ord>(ids: &mut BTreeMap<K, u32>, key: K) -> u32 {
        let next = input::index(ids.len());
        *ids.entry(key).or_insert(next)
    }
    // If a CPU's node has no memory, the description has no node for the CPU. The CPU's package is
    // then used as its node.
    let node_key = |c: &CpuParts| match c.node {
        Some(os_index) => (0, u64::from(os_index)),
        None => (1, c.package.unwrap_or(0)),
    };
    let mut node_ids: BTreeMap<(u8, u64), u32> = parts.iter().map(|c| (node_key(c), 0)).collect();
    for (dense_id, id) in (0..).zip(node_ids.values_mut()) {
        *id = dense_id;
    }
    if node_ids.keys().any(|&(kind, _)| kind == 1) {
        notes.push("some CPUs have no NUMA node, so their package is used as their node".into());
    }
    let (mut cores, mut llcs, mut packages) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut threads: BTreeMap<u32, u32> = BTreeMap::new();
    let mut cpus = Vec::with_capacity(parts.len());
    for (c, &capacity) in parts.iter().zip(capacities) {
        let node = node_ids[&node_key(c)];
        // If the description has no packages, each node is a package.
        let package_key = c.package.map_or((1, u64::from(node)), |id| (0, id));
        let package = dense(&mut packages, package_key);
        let core = dense(&mut cores, c.core.map_or((1, u64::from(c.os_index)), |id| (0, id)));
        let llc_key = match c.llc {
            Some(id) => (0, id, 0),
            None => (1, u64::from(package), node),
        };
        let thread = threads.entry(core).or_insert(0);
        cpus.push(Cpu {
            core,
            thread: *thread,
            llc: dense(&mut llcs, llc_key),
            node,
            package,
            capacity,
            l1d_bytes: c.l1d_bytes,
            l2_bytes: c.l2_bytes,
            llc_bytes: c.llc_bytes,
        });
        *thread += 1;
    }
    let n = node_ids.len();
    let matrix = distances.iter().find_map(|matrix| square(matrix, &node_ids, n));
    Topology::new(cpus, matrix.unwrap_or_default())
}

/// Returns the distances as a matrix indexed by the ids of the topology. Returns `None` if some of
/// the `n` nodes are missing, or if the values are not a valid SLIT (ACPI's table of node
/// distances).
fn square(matrix: &Distances, node_ids: &BTreeMap<(u8, u64), u32>, n: usize) -> Option<Vec<Vec<u32>>> {
    if matrix.values.len() < n * n {
        return None;
    }
    let ids = matrix.nodes.iter().map(|&node| node_ids.get(&(0, u64::from(node))));
    let ids: Vec<Option<usize>> = ids.map(|id| id.map(|&id| id as usize)).collect();
    let mut out = vec![vec![0u32; n]; n];
    for (row, from) in matrix.values.chunks(ids.len().max(1)).zip(&ids) {
        for (&value, to) in row.iter().zip(&ids) {
            if let (Some(from), Some(to)) = (*from, *to) {
                out[from][to] = u32::try_from(value).unwrap_or(u32::MAX);
            }
        }
    }
    // As Linux requires of a SLIT, 10 is the distance of a node to itself, and all other distances
    // are larger.
    let valid = |i: usize, j: usize| (out[i][j] == 10) == (i == j) && out[i][j] >= 10;
    (0..n).all(|i| (0..n).all(|j| valid(i, j))).then_some(out)
}
