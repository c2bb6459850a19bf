// SPDX-License-Identifier: GPL-2.0-only
//! The cores, caches, nodes and packages that contain each CPU, as every source describes them, numbered densely.
//!
//! CPU ids follow the order of the OS indexes. The last-level cache of a CPU is the highest cache above it; a CPU without
//! a cache beyond its L1 shares its package (within its node). Memory-only nodes have no effect on scheduling and are
//! left out.

use crate::MAX_CPUS;
use crate::synthetic;
use crate::topology::{Cpu, Topology};
use input::Error;
use std::collections::BTreeMap;

/// A topology and what was left out of it or assumed, a sentence each.
pub(crate) struct Found {
    pub topology: Topology,
    pub notes: Vec<String>,
    /// The processor's name, where the source has it.
    pub model: Option<String>,
}

/// A kind of part of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Machine,
    Group,
    Package,
    Die,
    /// A NUMA node.
    Node,
    /// A data or unified cache of this level, 1..=5.
    Cache(u8),
    InstructionCache,
    Core,
    /// A hardware thread: one CPU of Linux.
    Pu,
}

/// The parts that contain one CPU. Parts of one kind have the same key for the same part.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuParts {
    pub os_index: u32,
    core: Option<u64>,
    llc: Option<u64>,
    llc_level: u8,
    package: Option<u64>,
    /// OS index of the NUMA node.
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

    /// Adds a part that contains the CPU. Parts are added from the inside out.
    pub(crate) fn add(&mut self, kind: Kind, key: u64, bytes: u64) {
        match kind {
            Kind::Core => self.core = Some(key),
            Kind::Package => self.package = Some(key),
            Kind::Cache(1) => self.l1d_bytes = bytes,
            Kind::Cache(level) => {
                if level == 2 {
                    self.l2_bytes = bytes;
                }
                if level > self.llc_level {
                    (self.llc_level, self.llc, self.llc_bytes) = (level, Some(key), bytes);
                }
            }
            Kind::Machine | Kind::Group | Kind::Die | Kind::Node | Kind::InstructionCache | Kind::Pu => {}
        }
    }
}

/// The speed of a CPU, as far as the source describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Speed {
    /// Relative capacity, as ARM kernels export it.
    pub capacity: Option<u64>,
    /// `IntelAtom` or `IntelCore`.
    pub core_type: Option<String>,
    /// Highest frequency, MHz.
    pub max_mhz: Option<u64>,
}

/// SLIT distances between the NUMA nodes with these OS indexes, row by row.
pub(crate) struct Distances {
    pub nodes: Vec<u32>,
    pub values: Vec<u64>,
}

/// A machine as its source describes it.
#[derive(Default)]
pub(crate) struct Parts {
    /// CPUs that are online, in the order of their OS indexes.
    pub cpus: Vec<CpuParts>,
    /// Number of CPUs that exist and are offline.
    pub offline: usize,
    /// Candidates, best first; the first one that covers all nodes is taken.
    pub distances: Vec<Distances>,
    pub model: Option<String>,
}

impl Parts {
    /// Numbers the parts and checks that they lie inside each other.
    ///
    /// # Errors
    /// Without CPUs, with too many of them, or if parts overlap.
    pub(crate) fn number(self, place: &str) -> Result<Found, Error> {
        let nr_cpus = self.cpus.len();
        if nr_cpus == 0 {
            return Err(Error::at(place, "this topology has no CPU").hint(synthetic::HINT));
        }
        if nr_cpus > MAX_CPUS as usize {
            let message = format!("{nr_cpus} CPUs are more than the {MAX_CPUS} supported");
            return Err(Error::at(place, message));
        }
        let mut notes = Vec::new();
        if self.offline > 0 {
            notes.push(format!("{} offline CPUs left out; CPU ids are dense", self.offline));
        }
        let capacities = capacities(&self.cpus, &mut notes);
        let topology = topology(&self.cpus, &capacities, &self.distances, &mut notes);
        if let Some(problem) = topology.not_nested() {
            return Err(
                Error::at(place, problem).hint("the CPU sets of cores, caches and NUMA nodes lie inside each other")
            );
        }
        let model = self.model.map(|m| m.split_whitespace().collect::<Vec<_>>().join(" "));
        Ok(Found { topology, notes, model })
    }
}

