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

use super::callee::{Callee, Effect, Names};
use super::signature::Arg;
use crate::image::{CALL, CALL_FUNCTION, Function, Insn, LD_IMM64, TRAP};
use crate::insn::{self, FP, alu, atomic, class, jmp};
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

/// Knowledge about the content of a register or stack slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    /// Anything, and nothing is known about it.
    Any,
    /// A number or pointer that is not known. Copies have the same number, so what the program finds
    /// out about one of them holds for all.
    Some(u32),
    Number(i64),
    /// Frame pointer plus an offset in bytes.
    Stack(i32),
    /// The pointer, which the program has not compared with NULL.
    Pointer,
    /// The pointer, of which the program knows that it is NULL.
    Null,
}

/// A comparison of an unknown value with a constant: the value's number, the opcode and the
/// constant.
type Comparison = (u32, u8, i64);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    pc: usize,
    registers: [Value; 11],
    /// Known contents of stack slots, by their offsets in bytes.
    slots: BTreeMap<i32, Value>,
    /// Results of comparisons on this path.
    compared: BTreeMap<Comparison, bool>,
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
        // The same call returns another pointer, which a search of its own follows.
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

/// The instructions that may be executed next.
enum Next {
    On,
    Jump,
    /// Either the next instruction or the target of the jump. Contains the state at the target.
    Either(Box<State>),
    End,
}

fn target(pc: usize, i: &Insn) -> usize {
    (pc as i64 + 1 + i64::from(i.off)) as usize
}

/// Number of the unknown content of a stack slot.
fn slot_number(at: i32) -> u32 {
    1 << 31 | at.unsigned_abs()
}

impl State {
    fn has_pointer(&self) -> bool {
        let mut known = self.registers.iter().chain(self.slots.values());
        known.any(|value| matches!(value, Value::Pointer | Value::Null))
    }

    /// Forgets registers that are not read later, and comparisons of values that are gone. Equal
    /// states then become equal.
    fn forget(&mut self, live: u16) {
        for (n, value) in self.registers.iter_mut().enumerate() {
            if live >> n & 1 == 0 && n != usize::from(FP) {
                *value = Value::Any;
            }
        }
        let used: BTreeSet<Value> = self.registers.iter().chain(self.slots.values()).copied().collect();
        let slots = &self.slots;
        self.compared.retain(|&(number, ..), _| {
            let in_slot = || number >> 31 == 1 && !slots.contains_key(&-((number & !(1 << 31)) as i32));
            used.contains(&Value::Some(number)) || in_slot()
        });
    }

    /// Returns a value about which nothing is known yet, for the result of instruction `pc`.
    fn fresh(&mut self, pc: usize) -> Value {
        let number = 16 + pc as u32;
        // In a loop, the instruction may have had another result before.
        for value in self.registers.iter_mut().chain(self.slots.values_mut()) {
            if *value == Value::Some(number) {
                *value = Value::Any;
            }
        }
        self.compared.retain(|comparison, _| comparison.0 != number);
        Value::Some(number)
    }

    fn set(&mut self, register: usize, value: Value) {
        self.registers[register] = value;
    }

    fn slot(&self, at: i32) -> Value {
        self.slots.get(&at).copied().unwrap_or(Value::Some(slot_number(at)))
    }

    fn store(&mut self, i: &Insn, pc: usize) {
        let is_plain = i.op & 0xe0 == insn::MEM;
        if let Value::Stack(at) = self.registers[usize::from(i.dst)] {
            let (start, end) = (at + i.off, at + i.off + insn::size(i.op) as i32);
            for slot in start - 7..end {
                if slot % 8 == 0 || self.slots.contains_key(&slot) {
                    self.slots.insert(slot, Value::Any);
                }
            }
            if is_plain && insn::size(i.op) == 8 {
                let value = match class(i.op) {
                    insn::ST => Value::Number(i.imm),
                    _ => self.registers[usize::from(i.src)],
                };
                self.slots.insert(start, value);
            }
        }
        if !is_plain {
            let changed = match i.imm {
                atomic::LOAD_ACQUIRE => Some(i.dst),
                atomic::STORE_RELEASE => None,
                atomic::CMPXCHG => Some(0),
                op if op & atomic::FETCH != 0 => Some(i.src),
                _ => None,
            };
            if let Some(register) = changed {
                let value = self.fresh(pc);
                self.set(usize::from(register), value);
            }
        }
    }

