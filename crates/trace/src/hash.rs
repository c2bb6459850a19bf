// SPDX-License-Identifier: GPL-2.0-only
//! The trace hash: a 64-bit number that identifies the records of a run.
//!
//! Two runs with equal hashes have, with overwhelming probability, the same records. Detail records
//! (those that exist only on request, [`Event::is_detail`](crate::Event::is_detail)) are left out.
//!
//! The hash is computed from the meaning of each record. It therefore does not depend on
//! endianness, on the file format or on the build. A record is represented by four words:
//!
//! 1. the time;
//! 2. the kind of event, the CPU and its local time ([`Record::local_time`]);
//! 3. the first two numbers of the event;
//! 4. the next two numbers of the event.
//!
//! Two independent multiplications combine these words. A third multiplication combines the result
//! with the state. Only this one depends on the previous record, so a CPU can compute the other two
//! in advance. The hash detects differences, but it gives no protection against collisions that are
//! constructed on purpose.

use crate::canonical::Form;
use crate::event::{Record, Sink};
use std::fmt;

// Odd constants with about half of their bits set. They are the first bits after the point of
// square roots of primes.
const K: [u64; 5] = [
    0x6a09_e667_f3bc_c909,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
];

/// Hash of the records that were added so far. It is displayed as 16 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hash {
    state: u64,
    count: u64,
}

impl Default for Hash {
    fn default() -> Hash {
        Hash { state: K[4], count: 0 }
    }
}

/// Multiplies two words and combines the halves of the 128-bit product by XOR, so that every bit of
/// the result depends on all bits of both words.
#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the two halves of the product are wanted"
)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Hash {
    #[inline(always)]
    pub fn add(&mut self, record: &Record) {
        match Form::packed(&record.event) {
            Some((kind, first, second)) => self.tuple(record, kind, first, second),
            None => self.add_any(record),
        }
    }

    #[inline(never)]
    fn add_any(&mut self, record: &Record) {
        if record.event.is_detail() {
            return;
        }
        let form = Form::from_event(&record.event);
        let kind = u64::from(form.tag) | u64::from(form.flag) << 8;
        let first = form.words[0] | form.words[1] << 32;
        let second = form.words[2] | form.words[3] << 32;
        self.tuple(record, kind, first, second);
        if let Some(text) = form.text {
            self.text(text.as_bytes());
        }
    }

    #[inline(always)]
    fn tuple(&mut self, record: &Record, kind: u64, first: u64, second: u64) {
        let kind_cpu = (kind | u64::from(record.cpu) << 16) ^ u64::from(record.after) << 32;
        let head = fold(record.time ^ K[0], kind_cpu ^ K[1]);
        let body = fold(first ^ K[2], second ^ K[3]);
        self.chain(head, body);
        self.count += 1;
    }

    // The state is also rotated and added, so that earlier records still have an effect if the
    // product is 0.
    #[inline(always)]
    fn chain(&mut self, a: u64, b: u64) {
        self.state = self.state.rotate_left(23).wrapping_add(fold(self.state ^ a, b ^ K[4]));
    }

    #[cold]
    fn text(&mut self, bytes: &[u8]) {
        self.chain(bytes.len() as u64, K[0]);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.chain(u64::from_le_bytes(word), K[1]);
        }
    }

    /// Returns the hash of the records so far. More records can be added afterwards.
    pub fn value(&self) -> u64 {
        let end = Hash {
            state: self.state ^ self.count,
            count: 0,
        };
        fold(end.state ^ K[2], end.state.rotate_left(32) ^ K[3])
    }

    /// Returns the number of records that were added so far, without detail records.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the checksum of bytes, which trace files store with each block.
    pub fn checksum(bytes: &[u8]) -> u64 {
        let mut hash = Hash::default();
        hash.text(bytes);
        hash.value()
    }
}

impl Sink for Hash {
    fn take(&mut self, records: &[Record]) {
        for record in records {
            self.add(record);
        }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:016x}", self.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::sample_events;
    use crate::event::{Event, TaskState};
    use std::collections::BTreeSet;

