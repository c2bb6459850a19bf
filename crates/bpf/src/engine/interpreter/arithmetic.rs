// SPDX-License-Identifier: GPL-2.0-only
//! Arithmetic instructions and the conditions of jumps.

use super::super::context::Context;
use crate::image::Insn;
use crate::insn::{self, alu, class, jmp};

#[inline(always)]
pub(super) fn jump(op: u8, a: u64, b: u64) -> bool {
    let (a, b, sa, sb) = if class(op) == insn::JMP32 {
        (
            u64::from(a as u32),
            u64::from(b as u32),
            i64::from(a as i32),
            i64::from(b as i32),
        )
    } else {
        (a, b, a as i64, b as i64)
    };
    match op & 0xf0 {
        jmp::JA => true,
        jmp::JEQ => a == b,
        jmp::JGT => a > b,
        jmp::JGE => a >= b,
        jmp::JSET => a & b != 0,
        jmp::JNE => a != b,
        jmp::JSGT => sa > sb,
        jmp::JSGE => sa >= sb,
        jmp::JLT => a < b,
        jmp::JLE => a <= b,
        jmp::JSLT => sa < sb,
        _ => sa <= sb,
    }
}

#[inline(always)]
pub(super) unsafe fn alu64(cx: *mut Context, i: &Insn, a: u64, b: u64) -> Option<u64> {
    let signed = i.off == 1;
    Some(match i.op & 0xf0 {
        alu::ADD => a.wrapping_add(b),
        alu::SUB => a.wrapping_sub(b),
        alu::MUL => a.wrapping_mul(b),
        alu::DIV if signed => {
            if b == 0 {
                0
            } else {
                (a as i64).wrapping_div(b as i64) as u64
            }
        }
        alu::DIV => a.checked_div(b).unwrap_or(0),
        alu::MOD if signed => {
            if b == 0 {
                a
            } else {
                (a as i64).wrapping_rem(b as i64) as u64
            }
        }
        alu::MOD => a.checked_rem(b).unwrap_or(a),
        alu::OR => a | b,
        alu::AND => a & b,
        alu::XOR => a ^ b,
        alu::LSH => a.wrapping_shl(b as u32),
        alu::RSH => a.wrapping_shr(b as u32),
        alu::ARSH => (a as i64).wrapping_shr(b as u32) as u64,
        alu::NEG => a.wrapping_neg(),
        alu::MOV => match i.off {
            0 => b,
            8 if i.op & insn::X != 0 => i64::from(b as i8) as u64,
            16 if i.op & insn::X != 0 => i64::from(b as i16) as u64,
            32 if i.op & insn::X != 0 => i64::from(b as i32) as u64,
            insn::CAST if i.op & insn::X != 0 => {
                let low = u64::from(b as u32);
                // SAFETY: `cx` is the context of the running program, see [`Entry`].
                let base = unsafe {
                    if i.imm == insn::CAST_USER {
                        (*cx).arena_user
                    } else {
                        (*cx).arena
                    }
                };
                // The upper 32 bits come from a base address of the arena: the user base for a user
                // address, the kernel base for a kernel address. NULL stays NULL.
                if low == 0 { 0 } else { base & !0xffff_ffff | low }
            }
            _ => return None,
        },
        alu::END if i.op & insn::X == 0 => match i.imm {
            16 => u64::from((a as u16).swap_bytes()),
            32 => u64::from((a as u32).swap_bytes()),
            64 => a.swap_bytes(),
            _ => return None,
        },
        _ => return None,
    })
}

#[inline(always)]
pub(super) fn alu32(i: &Insn, a: u64, b: u64) -> Option<u64> {
    let signed = i.off == 1;
    let (x, y) = (a as u32, b as u32);
    Some(u64::from(match i.op & 0xf0 {
        alu::ADD => x.wrapping_add(y),
        alu::SUB => x.wrapping_sub(y),
        alu::MUL => x.wrapping_mul(y),
        alu::DIV if signed => {
            if y == 0 {
                0
            } else {
                (x as i32).wrapping_div(y as i32) as u32
            }
        }
        alu::DIV => x.checked_div(y).unwrap_or(0),
        alu::MOD if signed => {
            if y == 0 {
                x
            } else {
                (x as i32).wrapping_rem(y as i32) as u32
            }
        }
        alu::MOD => x.checked_rem(y).unwrap_or(x),
        alu::OR => x | y,
        alu::AND => x & y,
        alu::XOR => x ^ y,
        alu::LSH => x.wrapping_shl(y),
        alu::RSH => x.wrapping_shr(y),
        alu::ARSH => (x as i32).wrapping_shr(y) as u32,
        alu::NEG => x.wrapping_neg(),
        alu::MOV => match i.off {
            0 => y,
            8 if i.op & insn::X != 0 => i32::from(y as i8) as u32,
            16 if i.op & insn::X != 0 => i32::from(y as i16) as u32,
            _ => return None,
        },
        alu::END => match (i.imm, i.op & insn::X != 0) {
            (16, false) => u32::from(x as u16),
            (16, true) => u32::from((x as u16).swap_bytes()),
            (32, false) => x,
            (32, true) => x.swap_bytes(),
            (64, false) => return Some(a),
            (64, true) => return Some(a.swap_bytes()),
            _ => return None,
        },
        _ => return None,
    }))
}
