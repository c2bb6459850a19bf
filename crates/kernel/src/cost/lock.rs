// SPDX-License-Identifier: GPL-2.0-only
//! Acquires and releases simulated spinlocks and charges CPUs for the time that this takes. The
//! locks are in `simulation::timeline`. The local time of a CPU is the current time plus the work
//! (debt) that was charged to the CPU.

use crate::layout::callbacks::{Callback, NAMES, NR_OPS};
use crate::machine::Machine;
use crate::simulation::contention::{LockUser, PairStat};
use crate::simulation::id::CpuId;
use crate::simulation::table::Id;
use crate::simulation::timeline::*;
use std::collections::BTreeMap;
use trace::Event;

/// Programs of the policy that are no callbacks, for example those of timers.
const USER_OTHERS: LockUser = NR_OPS as LockUser;
/// The kernel, outside of callbacks.
const USER_KERNEL: LockUser = NR_OPS as LockUser + 1;

fn user_name(user: LockUser) -> &'static str {
    match user {
        USER_OTHERS => "timers and other programs",
        _ => NAMES.get(usize::from(user)).copied().unwrap_or("kernel"),
    }
}

impl Machine {
    /// Acquires a lock for the current CPU. Charges the CPU for the acquisition and for the time it
    /// waits.
    #[inline(always)]
    pub(crate) fn lock(&mut self, id: LockId) {
        let _ = self.lock_held(id);
    }

    /// Acquires a lock like [`Machine::lock`]. The result is passed to [`Machine::release`], which
    /// needs no search for the lock.
    #[inline(always)]
    pub(crate) fn lock_held(&mut self, id: LockId) -> HeldLock {
        let index = self.locks.find(id, self.this_cpu);
        self.reacquire(index)
    }

    /// Acquires a lock like [`Machine::lock_held`]. The index is known from an earlier acquisition,
    /// so the lock need not be searched for.
    #[inline]
    pub(crate) fn reacquire(&mut self, index: LockIndex) -> HeldLock {
        match self.locks.observed {
            true => self.acquire_observed(index),
            false => self.acquire(index),
        }
        HeldLock(index)
    }

    #[cold]
    #[inline(never)]
    fn acquire_observed(&mut self, index: LockIndex) {
        let id = self.locks.all[index].id;
        if self.overlap.is_some() {
            self.overlap_lock(id);
        }
        let local = self.local_time(self.this_cpu);
        let lock = &self.locks.all[index];
        let was_free = lock.free_at <= local;
        let in_gap = !was_free && local < lock.busy_from;
        let waited = lock.stat.wait_ns;
        self.acquire(index);
        let user = self.lock_user(id);
        let wait = self.locks.all[index].stat.wait_ns - waited;
        if let Some(contention) = &mut self.locks.contention {
            contention.acquired(index, user, in_gap, was_free, wait);
        }
    }

    /// Returns the code for which the current CPU acquires a lock. The kernel inserts a task into a
    /// DSQ after the callback that asked for it, so this counts for the callback.
    fn lock_user(&self, id: LockId) -> LockUser {
        match (self.ext.frame.op, id) {
            (Some(op), _) => op as LockUser,
            (None, LockId::Bpf(_)) => USER_OTHERS,
            (None, LockId::Rq(_)) => USER_KERNEL,
            (None, LockId::Dsq { .. }) => match self.ext.recent_callback {
                Some((at, cpu, op)) if (at, cpu) == (self.now, self.this_cpu) => op as LockUser,
                _ => USER_KERNEL,
            },
        }
    }

    /// Records that a callback begins while the runqueue of `locked_cpu` is locked.
    pub(crate) fn note_lock_user(&mut self, op: Callback, locked_cpu: Option<CpuId>) {
        self.ext.recent_callback = Some((self.now, self.this_cpu, op));
        if let (Some(contention), Some(cpu)) = (&mut self.locks.contention, locked_cpu) {
            let lock = LockIndex::new(cpu.index());
            let in_gap = self.locks.all[lock].gap_acquired_at != NEVER;
            contention.used_by(lock, op as LockUser, in_gap);
        }
    }

