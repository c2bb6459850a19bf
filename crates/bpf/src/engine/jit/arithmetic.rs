// SPDX-License-Identifier: GPL-2.0-only
//! Translates arithmetic instructions: ALU and ALU64.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};

use super::function::Translator;
use crate::image::Insn;
use crate::insn::{self, alu};

impl Translator<'_, '_> {
    /// Translates ALU and ALU64. Returns `false` if the operation does not exist.
    pub(super) fn alu(&mut self, i: &Insn, ty: Type) -> bool {
        let op = i.op & 0xf0;
        let register = i.op & insn::X != 0;
        let old = self.get(i.dst);
        self.set_alu_prov(i, ty);
        if op == alu::END {
            return self.swap(i, old);
        }
        let a = self.narrow(old, ty);
        let b = if register {
            let b = self.get(i.src);
            self.narrow(b, ty)
        } else {
            let imm = if ty == types::I32 {
                i64::from(i.imm as u32)
            } else {
                i.imm
            };
            self.builder.ins().iconst(ty, imm)
        };
        let value = match op {
            alu::ADD => self.builder.ins().iadd(a, b),
            alu::SUB => self.builder.ins().isub(a, b),
            alu::MUL => self.builder.ins().imul(a, b),
            alu::DIV | alu::MOD => self.divide(i, ty, a, b),
            alu::OR => self.builder.ins().bor(a, b),
            alu::AND => self.builder.ins().band(a, b),
            alu::XOR => self.builder.ins().bxor(a, b),
            alu::LSH => self.builder.ins().ishl(a, b),
            alu::RSH => self.builder.ins().ushr(a, b),
            alu::ARSH => self.builder.ins().sshr(a, b),
            alu::NEG => self.builder.ins().ineg(a),
            alu::MOV => match (i.off, register) {
                (0, _) => b,
                (8, true) => self.sign_extend(b, types::I8, ty),
                (16, true) => self.sign_extend(b, types::I16, ty),
                (32, true) if ty == types::I64 => self.sign_extend(b, types::I32, ty),
                (insn::CAST, true) if ty == types::I64 => self.cast(i, b),
                _ => return false,
            },
            _ => return false,
        };
        let value = self.widen(value, ty);
        if op == alu::ADD && ty == types::I64 && !register {
            self.mark_sum(value, old, i.imm);
        }
        self.set(i.dst, value);
        true
    }

    /// Returns the low bits of a 64-bit value, as a value of type `ty`.
    pub(super) fn narrow(&mut self, value: Value, ty: Type) -> Value {
        match ty {
            types::I64 => value,
            _ => self.builder.ins().ireduce(ty, value),
        }
    }

    /// Returns a value of type `ty` with zeros in the upper bits.
    fn widen(&mut self, value: Value, ty: Type) -> Value {
        match ty {
            types::I64 => value,
            _ => self.builder.ins().uextend(types::I64, value),
        }
    }

    fn sign_extend(&mut self, value: Value, from: Type, to: Type) -> Value {
        let low = self.builder.ins().ireduce(from, value);
        self.builder.ins().sextend(to, low)
    }

    /// Divides as BPF does: `x / 0` is 0, `x % 0` is `x`, and the smallest number divided by -1 is
    /// itself.
    fn divide(&mut self, i: &Insn, ty: Type, a: Value, b: Value) -> Value {
        let modulo = i.op & 0xf0 == alu::MOD;
        let one = self.builder.ins().iconst(ty, 1);
        let by_zero = self.builder.ins().icmp_imm_s(IntCC::Equal, b, 0);
        let divisor = self.builder.ins().select(by_zero, one, b);
        let (divisor, by_minus_one) = if i.off == 1 {
            let minus_one = self.builder.ins().icmp_imm_s(IntCC::Equal, b, -1);
            (self.builder.ins().select(minus_one, one, divisor), Some(minus_one))
        } else {
            (divisor, None)
        };
        let result = match (modulo, by_minus_one.is_some()) {
            (false, false) => self.builder.ins().udiv(a, divisor),
            (false, true) => self.builder.ins().sdiv(a, divisor),
            (true, false) => self.builder.ins().urem(a, divisor),
            (true, true) => self.builder.ins().srem(a, divisor),
        };
        let result = match by_minus_one {
            Some(minus_one) if !modulo => {
                let negated = self.builder.ins().ineg(a);
                self.builder.ins().select(minus_one, negated, result)
            }
            _ => result,
        };
        let otherwise = if modulo { a } else { self.builder.ins().iconst(ty, 0) };
        self.builder.ins().select(by_zero, otherwise, result)
    }

    /// Converts a pointer into the arena between the kernel's address and the program's address.
    /// NULL stays NULL.
    fn cast(&mut self, i: &Insn, value: Value) -> Value {
        let base = if i.imm == insn::CAST_USER {
            self.cx.arena_user
        } else {
            self.cx.arena
        };
        let low = self.builder.ins().ireduce(types::I32, value);
        let low = self.builder.ins().uextend(types::I64, low);
        let base = self.builder.ins().iconst(types::I64, (base & !0xffff_ffff) as i64);
        let full = self.builder.ins().bor(base, low);
        self.builder.ins().select(low, full, low)
    }

    fn swap(&mut self, i: &Insn, value: Value) -> bool {
        let to_be = i.op & insn::X != 0;
        let swaps = match insn::class(i.op) {
            insn::ALU64 if to_be => return false,
            insn::ALU64 => true,
            _ => to_be,
        };
        let ty = match i.imm {
            16 => types::I16,
            32 => types::I32,
            64 => types::I64,
            _ => return false,
        };
        let low = self.narrow(value, ty);
        let low = if swaps { self.builder.ins().bswap(low) } else { low };
        let value = self.widen(low, ty);
        self.set(i.dst, value);
        true
    }
}
