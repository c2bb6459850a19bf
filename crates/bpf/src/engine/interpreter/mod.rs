// SPDX-License-Identifier: GPL-2.0-only
//! The interpreter: a simple implementation of the BPF instruction set. Tests compare the JIT with
//! it.
//!
//! The interpreter's frames own nothing, so a fault may skip these frames without leaks.
//!
//! The kernel rejects a program that reads a register without a value. The simulator has no
//! verifier, so such a read must yield the same value in both engines. Like the JIT, the
//! interpreter therefore clears r1 to r5 after each call, and all registers except the arguments at
//! the start of a function.

mod announce;
mod arithmetic;
mod memory;

use super::context::{ANY, Context, Entry, pending};
use super::counting;
use super::overlap::{Access, AccessKind, NOT_TAKEN, TAKEN};
use super::raise;
use crate::image::{CALL, CALL_FUNCTION, Insn, LD_IMM64};
use crate::insn::{self, FRAME, alu, atomic, class};
use crate::sanitizer;
use announce::{announce, atomic_kind, before, report, tag, used};
use arithmetic::{alu32, alu64, jump};
use memory::{Place, access, load, load_signed, rmw, store};

/// Runs function `cx.function`. Has the signature of an [`Entry`].
pub(crate) unsafe extern "C" fn run(cx: *mut Context, r1: u64, r2: u64, r3: u64, r4: u64, r5: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        (*cx).interpreting = true;
        function::<false, false, false>(cx, (*cx).function, [r1, r2, r3, r4, r5])
    }
}

/// Like [`run`], with the sanitizer. The provenances (the objects to which values point) of the
/// arguments and of the result are in `cx.arg_prov`.
pub(crate) unsafe extern "C" fn run_sanitized(cx: *mut Context, r1: u64, r2: u64, r3: u64, r4: u64, r5: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        (*cx).interpreting = true;
        function::<true, false, false>(cx, (*cx).function, [r1, r2, r3, r4, r5])
    }
}

/// Like [`run`], for a program whose calls overlap.
pub(crate) unsafe extern "C" fn run_overlapped(cx: *mut Context, r1: u64, r2: u64, r3: u64, r4: u64, r5: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        (*cx).interpreting = true;
        (*cx).arg_tags = [0; 6];
        let r0 = function::<false, true, false>(cx, (*cx).function, [r1, r2, r3, r4, r5]);
        if !pending(cx) {
            used(cx, &[(*cx).arg_tags[0]]);
        }
        r0
    }
}

/// Like [`run`], for a program whose instructions are counted.
pub(crate) unsafe extern "C" fn run_counted(cx: *mut Context, r1: u64, r2: u64, r3: u64, r4: u64, r5: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        (*cx).interpreting = true;
        counting::begin(cx);
        function::<false, false, true>(cx, (*cx).function, [r1, r2, r3, r4, r5])
    }
}

