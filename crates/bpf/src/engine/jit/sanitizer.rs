// SPDX-License-Identifier: GPL-2.0-only
//! Emits the checks of the sanitizer in compiled code.
//!
//! The sanitizer knows the provenance of each value: the object to which the value points, if it is
//! a pointer. For each register, the machine code has a variable with the register's provenance.
//! The provenance of a number is SCALAR, and that of a register without a value is UNSET. A pointer
//! may be NULL if a function returned it or it was loaded from a kptr field. Its provenance has the
//! bit UNTESTED until the program compares the pointer with NULL.
//!
//! The shadow is a table with an entry for each word of the BPF stack. If the program has spilled a
//! pointer to a word, the entry has two words: the provenance and the value of the pointer.
//!
//! The emitted code calls the checks in `sanitizer` before accesses and around calls. An access to
//! the function's own frame at a known offset needs no check. If the sanitizer is off, the
//! functions in this file emit nothing.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, Type, Value, types};
use cranelift_frontend::Variable;

use super::function::Translator;
use super::runtime::Runtime;
use super::symbol::Symbol;
use crate::engine::context::Context;
use crate::image::Insn;
use crate::insn::{self, alu, atomic};
use crate::sanitizer;

/// Provenances of the registers of one function.
pub(super) struct Provenances {
    /// Variables for the provenances of r0 to r9.
    registers: Vec<Variable>,
    /// Provenance of r10, and the address of the shadow's entry for the end of the frame.
    frame: Option<(Value, Value)>,
}

/// How the provenance of a loaded value is determined.
pub(super) enum Loaded {
    /// The sanitizer is off.
    Unchecked,
    /// This is the provenance.
    Known(Value),
    /// The value was spilled to the stack at this distance from the frame pointer.
    Spilled(i64),
}

impl Translator<'_, '_> {
    /// Defines the provenances at the start of a function. Arguments have the provenances that the
    /// caller stored. Other registers have no value yet.
    pub fn init_provenances(&mut self) {
        if self.cx.checks.is_none() {
            return;
        }
        let registers: Vec<Variable> = (0..10).map(|_| self.builder.declare_var(types::I64)).collect();
        let unset = self.builder.ins().iconst(types::I64, sanitizer::UNSET as i64);
        for (n, &register) in registers.iter().enumerate() {
            let prov = match n {
                1..=5 => self.load_field(types::I64, arg_prov(n)),
                _ => unset,
            };
            self.builder.def_var(register, prov);
        }
        self.provenances = Some(Provenances { registers, frame: None });
    }

    /// Computes the provenance of the frame pointer, which identifies the frame.
    pub fn set_frame_prov(&mut self, fp: Value) {
        if self.cx.checks.is_none() {
            return;
        }
        let stack = self.cx.stack;
        let prov = sanitizer::frame().wrapping_sub(stack) as i64;
        let prov = self.builder.ins().iconst(types::I64, prov);
        let prov = self.builder.ins().iadd(fp, prov);
        // The shadow has two words for each word of the stack.
        let twice = self.builder.ins().ishl_imm_u(fp, 1);
        let shadow = self.symbol_value(Symbol::Shadow, (2 * stack).wrapping_neg() as i64);
        let shadow = self.builder.ins().iadd(twice, shadow);
        if let Some(provenances) = &mut self.provenances {
            provenances.frame = Some((prov, shadow));
        }
    }

    fn prov(&mut self, register: u8) -> Value {
        let provenances = self.provenances.as_ref().expect("the sanitizer is on");
        match provenances.registers.get(usize::from(register)) {
            Some(&variable) => self.builder.use_var(variable),
            None => {
                provenances
                    .frame
                    .expect("a function that uses r10 has set up its frame")
                    .0
            }
        }
    }

    fn set_prov(&mut self, register: u8, prov: Value) {
        let provenances = self.provenances.as_ref().expect("the sanitizer is on");
        self.builder.def_var(provenances.registers[usize::from(register)], prov);
    }

    fn set_scalar(&mut self, register: u8) {
        let scalar = self.builder.ins().iconst(types::I64, sanitizer::SCALAR as i64);
        self.set_prov(register, scalar);
    }

    fn is_scalar(&self, prov: Value) -> bool {
        self.constant(prov) == Some(sanitizer::SCALAR as i64)
    }

