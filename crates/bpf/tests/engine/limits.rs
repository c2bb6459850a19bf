// SPDX-License-Identifier: GPL-2.0-only
//! Tests of programs that are too large, that nest calls too deeply, or that run too long. Both
//! engines must end them with the same result.

use std::fmt::Write;

use bpf::engine::{Engine, Vm, World};
use bpf::fault::FaultKind;

use crate::asm;
use crate::world::TestWorld;

pub const ENGINES: [Engine; 2] = [Engine::Interpreter, Engine::Jit];

/// Number of instructions that one call may execute in these tests.
pub const BUDGET: u64 = 2_000_000;

/// Outcome of a call. The first part is the result, or the kind, message and instruction of the
/// fault. The second part is the number of executed instructions.
pub type Ran = (Result<u64, (FaultKind, String, Option<usize>)>, u64);

/// Returns a world (simulated machine) with the program `text`, and with the budget of these tests.
pub fn world(text: &str, engine: Engine, sanitized: bool) -> TestWorld {
    let mut program = asm::assemble(text).expect("the text is a valid program");
    let mut world = TestWorld::new();
    world.sanitized = sanitized;
    // The sanitizer limits the stack of nested functions. If functions use no stack, they can call
    // each other to the greatest depth.
    program
        .code
        .functions
        .iter_mut()
        .for_each(|function| function.stack = 0);
    for map in &mut program.maps {
        map.handle = world.region.alloc(64).expect("the region has this memory");
    }
    for &(at, map) in &program.map_refs {
        program.code.insns[at].imm = program.maps[map].handle as i64;
    }
    world
        .load(program.code, &program.maps, program.types, engine)
        .expect("the program can be loaded");
    world.vm().set_budget(BUDGET);
    world
}

/// Calls the first function. r1 is the address of the world's memory, r2 is the parameter.
pub fn call(world: &mut TestWorld, r2: u64) -> Ran {
    let before = world.vm().executed();
    let args = [world.memory, r2, 0, 0, 0];
    let result = Vm::call(world, 0, args).map_err(|fault| (fault.kind, fault.message.clone(), fault.pc));
    (result, world.vm().executed() - before)
}

/// Runs a program in both engines, with and without the sanitizer, and checks that the engines
/// agree. Returns the outcome without the sanitizer.
fn run(text: &str, r2: u64) -> Ran {
    let [_, plain] = [true, false].map(|sanitized| {
        let [interpreted, compiled] = ENGINES.map(|engine| call(&mut world(text, engine, sanitized), r2));
        assert_eq!(interpreted, compiled, "the engines differ (sanitizer: {sanitized})");
        compiled
    });
    plain
}

/// Returns the reason why the JIT does not compile a program. Also checks that the interpreter runs
/// the program.
fn why_interpreted(text: &str, r2: u64) -> String {
    run(text, r2).0.expect("the program returns");
    let world = world(text, Engine::Jit, false);
    world
        .vm()
        .why_interpreted()
        .expect("the interpreter runs the program")
        .to_string()
}

/// Returns the text of a function that calls itself r2 times. The function computes `values`
/// different expressions before the call, and the same ones after it. A compiler that recognises
/// equal expressions computes each of them only once. It must then spill the values to the stack
/// during the call.
fn many_live_values(values: u32) -> String {
    let mut text = String::from("func main:\nr6 = r1\nr7 = r2\n");
    let expressions = |text: &mut String| {
        for n in 0..values {
            writeln!(text, "r1 = r7\nr1 ^= {}\nr1 *= r7\n*(u64 *)(r6 + 0) = r1", 3 * n + 1).unwrap();
        }
    };
    expressions(&mut text);
    text.push_str("r0 = 0\nif r7 == 0 goto out\nr1 = r6\nr2 = r7\nr2 += -1\ncall main\nout:\n");
    expressions(&mut text);
    text.push_str("r1 = *(u64 *)(r6 + 0)\nr0 += r1\nexit\n");
    text
}

#[test]
fn functions_with_a_large_machine_frame_are_interpreted() {
    // 126 frames of 16 KiB would exceed the stack of a thread. Each frame is also larger than the
    // guard page of the stack.
    let why = why_interpreted(&many_live_values(2040), 126);
    assert!(why.starts_with("function main has 163"), "{why}");
    assert!(
        why.ends_with("bytes of values in a machine frame, and the JIT compiles at most 4096"),
        "{why}"
    );
}

