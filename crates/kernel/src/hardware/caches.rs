// SPDX-License-Identifier: GPL-2.0-only
//! Data structures for the caches: task footprints, and the machine's caches for kernel and policy
//! data.
//!
//! A task has a working set (footprint) of some bytes. While the task runs, as much of that as fits
//! is in its core's private cache and in the last-level cache (LLC). Each cache counts the bytes
//! brought into it so far. Replacement is LRU: of the bytes that a task left in a cache of `size`
//! bytes, at most `size - brought in since` remain. The missing bytes come from the LLC or from
//! memory before the task continues. This is task time without progress, reported as reload time.
//!
//! A task's memory is on the node where the task first ran, or first ran after exec, unless the
//! machine's kernel does not place memory (`flat_memory`). A task's first access to its memory, and
//! the misses of a footprint larger than the cache, are part of the task's own work.
//!
//! Not modelled: cache lines that a task loses while it runs, and memory shared by tasks.

use bpf::cache::{self, Sets};
use machine::{Costs, MachineSpec, Topology};
/// Cache or node number that stands for "none".

pub(super) const NOWHERE: u32 = u32::MAX;

/// Size of the private cache on machines that do not specify it; typical of current server cores.
pub(super) const PRIVATE_BYTES: u64 = 1 << 20;

/// Size of the last-level cache on machines that do not specify it.
pub(super) const LLC_BYTES: u64 = 32 << 20;

/// The part of a task's footprint that was in one cache when the task left it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) cache: u32,
    pub(super) bytes: u64,
    /// Value of `Cache::brought` when the task left.
    pub(super) at: u64,
}

impl Left {
    pub(super) const NOTHING: Left = Left {
        cache: NOWHERE,
        bytes: 0,
        at: 0,
    };
}

/// A task's working set.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    pub bytes: u64,
    /// Node of the task's memory; NOWHERE before the task has run.
    pub(super) home: u32,
    /// Time of the last switch to the task. Set only while its memory is on no node.
    pub(super) switched_at: u64,
    pub(super) private: Left,
    pub(super) llc: Left,
    /// Length of the reload that began at the last switch to the task.
    pub(super) reload_ns: u64,
    /// Bytes that this reload brings into the private cache and into the LLC.
    pub(super) into_private: u64,
    pub(super) into_llc: u64,
}

impl Footprint {
    pub fn new(bytes: u64) -> Footprint {
        Footprint {
            bytes,
            home: NOWHERE,
            switched_at: 0,
            private: Left::NOTHING,
            llc: Left::NOTHING,
            reload_ns: 0,
            into_private: 0,
            into_llc: 0,
        }
    }
}

/// A cache for which footprints compete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cache {
    pub(super) size: u64,
    /// Bytes brought in so far.
    pub(super) brought: u64,
}

impl Cache {
    /// Returns how many bytes of `left` are still in this cache, which has the number `number`.
    pub(super) fn remains(&self, number: u32, left: &Left) -> u64 {
        if left.cache != number {
            return 0;
        }
        let since = self.brought.saturating_sub(left.at);
        left.bytes.min(self.size.saturating_sub(since))
    }

    /// Returns the part of a footprint that a task leaves in this cache: `wanted` bytes, less the
    /// `not_reloaded` bytes that its reload did not complete.
    pub(super) fn leave(&mut self, number: u32, wanted: u64, not_reloaded: u64) -> Left {
        self.brought = self.brought.saturating_sub(not_reloaded);
        Left {
            cache: number,
            bytes: wanted.saturating_sub(not_reloaded),
            at: self.brought,
        }
    }
}

/// All caches of a machine for which footprints compete.
pub struct Caches {
    /// Whether any task has a footprint.
    pub(super) active: bool,
    /// Private caches by core number.
    pub(super) private: Vec<Cache>,
    /// Last-level caches by LLC number.
    pub(super) llcs: Vec<Cache>,
    /// Cost of a byte in ps, `memory_ps[node of the CPU][node of the memory]`.
    pub(super) memory_ps: Vec<Vec<u64>>,
    /// Total reload time of tasks that have left their CPU, ns.
    pub(super) reload_ns: u64,
}

impl Caches {
    pub fn new(spec: &MachineSpec, active: bool) -> Caches {
        let topology = &spec.topology;
        let sized = |bytes: u64, otherwise: u64| Cache {
            size: if bytes > 0 { bytes } else { otherwise },
            brought: 0,
        };
        let private = topology.cores.iter().map(|cpus| {
            let cpu = &topology.cpus[cpus[0] as usize];
            // If the L2 is shared by several cores, it is the last-level cache. The private cache
            // is then the L1.
            let shared = cpu.l2_bytes >= cpu.llc_bytes && topology.llcs[cpu.llc as usize].len() > cpus.len();
            sized(if shared { cpu.l1d_bytes } else { cpu.l2_bytes }, PRIVATE_BYTES)
        });
        let llcs = topology.llcs.iter().map(|cpus| {
            let cpu = &topology.cpus[cpus[0] as usize];
            sized(cpu.llc_bytes.max(cpu.l2_bytes), LLC_BYTES)
        });
        Caches {
            active,
            private: private.collect(),
            llcs: llcs.collect(),
            memory_ps: memory_ps(topology, &spec.costs),
            reload_ns: 0,
        }
    }
}

