// SPDX-License-Identifier: GPL-2.0-only
//! Checks calls of the program's functions, by the simulated machine, by helpers and by the program
//! itself. When the outermost function returns, it must have released all that it holds.

use super::held::{Mark, Open, Sections};
use super::objects::{Frame, View, ViewKind};
use super::prov::{Prov, UNSET};
use super::raise::{raise, sanitizer, split};
use super::registers::unset;
use super::report::finding;
use super::state::Sanitizer;
use crate::engine::context::Context;
use crate::fault::Fault;
use crate::insn::FRAME;
use crate::object::ProgramKind;

/// Maximum number of nested functions in one call of a program (MAX_CALL_FRAMES).
const MAX_FRAMES: usize = 8;

/// Maximum total size in bytes of the stack frames of these functions (MAX_BPF_STACK).
const MAX_STACK: u32 = 512;

/// Entry point through which the simulated machine and helpers call a function of a sanitized
/// program. All functions share it: `cx.function` is the function to call.
pub(crate) unsafe extern "C" fn enter(cx: *mut Context, r1: u64, r2: u64, r3: u64, r4: u64, r5: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe {
        let function = (*cx).function;
        let (context, checks) = split(cx);
        let mark = match begin(context, checks, function, [r1, r2, r3, r4, r5]) {
            Ok(mark) => mark,
            Err(fault) => return raise(cx, fault),
        };
        let entry = (&(*cx).engine_entries)[function];
        let r0 = entry(cx, r1, r2, r3, r4, r5);
        if (*cx).fault.is_some() {
            return r0;
        }
        let (context, checks) = split(cx);
        match end(context, checks, mark, r0) {
            Ok(()) => r0,
            Err(fault) => raise(cx, fault),
        }
    }
}

/// Records the start of a call by the simulated machine or a helper, and sets the provenances of
/// the arguments.
fn begin(cx: &mut Context, sanitizer: &mut Sanitizer, function: usize, args: [u64; 5]) -> Result<Mark, Fault> {
    let depth = cx.depth;
    sanitizer.held.unwind(depth);
    sanitizer.objects.frames.retain(|frame| frame.depth < depth);
    if depth == 1 {
        sanitizer.objects.end_temporary();
        sanitizer.held.open.clear();
    }
    sanitizer.objects.take_freed(cx.region(), None);
    let by = sanitizer.held.pending.last().filter(|call| call.calls_back).copied();
    let callback = by.is_some();
    let kind = sanitizer.kinds[function].filter(|_| !callback);
    if !callback {
        let sections = Sections {
            sleepable: kind.is_some_and(|(_, sleepable)| sleepable),
            ..Sections::default()
        };
        let outer = std::mem::replace(&mut sanitizer.held.sections, sections);
        sanitizer.held.outer.push((depth, sanitizer.held.program, outer));
        sanitizer.held.last = sanitizer.held.last.wrapping_add(1);
        sanitizer.held.program = sanitizer.held.last;
    }
    let top = cx.fp;
    // A timer's callback receives the map, key and value. A call is recognised as one to a timer's
    // callback if its first argument is a map.
    let is_timer = cx.maps.iter().any(|map| map.addr() == args[0]);
    let callee = by
        .and_then(|call| sanitizer.names.get(&cx.code.insns[call.pc]))
        .cloned();
    let called_back = callee.as_ref().and_then(|callee| callee.rules.callback);
    let nr_args = match (kind, called_back) {
        (Some(_), _) => 1,
        (None, Some(callback)) => callback.args,
        (None, None) if is_timer => 3,
        (None, None) => 5,
    };
    let mut provs = args.map(|arg| sanitizer.objects.classify(cx.region(), arg).0);
    provs[nr_args..].fill(UNSET);
    // The helper passes this argument on to the callback, so the provenance stays the same.
    if let Some((to, from)) = called_back.and_then(|callback| callback.forwarded)
        && let Some(by) = by
    {
        provs[to] = by.provs[from];
    }
    if callee.is_some_and(|callee| callee.name == "bpf_user_ringbuf_drain") {
        sanitizer.record_sample(cx, args[0]);
    }
    match kind {
        Some((ProgramKind::Syscall, _)) => {
            let [start, len, ..] = args;
            provs[0] = sanitizer
                .objects
                .add_temporary(View::new(start, len, ViewKind::Input, cx.pc as usize))
                .0;
        }
        Some(_) => {
            let outer = sanitizer
                .objects
                .frames
                .last()
                .map_or(sanitizer.objects.stack_end, |f| f.top - FRAME);
            if (top..outer).contains(&args[0]) {
                provs[0] = Prov::context(args[0] - sanitizer.objects.stack, outer - sanitizer.objects.stack).0;
            }
        }
        None => {
            // The callback for a map element receives the map, key and value.
            if let Some(index) = cx.maps.iter().position(|map| map.addr() == args[0])
                && cx.maps[index].array_layout().is_none()
                && cx.region().in_bpf_area(args[2])
            {
                let len = u64::from(cx.maps[index].def().value_size);
                provs[2] = sanitizer
                    .objects
                    .add_allocated(args[2], len, ViewKind::Value(index), cx.pc as usize)
                    .0;
            }
        }
    }
    cx.arg_prov[1..6].copy_from_slice(&provs);
    let caller = by.map(|call| call.pc);
    sanitizer.push_frame(cx, top, function, caller)?;
    Ok(Mark {
        depth,
        callback,
        function,
        returns: match kind {
            Some(_) => None,
            None if callback => Some(1),
            None => is_timer.then_some(0),
        },
        must_return: kind.is_some_and(|(kind, _)| kind != ProgramKind::StructOps),
    })
}

