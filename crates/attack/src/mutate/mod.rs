// SPDX-License-Identifier: GPL-2.0-only
//! Damages valid inputs. Each format is damaged in its own ways, so that many damaged inputs pass
//! the first checks of a reader. The formats are objects (their sections, types and instructions),
//! traces and texts.

mod btf;
mod code;
mod elf;
mod text;
mod trace;

pub use btf::pair as btf_pair;
pub use elf::object;
pub use text::{DUMP, MACHINE, PROFILE, RECORDING, SUITE, WORKLOAD, text};
pub use trace::trace;

use random::Random;

/// Damages a recording in a binary format in one to three places.
pub fn recording(random: &mut Random, mut file: Vec<u8>) -> Vec<u8> {
    for _ in 0..1 + random.below(3) {
        bytes(random, &mut file);
    }
    file
}

/// Overwrites `size` bytes at offset `at` with a number. Does nothing if the bytes do not lie in
/// the data.
fn put(data: &mut [u8], at: usize, size: usize, value: u64) {
    if let Some(bytes) = at.checked_add(size).and_then(|end| data.get_mut(at..end)) {
        bytes.copy_from_slice(&value.to_le_bytes()[..size]);
    }
}

/// Returns the number in `size` bytes at offset `at`, or 0 if the bytes do not lie in the data.
fn get(data: &[u8], at: usize, size: usize) -> u64 {
    let mut bytes = [0; 8];
    if let Some(found) = at.checked_add(size).and_then(|end| data.get(at..end)) {
        bytes[..size].copy_from_slice(found);
    }
    u64::from_le_bytes(bytes)
}

/// Damages bytes without using knowledge of their format.
fn bytes(random: &mut Random, data: &mut Vec<u8>) {
    if data.is_empty() {
        return;
    }
    let at = random.below(data.len());
    match random.below(6) {
        0 => data[at] ^= 1 << random.below(8),
        1 => data[at] = random.next() as u8,
        2 => data.truncate(at),
        3 => {
            let size = random.pick(&[1, 2, 4, 8]);
            let value = random.edge();
            put(data, at, size, value);
        }
        4 => {
            let end = (at + 1 + random.below(64)).min(data.len());
            data.drain(at..end);
        }
        _ => {
            let end = (at + 1 + random.below(64)).min(data.len());
            let part = data[at..end].to_vec();
            let to = random.below(data.len());
            data.splice(to..to, part);
        }
    }
}
