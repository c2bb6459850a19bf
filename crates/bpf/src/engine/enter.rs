// SPDX-License-Identifier: GPL-2.0-only
//! Entry into BPF code, and exit from it by return or fault.
//!
//! [`enter`] calls compiled code or the interpreter through a trampoline. Compiled code saves no
//! registers, so the trampoline saves the callee-saved ones. The trampoline also records its stack
//! pointer.
//!
//! A fault ends the code by restoring that stack pointer and returning from the trampoline. If a
//! helper faults, the shim of the helper (the glue around its Rust function) calls [`leave`], which
//! does this. For a bad access, a signal handler does the same. The skipped frames belong to
//! compiled code, the interpreter's loop and shims. None of them has destructors left to run.
//!
//! When a helper calls BPF code, the nested call has its own trampoline. The helper receives a
//! fault inside that call as an ordinary `Err`.

use std::cell::Cell;
use std::sync::Once;

use super::context::{Context, Entry, Hardware};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::gap;
use super::host_stack;

thread_local! {
    /// Context of the innermost call on this thread. If no call is in progress, the context of the
    /// last call. Null before the first call.
    static CURRENT: Cell<*mut Context> = const { Cell::new(std::ptr::null_mut()) };
}

/// Result of a call. `faulted` is 1 if the code ended by [`leave`] or by a bad access, 0 if it
/// returned.
#[repr(C)]
pub(crate) struct Outcome {
    pub r0: u64,
    pub faulted: u64,
}

/// Runs `target` until it returns or faults. Faults immediately if the thread has too little stack
/// (see [`host_stack`]).
///
/// # Safety
/// `target` must be compiled code or an entry point of this crate. `cx` must point to the context
/// of the program to which `target` belongs, and this context must be alive.
#[inline(always)]
pub(crate) unsafe fn enter(cx: *mut Context, target: Entry, args: &[u64; 5]) -> Outcome {
    let outer = CURRENT.get();
    let mut nested = false;
    if outer != cx {
        if outer.is_null() {
            install();
        }
        // `outer` may also be the context of a call that has already ended.
        // SAFETY: `CURRENT` is null or the context of a live program, because `forget` clears it
        // before a context is dropped.
        nested = unsafe { !outer.is_null() && (*outer).is_running() };
        CURRENT.set(cx);
        // SAFETY: the caller guarantees that the context is alive.
        unsafe { (*cx).native_limit = host_stack::limit((*cx).native_stack) };
    }
    // SAFETY: the caller guarantees that the context is alive and that `target` belongs to it.
    let outcome = unsafe {
        if host_stack::pointer() < (*cx).native_limit {
            (*cx).fault = Some(host_stack::too_little((*cx).native_limit, (*cx).native_stack));
            Outcome { r0: 0, faulted: 1 }
        } else {
            trampoline(cx, args, target, &raw mut (*cx).rsp)
        }
    };
    if nested {
        CURRENT.set(outer);
    }
    outcome
}

/// Like [`enter`], with only one argument, r1.
///
/// # Safety
/// The caller must meet the conditions of [`enter`].
#[inline(always)]
pub(crate) unsafe fn enter_with(cx: *mut Context, target: Entry, r1: u64) -> Outcome {
    // SAFETY: the caller meets the conditions of `enter`, which are also those of the trampoline.
    unsafe {
        if CURRENT.get() != cx || host_stack::pointer() < (*cx).native_limit {
            return enter_first(cx, target, r1);
        }
        short_trampoline(cx, r1, target, &raw mut (*cx).rsp)
    }
}

/// Does the work of [`enter_with`] for the first call on this thread and for calls that fault at
/// once. It is a separate function, so that the code around the usual call stays short.
#[cold]
#[inline(never)]
unsafe fn enter_first(cx: *mut Context, target: Entry, r1: u64) -> Outcome {
    // SAFETY: the caller meets the conditions of `enter`.
    unsafe { enter(cx, target, &[r1, 0, 0, 0, 0]) }
}

