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
use std::collections::BTreeMap;

impl Detector {
    /// Orders the earlier accesses of all releasing CPUs before the later accesses of `cpu`.
    pub(crate) fn acquire(&mut self, cpu: CpuId, object: SyncId) {
        if let Some(clock) = self.objects.get(&object) {
            join(&mut self.clocks[cpu.index()], clock);
        }
    }

    /// Orders the earlier accesses of `cpu` before the later accesses of acquiring CPUs.
    pub(crate) fn release(&mut self, cpu: CpuId, object: SyncId) {
        let own = &mut self.clocks[cpu.index()];
        join(self.objects.entry(object).or_default(), own);
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
    }

    /// Begins a callback on `cpu`. Returns the number of the callback that it interrupts.
    pub(crate) fn begin_callback(&mut self, cpu: CpuId) -> u64 {
        self.nr_callbacks += 1;
        std::mem::replace(&mut self.callbacks[cpu.index()], self.nr_callbacks)
    }

    pub(crate) fn end_callback(&mut self, cpu: CpuId, interrupted: u64) {
        self.callbacks[cpu.index()] = interrupted;
    }

    pub(crate) fn load(&mut self, addr: u64, size: u8, seen: Seen) {
        if self.lock_words.contains(&addr) {
            return self.acquire(seen.cpu, SyncId::Address(addr));
        }
        let callback = self.callbacks[seen.cpu.index()];
        let clock = self.clocks[seen.cpu.index()].clone();
        let variable = self.variables.entry(addr).or_default();
        variable.size = size;
        follow(&mut self.pairs, variable, seen);
        let version = variable.version;
        variable.loads.insert(
            seen.cpu,
            Load {
                callback,
                clock,
                seen,
                version,
                decided: false,
            },
        );
    }

    /// Records a store. A store by an atomic instruction is indivisible, so it is never the end of a
    /// load and store.
    pub(crate) fn store(&mut self, addr: u64, size: u8, seen: Seen, how: Stored) {
        let cpu = seen.cpu;
        if how == Stored::Modified {
            self.atomics.insert(addr, size);
        } else if self.atomics.get(&addr).is_some_and(|&whole| size < whole) {
            self.lock_words.insert(addr);
        }
        if self.lock_words.contains(&addr) {
            if !how.is_atomic() {
                self.release(cpu, SyncId::Address(addr));
            }
            return;
        }
        let callback = self.callbacks[cpu.index()];
        let clock = &self.clocks[cpu.index()];
        let variable = self.variables.entry(addr).or_default();
        variable.size = size;
        follow(&mut self.pairs, variable, seen);
        let load = variable
            .loads
            .remove(&cpu)
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
        for (&other, store) in &variable.stores {
            if other == cpu {
                continue;
            }
            let known = |clock: &Clock| clock[other.index()] >= store.epoch;
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
        variable.stores.insert(cpu, store);
    }

    /// Records that a value that `cpu` has loaded from `addr` influences something other than the
    /// variable itself.
    pub(crate) fn decides(&mut self, cpu: CpuId, addr: u64) {
        let variable = self.variables.entry(addr).or_default();
        variable.decides = true;
        if let Some(load) = variable.loads.get_mut(&cpu) {
            load.decided = true;
        }
    }

    /// Returns the first race of each pair of instructions, in the order of their times.
    pub fn races(&self) -> Vec<Race> {
        let races = self.races.values().copied();
        let mut races: Vec<Race> = races.filter(|race| !self.lock_words.contains(&race.addr)).collect();
        for race in &mut races {
            race.benign = self.variables.get(&race.addr).is_some_and(|variable| !variable.decides);
        }
        races.sort_by_key(|race| (race.store.time.max(race.other.time), race.store.pc, race.other.pc));
        races
    }
}

/// Records that an access follows one of a different CPU.
fn follow(pairs: &mut BTreeMap<(usize, usize), u64>, variable: &mut Variable, seen: Seen) {
    if let Some(last) = variable.last.replace(seen).filter(|last| last.cpu != seen.cpu) {
        pairs.insert((last.pc, seen.pc), last.point);
    }
}

fn join(into: &mut Clock, from: &Clock) {
    into.resize(into.len().max(from.len()), 0);
    for (own, other) in into.iter_mut().zip(from) {
        *own = (*own).max(*other);
    }
}

#[cfg(test)]
mod tests;
