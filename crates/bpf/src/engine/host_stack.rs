// SPDX-License-Identifier: GPL-2.0-only
//! The host's stack. A policy can neither overflow it nor jump over its guard page.
//!
//! Three bounds make that so. A function's machine frame has at most [`MAX_FRAME`] bytes, or the policy is interpreted. At most
//! [`FRAMES`] frames are on the BPF stack at a time, callbacks of helpers included. And each call from the simulator into
//! BPF code, also that of a helper, needs room for all these frames and for a helper ([`needed`]): where the thread has less,
//! the call faults before it begins.
//!
//! A frame is smaller than a page and a call writes its return address, so that the guard page below a stack is always touched.

use crate::fault::{Fault, FaultKind};
use crate::insn::FRAMES;

/// Largest frame of a machine function, its return address included. The largest of the library's policies has about 240 bytes,
/// with the sanitizer 740.
pub(crate) const MAX_FRAME: u64 = 4096;
/// More than a frame of the interpreter takes, in any build.
pub(crate) const INTERPRETER_FRAME: u64 = 1024;
/// Stack of the deepest helper or kfunc up to the next call into BPF code, and of the handler's way out of a fault.
const HELPER: u64 = 256 << 10;

/// Stack that a call into a program needs whose largest frame has `frame` bytes.
pub(crate) fn needed(frame: u64) -> u64 {
    // A function that calls helpers alone has a frame beyond the last that is counted.
    (FRAMES + 1) * frame + HELPER
}

/// The fault of a call that finds too little stack.
#[cold]
pub(crate) fn too_little(limit: u64, needed: u64) -> Fault {
    let left = (pointer() + needed).saturating_sub(limit) / 1024;
    let needed = needed.div_ceil(1024);
    Fault::new(
        FaultKind::Stack,
        format!(
            "the thread has {left} KiB of stack left, and BPF code needs {needed}: raise `ulimit -s` or RUST_MIN_STACK"
        ),
    )
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod host {
    use std::cell::Cell;

    /// Stack that a thread is assumed to have left if the host does not say.
    const ASSUMED: u64 = 1 << 20;

    thread_local! {
        /// Lowest address of this thread's stack; 0 before it is known.
        static END: Cell<u64> = const { Cell::new(0) };
    }

    /// The stack pointer.
    #[inline(always)]
    pub fn pointer() -> u64 {
        let rsp: u64;
        // SAFETY: reads a register.
        unsafe { std::arch::asm!("mov {}, rsp", out(reg) rsp, options(nomem, nostack, preserves_flags)) };
        rsp
    }

    /// Lowest stack pointer of this thread with which a call may begin that needs so much.
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
    //! Elsewhere only the interpreter's frames are there, which fit into every default.
    pub fn pointer() -> u64 {
        u64::MAX
    }

    pub fn limit(_needed: u64) -> u64 {
        0
    }
}

pub(crate) use host::{limit, pointer};
