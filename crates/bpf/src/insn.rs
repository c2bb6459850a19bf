// SPDX-License-Identifier: GPL-2.0-only
//! The eBPF instruction set, with the numbers of RFC 9669 and include/uapi/linux/bpf.h. Also a
//! check that code is well-formed.

use crate::error::Error;
use crate::image::{CALL, CALL_FUNCTION, CALL_HELPER, CALL_KFUNC, Code, Insn, TRAP};

/// Instruction class (low three bits of the opcode) for loads of constants.
pub const LD: u8 = 0x00;
/// Instruction class for loads.
pub const LDX: u8 = 0x01;
/// Instruction class for stores of an immediate.
pub const ST: u8 = 0x02;
/// Instruction class for stores of a register and for atomic operations.
pub const STX: u8 = 0x03;
/// Instruction class for 32-bit arithmetic.
pub const ALU: u8 = 0x04;
/// Instruction class for jumps that compare 64 bits, calls and returns.
pub const JMP: u8 = 0x05;
/// Instruction class for jumps that compare 32 bits.
pub const JMP32: u8 = 0x06;
/// Instruction class for 64-bit arithmetic.
pub const ALU64: u8 = 0x07;

/// Returns the class of an opcode.
#[inline(always)]
pub const fn class(op: u8) -> u8 {
    op & 0x07
}

/// Opcode bit: if it is set, the operand is the source register, otherwise the immediate.
pub const X: u8 = 0x08;

/// Access size of 4 bytes.
pub const W: u8 = 0x00;
/// Access size of 2 bytes.
pub const H: u8 = 0x08;
/// Access size of 1 byte.
pub const B: u8 = 0x10;
/// Access size of 8 bytes.
pub const DW: u8 = 0x18;

/// Returns the number of bytes that a load or store accesses.
#[inline(always)]
pub const fn size(op: u8) -> u64 {
    match op & 0x18 {
        W => 4,
        H => 2,
        B => 1,
        _ => 8,
    }
}

/// Access mode of a plain load or store.
pub const MEM: u8 = 0x60;
/// Access mode of a load that extends the sign.
pub const MEMSX: u8 = 0x80;
/// Access mode of an atomic read-modify-write operation. `imm` selects the operation.
pub const ATOMIC: u8 = 0xc0;

// Arithmetic operations, in the high four bits.
#[allow(missing_docs)]
pub mod alu {
    pub const ADD: u8 = 0x00;
    pub const SUB: u8 = 0x10;
    pub const MUL: u8 = 0x20;
    pub const DIV: u8 = 0x30;
    pub const OR: u8 = 0x40;
    pub const AND: u8 = 0x50;
    pub const LSH: u8 = 0x60;
    pub const RSH: u8 = 0x70;
    pub const NEG: u8 = 0x80;
    pub const MOD: u8 = 0x90;
    pub const XOR: u8 = 0xa0;
    pub const MOV: u8 = 0xb0;
    pub const ARSH: u8 = 0xc0;
    pub const END: u8 = 0xd0;
}

// Jump conditions, in the high four bits.
#[allow(missing_docs)]
pub mod jmp {
    pub const JA: u8 = 0x00;
    pub const JEQ: u8 = 0x10;
    pub const JGT: u8 = 0x20;
    pub const JGE: u8 = 0x30;
    pub const JSET: u8 = 0x40;
    pub const JNE: u8 = 0x50;
    pub const JSGT: u8 = 0x60;
    pub const JSGE: u8 = 0x70;
    pub const JLT: u8 = 0xa0;
    pub const JLE: u8 = 0xb0;
    pub const JSLT: u8 = 0xc0;
    pub const JSLE: u8 = 0xd0;
}

// Atomic operations, in the immediate.
#[allow(missing_docs)]
pub mod atomic {
    pub const ADD: i64 = 0x00;
    pub const OR: i64 = 0x40;
    pub const AND: i64 = 0x50;
    pub const XOR: i64 = 0xa0;
    pub const FETCH: i64 = 0x01;
    pub const XCHG: i64 = 0xe1;
    pub const CMPXCHG: i64 = 0xf1;
    pub const LOAD_ACQUIRE: i64 = 0x100;
    pub const STORE_RELEASE: i64 = 0x110;
}

