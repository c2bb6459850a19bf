// SPDX-License-Identifier: GPL-2.0-only
//! Tests with random programs. The JIT and the interpreter must return the same r0, leave the same
//! memory and execute the same number of instructions, or raise the same fault. The fuzz target
//! uses the same generator, which then takes its decisions from bytes instead of a seed.

use bpf::engine::{Engine, PathCounts, Vm, World};
use bpf::image::{CALL, CALL_FUNCTION, CALL_HELPER, CALL_KFUNC, Code, Function, Insn, LD_IMM64};
use bpf::insn::{self, alu, atomic};
use random::Random;

use crate::world::TestWorld;

/// Returns a number. Most numbers are at the edge of a range.
fn number(random: &mut Random) -> u64 {
    let wild = random.next();
    let edges = [
        0u64,
        1,
        2,
        7,
        31,
        32,
        63,
        64,
        0x7f,
        0x80,
        0xffff,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
    ];
    match random.below(4) {
        0 => wild,
        1 => random.pick(&edges).wrapping_neg(),
        2 => 1 << random.below(64u64),
        _ => random.pick(&edges),
    }
}

/// The register that always points to the memory. No program copies r10 to another register,
/// because the engines' stacks have different addresses.
const MEMORY: u8 = 9;
/// The register that counts the iterations of loops.
const COUNTER: u8 = 8;

struct Generator<'a, 'b> {
    random: &'a mut Random<'b>,
    insns: Vec<Insn>,
    functions: usize,
    is_main: bool,
}

/// Generates a program of up to three functions.
pub fn generate(random: &mut Random) -> Code {
    let mut code = Code {
        kfuncs: vec!["test_mix".into(), "test_s32".into()],
        ..Code::default()
    };
    let functions = 1 + random.below(3) as usize;
    for index in 0..functions {
        let start = code.insns.len();
        // A function calls only functions that follow it, so there is no recursion.
        let mut g = Generator {
            random,
            insns: Vec::new(),
            functions,
            is_main: index == 0,
        };
        g.function(index);
        code.insns.extend(g.insns);
        code.functions.push(Function {
            name: format!("f{index}"),
            start,
            end: code.insns.len(),
            stack: 512,
            params: None,
            is_global: false,
            is_callback: false,
            lines: Vec::new(),
        });
    }
    code
}

impl Generator<'_, '_> {
    fn emit(&mut self, op: u8, dst: u8, src: u8, off: i32, imm: i64) {
        self.insns.push(Insn { op, dst, src, off, imm });
    }

    fn register(&mut self) -> u8 {
        self.random.below(8) as u8
    }

    fn function(&mut self, index: usize) {
        self.emit(insn::ALU64 | alu::MOV | insn::X, MEMORY, 1, 0, 0);
        for register in [0, 6, 7] {
            let value = number(self.random);
            self.emit(LD_IMM64, register, 0, 0, value as i64);
        }
        let nr = 2 + self.random.below(6);
        for _ in 0..nr {
            self.statement(index, 2);
        }
        self.emit(insn::EXIT, 0, 0, 0, 0);
    }

    fn statement(&mut self, index: usize, depth: u32) {
        match self.random.below(if depth == 0 { 9 } else { 13 }) {
            0..=3 => self.alu(),
            4..=5 => self.access(),
            6 => self.atomic(),
            7 => {
                let (dst, value) = (self.register(), number(self.random));
                self.emit(LD_IMM64, dst, 0, 0, value as i64);
            }
            8 => self.call(index),
            9..=10 => self.branch(index, depth),
            11 => self.counted_loop(index, depth),
            _ => self.may_goto_loop(index, depth),
        }
    }

