// SPDX-License-Identifier: GPL-2.0-only
//! What is known about registers before a program runs, by following each function's code: which instructions may read a register
//! that has no value, and which add an offset that the verifier would call variable. Only those need a look at run time.
//!
//! The analysis errs towards silence. A register counts as variable only if its value comes from memory or from a helper on all
//! paths, and is compared with no constant. A load from the stack or from read-only globals does not count.

use super::objects::Objects;
use super::prov::{Origin, Prov, SCALAR, UNTESTED};
use crate::func::Fault;
use crate::image::{CALL, CALL_FUNCTION, Function, Insn, LD_IMM64};
use crate::insn::{self, alu, atomic, class, jmp};
use crate::interp::pending;
use crate::vm::Context;

/// Checks to make before an instruction: a bit for each register that may have no value, and the bits below.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Look(pub u16);

impl Look {
    /// The source register of an addition is variable if it is a number.
    const SRC_VARIES: u16 = 1 << 11;
    /// The destination register is.
    const DST_VARIES: u16 = 1 << 12;

    /// Registers that may have no value.
    pub fn unset(self) -> impl Iterator<Item = u8> {
        (0..11).filter(move |register| self.0 >> register & 1 != 0)
    }

    /// Whether the source register, the destination register is variable if it is a number.
    pub fn varies(self) -> (bool, bool) {
        (self.0 & Look::SRC_VARIES != 0, self.0 & Look::DST_VARIES != 0)
    }
}

/// Static knowledge about a register's value.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Known {
    /// May have no value.
    unset: bool,
    /// A number that the verifier knows no single value of, on all paths.
    varies: bool,
    /// May point into the stack or into read-only globals, where the verifier knows the values.
    known_memory: bool,
}

type Registers = [Known; 11];

impl Known {
    const UNSET: Known = Known {
        unset: true,
        varies: false,
        known_memory: false,
    };
    const VARIES: Known = Known {
        unset: false,
        varies: true,
        known_memory: false,
    };

    fn join(self, other: Known) -> Known {
        Known {
            unset: self.unset | other.unset,
            varies: self.varies & other.varies,
            known_memory: self.known_memory | other.known_memory,
        }
    }
}

/// By instruction: what to look at before it.
pub(super) fn looks(insns: &[Insn], functions: &[Function], objects: &Objects) -> Vec<Look> {
    let mut looks = vec![Look::default(); insns.len()];
    for function in functions {
        follow(insns, function, objects, &mut looks);
    }
    looks
}

fn follow(insns: &[Insn], function: &Function, objects: &Objects, looks: &mut [Look]) {
    let start = function.start;
    let mut before: Vec<Option<Registers>> = vec![None; function.end - start];
    let mut at_entry = [Known::UNSET; 11];
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
        if !matches!(i.op, insn::EXIT | insn::GOTO | insn::GOTOL) {
            todo.push((pc + 1, after));
        }
    }
    for (pc, known) in before.iter().enumerate() {
        if let Some(known) = known {
            looks[start + pc] = look(&insns[start + pc], known);
        }
    }
}

