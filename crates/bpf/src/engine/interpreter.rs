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

use super::context::{self, ANY, Context, Entry, pending};
use super::overlap::{Access, AccessKind, NOT_TAKEN, TAKEN};
use super::raise;
use crate::cache::lines::line_address;
use crate::image::{CALL, CALL_FUNCTION, Insn, LD_IMM64};
use crate::insn::{self, FRAME, alu, atomic, class, jmp};
use crate::memory::{NULL_LIMIT, OWN_SHIFT, SHIFT};
use crate::sanitizer;

/// Runs function `cx.function`. Has the signature of an [`Entry`].
pub(crate) unsafe extern "C" fn run(cx: *mut Context, r1: u64, r2: u64, r3: u64, r4: u64, r5: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        (*cx).interpreting = true;
        function::<false, false>(cx, (*cx).function, [r1, r2, r3, r4, r5])
    }
}

/// Like [`run`], with the sanitizer. The provenances (the objects to which values point) of the
/// arguments and of the result are in `cx.arg_prov`.
pub(crate) unsafe extern "C" fn run_sanitized(cx: *mut Context, r1: u64, r2: u64, r3: u64, r4: u64, r5: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        (*cx).interpreting = true;
        function::<true, false>(cx, (*cx).function, [r1, r2, r3, r4, r5])
    }
}

/// Like [`run`], for a program whose calls overlap.
pub(crate) unsafe extern "C" fn run_overlapped(cx: *mut Context, r1: u64, r2: u64, r3: u64, r4: u64, r5: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        (*cx).interpreting = true;
        (*cx).arg_tags = [0; 6];
        let r0 = function::<false, true>(cx, (*cx).function, [r1, r2, r3, r4, r5]);
        if !pending(cx) {
            used(cx, &[(*cx).arg_tags[0]]);
        }
        r0
    }
}

/// Reports that values that were loaded from these addresses influence the program.
#[inline(never)]
unsafe fn used(cx: *mut Context, tags: &[u64]) {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        for &tag in tags.iter().filter(|tag| **tag != 0) {
            ((*cx).hooks.expect("calls overlap").decides)(cx, tag);
        }
    }
}

/// Returns the access that the instruction at `pc` makes to memory that CPUs share, or `None`.
unsafe fn shared(cx: *mut Context, pc: usize, base: u64, kind: AccessKind) -> Option<Access> {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        let i = &(&(*cx).code.insns)[pc];
        let addr = base.wrapping_add(i64::from(i.off) as u64);
        let (stack, end) = (*cx).stack_range();
        let size = insn::size(i.op) as u8;
        let is_shared = base >> SHIFT == (*cx).base >> SHIFT && !(stack..end).contains(&addr);
        is_shared.then_some(Access { pc, kind, addr, size })
    }
}

/// Announces a shared access or a call. Other CPUs may execute before this function returns.
#[inline(never)]
unsafe fn announce(cx: *mut Context, left: i64, access: Option<Access>) {
    if let Some(access) = access {
        // SAFETY: `cx` is the context of the running program, see [`Entry`].
        unsafe {
            (*cx).left = left;
            (*cx).pc = access.pc as u32;
            ((*cx).hooks.expect("calls overlap").before)(cx, access);
        }
    }
}

/// Reports the values on which an access depends. If the access is to memory that CPUs share,
/// announces it and returns it.
unsafe fn before(cx: *mut Context, pc: usize, left: i64, base: u64, kind: AccessKind, tags: &[u64]) -> Option<Access> {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        let access = shared(cx, pc, base, kind);
        used(cx, tags);
        announce(cx, left, access);
        access
    }
}

/// Reports the value of a shared access.
#[inline(never)]
unsafe fn report(cx: *mut Context, access: Option<Access>, value: u64, derived: bool) {
    if let Some(access) = access {
        // SAFETY: `cx` is the context of the running program, see [`Entry`].
        unsafe { ((*cx).hooks.expect("calls overlap").accessed)(cx, access, value, derived) };
    }
}

/// Returns the kind of an atomic instruction.
fn atomic_kind(i: &Insn) -> AccessKind {
    match i.imm {
        atomic::LOAD_ACQUIRE => AccessKind::Acquire,
        atomic::STORE_RELEASE => AccessKind::Release,
        _ if i.imm & atomic::FETCH != 0 => AccessKind::Atomic,
        _ => AccessKind::AtomicUnordered,
    }
}