unsafe fn function<const SANITIZE: bool, const OVERLAP: bool, const COUNT: bool>(
    cx: *mut Context,
    index: usize,
    args: [u64; 5],
) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        let code = &raw const (*cx).code;
        let insns: *const Insn = (*code).insns.as_ptr();
        let start = (&(*code).functions)[index].start;
        let fp = (*cx).fp;
        if (&(*cx).nests)[index] && fp - FRAME < (*cx).stack_limit {
            return stop(cx, start, raise::stack_overflow);
        }
        (*cx).fp = fp - FRAME;
        let mut r = [0, args[0], args[1], args[2], args[3], args[4], 0, 0, 0, 0, fp];
        let mut p = [sanitizer::UNSET; 11];
        if SANITIZE {
            p[1..6].copy_from_slice(&(&(*cx).arg_prov)[1..6]);
            p[10] = sanitizer::frame() + fp - (*cx).stack_range().0;
        }
        // Addresses from which the values of the registers were loaded, or 0.
        let mut t = [0; 11];
        if OVERLAP {
            t[1..6].copy_from_slice(&(&(*cx).arg_tags)[1..6]);
        }
        let (path, counts) = match COUNT {
            true => counting::enter(cx, index),
            false => (0, std::ptr::null_mut()),
        };
        let mut pc = start;
        let mut left = (*cx).left;
        let mut loops = insn::MAX_LOOPS;
        loop {
            let i = *insns.add(pc);
            let (dst, src) = (usize::from(i.dst), usize::from(i.src));
            left -= 1;
            if COUNT {
                *counts.add(pc - start) += 1;
            }
            if SANITIZE && sanitizer::before(cx, pc, &i, &mut p) {
                return 0;
            }
            match class(i.op) {
                insn::ALU64 => {
                    let operand = if i.op & insn::X != 0 { r[src] } else { i.imm as u64 };
                    if SANITIZE {
                        p[dst] = provenance(&i, p[dst], p[src]);
                    }
                    if OVERLAP {
                        t[dst] = tag(cx, &i, t[dst], t[src]);
                    }
                    match alu64(cx, &i, r[dst], operand) {
                        Some(value) => r[dst] = value,
                        None => return stop_at(cx, pc, left, raise::trap),
                    }
                }
                insn::ALU => {
                    let operand = if i.op & insn::X != 0 { r[src] } else { i.imm as u64 };
                    if SANITIZE {
                        p[dst] = sanitizer::SCALAR;
                    }
                    if OVERLAP {
                        t[dst] = tag(cx, &i, t[dst], t[src]);
                    }
                    match alu32(&i, r[dst], operand) {
                        Some(value) => r[dst] = value,
                        None => return stop_at(cx, pc, left, raise::trap),
                    }
                }
                insn::LD if i.op == LD_IMM64 => {
                    r[dst] = i.imm as u64;
                    if OVERLAP {
                        t[dst] = 0;
                    }
                    if SANITIZE {
                        p[dst] = constant(cx, r[dst]);
                    }
                }
                insn::LDX => {
                    if SANITIZE {
                        p[dst] = check_load(cx, pc, r[src], &i, p[src]);
                        if pending(cx) {
                            return 0;
                        }
                    }
                    let signed = match i.op & !0x18 {
                        op if op == insn::LDX | insn::MEM => false,
                        op if op == insn::LDX | insn::MEMSX && i.op & 0x18 != insn::DW => true,
                        _ => return stop_at(cx, pc, left, raise::trap),
                    };
                    let seen = if OVERLAP {
                        before(cx, pc, left, r[src], AccessKind::Load, [t[src], 0])
                    } else {
                        None
                    };
                    if COUNT {
                        counting::accesses(cx, Some(r[src].wrapping_add(i64::from(i.off) as u64)));
                    }
                    r[dst] = match access(cx, pc, r[src], i.off, true) {
                        Place::At(addr) if signed => load_signed(addr, i.op),
                        Place::At(addr) => load(addr, i.op),
                        Place::Gap => 0,
                        Place::Fault => return 0,
                    };
                    if OVERLAP {
                        report(cx, seen, r[dst], false);
                        t[dst] = seen.map_or(0, |seen| seen.addr);
                    }
                }
                insn::ST if i.op & !0x18 == insn::ST | insn::MEM => {
                    if SANITIZE {
                        check_store(cx, pc, r[dst], &i, p[dst], (i.imm as u64, sanitizer::SCALAR));
                        if pending(cx) {
                            return 0;
                        }
                    }
                    let seen = if OVERLAP {
                        before(cx, pc, left, r[dst], AccessKind::Store, [t[dst], 0])
                    } else {
                        None
                    };
                    if COUNT {
                        counting::accesses(cx, Some(r[dst].wrapping_add(i64::from(i.off) as u64)));
                    }
                    match access(cx, pc, r[dst], i.off, false) {
                        Place::At(addr) => store(addr, i.op, i.imm as u64),
                        Place::Gap => {}
                        Place::Fault => return 0,
                    }
                    if OVERLAP {
                        report(cx, seen, i.imm as u64, false);
                    }
                }
                insn::STX if i.op & !0x18 == insn::STX | insn::MEM => {
                    if SANITIZE {
                        check_store(cx, pc, r[dst], &i, p[dst], (r[src], p[src]));
                        if pending(cx) {
                            return 0;
                        }
                    }
                    let seen = if OVERLAP {
                        before(cx, pc, left, r[dst], AccessKind::Store, [t[dst], 0])
                    } else {
                        None
                    };
                    if COUNT {
                        counting::accesses(cx, Some(r[dst].wrapping_add(i64::from(i.off) as u64)));
                    }
                    match access(cx, pc, r[dst], i.off, false) {
                        Place::At(addr) => store(addr, i.op, r[src]),
                        Place::Gap => {}
                        Place::Fault => return 0,
                    }
                    if OVERLAP {
                        let derived = seen.is_some_and(|seen| seen.addr == t[src]);
                        report(cx, seen, r[src], derived);
                        if !derived && t[src] != 0 {
                            used(cx, &[t[src]]);
                        }
                    }
                }
                insn::STX if i.op & !0x18 == insn::STX | insn::ATOMIC => {
                    if !insn::is_atomic(&i) {
                        return stop_at(cx, pc, left, raise::trap);
                    }
                    if SANITIZE {
                        if i.imm == atomic::LOAD_ACQUIRE {
                            p[dst] = check_load(cx, pc, r[src], &i, p[src]);
                        } else {
                            let value_prov = if i.imm == atomic::STORE_RELEASE {
                                p[src]
                            } else {
                                sanitizer::SCALAR
                            };
                            check_store(cx, pc, r[dst], &i, p[dst], (r[src], value_prov));
                            if i.imm == atomic::CMPXCHG {
                                p[0] = sanitizer::SCALAR;
                            } else if i.imm & atomic::FETCH != 0 && i.imm != atomic::STORE_RELEASE {
                                p[src] = sanitizer::SCALAR;
                            }
                        }
                        if pending(cx) {
                            return 0;
                        }
                    }
                    let is_load = i.imm == atomic::LOAD_ACQUIRE;
                    let base = r[if is_load { src } else { dst }];
                    let seen = if OVERLAP {
                        before(cx, pc, left, base, atomic_kind(&i), [t[dst], t[src]])
                    } else {
                        None
                    };
                    if COUNT {
                        counting::accesses(cx, Some(base.wrapping_add(i64::from(i.off) as u64)));
                    }
                    match access(cx, pc, base, i.off, is_load) {
                        Place::At(addr) if is_load => r[dst] = load(addr, i.op),
                        Place::At(addr) => rmw(&i, addr, load(addr, i.op), &mut r),
                        Place::Gap => {}
                        Place::Fault => return 0,
                    }
                    if OVERLAP {
                        let value = match access(cx, pc, base, i.off, true) {
                            Place::At(addr) => load(addr, i.op),
                            _ => 0,
                        };
                        report(cx, seen, value, false);
                        if is_load {
                            t[dst] = 0;
                        } else if i.imm == atomic::CMPXCHG {
                            t[0] = 0;
                        } else if i.imm & atomic::FETCH != 0 {
                            t[src] = 0;
                        }
                    }
                }
                _ if i.op == CALL && i.src == CALL_FUNCTION => {
                    if left < 0 {
                        return stop_at(cx, pc, left, raise::over_budget);
                    }
                    (*cx).left = left;
                    if SANITIZE {
                        (*cx).arg_prov = std::array::from_fn(|n| p[n]);
                        sanitizer::call_function(cx, pc as u64, 0, 0, 0, 0);
                        if pending(cx) {
                            return 0;
                        }
                    }
                    if OVERLAP {
                        (*cx).arg_tags = std::array::from_fn(|n| t[n]);
                    }
                    r[0] = function::<SANITIZE, OVERLAP, COUNT>(cx, i.imm as usize, [r[1], r[2], r[3], r[4], r[5]]);
                    left = (*cx).left;
                    r[1..6].fill(0);
                    if COUNT {
                        counting::resume(cx, path);
                    }
                    if OVERLAP {
                        t[0] = (*cx).arg_tags[0];
                        t[1..6].fill(0);
                    }
                    if pending(cx) {
                        return 0;
                    }
                    if SANITIZE {
                        sanitizer::returned(cx, 0, 0, 0, 0, 0);
                        p[0] = (*cx).arg_prov[0];
                        p[1..6].fill(sanitizer::UNSET);
                    }
                }
                _ if i.op == CALL => {
                    if OVERLAP {
                        let args = (*cx).target(&i).map_or(0, |target| usize::from(target.args));
                        used(cx, &(&t)[1..=args]);
                        let (kind, addr) = (AccessKind::Call, r[1]);
                        announce(
                            cx,
                            left,
                            Some(Access {
                                pc,
                                kind,
                                addr,
                                size: 0,
                            }),
                        );
                    }
                    (*cx).pc = pc as u32;
                    (*cx).left = left;
                    // If the call is not allowed in this context, the entry point raises the fault.
                    let mut allowed = false;
                    let entry: Entry = match (*cx).target(&i) {
                        None => raise::missing,
                        Some(target) if target.contexts & (*cx).contexts == 0 && target.contexts != ANY => {
                            raise::not_allowed
                        }
                        Some(target) => {
                            (*cx).cost += u64::from(target.cost);
                            allowed = true;
                            target.entry
                        }
                    };
                    (*cx).interpreting = false;
                    if SANITIZE && allowed {
                        (*cx).arg_prov = std::array::from_fn(|n| p[n]);
                        sanitizer::before_call(cx, r[1], r[2], r[3], r[4], r[5]);
                        if pending(cx) {
                            return 0;
                        }
                    }
                    if COUNT {
                        counting::accesses(cx, None);
                    }
                    r[0] = entry(cx, r[1], r[2], r[3], r[4], r[5]);
                    (*cx).interpreting = true;
                    if COUNT {
                        counting::resume(cx, path);
                    }
                    left = (*cx).left;
                    r[1..6].fill(0);
                    if OVERLAP {
                        t[..6].fill(0);
                    }
                    if pending(cx) {
                        return 0;
                    }
                    if SANITIZE {
                        (*cx).pc = pc as u32;
                        p[0] = sanitizer::after_call(cx, r[0], 0, 0, 0, 0);
                        left = (*cx).left;
                        p[1..6].fill(sanitizer::UNSET);
                    }
                }
                _ if i.op == insn::EXIT => {
                    (*cx).left = left;
                    (*cx).fp = fp;
                    if SANITIZE {
                        (*cx).arg_prov[0] = p[0];
                    }
                    if OVERLAP {
                        (*cx).arg_tags[0] = t[0];
                    }
                    if COUNT {
                        counting::accesses(cx, None);
                    }
                    return r[0];
                }
                _ if insn::is_jump(i.op) => {
                    let taken = if i.op == insn::MAY_GOTO {
                        let over = loops == 0;
                        loops = loops.saturating_sub(1);
                        over
                    } else {
                        let operand = if i.op & insn::X != 0 { r[src] } else { i.imm as u64 };
                        if OVERLAP {
                            let tags = [t[dst], if i.op & insn::X != 0 { t[src] } else { 0 }];
                            if tags[0] | tags[1] != 0 {
                                used(cx, &tags);
                            }
                        }
                        jump(i.op, r[dst], operand)
                    };
                    if OVERLAP {
                        (&mut (*cx).branches)[pc] |= if taken { TAKEN } else { NOT_TAKEN };
                    }
                    if taken {
                        if i.off < 0 && left < 0 {
                            return stop_at(cx, pc, left, raise::over_budget);
                        }
                        pc = (pc as i64 + i64::from(i.off)) as usize;
                    }
                }
                _ => return stop_at(cx, pc, left, raise::trap),
            }
            pc += 1;
        }
    }
}

