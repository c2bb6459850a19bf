// SPDX-License-Identifier: GPL-2.0-only
//! Loads, stores and atomic instructions.

use super::super::context::{self, Context, pending};
use super::super::raise;
use crate::cache::lines::line_address;
use crate::image::Insn;
use crate::insn::{self, atomic};
use crate::memory::{NULL_LIMIT, OWN_SHIFT, SHIFT};

/// The way in which a load or store continues.
pub(super) enum Place {
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
pub(super) unsafe fn access(cx: *mut Context, pc: usize, base: u64, offset: i32, is_load: bool) -> Place {
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
                Context::count_gap(cx, pc, addr);
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
pub(super) unsafe fn load(addr: u64, op: u8) -> u64 {
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
pub(super) unsafe fn load_signed(addr: u64, op: u8) -> u64 {
    // SAFETY: the caller meets the conditions of `load`.
    let value = unsafe { load(addr, op) };
    match op & 0x18 {
        insn::W => i64::from(value as i32) as u64,
        insn::H => i64::from(value as i16) as u64,
        _ => i64::from(value as i8) as u64,
    }
}

#[inline(always)]
pub(super) unsafe fn store(addr: u64, op: u8, value: u64) {
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
pub(super) unsafe fn rmw(i: &Insn, addr: u64, old: u64, r: &mut [u64; 11]) {
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