/// Returns the cost in ps of a byte of memory for each pair of nodes. The remote cost is
/// proportional to the node distance and applies to a distance of 20.
pub(super) fn memory_ps(topology: &Topology, costs: &Costs) -> Vec<Vec<u64>> {
    let (local, remote) = (u64::from(costs.reload_memory_ps), u64::from(costs.reload_remote_ps));
    let price = |&distance: &u32| match distance {
        10 => local,
        _ => (remote * u64::from(distance) / 20).max(local),
    };
    let placed = topology
        .node_distances
        .iter()
        .map(|row| row.iter().map(price).collect());
    let mut placed: Vec<Vec<u64>> = placed.collect();
    if costs.flat_memory {
        // Memory is on any node with equal probability.
        for row in &mut placed {
            let mean = row.iter().sum::<u64>() / row.len() as u64;
            row.fill(mean);
        }
    }
    placed
}

/// Returns each CPU's caches in the form that the model of kernel and policy cache lines uses.
pub(crate) fn line_caches(spec: &MachineSpec) -> Vec<cache::Cache> {
    let topology = &spec.topology;
    let nr_cores = topology.cores.len() as u64;
    let shares = nr_cores.min(u64::from(cache::MAX_CACHES));
    let bit = |cpu: u32| 1u64 << (u64::from(topology.cpus[cpu as usize].core) * shares / nr_cores);
    let bits = |cpus: &[u32]| cpus.iter().map(|&cpu| bit(cpu)).fold(0, |all, bit| all | bit);
    let (llcs, nodes): (Vec<u64>, Vec<u64>) = (
        topology.llcs.iter().map(|cpus| bits(cpus)).collect(),
        topology.nodes.iter().map(|cpus| bits(cpus)).collect(),
    );
    let price = spec.costs.cache_line;
    let cache = |cpu: u32| {
        let info = &topology.cpus[cpu as usize];
        cache::Cache {
            own: bit(cpu),
            llc: llcs[info.llc as usize],
            node: nodes[info.node as usize] | llcs[info.llc as usize],
            llc_ns: price.llc,
            node_ns: price.node,
            remote_ns: price.remote,
            memory_ns: match topology.kernel_node {
                Some(home) if home != info.node => price.remote,
                Some(_) => price.node,
                None => 0,
            },
        }
    };
    (0..topology.nr_cpus()).map(cache).collect()
}

/// Bytes of a task_struct that Linux 2.4's goodness() reads. They lie in one cache line of that
/// time.
pub(super) const GOODNESS_LINE: u64 = 32;

/// Returns for each cache how many of the first cache lines of task_structs it can hold. `None`
/// means that there is no limit.
pub(crate) fn line_sets(spec: &MachineSpec) -> Option<Vec<Sets>> {
    let topology = &spec.topology;
    let tasks = topology.task_sets?;
    let caches = line_caches(spec);
    let (line, lines_of_two) = (tasks.line, spec.costs.cache_line);
    let sets = |core: &Vec<u32>| {
        let cpu = &topology.cpus[core[0] as usize];
        let far = topology.kernel_node.is_some_and(|home| home != cpu.node);
        let (ps, one, two) = match far {
            true => (spec.costs.reload_remote_ps, line.remote, lines_of_two.remote),
            false => (spec.costs.reload_memory_ps, line.node, lines_of_two.node),
        };
        let memory_ns = GOODNESS_LINE * u64::from(ps) / 1000;
        let more = u64::from(two.saturating_sub(one)) * memory_ns / u64::from(one.max(1));
        Sets {
            count: tasks.count(cpu.l2_bytes),
            ways: tasks.ways,
            first: cache::Cache {
                llc_ns: line.llc,
                node_ns: line.node,
                remote_ns: line.remote,
                memory_ns: memory_ns as u32,
                ..caches[core[0] as usize]
            },
            next: cache::Cache {
                llc_ns: lines_of_two.llc.saturating_sub(line.llc),
                node_ns: lines_of_two.node.saturating_sub(line.node),
                remote_ns: lines_of_two.remote.saturating_sub(line.remote),
                memory_ns: more as u32,
                ..caches[core[0] as usize]
            },
        }
    };
    let sets: Vec<Sets> = topology.cores.iter().map(sets).collect();
    // With one bit for several cores, those cores would share the capacity of a single one.
    (sets.len() <= cache::MAX_CACHES as usize).then_some(sets)
}
