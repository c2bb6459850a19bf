// SPDX-License-Identifier: GPL-2.0-only
//! Locks as timelines: who comes while a lock is held waits until it is handed over, and is charged for it.
//!
//! Critical sections happen at one instant of simulated time; what they cost is known when they end. So a lock
//! remembers until when, in its holders' local times, it is taken; waiters are served in the order they come.
//!
//! A handler that runs first may take a lock later, by its CPU's clock, than one that runs second: its CPU has much to work off.
//! So a lock remembers, too, since when it is taken without a break, and until when it was taken before that: who comes before
//! the break is over does not wait for those behind it. If he is not through by then, they, and who waits for them, are late by
//! as much.

use crate::simulation::id::CpuId;
use crate::simulation::table::Id;
use std::collections::BTreeMap;

/// Names a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockId {
    Rq(CpuId),
    /// A DSQ's, by its place in the table of DSQs and its id.
    Dsq {
        slot: u32,
        id: u64,
    },
    /// bpf_spin_lock at an address of the region.
    Bpf(u64),
}

/// What lockstat would say of one lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockStat {
    pub acquisitions: u64,
    pub contended: u64,
    pub wait_ns: u64,
    pub wait_max_ns: u64,
    pub held_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Timeline {
    pub(super) id: LockId,
    pub(super) free_at: u64,
    pub(super) last_cpu: CpuId,
    pub(super) taken_at: u64,
    /// Since when it is taken without a break, and until when it was taken before.
    pub(super) busy_from: u64,
    pub(super) before: u64,
    /// When somebody took it who came before `busy_from`; NEVER unless he has it now.
    pub(super) early_at: u64,
    pub(super) stat: LockStat,
}

/// All locks of a machine. A lock's number is its place here.
#[derive(Default)]
pub struct Locks {
    /// Runqueue locks first.
    pub(super) all: Vec<Timeline>,
    /// Numbers of DSQs' locks by slot, of bpf_spin_locks by address.
    pub(super) dsqs: Vec<u32>,
    pub(super) bpf: BTreeMap<u64, u32>,
}

pub(super) const NONE: u32 = u32::MAX;

pub(super) const NEVER: u64 = u64::MAX;

/// A lock that is held.
#[must_use]
pub(crate) struct Held(pub(super) usize);

impl Held {
    pub(crate) fn number(&self) -> u32 {
        self.0 as u32
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

    /// The lock's number. One not seen before is made, last held by `cpu`.
    #[inline(always)]
    pub(super) fn number(&mut self, id: LockId, cpu: CpuId) -> usize {
        match id {
            LockId::Rq(cpu) => return cpu.index(),
            LockId::Dsq { slot, .. } => {
                if let Some(&number) = self.dsqs.get(slot as usize)
                    && number != NONE
                    && self.all[number as usize].id == id
                {
                    return number as usize;
                }
            }
            LockId::Bpf(address) => {
                if let Some(&number) = self.bpf.get(&address) {
                    return number as usize;
                }
            }
        }
        self.make(id, cpu)
    }

    #[cold]
    pub(super) fn make(&mut self, id: LockId, cpu: CpuId) -> usize {
        let number = self.all.len();
        self.all.push(Timeline::new(id, cpu));
        match id {
            LockId::Rq(_) => unreachable!("runqueues' locks are made with the machine"),
            LockId::Dsq { slot, .. } => {
                let slot = slot as usize;
                self.dsqs.resize(self.dsqs.len().max(slot + 1), NONE);
                self.dsqs[slot] = number as u32;
            }
            LockId::Bpf(address) => {
                self.bpf.insert(address, number as u32);
            }
        }
        number
    }

    /// Returns whether the bpf_spin_lock at this address was taken before.
    pub(crate) fn knows_bpf(&self, address: u64) -> bool {
        self.bpf.contains_key(&address)
    }

    /// Every lock taken so far with its figures, by number.
    pub fn stats(&self) -> impl Iterator<Item = (LockId, LockStat)> + '_ {
        self.all.iter().map(|lock| (lock.id, lock.stat))
    }
}

impl Timeline {
    pub(super) fn new(id: LockId, cpu: CpuId) -> Timeline {
        Timeline {
            id,
            free_at: 0,
            last_cpu: cpu,
            taken_at: 0,
            busy_from: 0,
            before: 0,
            early_at: NEVER,
            stat: LockStat::default(),
        }
    }

    #[cold]
    pub(super) fn release_early(&mut self, at: u64) {
        let taken_at = std::mem::replace(&mut self.early_at, NEVER);
        self.stat.held_ns += at.saturating_sub(taken_at);
        self.free_at += at.saturating_sub(taken_at.max(self.busy_from));
        self.before = self.before.max(at.min(self.busy_from));
    }

    #[inline]
    pub(super) fn take(&mut self, cpu: CpuId, at: u64) {
        self.last_cpu = cpu;
        self.taken_at = at;
        // Until it is released it counts as taken for an instant only; `release` sets the real end.
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