    /// Sets the provenance of the register that an LD_IMM64 loads.
    pub fn set_constant_prov(&mut self, pc: usize, i: &Insn) {
        let Some(checks) = &self.cx.checks else { return };
        let prov = checks.constants[&pc];
        let prov = self.builder.ins().iconst(types::I64, prov as i64);
        self.set_prov(i.dst, prov);
    }

    /// Sets the provenance of an ALU result by the same rules as `provenance` in the interpreter.
    /// Must be called before the registers change.
    pub fn set_alu_prov(&mut self, i: &Insn, ty: Type) {
        if self.provenances.is_none() {
            return;
        }
        let register = i.op & insn::X != 0;
        let prov = match i.op & 0xf0 {
            alu::MOV if ty == types::I64 && register && i.off == 0 => self.prov(i.src),
            alu::ADD | alu::SUB if ty == types::I64 && !register => return,
            alu::ADD if ty == types::I64 => {
                let (dst, src) = (self.prov(i.dst), self.prov(i.src));
                if self.is_scalar(src) {
                    dst
                } else if self.is_scalar(dst) {
                    src
                } else {
                    let none = self
                        .builder
                        .ins()
                        .icmp_imm_s(IntCC::Equal, dst, sanitizer::SCALAR as i64);
                    self.builder.ins().select(none, src, dst)
                }
            }
            alu::SUB if ty == types::I64 => {
                let (dst, src) = (self.prov(i.dst), self.prov(i.src));
                if self.is_scalar(src) {
                    dst
                } else {
                    let scalar = self.builder.ins().iconst(types::I64, sanitizer::SCALAR as i64);
                    let none = self
                        .builder
                        .ins()
                        .icmp_imm_s(IntCC::Equal, src, sanitizer::SCALAR as i64);
                    self.builder.ins().select(none, dst, scalar)
                }
            }
            _ => return self.set_scalar(i.dst),
        };
        self.set_prov(i.dst, prov);
    }

    /// Emits checks of the registers that an instruction uses, as `sanitizer::before` does in the
    /// interpreter.
    pub fn register_checks_before(&mut self, pc: usize, i: &Insn) {
        let Some(checks) = &self.cx.checks else { return };
        let register_checks_before = checks.registers[pc];
        let at = |t: &mut Self| t.builder.ins().iconst(types::I64, pc as i64);
        for register in register_checks_before.unset() {
            let prov = self.prov(register);
            if self.constant(prov).is_some_and(|prov| prov != sanitizer::UNSET as i64) {
                continue;
            }
            let unset = self
                .builder
                .ins()
                .icmp_imm_s(IntCC::Equal, prov, sanitizer::UNSET as i64);
            let next = self.begin_cold(unset);
            let pc = at(self);
            let register = self.builder.ins().iconst(types::I64, i64::from(register));
            self.call_symbol(Runtime::CheckRead, &[pc, register, prov]);
            self.end_cold(next);
        }
        // Reads the provenances now, because `vary` below changes the variables of the registers.
        let provs = [i.dst, i.src].map(|register| self.prov_if_used(i, register));
        let (src_varies, dst_varies) = register_checks_before.varies();
        if src_varies || dst_varies {
            let (dst, src) = (self.prov(i.dst), self.prov(i.src));
            if src_varies {
                self.vary(i.dst, [dst, src], dst);
            }
            // The sum gets the provenance of the pointer in `src`, which itself does not change.
            if dst_varies && i.src != insn::FP {
                let otherwise = self.prov(i.dst);
                self.vary(i.dst, [src, dst], otherwise);
            }
        }
        if !sanitizer::moves(i) && !sanitizer::tests(i) {
            return;
        }
        let mut registers = vec![i.dst];
        registers.extend((i.op & insn::X != 0 && i.src != i.dst).then_some(i.src));
        for register in registers {
            let known = provs[usize::from(register != i.dst)];
            let Some(prov) = known else { continue };
            if self
                .constant(prov)
                .is_some_and(|prov| prov as u64 & sanitizer::UNTESTED == 0)
            {
                continue;
            }
            let untested = self.builder.ins().band_imm_s(prov, sanitizer::UNTESTED as i64);
            let next = self.begin_cold(untested);
            if sanitizer::moves(i) {
                let pc = at(self);
                self.call_symbol(Runtime::CheckMoveUntested, &[pc, prov]);
            } else {
                self.call_symbol(Runtime::CheckTest, &[prov]);
            }
            self.end_cold(next);
            if sanitizer::tests(i) && register != insn::FP {
                let tested = self.builder.ins().band_imm_s(prov, !sanitizer::UNTESTED as i64);
                self.set_prov(register, tested);
            }
        }
    }

