// SPDX-License-Identifier: GPL-2.0-only
//! Announces the accesses of a program whose calls overlap: before a load or store of memory that CPUs
//! share, other CPUs may execute. Tags say from which address the value of a register was loaded.

use super::super::context::Context;
use super::super::overlap::{Access, AccessKind};
use crate::image::Insn;
use crate::insn::{self, alu, atomic};
use crate::memory::SHIFT;

/// Reports that values that were loaded from these addresses influence the program.
#[inline(never)]
pub(super) unsafe fn used(cx: *mut Context, tags: &[u64]) {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        for &tag in tags.iter().filter(|tag| **tag != 0) {
            ((*cx).hooks.expect("calls overlap").decides)(cx, tag);
        }
    }
}

/// Returns the access that the instruction at `pc` makes to memory that CPUs share, or `None`.
pub(super) unsafe fn shared(cx: *mut Context, pc: usize, base: u64, kind: AccessKind) -> Option<Access> {
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
pub(super) unsafe fn announce(cx: *mut Context, left: i64, access: Option<Access>) {
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
pub(super) unsafe fn before(
    cx: *mut Context,
    pc: usize,
    left: i64,
    base: u64,
    kind: AccessKind,
    tags: [u64; 2],
) -> Option<Access> {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        let access = shared(cx, pc, base, kind);
        if tags[0] | tags[1] != 0 {
            used(cx, &tags);
        }
        announce(cx, left, access);
        access
    }
}

/// Reports the value of a shared access.
#[inline(never)]
pub(super) unsafe fn report(cx: *mut Context, access: Option<Access>, value: u64, derived: bool) {
    if let Some(access) = access {
        // SAFETY: `cx` is the context of the running program, see [`Entry`].
        unsafe { ((*cx).hooks.expect("calls overlap").accessed)(cx, access, value, derived) };
    }
}

/// Returns the kind of an atomic instruction.
pub(super) fn atomic_kind(i: &Insn) -> AccessKind {
    match i.imm {
        atomic::LOAD_ACQUIRE => AccessKind::Acquire,
        atomic::STORE_RELEASE => AccessKind::Release,
        _ if i.imm & atomic::FETCH != 0 => AccessKind::Atomic,
        _ => AccessKind::AtomicUnordered,
    }
}

/// Returns the address from which the result of an operation was loaded, if its operands were
/// loaded from `dst` and `src`. If they come from two addresses, reports that the second one
/// influences the program.
#[inline(always)]
pub(super) unsafe fn tag(cx: *mut Context, i: &Insn, dst: u64, src: u64) -> u64 {
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