/// Returns the provenance of the result of a 64-bit operation, whose operands have the provenances
/// `dst` and `src`. A move, or the addition of a number to a pointer, keeps the provenance of the
/// pointer.
#[inline(always)]
fn provenance(i: &Insn, dst: u64, src: u64) -> u64 {
    let register = i.op & insn::X != 0;
    match i.op & 0xf0 {
        alu::MOV if register && i.off == 0 => src,
        alu::ADD if register && dst == sanitizer::SCALAR => src,
        alu::ADD => dst,
        alu::SUB if register && src != sanitizer::SCALAR => sanitizer::SCALAR,
        alu::SUB => dst,
        _ => sanitizer::SCALAR,
    }
}

/// Returns the provenance of a constant that an instruction contains.
#[inline(never)]
unsafe fn constant(cx: *mut Context, value: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        let cx = &*cx;
        let known = cx
            .sanitizer
            .as_ref()
            .map(|sanitizer| sanitizer.constant(cx.region(), value));
        known.unwrap_or(sanitizer::SCALAR)
    }
}

#[inline(never)]
unsafe fn check_load(cx: *mut Context, pc: usize, base: u64, i: &Insn, prov: u64) -> u64 {
    let meta = sanitizer::meta(pc, i);
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe { sanitizer::load(cx, base, meta, prov, 0, 0) }
}

#[inline(never)]
unsafe fn check_store(cx: *mut Context, pc: usize, base: u64, i: &Insn, prov: u64, (value, value_prov): (u64, u64)) {
    let meta = sanitizer::meta(pc, i);
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe { sanitizer::store(cx, base, meta, prov, value, value_prov) };
}

/// Raises the fault `why` at `pc`. Instructions since the last call do not count as executed.
#[cold]
unsafe fn stop(cx: *mut Context, pc: usize, why: Entry) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        (*cx).pc = pc as u32;
        why(cx, 0, 0, 0, 0, 0)
    }
}

/// Raises the fault `why` at `pc`. The instruction at `pc` counts as executed.
#[cold]
unsafe fn stop_at(cx: *mut Context, pc: usize, left: i64, why: Entry) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        (*cx).left = left;
        stop(cx, pc, why)
    }
}
