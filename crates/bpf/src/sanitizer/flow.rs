// SPDX-License-Identifier: GPL-2.0-only
//! Analyses the values of registers once, when a program is loaded with the sanitizer.
//!
//! The analysis follows each function's code. It finds instructions that may read a register
//! without a value. It also finds instructions that add a number to a pointer, if the kernel's
//! verifier would not know the number. Such a number, and the register that holds it, are called
//! variable here. At run time the sanitizer tests only the instructions that the analysis found.
//!
//! The command `check` uses the same analysis to report reads of registers that have no value on any
//! path, and accesses through the constant NULL.
//!
//! If the analysis is not sure, it reports nothing. It calls a register variable only if two
//! conditions hold on all paths: the register's value comes from memory or a helper, and it was
//! not compared with a constant. A load from the stack or from read-only globals does not make a
//! register variable.

use super::objects::Objects;
use crate::image::{CALL, CALL_FUNCTION, Function, Insn, LD_IMM64, TRAP};
use crate::insn::{self, alu, atomic, class, jmp};

/// The checks that the sanitizer makes before an instruction, as a set of bits. Each of bits 0 to
/// 10 stands for the register with this number, and is set if the register may have no value.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct RegisterChecks(pub u16);

impl RegisterChecks {
    /// Set for an addition whose source register may hold a number that the verifier does not know.
    /// The register may hold a pointer instead.
    const SRC_VARIES: u16 = 1 << 11;
    /// Set for an addition whose destination register may hold a number that the verifier does not
    /// know. The register may hold a pointer instead.
    const DST_VARIES: u16 = 1 << 12;

    /// Returns the registers that may have no value.
    pub fn unset(self) -> impl Iterator<Item = u8> {
        (0..11).filter(move |register| self.0 >> register & 1 != 0)
    }

    /// Returns two conditions: whether the source register is variable if it holds a number, and
    /// whether the destination register is variable if it holds a number.
    pub fn varies(self) -> (bool, bool) {
        (
            self.0 & RegisterChecks::SRC_VARIES != 0,
            self.0 & RegisterChecks::DST_VARIES != 0,
        )
    }
}

/// Facts about a register's value that are known without running the program.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Known {
    /// Whether the register may have no value.
    unset: bool,
    /// Whether the register has no value on any path.
    surely_unset: bool,
    /// Whether the register is the constant NULL on all paths, and was not compared with anything.
    surely_null: bool,
    /// Whether the register is variable: if it holds a number, the verifier does not know the
    /// number. True only if this holds on all paths.
    varies: bool,
    /// Whether the register may point into the stack or into read-only globals. The verifier knows
    /// the values that are stored there.
    known_memory: bool,
}

type Registers = [Known; 11];

impl Known {
    const UNSET: Known = Known {
        unset: true,
        surely_unset: true,
        surely_null: false,
        varies: false,
        known_memory: false,
    };
    const VARIES: Known = Known {
        unset: false,
        surely_unset: false,
        surely_null: false,
        varies: true,
        known_memory: false,
    };
    const NULL: Known = Known {
        unset: false,
        surely_unset: false,
        surely_null: true,
        varies: false,
        known_memory: false,
    };

    /// Returns the facts about a register at a point where two paths meet.
    fn join(self, other: Known) -> Known {
        Known {
            unset: self.unset | other.unset,
            surely_unset: self.surely_unset & other.surely_unset,
            surely_null: self.surely_null & other.surely_null,
            varies: self.varies & other.varies,
            known_memory: self.known_memory | other.known_memory,
        }
    }
}

/// Returns, for each instruction, the checks that the sanitizer makes before it.
pub(super) fn register_checks(insns: &[Insn], functions: &[Function], objects: &Objects) -> Vec<RegisterChecks> {
    let mut register_checks = vec![RegisterChecks::default(); insns.len()];
    for function in functions {
        // Whether an argument has a value is known only when the function is called.
        let before = follow(insns, function, 0, objects);
        for (pc, known) in (function.start..).zip(before) {
            if let Some(known) = known {
                register_checks[pc] = checks_before(&insns[pc], &known);
            }
        }
    }
    register_checks
}

