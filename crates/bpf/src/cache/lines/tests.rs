// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the model of cache lines.

use super::*;
use crate::memory::Region;
use std::ops::Deref;

/// Cache lines whose functions check the addresses that they get.
#[derive(Clone, Copy)]
struct Checked<'a>(&'a Lines);

impl Deref for Checked<'_> {
    type Target = Lines;

    fn deref(&self) -> &Lines {
        self.0
    }
}

impl Checked<'_> {
    fn check(self, addr: u64) {
        assert!(in_reach(self.region_base(), addr));
    }

    fn load(self, cpu: u32, addr: u64) -> u64 {
        self.check(addr);
        // SAFETY: the address has just been checked.
        unsafe { self.0.load(cpu, addr) }
    }

    fn load_each(self, cpu: u32, base: u64, stride: u64, indexes: std::ops::Range<u64>) -> (u64, u64) {
        indexes.clone().for_each(|index| self.check(base + index * stride));
        // SAFETY: the addresses have just been checked.
        unsafe { self.0.load_each(cpu, base, stride, indexes) }
    }

    fn store(self, cpu: u32, addr: u64) -> u64 {
        self.check(addr);
        // SAFETY: the address has just been checked.
        unsafe { self.0.store(cpu, addr) }
    }

    fn store_two(self, cpu: u32, addr: u64) -> u64 {
        self.check(addr);
        self.check(addr + LINE);
        // SAFETY: the addresses have just been checked.
        unsafe { self.0.store_two(cpu, addr) }
    }
}

/// Returns the caches of a machine with eight cores and two nodes. Each node has two last-level
/// caches, and two cores share each of them.
fn eight() -> Vec<Cache> {
    let cache = |cpu: u32| Cache {
        own: 1 << cpu,
        llc: 0b11 << (cpu / 2 * 2),
        node: 0b1111 << (cpu / 4 * 4),
        llc_ns: 10,
        node_ns: 100,
        remote_ns: 1000,
        memory_ns: 0,
    };
    (0..8).map(cache).collect()
}

#[test]
fn a_transfer_costs_once_and_depends_on_the_distance() {
    let mut region = Region::new().unwrap();
    region.lines_mut().set_caches(eight());
    let (addr, lines) = (region.alloc(64).unwrap(), Checked(region.lines()));
    assert_eq!(lines.store(0, addr), 0, "the first access is free");
    assert_eq!(
        lines.store(0, addr + 63),
        0,
        "a second access to the same cache line is free"
    );
    assert_eq!(lines.load(4, addr), 1000);
    assert_eq!(lines.load(4, addr), 0, "the second load is a hit");
    assert_eq!(lines.load(5, addr), 10, "the line comes from the neighbour's cache");
    assert_eq!(
        lines.load(2, addr),
        100,
        "the line comes from CPU 0, the nearest holder"
    );
    assert_eq!(lines.load(0, addr), 0, "loads by other CPUs leave the copy in place");
    assert_eq!(lines.store(0, addr), 1000, "the farthest copy must be invalidated");
    assert_eq!((lines.store(0, addr), lines.load(5, addr)), (0, 1000));
    assert_eq!(lines.transfers(), Transfers { count: 5, ns: 3110 });
}

#[test]
fn a_line_in_several_caches_comes_from_memory() {
    let mut region = Region::new().unwrap();
    let far = |cache| Cache {
        memory_ns: 1000,
        ..cache
    };
    region.lines_mut().set_caches(eight().into_iter().map(far).collect());
    let (addr, lines) = (region.alloc(64).unwrap(), Checked(region.lines()));
    lines.store(0, addr);
    assert_eq!(
        lines.load(1, addr),
        10,
        "the only copy is dirty and comes from the neighbour"
    );
    assert_eq!((lines.load(2, addr), lines.store(1, addr)), (1000, 1000));
    assert_eq!(lines.store(0, addr), 10);
}

