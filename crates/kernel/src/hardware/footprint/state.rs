// SPDX-License-Identifier: GPL-2.0-only
//! Data structures of the two cache models: footprints of tasks, and cache lines of kernel and
//! policy data.
//!
//! A task has a footprint, which is the size of its working set in bytes. While the task runs, its
//! footprint is in the private cache of its core and in the last-level cache (LLC), as far as it
//! fits.
//!
//! The model of replacement is LRU. Each cache counts the bytes that are brought into it. When a
//! task returns to a cache of `size` bytes, at most `size - n` bytes of its footprint are left,
//! where `n` bytes were brought in since the task left. The missing bytes are loaded from the LLC
//! or from memory before the task continues. A task whose footprint fits into the private cache of
//! its core makes no progress during this reload time (for larger footprints see
//! `hardware::memory`). The reload time is reported separately.
//!
//! The memory of a task is on the node on which the task first ran, or first ran after exec. On
//! machines with `flat_memory`, the kernel does not choose the nodes of pages. A page may then be
//! on any node, and each access has the mean cost of all nodes. Two kinds of cache misses cause no
//! reload time, because they are already part of the task's work: the first access to its memory,
//! and misses because the footprint is larger than the cache.
//!
//! Not modelled: cache lines that a task loses while it is running, and memory that several tasks
//! share.

use crate::hardware::memory::state::pages::Pages;
use bpf::cache::{self, Sets};
use machine::{Costs, MachineSpec, Topology};
use std::ops::{Deref, DerefMut};

/// Value that means "no cache" or "no node".
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Size of the private cache if the machine does not specify it. This is typical of current server
/// cores.
pub(crate) const PRIVATE_BYTES: u64 = 1 << 20;

/// Size of the last-level cache if the machine does not specify it.
pub(crate) const LLC_BYTES: u64 = 32 << 20;

/// The part of a task's footprint that was in a cache when the task stopped running there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) cache: u32,
    pub(crate) bytes: u64,
    /// Value of `Cache::brought` at the time when the task stopped running.
    pub(crate) at: u64,
}

impl Left {
    pub(crate) const NOTHING: Left = Left {
        cache: NOWHERE,
        bytes: 0,
        at: 0,
    };
}

/// A task's footprint. Most tasks have none, and then nothing is allocated for it.
#[derive(Clone, Debug)]
pub struct Footprint(Option<Box<WorkingSet>>);

/// A task's working set and the parts of it that caches may still contain.
#[derive(Clone, Debug)]
pub struct WorkingSet {
    pub bytes: u64,
    /// Bytes that the task touches per us of work. `None` means the rate of the machine.
    pub(crate) touch_mbps: Option<u32>,
    /// Node on which the task's memory is; NOWHERE before the task has run. If NUMA balancing has
    /// spread the memory over several nodes, this is the node with the most pages.
    pub(crate) home: u32,
    /// The pages of the memory. They exist from the first scan of NUMA balancing on.
    pub(crate) pages: Option<Box<Pages>>,
    /// Time of the last switch to the task. It is valid only until the task's memory has been
    /// placed on a node.
    pub(crate) switched_at: u64,
    pub(crate) private: Left,
    pub(crate) llc: Left,
    /// Duration of the reload that began at the last switch to the task, ns.
    pub(crate) reload_ns: u64,
    /// Number of bytes that this reload brings into the private cache.
    pub(crate) into_private: u64,
    /// Number of bytes that this reload brings into the LLC.
    pub(crate) into_llc: u64,
}

/// Footprint of a task that has none.
static NO_FOOTPRINT: WorkingSet = WorkingSet::new(0, None);

impl Footprint {
    pub fn new(bytes: u64, touch_mbps: Option<u32>) -> Footprint {
        Footprint((bytes > 0).then(|| Box::new(WorkingSet::new(bytes, touch_mbps))))
    }
}

impl Deref for Footprint {
    type Target = WorkingSet;

    #[inline]
    fn deref(&self) -> &WorkingSet {
        self.0.as_deref().unwrap_or(&NO_FOOTPRINT)
    }
}

impl DerefMut for Footprint {
    fn deref_mut(&mut self) -> &mut WorkingSet {
        self.0.get_or_insert_with(|| Box::new(WorkingSet::new(0, None)))
    }
}

