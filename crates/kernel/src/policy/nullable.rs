// SPDX-License-Identifier: GPL-2.0-only
//! Checks that a callback tests an argument that may be NULL before it uses the argument. These
//! arguments are `prev` of ops.dispatch() and `to` of ops.yield(). The kernel's verifier rejects
//! programs without such a test, and so does the simulator.
//!
//! The check follows the paths through the callback. For each register and each stack slot, it
//! tracks whether the content is the untested argument, the tested argument or a known constant. If
//! it cannot know the outcome of a branch, it follows both paths. Uses that cannot be tracked are
//! accepted, for example if the argument is passed to another function or stored outside of the
//! stack.

use crate::layout::callbacks::OPS;
use crate::sched::ext::state::ops_table::OpsTable;
use bpf::image::{CALL, Code, Insn, LD_IMM64, TRAP};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of states (contents of the registers and the stack at a branch) that are
/// examined. If a callback has more, the check stops and accepts the callback. Real callbacks use
/// the argument within a few hundred states.
const MAX_STATES: usize = 20_000;

/// Knowledge about the content of a register or a stack slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Unknown,
    /// Pointer to the array of the callback's arguments.
    Context,
    /// The argument, which has not been tested yet.
    MaybeNull,
    /// Frame pointer plus an offset in bytes.
    Stack(i32),
    Const(i64),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    pc: usize,
    regs: [Value; 11],
    /// Known contents of stack slots, by their offsets in bytes.
    slots: BTreeMap<i32, Value>,
}

impl State {
    /// Returns whether the untested argument is in a register or a stack slot, or can be loaded
    /// again. If not, no later instruction can use it.
    fn has_argument(&self) -> bool {
        let mut known = self.regs.iter().chain(self.slots.values());
        known.any(|value| matches!(value, Value::Context | Value::MaybeNull))
    }
}

/// Checks all callbacks. Returns the verifier's error message for each use of an argument that may be
/// NULL and that the callback has not tested.
pub(crate) fn check(code: &Code, ops: &OpsTable) -> Vec<String> {
    let mut messages = Vec::new();
    for op in OPS {
        let (Some(function), Some(arg)) = (ops.function(op), op.or_null()) else {
            continue;
        };
        for (pc, reg) in used_untested(code, function, arg * 8) {
            messages.push(format!(
                "ops.{}(): R{reg} invalid mem access 'trusted_ptr_or_null_' in {}",
                op.name(),
                code.describe(pc)
            ));
        }
    }
    messages
}

/// Returns the instructions that access memory through the untested argument, and the registers that
/// they use. On each path, only the first use is returned.
fn used_untested(code: &Code, function: usize, arg: i32) -> BTreeMap<usize, u8> {
    let function = &code.functions[function];
    let mut regs = [Value::Unknown; 11];
    regs[1] = Value::Context;
    regs[10] = Value::Stack(0);
    let mut todo = vec![State {
        pc: function.start,
        regs,
        slots: BTreeMap::new(),
    }];
    let (mut seen, mut used) = (BTreeSet::new(), BTreeMap::new());
    while let Some(mut state) = todo.pop() {
        // Follows the path until it ends, or until it reaches a branch without the argument or in a
        // state that was already examined.
        while state.pc < function.end && seen.len() < MAX_STATES {
            let insn = code.insns[state.pc];
            let branch = matches!(insn.op & CLASS, JMP | JMP32) && insn.op != CALL;
            if branch && (!state.has_argument() || !seen.insert(state.clone())) {
                break;
            }
            if let Some(reg) = base(&insn)
                && state.regs[reg as usize] == Value::MaybeNull
            {
                used.insert(state.pc, reg);
                break;
            }
            match step(&mut state, &insn, arg) {
                Next::On => state.pc += 1,
                Next::Jump => state.pc = target(state.pc, &insn),
                Next::Either(other) => {
                    todo.push(State {
                        pc: target(state.pc, &insn),
                        ..*other
                    });
                    state.pc += 1;
                }
                Next::End => break,
            }
        }
    }
    used
}

/// The instructions that may be executed next.
enum Next {
    On,
    Jump,
    /// Either the next instruction or the target of the jump. Contains the state at the target.
    Either(Box<State>),
    End,
}

fn target(pc: usize, insn: &Insn) -> usize {
    (pc as i64 + 1 + i64::from(insn.off)) as usize
}

