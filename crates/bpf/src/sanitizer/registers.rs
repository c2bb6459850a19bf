// SPDX-License-Identifier: GPL-2.0-only
//! Checks the registers that an instruction reads, before the instruction runs with the sanitizer.
//! [`flow`](super::flow) determines which instructions need such checks.
//!
//! A pointer that may be NULL has the bit UNTESTED in its provenance until the program compares it
//! with NULL. A number is variable if the kernel's verifier would not know its value, for example
//! because the number comes from memory.

use super::flow::{RegisterChecks, moves, tests};
use super::objects::{Objects, ViewKind};
use super::prov::{Origin, Prov, SCALAR, UNSET, UNTESTED};
use super::raise::{raise, sanitizer};
use super::report::finding;
use crate::engine::context::{Context, pending};
use crate::fault::Fault;
use crate::image::Insn;
use crate::insn;

/// Checks the registers that an instruction reads, before the instruction runs. Returns whether a
/// check has ended the program.
#[inline(always)]
pub(crate) unsafe fn before(cx: *mut Context, pc: usize, i: &Insn, p: &mut [u64; 11]) -> bool {
    let (dst, src) = (usize::from(i.dst), usize::from(i.src));
    // Reads the provenances now, because `check_registers` changes one of them if the instruction
    // adds a variable number to a pointer.
    let (own, other) = (p[dst], if i.op & insn::X != 0 { p[src] } else { SCALAR });
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe {
        let checks = sanitizer(cx).register_checks[pc];
        if checks != RegisterChecks::default() {
            check_registers(cx, pc, i, p, checks);
            if pending(cx) {
                return true;
            }
        }
        if (own | other) & UNTESTED == 0 {
            return false;
        }
        if moves(i) {
            for prov in [own, other] {
                move_untested(cx, pc as u64, prov, 0, 0, 0);
                if pending(cx) {
                    return true;
                }
            }
        } else if tests(i) {
            for register in [dst, src] {
                if p[register] & UNTESTED != 0 && (register == dst || i.op & insn::X != 0) {
                    test(cx, p[register], 0, 0, 0, 0);
                    p[register] &= !UNTESTED;
                }
            }
        }
    }
    false
}

#[cold]
unsafe fn check_registers(cx: *mut Context, pc: usize, i: &Insn, p: &mut [u64; 11], checks: RegisterChecks) {
    let (dst, src) = (usize::from(i.dst), usize::from(i.src));
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe {
        for register in checks.unset() {
            read(cx, pc as u64, register.into(), p[usize::from(register)], 0, 0);
            if pending(cx) {
                return;
            }
        }
        let (src_varies, dst_varies) = checks.varies();
        if src_varies && p[src] == SCALAR {
            p[dst] = vary(cx, p[dst], 0, 0, 0, 0);
        } else if dst_varies && p[dst] == SCALAR {
            // The sum gets the provenance of the pointer in `src`, which itself does not change.
            p[dst] = vary(cx, p[src], 0, 0, 0, 0);
        }
    }
}

/// Returns the fault for the read of a register without a value.
pub(super) fn unset(register: u8) -> Fault {
    let message = format!("r{register} is read but has no value");
    finding("uninitialised", &message, None, Vec::new())
}

impl Prov {
    /// Returns the provenance of the sum of this pointer and a variable number. For a pointer to a
    /// kernel object, it is [`Prov::VARIED`], because fields of kernel objects may be accessed only
    /// at constant offsets. A pointer that may be NULL keeps its provenance, because
    /// `move_untested` then reports the addition itself as an error.
    pub fn varied(self, objects: &Objects) -> Prov {
        if objects.is_untested(self) {
            return self;
        }
        let points_to_kernel_object = match self.origin() {
            Origin::Slab { .. } => true,
            Origin::View { slot, generation } => objects
                .view(slot, generation)
                .is_some_and(|view| matches!(view.kind, ViewKind::Kernel(_))),
            _ => false,
        };
        if points_to_kernel_object { Prov::VARIED } else { self }
    }
}

/// Checks an instruction that reads a register that may have no value. The arguments are the index
/// of the instruction, the register and the register's provenance.
pub(crate) unsafe extern "C" fn read(cx: *mut Context, pc: u64, register: u64, prov: u64, _: u64, _: u64) -> u64 {
    if prov != UNSET {
        return 0;
    }
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe {
        (*cx).pc = pc as u32;
        raise(cx, unset(register as u8))
    }
}

/// Checks arithmetic on a pointer that may be NULL. The arguments are the index of the instruction
/// and the pointer's provenance.
pub(crate) unsafe extern "C" fn move_untested(cx: *mut Context, pc: u64, prov: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe {
        let prov = Prov(prov);
        if !sanitizer(cx).objects.is_untested(prov) {
            return 0;
        }
        (*cx).pc = pc as u32;
        let fault = sanitizer(cx).untested(&*cx, "arithmetic on a pointer that may be NULL".to_string(), None, prov);
        raise(cx, fault)
    }
}

/// Records that the program compares a pointer that may be NULL with NULL or with another pointer.
pub(crate) unsafe extern "C" fn test(cx: *mut Context, prov: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe { sanitizer(cx).objects.record_tested(Prov(prov)) };
    0
}

/// Returns the provenance of the sum of a pointer, whose provenance is `prov`, and a variable
/// number.
pub(crate) unsafe extern "C" fn vary(cx: *mut Context, prov: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe { Prov(prov).varied(&sanitizer(cx).objects).0 }
}
