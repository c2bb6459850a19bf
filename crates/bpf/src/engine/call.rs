// SPDX-License-Identifier: GPL-2.0-only
//! Calls from the world into BPF code. A call is nested if a helper makes it while the program is
//! running, for example to run a timer or loop callback. All other calls are outermost.

use super::context::{Context, Entry};
use super::counting;
use super::enter;
use super::raise::take_fault;
use crate::fault::{Fault, FaultKind};

/// Maximum number of calls from the world into BPF code that are in progress at the same time.
const MAX_DEPTH: u32 = 32;

/// Number of instructions that a nested call charges to the budget. The host needs about as much
/// time to begin and end a nested call as to execute this many instructions.
const CALL: i64 = 4;

/// Sets the simulated CPU on which code runs in all later calls.
#[inline(always)]
pub(super) unsafe fn set_cpu(cx: *mut Context, cpu: u32) {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        if (*cx).cpu != cpu {
            (*cx).cpu = cpu;
            (*cx).own_cache = (*cx).region.lines().cache(cpu).own;
        }
    }
}

/// Arguments of a call: all five registers r1 to r5, or only r1 for a struct_ops program.
pub(super) trait Args: Copy {
    fn all(self) -> [u64; 5];
    unsafe fn enter(self, cx: *mut Context, entry: Entry) -> enter::Outcome;
}

impl Args for &[u64; 5] {
    fn all(self) -> [u64; 5] {
        *self
    }

    #[inline(always)]
    unsafe fn enter(self, cx: *mut Context, entry: Entry) -> enter::Outcome {
        // SAFETY: the caller meets the conditions of `enter`.
        unsafe { enter::enter(cx, entry, self) }
    }
}

impl Args for u64 {
    fn all(self) -> [u64; 5] {
        [self, 0, 0, 0, 0]
    }

    #[inline(always)]
    unsafe fn enter(self, cx: *mut Context, entry: Entry) -> enter::Outcome {
        // SAFETY: the caller meets the conditions of `enter_with`.
        unsafe { enter::enter_with(cx, entry, self) }
    }
}

/// Calls a function. Returns `None` if the function faulted; [`take_fault`] then returns the fault.
#[inline(always)]
pub(super) unsafe fn call<A: Args>(cx: *mut Context, world: *mut (), function: usize, args: A) -> Option<u64> {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        if (*cx).depth > 0 {
            return nested_call(cx, world, function, &args.all());
        }
        (*cx).world = world;
        (*cx).function = function;
        let entry = (&(*cx).entries)[function];
        (*cx).until += (*cx).limit - (*cx).left;
        (*cx).left = (*cx).limit;
        (*cx).depth = 1;
        let fp = (*cx).fp;
        let outcome = args.enter(cx, entry);
        (*cx).depth = 0;
        (*cx).interpreting = false;
        if outcome.faulted == 0 {
            return Some(outcome.r0);
        }
        (*cx).fp = fp;
        caught(cx)
    }
}

/// Returns the argument of bpf_throw() if the program ended by calling bpf_throw(), otherwise
/// `None`. In the kernel, too, this argument becomes the return value of the program.
#[cold]
pub(super) unsafe fn caught(cx: *mut Context) -> Option<u64> {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        (*cx).count_path = counting::ROOT;
        match (*cx).fault.as_ref()?.kind {
            FaultKind::Throw(cookie) => {
                (*cx).fault = None;
                Some(cookie)
            }
            _ => None,
        }
    }
}

/// Calls into the program for a helper, while the call in which the program called this helper is
/// still running.
#[inline(never)]
unsafe fn nested_call(cx: *mut Context, world: *mut (), function: usize, args: &[u64; 5]) -> Option<u64> {
    // SAFETY: `cx` is the context of the running program, see [`Entry`].
    unsafe {
        let entry = (&(*cx).entries)[function];
        Context::charge(cx, CALL);
        if (*cx).left < 0 {
            (*cx).fault = Some((*cx).over_budget());
            return None;
        }
        if (*cx).depth == MAX_DEPTH || (*cx).fp < (*cx).stack_limit {
            (*cx).fault = Some(Fault::new(
                FaultKind::Stack,
                "calls into BPF code are nested too deeply",
            ));
            return None;
        }
        let saved = ((*cx).rsp, (*cx).fp, (*cx).pc, (*cx).interpreting);
        let path = (*cx).count_path;
        // A second world may share the VM, and may be dropped after this call.
        let outer = std::mem::replace(&mut (*cx).world, world);
        (*cx).function = function;
        (*cx).depth += 1;
        let outcome = enter::enter(cx, entry, args);
        (*cx).depth -= 1;
        (*cx).world = outer;
        let pc = (*cx).pc;
        ((*cx).rsp, (*cx).fp, (*cx).pc, (*cx).interpreting) = saved;
        (*cx).count_path = path;
        if outcome.faulted == 0 {
            return Some(outcome.r0);
        }
        // `take_fault` copies `pc` into the fault. The copy must be the instruction that faulted in
        // the nested call, not the instruction that called the helper.
        let resumed = std::mem::replace(&mut (*cx).pc, pc);
        let fault = take_fault(cx);
        (*cx).pc = resumed;
        (*cx).fault = Some(fault);
        None
    }
}
