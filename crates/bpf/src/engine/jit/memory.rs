// SPDX-License-Identifier: GPL-2.0-only
//! Emits machine code for loads and stores, and for the checks of their addresses.
//!
//! Only the base register is checked. One shift and one comparison show whether the register points
//! into the region, the memory that programs may access. An access adds a 16-bit offset to the base
//! register. The sum can leave the region, but only into the inaccessible margins next to it. The
//! lower half of the region is the program's own memory, to which it may store. The upper half
//! contains kernel objects.
//!
//! A load through a base below 64 KiB (NULL plus an offset) must return zero. The check therefore
//! replaces such a base by an address in the middle of an area of zeros. All later loads through
//! the same SSA value use the replaced base, so one check is enough for all loads that it
//! dominates. One check is also enough for all stores that it dominates. No check is needed for a
//! frame pointer, or for a constant that points into the region.

use crate::lookup::{LookupMap, LookupSet};
use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, Type, Value, types};

use super::function::Translator;
use super::runtime::Runtime;
use super::symbol::Symbol;
use crate::cache::lines::{LINE, line_address, whole_lines};
use crate::engine::context::Context;
use crate::image::Insn;
use crate::insn::FRAME;
use crate::insn::{self, atomic};
use crate::memory::{NULL_LIMIT, OWN_SHIFT, REACH, SHIFT};

/// Facts that are known about the SSA values of one function. If a fact is known, no test of it is
/// emitted.
#[derive(Default)]
pub(super) struct Known {
    /// Base values that were checked. For each check of a value: the block that contains the check,
    /// and the base that loads must use instead of the value.
    checked: LookupMap<Value, Vec<(usize, Value)>>,
    /// Base values that were checked to point into the program's own, writable memory. For each,
    /// the blocks that contain the checks.
    own: LookupMap<Value, Vec<usize>>,
    /// Values that are known to lie in the region without a check. For each, its distance in bytes
    /// from another value, which certainly lies in the region.
    inside: LookupMap<Value, i64>,
    /// Values in `inside` that are addresses of kernel memory.
    kernel: LookupSet<Value>,
    /// Values in `inside` that are derived from the frame pointer.
    stack: LookupSet<Value>,
    /// Address of a callback's arguments, which lie on the BPF stack.
    arguments: Option<Value>,
    /// Cache lines that this CPU's cache holds. For each, the blocks that fetch the line, and
    /// whether the block fetches it for a store.
    touched: LookupMap<LineKey, Vec<(usize, bool)>>,
}

/// A cache line of program memory, identified by its number or by its constant distance in bytes
/// from an SSA value.
#[derive(PartialEq, Eq, Hash)]
enum LineKey {
    Line(u64),
    At(Value, i64),
}

fn int(op: u8) -> Type {
    match insn::size(op) {
        1 => types::I8,
        2 => types::I16,
        4 => types::I32,
        _ => types::I64,
    }
}

impl Translator<'_, '_> {
    /// Records that `value` is an address in the region.
    pub fn mark_inside(&mut self, value: Value) {
        self.known.inside.insert(value, 0);
    }

    /// Records that `value` is this constant address in the region.
    pub fn mark_constant(&mut self, value: Value, addr: u64) {
        self.mark_inside(value);
        if addr >> OWN_SHIFT != self.cx.base >> OWN_SHIFT {
            self.known.kernel.insert(value);
        }
    }

    /// Records that `fp` is the frame pointer.
    pub fn mark_frame(&mut self, fp: Value) {
        self.mark_inside(fp);
        self.known.stack.insert(fp);
    }

    /// Records that `array` is the address of a callback's arguments.
    pub fn mark_arguments(&mut self, array: Value) {
        self.mark_inside(array);
        self.known.arguments = Some(array);
    }

    /// Returns whether `value` is certainly an address in the region.
    pub fn is_inside(&self, value: Value) -> bool {
        self.known
            .inside
            .contains_key(&self.builder.func.dfg.resolve_aliases(value))
    }

