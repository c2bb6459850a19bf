// SPDX-License-Identifier: GPL-2.0-only
//! A happens-before race detector for policies whose callbacks overlap.
//!
//! Each CPU has a vector clock. A CPU that releases a lock leaves its clock there, and the next CPU
//! that acquires the lock takes it over; the same holds for atomic instructions, maps, timers and
//! the callbacks of one task. Two accesses are ordered if the second CPU knows the logical time of
//! the first.
//!
//! A plain aligned load or store of a BPF program is indivisible, and policies use many of them on
//! purpose (READ_ONCE and WRITE_ONCE compile to the same instructions). The detector therefore
//! reports one pattern only: a callback loads a variable and then stores it, and a different CPU
//! can store the variable in between. This is a lost update (`x++`) or a check that is out of date
//! when it takes effect (`if (!busy) busy = 1`). [`RaceKind`] distinguishes these cases by the data
//! flow that the interpreter follows: which loaded value a store is calculated from, and whether a
//! loaded value has influenced a jump, a call or a different variable before the store.

//!
//! arena_spin_lock() of the scx library consists of BPF instructions. On x86, it releases a lock with a
//! plain store to the first byte of the lock word, and its waiters look at the word with plain loads
//! (arch_spin_unlock and smp_load_acquire in Linux compile to the same instructions). The detector
//! recognises such a word: a plain store changes a part of a variable that atomic instructions change
//! as a whole. From then on, plain stores of the word release, and plain loads acquire.

pub mod state;

use crate::simulation::id::CpuId;
use state::*;
use std::rc::Rc;

impl Detector {
    /// Orders the earlier accesses of all releasing CPUs before the later accesses of `cpu`.
    pub(crate) fn acquire(&mut self, cpu: CpuId, object: SyncId) {
        let cpu = cpu.index();
        if let Some(clock) = self.objects.get(&object)
            && join(&mut self.clocks[cpu], clock)
        {
            self.snapshots[cpu] = None;
        }
    }

    /// Orders the earlier accesses of `cpu` before the later accesses of acquiring CPUs.
    pub(crate) fn release(&mut self, cpu: CpuId, object: SyncId) {
        let own = &mut self.clocks[cpu.index()];
        join(self.objects.get_or_insert_with(object, Clock::default), own);
        own[cpu.index()] += 1;
    }

    /// Orders all earlier accesses of all CPUs before all later ones.
    pub(crate) fn barrier(&mut self) {
        let mut all = Clock::new();
        for clock in &self.clocks {
            join(&mut all, clock);
        }
        for (cpu, clock) in self.clocks.iter_mut().enumerate() {
            clock.clone_from(&all);
            clock[cpu] += 1;
        }
        self.snapshots.fill(None);
    }

    /// Returns a copy of the clock of `cpu`. Its own component may be out of date, because loads are
    /// never compared with stores of the same CPU.
    fn snapshot(&mut self, cpu: CpuId) -> Rc<[u32]> {
        let clock = &self.clocks[cpu.index()];
        let snapshot = self.snapshots[cpu.index()].get_or_insert_with(|| Rc::from(clock.as_slice()));
        Rc::clone(snapshot)
    }

    /// Begins a callback on `cpu`. Returns the number of the callback that it interrupts.
    pub(crate) fn begin_callback(&mut self, cpu: CpuId) -> u64 {
        self.nr_callbacks += 1;
        std::mem::replace(&mut self.callbacks[cpu.index()], self.nr_callbacks)
    }

    pub(crate) fn end_callback(&mut self, cpu: CpuId, interrupted: u64) {
        self.callbacks[cpu.index()] = interrupted;
    }

    pub(crate) fn load(&mut self, addr: u64, seen: Seen) {
        let cpu = seen.cpu;
        let clock = self.snapshot(cpu);
        let variable = self.variables.entry(addr);
        if variable.is_lock_word {
            return self.acquire(cpu, SyncId::Address(addr));
        }
        follow(&mut self.pairs, variable, seen);
        let load = Load {
            callback: self.callbacks[cpu.index()],
            clock,
            seen,
            version: variable.version,
            decided: false,
        };
        variable.of_cpu(cpu).load = Some(load);
    }

