// SPDX-License-Identifier: GPL-2.0-only
//! Limits that keep BPF code from overflowing the host's stack or jumping over its guard page.
//!
//! There are three limits:
//!
//! - The stack frame of a compiled function has at most [`MAX_FRAME`] bytes. The interpreter runs
//!   programs that have a function with a larger frame.
//! - The BPF stack has at most [`FRAMES`] frames at a time, including those of callbacks that
//!   helpers call.
//! - Before each call into BPF code, the thread must have enough stack left for all these frames
//!   and a helper ([`needed`]). Otherwise the call faults before it begins. This test is also made
//!   for calls into BPF code that helpers make.
//!
//! A frame is not larger than a page, and each call writes its return address to the stack. A call
//! beyond the end of the stack therefore always touches the guard page below the stack. It cannot
//! jump over the guard page.

use crate::fault::{Fault, FaultKind};
use crate::insn::FRAMES;

/// Largest frame of a compiled function in bytes, including its return address. The largest frame
/// among this repository's policies has about 240 bytes, and about 740 with the sanitizer.
pub(crate) const MAX_FRAME: u64 = 4096;
/// Upper bound of an interpreter frame's size, in any build.
pub(crate) const INTERPRETER_FRAME: u64 = 1024;
/// Number of bytes of stack that the deepest helper or kfunc needs, up to its next call into BPF
/// code. They also suffice to unwind the stack after a fault.
const HELPER: u64 = 256 << 10;

/// Returns how many bytes of stack must be left for a call into a program whose largest frame has
/// `frame` bytes.
pub(crate) fn needed(frame: u64) -> u64 {
    // Adds one frame. `FRAMES` counts functions that have a BPF frame. The innermost of them can
    // call one more function that has no BPF frame but has a frame on the host's stack.
    (FRAMES + 1) * frame + HELPER
}

/// Returns the fault of a call for which the thread has too little stack left.
#[cold]
pub(crate) fn too_little(limit: u64, needed: u64) -> Fault {
    let left = (pointer() + needed).saturating_sub(limit) / 1024;
    let needed = needed.div_ceil(1024);
    Fault::new(
        FaultKind::Stack,
        format!(
            "the thread has {left} KiB of stack left, but BPF code needs {needed} KiB: raise `ulimit -s` or RUST_MIN_STACK"
        ),
    )
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod host {
    use std::cell::Cell;

    /// Number of bytes of stack that a thread is assumed to have left if the host does not report
    /// the thread's stack.
    const ASSUMED: u64 = 1 << 20;

    thread_local! {
        /// Lowest address of this thread's stack, or 0 before it is known.
        static END: Cell<u64> = const { Cell::new(0) };
    }

    /// Returns the stack pointer.
    #[inline(always)]
    pub fn pointer() -> u64 {
        let rsp: u64;
        // SAFETY: reads a register.
        unsafe { std::arch::asm!("mov {}, rsp", out(reg) rsp, options(nomem, nostack, preserves_flags)) };
        rsp
    }

    /// Returns the lowest stack pointer of this thread at which a call that needs `needed` bytes
    /// may begin.
    #[cold]
    pub fn limit(needed: u64) -> u64 {
        if END.get() == 0 {
            END.set(end().unwrap_or_else(|| pointer().saturating_sub(ASSUMED)));
        }
        END.get().saturating_add(needed)
    }

    fn end() -> Option<u64> {
        // SAFETY: the attributes are initialised by pthread_getattr_np and destroyed once.
        unsafe {
            let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
            if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
                return None;
            }
            let (mut start, mut size) = (std::ptr::null_mut(), 0);
            let known = libc::pthread_attr_getstack(&attributes, &mut start, &mut size) == 0;
            libc::pthread_attr_destroy(&mut attributes);
            known.then_some(start as u64)
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod host {
    //! Hosts without a JIT have only the interpreter's frames, which fit into the default stack of
    //! every host.
    pub fn pointer() -> u64 {
        u64::MAX
    }

    pub fn limit(_needed: u64) -> u64 {
        0
    }
}

pub(crate) use host::{limit, pointer};
