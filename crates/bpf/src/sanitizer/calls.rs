// SPDX-License-Identifier: GPL-2.0-only
//! Checks calls of helpers and kfuncs by the program, and tracks the references, locks and critical
//! sections that the program holds.

use super::callee::{Callee, Effect};
use super::held::Pending;
use super::objects::Until;
use super::prov::{Origin, Prov};
use super::raise::{raise, split};
use super::report::finding;
use super::state::Sanitizer;
use crate::engine::context::Context;
use crate::fault::Fault;

/// Checks the arguments of a call to a helper or kfunc. The context contains their provenances.
pub(crate) unsafe extern "C" fn before_call(cx: *mut Context, r1: u64, r2: u64, r3: u64, r4: u64, r5: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe {
        let (cx, sanitizer) = split(cx);
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
        let (context, sanitizer) = split(cx);
        let prov = sanitizer.after(context, r0);
        Context::charge(cx, sanitizer.objects.take_work());
        prov.0
    }
}

impl Sanitizer {
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
