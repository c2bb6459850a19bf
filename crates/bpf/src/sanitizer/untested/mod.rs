// SPDX-License-Identifier: GPL-2.0-only
//! Finds uses of pointers that may be NULL, without running the program. The command `check` reports
//! them.
//!
//! A search begins at each call that may return NULL. It follows the paths through the function
//! until the program has compared the pointer with NULL, or no register and stack slot has the
//! pointer any more. On the way it remembers which numbers are known, so that it does not follow
//! paths that the verifier knows to be impossible. If a search needs too many steps, it ends without
//! a finding.
//!
//! The search errs on the side of silence. A pointer counts as compared if it is compared with
//! anything, or passed to another function of the program.

mod state;

use self::state::{Next, State, Value, target};
use super::callee::{Callee, Effect, Names};
use super::signature::Arg;
use crate::image::{CALL, CALL_FUNCTION, Function, Insn, LD_IMM64, TRAP};
use crate::insn::{self, alu, atomic, class};
use crate::map::Map;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Maximum number of states at branches that one search examines.
const MAX_STATES: usize = 4000;

/// A use of a pointer that is or may be NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// Instruction that uses the pointer.
    pub pc: usize,
    /// Call that returned the pointer.
    pub call: usize,
    /// Whether the program has found out before that the pointer is NULL.
    pub is_null: bool,
    pub how: How,
}

/// How a pointer is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum How {
    Load(u64),
    Store(u64),
    Arithmetic,
    /// As an argument of the function with this name.
    Argument(&'static str),
}

/// A part of the code, with the functions that it can call.
pub(super) struct Search<'a> {
    pub insns: &'a [Insn],
    pub names: &'a Names,
    pub maps: &'a [Map],
}