    /// Records that `sum` is `value` plus a constant.
    pub fn mark_sum(&mut self, sum: Value, value: Value, offset: i64) {
        let value = self.builder.func.dfg.resolve_aliases(value);
        if let Some(&far) = self.known.inside.get(&value) {
            let far = far.saturating_add(offset);
            // The limit leaves room for the offset of an access that uses the sum as its base.
            if far.unsigned_abs() < REACH / 2 {
                self.known.inside.insert(sum, far);
                if self.known.kernel.contains(&value) {
                    self.known.kernel.insert(sum);
                }
                if self.known.stack.contains(&value) {
                    self.known.stack.insert(sum);
                }
            }
        }
    }

    /// Emits a check of the base of a load. Returns the value that the load must use as its base.
    fn readable(&mut self, pc: usize, base: Value, offset: i32) -> Value {
        let base = self.builder.func.dfg.resolve_aliases(base);
        if self.known.inside.contains_key(&base) {
            return base;
        }
        let here = self.block;
        if self.is_own(base) {
            return base;
        }
        if let Some(blocks) = self.known.checked.get(&base)
            && let Some(&(_, safe)) = blocks.iter().find(|(block, _)| self.flow.dominates(*block, here))
        {
            return safe;
        }
        let outside = self.differs_from_base(base, SHIFT);
        let slow = self.cold_block();
        let next = self.builder.create_block();
        let safe = self.builder.append_block_param(next, types::I64);
        self.builder
            .ins()
            .brif(outside, slow, &[], next, &[BlockArg::Value(base)]);
        self.enter_block(slow);
        let null = self
            .builder
            .ins()
            .icmp_imm_s(IntCC::UnsignedLessThan, base, NULL_LIMIT as i64);
        // The substitute for NULL is loaded in a cold block, so that accesses with a valid base do
        // not become slower.
        let (substitute, bad) = (self.cold_block(), self.cold_block());
        self.builder.ins().brif(null, substitute, &[], bad, &[]);
        self.enter_block(substitute);
        let zeros = self.builder.ins().iconst(types::I64, self.cx.zeros as i64);
        self.builder.ins().jump(next, &[BlockArg::Value(zeros)]);
        self.enter_block(bad);
        let offset = self.builder.ins().iconst(types::I64, i64::from(offset));
        self.fault(pc, Runtime::BadAccess, &[base, offset]);
        self.enter_block(next);
        self.known.checked.get_or_default(base).push((here, safe));
        safe
    }

    /// Emits a check that a store through `base` goes to the program's own memory, or to a field of
    /// a kernel object that programs may write. Returns the value that the store must use as its
    /// base.
    fn writable(&mut self, pc: usize, base: Value, i: &Insn) -> Value {
        let base = self.builder.func.dfg.resolve_aliases(base);
        let inside = self.known.inside.contains_key(&base) && !self.known.kernel.contains(&base);
        if inside || self.is_own(base) {
            return base;
        }
        let outside = self.differs_from_base(base, OWN_SHIFT);
        let (slow, next) = (self.cold_block(), self.builder.create_block());
        self.builder.ins().brif(outside, slow, &[], next, &[]);
        self.enter_block(slow);
        if self.cx.field_stores.contains(&pc) {
            // `base` is not recorded as checked, because another field of the object may be
            // read-only.
            let at = self.builder.ins().iconst(types::I32, pc as i64);
            self.store_field(at, offset_of!(Context, pc));
            let offset = self.builder.ins().iconst(types::I64, i64::from(i.off));
            let size = self.builder.ins().iconst(types::I64, insn::size(i.op) as i64);
            self.call_symbol(Runtime::FieldStore, &[base, offset, size]);
            self.builder.ins().jump(next, &[]);
        } else {
            self.fault(pc, Runtime::ForeignStore, &[base]);
            self.known.own.get_or_default(base).push(self.block);
        }
        self.enter_block(next);
        base
    }

    /// Returns whether every path to this block contains a check that `base` points into the
    /// program's own memory.
    fn is_own(&self, base: Value) -> bool {
        let blocks = self.known.own.get(&base).map_or(&[][..], Vec::as_slice);
        blocks.iter().any(|&block| self.flow.dominates(block, self.block))
    }

