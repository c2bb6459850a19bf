// SPDX-License-Identifier: GPL-2.0-only
//! Finds the map for an address that a program uses as a map pointer. Programs look up maps ten or
//! more times per context switch, so the addresses are in a hash table.

/// Map index that marks an unused slot.
const NONE: u32 = u32::MAX;

/// The addresses of a program's maps, with the indexes of the maps.
pub struct Handles {
    /// A hash table with at least twice as many slots as maps. An address is in the slot that its
    /// hash selects or, if a different address has taken that slot, in the next free one.
    slots: Box<[(u64, u32)]>,
    /// 64 minus the number of bits that select a slot.
    shift: u32,
}

impl Handles {
    /// Builds the table. The index of a map is its position in `addresses`.
    pub fn new(addresses: impl ExactSizeIterator<Item = u64>) -> Handles {
        let nr = (2 * addresses.len()).next_power_of_two().max(2);
        let mut handles = Handles {
            slots: vec![(0, NONE); nr].into(),
            shift: 64 - nr.trailing_zeros(),
        };
        for (index, address) in addresses.enumerate() {
            let mut at = handles.slot(address);
            while handles.slots[at].1 != NONE {
                at = (at + 1) % nr;
            }
            handles.slots[at] = (address, index as u32);
        }
        handles
    }

    /// Returns the slot at which the search for an address begins.
    #[inline]
    fn slot(&self, address: u64) -> usize {
        // Fibonacci hashing: the high bits of the product depend on all bits of the address.
        (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// Returns the index of the map with this address, or `None` if there is no such map.
    #[inline]
    pub fn find(&self, address: u64) -> Option<usize> {
        let mut at = self.slot(address);
        loop {
            let (known, index) = self.slots[at];
            if index == NONE {
                return None;
            }
            if known == address {
                return Some(index as usize);
            }
            at = (at + 1) % self.slots.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_map_is_found_and_nothing_else() {
        for nr in [0, 1, 2, 3, 7, 64, 1000] {
            let address = |index: u64| 0xffff_8880_0000_0000 + 64 * index;
            let handles = Handles::new((0..nr).map(address).collect::<Vec<_>>().into_iter());
            for index in 0..nr {
                assert_eq!(handles.find(address(index)), Some(index as usize));
                assert_eq!(handles.find(address(index) + 8), None);
            }
            for other in [0, address(nr), u64::MAX] {
                assert_eq!(handles.find(other), None);
            }
        }
    }
}
