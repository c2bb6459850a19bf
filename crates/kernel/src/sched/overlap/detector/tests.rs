// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use crate::simulation::timeline::LockId;
use crate::testbed::cpu_id;

const X: u64 = 0x40;

fn seen(cpu: u32, pc: usize) -> Seen {
    Seen {
        pc,
        cpu: cpu_id(cpu),
        op: None,
        value: 0,
        time: pc as u64,
        point: pc as u64,
    }
}

/// Makes a CPU load X at instruction `pc` and store it at the next one.
fn update(detector: &mut Detector, cpu: u32, pc: usize) {
    detector.load(X, seen(cpu, pc));
    detector.store(X, 8, seen(cpu, pc + 1), Stored::Derived);
}

#[test]
fn updates_without_order_race() {
    let mut detector = Detector::new(2);
    update(&mut detector, 0, 10);
    update(&mut detector, 1, 20);
    let races = detector.races();
    assert_eq!(races.len(), 1);
    assert_eq!((races[0].load.pc, races[0].store.pc, races[0].other.pc), (20, 21, 11));
    assert!(!races[0].lost && races[0].benign);
}

#[test]
fn the_next_owner_of_freed_memory_does_not_race() {
    let mut detector = Detector::new(2);
    update(&mut detector, 0, 10);
    detector.forget(X - 8, 16);
    update(&mut detector, 1, 20);
    assert_eq!(detector.races().len(), 0);
    update(&mut detector, 0, 30);
    assert_eq!(detector.races().len(), 1);
}

#[test]
fn a_store_between_load_and_store_is_lost() {
    let mut detector = Detector::new(2);
    detector.load(X, seen(0, 10));
    update(&mut detector, 1, 20);
    detector.store(X, 8, seen(0, 11), Stored::Derived);
    assert!(detector.races()[0].lost);
}

#[test]
fn a_lock_orders_updates() {
    let lock = SyncId::Lock(LockId::Bpf(8));
    let mut detector = Detector::new(2);
    for (cpu, pc) in [(0, 10), (1, 20), (0, 30)] {
        detector.acquire(cpu_id(cpu), lock);
        update(&mut detector, cpu, pc);
        detector.release(cpu_id(cpu), lock);
    }
    assert_eq!(detector.races(), []);
}

#[test]
fn atomic_stores_race_with_plain_updates_only() {
    let mut detector = Detector::new(2);
    detector.store(X, 8, seen(0, 10), Stored::Modified);
    detector.store(X, 8, seen(1, 20), Stored::Modified);
    assert_eq!(detector.races(), []);
    update(&mut detector, 0, 30);
    assert_eq!(detector.races().len(), 1);
}

#[test]
fn a_load_of_a_different_callback_is_no_part_of_an_update() {
    let mut detector = Detector::new(2);
    detector.store(X, 8, seen(1, 20), Stored::Plain);
    detector.load(X, seen(0, 10));
    detector.begin_callback(cpu_id(0));
    detector.store(X, 8, seen(0, 11), Stored::Derived);
    assert_eq!(detector.races(), []);
}

#[test]
fn a_barrier_orders_everything() {
    let mut detector = Detector::new(2);
    update(&mut detector, 0, 10);
    detector.barrier();
    update(&mut detector, 1, 20);
    assert_eq!(detector.races(), []);
}

#[test]
fn a_variable_that_decides_is_no_statistics_counter() {
    let mut detector = Detector::new(2);
    update(&mut detector, 0, 10);
    update(&mut detector, 1, 20);
    detector.decides(cpu_id(0), X);
    assert!(!detector.races()[0].benign);
}

#[test]
fn pairs_of_accesses_have_an_order_and_a_point() {
    let mut detector = Detector::new(2);
    detector.load(X, seen(0, 10));
    detector.load(X, seen(0, 11));
    detector.store(X, 8, seen(1, 20), Stored::Plain);
    detector.load(X, seen(0, 12));
    assert_eq!(detector.pairs(), [(11, 20, 11), (20, 12, 20)]);
}

#[test]
fn the_use_of_the_loaded_value_gives_the_kind() {
    let kind = |decides: bool, how: Stored, other: Stored| {
        let mut detector = Detector::new(2);
        detector.load(X, seen(0, 10));
        if decides {
            detector.decides(cpu_id(0), X);
        }
        detector.store(X, 8, seen(0, 11), how);
        detector.store(X, 8, seen(1, 20), other);
        detector.races()[0].kind
    };
    use RaceKind::*;
    assert_eq!(kind(false, Stored::Derived, Stored::Plain), Update);
    assert_eq!(kind(true, Stored::Derived, Stored::Released), Update);
    assert_eq!(kind(true, Stored::Plain, Stored::Modified), Check);
    assert_eq!(kind(false, Stored::Plain, Stored::Modified), Replace);
    assert_eq!(kind(true, Stored::Plain, Stored::Plain), Flag);
    assert_eq!(kind(false, Stored::Plain, Stored::Released), Flag);
}

#[test]
fn two_checks_of_one_variable_are_no_flag() {
    let mut detector = Detector::new(2);
    for (cpu, pc) in [(0, 10), (1, 20)] {
        detector.load(X, seen(cpu, pc));
        detector.decides(cpu_id(cpu), X);
        detector.store(X, 8, seen(cpu, pc + 1), Stored::Plain);
    }
    assert_eq!(detector.races()[0].kind, RaceKind::Check);
}

/// Makes a CPU change X between an acquisition and a release of an arena_spin_lock() at `LOCK`.
fn update_locked(detector: &mut Detector, cpu: u32, pc: usize) {
    const LOCK: u64 = 0x80;
    let object = SyncId::Address(LOCK);
    detector.acquire(cpu_id(cpu), object);
    detector.store(LOCK, 4, seen(cpu, pc + 2), Stored::Modified);
    detector.release(cpu_id(cpu), object);
    update(detector, cpu, pc);
    detector.store(LOCK, 1, seen(cpu, pc + 3), Stored::Plain);
}

#[test]
fn a_plain_store_to_a_part_of_a_lock_word_releases_the_lock() {
    let mut detector = Detector::new(2);
    for (cpu, pc) in [(0, 10), (1, 20), (0, 30)] {
        update_locked(&mut detector, cpu, pc);
    }
    assert_eq!(detector.races(), []);
    update(&mut detector, 1, 40);
    update(&mut detector, 0, 50);
    assert_eq!(detector.races().len(), 2);
}

#[test]
fn a_waiter_acquires_with_a_plain_load_of_the_lock_word() {
    let mut detector = Detector::new(2);
    update_locked(&mut detector, 0, 10);
    detector.load(0x80, seen(1, 20));
    update(&mut detector, 1, 30);
    assert_eq!(detector.races(), []);
}

#[test]
fn a_plain_store_to_a_whole_atomic_variable_is_no_release() {
    let mut detector = Detector::new(2);
    detector.store(0x80, 8, seen(0, 10), Stored::Modified);
    update(&mut detector, 0, 11);
    detector.store(0x80, 8, seen(0, 13), Stored::Plain);
    detector.acquire(cpu_id(1), SyncId::Address(0x80));
    update(&mut detector, 1, 20);
    assert_eq!(detector.races().len(), 1);
}