const CLASS: u8 = 7;
const LD: u8 = 0;
const LDX: u8 = 1;
const ST: u8 = 2;
const STX: u8 = 3;
const ALU: u8 = 4;
const JMP: u8 = 5;
const JMP32: u8 = 6;
const ALU64: u8 = 7;
const MOV: u8 = 0xb0;
const ADD: u8 = 0x00;
const BY_REGISTER: u8 = 8;

/// Returns the register that contains the address if an instruction accesses memory.
fn base(insn: &Insn) -> Option<u8> {
    match insn.op & CLASS {
        LDX => Some(insn.src),
        ST | STX if insn.op != TRAP => Some(insn.dst),
        _ => None,
    }
}

/// Updates the state according to one instruction.
fn step(state: &mut State, insn: &Insn, arg: i32) -> Next {
    let (dst, src) = (insn.dst as usize, insn.src as usize);
    match insn.op & CLASS {
        _ if insn.op == TRAP => return Next::End,
        LD if insn.op == LD_IMM64 => state.regs[dst] = Value::Const(insn.imm),
        LDX => {
            state.regs[dst] = match state.regs[src] {
                Value::Context if insn.off == arg => Value::MaybeNull,
                Value::Stack(at) => state.slots.get(&(at + insn.off)).copied().unwrap_or(Value::Unknown),
                _ => Value::Unknown,
            };
        }
        ST | STX => {
            if let Value::Stack(at) = state.regs[dst] {
                let whole = insn.op & CLASS == STX && insn.op & 0xe0 == 0x60;
                state
                    .slots
                    .retain(|&slot, _| slot + 8 <= at + insn.off || at + insn.off + 8 <= slot);
                if whole && state.regs[src] != Value::Unknown {
                    state.slots.insert(at + insn.off, state.regs[src]);
                }
            }
        }
        ALU | ALU64 => state.regs[dst] = alu(state, insn),
        JMP | JMP32 => return jump(state, insn),
        _ => {}
    }
    Next::On
}

fn operand(state: &State, insn: &Insn) -> Value {
    if insn.op & BY_REGISTER != 0 {
        state.regs[insn.src as usize]
    } else {
        Value::Const(insn.imm)
    }
}

fn alu(state: &State, insn: &Insn) -> Value {
    let wide = insn.op & CLASS == ALU64;
    match (insn.op & 0xf0, state.regs[insn.dst as usize], operand(state, insn)) {
        // A narrow move or a move with sign extension changes the value, so its result is not
        // tracked.
        (MOV, _, value) if insn.off == 0 && wide => value,
        (MOV, _, Value::Const(value)) if insn.off == 0 => Value::Const(i64::from(value as u32)),
        (ADD, Value::Stack(at), Value::Const(by)) if wide => Value::Stack(at + by as i32),
        // The argument plus a constant also counts as untested.
        (ADD, Value::MaybeNull, Value::Const(_)) if wide => Value::MaybeNull,
        _ => Value::Unknown,
    }
}

fn jump(state: &mut State, insn: &Insn) -> Next {
    match insn.op {
        CALL => {
            for reg in &mut state.regs[..6] {
                *reg = Value::Unknown;
            }
            return Next::On;
        }
        0x95 => return Next::End,
        // The instructions ja and gotol, which always jump.
        0x05 | 0x06 => return Next::Jump,
        _ => {}
    }
    let (dst, value) = (insn.dst as usize, operand(state, insn));
    let equal = insn.op & 0xf0 == 0x10;
    let unequal = insn.op & 0xf0 == 0x50;
    match (state.regs[dst], value) {
        (Value::Const(a), Value::Const(b)) if (equal || unequal) && insn.op & CLASS == JMP => {
            if (a == b) == equal {
                Next::Jump
            } else {
                Next::On
            }
        }
        (Value::MaybeNull, Value::Const(0)) if equal || unequal => {
            let (mut null, mut tested) = (state.clone(), state.clone());
            settle(&mut null, Value::Const(0));
            settle(&mut tested, Value::Unknown);
            let (jumps, stays) = if equal { (null, tested) } else { (tested, null) };
            *state = stays;
            Next::Either(Box::new(jumps))
        }
        _ => Next::Either(Box::new(state.clone())),
    }
}

/// Replaces all copies of the untested argument by `value`, because the argument has been tested.
fn settle(state: &mut State, value: Value) {
    for held in state.regs.iter_mut().chain(state.slots.values_mut()) {
        if *held == Value::MaybeNull {
            *held = value;
        }
    }
}