/// An error that an instruction has on all paths that lead to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Error {
    /// The instruction reads this register, which has no value.
    Unset(u8),
    /// The instruction accesses memory through the constant NULL.
    Null,
}

/// Returns the instructions of a function that have an error, whatever path leads to them. `args` is
/// the number of arguments of the function. `arguments` returns a bit set of the registers that a
/// call reads.
pub(super) fn errors(
    insns: &[Insn],
    function: &Function,
    args: usize,
    objects: &Objects,
    arguments: impl Fn(&Insn) -> u16,
) -> Vec<(usize, Error)> {
    let mut errors = Vec::new();
    for (pc, known) in (function.start..).zip(follow(insns, function, args, objects)) {
        let (Some(known), i) = (known, &insns[pc]) else {
            continue;
        };
        let read = match i.op {
            CALL => arguments(i),
            insn::EXIT => 1,
            _ => reads(i),
        };
        let unset = (0..11).filter(|&n| read >> n & 1 != 0 && known[usize::from(n)].surely_unset);
        errors.extend(unset.map(|register| (pc, Error::Unset(register))));
        let base = match class(i.op) {
            insn::LDX => Some(i.src),
            insn::ST | insn::STX if i.op != TRAP => Some(i.dst),
            _ => None,
        };
        if base.is_some_and(|base| known[usize::from(base)].surely_null) {
            errors.push((pc, Error::Null));
        }
    }
    errors
}

/// Follows all paths through a function with `args` arguments until the facts about its registers no
/// longer change. Returns, for each instruction, the facts before it. `None` marks an instruction
/// that no path reaches.
fn follow(insns: &[Insn], function: &Function, args: usize, objects: &Objects) -> Vec<Option<Registers>> {
    let start = function.start;
    let mut before: Vec<Option<Registers>> = vec![None; function.end - start];
    let mut at_entry = [Known::UNSET; 11];
    at_entry[1..=args].fill(Known::default());
    at_entry[10] = Known {
        known_memory: true,
        ..Known::default()
    };
    let mut todo = vec![(start, at_entry)];
    while let Some((pc, arriving)) = todo.pop() {
        if !(start..function.end).contains(&pc) {
            continue;
        }
        let known = &mut before[pc - start];
        let merged = match *known {
            None => arriving,
            Some(known) => std::array::from_fn(|n| known[n].join(arriving[n])),
        };
        if *known == Some(merged) {
            continue;
        }
        *known = Some(merged);
        let i = &insns[pc];
        let mut after = merged;
        step(i, &mut after, objects);
        if insn::is_jump(i.op) {
            todo.push(((pc as i64 + 1 + i64::from(i.off)) as usize, after));
        }
        if !matches!(i.op, insn::EXIT | insn::GOTO | insn::GOTOL | TRAP) {
            todo.push((pc + 1, after));
        }
    }
    before
}

/// Returns the registers that an instruction reads. The arguments of a call are not included.
pub(super) fn reads(i: &Insn) -> u16 {
    let (dst, src) = (1 << i.dst, 1 << i.src);
    let source = if i.op & insn::X != 0 { src } else { 0 };
    match class(i.op) {
        insn::ALU64 | insn::ALU => match i.op & 0xf0 {
            alu::MOV => source,
            alu::NEG | alu::END => dst,
            _ => dst | source,
        },
        insn::LDX => src,
        insn::ST => dst,
        insn::STX if i.op & 0xe0 == insn::ATOMIC => match i.imm {
            atomic::LOAD_ACQUIRE => src,
            atomic::CMPXCHG => dst | src | 1,
            _ => dst | src,
        },
        insn::STX => dst | src,
        _ if insn::is_jump(i.op) && !matches!(i.op, insn::GOTO | insn::GOTOL | insn::MAY_GOTO) => dst | source,
        _ => 0,
    }
}