/// Calls `f` after `n` + 1 frames of 16 KiB each were put on the stack.
fn deep<R>(n: u32, f: &mut dyn FnMut() -> R) -> R {
    let taken = std::hint::black_box([0u8; 16 << 10]);
    let result = if n == 0 { f() } else { deep(n - 1, f) };
    std::hint::black_box(taken);
    result
}

#[test]
fn a_deep_program_fits_into_the_host_stack_or_faults() {
    let text = many_live_values(490);
    let compiled = world(&text, Engine::Jit, false);
    assert_eq!(
        compiled.vm().why_interpreted(),
        None,
        "the machine frames of the function are not too large for the JIT"
    );
    let expected = run(&text, 126);
    // `needed` is the number of KiB of stack that a call into the program needs.
    for (engine, needed) in [(Engine::Interpreter, 385), (Engine::Jit, 765)] {
        let mut world = world(&text, engine, false);
        // Uses more and more of the thread's stack before the call. Whatever the size of the stack
        // is, at some depth it is too small for the program.
        let fault = (0..).find_map(|n| {
            let (result, insns) = deep(n, &mut || call(&mut world, 126));
            assert_eq!(insns, if result.is_ok() { expected.1 } else { 0 });
            result.err()
        });
        let (kind, message, _) = fault.expect("a call fails at some depth, because the stack is finite");
        assert_eq!(kind, FaultKind::Stack);
        assert!(message.contains(" KiB of stack left, but BPF code needs "), "{message}");
        let words = message.split(|c: char| !c.is_ascii_digit());
        let numbers: Vec<u32> = words.filter_map(|word| word.parse().ok()).collect();
        assert!((needed - 10..=needed + 10).contains(&numbers[1]), "{message}");
        assert!((numbers[1] - 48..numbers[1]).contains(&numbers[0]), "{message}");
    }
}

#[test]
fn calls_nest_up_to_the_limit_of_the_bpf_stack() {
    // Each level consists of three nested functions and a helper that calls back.
    let text = "func main:\nr0 = r1\ncall down\nexit\nfunc down:\ncall down2\nexit\nfunc down2:\nr2 = r1\nr1 = func main\n\
        call test_call\nexit";
    let (result, _) = run(text, 0);
    let (kind, message, _) = result.expect_err("the program never returns");
    assert_eq!(kind, FaultKind::Stack);
    assert!(message.contains("nested too deeply"), "{message}");
}

#[test]
fn an_interpreter_frame_fits_into_its_reserved_size() {
    let text = "func main:\nif r2 == 0 goto out\nr2 += -1\ncall main\nexit\nout:\ncall test_stack\nexit";
    for (sanitized, depth) in [(false, 100), (true, 7)] {
        let mut world = world(text, Engine::Interpreter, sanitized);
        let at = |world: &mut TestWorld, depth| call(world, depth).0.expect("the program returns");
        let frame = (at(&mut world, 0) - at(&mut world, depth)) / depth;
        assert!(
            (1..=1024).contains(&frame),
            "a frame has {frame} bytes (sanitizer: {sanitized})"
        );
    }
}

#[test]
fn programs_that_compile_slowly_are_interpreted() {
    let sum = |lines: usize| "r0 += r2\n".repeat(lines);
    let long = format!("func main:\nr0 = 0\n{}exit", sum(17_000));
    let why = "function main has 17002 instructions, and the JIT compiles at most 16384";
    assert_eq!(why_interpreted(&long, 3), why);

    let mut blocks = String::from("func main:\nr0 = 0\n");
    let mut loops = String::from("func main:\nr0 = 0\n");
    for n in 0..4200 {
        writeln!(blocks, "if r2 > {n} goto l{n}\nr0 += r2\nl{n}:").unwrap();
    }
    // The compilation of these 2000 nested loops would take minutes.
    for n in 0..2000 {
        writeln!(loops, "l{n}:\nr0 += 1\nif r0 == {n} goto l{}", n / 2).unwrap();
    }
    let why = "function main has 8401 basic blocks, and the JIT compiles at most 8192";
    assert_eq!(why_interpreted(&(blocks + "exit"), 5), why);
    let why = why_interpreted(&(loops + "exit"), 5);
    assert!(why.starts_with("function main has 1000 loops, and the JIT"), "{why}");

    let mut program = String::from("func main:\ncall f0\nexit\n");
    for n in 0..20 {
        writeln!(program, "func f{n}:\nr0 = 0\n{}exit", sum(8000)).unwrap();
    }
    let why = "the program has 160042 instructions, and the JIT compiles at most 131072";
    assert_eq!(why_interpreted(&program, 5), why);
}