    /// Records a store. A store by an atomic instruction is indivisible, so it is never the end of a
    /// load and store.
    pub(crate) fn store(&mut self, addr: u64, size: u8, seen: Seen, how: Stored) {
        let cpu = seen.cpu;
        let variable = self.variables.entry(addr);
        if how == Stored::Modified {
            variable.atomic_size = size;
        } else if size < variable.atomic_size {
            variable.is_lock_word = true;
        }
        if variable.is_lock_word {
            if !how.is_atomic() {
                self.release(cpu, SyncId::Address(addr));
            }
            return;
        }
        let callback = self.callbacks[cpu.index()];
        let clock = &self.clocks[cpu.index()];
        follow(&mut self.pairs, variable, seen);
        let load = variable
            .of_cpu(cpu)
            .load
            .take()
            .filter(|load| !how.is_atomic() && load.callback == callback);
        let own = load.as_ref().map(|load| Loaded {
            seen: load.seen,
            kind: match (how, load.decided) {
                (Stored::Derived, _) => RaceKind::Update,
                (_, true) => RaceKind::Check,
                (_, false) => RaceKind::Replace,
            },
        });
        let modifies = how == Stored::Modified;
        for accesses in &variable.cpus {
            let other = accesses.cpu;
            let Some(store) = accesses.store.as_ref().filter(|_| other != cpu) else {
                continue;
            };
            let known = |clock: &[u32]| clock[other.index()] >= store.epoch;
            let race = match (&load, own) {
                // The other CPU may store between this CPU's load and store.
                (Some(load), Some(own)) if !known(&load.clock) => {
                    Some((own, seen, store.seen, store.load.is_some() || store.modifies))
                }
                // This CPU may store between the other CPU's load and store.
                _ if !known(clock) => store
                    .load
                    .map(|load| (load, store.seen, seen, own.is_some() || modifies)),
                _ => None,
            };
            let Some((first, second, between, other_reads)) = race else {
                continue;
            };
            let kind = match first.kind {
                RaceKind::Update => RaceKind::Update,
                kind if other_reads => kind,
                _ => RaceKind::Flag,
            };
            let lost = second == seen && load.as_ref().is_some_and(|load| load.version != variable.version);
            let race = Race {
                addr,
                size,
                load: first.seen,
                store: second,
                other: between,
                kind,
                lost,
                benign: false,
            };
            let known = self.races.entry((second.pc, between.pc)).or_insert(race);
            if (kind, !lost) < (known.kind, !known.lost) {
                *known = race;
            }
        }
        variable.version += 1;
        let epoch = clock[cpu.index()];
        let store = Store {
            epoch,
            seen,
            load: own,
            modifies,
        };
        variable.of_cpu(cpu).store = Some(store);
    }

    /// Records that a value that `cpu` has loaded from `addr` influences something other than the
    /// variable itself.
    pub(crate) fn decides(&mut self, cpu: CpuId, addr: u64) {
        let variable = self.variables.entry(addr);
        variable.decides = true;
        if let Some(Accesses { load: Some(load), .. }) = variable.cpus.iter_mut().find(|accesses| accesses.cpu == cpu) {
            load.decided = true;
        }
    }

    /// Forgets the accesses to memory that is freed. The allocator orders them before the accesses of the
    /// next owner.
    pub(crate) fn forget(&mut self, addr: u64, size: u64) {
        for addr in addr..addr + size {
            if let Some(variable) = self.variables.get_mut(addr) {
                variable.cpus.clear();
                variable.last = None;
            }
        }
    }

    /// Returns the first race of each pair of instructions, in the order of their times.
    pub fn races(&self) -> Vec<Race> {
        let mut races = Vec::new();
        for race in self.races.values() {
            let variable = self.variables.get(race.addr);
            if !variable.is_some_and(|variable| variable.is_lock_word) {
                let benign = variable.is_some_and(|variable| !variable.decides);
                races.push(Race { benign, ..*race });
            }
        }
        races.sort_by_key(|race| (race.store.time.max(race.other.time), race.store.pc, race.other.pc));
        races
    }

    /// Returns the pairs of instructions on different CPUs that accessed the same variable one after
    /// the other, with the point of the first access when this happened last. The pairs are ordered.
    pub fn pairs(&self) -> Vec<(usize, usize, u64)> {
        let pairs = self.pairs.sorted().into_iter();
        pairs.map(|((first, second), point)| (first, second, point)).collect()
    }
}

/// Records that an access follows one of a different CPU.
fn follow(pairs: &mut Table<(usize, usize), u64>, variable: &mut Variable, seen: Seen) {
    if let Some(last) = variable.last.replace(seen).filter(|last| last.cpu != seen.cpu) {
        pairs.insert((last.pc, seen.pc), last.point);
    }
}

/// Advances a clock to the times of another one. Returns whether this changes it.
fn join(into: &mut Clock, from: &[u32]) -> bool {
    if into.len() < from.len() {
        into.resize(from.len(), 0);
    }
    let mut is_changed = false;
    for (own, other) in into.iter_mut().zip(from) {
        is_changed |= *own < *other;
        *own = (*own).max(*other);
    }
    is_changed
}

#[cfg(test)]
mod tests;
