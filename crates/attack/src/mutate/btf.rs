// SPDX-License-Identifier: GPL-2.0-only
//! Damages BTF: type references become circular, sizes overflow, and kinds change.

use super::{bytes, get, put};
use random::Random;

/// A type: its offset in the section, its kind, and the number of its members.
struct Type {
    at: usize,
    kind: u64,
    vlen: u64,
}

/// Returns the size in bytes of the part of a type that follows the twelve bytes that all kinds
/// have.
fn rest(kind: u64, vlen: u64) -> usize {
    let vlen = vlen as usize;
    match kind {
        1 | 14 | 17 => 4,
        3 => 12,
        4 | 5 | 15 | 19 => 12 * vlen,
        6 | 13 => 8 * vlen,
        _ => 0,
    }
}

/// Returns the types of a section.
fn types(data: &[u8]) -> Vec<Type> {
    let start = (get(data, 4, 4) + get(data, 8, 4)) as usize;
    let end = start.saturating_add(get(data, 12, 4) as usize).min(data.len());
    let (mut types, mut at) = (Vec::new(), start);
    while at + 12 <= end {
        let info = get(data, at + 4, 4);
        let (kind, vlen) = (info >> 24 & 0x1f, info & 0xffff);
        types.push(Type { at, kind, vlen });
        at += 12 + rest(kind, vlen);
    }
    types
}

/// Returns a number that is extreme if it is used as a number of entries, bytes or bits.
fn size(random: &mut Random) -> u64 {
    random.pick(&[
        0,
        1,
        3,
        7,
        8,
        63,
        64,
        0xffff,
        1 << 20,
        1 << 28,
        1 << 31,
        (1 << 31) - 1,
        0xffff_fff8,
        0xffff_ffff,
    ])
}

/// Damages the bytes of a .BTF section.
pub fn damage(random: &mut Random, data: &mut Vec<u8>) {
    let types = types(data);
    if types.is_empty() || random.chance(6) {
        let header = random.chance(50);
        if header {
            let at = 4 * random.below(6);
            let value = random.edge();
            return put(data, at, 4, value);
        }
        return bytes(random, data);
    }
    let index = random.below(types.len());
    let Type { at, kind, vlen } = types[index];
    // The ids of types start at 1.
    let id = match random.below(4) {
        0 => index as u64 + 1,
        1 => random.edge(),
        _ => random.below(types.len() + 2) as u64,
    };
    match random.below(8) {
        // This word is the id of another type or a size, depending on the kind of the type.
        0 | 1 => put(data, at + 8, 4, id),
        2 => {
            let size = size(random);
            put(data, at + 8, 4, size);
        }
        3 => {
            let kind = random.below(21) as u64;
            put(data, at + 7, 1, kind | u64::from(random.chance(10)) << 7);
        }
        4 => {
            let vlen = if random.chance(50) {
                vlen + 1
            } else {
                random.below(0x10000) as u64
            };
            put(data, at + 4, 2, vlen);
        }
        5 => {
            let name = if random.chance(20) {
                random.edge()
            } else {
                random.below(4096) as u64
            };
            put(data, at, 4, name);
        }
        _ if kind == 3 => {
            // The three words of an array are the element type, the index type and the number of
            // elements. Map definitions encode numbers as the number of elements of an array.
            let word = random.pick(&[0, 1, 2, 2, 2]);
            let value = if word == 2 { size(random) } else { id };
            put(data, at + 12 + 4 * word, 4, value);
        }
        _ => {
            let words = rest(kind, vlen) / 4;
            let word = random.below(words);
            let value = match random.below(3) {
                0 => id,
                1 => size(random),
                _ => random.edge(),
            };
            if words > 0 {
                put(data, at + 12 + 4 * word, 4, value);
            }
        }
    }
}

/// Damages the bytes of a .BTF.ext section: function info, line info and CO-RE relocations.
pub fn damage_ext(random: &mut Random, data: &mut Vec<u8>) {
    if random.chance(15) {
        let at = 4 * random.below(8);
        let value = random.edge();
        return put(data, at, 4, value);
    }
    if random.chance(10) {
        return bytes(random, data);
    }
    // Each of the three tables is described by its offset and its length. The offset counts from
    // the end of the header.
    let table = random.below(3);
    let start = (get(data, 4, 4) + get(data, 8 + 8 * table, 4)) as usize;
    let len = get(data, 12 + 8 * table, 4) as usize;
    let at = start + 4 * random.below(len / 4);
    let value = match random.below(4) {
        0 => random.edge(),
        1 => 8 * random.below(2000) as u64,
        2 => random.below(4096) as u64,
        _ => random.below(16) as u64,
    };
    put(data, at, 4, value);
}

/// Makes an input from two damaged .BTF sections: the types of an object and those of a kernel. The
/// first two bytes of the input are the length of the first section.
pub fn pair(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut local = random.pick(seeds);
    let mut target = random.pick(seeds);
    for _ in 0..random.below(4) {
        damage(random, &mut local);
    }
    for _ in 0..random.below(4) {
        damage(random, &mut target);
    }
    let len = local.len().min(0xffff);
    let mut input = (len as u16).to_le_bytes().to_vec();
    input.extend(&local[..len]);
    input.extend(target);
    input
}
