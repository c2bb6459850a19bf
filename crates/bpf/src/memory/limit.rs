// SPDX-License-Identifier: GPL-2.0-only
//! The memory limit of a run, and what the run uses its memory for.
//!
//! Memory counts from the moment when it becomes accessible, even if it is never used:
//!
//! - Pages of maps, globals, ring buffers and arenas count in full.
//! - Small objects count in chunks of 64 KiB.
//! - The simulator keeps a record for many things that a policy creates: an element, an object, a
//!   timer, a queue, a lock, a line of text. Each of these records counts with a fixed size.
//!
//! A run therefore reaches its limit at the same point on every host.

use std::cell::Cell;

use crate::fault::{Fault, FaultKind};

/// Default limit of a run in bytes.
pub const DEFAULT_LIMIT: u64 = 2 << 30;

/// Number of bytes that are charged for each record that the simulator keeps. The largest record
/// consists of two entries, in two hash tables.
pub const RECORD: u64 = 128;

/// The purpose for which memory is used. The bytes of each purpose are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Pages of arrays, globals and ring buffers.
    Maps,
    /// Allocated objects, elements of hash maps, local storage.
    Objects,
    Arenas,
    /// The simulator's records of elements, objects, and nodes of trees and lists.
    Records,
    Timers,
    /// DSQs and locks.
    Queues,
    /// Lines of text that a policy prints.
    Texts,
    Tasks,
}

const NAMES: [(Use, &str); 8] = [
    (Use::Maps, "arrays, globals and ring buffers"),
    (Use::Objects, "allocated objects, hash elements and local storage"),
    (Use::Arenas, "arenas"),
    (Use::Records, "records of elements, objects, trees and lists"),
    (Use::Timers, "timers"),
    (Use::Queues, "DSQs and locks"),
    (Use::Texts, "printed text"),
    (Use::Tasks, "tasks"),
];

/// Error of a request for more memory than the limit allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// The memory use of one run.
pub struct Memory {
    limit: Cell<u64>,
    total: Cell<u64>,
    used: [Cell<u64>; NAMES.len()],
    /// Whether a request has exceeded the limit.
    refused: Cell<bool>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            limit: Cell::new(DEFAULT_LIMIT),
            total: Cell::new(0),
            used: Default::default(),
            refused: Cell::new(false),
        }
    }
}

impl Memory {
    /// Sets the limit in bytes.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.set(bytes);
    }

    pub fn limit(&self) -> u64 {
        self.limit.get()
    }

    /// Returns the number of bytes in use.
    pub fn used(&self) -> u64 {
        self.total.get()
    }

    /// Charges bytes to a purpose.
    ///
    /// # Errors
    /// The limit does not allow so many bytes. Nothing is charged.
    #[inline]
    pub fn charge(&self, purpose: Use, bytes: u64) -> Result<(), OutOfMemory> {
        let total = self.total.get().saturating_add(bytes);
        if total > self.limit.get() {
            self.refused.set(true);
            return Err(OutOfMemory);
        }
        self.total.set(total);
        let used = &self.used[purpose as usize];
        used.set(used.get() + bytes);
        Ok(())
    }

    /// Subtracts bytes that were charged to a purpose.
    #[inline]
    pub fn uncharge(&self, purpose: Use, bytes: u64) {
        let used = &self.used[purpose as usize];
        debug_assert!(used.get() >= bytes, "{bytes} bytes of {purpose:?} were never charged");
        used.set(used.get().saturating_sub(bytes));
        self.total.set(self.total.get().saturating_sub(bytes));
    }

    pub(super) fn mark_refused(&self) {
        self.refused.set(true);
    }

    /// Returns whether a request has exceeded the limit since the last call of this function.
    pub fn take_refused(&self) -> bool {
        self.refused.take()
    }

    /// Returns an error message that says how much memory is used, and for what.
    pub fn message(&self) -> String {
        let (most, name) = NAMES
            .iter()
            .map(|&(purpose, name)| (self.used[purpose as usize].get(), name))
            .max_by_key(|&(bytes, _)| bytes)
            .unwrap_or_default();
        format!(
            "out of memory: {} of {} are used, most of it by {name} ({}); raise the limit (--memory) or use less",
            size(self.used()),
            size(self.limit.get()),
            size(most)
        )
    }

    /// Charges one record.
    ///
    /// # Errors
    /// The memory limit is reached. The error is the fault that ends the policy.
    #[inline]
    pub fn charge_record(&self, purpose: Use) -> Result<(), Fault> {
        self.charge(purpose, RECORD).map_err(|OutOfMemory| self.fault())
    }

    /// Subtracts `nr` records that were charged to a purpose.
    #[inline]
    pub fn uncharge_records(&self, purpose: Use, nr: usize) {
        self.uncharge(purpose, nr as u64 * RECORD);
    }

    /// Returns the result of a function in which an allocation has failed. If the reason was the
    /// memory limit, the result is the fault that ends the policy. If not, it is `otherwise`.
    #[cold]
    pub fn refused<T>(&self, otherwise: T) -> Result<T, Fault> {
        match self.take_refused() {
            true => Err(self.fault()),
            false => Ok(otherwise),
        }
    }

    /// Returns the fault that ends a policy because it exceeded the limit.
    #[cold]
    pub fn fault(&self) -> Fault {
        self.refused.set(false);
        Fault::new(FaultKind::Func, self.message())
    }
}

/// Formats a size in the largest unit in which it is at least 1.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{}.{} GiB", bytes >> 30, ((bytes & 0x3fff_ffff) * 10) >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charged_bytes_count_until_they_are_subtracted() {
        let memory = Memory::default();
        memory.set_limit(1000);
        assert_eq!(memory.charge(Use::Maps, 600), Ok(()));
        assert_eq!(memory.charge(Use::Timers, 401), Err(OutOfMemory));
        assert!(memory.take_refused() && !memory.take_refused());
        assert_eq!(memory.charge(Use::Timers, 400), Ok(()));
        memory.uncharge(Use::Maps, 600);
        assert_eq!((memory.used(), memory.charge(Use::Maps, 600)), (400, Ok(())));
        assert_eq!(
            memory.message(),
            "out of memory: 1000 bytes of 1000 bytes are used, most of it by arrays, globals and ring buffers (600 bytes); \
             raise the limit (--memory) or use less"
        );
        assert_eq!(size((5 << 30) / 2), "2.5 GiB");
    }
}
