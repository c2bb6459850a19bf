// SPDX-License-Identifier: GPL-2.0-only
//! Checks that callbacks call only the kfuncs that the kernel allows them: those of their contexts
//! ([`kf`](crate::layout::callbacks::kf)), and none that may sleep unless the program may sleep, too.
//! Checks also that callbacks call no kfunc that the kernel declares differently. The kernel's
//! verifier refuses other programs, also if the call is never executed.
//!
//! The check follows direct calls. Like the verifier, it does not follow a branch whose condition is
//! constant, for example after a test whether the kernel has a kfunc. It does not follow functions
//! that a helper calls, because timer callbacks, for example, have a context of their own.

use crate::layout::callbacks::{Callback, OPS};
use crate::policy::kfuncs;
use crate::sched::ext::state::ops_table::OpsTable;
use bpf::image::{CALL, CALL_FUNCTION, CALL_KFUNC, Code, LD_IMM64, TRAP};
use bpf::link::Image;
use bpf::rows::ANY;
use std::collections::{BTreeMap, BTreeSet};

const EXIT: u8 = 0x95;
const JA: u8 = 0x05;
const JA32: u8 = 0x06;
const JEQ_IMM: u8 = 0x15;
const JNE_IMM: u8 = 0x55;
const MOV_IMM: u8 = 0xb7;
const CLASS: u8 = 7;
const JMP: u8 = 5;
const JMP32: u8 = 6;
/// Classes of instructions that store, and so set no register other than by atomic operations.
const STORES: [u8; 2] = [2, 3];

/// Why a callback may not call a kfunc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Refusal {
    Context,
    Sleeps,
}

/// Returns a message for each call of a kfunc that the calling callback is not allowed to make, and
/// for each call of a kfunc that the kernel declares differently.
pub(crate) fn check(image: &Image, ops: &OpsTable) -> Vec<String> {
    let rules = rules();
    let mut messages = Vec::new();
    for op in OPS {
        let Some(function) = ops.function(op) else { continue };
        let may_sleep = image
            .programs
            .iter()
            .any(|program| program.function == function && program.sleepable);
        for pc in calls(&image.code, function) {
            let insn = image.code.insns[pc];
            let Ok(index) = usize::try_from(insn.imm) else { continue };
            let place = image.code.describe(pc);
            if insn.op == TRAP {
                messages.push(format!("ops.{}(): {} in {place}", op.name(), image.code.traps[index]));
                continue;
            }
            let Some(name) = image.code.kfuncs.get(index) else {
                continue;
            };
            let Some(refusal) = refusal(&rules, name, op, may_sleep) else {
                continue;
            };
            let message = match refusal {
                Refusal::Context => format!("calling kernel function {name} is not allowed"),
                Refusal::Sleeps => format!("program must be sleepable to call sleepable kfunc {name}"),
            };
            messages.push(format!("ops.{}(): {message} in {place}", op.name()));
        }
    }
    messages
}

/// For each kfunc: its contexts, and whether it may sleep. A kfunc with a row for several releases
/// has the contexts of all of them.
fn rules() -> BTreeMap<&'static str, (u32, bool)> {
    let mut rules: BTreeMap<&'static str, (u32, bool)> = BTreeMap::new();
    for func in kfuncs::unrestricted_by_cpu(kfuncs::all()) {
        if func.helper.is_none() {
            let known = rules.entry(func.name).or_insert((0, true));
            known.0 |= func.contexts;
            known.1 &= func.may_sleep();
        }
    }
    rules
}

fn refusal(rules: &BTreeMap<&'static str, (u32, bool)>, name: &str, op: Callback, may_sleep: bool) -> Option<Refusal> {
    let &(contexts, sleeps) = rules.get(name)?;
    if sleeps && !may_sleep {
        return Some(Refusal::Sleeps);
    }
    (contexts != ANY && contexts & op.contexts() == 0).then_some(Refusal::Context)
}

/// Returns the calls of kfuncs that a function can reach.
fn calls(code: &Code, function: usize) -> BTreeSet<usize> {
    let (mut calls, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut todo = vec![code.functions[function].start];
    while let Some(mut pc) = todo.pop() {
        // The registers whose value is known, since the start of this path.
        let mut known: [Option<i64>; 11] = [None; 11];
        while seen.insert(pc) {
            let Some(insn) = code.insns.get(pc) else { break };
            let (dst, target) = (
                usize::from(insn.dst).min(10),
                (pc as i64 + 1 + i64::from(insn.off)) as usize,
            );
            match insn.op {
                TRAP => {
                    if insn.src == CALL_KFUNC {
                        calls.insert(pc);
                    }
                    break;
                }
                EXIT => break,
                CALL => {
                    match (insn.src, usize::try_from(insn.imm)) {
                        (CALL_FUNCTION, Ok(called)) => {
                            todo.extend(code.functions.get(called).map(|called| called.start))
                        }
                        (CALL_KFUNC, _) => {
                            calls.insert(pc);
                        }
                        _ => {}
                    }
                    known[..6].fill(None);
                }
                JA | JA32 => {
                    todo.push(target);
                    break;
                }
                JEQ_IMM | JNE_IMM if known[dst].is_some() => {
                    let taken = (known[dst] == Some(insn.imm)) == (insn.op == JEQ_IMM);
                    if taken {
                        todo.push(target);
                        break;
                    }
                }
                LD_IMM64 | MOV_IMM => known[dst] = Some(insn.imm),
                op if matches!(op & CLASS, JMP | JMP32) => todo.push(target),
                op if STORES.contains(&(op & CLASS)) => known.fill(None),
                _ => known[dst] = None,
            }
            pc += 1;
        }
    }
    calls
}