    fn hash(records: &[Record]) -> u64 {
        let mut hash = Hash::default();
        hash.take(records);
        hash.value()
    }

    fn all() -> Vec<Record> {
        (0u64..)
            .zip(sample_events())
            .map(|(i, event)| Record {
                time: i * 1000,
                cpu: i as u32 % 4,
                after: 0,
                event,
            })
            .collect()
    }

    /// Compares hashes with committed values. Committed results of runs contain trace hashes, so a
    /// change of the hash function must be noticed.
    #[test]
    fn hashes_have_the_committed_values() {
        assert_eq!(Hash::default().to_string(), KNOWN_EMPTY);
        let mut h = Hash::default();
        h.take(&all());
        assert_eq!(h.to_string(), KNOWN_ALL);
        let details = all().iter().filter(|record| record.event.is_detail()).count();
        assert_eq!(h.count(), (all().len() - details) as u64);
    }
    const KNOWN_EMPTY: &str = "eae87abcdaeb9bcd";
    const KNOWN_ALL: &str = "6b1254e210a0fbfc";

    #[test]
    fn batch_sizes_do_not_change_the_hash() {
        let mut h = Hash::default();
        for record in all() {
            h.take(&[record]);
            h.take(&[]);
        }
        assert_eq!(h.value(), hash(&all()));
    }

    #[test]
    fn every_part_of_a_record_changes_the_hash() {
        let base = Record {
            time: 5,
            cpu: 2,
            after: 0,
            event: Event::Switch {
                prev: 1,
                prev_state: TaskState::Running,
                next: 2,
            },
        };
        let mut seen = BTreeSet::from([hash(&[]), hash(std::slice::from_ref(&base))]);
        let mut variants = vec![
            Record {
                time: 6,
                ..base.clone()
            },
            Record {
                time: 5 + (1 << 63),
                ..base.clone()
            },
            Record { cpu: 3, ..base.clone() },
            Record {
                after: 1,
                ..base.clone()
            },
            Record {
                event: Event::Switch {
                    prev: 2,
                    prev_state: TaskState::Running,
                    next: 1,
                },
                ..base.clone()
            },
            Record {
                event: Event::Switch {
                    prev: 1,
                    prev_state: TaskState::Dead,
                    next: 2,
                },
                ..base.clone()
            },
            Record {
                event: Event::Waking { pid: 1, waker: 2 },
                ..base.clone()
            },
            Record {
                event: Event::Printk { text: "ab".into() },
                ..base.clone()
            },
            Record {
                event: Event::Printk { text: "ab\0".into() },
                ..base.clone()
            },
        ];
        variants.extend(
            sample_events()
                .into_iter()
                .filter(|event| !event.is_detail())
                .map(|event| Record {
                    time: 9,
                    cpu: 9,
                    after: 0,
                    event,
                }),
        );
        for variant in variants {
            assert!(seen.insert(hash(std::slice::from_ref(&variant))), "{variant:?}");
        }
    }

    #[test]
    fn detail_records_do_not_change_the_hash() {
        let without: Vec<Record> = all().into_iter().filter(|record| !record.event.is_detail()).collect();
        assert!(without.len() < all().len());
        assert_eq!(hash(&without), hash(&all()));
    }

    #[test]
    fn order_and_repetition_change_the_hash() {
        let mut swapped = all();
        swapped.swap(3, 4);
        assert_ne!(hash(&swapped), hash(&all()));
        let mut doubled = all();
        doubled.push(doubled[0].clone());
        assert_ne!(hash(&doubled), hash(&all()));
    }

    /// The records of different schedules differ in small, regular ways. No two of 100 000 records
    /// that differ like this may have the same hash.
    #[test]
    fn regular_records_do_not_collide() {
        let mut seen = BTreeSet::new();
        for time in 0..50u64 {
            for cpu in 0..20 {
                for pid in 0..100 {
                    let event = Event::Switch {
                        prev: pid,
                        prev_state: TaskState::Running,
                        next: pid + 1,
                    };
                    assert!(seen.insert(hash(&[Record {
                        time,
                        cpu,
                        after: 0,
                        event
                    }])));
                }
            }
        }
    }
}