/// Gives parts dense ids in the order of each part's first CPU, and nodes in the order of their OS indexes.
fn topology(parts: &[CpuParts], capacities: &[u32], distances: &[Distances], notes: &mut Vec<String>) -> Topology {
    fn dense<K: Ord>(ids: &mut BTreeMap<K, u32>, key: K) -> u32 {
        let next = ids.len() as u32;
        *ids.entry(key).or_insert(next)
    }
    // A CPU whose node has no memory shows no node: its package then stands for its node.
    let node_key = |c: &CpuParts| match c.node {
        Some(os_index) => (0, u64::from(os_index)),
        None => (1, c.package.unwrap_or(0)),
    };
    let mut node_ids: BTreeMap<(u8, u64), u32> = parts.iter().map(|c| (node_key(c), 0)).collect();
    for (dense_id, id) in node_ids.values_mut().enumerate() {
        *id = dense_id as u32;
    }
    if node_ids.keys().any(|&(kind, _)| kind == 1) {
        notes.push("CPUs without a NUMA node of their own: their package stands for it".into());
    }
    let (mut cores, mut llcs, mut packages) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut threads: BTreeMap<u32, u32> = BTreeMap::new();
    let mut cpus = Vec::with_capacity(parts.len());
    for (c, &capacity) in parts.iter().zip(capacities) {
        let node = node_ids[&node_key(c)];
        // Without packages in the description, nodes are the sockets.
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

/// Returns a matrix by dense node ids; `None` if it does not cover all `n` nodes or is no SLIT.
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
    // As Linux does with an ACPI SLIT: 10 is the distance to itself, and no other is as near.
    let valid = |i: usize, j: usize| (out[i][j] == 10) == (i == j) && out[i][j] >= 10;
    (0..n).all(|i| (0..n).all(|j| valid(i, j))).then_some(out)
}

/// Returns the capacity of each CPU, 1024 = the fastest.
///
/// ARM kernels export the capacity. Intel's hybrid parts have a core type and frequencies only; their E cores do about
/// 3/4 of a P core's work per cycle. CPUs that merely differ in turbo frequency are equal to Linux and to us.
fn capacities(cpus: &[CpuParts], notes: &mut Vec<String>) -> Vec<u32> {
    let weight = |speed: &Speed| match (speed.capacity, &speed.core_type) {
        (Some(capacity), _) => capacity.clamp(1, 1 << 20),
        (None, Some(core_type)) => {
            let mhz = speed.max_mhz.unwrap_or(1_000).clamp(1, 1 << 20);
            if core_type == "IntelAtom" { mhz * 3 / 4 } else { mhz }
        }
        (None, None) => 0,
    };
    let exported = cpus.iter().any(|c| c.speed.capacity.is_some());
    let hybrid = cpus
        .iter()
        .any(|c| c.speed.capacity.is_none() && c.speed.core_type.is_some());
    let weights: Vec<u64> = cpus.iter().map(|c| weight(&c.speed)).collect();
    let max = weights.iter().copied().max().unwrap_or(0);
    if max == 0 || exported && hybrid || weights.contains(&0) {
        return vec![1024; cpus.len()];
    }
    let relative = |&w: &u64| ((w * 1024 / max) as u32).clamp(1, 1024);
    let capacities: Vec<u32> = weights.iter().map(relative).collect();
    if hybrid && capacities.iter().any(|&c| c < 1024) {
        notes.push(
            "capacities estimated from core type and top frequency (an E core does 3/4 of a P \
             core's work per cycle)"
                .into(),
        );
    }
    capacities
}