    /// Converts an address in the region to the host's address of the same memory.
    pub fn host(&mut self, addr: Value) -> Value {
        if !self.cx.displaced {
            return addr;
        }
        let delta = self.symbol_value(Symbol::Delta, 0);
        self.builder.ins().iadd(addr, delta)
    }

    /// Emits a comparison of an address with the region's base. It compares the bits from bit
    /// `shift` up, and its result is true if they differ.
    fn differs_from_base(&mut self, addr: Value, shift: u32) -> Value {
        let tag = self.builder.ins().ushr_imm_u(addr, i64::from(shift));
        self.builder
            .ins()
            .icmp_imm_s(IntCC::NotEqual, tag, (self.cx.base >> shift) as i64)
    }

    /// Emits a test whether this CPU's cache holds the cache line of an access. If it does not, the
    /// emitted code calls a function that fetches the line. Accesses to the function's own frame
    /// and to a callback's arguments are free, so they need no test. A line that was tested before
    /// needs no second test, because no other CPU takes the line away while the program runs. A
    /// second test is needed if another line can evict the first one ([`crate::cache::Sets`]).
    fn touch(&mut self, base: Value, offset: i32, store: bool) {
        let access_offset = i64::from(offset);
        if !self.cx.lines_move {
            return;
        }
        let base = self.builder.func.dfg.resolve_aliases(base);
        let far = self.known.inside.get(&base).copied().unwrap_or(0) + i64::from(offset);
        if self.known.stack.contains(&base) && (-(FRAME as i64)..0).contains(&far) {
            return;
        }
        if self.known.arguments == Some(base) && whole_lines(offset) == 0 {
            return;
        }
        let constant = self.constant(base).map(|base| line_address(base as u64, offset));
        let offset = whole_lines(offset);
        let key = match constant {
            Some(addr) => LineKey::Line(addr / LINE),
            None => LineKey::At(base, offset),
        };
        let (flow, here) = (self.flow, self.block);
        let blocks = self.known.touched.get_or_default(key);
        let compete = self.cx.lines_compete;
        if !compete
            && blocks
                .iter()
                .any(|&(block, stored)| (stored || !store) && flow.dominates(block, here))
        {
            return;
        }
        blocks.push((here, store));
        let (addr, word) = match constant {
            Some(addr) => {
                let word = self.symbol_value(Symbol::Lines, (addr / LINE * 8) as i64);
                (self.builder.ins().iconst(types::I64, addr as i64), word)
            }
            None => {
                let addr = match offset {
                    0 => base,
                    _ => self.builder.ins().iadd_imm_s(base, offset),
                };
                let line = self.builder.ins().ushr_imm_u(addr, i64::from(LINE.trailing_zeros()));
                let word = self.builder.ins().ishl_imm_u(line, 3);
                let bias = self.symbol_value(Symbol::Lines, 0);
                (addr, self.builder.ins().iadd(bias, word))
            }
        };
        let holders = self.builder.ins().load(types::I64, self.lines, word, 0);
        let own = self.load_field(types::I64, offset_of!(Context, own_cache));
        let (miss, next) = (self.cold_block(), self.builder.create_block());
        if store {
            let alone = self.builder.ins().icmp(IntCC::Equal, holders, own);
            self.builder.ins().brif(alone, next, &[], miss, &[]);
        } else {
            let there = self.builder.ins().band(holders, own);
            self.builder.ins().brif(there, next, &[], miss, &[]);
        }
        self.enter_block(miss);
        if self.cx.counts {
            let access = self.builder.ins().iadd_imm_s(base, access_offset);
            let fetch = if store {
                Runtime::CountedStoreLine
            } else {
                Runtime::CountedLoadLine
            };
            self.call_symbol(fetch, &[addr, access]);
        } else {
            let fetch = if store { Runtime::StoreLine } else { Runtime::LoadLine };
            self.call_symbol(fetch, &[addr]);
        }
        self.builder.ins().jump(next, &[]);
        self.enter_block(next);
    }

