// SPDX-License-Identifier: GPL-2.0-only
//! Taking and releasing locks, which are timelines ([`timeline`](super::timeline)).

use super::timeline::*;
use crate::machine::Machine;
use trace::Event;

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
            costs.at(self.spec.topology.distance(lock.last_cpu.nr(), cpu.nr()))
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
        let distance = self.spec.topology.distance(lock.last_cpu.nr(), cpu.nr());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::id::CpuId;
    use crate::testbed::cpu_id;
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
    fn hold(m: &mut Machine, cpu: CpuId, debt: u64, hold: u64) -> u64 {
        m.this_cpu = cpu;
        m.rqs[cpu].debt = debt;
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
        assert_eq!(hold(&mut m, cpu_id(0), 0, 100), 0);
        // 0 has it until 100, then 1, with a hand-over, until 160, then 2.
        assert_eq!(hold(&mut m, cpu_id(1), 40, 50), 60 + 10);
        assert_eq!(hold(&mut m, cpu_id(2), 50, 50), 110 + 10);
        assert_eq!(hold(&mut m, cpu_id(3), 1000, 50), 0, "it is free by then");
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
        hold(&mut m, cpu_id(0), 0, 100);
        // By its clock it takes the lock at 500, though its handler runs first.
        assert_eq!(hold(&mut m, cpu_id(1), 500, 100), 0);
        assert_eq!(hold(&mut m, cpu_id(2), 200, 50), 0, "free from 100 to 500");
        assert_eq!(hold(&mut m, cpu_id(3), 220, 20), 30 + 10, "but not from 200 to 250");
        assert_eq!(stat(&m).contended, 1);
        // 2 is not through when 1 begins: who waits for 1 waits longer.
        assert_eq!(hold(&mut m, cpu_id(2), 480, 50), 0);
        assert_eq!(hold(&mut m, cpu_id(0), 550, 10), 50 + 30 + 10);
    }
}
