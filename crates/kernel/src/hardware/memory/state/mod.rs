// SPDX-License-Identifier: GPL-2.0-only
//! Use of caches and memory by running tasks, see `hardware::memory`.

pub mod pages;

use crate::hardware::footprint::state::{Caches, Footprint};
use crate::programs::state::cursor::WHOLE;
use crate::simulation::id::CpuId;
use machine::MachineSpec;
use workload::Workload;

/// Unit of `k`, the relative latency of a node's memory.
pub(crate) const ONE: u64 = 1024;
/// Largest `k`. At this latency, the CPUs may load more than the bandwidth.
pub(crate) const MAX_FACTOR: u64 = 64 * ONE;
pub(crate) const PS_PER_US: u64 = 1_000_000;

/// How the running task of a CPU uses the LLC and memory. All fields are 0 if the task has no
/// footprint or if the footprint fits into the private cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    /// Footprint of the task, `w`.
    pub(crate) bytes: u64,
    /// Bytes that the task touches per us of work, `a`.
    pub(crate) touch: u64,
    /// Bytes of the footprint that the private cache and the LLC hold, `s`.
    pub(crate) held: u64,
    /// Bytes per us of work that come from memory.
    pub(crate) loaded: u64,
    /// Bytes per us of work that would come from memory if the task ran alone.
    pub(crate) loaded_alone: u64,
    /// Additional time that a us of work takes, ps.
    pub(crate) extra_ps: u64,
}

/// The memory of one node, or of all nodes together (`flat_memory`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    /// Bytes per us that all CPUs together can load.
    pub(crate) bandwidth: u64,
    /// Bytes per us that the CPUs would load if the latency did not rise.
    pub(crate) demand: u64,
    /// Latency relative to that without load, `k`, in units of [`ONE`].
    pub(crate) factor: u64,
}

/// Use of LLCs and memory by running tasks. All lists are empty if no task has a footprint or if
/// the machine does not model the slowdown by caches and memory.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Rate of tasks without a rate of their own.
    touch_mbps: u32,
    pub(crate) uses: Vec<Use>,
    /// For each LLC, its CPUs whose tasks use it, in ascending order.
    pub(crate) users: Vec<Vec<CpuId>>,
    /// For each LLC, the sum of the footprints of these tasks.
    pub(crate) wanted: Vec<u64>,
    pub(crate) pools: Vec<Pool>,
    /// Bytes per us that the task of a CPU would load from a pool if the latency did not rise. The
    /// index is `cpu * number of pools + pool`.
    pub(crate) demands: Vec<u64>,
}

impl Memory {
    pub(crate) fn new(spec: &MachineSpec, workload: &Workload) -> Memory {
        let touch = |task: &workload::TaskSpec| task.touch_mbps.unwrap_or(spec.costs.touch_mbps);
        let active = workload
            .tasks
            .iter()
            .any(|task| task.footprint_bytes > 0 && touch(task) > 0);
        let (nr_cpus, nr_llcs, nodes) = match active {
            true => (
                spec.topology.cpus.len(),
                spec.topology.llcs.len(),
                spec.topology.nodes.len(),
            ),
            false => (0, 0, 0),
        };
        // Pages that the kernel does not place by node are spread over all nodes.
        let (nr_pools, nodes_per_pool) = match spec.costs.flat_memory {
            true => (nodes.min(1), nodes as u64),
            false => (nodes, 1),
        };
        let pool = Pool {
            bandwidth: match spec.costs.node_bandwidth_mbps {
                0 => u64::MAX,
                // A node always delivers at least the amount that one CPU can load.
                mbps => nodes_per_pool * u64::from(mbps).max(PS_PER_US / u64::from(spec.costs.reload_memory_ps.max(1))),
            },
            demand: 0,
            factor: ONE,
        };
        Memory {
            touch_mbps: spec.costs.touch_mbps,
            uses: vec![Use::default(); nr_cpus],
            users: vec![Vec::new(); nr_llcs],
            wanted: vec![0; nr_llcs],
            pools: vec![pool; nr_pools],
            demands: vec![0; nr_cpus * nr_pools],
        }
    }

    /// Returns the part of a task's CPU time, in 1/[`WHOLE`], that a reload takes while it is in
    /// progress. The task reloads the bytes that it touches, so it makes progress meanwhile. Each
    /// of these bytes comes from memory and takes `memory_ps`.
    pub(crate) fn reload_share(&self, footprint: &Footprint, memory_ps: u64) -> u64 {
        let touch = u64::from(footprint.touch_mbps.unwrap_or(self.touch_mbps));
        let waits = touch.saturating_mul(memory_ps).min(PS_PER_US);
        match waits {
            0 => WHOLE,
            _ => (WHOLE * waits / (PS_PER_US + waits)).max(1),
        }
    }

    /// Returns whether running tasks can slow each other.
    #[inline]
    pub(crate) fn active(&self) -> bool {
        !self.uses.is_empty()
    }

    fn crowded(&self, llc: usize, caches: &Caches) -> bool {
        self.wanted[llc] > caches.llcs[llc].size
    }

    /// Returns whether the latency of some memory has risen or has to rise.
    pub(crate) fn saturated(&self) -> bool {
        self.pools
            .iter()
            .any(|pool| pool.demand > pool.bandwidth || pool.factor > ONE)
    }

    /// Replaces the CPU's entry in the lists of its LLC's users. Returns whether the LLC was too
    /// small for the footprints before, or is now.
    pub(crate) fn set_user(&mut self, cpu: CpuId, llc: usize, bytes: u64, caches: &Caches) -> bool {
        let before = self.crowded(llc, caches);
        let old = self.uses[cpu.index()].bytes;
        self.wanted[llc] = self.wanted[llc] - old + bytes;
        let users = &mut self.users[llc];
        match (users.binary_search(&cpu), bytes > 0) {
            (Err(at), true) => users.insert(at, cpu),
            (Ok(at), false) => {
                users.remove(at);
            }
            _ => {}
        }
        before || self.crowded(llc, caches)
    }
}
