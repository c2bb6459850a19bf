// SPDX-License-Identifier: GPL-2.0-only
//! What is known at a point of a path: the contents of registers and stack slots, and the results of
//! comparisons.

use crate::image::Insn;
use crate::insn::{self, FP, alu, atomic, class, jmp};
use std::collections::{BTreeMap, BTreeSet};

/// Knowledge about the content of a register or stack slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value {
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
pub(super) struct State {
    pub(super) pc: usize,
    pub(super) registers: [Value; 11],
    /// Known contents of stack slots, by their offsets in bytes.
    pub(super) slots: BTreeMap<i32, Value>,
    /// Results of comparisons on this path.
    pub(super) compared: BTreeMap<Comparison, bool>,
}

/// The instructions that may be executed next.
pub(super) enum Next {
    On,
    Jump,
    /// Either the next instruction or the target of the jump. Contains the state at the target.
    Either(Box<State>),
    End,
}

pub(super) fn target(pc: usize, i: &Insn) -> usize {
    (pc as i64 + 1 + i64::from(i.off)) as usize
}

/// Number of the unknown content of a stack slot.
pub(super) fn slot_number(at: i32) -> u32 {
    1 << 31 | at.unsigned_abs()
}

impl State {
    pub(super) fn has_pointer(&self) -> bool {
        let mut known = self.registers.iter().chain(self.slots.values());
        known.any(|value| matches!(value, Value::Pointer | Value::Null))
    }

    /// Forgets registers that are not read later, and comparisons of values that are gone. Equal
    /// states then become equal.
    pub(super) fn forget(&mut self, live: u16) {
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
    pub(super) fn fresh(&mut self, pc: usize) -> Value {
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

    pub(super) fn set(&mut self, register: usize, value: Value) {
        self.registers[register] = value;
    }

    pub(super) fn slot(&self, at: i32) -> Value {
        self.slots.get(&at).copied().unwrap_or(Value::Some(slot_number(at)))
    }

    pub(super) fn store(&mut self, i: &Insn, pc: usize) {
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

    pub(super) fn operand(&self, i: &Insn) -> Value {
        match i.op & insn::X {
            0 => Value::Number(i.imm),
            _ => self.registers[usize::from(i.src)],
        }
    }

    pub(super) fn arithmetic(&self, i: &Insn) -> Value {
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

    pub(super) fn jump(&mut self, i: &Insn) -> Next {
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
    pub(super) fn compare(&mut self, number: u32, op: u8, constant: i64) -> Next {
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
    pub(super) fn known_outcome(&self, number: u32, op: u8, constant: i64) -> Option<bool> {
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
    pub(super) fn replace(&mut self, number: u32, constant: i64) {
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
    pub(super) fn replace_pointer(&mut self, by: Value) {
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
