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

use crate::machine::Machine;
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
    /// Since when it is taken without a break, and until when it was taken before.
    busy_from: u64,
    before: u64,
    /// When somebody took it who came before `busy_from`; NEVER unless he has it now.
    early_at: u64,
    stat: LockStat,
}

/// All locks of a machine. A lock's number is its place here.
#[derive(Default)]
pub struct Locks {
    /// Runqueue locks first.
    all: Vec<Timeline>,
    /// Numbers of DSQs' locks by slot, of bpf_spin_locks by address.
    dsqs: Vec<u32>,
    bpf: BTreeMap<u64, u32>,
}

const NONE: u32 = u32::MAX;
const NEVER: u64 = u64::MAX;

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
    fn new(id: LockId, cpu: u32) -> Timeline {
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
    fn release_early(&mut self, at: u64) {
        let taken_at = std::mem::replace(&mut self.early_at, NEVER);
        self.stat.held_ns += at.saturating_sub(taken_at);
        self.free_at += at.saturating_sub(taken_at.max(self.busy_from));
        self.before = self.before.max(at.min(self.busy_from));
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
        lock.before = lock.free_at;
        lock.busy_from = local;
        lock.take(cpu, local + cost);
        self.charge(cpu, cost);
    }

    #[cold]
    fn lock_contended(&mut self, number: usize, local: u64) {
        let cpu = self.this_cpu;
        let lock = &mut self.locks.all[number];
        let distance = self.spec.topology.distance(lock.last_cpu, cpu);
        let early = local < lock.busy_from;
        let wait = (if early { lock.before } else { lock.free_at }).saturating_sub(local);
        if wait == 0 {
            let cost = self.spec.costs.lock_acquire.at(distance);
            lock.early_at = local + cost;
            self.charge(cpu, cost);
            return;
        }
        lock.stat.contended += 1;
        lock.stat.wait_ns += wait;
        lock.stat.wait_max_ns = lock.stat.wait_max_ns.max(wait);
        let cost = wait + self.spec.costs.lock_handover.at(distance);
        if early {
            lock.early_at = local + cost;
        } else {
            lock.take(cpu, local + cost);
        }
        self.charge(cpu, cost);
        if self.details {
            self.tell_wait(number, local, wait);
        }
    }

    fn tell_wait(&mut self, number: usize, local: u64, ns: u64) {
        let (cpu, lock) = (self.this_cpu, number as u32);
        if self.locks.all[number].stat.contended == 1 {
            let name = self.lock_name(self.locks.all[number].id);
            self.trace_text(cpu, Event::LockName { lock, name });
        }
        let after = self.after(local);
        self.trace(cpu, Event::LockWait { lock, after, ns });
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
        if lock.early_at != NEVER {
            return lock.release_early(local);
        }
        lock.free_at = local;
        lock.stat.held_ns += local.saturating_sub(lock.taken_at);
    }
}

impl Machine {
    /// A lock's name for people: a policy's by the map it lies in.
    pub fn lock_name(&self, id: LockId) -> String {
        match id {
            LockId::Bpf(address) => {
                let maps = self.ext.last_vm().map_or(&[][..], |vm| vm.maps());
                let places = maps.iter().filter_map(|map| {
                    let (base, stride, max) = map.values()?;
                    let offset = address
                        .checked_sub(base)
                        .filter(|&offset| offset < stride * u64::from(max))?;
                    let index = if max > 1 {
                        format!("[{}]", offset / stride)
                    } else {
                        String::new()
                    };
                    Some(format!("bpf_spin_lock {}{index}+{:#x}", map.name(), offset % stride))
                });
                places.last().unwrap_or_else(|| id.to_string())
            }
            _ => id.to_string(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{ByDistance, MachineSpec};
    use workload::Workload;

    /// Four CPUs; hand-overs take 10 ns, nothing else anything.
    fn machine() -> Machine {
        let mut spec = MachineSpec::smp(4).free();
        spec.costs.lock_handover = ByDistance {
            llc: 10,
            ..ByDistance::default()
        };
        Machine::new(spec, Workload::default(), 1).expect("a machine")
    }

    const LOCK: LockId = LockId::Bpf(0x40);

    /// A CPU that has `debt` to work off takes the lock for `hold` ns; what it waited.
    fn hold(m: &mut Machine, cpu: u32, debt: u64, hold: u64) -> u64 {
        m.this_cpu = cpu;
        m.rqs[cpu as usize].debt = debt;
        m.lock(LOCK);
        let waited = m.local_time(cpu) - debt;
        m.charge(cpu, hold);
        m.unlock(LOCK);
        waited
    }

    fn stat(m: &Machine) -> LockStat {
        m.locks().find(|(id, _)| *id == LOCK).expect("it was taken").1
    }

    #[test]
    fn waiters_are_served_in_the_order_they_come() {
        let mut m = machine();
        assert_eq!(hold(&mut m, 0, 0, 100), 0);
        // 0 has it until 100, then 1, with a hand-over, until 160, then 2.
        assert_eq!(hold(&mut m, 1, 40, 50), 60 + 10);
        assert_eq!(hold(&mut m, 2, 50, 50), 110 + 10);
        assert_eq!(hold(&mut m, 3, 1000, 50), 0, "it is free by then");
        let expected = LockStat {
            acquisitions: 4,
            contended: 2,
            wait_ns: 60 + 110,
            wait_max_ns: 110,
            held_ns: 250,
        };
        assert_eq!(stat(&m), expected);
    }

    #[test]
    fn who_comes_before_a_break_does_not_wait_for_those_behind_it() {
        let mut m = machine();
        hold(&mut m, 0, 0, 100);
        // By its clock it takes the lock at 500, though its handler runs first.
        assert_eq!(hold(&mut m, 1, 500, 100), 0);
        assert_eq!(hold(&mut m, 2, 200, 50), 0, "free from 100 to 500");
        assert_eq!(hold(&mut m, 3, 220, 20), 30 + 10, "but not from 200 to 250");
        assert_eq!(stat(&m).contended, 1);
        // 2 is not through when 1 begins: who waits for 1 waits longer.
        assert_eq!(hold(&mut m, 2, 480, 50), 0);
        assert_eq!(hold(&mut m, 0, 550, 10), 50 + 30 + 10);
    }
}