unsafe fn function<const SANITIZE: bool, const OVERLAP: bool>(cx: *mut Context, index: usize, args: [u64; 5]) -> u64 {
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
        let mut pc = start;
        let mut left = (*cx).left;
        let mut loops = insn::MAX_LOOPS;
        loop {
            let i = *insns.add(pc);
            let (dst, src) = (usize::from(i.dst), usize::from(i.src));
            left -= 1;
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
                        before(cx, pc, left, r[src], AccessKind::Load, &[t[src]])
                    } else {
                        None
                    };
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
                        before(cx, pc, left, r[dst], AccessKind::Store, &[t[dst]])
                    } else {
                        None
                    };
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
                        before(cx, pc, left, r[dst], AccessKind::Store, &[t[dst]])
                    } else {
                        None
                    };
                    match access(cx, pc, r[dst], i.off, false) {
                        Place::At(addr) => store(addr, i.op, r[src]),
                        Place::Gap => {}
                        Place::Fault => return 0,
                    }
                    if OVERLAP {
                        let derived = seen.is_some_and(|seen| seen.addr == t[src]);
                        report(cx, seen, r[src], derived);
                        if !derived {
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
                        before(cx, pc, left, base, atomic_kind(&i), &[t[dst], t[src]])
                    } else {
                        None
                    };
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
                    r[0] = function::<SANITIZE, OVERLAP>(cx, i.imm as usize, [r[1], r[2], r[3], r[4], r[5]]);
                    left = (*cx).left;
                    r[1..6].fill(0);
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
                    r[0] = entry(cx, r[1], r[2], r[3], r[4], r[5]);
                    (*cx).interpreting = true;
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
                            used(cx, &[t[dst], if i.op & insn::X != 0 { t[src] } else { 0 }]);
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

/// Returns the address from which the result of an operation was loaded, if its operands were
/// loaded from `dst` and `src`. If they come from two addresses, reports that the second one
/// influences the program.
#[inline(always)]
unsafe fn tag(cx: *mut Context, i: &Insn, dst: u64, src: u64) -> u64 {
    let src = if i.op & insn::X != 0 { src } else { 0 };
    match i.op & 0xf0 {
        alu::MOV => src,
        _ if dst == 0 => src,
        _ => {
            if src != 0 && src != dst {
                // SAFETY: `cx` is the context of the running program, see [`Entry`].
                unsafe { used(cx, &[src]) };
            }
            dst
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

/// The way in which a load or store continues.
enum Place {
    /// The memory has this address on the host.
    At(u64),
    /// The memory is a page of the arena that is not allocated.
    Gap,
    /// The access has ended the program.
    Fault,
}

/// Checks the address of a load or store. An access to a hole in the region raises a signal. A load
/// through NULL reads zeros.
#[inline(always)]
unsafe fn access(cx: *mut Context, pc: usize, base: u64, offset: i32, is_load: bool) -> Place {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        (*cx).pc = pc as u32;
        let line = line_address(base, offset);
        let offset = i64::from(offset) as u64;
        if base >> SHIFT == (*cx).base >> SHIFT {
            let addr = base.wrapping_add(offset);
            if !is_load && base >> OWN_SHIFT != (*cx).base >> OWN_SHIFT {
                raise::foreign_store(cx, base, 0, 0, 0, 0);
                if pending(cx) {
                    return Place::Fault;
                }
            }
            let size = insn::size((&(*cx).code.insns)[pc].op);
            let is_gap = (*cx).is_gap(addr, size);
            #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
            if !is_gap && (*cx).region().check(addr, size, !is_load).is_err() {
                raise::bad_access(cx, base, offset, 0, 0, 0);
                return Place::Fault;
            }
            match is_load {
                true => context::load_line(cx, line, 0, 0, 0, 0),
                false => context::store_line(cx, line, 0, 0, 0, 0),
            };
            if is_gap {
                (*cx).count_gap(pc, addr);
                return Place::Gap;
            }
            return Place::At(addr.wrapping_add((*cx).delta));
        }
        if is_load && base < NULL_LIMIT {
            return Place::At((*cx).zeros.wrapping_add(offset).wrapping_add((*cx).delta));
        }
        raise::bad_access(cx, base, offset, 0, 0, 0);
        Place::Fault
    }
}

#[inline(always)]
unsafe fn load(addr: u64, op: u8) -> u64 {
    // SAFETY: `access` has checked the address, or the access raises a signal that `enter` handles.
    unsafe {
        match op & 0x18 {
            insn::W => u64::from((addr as *const u32).read_unaligned()),
            insn::H => u64::from((addr as *const u16).read_unaligned()),
            insn::B => u64::from((addr as *const u8).read()),
            _ => (addr as *const u64).read_unaligned(),
        }
    }
}

#[inline(always)]
unsafe fn load_signed(addr: u64, op: u8) -> u64 {
    // SAFETY: the caller meets the conditions of `load`.
    let value = unsafe { load(addr, op) };
    match op & 0x18 {
        insn::W => i64::from(value as i32) as u64,
        insn::H => i64::from(value as i16) as u64,
        _ => i64::from(value as i8) as u64,
    }
}

#[inline(always)]
unsafe fn store(addr: u64, op: u8, value: u64) {
    // SAFETY: as in `load`.
    unsafe {
        match op & 0x18 {
            insn::W => (addr as *mut u32).write_unaligned(value as u32),
            insn::H => (addr as *mut u16).write_unaligned(value as u16),
            insn::B => (addr as *mut u8).write(value as u8),
            _ => (addr as *mut u64).write_unaligned(value),
        }
    }
}

/// Performs an atomic read-modify-write. Plain accesses suffice because the simulated machine
/// executes one CPU at a time.
unsafe fn rmw(i: &Insn, addr: u64, old: u64, r: &mut [u64; 11]) {
    let src = usize::from(i.src);
    let operand = r[src];
    let truncate = |value: u64| {
        if insn::size(i.op) == 4 {
            u64::from(value as u32)
        } else {
            value
        }
    };
    let new = match i.imm & !atomic::FETCH {
        atomic::ADD => old.wrapping_add(operand),
        atomic::OR => old | operand,
        atomic::AND => old & operand,
        atomic::XOR => old ^ operand,
        _ if i.imm == atomic::CMPXCHG => {
            let new = if truncate(r[0]) == old { operand } else { old };
            r[0] = old;
            // SAFETY: the caller meets the conditions of `store`.
            unsafe { store(addr, i.op, new) };
            return;
        }
        // XCHG and STORE_RELEASE store the operand.
        _ => operand,
    };
    // SAFETY: the caller meets the conditions of `store`.
    unsafe { store(addr, i.op, new) };
    if i.imm != atomic::STORE_RELEASE && i.imm & atomic::FETCH != 0 {
        r[src] = old;
    }
}

#[inline(always)]
fn jump(op: u8, a: u64, b: u64) -> bool {
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
unsafe fn alu64(cx: *mut Context, i: &Insn, a: u64, b: u64) -> Option<u64> {
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
fn alu32(i: &Insn, a: u64, b: u64) -> Option<u64> {
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
