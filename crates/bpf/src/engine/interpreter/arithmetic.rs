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

/// Computes an operation of ALU64 or ALU on the unsigned type `$u`, whose signed counterpart is
/// `$s`. The classes differ in MOV and END, which the caller adds.
macro_rules! compute {
    ($i:ident, $a:ident, $b:ident, $u:ty, $s:ty, MOV => $mov:expr, END => $end:expr) => {
        match $i.op & 0xf0 {
            alu::ADD => $a.wrapping_add($b),
            alu::SUB => $a.wrapping_sub($b),
            alu::MUL => $a.wrapping_mul($b),
            alu::DIV if $i.off == 1 && $b == 0 => 0,
            alu::DIV if $i.off == 1 => ($a as $s).wrapping_div($b as $s) as $u,
            alu::DIV => $a.checked_div($b).unwrap_or(0),
            alu::MOD if $i.off == 1 && $b == 0 => $a,
            alu::MOD if $i.off == 1 => ($a as $s).wrapping_rem($b as $s) as $u,
            alu::MOD => $a.checked_rem($b).unwrap_or($a),
            alu::OR => $a | $b,
            alu::AND => $a & $b,
            alu::XOR => $a ^ $b,
            alu::LSH => $a.wrapping_shl($b as u32),
            alu::RSH => $a.wrapping_shr($b as u32),
            alu::ARSH => ($a as $s).wrapping_shr($b as u32) as $u,
            alu::NEG => $a.wrapping_neg(),
            alu::MOV => $mov,
            alu::END => $end,
            _ => return None,
        }
    };
}

#[inline(always)]
pub(super) unsafe fn alu64(cx: *mut Context, i: &Insn, a: u64, b: u64) -> Option<u64> {
    let register = i.op & insn::X != 0;
    Some(compute!(i, a, b, u64, i64,
        MOV => match i.off {
            0 => b,
            8 if register => i64::from(b as i8) as u64,
            16 if register => i64::from(b as i16) as u64,
            32 if register => i64::from(b as i32) as u64,
            insn::CAST if register => {
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
        END => match (i.imm, register) {
            (16, false) => u64::from((a as u16).swap_bytes()),
            (32, false) => u64::from((a as u32).swap_bytes()),
            (64, false) => a.swap_bytes(),
            _ => return None,
        }
    ))
}

#[inline(always)]
pub(super) fn alu32(i: &Insn, a: u64, b: u64) -> Option<u64> {
    let register = i.op & insn::X != 0;
    let (x, y) = (a as u32, b as u32);
    Some(u64::from(compute!(i, x, y, u32, i32,
        MOV => match i.off {
            0 => y,
            8 if register => i32::from(y as i8) as u32,
            16 if register => i32::from(y as i16) as u32,
            _ => return None,
        },
        END => match (i.imm, register) {
            (16, false) => u32::from(x as u16),
            (16, true) => u32::from((x as u16).swap_bytes()),
            (32, false) => x,
            (32, true) => x.swap_bytes(),
            (64, false) => return Some(a),
            (64, true) => return Some(a.swap_bytes()),
            _ => return None,
        }
    )))
}