#[test]
fn a_tree_of_calls_ends_with_the_budget() {
    // The first program makes 2^60 calls without a loop. With the sanitizer, it would end early,
    // because only eight functions can be nested. In the second program, seven functions therefore
    // call the next function 1000 times each.
    let mut tree = String::new();
    for n in 0..60 {
        writeln!(tree, "func f{n}:\ncall f{m}\ncall f{m}\nexit", m = n + 1).unwrap();
    }
    let mut wide = String::new();
    for n in 0..7 {
        writeln!(wide, "func f{n}:\n{}exit", format!("call f{}\n", n + 1).repeat(1000)).unwrap();
    }
    for text in [tree + "func f60:\nr0 = 0\nexit", wide + "func f7:\nr0 = 0\nexit"] {
        let (result, insns) = run(&text, 0);
        let (kind, message, pc) = result.expect_err("the program never returns");
        assert_eq!(kind, FaultKind::Budget, "{message}");
        assert!(
            message.starts_with(&format!("one call executed more than {BUDGET} BPF instructions")),
            "{message}"
        );
        assert!(
            (BUDGET + 1..BUDGET + 4).contains(&insns),
            "the program must end at its first call beyond the budget, not after {insns} instructions"
        );
        let code = asm::assemble(&text).expect("the text is a valid program").code;
        assert_eq!(
            code.insns[pc.expect("the fault has an instruction")].op,
            bpf::image::CALL
        );
    }
}

#[test]
fn a_chain_of_calls_may_use_up_the_budget_to_the_last_instruction() {
    let text = "func main:\ncall f\ncall f\nexit\nfunc f:\nr0 = 1\nexit";
    for engine in ENGINES {
        let mut world = world(text, engine, false);
        for (budget, fits) in [(4, true), (3, false)] {
            world.vm().set_budget(budget);
            // The second call of `f` is the fourth instruction. The budget is not tested after it.
            assert_eq!(call(&mut world, 0).0.is_ok(), fits, "{engine:?}, {budget}");
        }
    }
}

/// Runs the test in a child process, because the test lowers the memory limit of the process.
#[test]
#[cfg(target_os = "linux")]
fn a_host_without_memory_is_an_error() {
    const CHILD: &str = "BPF_ENGINE_TEST_LIMIT";
    if std::env::var(CHILD).is_err() {
        let name = "limits::a_host_without_memory_is_an_error";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--test-threads=1"])
            .env(CHILD, "1")
            .output()
            .expect("the test runs itself");
        assert!(child.status.success(), "{child:?}");
        return;
    }
    let text =
        "map a arena 0 0 100000\nr1 = map a\nr2 = 0\nr3 = 90000\nr4 = -1\nr5 = 0\ncall bpf_arena_alloc_pages\nexit";
    let mut worlds = ENGINES.map(|engine| world(text, engine, false));
    let other = TestWorld::new();
    // The limit counts private writable pages, including those that mprotect makes writable.
    let status = std::fs::read_to_string("/proc/self/status").expect("the host runs Linux");
    let used = status
        .split("VmData:")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next());
    let used: u64 = used
        .and_then(|kib| kib.parse().ok())
        .expect("VmData is a number of KiB");
    let most = (used << 10) + (128 << 20);
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: this is a plain system call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) }, 0);
    for world in &mut worlds {
        let (kind, message, _) = call(world, 0).0.expect_err("the limit is below 400 MB");
        assert_eq!(kind, FaultKind::Func);
        assert!(message.contains("its memory is used up"), "{message}");
    }
    assert_eq!(other.region.pages(1 << 30), None);
}

/// A sum of a variable number and a pointer to a kernel object has a variable offset. The pointer
/// itself can be used as before.
#[test]
fn an_addition_leaves_the_added_pointer_as_it_is() {
    let sum = "func main:\nr7 = r1\ncall bpf_get_current_task_btf\nr6 = r0\nr8 = *(u64 *)(r7 + 0)\nr8 += r6\n";
    for engine in ENGINES {
        let pointer = format!("{sum}r0 = *(u64 *)(r6 + 16)\nexit\n");
        assert_eq!(call(&mut world(&pointer, engine, true), 0).0, Ok(0), "{engine:?}");
        let sum = format!("{sum}r0 = *(u64 *)(r8 + 16)\nexit\n");
        let (_, message, _) = call(&mut world(&sum, engine, true), 0).0.expect_err("a fault");
        assert!(message.contains("variable-offset"), "{engine:?}: {message}");
    }
}
