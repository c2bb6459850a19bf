// SPDX-License-Identifier: GPL-2.0-only
//! Records which data caused transfers of cache lines between CPUs.
//!
//! A transfer is recorded by its position in a value of a map, or by its address if the address lies
//! in no map. Memory that a map has freed may later belong to a different map, so the values are
//! registered when they are created, and the owner is determined at the time of the transfer.

use super::lines::LINE;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Maximum number of positions that are recorded. Transfers of further ones are added up under
/// [`Place::Elsewhere`].
const MAX_PLACES: usize = 1 << 20;

/// Data in the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A byte of a map's values. `handle` is the address that stands for the map in code.
    Value { handle: u64, offset: u64 },
    /// An address outside of all maps.
    Address(u64),
    /// Data that is not recorded separately, because there is too much of it.
    Elsewhere,
}

/// The transfers that one place caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    pub loads: u64,
    pub stores: u64,
    pub ns: u64,
    /// Number of transfers that instructions of the program caused. Helpers and the simulated
    /// kernel caused the others. Only the first have the exact address of the accessed field.
    pub by_program: u64,
}

/// Values of a map: `len` bytes, in which a value begins every `stride` bytes.
#[derive(Clone, Copy)]
struct Values {
    len: u64,
    stride: u64,
    handle: u64,
}

/// The recorded transfers of one region.
#[derive(Default)]
pub(super) struct Watch {
    /// Address of the access that the program is making.
    access: Cell<Option<u64>>,
    /// Values by their start.
    values: RefCell<BTreeMap<u64, Values>>,
    moved: RefCell<BTreeMap<Place, Moves>>,
}

impl Watch {
    pub(super) fn set_access(&self, addr: Option<u64>) {
        self.access.set(addr);
    }

    /// Registers `len` bytes of values of the map `handle`.
    pub(super) fn register(&self, start: u64, len: u64, stride: u64, handle: u64) {
        let values = Values {
            len,
            stride: stride.max(1),
            handle,
        };
        self.values.borrow_mut().insert(start, values);
    }

    /// Records a transfer that takes `ns`. `addr` is an address in the cache line.
    pub(super) fn record(&self, addr: u64, is_store: bool, ns: u64) {
        let access = self.access.get();
        // An access is charged to the line of its base register, which can be a neighbour of the
        // line with the accessed field.
        let exact = access.filter(|access| access.abs_diff(addr) < 2 * LINE);
        let mut moved = self.moved.borrow_mut();
        let mut place = self.place(exact.unwrap_or(addr));
        if moved.len() >= MAX_PLACES && !moved.contains_key(&place) {
            place = Place::Elsewhere;
        }
        let moves = moved.entry(place).or_default();
        match is_store {
            true => moves.stores += 1,
            false => moves.loads += 1,
        }
        moves.ns += ns;
        moves.by_program += u64::from(exact.is_some());
    }

    fn place(&self, addr: u64) -> Place {
        let values = self.values.borrow();
        match values.range(..=addr).next_back() {
            Some((start, found)) if addr - start < found.len => Place::Value {
                handle: found.handle,
                offset: (addr - start) % found.stride,
            },
            _ => Place::Address(addr),
        }
    }

    pub(super) fn moved(&self) -> Vec<(Place, Moves)> {
        let moved = self.moved.borrow();
        moved.iter().map(|(&place, &moves)| (place, moves)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_belongs_to_the_map_that_owns_the_memory_at_that_time() {
        let watch = Watch::default();
        watch.register(0x1000, 96, 24, 7);
        watch.set_access(Some(0x1000 + 24 + 16));
        watch.record(0x1000, true, 50);
        watch.set_access(None);
        watch.register(0x1000, 96, 96, 8);
        watch.record(0x1040, false, 30);
        watch.record(0x2000, false, 5);
        let moves = |loads, stores, ns, by_program| Moves {
            loads,
            stores,
            ns,
            by_program,
        };
        let value = |handle, offset| Place::Value { handle, offset };
        assert_eq!(
            watch.moved(),
            [
                (value(7, 16), moves(0, 1, 50, 1)),
                (value(8, 0x40), moves(1, 0, 30, 0)),
                (Place::Address(0x2000), moves(1, 0, 5, 0)),
            ]
        );
    }

    #[test]
    fn an_access_elsewhere_does_not_name_the_line() {
        let watch = Watch::default();
        watch.set_access(Some(0x9000));
        watch.record(0x2000, false, 5);
        assert_eq!(watch.moved()[0].0, Place::Address(0x2000));
    }
}
