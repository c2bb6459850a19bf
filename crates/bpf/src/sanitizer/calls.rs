// SPDX-License-Identifier: GPL-2.0-only
//! Checks calls for the sanitizer. There are two kinds. The simulated machine, helpers and the
//! program itself call functions of the program. The program calls helpers and kfuncs.
//!
//! These checks also track the references, locks, critical sections and iterators that the program
//! holds. When the outermost function of the program returns, it must have released them all.

use super::callee::{Callee, Effect};
use super::held::{Mark, Open, Pending, Sections};
use super::objects::{Frame, Until, View, ViewKind};
use super::prov::{Origin, Prov, UNSET};
use super::raise::{raise, sanitizer};
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
        let mark = match begin(&mut *cx, sanitizer(cx), function, [r1, r2, r3, r4, r5]) {
            Ok(mark) => mark,
            Err(fault) => return raise(cx, fault),
        };
        let entry = (&(*cx).engine_entries)[function];
        let r0 = entry(cx, r1, r2, r3, r4, r5);
        if (*cx).fault.is_some() {
            return r0;
        }
        match end(&mut *cx, sanitizer(cx), mark, r0) {
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
        let (cx, sanitizer) = (&mut *cx, sanitizer(cx));
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

/// Checks the arguments of a call to a helper or kfunc. The context contains their provenances.
pub(crate) unsafe extern "C" fn before_call(cx: *mut Context, r1: u64, r2: u64, r3: u64, r4: u64, r5: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe {
        let (cx, sanitizer) = (&mut *cx, sanitizer(cx));
        sanitizer.counts.calls += 1;
        let provs = [1, 2, 3, 4, 5].map(|i| cx.arg_prov[i]);
        let call = Pending {
            pc: cx.pc as usize,
            args: [r1, r2, r3, r4, r5],
            provs,
            depth: cx.depth,
            calls_back: false,
        };
        match sanitizer.before(cx, call) {
            Ok(()) => 0,
            Err(fault) => raise(cx, fault),
        }
    }
}

/// Processes the result `r0` of a helper or kfunc and returns its provenance.
pub(crate) unsafe extern "C" fn after_call(cx: *mut Context, r0: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe {
        let (cx, sanitizer) = (&mut *cx, sanitizer(cx));
        let prov = sanitizer.after(cx, r0);
        cx.charge(sanitizer.objects.take_work());
        prov.0
    }
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
    fn check_nothing_held(&mut self, cx: &mut Context, function: usize) -> Result<(), Fault> {
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

    fn before(&mut self, cx: &mut Context, mut call: Pending) -> Result<(), Fault> {
        let insn = cx.code.insns[call.pc];
        let Some(callee) = self.names.get(&insn) else {
            self.held.pending.push(call);
            return Ok(());
        };
        if callee.rules.effect == Effect::Throw {
            let function = self.objects.frames.last().map_or(0, |frame| frame.function);
            return self.check_nothing_held(cx, function);
        }
        let name = callee.name;
        for n in 0..callee.used_args.min(5) {
            if let Origin::View { slot, generation } = Prov(call.provs[n]).origin() {
                let view = self.objects.view(slot, generation);
                if !view.is_some_and(|view| view.alive) {
                    return Err(self.dead(cx, format!("passed to {name}"), Some(call.args[n]), view));
                }
            }
        }
        self.check_argument_values(cx, &call, callee)?;
        self.check_context(callee)?;
        self.check_argument_kinds(cx, &call, callee)?;
        match callee.rules.effect {
            Effect::Release => {
                self.check_reference(cx, &call, 0, name)?;
                self.check_reference_start(cx, &call, 0, name)?;
            }
            Effect::GraphAdd => self.check_reference(cx, &call, 1, name)?,
            Effect::Exchange if call.args[1] != 0 => {
                self.check_reference(cx, &call, 1, name)?;
                self.check_reference_start(cx, &call, 1, name)?;
                self.check_kptr_type(cx, &call, callee)?;
            }
            Effect::Lock => {
                if let Some(held) = self.held.sections.locks.iter().find(|lock| lock.0 == call.args[0])
                    && name == "bpf_spin_lock"
                {
                    let message = format!("{name} of the lock that is already held");
                    let note = ("it was locked".to_string(), Some(held.1));
                    return Err(finding("deadlock", &message, Some(call.args[0]), vec![note]));
                }
                if let Some(held) = self.held.sections.locks.last()
                    && name == "bpf_spin_lock"
                {
                    return Err(under_lock(name, held.1));
                }
            }
            Effect::Unlock if self.held.sections.locks.last().map(|lock| lock.0) != Some(call.args[0]) => {
                let message = format!("{name} of a lock that is not the one locked last");
                return Err(finding("unbalanced-lock", &message, Some(call.args[0]), Vec::new()));
            }
            Effect::TimerInit => self.check_timer_map(cx, &call, callee)?,
            Effect::RcuUnlock => balanced(&self.held.sections.rcu, name)?,
            Effect::PreemptEnable => balanced(&self.held.sections.preempt, name)?,
            _ => {}
        }
        call.calls_back = callee.rules.callback.is_some();
        self.held.pending.push(call);
        Ok(())
    }

    /// Checks that the critical sections that are open now allow a call of this function.
    fn check_context(&self, callee: &Callee) -> Result<(), Fault> {
        let (name, now) = (callee.name, &self.held.sections);
        if let Some(lock) = now.locks.last()
            && !callee.rules.under_lock
        {
            return Err(under_lock(name, lock.1));
        }
        if callee.rules.sleepable {
            let why = if !now.sleepable {
                "a program that may not sleep (its section's name has no .s)"
            } else if !now.rcu.is_empty() {
                "an RCU section"
            } else if !now.preempt.is_empty() {
                "a section with preemption disabled"
            } else if !now.irq.is_empty() {
                "a section with interrupts off"
            } else {
                return Ok(());
            };
            let message = format!("{name} may sleep and is called in {why}");
            return Err(finding("sleep", &message, None, Vec::new()));
        }
        if callee.rules.rcu_protected && !self.held.in_rcu() {
            let message = format!("{name} needs bpf_rcu_read_lock() in a program that may sleep");
            return Err(finding("rcu", &message, None, Vec::new()));
        }
        Ok(())
    }

    /// Checks that an argument is a reference that the program holds.
    fn check_reference(&self, cx: &Context, call: &Pending, n: usize, name: &str) -> Result<(), Fault> {
        let (arg, prov) = (call.args[n], Prov(call.provs[n]));
        if let Origin::View { slot, .. } = prov.origin()
            && self.objects.views[slot].reference
        {
            return Ok(());
        }
        if arg == 0 {
            let notes = match prov.origin() {
                Origin::Null { pc } => vec![(
                    "the program has not tested it for NULL; it was returned".to_string(),
                    Some(pc),
                )],
                _ => Vec::new(),
            };
            return Err(finding(
                "null-dereference",
                &format!("NULL passed to {name}"),
                None,
                notes,
            ));
        }
        let message = format!(
            "{name} of {}, to which the program holds no reference",
            self.origin_name(cx, prov)
        );
        Err(finding("not-a-reference", &message, Some(arg), Vec::new()))
    }

    /// Checks that a reference is released through a pointer to the start of the object, not to its
    /// middle.
    fn check_reference_start(&self, cx: &Context, call: &Pending, n: usize, name: &str) -> Result<(), Fault> {
        if let Origin::View { slot, .. } = Prov(call.provs[n]).origin()
            && self.objects.views[slot].start != call.args[n]
        {
            let object = self.origin_name(cx, Prov(call.provs[n]));
            let message = format!("{name} of a pointer into {object}, not to its beginning");
            return Err(finding("bad-pointer", &message, Some(call.args[n]), Vec::new()));
        }
        Ok(())
    }

    fn after(&mut self, cx: &Context, r0: u64) -> Prov {
        let pc = cx.pc as usize;
        self.held.unwind(cx.depth + 1);
        let Some(call) = self.held.pending.pop() else {
            return Prov::SCALAR;
        };
        let Some(callee) = self.names.get(&cx.code.insns[call.pc]).cloned() else {
            return Prov::SCALAR;
        };
        let effect = callee.rules.effect;
        let slot = |n: usize| match Prov(call.provs[n]).origin() {
            Origin::View { slot, .. } => Some(slot),
            _ => None,
        };
        match (effect, slot(0), slot(1)) {
            (Effect::Release, Some(slot), _) => self.objects.kill(slot, "released", Some(call.pc)),
            (Effect::GraphAdd, _, Some(slot)) => {
                self.objects.views[slot].reference = false;
                self.objects.views[slot].until = Until::Unlock;
            }
            (Effect::Exchange, _, Some(slot)) => self.objects.views[slot].reference = false,
            _ => {}
        }
        self.objects.take_freed(cx.region(), Some(call.pc));
        self.record_sections(&call, effect, r0);
        self.record_opaque(cx, &call, &callee, r0);
        if !callee.pointer {
            return if callee.void { Prov::UNSET } else { Prov::SCALAR };
        }
        if r0 == 0 {
            return match effect {
                Effect::Plain | Effect::Lock | Effect::IterNew => Prov::SCALAR,
                _ => Prov::null(pc),
            };
        }
        let prov = self.result(cx, &call, &callee, r0);
        // If a look-up in an array map has a constant index, the verifier knows that the result is
        // not NULL, and requires no test. The sanitizer does not know whether the index was
        // constant. It therefore never requires a test of a pointer to an array element.
        match callee.nullable && !matches!(prov.origin(), Origin::Scalar | Origin::Value { .. }) {
            true => prov.untested(),
            false => prov,
        }
    }

    fn record_sections(&mut self, call: &Pending, effect: Effect, r0: u64) {
        let (pc, first) = (call.pc, call.args[0]);
        let now = &mut self.held.sections;
        match effect {
            Effect::Lock if r0 == 0 => now.locks.push((first, pc)),
            Effect::Unlock => {
                now.locks.pop();
                self.objects.expire(Until::Unlock, "unlocked", pc);
            }
            Effect::RcuLock => now.rcu.push(pc),
            Effect::RcuUnlock => {
                now.rcu.pop();
                if now.rcu.is_empty() {
                    self.objects.expire(Until::RcuUnlock, "out of its RCU section", pc);
                }
            }
            Effect::PreemptDisable => now.preempt.push(pc),
            Effect::PreemptEnable => drop(now.preempt.pop()),
            Effect::IrqSave => now.irq.push(pc),
            Effect::IrqRestore => drop(now.irq.pop()),
            _ => {}
        }
    }
}

fn under_lock(name: &str, locked_at: usize) -> Fault {
    let message = format!("{name} called while a lock is held");
    let note = ("it was locked".to_string(), Some(locked_at));
    finding("call-under-lock", &message, None, vec![note])
}

fn balanced(begun: &[usize], name: &str) -> Result<(), Fault> {
    if begun.is_empty() {
        let message = format!("{name} without an open section");
        return Err(finding("unbalanced-lock", &message, None, Vec::new()));
    }
    Ok(())
}