    fn operand(&self, i: &Insn) -> Value {
        match i.op & insn::X {
            0 => Value::Number(i.imm),
            _ => self.registers[usize::from(i.src)],
        }
    }

    fn arithmetic(&self, i: &Insn) -> Value {
        let wide = class(i.op) == insn::ALU64;
        let narrow = |value: i64| if wide { value } else { i64::from(value as u32) };
        let (op, own, other) = (i.op & 0xf0, self.registers[usize::from(i.dst)], self.operand(i));
        match (op, own, other) {
            // A narrow move or a move with sign extension changes the value.
            (alu::MOV, _, value) if i.off == 0 && wide => value,
            (alu::MOV, _, Value::Number(value)) if i.off == 0 => Value::Number(narrow(value)),
            (alu::ADD, Value::Stack(at), Value::Number(by)) if wide => Value::Stack(at.wrapping_add(by as i32)),
            (_, Value::Number(a), Value::Number(b)) if i.off == 0 => match op {
                alu::ADD => Value::Number(narrow(a.wrapping_add(b))),
                alu::SUB => Value::Number(narrow(a.wrapping_sub(b))),
                alu::MUL => Value::Number(narrow(a.wrapping_mul(b))),
                alu::OR => Value::Number(narrow(a | b)),
                alu::AND => Value::Number(narrow(a & b)),
                alu::XOR => Value::Number(narrow(a ^ b)),
                _ => Value::Any,
            },
            _ => Value::Any,
        }
    }

    fn jump(&mut self, i: &Insn) -> Next {
        match i.op {
            insn::GOTO | insn::GOTOL => return Next::Jump,
            insn::MAY_GOTO => return Next::Either(Box::new(self.clone())),
            _ => {}
        }
        let wide = class(i.op) == insn::JMP;
        let equality = matches!(i.op & 0xf0, jmp::JEQ | jmp::JNE);
        let (own, other) = (self.registers[usize::from(i.dst)], self.operand(i));
        match (own, other) {
            (Value::Number(a), Value::Number(b)) => match holds(i.op, a, b) {
                true => Next::Jump,
                false => Next::On,
            },
            (Value::Null, Value::Number(b)) => match holds(i.op, 0, b) {
                true => Next::Jump,
                false => Next::On,
            },
            (Value::Pointer, Value::Number(0)) if equality && wide => {
                let (mut null, mut valid) = (self.clone(), self.clone());
                null.replace_pointer(Value::Null);
                valid.replace_pointer(Value::Any);
                let (jumps, stays) = match i.op & 0xf0 {
                    jmp::JEQ => (null, valid),
                    _ => (valid, null),
                };
                *self = stays;
                Next::Either(Box::new(jumps))
            }
            (Value::Pointer, _) | (_, Value::Pointer) => {
                self.replace_pointer(Value::Any);
                Next::Either(Box::new(self.clone()))
            }
            (Value::Some(number), Value::Number(constant)) => self.compare(number, i.op & !insn::X, constant),
            _ => Next::Either(Box::new(self.clone())),
        }
    }

    /// Follows a comparison of an unknown value with a constant. If the path has compared the value
    /// before, the outcome may be known.
    fn compare(&mut self, number: u32, op: u8, constant: i64) -> Next {
        if let Some(known) = self.known_outcome(number, op, constant) {
            return if known { Next::Jump } else { Next::On };
        }
        let mut jumps = self.clone();
        jumps.compared.insert((number, op, constant), true);
        self.compared.insert((number, op, constant), false);
        let wide = class(op) == insn::JMP;
        match op & 0xf0 {
            jmp::JEQ if wide => jumps.replace(number, constant),
            jmp::JNE if wide => self.replace(number, constant),
            _ => {}
        }
        Next::Either(Box::new(jumps))
    }