    fn acquire(&mut self, index: LockIndex) {
        let cpu = self.this_cpu;
        let local = self.local_time(cpu);
        let lock = &mut self.locks.all[index];
        lock.stat.acquisitions += 1;
        if lock.free_at > local {
            return self.acquire_contended(index, local);
        }
        let costs = &self.spec.costs.lock_acquire;
        let cost = if lock.last_holder == cpu {
            u64::from(costs.same)
        } else {
            costs.at(self.spec.topology.distance(lock.last_holder.nr(), cpu.nr()))
        };
        lock.previous_free_at = lock.free_at;
        lock.busy_from = local;
        lock.acquire(cpu, local + cost);
        self.charge(cpu, cost);
    }

    #[cold]
    fn acquire_contended(&mut self, index: LockIndex, local: u64) {
        let cpu = self.this_cpu;
        let lock = &mut self.locks.all[index];
        let distance = self.spec.topology.distance(lock.last_holder.nr(), cpu.nr());
        let in_gap = local < lock.busy_from;
        let free_at = if in_gap { lock.previous_free_at } else { lock.free_at };
        let wait = free_at.saturating_sub(local);
        if wait == 0 {
            let cost = self.spec.costs.lock_acquire.at(distance);
            lock.gap_acquired_at = local + cost;
            self.charge(cpu, cost);
            return;
        }
        lock.stat.contended += 1;
        lock.stat.wait_ns += wait;
        lock.stat.wait_max_ns = lock.stat.wait_max_ns.max(wait);
        let cost = self.spec.costs.lock_handover.at(distance);
        if in_gap {
            lock.gap_acquired_at = local + wait + cost;
        } else {
            lock.acquire(cpu, local + wait + cost);
        }
        // The wait ends when the other CPU releases the lock. The wait is added directly
        // to the time at which this CPU is free. `charge` would lengthen it if other busy CPUs slow
        // this CPU down, but a wait takes no longer then.
        self.rqs[cpu].free_at += wait;
        self.charge(cpu, cost);
        if self.details {
            self.record_wait(index, local, wait);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_wait(&mut self, index: LockIndex, local: u64, ns: u64) {
        let (cpu, lock) = (self.this_cpu, index.index() as u32);
        if self.locks.all[index].stat.contended == 1 {
            let name = self.lock_name(self.locks.all[index].id);
            self.trace_text(cpu, Event::LockName { lock, name });
        }
        let after = self.after(local);
        self.trace(cpu, Event::LockWait { lock, after, ns });
    }

    /// Releases a lock at the local time of the current CPU.
    #[inline(always)]
    pub(crate) fn unlock(&mut self, id: LockId) {
        let index = self.locks.find(id, self.this_cpu);
        self.release(HeldLock(index));
    }

    /// Releases a lock like [`Machine::unlock`], without a search for the lock.
    pub(crate) fn release(&mut self, HeldLock(index): HeldLock) {
        if self.overlap.is_some() {
            self.overlap_unlock(self.locks.all[index].id);
        }
        let local = self.local_time(self.this_cpu);
        let lock = &mut self.locks.all[index];
        if lock.gap_acquired_at != NEVER {
            return lock.release_in_gap(local);
        }
        lock.free_at = local;
        lock.stat.held_ns += local.saturating_sub(lock.acquired_at);
    }
}

/// A pair of callbacks of which one waited for a lock that the other held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockPair {
    pub lock: String,
    /// A callback, or the name of other code.
    pub holder: &'static str,
    pub waiter: &'static str,
    pub stat: PairStat,
}

impl Machine {
    /// Returns which code waited for which, ordered by lock. The locks of all runqueues are one row.
    /// Empty unless [`Options::hotspots`](crate::Options::hotspots) is set.
    pub fn lock_pairs(&self) -> Vec<LockPair> {
        let Some(contention) = &self.locks.contention else {
            return Vec::new();
        };
        let mut pairs: BTreeMap<(String, &'static str, &'static str), PairStat> = BTreeMap::new();
        for (index, holder, waiter, stat) in contention.pairs() {
            let lock = match self.locks.all[index].id {
                LockId::Rq(_) => "runqueues".to_owned(),
                id => self.lock_name(id),
            };
            let total = pairs.entry((lock, user_name(holder), user_name(waiter))).or_default();
            total.waits += stat.waits;
            total.wait_ns += stat.wait_ns;
            total.wait_max_ns = total.wait_max_ns.max(stat.wait_max_ns);
        }
        let pair = |((lock, holder, waiter), stat)| LockPair {
            lock,
            holder,
            waiter,
            stat,
        };
        pairs.into_iter().map(pair).collect()
    }

