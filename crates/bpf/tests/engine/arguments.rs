// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the checks that the sanitizer makes on arguments of calls. Each program passes an
//! argument that breaks a rule. Without the sanitizer, the program would continue or do damage.

use bpf::engine::{ANY, Engine, Vm};
use bpf::fault::FaultKind;
use bpf::image::{CALL, CALL_HELPER, CALL_KFUNC, Code, FUNC_BASE, Function, Insn, LD_IMM64};
use bpf::insn::{self, alu, jmp};
use bpf::sanitizer::Rules;

use crate::world::{TestWorld, kfunc};

const KFUNCS: [&str; 8] = [
    "bpf_iter_num_new",
    "bpf_iter_num_next",
    "bpf_iter_num_destroy",
    "bpf_cpumask_set_cpu",
    "bpf_cpumask_create",
    "bpf_dynptr_size",
    "bpf_rbtree_first",
    "bpf_iter_bits_destroy",
];

/// The value that a step of a program loads into a register or stores.
#[derive(Clone, Copy)]
enum To {
    Number(u64),
    /// Address of the section of globals.
    Memory,
    Task,
    /// Value of r10 plus this offset.
    Stack(i64),
    /// Address of the second function.
    Callback,
    /// Address of the globals, but computed from numbers. The value therefore has no provenance:
    /// the sanitizer treats it as a number, not as a pointer.
    Computed,
}
use To::*;