    /// Returns the outcome of a comparison if earlier comparisons of the same value determine it.
    fn known_outcome(&self, number: u32, op: u8, constant: i64) -> Option<bool> {
        let narrow = class(op) == insn::JMP32;
        let bits = |value: i64| if narrow { u64::from(value as u32) } else { value as u64 };
        let (mut low, mut high) = (0, if narrow { u64::from(u32::MAX) } else { u64::MAX });
        let mut excluded = Vec::new();
        for (&(_, known, bound), &outcome) in self.compared.range((number, 0, i64::MIN)..=(number, u8::MAX, i64::MAX)) {
            if known == op && bound == constant {
                return Some(outcome);
            }
            if (class(known) == insn::JMP32) != narrow {
                continue;
            }
            let bound = bits(bound);
            match (known & 0xf0, outcome) {
                (jmp::JEQ, true) | (jmp::JNE, false) => (low, high) = (bound, bound),
                (jmp::JEQ, false) | (jmp::JNE, true) => excluded.push(bound),
                (jmp::JGT, true) | (jmp::JLE, false) => low = low.max(bound.saturating_add(1)),
                (jmp::JGT, false) | (jmp::JLE, true) => high = high.min(bound),
                (jmp::JGE, true) | (jmp::JLT, false) => low = low.max(bound),
                (jmp::JGE, false) | (jmp::JLT, true) => high = high.min(bound.saturating_sub(1)),
                _ => {}
            }
        }
        while excluded.contains(&low) && low < high {
            low += 1;
        }
        while excluded.contains(&high) && low < high {
            high -= 1;
        }
        let bound = bits(constant);
        let (always, never) = match op & 0xf0 {
            jmp::JEQ => (
                low == high && low == bound,
                bound < low || bound > high || excluded.contains(&bound),
            ),
            jmp::JNE => (
                bound < low || bound > high || excluded.contains(&bound),
                low == high && low == bound,
            ),
            jmp::JGT => (low > bound, high <= bound),
            jmp::JGE => (low >= bound, high < bound),
            jmp::JLT => (high < bound, low >= bound),
            jmp::JLE => (high <= bound, low > bound),
            _ => (false, false),
        };
        match (always, never) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// Replaces all copies of an unknown value by a number.
    fn replace(&mut self, number: u32, constant: i64) {
        for value in self.registers.iter_mut().chain(self.slots.values_mut()) {
            if *value == Value::Some(number) {
                *value = Value::Number(constant);
            }
        }
        if number >> 31 == 1 {
            let at = -((number & !(1 << 31)) as i32);
            self.slots.entry(at).or_insert(Value::Number(constant));
        }
    }

    /// Replaces all copies of the pointer.
    fn replace_pointer(&mut self, by: Value) {
        for value in self.registers.iter_mut().chain(self.slots.values_mut()) {
            if *value == Value::Pointer {
                *value = by;
            }
        }
    }
}

/// Returns the outcome of a comparison of two numbers.
fn holds(op: u8, a: i64, b: i64) -> bool {
    let (a, b) = match class(op) {
        insn::JMP32 => (i64::from(a as i32), i64::from(b as i32)),
        _ => (a, b),
    };
    let unsigned = |value: i64| match class(op) {
        insn::JMP32 => u64::from(value as u32),
        _ => value as u64,
    };
    let (x, y) = (unsigned(a), unsigned(b));
    match op & 0xf0 {
        jmp::JEQ => x == y,
        jmp::JNE => x != y,
        jmp::JGT => x > y,
        jmp::JGE => x >= y,
        jmp::JLT => x < y,
        jmp::JLE => x <= y,
        jmp::JSGT => a > b,
        jmp::JSGE => a >= b,
        jmp::JSLT => a < b,
        jmp::JSLE => a <= b,
        jmp::JSET => x & y != 0,
        _ => false,
    }
}