    /// Translates LDX.
    pub fn load(&mut self, pc: usize, i: &Insn) -> bool {
        let signed = i.op & 0xe0 == insn::MEMSX;
        if !signed && i.op & 0xe0 != insn::MEM || signed && insn::size(i.op) == 8 {
            return false;
        }
        let base = self.get(i.src);
        let prov = self.check_load(pc, i, base);
        let base = self.readable(pc, base, i.off);
        self.touch(base, i.off, false);
        let value = self.load_at(base, i, signed);
        self.set(i.dst, value);
        self.set_loaded_prov(i.dst, value, prov);
        true
    }

    /// Translates ST, STX and the atomics.
    pub fn store(&mut self, pc: usize, i: &Insn) -> bool {
        let ty = int(i.op);
        let value = match (insn::class(i.op), i.op & 0xe0) {
            (insn::ST, insn::MEM) => self.builder.ins().iconst(ty, truncate(i.imm, ty)),
            (insn::STX, insn::MEM) => {
                let value = self.get(i.src);
                self.narrow(value, ty)
            }
            (insn::STX, insn::ATOMIC) => return self.atomic(pc, i),
            _ => return false,
        };
        let base = self.get(i.dst);
        self.check_store(pc, i, base);
        let base = self.writable(pc, base, i);
        self.touch(base, i.off, true);
        self.store_at(base, i, value);
        true
    }

    /// Emits a load and extends its value to 64 bits.
    ///
    /// A load outside of the function's own frame may fault. The address of the machine instruction
    /// then tells which BPF instruction faulted, so the load must be a machine instruction of its
    /// own. The compiler merges a load into another instruction only if the load does not extend
    /// its value and no sequence point follows it.
    fn load_at(&mut self, base: Value, i: &Insn, signed: bool) -> Value {
        let address = self.host(base);
        let (memory, offset, wide) = (self.heap, i.off, types::I64);
        let ins = self.builder.ins();
        let value = match (insn::size(i.op), signed) {
            (1, false) => ins.uload8(wide, memory, address, offset),
            (1, true) => ins.sload8(wide, memory, address, offset),
            (2, false) => ins.uload16(wide, memory, address, offset),
            (2, true) => ins.sload16(wide, memory, address, offset),
            (4, false) => ins.uload32(memory, address, offset),
            (4, true) => ins.sload32(memory, address, offset),
            _ => ins.load(wide, memory, address, offset),
        };
        // Two loads of an arena must not become one, because each can access a gap.
        let whole = insn::size(i.op) == 8 || self.cx.arena != 0;
        if whole && self.in_frame(base, i).is_none() {
            self.builder.ins().sequence_point();
        }
        value
    }

    /// Stores the value of an instruction.
    ///
    /// A store outside of the function's own frame may fault. The compiler must therefore keep the
    /// store, even if it stores the value that was just loaded, or if the next store overwrites it.
    /// A sequence point after the store makes the compiler keep it. The sequence point also
    /// keeps the compiler from merging an extending load into the store.
    fn store_at(&mut self, base: Value, i: &Insn, value: Value) {
        let address = self.host(base);
        self.builder.ins().store(self.heap, value, address, i.off);
        if self.in_frame(base, i).is_none() {
            self.builder.ins().sequence_point();
        }
    }

    /// Returns the distance of an access from the frame pointer in bytes. Returns `None` if the
    /// distance is unknown or the access lies outside of the frame.
    pub fn in_frame(&self, base: Value, i: &Insn) -> Option<i64> {
        let base = self.builder.func.dfg.resolve_aliases(base);
        let far = self
            .known
            .inside
            .get(&base)
            .filter(|_| self.known.stack.contains(&base))?;
        let far = far + i64::from(i.off);
        (-(FRAME as i64) <= far && far + insn::size(i.op) as i64 <= 0).then_some(far)
    }