/// A step of a program.
enum Do {
    /// Calls the helper with this number and these arguments.
    Helper(u32, &'static [To]),
    /// Calls the kfunc with this name and these arguments.
    Kfunc(&'static str, &'static [To]),
    /// Stores a word to the stack.
    Store(i32, To),
    /// Compares r0 with NULL.
    TestR0,
    /// Loads through r0.
    LoadR0,
}
use Do::*;

/// Returns a program that executes these steps. Its second function is the callback.
fn program(world: &TestWorld, steps: &[Do]) -> Code {
    let mut insns = Vec::new();
    let mut emit = |op, dst, src, off, imm| insns.push(Insn { op, dst, src, off, imm });
    let put = |emit: &mut dyn FnMut(u8, u8, u8, i32, i64), reg: u8, to: To| match to {
        Number(number) => {
            // The number takes two instructions, because the sanitizer would treat a single
            // constant as an address.
            emit(LD_IMM64, reg, 0, 0, (number ^ 1) as i64);
            emit(insn::ALU64 | alu::XOR, reg, 0, 0, 1);
        }
        Memory => emit(LD_IMM64, reg, 0, 0, world.memory as i64),
        Task => emit(LD_IMM64, reg, 0, 0, world.task as i64),
        Stack(off) => {
            emit(insn::ALU64 | alu::MOV | insn::X, reg, insn::FP, 0, 0);
            emit(insn::ALU64 | alu::ADD, reg, 0, 0, off);
        }
        Callback => emit(LD_IMM64, reg, 0, 0, (FUNC_BASE + 1) as i64),
        Computed => {
            emit(LD_IMM64, reg, 0, 0, (world.memory ^ 1) as i64);
            emit(insn::ALU64 | alu::XOR, reg, 0, 0, 1);
        }
    };
    for step in steps {
        match step {
            Helper(_, args) | Kfunc(_, args) => {
                for (n, &to) in args.iter().enumerate() {
                    put(&mut emit, n as u8 + 1, to);
                }
                match step {
                    Helper(number, _) => emit(CALL, 0, CALL_HELPER, 0, i64::from(*number)),
                    Kfunc(name, _) => {
                        let at = KFUNCS
                            .iter()
                            .position(|known| known == name)
                            .expect("KFUNCS contains the kfunc");
                        emit(CALL, 0, CALL_KFUNC, 0, at as i64);
                    }
                    _ => unreachable!(),
                }
            }
            Store(off, to) => {
                put(&mut emit, 8, *to);
                emit(insn::STX | insn::MEM | insn::DW, insn::FP, 8, *off, 0);
            }
            TestR0 => emit(insn::JMP | jmp::JEQ, 0, 0, 0, 0),
            LoadR0 => emit(insn::LDX | insn::MEM | insn::DW, 0, 0, 0, 0),
        }
    }
    emit(insn::ALU64 | alu::MOV, 0, 0, 0, 0);
    emit(insn::EXIT, 0, 0, 0, 0);
    let middle = insns.len();
    // The callback loads through its second argument.
    insns.push(Insn {
        op: insn::LDX | insn::MEM | insn::DW,
        dst: 0,
        src: 2,
        off: 0,
        imm: 0,
    });
    insns.push(Insn {
        op: insn::EXIT,
        dst: 0,
        src: 0,
        off: 0,
        imm: 0,
    });
    let function = |name: &str, start, end| Function {
        name: name.into(),
        start,
        end,
        stack: 128,
        params: None,
        is_global: false,
        is_callback: false,
        lines: Vec::new(),
    };
    let functions = vec![function("main", 0, middle), function("callback", middle, insns.len())];
    Code {
        insns,
        functions,
        kfuncs: KFUNCS.map(String::from).to_vec(),
        ..Code::default()
    }
}

/// Returns how the program ends with the sanitizer, for each engine.
fn ends(world: &mut TestWorld, steps: &[Do]) -> [String; 2] {
    let code = program(world, steps);
    world.sanitized = true;
    [Engine::Interpreter, Engine::Jit].map(|engine| {
        let memory = world.memory;
        world
            .load(code.clone(), &[], Default::default(), engine)
            .expect("the program can be loaded");
        match Vm::call(world, 0, [memory, 0, 0, 0, 0]) {
            Ok(_) => "fine".to_string(),
            Err(fault) => {
                assert_eq!(fault.kind, FaultKind::Check, "{fault}");
                fault.message.clone()
            }
        }
    })
}

/// Makes a dynptr to the first 64 bytes of the globals, in the stack at r10 - 16.
const MAKE_DYNPTR: Do = Helper(197, &[Memory, Number(64), Number(0), Stack(-16)]);

#[test]
fn arguments_that_break_a_rule_are_reported() {
    let mut world = TestWorld::new();
    let cases: [(&str, &[Do], &str); 22] = [
        (
            "a helper that writes to a task",
            &[Helper(113, &[Task, Number(8), Memory])],
            "read-only: store of 8 bytes",
        ),
        (
            "a helper that writes into the middle of a task",
            &[Helper(16, &[Task, Number(16)])],
            "read-only: store of 16 bytes",
        ),
        (
            "a size that needs more than 32 bits",
            &[Helper(16, &[Stack(-16), Number(1 << 32 | 16)])],
            "stack-out-of-bounds: store of 4294967312 bytes",
        ),
        (
            "a helper that writes beyond the globals",
            &[Helper(113, &[Memory, Number(4097), Number(0)])],
            "out-of-bounds: store of 4097",
        ),
        (
            "a helper that stores its result in a task",
            &[Helper(105, &[Memory, Number(8), Number(10), Task])],
            "read-only: store of 8 bytes",
        ),
        (
            "a helper that writes through a number",
            &[Helper(113, &[Computed, Number(8), Memory])],
            "bad-pointer: store of 8 bytes",
        ),
        (
            "a task as a lock",
            &[Helper(93, &[Task])],
            "bad-pointer: bpf_spin_lock expects a bpf_spin_lock",
        ),
        (
            "globals as a lock",
            &[Helper(93, &[Memory])],
            "bad-pointer: bpf_spin_lock expects a bpf_spin_lock",
        ),
        (
            "globals as a timer",
            &[Helper(170, &[Memory, Callback])],
            "bad-pointer: bpf_timer_set_callback expects a bpf_timer",
        ),
        (
            "globals as a kptr",
            &[Helper(194, &[Memory, Number(0)])],
            "bad-pointer: bpf_kptr_xchg expects a kptr",
        ),
        (
            "globals as a tree",
            &[Kfunc("bpf_rbtree_first", &[Memory])],
            "bad-pointer: bpf_rbtree_first expects a bpf_rb_root",
        ),
        (
            "a task as a CPU mask",
            &[Kfunc("bpf_cpumask_set_cpu", &[Number(1), Task])],
            "bad-pointer: bpf_cpumask_set_cpu expects a",
        ),
        (
            "a number as a per-CPU object",
            &[Helper(153, &[Computed, Number(1)])],
            "bad-pointer: bpf_per_cpu_ptr expects a per-CPU object",
        ),
        (
            "an iterator in globals",
            &[Kfunc("bpf_iter_num_new", &[Memory, Number(0), Number(3)])],
            "bad-pointer: bpf_iter_num_new expects a pointer to the stack",
        ),
        (
            "an iterator that was not created",
            &[Store(-8, Number(0)), Kfunc("bpf_iter_num_next", &[Stack(-8)])],
            "bad-pointer: bpf_iter_num_next expects a bpf_iter_num",
        ),
        (
            "an iterator of another kind",
            &[
                Kfunc("bpf_iter_num_new", &[Stack(-16), Number(0), Number(3)]),
                Kfunc("bpf_iter_bits_destroy", &[Stack(-16)]),
            ],
            "bad-pointer: bpf_iter_bits_destroy expects a bpf_iter_bits",
        ),
        (
            "an iterator that was overwritten",
            &[
                Kfunc("bpf_iter_num_new", &[Stack(-8), Number(0), Number(3)]),
                Store(-8, Number(5)),
                Kfunc("bpf_iter_num_next", &[Stack(-8)]),
            ],
            "special-field: bpf_iter_num_next of a bpf_iter_num that the program has overwritten",
        ),
        (
            "a dynptr to a task",
            &[Helper(197, &[Task, Number(64), Number(0), Stack(-16)])],
            "bad-pointer: bpf_dynptr_from_mem expects a pointer to a map's value",
        ),
        (
            "a dynptr that was not created",
            &[
                Store(-16, Memory),
                Store(-8, Number(64)),
                Helper(203, &[Stack(-16), Number(0), Number(8)]),
            ],
            "bad-pointer: bpf_dynptr_data expects a bpf_dynptr",
        ),
        (
            "a dynptr that was overwritten",
            &[
                MAKE_DYNPTR,
                Store(-16, Task),
                Helper(202, &[Stack(-16), Number(0), Memory, Number(8), Number(0)]),
            ],
            "special-field: bpf_dynptr_write of a bpf_dynptr that the program has overwritten",
        ),
        (
            "a callback that loads through a number",
            &[Helper(181, &[Number(1), Callback, Computed, Number(0)])],
            "bad-pointer: load of 8 bytes",
        ),
        (
            "a load beyond the end of a slice",
            &[
                MAKE_DYNPTR,
                Helper(203, &[Stack(-16), Number(0), Number(4)]),
                TestR0,
                LoadR0,
            ],
            "out-of-bounds: load of 8 bytes",
        ),
    ];
    for (name, steps, expected) in cases {
        for message in ends(&mut world, steps) {
            assert!(message.starts_with(expected), "{name}: {message}");
        }
    }
}

#[test]
fn correct_arguments_are_accepted() {
    let mut world = TestWorld::new();
    let cases: [(&str, &[Do]); 5] = [
        (
            "memory",
            &[
                Helper(113, &[Memory, Number(8), Task]),
                Helper(16, &[Stack(-16), Number(16)]),
            ],
        ),
        (
            "an iterator",
            &[
                Kfunc("bpf_iter_num_new", &[Stack(-8), Number(0), Number(3)]),
                Kfunc("bpf_iter_num_next", &[Stack(-8)]),
                Kfunc("bpf_iter_num_next", &[Stack(-8)]),
                Kfunc("bpf_iter_num_destroy", &[Stack(-8)]),
            ],
        ),
        (
            "a dynptr",
            &[
                MAKE_DYNPTR,
                Helper(202, &[Stack(-16), Number(8), Memory, Number(8), Number(0)]),
                Kfunc("bpf_dynptr_size", &[Stack(-16)]),
                Helper(203, &[Stack(-16), Number(0), Number(8)]),
                TestR0,
                LoadR0,
            ],
        ),
        ("a callback", &[Helper(181, &[Number(3), Callback, Memory, Number(0)])]),
        ("a number", &[Helper(105, &[Memory, Number(8), Number(10), Stack(-8)])]),
    ];
    for (name, steps) in cases {
        assert_eq!(ends(&mut world, steps), ["fine", "fine"], "{name}");
    }
}

#[test]
fn a_function_with_unknown_arguments_is_rejected() {
    let rules = Rules::default();
    let one = kfunc(ANY, "int f(s32 a)", |_: &mut TestWorld, _: i32| 0u64);
    assert_eq!(one.check_signature(&rules), Ok(()));
    let unknown = kfunc(ANY, "int f(struct unknown *p)", |_: &mut TestWorld, _: u64| 0u64);
    let message = "kfunc f: the sanitizer has no rule for the parameter \"struct unknown *p\"";
    assert_eq!(unknown.check_signature(&rules), Err(message.into()));
    let two = kfunc(ANY, "int f(s32 a)", |_: &mut TestWorld, _: i32, _: i32| 0u64);
    let message = "f takes 2 arguments, but its row describes 1";
    assert_eq!(two.check_signature(&rules), Err(message.into()));
}