/// Checks the end of a call by the simulated machine or a helper.
fn end(cx: &mut Context, sanitizer: &mut Sanitizer, mark: Mark, r0: u64) -> Result<(), Fault> {
    check_result(cx, &mark, r0)?;
    if !mark.callback {
        sanitizer.check_nothing_held(cx, mark.function)?;
    }
    sanitizer.objects.frames.retain(|frame| frame.depth < mark.depth);
    sanitizer.forget_opaque();
    Ok(())
}

/// Checks that a program's result has a value. If the program is a callback, also checks that the
/// kernel accepts this value.
fn check_result(cx: &mut Context, mark: &Mark, r0: u64) -> Result<(), Fault> {
    let function = &cx.code.functions[mark.function];
    let has_value = cx.arg_prov[0] != UNSET;
    if (mark.must_return || mark.returns.is_some()) && !has_value {
        cx.pc = function.start as u32;
        return Err(unset(0));
    }
    if let Some(most) = mark.returns
        && r0 > most
    {
        let message = format!(
            "{} returns {}, but a callback may return only {}",
            function.name,
            r0 as i64,
            if most == 0 { "0" } else { "0 or 1" }
        );
        cx.pc = function.start as u32;
        return Err(finding("return-value", &message, None, Vec::new()));
    }
    Ok(())
}

/// Records that a function of the program is about to call another one.
pub(crate) unsafe extern "C" fn call_function(cx: *mut Context, pc: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe {
        let (cx, sanitizer) = split(cx);
        cx.pc = pc as u32;
        let function = cx.code.insns[pc as usize].imm as usize;
        match sanitizer.push_frame(cx, cx.fp, function, Some(pc as usize)) {
            Ok(()) => 0,
            Err(fault) => raise(cx, fault),
        }
    }
}

/// Records that the called function has returned.
pub(crate) unsafe extern "C" fn returned(cx: *mut Context, _: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    let sanitizer = unsafe { sanitizer(cx) };
    sanitizer.objects.frames.pop();
    sanitizer.forget_opaque();
    0
}

impl Sanitizer {
    fn push_frame(&mut self, cx: &Context, top: u64, function: usize, caller: Option<usize>) -> Result<(), Fault> {
        let mut depth = (1, cx.code.functions[function].stack.max(1).next_multiple_of(16));
        if caller.is_some() {
            for frame in self.objects.frames.iter().rev() {
                depth.0 += 1;
                depth.1 += cx.code.functions[frame.function].stack.max(1).next_multiple_of(16);
                if frame.caller.is_none() {
                    break;
                }
            }
        }
        self.objects.frames.push(Frame {
            top,
            function,
            caller,
            depth: cx.depth,
        });
        let (frames, bytes) = depth;
        if frames > MAX_FRAMES {
            let message = format!("{frames} nested functions, but the kernel allows {MAX_FRAMES}");
            return Err(finding("stack-overflow", &message, None, Vec::new()));
        }
        if bytes > MAX_STACK {
            let message =
                format!("{frames} nested functions use {bytes} bytes of stack, but the kernel allows {MAX_STACK}");
            return Err(finding("stack-overflow", &message, None, Vec::new()));
        }
        Ok(())
    }

    /// Checks that the program holds nothing when it returns to the kernel or calls bpf_throw().
    pub(super) fn check_nothing_held(&mut self, cx: &mut Context, function: usize) -> Result<(), Fault> {
        let name = &cx.code.functions[function].name;
        let now = &self.held.sections;
        let left = [
            (now.locks.last().map(|lock| lock.1), "a lock held", "locked"),
            (now.rcu.last().copied(), "an RCU section open", "entered"),
            (now.preempt.last().copied(), "preemption disabled", "disabled"),
            (now.irq.last().copied(), "interrupts off", "saved"),
        ];
        for (at, message, verb) in left {
            if let Some(at) = at {
                cx.pc = at as u32;
                let message = format!("{name} returns with {message}");
                return Err(finding(
                    "unbalanced-lock",
                    &message,
                    None,
                    vec![(format!("{verb} in"), Some(at))],
                ));
            }
        }
        let left = |open: &&Open| open.must_end && open.program == self.held.program;
        if let Some(open) = self.held.open.iter().find(left) {
            cx.pc = open.pc as u32;
            let message = format!("{name} returns without ending {}", open.name());
            return Err(finding("leak", &message, Some(open.addr), Vec::new()));
        }
        if let Some(slot) = self.objects.find_leak(self.held.program) {
            let view = &self.objects.views[slot];
            cx.pc = view.born as u32;
            let message = format!("{name} returns and has not released {}", self.view_name(cx, view));
            return Err(finding(
                "leak",
                &message,
                Some(view.start),
                vec![("acquired".to_string(), Some(view.born))],
            ));
        }
        Ok(())
    }
}