/// `goto +off`.
pub const GOTO: u8 = JMP | jmp::JA;
/// `gotol`. In an object file, `imm` is the distance. The linker replaces the jump by a [`GOTO`].
/// The engines also execute a `gotol` whose distance is in `off`.
pub const GOTOL: u8 = JMP32 | jmp::JA;
/// `may_goto +off`: continues the loop in which it stands, until the function has used up its
/// iterations ([`MAX_LOOPS`]). Then it jumps, which leaves the loop.
pub const MAY_GOTO: u8 = JMP | 0xe0;
/// Function return.
pub const EXIT: u8 = JMP | 0x90;
/// Value of `off` that turns a 64-bit register move into an address space cast. The cast converts a
/// pointer into an arena: from the address that the kernel uses to the address that user space
/// uses, or back. `imm` is `to << 16 | from`, where `to` and `from` are numbers of address spaces.
pub const CAST: i32 = 1;
/// Value of `imm` for a cast to the user-space address. Any other value casts to the kernel's
/// address.
pub const CAST_USER: i64 = 1 << 16;
/// Number of times that all `may_goto` instructions in one call of a function together may continue
/// a loop: BPF_MAX_LOOPS.
pub const MAX_LOOPS: u32 = 8 << 20;
/// Size of a function's BPF stack frame in bytes, as in the kernel.
pub const FRAME: u64 = 512;
/// Maximum number of nested frames on the BPF stack of one program. The frames of callbacks count,
/// too.
pub(crate) const FRAMES: u64 = 128;
/// Number of the frame pointer, r10.
pub const FP: u8 = 10;

/// Returns whether this is a conditional or unconditional jump within the function.
pub const fn is_jump(op: u8) -> bool {
    matches!(class(op), JMP | JMP32)
        && match op & 0xf0 {
            jmp::JA => op == GOTO || op == GOTOL,
            0x80 | 0x90 | 0xf0 => false,
            0xe0 => op == MAY_GOTO,
            _ => true,
        }
}

/// Checks those properties of code on which the interpreter and the JIT compiler rely:
///
/// - Every instruction belongs to one function, and no function runs off its end.
/// - All registers that instructions name exist.
/// - Jumps stay inside their function.
/// - Calls have a valid target. The target is not a callback, because the compiler relies on the
///   array to which r1 of a callback points. (A callback whose address is loaded needs no test: the
///   calls of function pointers refuse it.)
pub fn verify(code: &Code) -> Result<(), Error> {
    let mut next = 0;
    for function in &code.functions {
        let (start, end) = (function.start, function.end);
        if start != next || end > code.insns.len() || end <= start {
            return Err(Error::new(format!(
                "function {} starts at instruction {start} and ends before {end}, which is invalid",
                function.name
            )));
        }
        next = end;
        let last = code.insns[end - 1].op;
        if !matches!(last, EXIT | GOTO | GOTOL | TRAP) {
            return Err(Error::new(format!("function {} runs off its end", function.name)));
        }
        for pc in start..end {
            let insn = &code.insns[pc];
            let writes_fp = insn.dst == FP && matches!(class(insn.op), LD | LDX | ALU | ALU64);
            let bad = if insn.dst > FP || insn.src > FP || writes_fp {
                "uses a register that does not exist or is read-only"
            } else if is_jump(insn.op) {
                let target = (pc + 1).checked_add_signed(insn.off as isize);
                if target.is_some_and(|target| (start..end).contains(&target)) {
                    continue;
                } else {
                    "jumps out of its function"
                }
            } else if insn.op == CALL {
                let nr = match insn.src {
                    CALL_HELPER => u32::MAX as usize,
                    CALL_FUNCTION => code.functions.len(),
                    CALL_KFUNC => code.kfuncs.len(),
                    _ => 0,
                };
                match usize::try_from(insn.imm).ok().filter(|&called| called < nr) {
                    None => "calls a function that does not exist",
                    Some(called) if insn.src == CALL_FUNCTION && code.functions[called].is_callback => {
                        "calls a callback"
                    }
                    Some(_) => continue,
                }
            } else if insn.op == TRAP && usize::try_from(insn.imm).map_or(true, |trap| trap >= code.traps.len()) {
                "traps without a message"
            } else {
                continue;
            };
            return Err(Error::new(format!(
                "{}: instruction {pc} ({:#04x}) {bad}",
                code.describe(pc),
                insn.op
            )));
        }
    }
    if next != code.insns.len() {
        return Err(Error::new(format!(
            "instructions from {next} to the end ({}) belong to no function",
            code.insns.len()
        )));
    }
    Ok(())
}

/// Returns whether this atomic operation exists for this access size.
pub(crate) fn is_atomic(i: &Insn) -> bool {
    match i.imm {
        atomic::LOAD_ACQUIRE | atomic::STORE_RELEASE => true,
        atomic::XCHG | atomic::CMPXCHG => size(i.op) >= 4,
        op => {
            size(i.op) >= 4
                && matches!(
                    op & !atomic::FETCH,
                    atomic::ADD | atomic::OR | atomic::AND | atomic::XOR
                )
        }
    }
}
