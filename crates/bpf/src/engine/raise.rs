// SPDX-License-Identifier: GPL-2.0-only
//! Raises the faults that end a running program. Also finds the instruction at which a fault
//! happened.

use super::context::{Context, Hardware};
use super::enter;
use crate::fault::{Fault, FaultKind};
use crate::helper::names;
use crate::image::{CALL_KFUNC, Insn, TRAP};
use crate::insn;
use crate::memory::{ARENA_SIZE, NULL_LIMIT, PAGE, REACH};
use crate::sanitizer::report::add_report;

/// Returns the fault that ended the last call. This is the fault that [`raise`] stored or, after a
/// bad access, one built from the address that the signal handler recorded.
#[cold]
pub(super) unsafe fn take_fault(cx: *mut Context) -> Fault {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    if let Some(fault) = unsafe { (*cx).fault.take() } {
        return fault;
    }
    // SAFETY: as above.
    let cx = unsafe { &*cx };
    let Hardware { addr, ip } = cx.hardware;
    let addr = addr.wrapping_sub(cx.delta);
    let pc = match ip {
        0 => cx.pc as usize,
        _ => cx.access_by(ip),
    };
    access_fault(cx, pc, addr)
}

/// Describes a bad access: through NULL, to an unallocated page of the arena, or elsewhere.
#[cold]
pub(crate) fn access_fault(cx: &Context, pc: usize, addr: u64) -> Fault {
    let insn = &cx.code.insns[pc];
    let access = if insn::class(insn.op) == insn::LDX {
        "load"
    } else {
        "store"
    };
    let zeros = addr.wrapping_sub(cx.zeros - REACH) < 2 * REACH;
    let message = if addr < NULL_LIMIT || zeros {
        format!("{access} through a NULL pointer")
    } else if cx.arena != 0 && addr.wrapping_sub(cx.arena) < ARENA_SIZE {
        format!(
            "{access} at {addr:#x}: page {} of the arena is not allocated",
            (addr - cx.arena) / PAGE
        )
    } else {
        format!("{access} at a bad address: {addr:#x}")
    };
    Fault::new(FaultKind::Memory, message).at(pc)
}

impl Context {
    /// Returns the BPF load or store for which the JIT emitted the machine instruction at `ip`.
    fn access_by(&self, ip: u64) -> usize {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if let Some(compiled) = &self.compiled {
            let pc = compiled.pc(ip);
            debug_assert!(pc.is_some(), "the machine instruction belongs to no BPF instruction");
            return pc.unwrap_or(self.pc as usize);
        }
        let _ = ip;
        self.pc as usize
    }

    /// Returns the name of the function that a call instruction calls.
    fn target_name(&self, insn: &Insn) -> String {
        if insn.src == CALL_KFUNC {
            format!("kfunc {}", self.code.kfuncs[insn.imm as usize])
        } else {
            format!("helper {}", names::name(insn.imm as u32))
        }
    }
}

/// Ends the running code with a fault. On hosts with a JIT, this function unwinds the stack and
/// does not return. On other hosts it returns, and the interpreter, which called it, then tests
/// `cx.fault`.
///
/// # Safety
/// The caller must meet the conditions of [`enter::leave`].
#[cold]
pub(crate) unsafe fn raise(cx: *mut Context, fault: Fault) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        let pc = (*cx).pc as usize;
        (*cx).fault = Some(add_report(&*cx, fault.at(pc)));
        enter::leave(cx)
    }
}

/// Returns the name of the function that the running instruction calls.
unsafe fn called(cx: *mut Context) -> String {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe { (*cx).target_name(&(&(*cx).code.insns)[(*cx).pc as usize]) }
}

// Compiled and interpreted code calls the functions below when it cannot continue. All of them have
// the signature of a BPF function and expect `cx.pc` to be set. `raise` skips their frames, so no
// value with a destructor may be alive when they call it.

/// Raises the fault of a call to a function that the simulator does not have.
pub(crate) unsafe extern "C" fn missing(cx: *mut Context, _: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        let fault = Fault::new(FaultKind::Trap, format!("{} is not modelled", called(cx)));
        raise(cx, fault)
    }
}

/// Raises the fault of a call that the current context does not allow.
pub(crate) unsafe extern "C" fn not_allowed(cx: *mut Context, _: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        let message = format!("{} cannot be called from the current operation", called(cx));
        raise(cx, Fault::new(FaultKind::NotAllowed, message))
    }
}

/// Raises the fault of an instruction that cannot be executed. It is either a trap, which the
/// linker inserted for a reference that it could not resolve, or an instruction that the simulator
/// does not have.
pub(crate) unsafe extern "C" fn trap(cx: *mut Context, _: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        let insn = (&(*cx).code.insns)[(*cx).pc as usize];
        let message = match insn.op {
            TRAP => (&(*cx).code.traps)[insn.imm as usize].to_string(),
            op => format!("instruction {op:#04x} is not modelled"),
        };
        raise(cx, Fault::new(FaultKind::Trap, message))
    }
}

/// Raises the fault of a program that has used up its budget of instructions.
pub(crate) unsafe extern "C" fn over_budget(cx: *mut Context, _: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe { raise(cx, (*cx).over_budget()) }
}

/// Raises the fault of a call whose frame does not fit on the BPF stack.
pub(crate) unsafe extern "C" fn stack_overflow(cx: *mut Context, _: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        raise(
            cx,
            Fault::new(FaultKind::Stack, "BPF stack overflow: calls are nested too deeply"),
        )
    }
}

/// Checks a store to `base + offset` that possibly hits a field of a kernel object. Returns
/// normally if programs are allowed to write that field. Raises a fault otherwise.
pub(crate) unsafe extern "C" fn field_store(
    cx: *mut Context,
    base: u64,
    offset: u64,
    size: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        match (*cx).region().may_store(base.wrapping_add(offset), size) {
            true => 0,
            false => foreign_store(cx, base, 0, 0, 0, 0),
        }
    }
}

/// Checks a store through `base` that lies outside of the program's own memory. Returns normally if
/// it hits a field of a kernel object that programs are allowed to write. Raises a fault otherwise.
pub(crate) unsafe extern "C" fn foreign_store(cx: *mut Context, base: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        let insn = (&(*cx).code.insns)[(*cx).pc as usize];
        let (offset, size) = (i64::from(insn.off), insn::size(insn.op));
        let region = (*cx).region();
        if !region.contains(base) {
            return bad_access(cx, base, offset as u64, 0, 0, 0);
        }
        let addr = base.wrapping_add(offset as u64);
        let atomic = insn.op & 0xe0 == insn::ATOMIC;
        if !atomic && region.may_be_field(offset, size) && region.may_store(addr, size) {
            return 0;
        }
        let fault = region.store_fault(addr, size);
        raise(cx, fault)
    }
}

/// Raises the fault of a load or store outside of the region, at the address `base + offset`.
pub(crate) unsafe extern "C" fn bad_access(cx: *mut Context, base: u64, offset: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        let fault = access_fault(&*cx, (*cx).pc as usize, base.wrapping_add(offset));
        raise(cx, fault)
    }
}