    /// Returns the provenance of an operand, or `None` if the instruction does not use the
    /// register.
    fn prov_if_used(&mut self, i: &Insn, register: u8) -> Option<Value> {
        let used = sanitizer::moves(i) || sanitizer::tests(i);
        (used && (register == i.dst || i.op & insn::X != 0)).then(|| self.prov(register))
    }

    /// Gives `register` the provenance of a pointer with a variable offset. Used before the
    /// addition of a number that the kernel's verifier would not know, because fields of kernel
    /// objects may be accessed only at known offsets. `pointer` and `number` are the provenances of
    /// the operands. If `number` turns out to be that of a pointer, the register gets the
    /// provenance `otherwise`.
    fn vary(&mut self, register: u8, [pointer, number]: [Value; 2], otherwise: Value) {
        if self.constant(pointer).is_some() {
            return;
        }
        let scalar = self
            .builder
            .ins()
            .icmp_imm_s(IntCC::Equal, number, sanitizer::SCALAR as i64);
        let varied = self.call_symbol(Runtime::CheckVary, &[pointer]);
        let prov = self.builder.ins().select(scalar, varied, otherwise);
        self.set_prov(register, prov);
    }

    /// Starts a cold block, which runs if `condition` is not 0. Returns the block in which the code
    /// continues after [`Translator::end_cold`].
    fn begin_cold(&mut self, condition: Value) -> ir::Block {
        let (cold, next) = (self.cold_block(), self.builder.create_block());
        self.builder.ins().brif(condition, cold, &[], next, &[]);
        self.enter_block(cold);
        next
    }

    /// Ends a cold block: jumps to `next` and continues there.
    fn end_cold(&mut self, next: ir::Block) {
        self.builder.ins().jump(next, &[]);
        self.enter_block(next);
    }

    /// Emits the word that describes an access to the checks; see [`sanitizer::meta`].
    fn meta(&mut self, pc: usize, i: &Insn) -> Value {
        let meta = sanitizer::meta(pc, i);
        self.builder.ins().iconst(types::I64, meta as i64)
    }

    /// Emits the check before LDX. Returns how the provenance of the loaded value is determined.
    pub fn check_load(&mut self, pc: usize, i: &Insn, base: Value) -> Loaded {
        if self.provenances.is_none() {
            return Loaded::Unchecked;
        }
        // A misaligned access to the stack takes the general path below, which reports it.
        if let Some(far) = self.in_frame(base, i)
            && far % insn::size(i.op) as i64 == 0
        {
            return match insn::size(i.op) == 8 && far % 8 == 0 {
                true => Loaded::Spilled(far),
                false => Loaded::Known(self.builder.ins().iconst(types::I64, sanitizer::SCALAR as i64)),
            };
        }
        let (meta, prov) = (self.meta(pc, i), self.prov(i.src));
        Loaded::Known(self.call_symbol(Runtime::CheckLoad, &[base, meta, prov]))
    }

    /// Sets the provenance of the loaded value after LDX.
    pub fn set_loaded_prov(&mut self, register: u8, value: Value, loaded: Loaded) {
        let prov = match loaded {
            Loaded::Unchecked => return,
            Loaded::Known(prov) => prov,
            Loaded::Spilled(far) => {
                let shadow = self.shadow();
                let at = (2 * far) as i32;
                let prov = self.builder.ins().load(types::I64, self.fields, shadow, at);
                let spilled = self.builder.ins().load(types::I64, self.fields, shadow, at + 8);
                let same = self.builder.ins().icmp(IntCC::Equal, spilled, value);
                let scalar = self.builder.ins().iconst(types::I64, sanitizer::SCALAR as i64);
                self.builder.ins().select(same, prov, scalar)
            }
        };
        self.set_prov(register, prov);
    }

    fn shadow(&self) -> Value {
        let frame = self.provenances.as_ref().and_then(|provenances| provenances.frame);
        frame.expect("a function that uses r10 has set up its frame").1
    }

