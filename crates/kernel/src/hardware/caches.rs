// SPDX-License-Identifier: GPL-2.0-only
//! Tasks' footprints in the caches, and the machine's caches for kernel and policy data.
//!
//! A task has a working set of some bytes. While it runs, as much of that as fits is in its core's private cache and in the
//! last-level cache. For each cache there is a count of bytes brought in so far; replacement is LRU, so what a task left in a
//! cache of `size` bytes is still there as far as `size - brought in since` reaches. The rest comes from the last-level
//! cache or from memory before the task's own work goes on: task time without progress, told of as reload time.
//!
//! Memory is where it was touched first: the node where the task first ran (or ran first after exec), unless the kernel of that
//! machine does not place memory at all. Touching it first, and missing all the time where it is larger than a cache, are part
//! of the work itself.
//! Left out: that a task loses lines while it runs, and memory that tasks share.

use bpf::cache::{self, Sets};
use machine::{Costs, MachineSpec, Topology};

pub(super) const NOWHERE: u32 = u32::MAX;

/// Caches of a machine that does not say what it has: those of a current server core.
pub(super) const PRIVATE_BYTES: u64 = 1 << 20;

pub(super) const LLC_BYTES: u64 = 32 << 20;

/// What one cache has of a task that left it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) cache: u32,
    pub(super) bytes: u64,
    /// The cache's count of bytes brought in when the task left.
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
    /// The node of its memory; NOWHERE before it has run.
    pub(super) home: u32,
    /// When it came to the CPU where it runs with memory that is nowhere yet.
    pub(super) came: u64,
    pub(super) private: Left,
    pub(super) llc: Left,
    /// The reload begun when it was switched to: its length, and the bytes that came into each cache.
    pub(super) reload_ns: u64,
    pub(super) into_private: u64,
    pub(super) into_llc: u64,
}

impl Footprint {
    pub fn new(bytes: u64) -> Footprint {
        Footprint {
            bytes,
            home: NOWHERE,
            came: 0,
            private: Left::NOTHING,
            llc: Left::NOTHING,
            reload_ns: 0,
            into_private: 0,
            into_llc: 0,
        }
    }
}

/// A cache that footprints compete for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cache {
    pub(super) size: u64,
    /// Bytes brought in so far.
    pub(super) brought: u64,
}

impl Cache {
    /// How much of what a task left here, as cache number `number`, is still here.
    pub(super) fn remains(&self, number: u32, left: &Left) -> u64 {
        if left.cache != number {
            return 0;
        }
        let since = self.brought.saturating_sub(left.at);
        left.bytes.min(self.size.saturating_sub(since))
    }

    pub(super) fn leave(&mut self, number: u32, wanted: u64, not_brought: u64) -> Left {
        self.brought = self.brought.saturating_sub(not_brought);
        Left {
            cache: number,
            bytes: wanted.saturating_sub(not_brought),
            at: self.brought,
        }
    }
}

/// All caches of the machine that footprints compete for.
pub struct Caches {
    /// Some task has a footprint.
    pub(super) active: bool,
    /// By core and by LLC.
    pub(super) private: Vec<Cache>,
    pub(super) llcs: Vec<Cache>,
    /// ps a byte from each node (columns) to each node (rows).
    pub(super) memory_ps: Vec<Vec<u64>>,
    /// Reload time of tasks that have left their CPU, ns.
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
            // Where the L2 is the last-level cache of several cores, the L1 is what a core has for itself.
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

/// What a byte of memory costs: the local or the remote price, the latter in proportion to the node distance (20 = once).
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
        // Anywhere with equal chances, wherever the task runs.
        for row in &mut placed {
            let mean = row.iter().sum::<u64>() / row.len() as u64;
            row.fill(mean);
        }
    }
    placed
}

/// The machine's caches as the lines of kernel and policy data know them, by CPU.
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

/// Bytes of the line in which all that a choice looks at of a task_struct lies: Linux 2.4 keeps it in one of those of its time.
pub(super) const GOODNESS_LINE: u64 = 32;

/// How many of the lines that task_structs begin with each cache has room for, by its bit; `None`: for all.
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
    // With a bit for several cores they would have the room of one.
    (sets.len() <= cache::MAX_CACHES as usize).then_some(sets)
}
