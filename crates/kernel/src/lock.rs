// SPDX-License-Identifier: GPL-2.0-only
//! Locks as timelines: who comes while a lock is held waits until it is handed over, and is charged for it.
//!
//! Critical sections happen at one instant of simulated time; what they cost is known when they end. So a lock
//! remembers until when, in its holders' local times, it is taken; waiters are served in the order they come.

use crate::machine::Machine;
use std::collections::BTreeMap;
use trace::Event;

/// Names a lock. Runqueue locks come first, one a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockId {
    Rq(u32),
    Dsq(u64),
    /// bpf_spin_lock at an address of the region.
    Bpf(u64),
}

/// What lockstat would say of one lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockStat {
    pub acquisitions: u64,
    pub contended: u64,
    pub wait_ns: u64,
    pub held_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Timeline {
    free_at: u64,
    last_cpu: u32,
    taken_at: u64,
    stat: LockStat,
    number: u32,
}

#[derive(Default)]
pub struct Locks {
    rq: Vec<Timeline>,
    others: BTreeMap<LockId, Timeline>,
}

impl Locks {
    pub fn new(nr_cpus: u32) -> Locks {
        let rq = (0..nr_cpus).map(|cpu| Timeline::new(cpu, cpu)).collect();
        Locks { rq, others: BTreeMap::new() }
    }

    fn get(&mut self, id: LockId, cpu: u32) -> &mut Timeline {
        match id {
            LockId::Rq(cpu) => &mut self.rq[cpu as usize],
            other => {
                let number = (self.rq.len() + self.others.len()) as u32;
                self.others.entry(other).or_insert_with(|| Timeline::new(cpu, number))
            }
        }
    }

    /// The locks' names by the number that `LockWait` records use.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<(u32, String)> = self.rq.iter().map(|lock| (lock.number, format!("rq {}", lock.number))).collect();
        names.extend(self.others.iter().map(|(id, lock)| (lock.number, id.to_string())));
        names.sort();
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// Every lock taken so far with its figures, in a fixed order.
    pub fn stats(&self) -> impl Iterator<Item = (LockId, LockStat)> + '_ {
        let rq = self.rq.iter().enumerate().map(|(cpu, lock)| (LockId::Rq(cpu as u32), lock.stat));
        rq.chain(self.others.iter().map(|(&id, lock)| (id, lock.stat)))
    }
}

impl Timeline {
    fn new(cpu: u32, number: u32) -> Timeline {
        Timeline { free_at: 0, last_cpu: cpu, taken_at: 0, stat: LockStat::default(), number }
    }
}

impl Machine {
    /// Takes a lock on the CPU whose code is running; charges the acquisition and any wait.
    pub(crate) fn lock(&mut self, id: LockId) {
        let cpu = self.this_cpu;
        let local = self.local_time(cpu);
        let topology = &self.spec.topology;
        let lock = self.locks.get(id, cpu);
        let distance = topology.distance(lock.last_cpu, cpu);
        let costs = &self.spec.costs;
        let wait = lock.free_at.saturating_sub(local);
        let cost = if wait > 0 { wait + costs.lock_handover.at(distance) } else { costs.lock_acquire.at(distance) };
        lock.stat.acquisitions += 1;
        lock.stat.contended += u64::from(wait > 0);
        lock.stat.wait_ns += wait;
        lock.last_cpu = cpu;
        lock.taken_at = local + cost;
        // Until it is released it counts as taken for an instant only; unlock sets the real end.
        lock.free_at = lock.taken_at;
        let number = lock.number;
        self.charge(cpu, cost);
        if wait > 0 {
            self.trace(cpu, Event::LockWait { lock: number, ns: wait });
        }
    }

    /// Releases a lock at the local time of the CPU whose code is running.
    pub(crate) fn unlock(&mut self, id: LockId) {
        let cpu = self.this_cpu;
        let local = self.local_time(cpu);
        let lock = self.locks.get(id, cpu);
        lock.free_at = local;
        lock.stat.held_ns += local.saturating_sub(lock.taken_at);
    }
}

impl std::fmt::Display for LockId {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            LockId::Rq(cpu) => write!(f, "rq {cpu}"),
            LockId::Dsq(id) => write!(f, "dsq {id:#x}"),
            LockId::Bpf(address) => write!(f, "bpf_spin_lock {address:#x}"),
        }
    }
}