    /// Returns the name of a lock for reports. The name of a bpf_spin_lock contains the name of its
    /// map, the index of the map element if there are several, and its offset in the element.
    pub fn lock_name(&self, id: LockId) -> String {
        match id {
            LockId::Bpf(address) => {
                let subs = self.ext.sub_vms().into_iter().map(|(_, vm)| vm);
                let maps = self.ext.last_vm().into_iter().chain(subs).flat_map(|vm| vm.maps());
                let names = maps.filter_map(|map| {
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
                names.last().unwrap_or_else(|| id.to_string())
            }
            _ => id.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::cpu_id;
    use machine::{ByDistance, MachineSpec};
    use workload::Workload;

    /// Returns a machine with four CPUs. Handing a lock to another CPU takes 10 ns, and all other
    /// work takes no time.
    fn machine() -> Machine {
        let mut spec = MachineSpec::smp(4).free();
        spec.costs.lock_handover = ByDistance {
            llc: 10,
            ..ByDistance::default()
        };
        Machine::new(spec, Workload::default(), 1).expect("the workload fits the machine")
    }

    const LOCK: LockId = LockId::Bpf(0x40);

    /// Makes a CPU request the lock at its local time `debt` and hold it for `hold` ns. Returns the
    /// time that the CPU waited for the lock, including the hand-over.
    fn hold(m: &mut Machine, cpu: CpuId, debt: u64, hold: u64) -> u64 {
        m.this_cpu = cpu;
        m.rqs[cpu].set_debt(debt);
        m.lock(LOCK);
        let waited = m.local_time(cpu) - debt;
        m.charge(cpu, hold);
        m.unlock(LOCK);
        waited
    }

    fn stat(m: &Machine) -> LockStat {
        m.locks().find(|(id, _)| *id == LOCK).expect("the lock was acquired").1
    }

    #[test]
    fn waiters_acquire_in_the_order_of_arrival() {
        let mut m = machine();
        assert_eq!(hold(&mut m, cpu_id(0), 0, 100), 0);
        // CPU 0 holds the lock until 100 ns. CPU 1 requests the lock at 40 ns, acquires it at 110
        // ns after a hand-over of 10 ns, and holds it until 160 ns. CPU 2 follows.
        assert_eq!(hold(&mut m, cpu_id(1), 40, 50), 60 + 10);
        assert_eq!(hold(&mut m, cpu_id(2), 50, 50), 110 + 10);
        assert_eq!(hold(&mut m, cpu_id(3), 1000, 50), 0, "the lock is free at 1000 ns");
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
    fn a_cpu_that_arrives_in_the_gap_does_not_wait_for_later_holders() {
        let mut m = machine();
        hold(&mut m, cpu_id(0), 0, 100);
        // The simulator executes the code of CPU 1 first, although CPU 1 acquires the lock at 500
        // ns and CPUs 2 and 3 acquire it earlier.
        assert_eq!(hold(&mut m, cpu_id(1), 500, 100), 0);
        assert_eq!(
            hold(&mut m, cpu_id(2), 200, 50),
            0,
            "the lock is free from 100 to 500 ns"
        );
        assert_eq!(
            hold(&mut m, cpu_id(3), 220, 20),
            30 + 10,
            "CPU 3 waits until CPU 2 releases the lock at 250 ns"
        );
        assert_eq!(stat(&m).contended, 1);
        // CPU 2 holds the lock from 480 to 530 ns. This delays the critical section of CPU 1, which
        // starts at 500 ns, by 30 ns. CPU 0 waits for CPU 1, so it waits 30 ns longer.
        assert_eq!(hold(&mut m, cpu_id(2), 480, 50), 0);
        assert_eq!(hold(&mut m, cpu_id(0), 550, 10), 50 + 30 + 10);
    }
}