    fn alu(&mut self) {
        let wide = self.random.below(2) == 0;
        let class = if wide { insn::ALU64 } else { insn::ALU };
        let (dst, src) = (self.register(), self.register());
        let ops = [
            alu::ADD,
            alu::SUB,
            alu::MUL,
            alu::DIV,
            alu::OR,
            alu::AND,
            alu::LSH,
            alu::RSH,
            alu::NEG,
            alu::MOD,
            alu::XOR,
            alu::MOV,
            alu::ARSH,
            alu::END,
        ];
        let op = self.random.pick(&ops);
        let x = if self.random.below(2) == 0 { insn::X } else { 0 };
        let imm = i64::from(number(self.random) as i32);
        match op {
            alu::NEG => self.emit(class | op, dst, 0, 0, 0),
            alu::END => {
                let bits = self.random.pick(&[16, 32, 64]);
                self.emit(class | op | if wide { 0 } else { x }, dst, 0, 0, bits);
            }
            alu::DIV | alu::MOD => {
                let signed = self.random.below(2);
                self.emit(class | op | x, dst, src, signed, imm);
            }
            alu::MOV if x != 0 => {
                let off = self.random.pick(if wide { &[0, 8, 16, 32] } else { &[0, 8, 16] });
                self.emit(class | op | x, dst, src, off, 0);
            }
            // This operation does not exist. The kernel would reject it.
            alu::ADD if self.random.below(200) == 0 => self.emit(insn::ALU64 | 0xe0, dst, src, 0, imm),
            _ => self.emit(class | op | x, dst, src, 0, imm),
        }
    }

    /// Returns the base register and the offset of an access. Some accesses are invalid.
    fn operand(&mut self, size: u64) -> (u8, i32) {
        match self.random.below(60) {
            0 => (self.register(), self.random.below(64)),
            // The access reaches the inaccessible page after the memory.
            15 => (MEMORY, 4090 + self.random.below(16)),
            1..=14 => (insn::FP, -(8 * (1 + self.random.below(64)))),
            _ => (MEMORY, self.random.below(4097 - size) as i32),
        }
    }

    fn access(&mut self) {
        let size = self.random.pick(&[insn::B, insn::H, insn::W, insn::DW]);
        let (base, off) = self.operand(insn::size(size));
        let register = self.register();
        match self.random.below(4) {
            0 => self.emit(insn::LDX | insn::MEM | size, register, base, off, 0),
            1 if size != insn::DW => self.emit(insn::LDX | insn::MEMSX | size, register, base, off, 0),
            2 => {
                let imm = i64::from(number(self.random) as i32);
                self.emit(insn::ST | insn::MEM | size, base, 0, off, imm);
            }
            _ => self.emit(insn::STX | insn::MEM | size, base, register, off, 0),
        }
    }

    fn atomic(&mut self) {
        let size = self.random.pick(&[insn::W, insn::DW]);
        let (base, off) = self.operand(insn::size(size));
        let register = self.register();
        let op = self.random.pick(&[
            atomic::ADD,
            atomic::OR,
            atomic::AND,
            atomic::XOR,
            atomic::ADD | atomic::FETCH,
            atomic::OR | atomic::FETCH,
            atomic::AND | atomic::FETCH,
            atomic::XOR | atomic::FETCH,
            atomic::XCHG,
            atomic::CMPXCHG,
            atomic::STORE_RELEASE,
            atomic::LOAD_ACQUIRE,
        ]);
        match op {
            atomic::LOAD_ACQUIRE => self.emit(insn::STX | insn::ATOMIC | size, register, base, off, op),
            _ => self.emit(insn::STX | insn::ATOMIC | size, base, register, off, op),
        }
    }

    fn call(&mut self, index: usize) {
        match self.random.below(4) {
            0 if index + 1 < self.functions => {
                self.emit(insn::ALU64 | alu::MOV | insn::X, 1, MEMORY, 0, 0);
                self.emit(CALL, 0, CALL_FUNCTION, 0, index as i64 + 1);
            }
            1 => self.emit(CALL, 0, CALL_HELPER, 0, 7),
            2 => self.emit(CALL, 0, CALL_KFUNC, 0, 1),
            _ => self.emit(CALL, 0, CALL_KFUNC, 0, 0),
        }
    }

    fn branch(&mut self, index: usize, depth: u32) {
        let class = self.random.pick(&[insn::JMP, insn::JMP32]);
        let condition = self
            .random
            .pick(&[0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0xa0, 0xb0, 0xc0, 0xd0]);
        let x = self.random.pick(&[0, insn::X]);
        let (dst, src) = (self.register(), self.register());
        let imm = i64::from(number(self.random) as i32);
        let mut at = self.insns.len();
        self.emit(class | condition | x, dst, src, 0, imm);
        self.body(index, depth);
        if self.random.below(2) == 0 {
            let over = self.insns.len();
            let op = self.random.pick(&[insn::GOTO, insn::GOTOL]);
            self.emit(op, 0, 0, 0, 0);
            self.insns[at].off = (self.insns.len() - at - 1) as i32;
            self.body(index, depth);
            at = over;
        }
        self.insns[at].off = (self.insns.len() - at - 1) as i32;
    }