impl WorkingSet {
    const fn new(bytes: u64, touch_mbps: Option<u32>) -> WorkingSet {
        WorkingSet {
            bytes,
            touch_mbps,
            home: NOWHERE,
            pages: None,
            switched_at: 0,
            private: Left::NOTHING,
            llc: Left::NOTHING,
            reload_ns: 0,
            into_private: 0,
            into_llc: 0,
        }
    }
}

impl WorkingSet {
    /// Returns the pages if they are on several nodes.
    #[inline]
    pub(crate) fn spread_pages(&self) -> Option<&Pages> {
        self.pages.as_deref().filter(|pages| pages.spread())
    }
}

/// A cache in which the footprints of tasks replace each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cache {
    pub(crate) size: u64,
    /// Number of bytes that have been brought into the cache so far.
    pub(crate) brought: u64,
}

impl Cache {
    /// Returns how many bytes of `left` are still in this cache. `number` is the number of this
    /// cache.
    pub(crate) fn remains(&self, number: u32, left: &Left) -> u64 {
        if left.cache != number {
            return 0;
        }
        let since = self.brought.saturating_sub(left.at);
        left.bytes.min(self.size.saturating_sub(since))
    }

    /// Returns the part of a footprint that a task leaves in this cache when it stops running:
    /// `wanted - not_reloaded` bytes. `not_reloaded` is the part of the reload that was not
    /// completed.
    pub(crate) fn leave(&mut self, number: u32, wanted: u64, not_reloaded: u64) -> Left {
        self.brought = self.brought.saturating_sub(not_reloaded);
        Left {
            cache: number,
            bytes: wanted.saturating_sub(not_reloaded),
            at: self.brought,
        }
    }
}

/// The caches of a machine in which footprints replace each other.
pub struct Caches {
    /// Whether any task has a footprint.
    pub(crate) active: bool,
    /// Private caches, indexed by core.
    pub(crate) private: Vec<Cache>,
    /// Last-level caches, indexed by LLC.
    pub(crate) llcs: Vec<Cache>,
    /// Time to load a byte in ps: `memory_ps[node of the CPU][node of the memory]`.
    pub(crate) memory_ps: Vec<Vec<u64>>,
    /// Total reload time of tasks that have left their CPU, ns.
    pub(crate) reload_ns: u64,
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
            // If several cores share the L2, the L2 is the last-level cache. The private cache is
            // then the L1.
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

    /// Returns the time in ps to load a byte of a task's memory on a CPU of node `node`. This is
    /// the mean over all pages. The memory must have been placed.
    pub(crate) fn memory_ps_of(&self, node: usize, footprint: &Footprint) -> u64 {
        let by_node = &self.memory_ps[node];
        match footprint.spread_pages() {
            None => by_node[footprint.home as usize],
            Some(pages) => {
                let all = pages.by_node().iter().zip(by_node);
                let sum: u128 = all.map(|(&nr, &ps)| u128::from(nr) * u128::from(ps)).sum();
                (sum / u128::from(pages.nr().max(1))) as u64
            }
        }
    }
}

/// Returns the time in ps to load a byte from memory, for each pair of nodes. The cost table has a
/// value for local memory and a value for remote memory. The remote value applies to nodes at
/// distance 20 and is scaled in proportion to the distance.
pub(crate) fn memory_ps(topology: &Topology, costs: &Costs) -> Vec<Vec<u64>> {
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
        // The memory may be on any node with equal probability, so each access has the mean cost.
        for row in &mut placed {
            let mean = row.iter().sum::<u64>() / row.len() as u64;
            row.fill(mean);
        }
    }
    placed
}

/// Returns the caches of each CPU for the model of cache lines (`bpf::cache`), which covers the
/// data of the kernel and the policy.
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

/// Number of bytes of a task_struct that the function goodness() of Linux 2.4 reads. They were in
/// one cache line of the machines of that time.
pub(crate) const GOODNESS_LINE: u64 = 32;

/// Returns a model of each core's cache that limits the number of task_structs whose frequently
/// used cache lines it holds. Returns `None` if the caches have no such limit.
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
    // With more caches than bits in a cache mask, several cores would share one bit and thus the
    // capacity of a single cache. The limit is then not modelled.
    (sets.len() <= cache::MAX_CACHES as usize).then_some(sets)
}
