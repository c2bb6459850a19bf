// SPDX-License-Identifier: GPL-2.0-only
//! The eBPF instruction set with the numbers of RFC 9669 and include/uapi/linux/bpf.h, and the
//! properties of code that both engines rely on.

use crate::image::{CALL, CALL_FUNCTION, CALL_HELPER, CALL_KFUNC, Code, Insn, TRAP};

/// Instruction classes, in the low three bits: loads of constants.
pub const LD: u8 = 0x00;
/// Loads.
pub const LDX: u8 = 0x01;
/// Stores of an immediate.
pub const ST: u8 = 0x02;
/// Stores of a register, and atomics.
pub const STX: u8 = 0x03;
/// 32-bit arithmetic.
pub const ALU: u8 = 0x04;
/// 64-bit jumps.
pub const JMP: u8 = 0x05;
/// 32-bit jumps.
pub const JMP32: u8 = 0x06;
/// 64-bit arithmetic.
pub const ALU64: u8 = 0x07;

/// Returns the class of an opcode.
#[inline(always)]
pub const fn class(op: u8) -> u8 {
    op & 0x07
}

/// Bit that selects the source register as operand instead of the immediate.
pub const X: u8 = 0x08;

/// Access size: 4 bytes.
pub const W: u8 = 0x00;
/// 2 bytes.
pub const H: u8 = 0x08;
/// 1 byte.
pub const B: u8 = 0x10;
/// 8 bytes.
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

/// Access modes: plain load or store.
pub const MEM: u8 = 0x60;
/// Sign-extending load.
pub const MEMSX: u8 = 0x80;
/// Atomic read-modify-write; `imm` selects the operation.
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
/// `gotol +off`. The loader moves its distance from `imm` to `off`.
pub const GOTOL: u8 = JMP32 | jmp::JA;
/// `may_goto +off`: jumps after a loop has used up its iterations.
pub const MAY_GOTO: u8 = JMP | 0xe0;
/// Function return.
pub const EXIT: u8 = JMP | 0x90;
/// Offset that marks a 64-bit register move as an address space cast; `imm` is `to << 16 | from`.
pub const CAST: i32 = 1;
/// `imm` of a cast to the program's (user) address in an arena.
pub const CAST_USER: i64 = 1 << 16;
/// Number of iterations that `may_goto` allows in one call of a function: BPF_MAX_LOOPS.
pub const MAX_LOOPS: u32 = 8 << 20;
/// Size of a function's BPF stack frame in bytes, as in the kernel.
pub const FRAME: u64 = 512;
/// Maximum number of nested frames on the BPF stack of one program, including those of callbacks.
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

/// Checks the properties that both engines rely on: functions cover the code, registers exist,
/// jumps stay inside their function, calls have a valid target, and no function runs off its end.
pub fn verify(code: &Code) -> Result<(), String> {
    let mut next = 0;
    for function in &code.functions {
        let (start, end) = (function.start, function.end);
        if start != next || end > code.insns.len() || end <= start {
            return Err(format!("function {} covers instructions {start}..{end}", function.name));
        }
        next = end;
        let last = code.insns[end - 1].op;
        if !matches!(last, EXIT | GOTO | GOTOL | TRAP) {
            return Err(format!("function {} runs off its end", function.name));
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
                if usize::try_from(insn.imm).is_ok_and(|called| called < nr) {
                    continue;
                } else {
                    "calls nothing"
                }
            } else if insn.op == TRAP && usize::try_from(insn.imm).map_or(true, |trap| trap >= code.traps.len()) {
                "traps without a message"
            } else {
                continue;
            };
            return Err(format!(
                "{}: instruction {pc} ({:#04x}) {bad}",
                code.describe(pc),
                insn.op
            ));
        }
    }
    if next != code.insns.len() {
        return Err(format!(
            "instructions {next}..{} belong to no function",
            code.insns.len()
        ));
    }
    Ok(())
}

/// Returns whether this atomic operation exists in this access size.
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
