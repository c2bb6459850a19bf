// SPDX-License-Identifier: GPL-2.0-only
//! Simulated spinlocks, and the time that CPUs wait for them.
//!
//! The simulator executes a critical section at once and learns its length only when it ends.
//! Instead of an owner, a lock therefore stores a timeline: the intervals during which it was held,
//! in the local times of the CPUs (the current time plus the CPU's debt). A CPU that requests a
//! held lock is charged with the wait until the last holder releases it, plus the hand-over.
//!
//! Critical sections are not executed in the order of local time. For example, CPU 1 may request
//! the lock at its local time t = 100. In an event that is handled later, CPU 2 may request it at
//! its local time t = 40:
//!
//! ```text
//! CPU 1             |---held---|          executed first
//! CPU 2   |-held-|                        executed second, but fits into the gap before
//!       40      70  100       130
//! ```
//!
//! The timeline stores one such gap, which is before the current busy interval. A CPU that requests
//! the lock in the gap acquires it there. If its critical section is longer than the gap, all later
//! holders and waiters are delayed by the excess.

use crate::simulation::contention::Contention;
use crate::simulation::id::CpuId;
use crate::simulation::table::{Id, Table, id};
use std::collections::BTreeMap;

/// Identifies a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockId {
    /// Lock of a runqueue.
    Rq(CpuId),
    /// Lock of a DSQ. `slot` is its index in the table of DSQs, which may be reused after a DSQ is
    /// destroyed. `id` distinguishes the old DSQ from the new one.
    Dsq { slot: u32, id: u64 },
    /// A bpf_spin_lock at this address of the region, the memory that BPF programs can access.
    Bpf(u64),
}

/// Statistics of one lock, similar to those in /proc/lock_stat. Every acquisition changes the first two
/// numbers, a contended one all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LockStat {
    pub acquisitions: u64,
    pub held_ns: u64,
    pub contended: u64,
    pub wait_ns: u64,
    pub wait_max_ns: u64,
}

id! {
    /// Index of a lock in [`Locks`].
    LockIndex
}

/// The timeline of a lock. All times are local times of the CPUs that held the lock, ns. An acquisition
/// without contention, and the release, use only the first cache line of the host.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Timeline {
    /// End of the last critical section.
    pub(crate) free_at: u64,
    /// Start of the busy interval that ends at `free_at`. During a busy interval the lock is never
    /// free.
    pub(crate) busy_from: u64,
    /// End of the previous busy interval. The gap from here to `busy_from` can still be used.
    pub(crate) previous_free_at: u64,
    /// Start of the critical section that is being executed in the gap, or NEVER.
    pub(crate) gap_acquired_at: u64,
    /// Start of the critical section that is being executed outside of the gap.
    pub(crate) acquired_at: u64,
    pub(crate) last_holder: CpuId,
    pub(crate) stat: LockStat,
    pub(crate) id: LockId,
}

const _: () = assert!(size_of::<Timeline>() == 2 * 64);
const _: () = assert!(std::mem::offset_of!(Timeline, stat.contended) == 64);

/// All locks of a machine.
#[derive(Default)]
pub struct Locks {
    /// Runqueue locks come first, in the order of their CPUs.
    pub(crate) all: Table<LockIndex, Timeline>,
    /// Locks of DSQs, indexed by the slot of the DSQ.
    pub(crate) dsqs: Vec<Option<LockIndex>>,
    /// Waits by pair of callbacks, or `None` if they are not recorded.
    pub(crate) contention: Option<Box<Contention>>,
    /// Whether acquisitions are observed: recorded in `contention`, or by overlapping callbacks.
    pub(crate) observed: bool,
    /// Locks of the type bpf_spin_lock, by address.
    pub(crate) bpf: BTreeMap<u64, LockIndex>,
}

/// Value of `Timeline::gap_acquired_at` while no critical section is executed in the gap.
pub(crate) const NEVER: u64 = u64::MAX;

/// A lock that the current CPU holds.
#[must_use]
pub(crate) struct HeldLock(pub(crate) LockIndex);

impl HeldLock {
    pub(crate) fn index(&self) -> LockIndex {
        self.0
    }
}

impl Locks {
    /// Returns the locks of the runqueues. `contended` means that waits are recorded in `contention`.
    pub fn new(nr_cpus: u32, contended: bool) -> Locks {
        let all = (0..nr_cpus)
            .map(|cpu| {
                let cpu = CpuId::new(cpu as usize);
                Timeline::new(LockId::Rq(cpu), cpu)
            })
            .collect();
        Locks {
            all,
            contention: contended.then(Box::default),
            observed: contended,
            ..Locks::default()
        }
    }

    /// Returns the index of a lock. If it has never been acquired, creates it with `cpu` as its
    /// last holder.
    #[inline(always)]
    pub(crate) fn find(&mut self, id: LockId, cpu: CpuId) -> LockIndex {
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

    /// Returns whether the bpf_spin_lock at this address has ever been acquired.
    pub(crate) fn knows_bpf(&self, address: u64) -> bool {
        self.bpf.contains_key(&address)
    }

    /// Returns the statistics of all locks, in the order of [`LockIndex`].
    pub fn stats(&self) -> impl Iterator<Item = (LockId, LockStat)> + '_ {
        self.all.iter().map(|lock| (lock.id, lock.stat))
    }
}

impl Timeline {
    pub(crate) fn new(id: LockId, cpu: CpuId) -> Timeline {
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

    /// Ends the critical section that is in the gap. The part that exceeds the gap delays the end
    /// of the busy interval.
    #[cold]
    pub(crate) fn release_in_gap(&mut self, at: u64) {
        let acquired_at = std::mem::replace(&mut self.gap_acquired_at, NEVER);
        self.stat.held_ns += at.saturating_sub(acquired_at);
        self.free_at += at.saturating_sub(acquired_at.max(self.busy_from));
        self.previous_free_at = self.previous_free_at.max(at.min(self.busy_from));
    }

    #[inline]
    pub(crate) fn acquire(&mut self, cpu: CpuId, at: u64) {
        self.last_holder = cpu;
        self.acquired_at = at;
        // The end of the critical section is not known yet. `release` sets it.
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
