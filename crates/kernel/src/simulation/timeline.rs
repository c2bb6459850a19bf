// SPDX-License-Identifier: GPL-2.0-only
//! Simulated spinlocks and the time that CPUs spend waiting for them.
//!
//! The simulator runs a critical section as one step and learns its length only when the section ends. A lock therefore stores a
//! timeline instead of an owner: the intervals, in the local time of the CPUs, during which it was held. A CPU that requests a
//! held lock is charged the wait until the last holder's release, plus the cost of handing the lock over.
//!
//! Simulated steps do not run in the order of local time. CPU 1 may request the lock at t = 100 in an earlier step, and CPU 2 at
//! t = 40 in a later one:
//!
//! ```text
//! CPU 1             |---held---|          recorded first
//! CPU 2   |-held-|                        arrives second, but fits into the gap before
//!       40      70  100       130
//! ```
//!
//! The timeline keeps one such gap, before the current busy interval. A CPU that arrives in the gap acquires the lock there. If its
//! critical section is longer than the gap, every later holder and waiter is delayed by the excess.

use crate::simulation::id::CpuId;
use crate::simulation::table::{Id, Table, id};
use std::collections::BTreeMap;

/// Identity of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockId {
    /// Lock of a runqueue.
    Rq(CpuId),
    /// Lock of a DSQ. A slot of the table of DSQs is reused after a DSQ is destroyed; the id tells the two apart.
    Dsq { slot: u32, id: u64 },
    /// bpf_spin_lock at an address of the region.
    Bpf(u64),
}

/// Statistics of one lock, as /proc/lock_stat has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockStat {
    pub acquisitions: u64,
    pub contended: u64,
    pub wait_ns: u64,
    pub wait_max_ns: u64,
    pub held_ns: u64,
}

id! {
    /// Index of a lock in [`Locks`].
    LockIndex
}

/// Busy intervals of one lock. All times are in ns of the holding CPU's local time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeline {
    pub(super) id: LockId,
    /// End of the last critical section.
    pub(super) free_at: u64,
    /// Start of the busy interval that ends at `free_at`.
    pub(super) busy_from: u64,
    /// End of the busy interval before `busy_from`. The gap between the two can be used.
    pub(super) previous_free_at: u64,
    /// Start of a critical section inside the gap while one is in progress, else NEVER.
    pub(super) gap_acquired_at: u64,
    /// Start of the current critical section.
    pub(super) acquired_at: u64,
    pub(super) last_holder: CpuId,
    pub(super) stat: LockStat,
}

/// All locks of a machine.
#[derive(Default)]
pub struct Locks {
    /// Runqueue locks come first, in the order of their CPUs.
    pub(super) all: Table<LockIndex, Timeline>,
    /// Locks of DSQs, by slot.
    pub(super) dsqs: Vec<Option<LockIndex>>,
    /// Locks of type bpf_spin_lock, by address.
    pub(super) bpf: BTreeMap<u64, LockIndex>,
}

pub(super) const NEVER: u64 = u64::MAX;

/// A lock that the running CPU holds.
#[must_use]
pub(crate) struct HeldLock(pub(super) LockIndex);

impl HeldLock {
    pub(crate) fn index(&self) -> LockIndex {
        self.0
    }
}

impl Locks {
    pub fn new(nr_cpus: u32) -> Locks {
        let all = (0..nr_cpus)
            .map(|cpu| {
                let cpu = CpuId::new(cpu as usize);
                Timeline::new(LockId::Rq(cpu), cpu)
            })
            .collect();
        Locks {
            all,
            ..Locks::default()
        }
    }

    /// Returns the index of a lock. A lock that was never acquired before is created with `cpu` as its last holder.
    #[inline(always)]
    pub(super) fn find(&mut self, id: LockId, cpu: CpuId) -> LockIndex {
        match id {
            LockId::Rq(cpu) => return LockIndex::new(cpu.index()),
            LockId::Dsq { slot, .. } => {
                if let Some(&Some(index)) = self.dsqs.get(slot as usize)
                    && self.all[index].id == id
                {
                    return index;
                }
            }
            LockId::Bpf(address) => {
                if let Some(&index) = self.bpf.get(&address) {
                    return index;
                }
            }
        }
        self.create(id, cpu)
    }

    #[cold]
    fn create(&mut self, id: LockId, cpu: CpuId) -> LockIndex {
        let index = self.all.push(Timeline::new(id, cpu));
        match id {
            LockId::Rq(_) => unreachable!("runqueue locks are created with the machine"),
            LockId::Dsq { slot, .. } => {
                let slot = slot as usize;
                self.dsqs.resize(self.dsqs.len().max(slot + 1), None);
                self.dsqs[slot] = Some(index);
            }
            LockId::Bpf(address) => {
                self.bpf.insert(address, index);
            }
        }
        index
    }

    /// Returns whether the bpf_spin_lock at this address was acquired before.
    pub(crate) fn knows_bpf(&self, address: u64) -> bool {
        self.bpf.contains_key(&address)
    }

    /// Iterates over the locks with their statistics, in the order of [`LockIndex`].
    pub fn stats(&self) -> impl Iterator<Item = (LockId, LockStat)> + '_ {
        self.all.iter().map(|lock| (lock.id, lock.stat))
    }
}

impl Timeline {
    pub(super) fn new(id: LockId, cpu: CpuId) -> Timeline {
        Timeline {
            id,
            free_at: 0,
            busy_from: 0,
            previous_free_at: 0,
            gap_acquired_at: NEVER,
            acquired_at: 0,
            last_holder: cpu,
            stat: LockStat::default(),
        }
    }

    /// Ends the critical section inside the gap. Its part beyond the gap delays the end of the busy interval.
    #[cold]
    pub(super) fn release_in_gap(&mut self, at: u64) {
        let acquired_at = std::mem::replace(&mut self.gap_acquired_at, NEVER);
        self.stat.held_ns += at.saturating_sub(acquired_at);
        self.free_at += at.saturating_sub(acquired_at.max(self.busy_from));
        self.previous_free_at = self.previous_free_at.max(at.min(self.busy_from));
    }

    #[inline]
    pub(super) fn acquire(&mut self, cpu: CpuId, at: u64) {
        self.last_holder = cpu;
        self.acquired_at = at;
        // The end is not known yet; `release` sets it.
        self.free_at = at;
    }
}

impl std::fmt::Display for LockId {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            LockId::Rq(cpu) => write!(f, "rq {cpu}"),
            LockId::Dsq { id, .. } => write!(f, "dsq {id:#x}"),
            LockId::Bpf(address) => write!(f, "bpf_spin_lock {address:#x}"),
        }
    }
}