    fn body(&mut self, index: usize, depth: u32) {
        let nr = self.random.below(4);
        for _ in 0..nr {
            self.statement(index, depth - 1);
        }
    }

    /// Emits a loop. Nested loops share the counter, so some of them never end by themselves. Those
    /// loops end when the instruction budget is used up.
    fn counted_loop(&mut self, index: usize, depth: u32) {
        let times = 1 + self.random.below(5) as i64;
        self.emit(insn::ALU64 | alu::MOV, COUNTER, 0, 0, times);
        let top = self.insns.len();
        self.body(index, depth);
        self.emit(insn::ALU64 | alu::ADD, COUNTER, 0, 0, -1);
        let off = top as i32 - self.insns.len() as i32 - 1;
        self.emit(insn::JMP | insn::jmp::JNE, COUNTER, 0, off, 0);
    }

    /// Emits a loop that runs until the instruction budget is used up, unless its body leaves it.
    fn may_goto_loop(&mut self, index: usize, depth: u32) {
        if !self.is_main || self.random.below(8) != 0 {
            return self.counted_loop(index, depth);
        }
        let top = self.insns.len();
        self.emit(insn::MAY_GOTO, 0, 0, 0, 0);
        self.body(index, depth);
        let off = top as i32 - self.insns.len() as i32 - 1;
        self.emit(insn::GOTO, 0, 0, off, 0);
        self.insns[top].off = (self.insns.len() - top - 1) as i32;
    }
}

/// Runs a program in one engine. Returns the result as text, and the memory.
fn run(world: &mut TestWorld, code: &Code, engine: Engine) -> (String, Vec<u8>) {
    world
        .load(code.clone(), &[], Default::default(), engine)
        .expect("the program can be loaded");
    world.vm().set_budget(3000);
    let before = world.vm().executed();
    let result = Vm::call(world, 0, [world.memory, 0, 0, 0, 0]);
    let insns = world.vm().executed() - before;
    (
        format!("{result:?}, {insns} instructions"),
        world
            .region
            .bytes(world.memory, 4096)
            .expect("the region has this memory")
            .to_vec(),
    )
}

/// Compares the engines on one program.
pub fn check(world: &mut TestWorld, code: &Code) -> Result<(), String> {
    let (interpreted, memory) = run(world, code, Engine::Interpreter);
    let (compiled, memory_too) = run(world, code, Engine::Jit);
    if interpreted == compiled && memory == memory_too {
        return Ok(());
    }
    let listing: String = code
        .insns
        .iter()
        .enumerate()
        .map(|(pc, i)| format!("{pc:4}: {i:x?}\n"))
        .collect();
    let differ = memory.iter().zip(&memory_too).position(|(a, b)| a != b);
    Err(format!(
        "interpreter: {interpreted}\nJIT: {compiled}\nmemory differs at {differ:?}\n{listing}"
    ))
}

/// Runs a program that counts its instructions. Returns the counts and the result as text, with the
/// number of executed instructions.
fn counted(world: &mut TestWorld, code: &Code, engine: Engine) -> (Vec<PathCounts>, String, u64) {
    world
        .load(code.clone(), &[], Default::default(), engine)
        .expect("the program can be loaded");
    world.vm().set_budget(3000);
    world.vm_mut().count_instructions().expect("the program can be counted");
    assert_eq!(world.vm().why_interpreted(), None);
    // The second call begins with the state that the first one has left, for example after a fault.
    let before = world.vm().executed();
    let results = [(); 2].map(|()| Vm::call(world, 0, [world.memory, 0, 0, 0, 0]));
    let insns = world.vm().executed() - before;
    (world.vm().instruction_counts(), format!("{results:?}"), insns)
}

