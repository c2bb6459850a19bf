// SPDX-License-Identifier: GPL-2.0-only
//! Hostile policies. Their callbacks consist of valid instructions and call kernel functions with
//! extreme arguments.
//!
//! The calls come from a generator of the kernel crate's tests. This module adds random
//! instructions at the end of the callbacks. The policies also run without the sanitizer (the
//! checks of `--sanitize`). They can then access the whole region, which is the memory that BPF
//! programs can address.

#[allow(dead_code)]
#[path = "../../kernel/tests/integration/hostile/calls.rs"]
mod calls;

use crate::execute::{self, MODES, Size};
use crate::seeds::Seeds;
use bpf::image::Insn;
use bpf::insn::{self, alu};
use bpf::link::Image;
use kernel::kfuncs;
use machine::MachineSpec;
use random::Random;

const SIZE: Size = Size {
    cpus: 3,
    run_ns: 3_000_000,
    budget: 50_000,
};
/// Registers that the inserted instructions may change. They may read r6, which contains the
/// address of the callback's arguments, but must not change it.
const FREE: [u8; 3] = [7, 8, 9];

/// Runs the policy that these bytes describe. Returns how the run ended. Panics if the run ends in
/// different ways in the interpreter and in the JIT.
pub fn run(input: &[u8]) -> String {
    let first = input.first().copied().unwrap_or_default();
    let checked = first & 1 != 0;
    let mode = |number: usize| execute::Mode {
        checked,
        ..MODES[number]
    };
    let table = kfuncs::table(&MachineSpec::smp(SIZE.cpus).costs);
    let change = |image: &mut Image| {
        // The bytes decide which calls the policy makes. All other decisions follow from a seed
        // that is computed from the bytes.
        let seed = input
            .iter()
            .fold(0u64, |seed, &byte| seed.wrapping_mul(131).wrapping_add(byte.into()))
            >> 1;
        calls::put(image, &table, &mut Random::with_bytes(seed, input));
        if first & 6 != 0 {
            insert_instructions(image, &mut Random::of_series(seed, first.into()));
        }
    };
    let object = &Seeds::get().parsed;
    let interpreted = execute::changed(object, mode(0), SIZE, change);
    if first.is_multiple_of(16) || first % 16 == 1 {
        let compiled = execute::changed(object, mode(1), SIZE, change);
        assert!(
            interpreted == compiled,
            "the engines differ: {interpreted:?} or {compiled:?}"
        );
    }
    interpreted.0.to_string()
}

/// Inserts random instructions before the last instruction of each function. A function whose last
/// instruction is not an exit is left unchanged.
fn insert_instructions(image: &mut Image, random: &mut Random) {
    let old = std::mem::take(&mut image.code.insns);
    let mut insns = Vec::with_capacity(2 * old.len());
    for function in &mut image.code.functions {
        let start = insns.len();
        insns.extend_from_slice(&old[function.start..function.end]);
        if let Some(last) = insns.pop_if(|last| last.op == insn::EXIT) {
            for _ in 0..random.below(40) {
                insns.push(instruction(random));
            }
            insns.push(last);
        }
        (function.start, function.end) = (start, insns.len());
        function.lines.clear();
    }
    image.code.insns = insns;
}

/// Returns a valid instruction. It changes a free register, the stack frame, or memory to which a
/// free register may point.
fn instruction(random: &mut Random) -> Insn {
    let (dst, src) = (random.pick(&FREE), random.pick(&[0, 6, 7, 8, 9]));
    let size = random.pick(&[insn::B, insn::H, insn::W, insn::DW]);
    let make = |op, dst, src, off, imm| Insn { op, dst, src, off, imm };
    let imm = i64::from(random.edge() as i32);
    match random.below(8) {
        0 => make(insn::ALU64 | alu::MOV | insn::X, dst, src, 0, 0),
        1 => make(insn::ALU64 | alu::MOV, dst, 0, 0, imm),
        2 => {
            let op = random.pick(&[alu::ADD, alu::SUB, alu::MUL, alu::OR, alu::AND, alu::XOR]);
            make(insn::ALU64 | op | insn::X, dst, src, 0, 0)
        }
        3 => {
            let op = random.pick(&[alu::ADD, alu::SUB, alu::MUL, alu::OR, alu::AND, alu::XOR]);
            make(insn::ALU64 | op, dst, 0, 0, imm)
        }
        4 => make(
            insn::LDX | insn::MEM | size,
            dst,
            insn::FP,
            -8 * (1 + random.below(24)),
            0,
        ),
        5 => make(
            insn::STX | insn::MEM | size,
            insn::FP,
            src,
            -8 * (1 + random.below(24)),
            0,
        ),
        6 => make(insn::LDX | insn::MEM | size, dst, src, random.below(64), 0),
        _ if random.chance(20) => make(insn::STX | insn::MEM | size, dst, src, random.below(64), 0),
        _ => make(insn::ALU64 | alu::ADD, dst, 0, 0, imm & 0xff),
    }
}