    /// Translates an atomic operation into plain loads and stores. They suffice because the
    /// simulated machine executes one CPU at a time.
    fn atomic(&mut self, pc: usize, i: &Insn) -> bool {
        if !insn::is_atomic(i) {
            return false;
        }
        let ty = int(i.op);
        let is_load = i.imm == atomic::LOAD_ACQUIRE;
        let base = self.get(if is_load { i.src } else { i.dst });
        self.check_atomic(pc, i, base, is_load);
        let base = match is_load {
            true => self.readable(pc, base, i.off),
            false => self.writable(pc, base, i),
        };
        self.touch(base, i.off, !is_load);
        let done = self.skip_gap(pc, base, i);
        self.atomic_access(base, i, ty, is_load);
        if let Some(done) = done {
            self.builder.ins().jump(done, &[]);
            self.enter_block(done);
        }
        true
    }

    /// Emits a test whether an atomic instruction accesses a page of the arena that is not
    /// allocated. If it does, the emitted code jumps to the returned block, which the caller must
    /// enter after the instruction. Returns `None` if the instruction cannot access the arena.
    fn skip_gap(&mut self, pc: usize, base: Value, i: &Insn) -> Option<ir::Block> {
        if self.cx.arena == 0 || self.cx.checks.is_some() || self.is_inside(base) {
            return None;
        }
        let (arena, next, done) = (
            self.cold_block(),
            self.builder.create_block(),
            self.builder.create_block(),
        );
        // All accesses with a base in the arena are tested, and none with a base outside of it.
        let first = self.cx.arena.cast_signed().wrapping_neg();
        let far = self.builder.ins().iadd_imm_s(base, first);
        let high = self.builder.ins().ushr_imm_u(far, 32);
        self.builder.ins().brif(high, next, &[], arena, &[]);
        self.enter_block(arena);
        let at = self.builder.ins().iconst(types::I32, pc as i64);
        self.store_field(at, offset_of!(Context, pc));
        let offset = self.builder.ins().iconst(types::I64, i64::from(i.off));
        let size = self.builder.ins().iconst(types::I64, insn::size(i.op) as i64);
        let gap = self.call_symbol(Runtime::AtomicGap, &[base, offset, size]);
        self.builder.ins().brif(gap, done, &[], next, &[]);
        self.enter_block(next);
        Some(done)
    }

    /// Emits the loads and stores of an atomic operation.
    fn atomic_access(&mut self, base: Value, i: &Insn, ty: Type, is_load: bool) {
        if i.imm == atomic::STORE_RELEASE {
            let value = self.get(i.src);
            let value = self.narrow(value, ty);
            self.store_at(base, i, value);
            return;
        }
        let loaded = self.load_at(base, i, false);
        if is_load {
            self.set(i.dst, loaded);
            return;
        }
        let old = self.narrow(loaded, ty);
        let operand = self.get(i.src);
        let operand = self.narrow(operand, ty);
        let new = match i.imm & !atomic::FETCH {
            atomic::ADD => self.builder.ins().iadd(old, operand),
            atomic::OR => self.builder.ins().bor(old, operand),
            atomic::AND => self.builder.ins().band(old, operand),
            atomic::XOR => self.builder.ins().bxor(old, operand),
            _ if i.imm == atomic::CMPXCHG => {
                let expected = self.get(0);
                let expected = self.narrow(expected, ty);
                let equal = self.builder.ins().icmp(IntCC::Equal, old, expected);
                self.builder.ins().select(equal, operand, old)
            }
            _ => operand,
        };
        self.store_at(base, i, new);
        if i.imm == atomic::CMPXCHG {
            self.set(0, loaded);
        } else if i.imm & atomic::FETCH != 0 {
            self.set(i.src, loaded);
        }
    }
}

/// Clears the bits of an immediate that its type does not have, because Cranelift rejects a
/// constant with such bits.
fn truncate(imm: i64, ty: Type) -> i64 {
    match ty {
        types::I8 => i64::from(imm as u8),
        types::I16 => i64::from(imm as u16),
        types::I32 => i64::from(imm as u32),
        _ => imm,
    }
}