#[test]
fn an_evicted_line_comes_back_from_memory_or_another_cache() {
    let mut region = Region::new().unwrap();
    let sets = |cache| Sets {
        count: 1,
        ways: 2,
        first: Cache {
            node_ns: 70,
            remote_ns: 700,
            memory_ns: 500,
            ..cache
        },
        next: Cache {
            node_ns: 7,
            remote_ns: 77,
            memory_ns: 55,
            ..cache
        },
    };
    region.lines_mut().set_caches(eight());
    region.lines_mut().set_sets(eight().into_iter().map(sets).collect());
    let (base, lines) = (
        region.alloc(16 * LINE).unwrap().next_multiple_of(LINE),
        Checked(region.lines()),
    );
    lines.add_competitors(Competitors {
        base,
        stride: 2 * LINE,
        count: 4,
        lines: 2,
    });
    let line = |n: u64| base + 2 * n * LINE;
    assert_eq!([0, 1, 2].map(|n| lines.load(0, line(n))), [500; 3]);
    assert_eq!(lines.load(0, line(2)), 0, "a set has room for two lines");
    assert_eq!(
        lines.load(0, line(2) + LINE),
        55,
        "the second line of the structure is cheaper"
    );
    assert_eq!(
        lines.load(0, line(0)),
        500,
        "line 0 was evicted before and now evicts line 1"
    );
    assert_eq!(lines.load(4, line(1)), 500, "no cache holds the line");
    assert_eq!(lines.store(0, line(1)), 700, "CPU 4 holds the line");
    assert_eq!(
        lines.load(2, line(1)),
        70,
        "a transfer has the cost of a competing line"
    );
    lines.store(0, line(1));
    assert_eq!(
        lines.load(2, line(1)),
        70,
        "a repeated access to one line has the full cost"
    );
    assert_eq!(lines.load(2, line(1) + LINE), 55);
    lines.store(0, line(1));
    assert_eq!(lines.load(2, line(1)), 70, "the first line of a pair has the full cost");
    assert_eq!(
        lines.load(6, line(1)),
        500,
        "several caches hold the line, so it comes from memory"
    );
    assert_eq!(lines.store(1, line(1)), 700, "the farthest copy must be invalidated");
    assert_eq!(lines.load(4, line(0) + LINE), 500);
    assert_eq!(
        lines.store(4, line(0)),
        77,
        "CPU 0 holds the line, which follows a line of the same structure"
    );
    assert_eq!(
        lines.load(0, line(5)),
        0,
        "lines outside of the structures do not compete"
    );
    assert_eq!(lines.store(4, line(5)), 1000);
}

#[test]
fn watched_transfers_cost_the_same_and_add_up() {
    let run = |watched: bool| {
        let mut region = Region::new().unwrap();
        region.lines_mut().set_caches(eight());
        if watched {
            region.lines_mut().watch_transfers();
        }
        let (addr, lines) = (
            region.alloc(256).unwrap().next_multiple_of(LINE),
            Checked(region.lines()),
        );
        lines.register_values(addr, 24, 24, 5);
        let each = lines.load_each(2, addr, LINE, 0..2).1;
        let ns = each + lines.store(0, addr + 8) + lines.load(4, addr + 8) + lines.store_two(5, addr);
        (ns, lines.transfers(), lines.moved())
    };
    let ((ns, transfers, none), (watched_ns, watched, moved)) = (run(false), run(true));
    assert_eq!((ns, transfers, none), (watched_ns, watched, Vec::new()));
    assert_eq!(moved.iter().map(|(_, moves)| moves.ns).sum::<u64>(), transfers.ns);
    let count = moved.iter().map(|(_, moves)| moves.loads + moves.stores).sum::<u64>();
    assert_eq!(count, transfers.count);
    assert_eq!(moved[0].0, Place::Value { handle: 5, offset: 0 });
}

#[test]
fn private_lines_cost_nothing() {
    let mut region = Region::new().unwrap();
    region.lines_mut().set_caches(eight());
    let (addr, lines) = (region.alloc(256).unwrap(), Checked(region.lines()));
    lines.make_private(addr, 128);
    for cpu in [0, 7, 3] {
        assert_eq!(lines.load(cpu, addr) + lines.store(cpu, addr + 64), 0);
    }
    assert_eq!((lines.store(0, addr + 128), lines.store(7, addr + 128)), (0, 1000));
}

#[test]
fn every_address_within_reach_has_a_word() {
    let region = Region::new().unwrap();
    for addr in [region.base() - REACH, region.base() + SIZE + REACH - 1] {
        assert_eq!(Checked(region.lines()).load(0, addr), 0);
    }
}