/// Makes the context the current one of this thread, without a call.
pub(super) fn adopt(cx: *mut Context) {
    if CURRENT.get().is_null() {
        install();
    }
    CURRENT.set(cx);
}

/// Clears `CURRENT` if it points to this context, which is about to be dropped.
pub(crate) fn forget(cx: *mut Context) {
    if CURRENT.get() == cx {
        CURRENT.set(std::ptr::null_mut());
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod host {
    use super::*;
    use std::arch::naked_asm;

    /// The end of a trampoline: restores the callee-saved registers and returns.
    macro_rules! restore_and_return {
        () => {
            "add rsp, 8\n pop r15\n pop r14\n pop r13\n pop r12\n pop rbx\n pop rbp\n ret"
        };
    }

    /// Saves the callee-saved registers, stores the stack pointer in `rsp`, and calls `target` with
    /// the context and the five arguments.
    #[unsafe(naked)]
    pub unsafe extern "C" fn trampoline(
        cx: *mut Context,
        args: *const [u64; 5],
        target: Entry,
        rsp: *mut u64,
    ) -> Outcome {
        naked_asm!(
            "push rbp",
            "mov rbp, rsp",
            "push rbx",
            "push r12",
            "push r13",
            "push r14",
            "push r15",
            "sub rsp, 8",
            "mov [rcx], rsp",
            "mov rax, rdx",
            "mov r10, rsi",
            "mov rsi, [r10]",
            "mov rdx, [r10 + 8]",
            "mov rcx, [r10 + 16]",
            "mov r8, [r10 + 24]",
            "mov r9, [r10 + 32]",
            "call rax",
            "xor edx, edx",
            restore_and_return!(),
        )
    }

    /// Like [`trampoline`], for a function that takes only r1. r2 to r5 are set to zero. Without a
    /// verifier, a program could read these registers, and it must not see addresses of the host.
    #[unsafe(naked)]
    pub unsafe extern "C" fn short_trampoline(cx: *mut Context, r1: u64, target: Entry, rsp: *mut u64) -> Outcome {
        naked_asm!(
            "push rbp",
            "push rbx",
            "push r12",
            "push r13",
            "push r14",
            "push r15",
            "push rbp",
            "mov [rcx], rsp",
            "mov rax, rdx",
            "xor edx, edx",
            "xor ecx, ecx",
            "xor r8d, r8d",
            "xor r9d, r9d",
            "call rax",
            "xor edx, edx",
            restore_and_return!(),
        )
    }

    /// Makes the trampoline that recorded the stack pointer `rsp` return with `faulted` set.
    #[unsafe(naked)]
    unsafe extern "C" fn unwind(rsp: u64) -> ! {
        naked_asm!(
            "mov rsp, rdi",
            "cld",
            "xor eax, eax",
            "mov edx, 1",
            restore_and_return!(),
        )
    }

    /// Ends the running BPF code: returns from its trampoline with `faulted` set.
    ///
    /// # Safety
    /// Must be called from the code of `cx`. No frame between the trampoline and this call may have
    /// destructors left to run.
    pub(crate) unsafe fn leave(cx: *mut Context) -> u64 {
        // SAFETY: the trampoline of the running program has stored its stack pointer in `rsp`, and
        // the caller guarantees that no skipped frame has destructors.
        unsafe { unwind((*cx).rsp) }
    }

    static INSTALL: Once = Once::new();
    /// Handlers that SIGSEGV and SIGBUS had before [`install`] replaced them.
    static mut PREVIOUS: [std::mem::MaybeUninit<libc::sigaction>; 2] = [std::mem::MaybeUninit::zeroed(); 2];

    /// Installs the signal handlers once per process and an alternate signal stack once per thread.
    #[cold]
    pub(super) fn install() {
        // SAFETY: `call_once` runs this code in one thread, so nothing else uses `PREVIOUS`.
        // `action` is a valid sigaction, because all of its bytes may be 0.
        INSTALL.call_once(|| unsafe {
            for (i, signal) in [libc::SIGSEGV, libc::SIGBUS].into_iter().enumerate() {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_fault as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
                libc::sigemptyset(&mut action.sa_mask);
                let previous = (&raw mut PREVIOUS[i]).cast::<libc::sigaction>();
                assert!(libc::sigaction(signal, &action, previous) == 0, "sigaction() failed");
            }
        });
        // SAFETY: `stack` is valid for writing, and the memory of a new alternate stack is never
        // freed.
        unsafe {
            let mut stack: libc::stack_t = std::mem::zeroed();
            libc::sigaltstack(std::ptr::null(), &mut stack);
            if stack.ss_flags & libc::SS_DISABLE != 0 {
                // This thread has no alternate stack, so Rust did not start it (Rust gives one to
                // its own threads). A new alternate stack must live until the thread ends. When the
                // thread ends is unknown here, so the stack is leaked.
                let size = 64 << 10;
                stack.ss_sp = Box::leak(vec![0u8; size].into_boxed_slice()).as_mut_ptr().cast();
                stack.ss_size = size;
                stack.ss_flags = 0;
                libc::sigaltstack(&stack, std::ptr::null_mut());
            }
        }
    }

    /// Handles SIGSEGV and SIGBUS. If BPF code accessed a gap of its arena, the code continues. After
    /// any other access of BPF code, its trampoline returns with `faulted` set. If other code made
    /// the access, the previous handler runs.
    unsafe extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, ucontext: *mut libc::c_void) {
        // SAFETY: the kernel passes valid pointers. `CURRENT` is null or the context of a live
        // program, because `forget` clears it before a context is dropped.
        unsafe {
            let cx = CURRENT.get();
            let gregs = &mut (*ucontext.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
            let (ip, addr) = (gregs[libc::REG_RIP as usize] as u64, (*info).si_addr() as u64);
            if !cx.is_null() && (*cx).owns(ip, addr) {
                if gap::resume(cx, gregs) {
                    return;
                }
                (*cx).hardware = Hardware { addr, ip };
                gregs[libc::REG_RDI as usize] = (*cx).rsp as i64;
                // Makes RSP look as after a call, with a return address pushed, because the callee
                // expects that alignment.
                gregs[libc::REG_RSP as usize] = (*cx).rsp as i64 - 8;
                gregs[libc::REG_RIP as usize] = unwind as *const () as i64;
                return;
            }
            let previous = &*(&raw const PREVIOUS[usize::from(signal == libc::SIGBUS)]).cast::<libc::sigaction>();
            match previous.sa_sigaction {
                libc::SIG_DFL | libc::SIG_IGN => {
                    // When this handler returns, the access is repeated. The default action then
                    // kills the process.
                    libc::signal(signal, libc::SIG_DFL);
                }
                handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
                    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                        std::mem::transmute(handler);
                    handler(signal, info, ucontext);
                }
                handler => {
                    let handler: extern "C" fn(i32) = std::mem::transmute(handler);
                    handler(signal);
                }
            }
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod host {
    //! Hosts without a JIT run only the interpreter. It checks each access in software and tests
    //! for a fault after each call.
    use super::*;

    pub unsafe extern "C" fn trampoline(
        cx: *mut Context,
        args: *const [u64; 5],
        target: Entry,
        _rsp: *mut u64,
    ) -> Outcome {
        // SAFETY: `cx` is the context of the running program, see [`Entry`].
        unsafe {
            let [r1, r2, r3, r4, r5] = *args;
            let r0 = target(cx, r1, r2, r3, r4, r5);
            Outcome {
                r0,
                faulted: u64::from((*cx).fault.is_some()),
            }
        }
    }

    pub unsafe extern "C" fn short_trampoline(cx: *mut Context, r1: u64, target: Entry, rsp: *mut u64) -> Outcome {
        // SAFETY: `cx` is the context of the running program, see [`Entry`].
        unsafe { trampoline(cx, &[r1, 0, 0, 0, 0], target, rsp) }
    }

    pub(crate) unsafe fn leave(_cx: *mut Context) -> u64 {
        0
    }

    pub(super) fn install() {}
}

pub(crate) use host::leave;
use host::{install, short_trampoline, trampoline};