#[test]
fn engines_agree_on_the_counts_of_random_programs() {
    let mut world = TestWorld::new();
    let mut nested = 0;
    for seed in 0..1000 {
        let code = generate(&mut Random::new(seed));
        let interpreted = counted(&mut world, &code, Engine::Interpreter);
        let compiled = counted(&mut world, &code, Engine::Jit);
        assert!(interpreted == compiled, "seed {seed}:\n{interpreted:?}\n{compiled:?}");
        let sum: u64 = compiled
            .0
            .iter()
            .flat_map(|path| &path.insns)
            .map(|&(_, count)| count)
            .sum();
        if compiled.1.starts_with("[Ok(") && compiled.1.matches("Ok(").count() == 2 {
            assert_eq!(sum, compiled.2, "seed {seed}: all executed instructions are counted");
        }
        nested += u32::from(compiled.0.iter().any(|path| path.functions.len() > 1));
    }
    assert!(nested > 50, "only {nested} programs call functions");
}

#[test]
fn engines_agree_on_random_programs_with_the_sanitizer() {
    let mut world = TestWorld::new();
    for seed in 0..1000 {
        let code = generate(&mut Random::new(seed));
        world.sanitized = false;
        let (plain, memory) = run(&mut world, &code, Engine::Jit);
        world.sanitized = true;
        check(&mut world, &code).unwrap_or_else(|difference| panic!("seed {seed}:\n{difference}"));
        let (sanitized, memory_too) = run(&mut world, &code, Engine::Jit);
        if !sanitized.contains("kind: Check") {
            // If a program faults, the sanitizer also lists the calls in progress. The comparison
            // ignores this list.
            let without_report = |text: &str| {
                let (start, end) = (text.split(", report:").next(), text.rsplit("})").next());
                (start.map(str::to_owned), end.map(str::to_owned))
            };
            let same = without_report(&plain) == without_report(&sanitized) && memory == memory_too;
            assert!(same, "seed {seed}:\n{plain}\n{sanitized}");
        }
    }
}

#[test]
fn engines_agree_on_random_programs() {
    let mut world = TestWorld::new();
    for seed in 0..2500 {
        let code = generate(&mut Random::new(seed));
        check(&mut world, &code).unwrap_or_else(|difference| panic!("seed {seed}:\n{difference}"));
    }
}

/// Runs programs that fuzzing found. Each program is stored as the decisions of the generator, and
/// once revealed a bug. The text before the decisions describes the bug.
#[test]
fn engines_agree_on_programs_found_by_fuzzing() {
    let found: &[(&str, &[u8])] = &[
        (
            "the compiler folded a load into an instruction that it had added",
            &[0x00, 0xc4, 0xc7],
        ),
        (
            "the compiler folded a load into the rest of a division that it had simplified",
            &[
                0xeb, 0x13, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                0x00, 0x40, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0x13, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                0xff, 0x2f, 0x00, 0x00, 0x00,
            ],
        ),
        (
            "the compiler folded the load of an atomic instruction into its operation",
            &[
                0x8e, 0x92, 0x00, 0x00, 0x25, 0x00, 0x00, 0xf7, 0x00, 0x00, 0x00, 0x88, 0x10, 0x00, 0x00, 0x2b,
            ],
        ),
        (
            "the compiler removed a store through NULL of the value that was just loaded",
            &[
                0x21, 0x63, 0xff, 0x2b, 0xff, 0x73, 0xd2, 0x48, 0x00, 0x01, 0x00, 0x00, 0x00, 0x23, 0x00, 0x08, 0x2b,
                0xff, 0x73, 0xd2, 0x74, 0x74, 0x74, 0x74, 0x74, 0x74, 0x74, 0x74, 0x74, 0x41, 0x00, 0x01, 0x00, 0x00,
                0x00, 0x00, 0x00, 0x00, 0x00, 0x6b, 0x00, 0x08, 0x6b,
            ],
        ),
        (
            "an atomic instruction that crosses the end of the memory",
            &[
                0xd2, 0x3f, 0x6e, 0x88, 0x00, 0xda, 0xf0, 0x91, 0x00, 0x00, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0x28,
                0xff, 0xff, 0xff, 0xff, 0x51, 0xff, 0x51,
            ],
        ),
    ];
    let mut world = TestWorld::new();
    for (description, decisions) in found {
        let code = generate(&mut Random::with_bytes(0, decisions));
        check(&mut world, &code).unwrap_or_else(|difference| panic!("{description}:\n{difference}"));
    }
}
