// SPDX-License-Identifier: GPL-2.0-only
//! Locks as timelines: who comes while a lock is held waits until it is handed over, and is charged for it.
//!
//! Critical sections happen at one instant of simulated time; what they cost is known when they end. So a lock
//! remembers until when, in its holders' local times, it is taken; waiters are served in the order they come.

use crate::machine::Machine;
use crate::table::Table;
use std::collections::BTreeMap;
use trace::Event;

/// Names a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockId {
    Rq(u32),
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
struct Timeline {
    id: LockId,
    free_at: u64,
    last_cpu: u32,
    taken_at: u64,
    stat: LockStat,
}

/// All locks of a machine. A lock's number is its place here.
#[derive(Default)]
pub struct Locks {
    /// Runqueue locks first.
    all: Table<Timeline>,
    /// Numbers of DSQs' locks by slot, of bpf_spin_locks by address.
    dsqs: Vec<u32>,
    bpf: BTreeMap<u64, u32>,
}

const NONE: u32 = u32::MAX;

/// A lock that is held.
#[must_use]
pub(crate) struct Held(usize);

impl Held {
    pub(crate) fn number(&self) -> u32 {
        self.0 as u32
    }
}

impl Locks {
    pub fn new(nr_cpus: u32) -> Locks {
        let all = (0..nr_cpus).map(|cpu| Timeline::new(LockId::Rq(cpu), cpu)).collect();
        Locks {
            all,
            ..Locks::default()
        }
    }

    /// The lock's number. One not seen before is made, last held by `cpu`.
    #[inline(always)]
    fn number(&mut self, id: LockId, cpu: u32) -> usize {
        match id {
            LockId::Rq(cpu) => return cpu as usize,
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
    fn make(&mut self, id: LockId, cpu: u32) -> usize {
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

    /// Every lock taken so far with its figures, by number.
    pub fn stats(&self) -> impl Iterator<Item = (LockId, LockStat)> + '_ {
        self.all.iter().map(|lock| (lock.id, lock.stat))
    }
}

impl Timeline {
    fn new(id: LockId, cpu: u32) -> Timeline {
        Timeline {
            id,
            free_at: 0,
            last_cpu: cpu,
            taken_at: 0,
            stat: LockStat::default(),
        }
    }

    #[inline]
    fn take(&mut self, cpu: u32, at: u64) {
        self.last_cpu = cpu;
        self.taken_at = at;
        // Until it is released it counts as taken for an instant only; `release` sets the real end.
        self.free_at = at;
    }
}

impl Machine {
    /// Takes a lock on the CPU whose code is running; charges the acquisition and any wait.
    #[inline]
    pub(crate) fn lock(&mut self, id: LockId) {
        let _ = self.lock_held(id);
    }

    /// As [`Machine::lock`]; what it returns makes the release need no look-up.
    #[inline]
    pub(crate) fn lock_held(&mut self, id: LockId) -> Held {
        let number = self.locks.number(id, self.this_cpu);
        self.lock_again(number as u32)
    }

    /// Takes a lock by the number it had when it was held before.
    #[inline]
    pub(crate) fn lock_again(&mut self, number: u32) -> Held {
        self.lock_number(number as usize);
        Held(number as usize)
    }

    fn lock_number(&mut self, number: usize) {
        let cpu = self.this_cpu;
        let local = self.local_time(cpu);
        let lock = &mut self.locks.all[number];
        lock.stat.acquisitions += 1;
        if lock.free_at > local {
            return self.lock_contended(number, local);
        }
        let costs = &self.spec.costs.lock_acquire;
        let cost = if lock.last_cpu == cpu {
            u64::from(costs.same)
        } else {
            costs.at(self.spec.topology.distance(lock.last_cpu, cpu))
        };
        lock.take(cpu, local + cost);
        self.charge(cpu, cost);
    }

    #[cold]
    fn lock_contended(&mut self, number: usize, local: u64) {
        let cpu = self.this_cpu;
        let lock = &mut self.locks.all[number];
        let distance = self.spec.topology.distance(lock.last_cpu, cpu);
        let wait = lock.free_at - local;
        lock.stat.contended += 1;
        lock.stat.wait_ns += wait;
        lock.stat.wait_max_ns = lock.stat.wait_max_ns.max(wait);
        let cost = wait + self.spec.costs.lock_handover.at(distance);
        lock.take(cpu, local + cost);
        self.charge(cpu, cost);
        if self.details {
            let lock = number as u32;
            self.trace(cpu, Event::LockWait { lock, ns: wait });
        }
    }

    /// Releases a lock at the local time of the CPU whose code is running.
    #[inline]
    pub(crate) fn unlock(&mut self, id: LockId) {
        let number = self.locks.number(id, self.this_cpu);
        self.release(Held(number));
    }

    /// Releases a lock as [`Machine::unlock`] does.
    pub(crate) fn release(&mut self, Held(number): Held) {
        let local = self.local_time(self.this_cpu);
        let lock = &mut self.locks.all[number];
        lock.free_at = local;
        lock.stat.held_ns += local.saturating_sub(lock.taken_at);
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
