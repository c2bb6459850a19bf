// SPDX-License-Identifier: GPL-2.0-only
//! Records which code held a contended lock, and which code waited for it.
//!
//! The code is a [`LockUser`], a number that the layers above assign. A wait counts for the code
//! that held the lock directly before the waiter, also if further CPUs were in line before.

use super::table::Id;
use super::timeline::LockIndex;
use std::collections::BTreeMap;

/// Code that acquires locks: the number of a callback, or a larger number for other code.
pub type LockUser = u8;

/// The waits of one kind of waiter for one kind of holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairStat {
    pub waits: u64,
    pub wait_ns: u64,
    pub wait_max_ns: u64,
}

/// The recorded waits of all locks.
#[derive(Debug, Default)]
pub struct Contention {
    /// For each lock, the users of the last critical section and of the last one in the gap before
    /// the busy interval (see [`timeline`](super::timeline)).
    holders: Vec<[LockUser; 2]>,
    /// The waits, by lock, holder and waiter.
    pairs: BTreeMap<(LockIndex, LockUser, LockUser), PairStat>,
}

impl Contention {
    fn holders(&mut self, lock: LockIndex) -> &mut [LockUser; 2] {
        if self.holders.len() <= lock.index() {
            self.holders.resize(lock.index() + 1, [LockUser::MAX; 2]);
        }
        &mut self.holders[lock.index()]
    }

    /// Records an acquisition, after a wait of `wait` ns if this is not 0. `was_free` means that no
    /// CPU held the lock or waited for it.
    pub(crate) fn acquired(&mut self, lock: LockIndex, user: LockUser, in_gap: bool, was_free: bool, wait: u64) {
        let [last, gap] = self.holders(lock);
        let holder = match in_gap {
            true => std::mem::replace(gap, user),
            false => {
                let holder = std::mem::replace(last, user);
                if was_free {
                    *gap = holder;
                }
                holder
            }
        };
        if wait > 0 {
            let pair = self.pairs.entry((lock, holder, user)).or_default();
            pair.waits += 1;
            pair.wait_ns += wait;
            pair.wait_max_ns = pair.wait_max_ns.max(wait);
        }
    }

    /// Records that the holder of a lock executes code for `user`.
    pub(crate) fn used_by(&mut self, lock: LockIndex, user: LockUser, in_gap: bool) {
        self.holders(lock)[usize::from(in_gap)] = user;
    }

    /// Returns the waits: lock, holder, waiter and statistics.
    pub fn pairs(&self) -> impl Iterator<Item = (LockIndex, LockUser, LockUser, PairStat)> {
        self.pairs
            .iter()
            .map(|(&(lock, holder, waiter), &stat)| (lock, holder, waiter, stat))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_for_the_holder_before_it() {
        let mut contention = Contention::default();
        let lock = LockIndex::new(2);
        contention.acquired(lock, 1, false, true, 0);
        contention.acquired(lock, 2, false, false, 40);
        contention.acquired(lock, 3, false, true, 0);
        // The gap is between the critical sections of users 2 and 3.
        contention.acquired(lock, 4, true, false, 5);
        contention.used_by(lock, 9, false);
        contention.acquired(lock, 5, false, false, 7);
        let waits: Vec<_> = contention
            .pairs()
            .map(|(_, holder, waiter, stat)| (holder, waiter, stat.wait_ns))
            .collect();
        assert_eq!(waits, [(1, 2, 40), (2, 4, 5), (9, 5, 7)]);
    }
}
