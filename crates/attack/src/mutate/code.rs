// SPDX-License-Identifier: GPL-2.0-only
//! Damages instructions. An instruction has eight bytes: operation, registers, offset and constant.

use super::{get, put};
use random::Random;

const INSN: usize = 8;

/// Valid operations. An invalid operation would end the program with a fault, so the instructions
/// after it would not be tested.
const OPS: [u64; 40] = [
    0x07, 0x0f, 0x17, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x47, 0x57, 0x67, 0x77, 0x87, 0x97, 0xa7, 0xb7, 0xbf, 0xc7, 0x04,
    0x0c, 0xbc, 0xd4, 0x61, 0x69, 0x71, 0x79, 0x62, 0x7a, 0x63, 0x7b, 0xdb, 0xc3, 0x05, 0x15, 0x1d, 0x2d, 0x5d, 0x85,
    0x95, 0x81,
];

/// Helpers that access memory, call back a function of the program, or take a long time.
const HELPERS: [u64; 24] = [
    1, 2, 3, 4, 5, 6, 7, 8, 25, 87, 88, 93, 94, 113, 115, 130, 131, 132, 156, 164, 165, 169, 171, 181,
];

/// Damages one instruction, copies or repeats it, or overwrites several instructions.
pub fn damage(random: &mut Random, data: &mut Vec<u8>) {
    let count = data.len() / INSN;
    let at = INSN * random.below(count);
    match random.below(9) {
        0 => {
            let op = random.pick(&OPS);
            put(data, at, 1, op);
        }
        1 => {
            let registers = random.next();
            put(data, at + 1, 1, registers);
        }
        2 => {
            let offset = if random.chance(60) {
                random.below(16) as u64
            } else {
                random.edge()
            };
            put(data, at + 2, 2, offset);
        }
        3 => {
            let constant = random.edge();
            put(data, at + 4, 4, constant);
        }
        4 => {
            // Makes the instruction a jump. Jumps backward and forward are equally likely.
            put(data, at, 1, 0x05);
            let distance = (random.below(2 * count + 1) as u64).wrapping_sub(count as u64);
            put(data, at + 2, 2, distance);
        }
        5 => {
            put(data, at, 2, 0x85);
            let helper = random.pick(&HELPERS);
            put(data, at + 4, 4, helper);
        }
        6 => {
            let word = get(data, at, INSN);
            let to = INSN * random.below(count);
            put(data, to, INSN, word);
        }
        7 => {
            // Repeats one instruction. This shifts the later instructions, so relocations refer to
            // the wrong ones.
            let insn = data.get(at..at + INSN).unwrap_or_default().to_vec();
            let times = 1 + random.below(200);
            data.splice(at..at, insn.repeat(times));
        }
        _ => {
            for place in 0..random.below(8) {
                let op = random.pick(&OPS);
                let registers = (random.below(11) | random.below(11) << 4) as u64;
                let offset = random.below(24) as u64;
                let constant = random.edge() & 0xffff_ffff;
                put(
                    data,
                    at + INSN * place,
                    INSN,
                    op | registers << 8 | offset << 16 | constant << 32,
                );
            }
        }
    }
}