/// Returns the checks for an instruction, from the facts that are known before it.
fn checks_before(i: &Insn, known: &Registers) -> RegisterChecks {
    let mut checks_before = 0;
    for (n, known) in known.iter().enumerate() {
        if known.unset {
            checks_before |= reads(i) & 1 << n;
        }
    }
    let op = i.op & 0xf0;
    if class(i.op) == insn::ALU64 && i.op & insn::X != 0 && matches!(op, alu::ADD | alu::SUB) {
        if known[usize::from(i.src)].varies {
            checks_before |= RegisterChecks::SRC_VARIES;
        }
        if known[usize::from(i.dst)].varies && op == alu::ADD {
            checks_before |= RegisterChecks::DST_VARIES;
        }
    }
    RegisterChecks(checks_before)
}

/// Updates the facts about the registers according to the effect of an instruction.
fn step(i: &Insn, known: &mut Registers, objects: &Objects) {
    let read = reads(i);
    for (n, known) in known.iter_mut().enumerate() {
        if read >> n & 1 != 0 {
            (known.unset, known.surely_unset) = (false, false);
        }
    }
    let (dst, src) = (usize::from(i.dst), usize::from(i.src));
    let register = i.op & insn::X != 0;
    match class(i.op) {
        insn::ALU64 | insn::ALU => {
            let wide = class(i.op) == insn::ALU64;
            let (to, from) = (known[dst], known[src]);
            known[dst] = match i.op & 0xf0 {
                alu::MOV if register => Known {
                    known_memory: from.known_memory && wide,
                    ..from
                },
                alu::MOV if i.imm == 0 => Known::NULL,
                alu::MOV => Known::default(),
                alu::AND | alu::MUL if !register && i.imm == 0 => Known::default(),
                alu::ADD | alu::SUB if wide => Known {
                    unset: false,
                    surely_unset: false,
                    surely_null: false,
                    varies: to.varies || register && from.varies,
                    known_memory: to.known_memory || register && from.known_memory,
                },
                _ => Known {
                    unset: false,
                    surely_unset: false,
                    surely_null: false,
                    varies: to.varies || register && from.varies,
                    known_memory: false,
                },
            };
        }
        insn::LD if i.op == LD_IMM64 => {
            known[dst] = Known {
                known_memory: objects.is_constant(i.imm as u64),
                ..Known::default()
            };
        }
        insn::LDX => {
            known[dst] = Known {
                varies: !known[src].known_memory,
                ..Known::default()
            };
        }
        insn::STX if i.op & 0xe0 == insn::ATOMIC => match i.imm {
            atomic::LOAD_ACQUIRE => known[dst] = Known::VARIES,
            atomic::STORE_RELEASE => {}
            atomic::CMPXCHG => known[0] = Known::VARIES,
            op if op & atomic::FETCH != 0 => known[src] = Known::VARIES,
            _ => {}
        },
        _ if i.op == CALL => {
            known[0] = Known {
                unset: true,
                surely_unset: false,
                surely_null: false,
                varies: i.src != CALL_FUNCTION,
                known_memory: false,
            };
            known[1..6].fill(Known::UNSET);
        }
        _ if insn::is_jump(i.op) && !matches!(i.op, insn::GOTO | insn::GOTOL | insn::MAY_GOTO) => {
            known[dst].surely_null = false;
            if register {
                known[src].surely_null = false;
            }
            // On one of the two paths after this comparison, the verifier may know the register's
            // value, because only one value is possible.
            let single = matches!(i.op & 0xf0, jmp::JEQ | jmp::JNE) || !register && (0..=1).contains(&i.imm);
            if single {
                known[dst].varies = false;
                if register {
                    known[src].varies = false;
                }
            }
        }
        _ => {}
    }
}

/// Returns whether the instruction adds to or subtracts from a 64-bit register.
#[inline(always)]
pub(crate) fn moves(i: &Insn) -> bool {
    class(i.op) == insn::ALU64 && matches!(i.op & 0xf0, alu::ADD | alu::SUB)
}

/// Returns whether the instruction compares with NULL or with another pointer.
#[inline(always)]
pub(crate) fn tests(i: &Insn) -> bool {
    class(i.op) == insn::JMP && matches!(i.op & 0xf0, jmp::JEQ | jmp::JNE) && (i.op & insn::X != 0 || i.imm == 0)
}
