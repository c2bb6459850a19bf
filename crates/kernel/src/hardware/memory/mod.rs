// SPDX-License-Identifier: GPL-2.0-only
//! Speeds of running tasks that share last-level caches (LLCs) and the memory of nodes.
//!
//! ```text
//! CPU 0, node 0  |== 64 MiB, memory on node 1: 0.9 ==|
//! CPU 1, node 0  |== streams: full speed ==|== streams: 0.7 ==|== full speed ==|
//! CPU 2, node 0  |          idle           |== streams: 0.7 ==|      idle      |
//! ```
//!
//! A step `run` of a program states the time that its work takes if the task runs alone, has the
//! whole LLC, and its memory is on the node of its CPU. If one of these conditions does not hold,
//! the work takes longer. The slowdown of a task depends on:
//!
//! - `w`, its footprint in bytes.
//! - `a`, the bytes of the footprint that the task touches per us of work. It touches all bytes
//!   equally often. `a` is the rate `touch` of the machine or of the task. It is limited to the
//!   rate at which a task that runs alone would wait for caches and memory all the time.
//! - `p = min(w, private cache)`, the bytes that its core's private cache holds.
//! - `s`, the bytes that the private cache and the LLC hold together. If the task runs alone, this
//!   is `s0 = min(w, LLC)`. If several tasks run on one LLC, it is `min(w, a * t)` for each of
//!   them. Here `t` is the time in which these tasks fill the LLC, which is the time for which an
//!   LRU cache keeps an unused line (H. Che, Y. Tung, Z. Wang, Hierarchical Web Caching Systems,
//!   IEEE JSAC 20(7), 2002). Small working sets therefore stay in the cache, and large ones share
//!   the rest.
//! - `L`, the time in ps to load a byte from the LLC (`reload_llc`).
//! - `M`, the time in ps to load a byte from the memory with the task's pages (`reload_memory` or
//!   `reload_remote`). If the pages are on the node of the task's CPU, this is `M0`
//!   (`reload_memory`).
//! - `k`, the latency of a node's memory relative to its latency without load. It is the smallest
//!   `k` from 1 upwards at which all CPUs together load no more than the node's bandwidth.
//!
//! One us of work of a task takes longer by
//!
//! ```text
//! a * ((w - s) * M * k  -  (w - s0) * M0  -  (s0 - s) * L) / w      ps
//! ```
//!
//! The speed of the CPU is the speed from `hardware::smt`, reduced according to this additional
//! time. It changes when a task with a footprint starts or stops on a CPU, and when the speed of
//! such a task changes for another reason. A task without a footprint, or with a footprint that
//! fits into the private cache, neither slows other tasks nor is slowed.
//!
//! A task with a larger footprint also makes progress while it reloads a cache after a switch. It
//! reloads the bytes that it touches. Until the reload is complete, the reload therefore takes only
//! the part `a * M / (1 us + a * M)` of the task's time. Otherwise tasks with large footprints that
//! share a CPU would do nothing but reload.
//!
//! Not modelled: memory that several tasks share, the bandwidth of LLCs and of the links between
//! nodes, and the rising latency of memory whose bandwidth is not used up.

pub mod state;

use crate::hardware::footprint::state::NOWHERE;
use crate::hardware::memory::state::{MAX_FACTOR, ONE, PS_PER_US, Use};
use crate::machine::Machine;
use crate::simulation::id::{CpuId, IDLE};
use machine::smt::FULL_SPEED;

/// Divides a cache of `size` bytes among tasks with these footprints and rates, as an LRU cache
/// does. The share of each task is `min(footprint, rate * t)`. The time `t` is chosen so that the
/// shares fill the cache. If the cache is larger than all footprints, each share is the footprint.
fn divide(size: u64, tasks: &[(u64, u64)]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    // The order in which the shares reach the whole footprint as `t` grows.
    order.sort_by(|&a, &b| {
        let (a, b) = (tasks[a], tasks[b]);
        (u128::from(a.0) * u128::from(b.1)).cmp(&(u128::from(b.0) * u128::from(a.1)))
    });
    let mut left = u128::from(size);
    let mut rates: u128 = tasks.iter().map(|task| u128::from(task.1)).sum();
    let mut shares = vec![0; tasks.len()];
    for index in order {
        let (bytes, rate) = tasks[index];
        let share = u128::from(bytes).min(left * u128::from(rate) / rates.max(1));
        (left, rates) = (left - share, rates - u128::from(rate));
        shares[index] = share as u64;
    }
    shares
}

/// Returns `value * part / whole`, without overflow.
fn fraction(value: u64, part: u64, whole: u64) -> u64 {
    (u128::from(value) * u128::from(part) / u128::from(whole.max(1))) as u64
}

/// Returns the speed of a task that would otherwise have the speed `base`, if each us of its work
/// takes `extra_ps` ps longer. A us of work is the work that full speed does in one us.
pub(super) fn slowed(base: u64, extra_ps: u64) -> u64 {
    let full = PS_PER_US * u64::from(FULL_SPEED);
    ((u128::from(base * full)).div_ceil(u128::from(full) + u128::from(extra_ps) * u128::from(base))) as u64
}

