// SPDX-License-Identifier: GPL-2.0-only
//! Limits that keep BPF code from overflowing the host's stack or jumping over its guard page.
//!
//! There are three limits:
//!
//! - The machine frame of a compiled function has at most [`MAX_FRAME`] bytes. The interpreter runs
//!   policies with larger frames.
//! - The BPF stack has at most [`FRAMES`] frames at a time, including those of callbacks that
//!   helpers call.
//! - Before each call into BPF code, the thread must have enough stack left for all these frames
//!   and a helper ([`needed`]). Otherwise the call faults before it begins. Calls that helpers make
//!   are checked, too.
//!
//! A frame is not larger than a page, and a call writes its return address. A call beyond the end
//! of the stack therefore always touches the guard page below the stack, and does not jump over it.

use crate::fault::{Fault, FaultKind};
use crate::insn::FRAMES;

/// Largest frame of a compiled function in bytes, including its return address. The largest frame
/// among this repository's policies has about 240 bytes, and about 740 with the sanitizer (the
/// run-time checks of `--check`).
pub(crate) const MAX_FRAME: u64 = 4096;
/// Upper bound of an interpreter frame's size, in any build.
pub(crate) const INTERPRETER_FRAME: u64 = 1024;
/// Number of bytes of stack for the deepest helper or kfunc, up to its next call into BPF code, and
/// for unwinding after a fault.
const HELPER: u64 = 256 << 10;

/// Returns the stack needed to call into a program whose largest frame has `frame` bytes.
pub(crate) fn needed(frame: u64) -> u64 {
    // Adds one frame, because the innermost counted function can call a function that has no BPF
    // frame of its own but has a machine frame.
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
    /// it.
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