    /// Emits the check before ST and STX.
    pub fn check_store(&mut self, pc: usize, i: &Insn, base: Value) {
        if self.provenances.is_none() {
            return;
        }
        let (value, value_prov) = match insn::class(i.op) {
            insn::STX => (self.get(i.src), self.prov(i.src)),
            _ => {
                let scalar = self.builder.ins().iconst(types::I64, sanitizer::SCALAR as i64);
                (self.builder.ins().iconst(types::I64, i.imm), scalar)
            }
        };
        if let Some(far) = self.in_frame(base, i)
            && far % insn::size(i.op) as i64 == 0
        {
            if insn::size(i.op) == 8 && far % 8 == 0 {
                let shadow = self.shadow();
                let at = (2 * far) as i32;
                self.builder.ins().store(self.fields, value_prov, shadow, at);
                self.builder.ins().store(self.fields, value, shadow, at + 8);
            }
            return;
        }
        let (meta, prov) = (self.meta(pc, i), self.prov(i.dst));
        self.call_symbol(Runtime::CheckStore, &[base, meta, prov, value, value_prov]);
    }

    /// Emits the check before an atomic operation. The result of a read-modify-write operation is a
    /// number, never a pointer.
    pub fn check_atomic(&mut self, pc: usize, i: &Insn, base: Value, is_load: bool) {
        if self.provenances.is_none() {
            return;
        }
        if is_load {
            let (meta, prov) = (self.meta(pc, i), self.prov(i.src));
            let prov = self.call_symbol(Runtime::CheckLoad, &[base, meta, prov]);
            return self.set_prov(i.dst, prov);
        }
        let (meta, prov, value) = (self.meta(pc, i), self.prov(i.dst), self.get(i.src));
        let value_prov = match i.imm {
            atomic::STORE_RELEASE => self.prov(i.src),
            _ => self.builder.ins().iconst(types::I64, sanitizer::SCALAR as i64),
        };
        self.call_symbol(Runtime::CheckStore, &[base, meta, prov, value, value_prov]);
        if i.imm == atomic::CMPXCHG {
            self.set_scalar(0);
        } else if i.imm & atomic::FETCH != 0 && i.imm != atomic::STORE_RELEASE {
            self.set_scalar(i.src);
        }
    }

    /// Emits stores of the provenances of r1 to r5 to the context. The called function or check
    /// reads them there.
    fn store_arg_provs(&mut self) {
        for register in 1..=5u8 {
            let prov = self.prov(register);
            self.store_field(prov, arg_prov(register.into()));
        }
    }

    /// Emits the check before a call of one of the program's own functions.
    pub fn enter_function(&mut self, pc: usize) {
        if self.provenances.is_some() {
            self.store_arg_provs();
            let pc = self.builder.ins().iconst(types::I64, pc as i64);
            self.call_symbol(Runtime::CheckCallFunction, &[pc]);
        }
    }

    /// Emits the check after a call of one of the program's own functions, and sets the provenance
    /// of r0.
    pub fn leave_function(&mut self) {
        if self.provenances.is_some() {
            self.call_symbol(Runtime::CheckReturned, &[]);
            let prov = self.load_field(types::I64, arg_prov(0));
            self.set_prov(0, prov);
        }
    }

    /// Emits the check of the arguments before a call of a helper or kfunc.
    pub fn check_call(&mut self) {
        if self.provenances.is_some() {
            self.store_arg_provs();
            let args = self.args(5);
            self.call_symbol(Runtime::CheckBeforeCall, &args[1..]);
        }
    }

    /// Emits the check after a call of a helper or kfunc, and sets the provenance of r0.
    pub fn set_result_prov(&mut self, pc: usize, result: Value) {
        if self.provenances.is_some() {
            let at = self.builder.ins().iconst(types::I32, pc as i64);
            self.store_field(at, offset_of!(Context, pc));
            let prov = self.call_symbol(Runtime::CheckAfterCall, &[result]);
            self.set_prov(0, prov);
        }
    }

    /// Marks r1 to r5 as registers without a value, after a call.
    pub fn clobber_provs(&mut self) {
        if self.provenances.is_some() {
            let unset = self.builder.ins().iconst(types::I64, sanitizer::UNSET as i64);
            for register in 1..=5 {
                self.set_prov(register, unset);
            }
        }
    }

    /// Passes the provenance of r0 to the caller.
    pub fn return_prov(&mut self) {
        if self.provenances.is_some() {
            let prov = self.prov(0);
            self.store_field(prov, arg_prov(0));
        }
    }
}

/// Returns the offset in the context of the word that passes the provenance of one of r0 to r5 to
/// another function.
fn arg_prov(register: usize) -> usize {
    offset_of!(Context, arg_prov) + 8 * register
}