impl Machine {
    /// Updates the speeds of all CPUs that are affected by a change on `cpu`. Either its running
    /// task has changed, or the speed at which this task would run without this slowdown.
    #[inline]
    pub(crate) fn update_memory(&mut self, cpu: CpuId) {
        if self.memory.active() {
            self.update_users(cpu);
        }
    }

    /// Returns whether the task of `cpu` uses an LLC or memory.
    #[inline]
    pub(super) fn uses_memory(&self, cpu: CpuId) -> bool {
        self.memory.uses.get(cpu.index()).is_some_and(|used| used.bytes > 0)
    }

    /// Returns the additional time that a us of work takes on `cpu`, ps.
    #[inline]
    pub(super) fn extra_ps(&self, cpu: CpuId) -> u64 {
        self.memory.uses.get(cpu.index()).map_or(0, |used| used.extra_ps)
    }

    fn update_users(&mut self, cpu: CpuId) {
        let used = self.wanted_use(cpu);
        if used.bytes == 0 && !self.uses_memory(cpu) {
            return;
        }
        let llc = self.spec.topology.cpus[cpu.index()].llc as usize;
        let crowded = self.memory.set_user(cpu, llc, used.bytes, &self.caches);
        self.memory.uses[cpu.index()] = used;
        let mut changed = vec![cpu];
        if crowded {
            changed.extend(self.memory.users[llc].iter().copied().filter(|&user| user != cpu));
            self.share_llc(llc);
        }
        for &cpu in &changed {
            self.set_demand(cpu);
        }
        if self.memory.saturated() {
            changed.extend(self.memory_users());
            changed.sort_unstable();
            changed.dedup();
            self.set_factors();
        }
        for cpu in changed {
            self.memory.uses[cpu.index()].extra_ps = self.extra_at(cpu, |pool| self.memory.pools[pool].factor);
            self.apply_speed(cpu);
        }
    }

    /// Returns the CPUs whose tasks use memory.
    fn memory_users(&self) -> Vec<CpuId> {
        self.memory.users.iter().flatten().copied().collect()
    }

    /// Returns the use of the LLC and of memory by the running task of `cpu`, as if no other task
    /// ran on the LLC.
    fn wanted_use(&self, cpu: CpuId) -> Use {
        let curr = self.rqs[cpu].curr;
        if curr == IDLE {
            return Use::default();
        }
        let footprint = &self.tasks[curr].footprint;
        let info = &self.spec.topology.cpus[cpu.index()];
        let private = self.caches.private[info.core as usize].size;
        let touch = u64::from(footprint.touch_mbps.unwrap_or(self.spec.costs.touch_mbps));
        let bytes = footprint.bytes;
        if bytes <= private || touch == 0 {
            return Use::default();
        }
        let held = bytes.min(self.caches.llcs[info.llc as usize].size.max(private));
        let node = info.node as usize;
        let (memory_ps, llc_ps) = (self.caches.memory_ps[node][node], self.spec.costs.reload_llc_ps);
        // The task waits at most 1 us per us of work.
        let waits = u128::from(bytes - held) * u128::from(memory_ps) + u128::from(held - private) * u128::from(llc_ps);
        let most = u128::from(PS_PER_US) * u128::from(bytes) / waits.max(1);
        let touch = touch.min(most.min(u128::from(u64::MAX)) as u64);
        let loaded = fraction(touch, bytes - held, bytes);
        Use {
            bytes,
            touch,
            held,
            loaded,
            loaded_alone: loaded,
            extra_ps: 0,
        }
    }

    /// Divides an LLC among the running tasks that use it.
    fn share_llc(&mut self, llc: usize) {
        let tasks: Vec<(u64, u64)> = self.memory.users[llc]
            .iter()
            .map(|cpu| &self.memory.uses[cpu.index()])
            .map(|used| (used.bytes, used.touch))
            .collect();
        let shares = divide(self.caches.llcs[llc].size, &tasks);
        for (at, share) in shares.into_iter().enumerate() {
            let cpu = self.memory.users[llc][at];
            let core = self.spec.topology.cpus[cpu.index()].core as usize;
            let used = &mut self.memory.uses[cpu.index()];
            used.held = used.bytes.min(share.max(self.caches.private[core].size));
            used.loaded = fraction(used.touch, used.bytes - used.held, used.bytes).max(used.loaded_alone);
        }
    }

    /// Calculates again the rate at which the task of `cpu` would load from each pool if the
    /// latencies did not rise.
    fn set_demand(&mut self, cpu: CpuId) {
        let rate = self.load_rate(cpu, |_| ONE);
        for pool in 0..self.memory.pools.len() {
            let demand = self.part_in_pool(cpu, rate, pool);
            let index = cpu.index() * self.memory.pools.len() + pool;
            let old = std::mem::replace(&mut self.memory.demands[index], demand);
            let all = &mut self.memory.pools[pool].demand;
            *all = *all - old + demand;
        }
    }