impl Search<'_> {
    /// Returns the uses of untested pointers in a function, each instruction once.
    pub fn uses(&self, function: &Function) -> Vec<Use> {
        let live = self.live_registers(function);
        let mut found: BTreeMap<usize, Use> = BTreeMap::new();
        for call in (function.start..function.end).filter(|&pc| self.may_return_null(function, pc)) {
            for used in self.follow(function, &live, call) {
                found.entry(used.pc).or_insert(used);
            }
        }
        found.into_values().collect()
    }

    fn callee(&self, i: &Insn) -> Option<&Rc<Callee>> {
        let is_call = i.op == CALL && i.src != CALL_FUNCTION;
        self.names.get(i).filter(|_| is_call)
    }

    /// Returns whether an instruction calls a function that may return NULL in place of a pointer.
    fn may_return_null(&self, function: &Function, pc: usize) -> bool {
        let Some(callee) = self.callee(&self.insns[pc]) else {
            return false;
        };
        callee.pointer
            && callee.nullable
            && match callee.rules.effect {
                // If the verifier knows the index, it requires no test of an element of an array.
                Effect::Lookup => self
                    .map_at(function, pc)
                    .is_some_and(|map| map.array_layout().is_none()),
                _ => true,
            }
    }

    /// Returns the map that the constant in r1 names at a call.
    fn map_at(&self, function: &Function, pc: usize) -> Option<&Map> {
        let before = self.insns[function.start..pc].iter().rev();
        let straight = before.take_while(|i| !insn::is_jump(i.op) && !matches!(i.op, CALL | insn::EXIT));
        let writes = |i: &&Insn| i.dst == 1 && matches!(class(i.op), insn::LD | insn::LDX | insn::ALU | insn::ALU64);
        let set = straight.into_iter().find(writes).filter(|i| i.op == LD_IMM64)?;
        self.maps.iter().find(|map| map.addr() == set.imm.cast_unsigned())
    }

    /// Returns, for each instruction of a function, a bit set of the registers that are read later.
    fn live_registers(&self, function: &Function) -> Vec<u16> {
        let insns = &self.insns[function.start..function.end];
        let mut live = vec![0u16; insns.len() + 1];
        loop {
            let mut changed = false;
            for (pc, i) in insns.iter().enumerate().rev() {
                let mut after = 0;
                if !matches!(i.op, insn::EXIT | insn::GOTO | insn::GOTOL | TRAP) {
                    after |= live[pc + 1];
                }
                if insn::is_jump(i.op) {
                    let to = pc as i64 + 1 + i64::from(i.off);
                    after |= usize::try_from(to)
                        .ok()
                        .and_then(|to| live.get(to))
                        .copied()
                        .unwrap_or(0);
                }
                let before = match i.op {
                    CALL => after & !0b11_1111 | self.arguments(i),
                    insn::EXIT => 1,
                    LD_IMM64 => after & !(1 << i.dst),
                    _ => after & !written(i) | super::flow::reads(i),
                };
                changed |= before != live[pc];
                live[pc] = before;
            }
            if !changed {
                return live;
            }
        }
    }

    /// Returns a bit set of the registers that a call reads.
    fn arguments(&self, i: &Insn) -> u16 {
        let used = self.callee(i).map_or(5, |callee| callee.used_args.min(5));
        (1 << (used + 1)) - 2
    }

    /// Follows the paths that begin after a call.
    fn follow(&self, function: &Function, live: &[u16], call: usize) -> Vec<Use> {
        let mut registers: [Value; 11] = std::array::from_fn(|n| Value::Some(n as u32));
        registers[0] = Value::Pointer;
        registers[1..6].fill(Value::Any);
        registers[10] = Value::Stack(0);
        let mut todo = vec![State {
            pc: call + 1,
            registers,
            slots: BTreeMap::new(),
            compared: BTreeMap::new(),
        }];
        let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
        while let Some(mut state) = todo.pop() {
            loop {
                if !(function.start..function.end).contains(&state.pc) || !state.has_pointer() {
                    break;
                }
                let i = self.insns[state.pc];
                if insn::is_jump(i.op) {
                    state.forget(live[state.pc - function.start]);
                    if !seen.insert(state.clone()) {
                        break;
                    }
                    if seen.len() > MAX_STATES {
                        return Vec::new();
                    }
                }
                if let Some((is_null, how)) = self.used(&state, &i) {
                    found.push(Use {
                        pc: state.pc,
                        call,
                        is_null,
                        how,
                    });
                    // Later uses have the same cause.
                    break;
                }
                match self.step(&mut state, &i, call) {
                    Next::On => state.pc += 1,
                    Next::Jump => state.pc = target(state.pc, &i),
                    Next::Either(other) => {
                        todo.push(State {
                            pc: target(state.pc, &i),
                            ..*other
                        });
                        state.pc += 1;
                    }
                    Next::End => break,
                }
            }
        }
        found
    }

    /// Returns how an instruction uses the pointer, if it does, and whether the pointer is known to be
    /// NULL.
    fn used(&self, state: &State, i: &Insn) -> Option<(bool, How)> {
        let known = |register: u8| match state.registers[usize::from(register)] {
            Value::Pointer => Some(false),
            Value::Null => Some(true),
            _ => None,
        };
        let size = insn::size(i.op);
        match class(i.op) {
            insn::LDX => Some((known(i.src)?, How::Load(size))),
            insn::STX if i.op & 0xe0 == insn::ATOMIC && i.imm == atomic::LOAD_ACQUIRE => {
                Some((known(i.src)?, How::Load(size)))
            }
            insn::ST | insn::STX if i.op != TRAP => Some((known(i.dst)?, How::Store(size))),
            insn::ALU64 if matches!(i.op & 0xf0, alu::ADD | alu::SUB) => {
                let operand = || known(i.src).filter(|_| i.op & insn::X != 0 && i.op & 0xf0 == alu::ADD);
                // NULL plus a number is only a number.
                let is_null = known(i.dst).or_else(operand)?;
                (!is_null).then_some((false, How::Arithmetic))
            }
            _ if i.op == CALL => {
                let callee = self.callee(i)?;
                (0..callee.used_args.min(5).min(callee.args.len())).find_map(|n| {
                    let is_null = known(n as u8 + 1).filter(|_| needs_object(callee, n))?;
                    Some((is_null, How::Argument(callee.name)))
                })
            }
            _ => None,
        }
    }

    /// Updates the state according to one instruction.
    fn step(&self, state: &mut State, i: &Insn, call: usize) -> Next {
        let pc = state.pc;
        let (dst, src) = (usize::from(i.dst), usize::from(i.src));
        match class(i.op) {
            _ if i.op == TRAP => return Next::End,
            insn::LD if i.op == LD_IMM64 => state.set(dst, Value::Number(i.imm)),
            insn::LDX => {
                let whole = i.op & 0xe0 == insn::MEM && insn::size(i.op) == 8;
                let value = match state.registers[src] {
                    Value::Stack(at) if whole => state.slot(at + i.off),
                    _ => state.fresh(pc),
                };
                state.set(dst, value);
            }
            insn::ST | insn::STX => state.store(i, pc),
            insn::ALU | insn::ALU64 => {
                let value = state.arithmetic(i);
                let value = if value == Value::Any { state.fresh(pc) } else { value };
                state.set(dst, value);
            }
            _ if i.op == CALL => return self.call(state, i, call),
            _ if i.op == insn::EXIT => return Next::End,
            _ if insn::is_jump(i.op) => return state.jump(i),
            _ => {}
        }
        Next::On
    }

    fn call(&self, state: &mut State, i: &Insn, call: usize) -> Next {
        let has_pointer = |value: &Value| matches!(value, Value::Pointer | Value::Null);
        let arguments = &state.registers[1..6];
        if i.src == CALL_FUNCTION && arguments.iter().any(has_pointer) {
            return Next::End;
        }
        // The function may write to the stack through its arguments.
        let lowest = arguments.iter().filter_map(|value| match value {
            Value::Stack(at) => Some(*at),
            _ => None,
        });
        if let Some(lowest) = lowest.min() {
            state
                .slots
                .retain(|&at, value| at != lowest && (at < lowest || has_pointer(value)));
            state.slots.insert(lowest, Value::Any);
        }
        // The same call returns another pointer. Another search follows it.
        if state.pc == call {
            return Next::End;
        }
        let result = state.fresh(state.pc);
        state.set(0, result);
        for register in 1..6 {
            state.set(register, Value::Any);
        }
        Next::On
    }
}

/// Returns whether an argument must be an object.
fn needs_object(callee: &Callee, n: usize) -> bool {
    match callee.args[n] {
        Arg::Kernel { or_null, .. } => !or_null,
        Arg::Mask | Arg::OwnMask(_) | Arg::Field(_) | Arg::PerCpu => true,
        _ => match callee.rules.effect {
            Effect::Release => n == 0,
            Effect::GraphAdd => n == 1,
            _ => false,
        },
    }
}

/// Returns a bit set of the registers that an instruction overwrites without reading them.
fn written(i: &Insn) -> u16 {
    match class(i.op) {
        insn::LDX => 1 << i.dst,
        insn::ALU | insn::ALU64 if i.op & 0xf0 == alu::MOV => 1 << i.dst,
        _ => 0,
    }
}