/// Registers that an instruction reads, a call's arguments apart.
fn reads(i: &Insn) -> u16 {
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

fn look(i: &Insn, known: &Registers) -> Look {
    let mut look = 0;
    for (n, known) in known.iter().enumerate() {
        if known.unset {
            look |= reads(i) & 1 << n;
        }
    }
    let op = i.op & 0xf0;
    if class(i.op) == insn::ALU64 && i.op & insn::X != 0 && matches!(op, alu::ADD | alu::SUB) {
        if known[usize::from(i.src)].varies {
            look |= Look::SRC_VARIES;
        }
        if known[usize::from(i.dst)].varies && op == alu::ADD {
            look |= Look::DST_VARIES;
        }
    }
    Look(look)
}

/// Static knowledge about the registers after an instruction.
fn step(i: &Insn, known: &mut Registers, objects: &Objects) {
    let read = reads(i);
    for (n, known) in known.iter_mut().enumerate() {
        if read >> n & 1 != 0 {
            known.unset = false;
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
                alu::MOV => Known::default(),
                alu::AND | alu::MUL if !register && i.imm == 0 => Known::default(),
                alu::ADD | alu::SUB if wide => Known {
                    unset: false,
                    varies: to.varies || register && from.varies,
                    known_memory: to.known_memory || register && from.known_memory,
                },
                _ => Known {
                    unset: false,
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
                varies: i.src != CALL_FUNCTION,
                known_memory: false,
            };
            known[1..6].fill(Known::UNSET);
        }
        _ if insn::is_jump(i.op) && !matches!(i.op, insn::GOTO | insn::GOTOL | insn::MAY_GOTO) => {
            // A comparison may leave a single value.
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

impl Objects {
    /// Whether an address is one of read-only globals.
    fn is_constant(&self, addr: u64) -> bool {
        let at = self.places.partition_point(|place| place.start <= addr);
        let place = self.places[..at].last().filter(|place| addr < place.end);
        place.is_some_and(|place| !place.writable)
    }
}

/// Does this instruction add to or subtract from a register of 64 bits?
#[inline(always)]
pub(crate) fn moves(i: &Insn) -> bool {
    class(i.op) == insn::ALU64 && matches!(i.op & 0xf0, alu::ADD | alu::SUB)
}

/// Does it compare with NULL, or with another pointer?
#[inline(always)]
pub(crate) fn tests(i: &Insn) -> bool {
    class(i.op) == insn::JMP && matches!(i.op & 0xf0, jmp::JEQ | jmp::JNE) && (i.op & insn::X != 0 || i.imm == 0)
}

/// Looks at the registers that an instruction reads, before it. Did that end the program?
#[inline(always)]
pub(crate) unsafe fn before(cx: *mut Context, pc: usize, i: &Insn, p: &mut [u64; 11]) -> bool {
    let (dst, src) = (usize::from(i.dst), usize::from(i.src));
    // As they are before a variable number makes others of them.
    let (own, other) = (p[dst], if i.op & insn::X != 0 { p[src] } else { SCALAR });
    unsafe {
        let look = super::guard(cx).looks[pc];
        if look != Look::default() {
            look_at(cx, pc, i, p, look);
            if pending(cx) {
                return true;
            }
        }
        if (own | other) & UNTESTED == 0 {
            return false;
        }
        if moves(i) {
            for prov in [own, other] {
                super::move_untested(cx, pc as u64, prov, 0, 0, 0);
                if pending(cx) {
                    return true;
                }
            }
        } else if tests(i) {
            for register in [dst, src] {
                if p[register] & UNTESTED != 0 && (register == dst || i.op & insn::X != 0) {
                    super::test(cx, p[register], 0, 0, 0, 0);
                    p[register] &= !UNTESTED;
                }
            }
        }
    }
    false
}

#[cold]
unsafe fn look_at(cx: *mut Context, pc: usize, i: &Insn, p: &mut [u64; 11], look: Look) {
    let (dst, src) = (usize::from(i.dst), usize::from(i.src));
    unsafe {
        for register in look.unset() {
            super::read(cx, pc as u64, register.into(), p[usize::from(register)], 0, 0);
            if pending(cx) {
                return;
            }
        }
        let (src_varies, dst_varies) = look.varies();
        if src_varies && p[src] == SCALAR {
            p[dst] = super::vary(cx, p[dst], 0, 0, 0, 0);
        } else if dst_varies && p[dst] == SCALAR {
            p[src] = super::vary(cx, p[src], 0, 0, 0, 0);
        }
    }
}

/// A register without a value is read.
pub(super) fn unset(register: u8) -> Fault {
    let what = format!("r{register} is read and has no value");
    super::access::problem("uninitialised", &what, None, Vec::new())
}

impl Prov {
    /// Returns this pointer after a variable number was added: a kernel object's fields are accessed at known places only.
    /// A pointer that may be NULL stays one: the addition itself is the error then.
    pub fn varied(self, objects: &Objects) -> Prov {
        if objects.is_untested(self) {
            return self;
        }
        let of_kernel = match self.origin() {
            Origin::Slab { .. } => true,
            Origin::View { slot, generation } => objects
                .view(slot, generation)
                .is_some_and(|view| matches!(view.kind, super::objects::Kind::Kernel(_))),
            _ => false,
        };
        if of_kernel { Prov::VARIED } else { self }
    }
}