    /// Calculates the latency of each pool.
    fn set_factors(&mut self) {
        for pool in &mut self.memory.pools {
            pool.factor = ONE;
        }
        let users = self.memory_users();
        for pool in 0..self.memory.pools.len() {
            let known = self.memory.pools[pool];
            if known.demand > known.bandwidth {
                self.memory.pools[pool].factor = self.factor_for(pool, &users);
            }
        }
    }

    /// Returns the smallest relative latency of a pool at which its bandwidth is sufficient.
    fn factor_for(&self, pool: usize, users: &[CpuId]) -> u64 {
        let fits = |factor: u64| {
            let loaded = users
                .iter()
                .map(|&cpu| self.part_in_pool(cpu, self.load_rate(cpu, |_| factor), pool));
            loaded.sum::<u64>() <= self.memory.pools[pool].bandwidth
        };
        let (mut low, mut high) = (ONE, MAX_FACTOR);
        while low < high {
            let middle = low.midpoint(high);
            match fits(middle) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        low
    }

    /// Returns the bytes per us that the task of `cpu` loads from memory if the relative latency of
    /// each pool is `factor(pool)`.
    fn load_rate(&self, cpu: CpuId, factor: impl Fn(usize) -> u64) -> u64 {
        let loaded = self.memory.uses[cpu.index()].loaded;
        if loaded == 0 {
            return 0;
        }
        let speed = slowed(self.base_speed(cpu), self.extra_at(cpu, factor));
        loaded * speed / u64::from(FULL_SPEED)
    }

    /// Returns the part of the load rate `rate` of a CPU's task that comes from one pool.
    fn part_in_pool(&self, cpu: CpuId, rate: u64, pool: usize) -> u64 {
        if rate == 0 || self.memory.pools.len() == 1 {
            return rate;
        }
        if let Some(pages) = self.tasks[self.rqs[cpu].curr].footprint.spread_pages() {
            return fraction(rate, pages.by_node()[pool], pages.nr());
        }
        match self.home_of_curr(cpu) as usize == pool {
            true => rate,
            false => 0,
        }
    }

    /// Returns the additional time that a us of work takes on `cpu`, ps, if the relative latency of
    /// each pool is `factor(pool)`.
    fn extra_at(&self, cpu: CpuId, factor: impl Fn(usize) -> u64) -> u64 {
        let used = self.memory.uses[cpu.index()];
        if used.loaded == 0 {
            return 0;
        }
        let node = self.spec.topology.cpus[cpu.index()].node as usize;
        let home = self.home_of_curr(cpu) as usize;
        let memory_ps = &self.caches.memory_ps[node];
        let pool = if self.memory.pools.len() == 1 { 0 } else { home };
        let waits = match self.tasks[self.rqs[cpu].curr].footprint.spread_pages() {
            None => fraction(used.loaded * memory_ps[home], factor(pool), ONE),
            Some(pages) => {
                let by_node = pages.by_node().iter().enumerate();
                let waits = by_node.map(|(node, &nr)| {
                    let all = fraction(used.loaded * memory_ps[node], factor(node), ONE);
                    fraction(all, nr, pages.nr())
                });
                waits.sum()
            }
        };
        let alone = used.loaded_alone * memory_ps[node];
        let from_llc = (used.loaded - used.loaded_alone) * u64::from(self.spec.costs.reload_llc_ps);
        waits.saturating_sub(alone + from_llc)
    }

    /// Returns the node with the memory of the running task of `cpu`. Memory that does not exist
    /// yet will be on the node of the CPU.
    fn home_of_curr(&self, cpu: CpuId) -> u32 {
        match self.tasks[self.rqs[cpu].curr].footprint.home {
            NOWHERE => self.spec.topology.cpus[cpu.index()].node,
            home => home,
        }
    }

    /// Verifies the use of caches and memory by all running tasks.
    ///
    /// # Panics
    /// If the stored use differs from the use that is calculated from the beginning.
    pub(crate) fn verify_memory(&self) {
        let nr_pools = self.memory.pools.len();
        for (cpu, used) in self.cpus().zip(&self.memory.uses) {
            let wanted = self.wanted_use(cpu);
            assert_eq!(
                (used.bytes, used.touch, used.loaded_alone),
                (wanted.bytes, wanted.touch, wanted.loaded_alone),
                "the use of memory by the task on CPU {cpu} is out of date"
            );
            let extra = self.extra_at(cpu, |pool| self.memory.pools[pool].factor);
            assert_eq!(used.extra_ps, extra, "the slowdown of CPU {cpu} is out of date");
        }
        for (llc, users) in self.memory.users.iter().enumerate() {
            let held = users.iter().map(|cpu| self.memory.uses[cpu.index()].bytes).sum::<u64>();
            assert_eq!(self.memory.wanted[llc], held, "the footprints on LLC {llc}");
        }
        for (pool, known) in self.memory.pools.iter().enumerate() {
            let demands = self.memory.demands.iter().skip(pool).step_by(nr_pools);
            assert_eq!(
                known.demand,
                demands.sum::<u64>(),
                "the demand for pool {pool} of memory"
            );
        }
    }
}

#[cfg(test)]
mod tests;
