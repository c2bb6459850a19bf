// SPDX-License-Identifier: GPL-2.0-only
//! Tests of calls by the simulated machine: outermost and nested calls, and the state after a
//! fault. Also tests maps as user space uses them.

use std::rc::Rc;

use bpf::engine::{ANY, Engine, Vm, World};
use bpf::fault::FaultKind;
use bpf::image::{Code, FUNC_BASE, MapDef};
use bpf::map::{Map, kind};

use crate::asm;
use crate::world::{NR_CPUS, TestWorld, funcs, kfunc};

const ENGINES: [Engine; 2] = [Engine::Interpreter, Engine::Jit];

fn load(world: &mut TestWorld, text: &str, engine: Engine) {
    let mut program = asm::assemble(text).expect("the text is a valid program");
    for map in &mut program.maps {
        map.handle = world.region.alloc(64).expect("the region has this memory");
    }
    for &(at, map) in &program.map_refs {
        program.code.insns[at].imm = program.maps[map].handle as i64;
    }
    world
        .load(program.code, &program.maps, program.types, engine)
        .expect("the program can be loaded");
}

#[test]
fn struct_ops_programs_get_an_array_of_arguments() {
    for engine in ENGINES {
        let mut world = TestWorld::new();
        load(
            &mut world,
            "r0 = *(u64 *)(r1 + 0)\nr2 = *(u64 *)(r1 + 16)\nr0 -= r2\nexit",
            engine,
        );
        assert_eq!(Vm::call_args(&mut world, 0, &[50, 1, 8]).unwrap(), 42);
        assert_eq!(Vm::call_args(&mut world, 0, &[50, 1, 8, 4, 5, 6, 7]).unwrap(), 42);
    }
}

#[test]
fn registers_without_a_value_show_nothing_of_the_host() {
    // The first call enters through the usual trampoline. All later calls enter through the short
    // one, which passes only r1.
    for engine in ENGINES {
        let mut world = TestWorld::new();
        let all = "r0 |= r2\nr0 |= r3\nr0 |= r4\nr0 |= r5\nr0 |= r6\nr0 |= r7\nr0 |= r8\nr0 |= r9\nexit";
        load(&mut world, all, engine);
        for _ in 0..3 {
            assert_eq!(Vm::call_args(&mut world, 0, &[1, 2, 3]).unwrap(), 0, "{engine:?}");
        }
    }
}

#[test]
fn a_callback_takes_an_array_and_cannot_be_called_otherwise() {
    for engine in ENGINES {
        let mut world = TestWorld::new();
        let mut program = asm::assemble("r0 = *(u64 *)(r1 + 0)\nr2 = *(u64 *)(r1 + 16)\nr0 -= r2\nexit")
            .expect("the text is a valid program");
        program.code.functions[0].is_callback = true;
        world
            .load(program.code, &program.maps, program.types, engine)
            .expect("the program can be loaded");
        assert_eq!(Vm::call_args(&mut world, 0, &[50, 1, 8]).unwrap(), 42);
        let fault = Vm::call_address(&mut world, FUNC_BASE, [0; 5]).unwrap_err();
        assert!(fault.message.contains("is not a function"), "{fault}");
    }
}

#[test]
fn code_cannot_call_a_callback() {
    for engine in ENGINES {
        let mut world = TestWorld::new();
        let mut program = asm::assemble("func main:\ncall turn\nexit\nfunc turn:\nr0 = 0\nexit")
            .expect("the text is a valid program");
        program.code.functions[1].is_callback = true;
        let refused = world.load(program.code, &program.maps, program.types, engine);
        let error = refused.expect_err("the code calls a callback").to_string();
        assert!(error.contains("calls a callback"), "{error}");
    }
}

#[test]
fn a_nested_call_in_another_world_returns_to_the_first_one() {
    for engine in ENGINES {
        let mut world = TestWorld::new();
        let text = "func main:\nr1 = func turn\ncall test_inner\nr6 = r0\ncall test_note\nr0 += r6\nexit\n\
                    func turn:\ncall test_note\nexit";
        load(&mut world, text, engine);
        assert_eq!(Vm::call(&mut world, 0, [0; 5]).unwrap(), 2, "each log has one line");
        assert_eq!(world.log, ["note"]);
    }
}

#[test]
fn a_running_program_is_not_dropped() {
    for engine in ENGINES {
        let mut world = TestWorld::new();
        load(&mut world, "call test_drop\nexit", engine);
        assert_eq!(Vm::call(&mut world, 0, [0; 5]).unwrap(), 1);
    }
}

#[test]
#[should_panic(expected = "the program is not replaced while its stack is in use")]
fn a_program_is_not_replaced_while_its_stack_is_in_use() {
    let mut world = TestWorld::new();
    load(&mut world, "r0 = 0\nexit", Engine::Interpreter);
    let _ = Vm::with_stack(&mut world, &[1], |world, _| {
        load(world, "r0 = 0\nexit", Engine::Interpreter);
        Ok(())
    });
}

#[test]
fn instructions_add_up_over_calls_and_the_budget_is_per_call() {
    for engine in ENGINES {
        let mut world = TestWorld::new();
        load(&mut world, "r0 = 1\nr0 = 2\nexit", engine);
        world.vm().set_budget(3);
        for n in 1..100 {
            Vm::call(&mut world, 0, [0; 5]).unwrap();
            assert_eq!(world.vm().executed(), 3 * n);
        }
    }
}

#[test]
fn nested_calls_share_the_budget() {
    for engine in ENGINES {
        let mut world = TestWorld::new();
        let text = "func main:\nr1 = 1000\nr2 = func turn\nr4 = 0\ncall bpf_loop\nexit\nfunc turn:\nr0 = 0\nexit";
        load(&mut world, text, engine);
        world.vm().set_budget(500);
        let fault = Vm::call(&mut world, 0, [0; 5]).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Budget);
        // The budget applies to each call, so the next call may execute 500 instructions again.
        assert_eq!(Vm::call(&mut world, 1, [0; 5]).unwrap(), 0);
    }
}

#[test]
fn the_program_is_usable_after_a_fault() {
    for engine in ENGINES {
        let mut world = TestWorld::new();
        load(
            &mut world,
            "*(u64 *)(r10 - 8) = r1\nr0 = *(u64 *)(r1 + 0)\nexit",
            engine,
        );
        for _ in 0..200 {
            let (good, hole) = (world.memory, world.memory + 4096);
            assert_eq!(
                Vm::call(&mut world, 0, [hole, 0, 0, 0, 0]).unwrap_err().kind,
                FaultKind::Memory
            );
            assert_eq!(Vm::call(&mut world, 0, [good, 0, 0, 0, 0]).unwrap(), 0);
        }
    }
}

#[test]
fn a_fault_ends_only_the_program_of_its_thread() {
    let threads: Vec<_> = (0..4)
        .map(|n| {
            std::thread::spawn(move || {
                let mut world = TestWorld::new();
                load(&mut world, "r0 = *(u64 *)(r1 + 0)\nexit", ENGINES[n % 2]);
                for _ in 0..200 {
                    let hole = world.memory - 8;
                    let fault = Vm::call(&mut world, 0, [hole, 0, 0, 0, 0]).unwrap_err();
                    assert!(fault.message.contains(&format!("{hole:#x}")), "{fault}");
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_timer_calls_back_with_map_key_and_value() {
    for engine in ENGINES {
        let mut world = TestWorld::new();
        let text = "func main:\nmap m array 4 24 2 timer@8\n*(u32 *)(r10 - 4) = 1\nr1 = map m\nr2 = r10\nr2 += -4\n\
            call bpf_map_lookup_elem\nr6 = r0\nr6 += 8\nr1 = r6\nr2 = map m\nr3 = 1\ncall bpf_timer_init\nr1 = r6\n\
            r2 = func tick\ncall bpf_timer_set_callback\nr1 = r6\nr2 = 1000\nr3 = 0\ncall bpf_timer_start\nexit\n\
            func tick:\nr2 = *(u32 *)(r2 + 0)\nr2 += 40\n*(u32 *)(r3 + 0) = r2\nr0 = 0\nexit";
        load(&mut world, text, engine);
        assert_eq!(Vm::call(&mut world, 0, [0; 5]).unwrap(), 0);
        let (timer, ns) = world.timers.pop_first().expect("the program has started the timer");
        assert_eq!(ns, 1000);
        Vm::run_timer(&mut world, timer).unwrap();
        let value = world
            .vm()
            .map_by_name("m")
            .unwrap()
            .read(&world.region, &1u32.to_le_bytes(), NR_CPUS)
            .unwrap();
        assert_eq!(value[..4], 41u32.to_le_bytes());
    }
}

#[test]
fn storage_is_deleted_with_its_owner() {
    let mut world = TestWorld::new();
    let text = "map t task_storage 4 8 0\nr2 = r1\nr1 = map t\nr3 = 0\nr4 = 1\ncall bpf_task_storage_get\n\
        r6 = *(u64 *)(r0 + 0)\n*(u64 *)(r0 + 0) = 5\nr0 = r6\nexit";
    load(&mut world, text, Engine::Interpreter);
    let region = world.region.clone();
    let other = world.tasks.alloc(&region).unwrap();
    for task in [world.task, other] {
        assert_eq!(Vm::call(&mut world, 0, [task, 0, 0, 0, 0]).unwrap(), 0);
        assert_eq!(Vm::call(&mut world, 0, [task, 0, 0, 0, 0]).unwrap(), 5);
    }
    Vm::free_owner(&mut world, other);
    assert_eq!(
        Vm::call(&mut world, 0, [other, 0, 0, 0, 0]).unwrap(),
        0,
        "a new task starts with zeros"
    );
    Vm::free_owner(&mut world, other);
    world.gone = Some(other);
    let fault = Vm::call(&mut world, 0, [other, 0, 0, 0, 0]).expect_err("the program does not test for NULL");
    assert_eq!(fault.kind, FaultKind::Memory, "a task that has exited gets no value");
    let task = world.task;
    assert_eq!(
        Vm::call(&mut world, 0, [task, 0, 0, 0, 0]).unwrap(),
        5,
        "the other task keeps its value"
    );
}

#[test]
fn a_lookup_in_a_map_of_maps_returns_the_inner_map() {
    let mut world = TestWorld::new();
    let text = "map inner queue 0 4 8\nmap outer array_of_maps 4 4 4\n*(u32 *)(r10 - 4) = 2\nr1 = map outer\nr2 = r10\n\
        r2 += -4\ncall bpf_map_lookup_elem\nif r0 == 0 goto out\nr1 = r0\nr2 = r10\nr2 += -4\nr3 = 0\n\
        call bpf_map_push_elem\nr0 += 100\nout:\nexit";
    let mut program = asm::assemble(text).unwrap();
    for map in &mut program.maps {
        map.handle = world.region.alloc(64).unwrap();
    }
    for &(at, map) in &program.map_refs {
        program.code.insns[at].imm = program.maps[map].handle as i64;
    }
    program.maps[1].values = vec![(2, 0)];
    world
        .load(program.code, &program.maps, program.types, Engine::Jit)
        .unwrap();
    assert_eq!(Vm::call(&mut world, 0, [0; 5]).unwrap(), 100);
    let popped = world.region.alloc(4).unwrap();
    let inner = world.vm().map_by_name("inner").unwrap();
    assert_eq!(inner.pop(&world.region, popped, false).unwrap(), 0);
    assert_eq!(world.region.load::<u32>(popped).unwrap(), 2);
}

#[test]
fn user_space_reads_and_writes_ring_buffers() {
    let mut world = TestWorld::new();
    let text = "func main:\nmap out ringbuf 0 0 4096\nmap in user_ringbuf 0 0 4096\n*(u64 *)(r10 - 8) = 0\nr1 = map in\n\
        r2 = func sample\nr3 = r10\nr3 += -8\nr4 = 0\ncall bpf_user_ringbuf_drain\nr6 = r0\nr1 = map out\nr2 = r10\n\
        r2 += -8\nr3 = 8\nr4 = 0\ncall bpf_ringbuf_output\nr0 = r6\nexit\n\
        func sample:\nr6 = r2\nr2 = 0\nr3 = 8\ncall bpf_dynptr_data\nif r0 == 0 goto out\nr0 = *(u64 *)(r0 + 0)\n\
        r1 = *(u64 *)(r6 + 0)\nr1 += r0\n*(u64 *)(r6 + 0) = r1\nout:\nr0 = 0\nexit";
    load(&mut world, text, Engine::Jit);
    for round in 0..1000u64 {
        for value in [round, 2u64] {
            let map = world.vm().map_by_name("in").unwrap();
            assert!(
                map.ringbuf()
                    .unwrap()
                    .borrow_mut()
                    .produce(&world.region, &value.to_le_bytes(), 0)
            );
        }
        assert_eq!(Vm::call(&mut world, 0, [0; 5]).unwrap(), 2);
        let map = world.vm().map_by_name("out").unwrap();
        let (addr, len) = map
            .ringbuf()
            .unwrap()
            .borrow_mut()
            .consume(&world.region)
            .expect("the ring buffer has a record");
        assert_eq!((world.region.load::<u64>(addr).unwrap(), len), (round + 2, 8));
    }
}

#[test]
fn calls_have_the_cost_set_by_the_world() {
    for engine in ENGINES {
        let mut world = TestWorld::new();
        let mut funcs = funcs();
        for func in &mut funcs {
            func.cost = if func.name == "test_here" { 30 } else { 5 };
        }
        let program = asm::assemble("call test_here\ncall bpf_ktime_get_ns\ncall test_here\nexit").unwrap();
        let vm = Vm::new(
            program.code,
            Vec::new(),
            Default::default(),
            &funcs,
            world.region.clone(),
            engine,
        )
        .unwrap();
        world.vm = Some(Rc::new(vm));
        world.vm().set_contexts(ANY);
        Vm::call(&mut world, 0, [0; 5]).unwrap();
        assert_eq!(world.vm().cost(), 65);
    }
}

#[test]
fn printk_lines_reach_the_log() {
    let mut world = TestWorld::new();
    let text = "*(u64 *)(r1 + 0) = 0x0a642578\nr2 = 5\nr3 = 7\ncall bpf_trace_printk\nexit";
    load(&mut world, text, Engine::Jit);
    let memory = world.memory;
    assert_eq!(Vm::call(&mut world, 0, [memory, 0, 0, 0, 0]).unwrap(), 3);
    assert_eq!(world.log, ["x7"]);
}

#[test]
fn locks_are_reported_to_the_world() {
    let mut world = TestWorld::new();
    load(
        &mut world,
        "r6 = r1\ncall bpf_spin_lock\nr1 = r6\ncall bpf_spin_unlock\nexit",
        Engine::Jit,
    );
    let lock = world.memory;
    Vm::call(&mut world, 0, [lock, 0, 0, 0, 0]).unwrap();
    assert_eq!(world.locks, [(lock, true), (lock, false)]);
}

#[test]
fn ill_formed_code_is_rejected() {
    for (text, problem) in [
        ("r0 = 1", "runs off its end"),
        ("op 0x05 0 0 5 0\nexit", "jumps out of its function"),
        ("op 0xb7 11 0 0 0\nexit", "register that does not exist"),
        ("op 0xb7 10 0 0 0\nexit", "register that does not exist or is read-only"),
        ("op 0x85 0 1 0 7\nexit", "calls a function that does not exist"),
        ("op 0xf5 0 0 0 7\nexit", "traps without a message"),
    ] {
        let program = asm::assemble(text).unwrap();
        let mut world = TestWorld::new();
        let error = world
            .load(program.code, &[], Default::default(), Engine::Interpreter)
            .unwrap_err();
        assert!(error.message.contains(problem), "{text}: {error}");
    }
    let mut world = TestWorld::new();
    let code = asm::assemble("exit").unwrap().code;
    let def = MapDef {
        name: "m".into(),
        kind: kind::ARRAY,
        key_size: 3,
        value_size: 8,
        max_entries: 1,
        ..MapDef::default()
    };
    let error = world
        .load(code, &[def], Default::default(), Engine::Interpreter)
        .unwrap_err();
    assert_eq!(
        error,
        "map m: an array cannot have key size 3, value size 8 and 1 entries".into()
    );
    assert!(
        world
            .load(Code::default(), &[], Default::default(), Engine::Jit)
            .is_ok(),
        "a program without code can be loaded"
    );
}

#[test]
fn prototypes_name_their_functions() {
    let func = kfunc(
        ANY,
        "struct task_struct *bpf_task_from_pid(s32 pid)",
        |_: &mut TestWorld| 0u64,
    );
    assert_eq!(func.name, "bpf_task_from_pid");
    let names: Vec<_> = funcs().iter().map(|f| (f.name, f.helper)).collect();
    for (n, name) in names.iter().enumerate() {
        assert!(
            !names[..n].contains(name),
            "the table has two functions called {name:?}"
        );
    }
}

/// A bad access by the simulator itself must kill the process, as if there were no signal handler.
/// Only bad accesses by programs become faults.
#[test]
#[cfg(unix)]
fn a_bug_of_the_simulator_is_not_a_fault_of_the_policy() {
    use std::os::unix::process::ExitStatusExt;
    const CHILD: &str = "BPF_ENGINE_TEST_CRASH";
    if let Ok(engine) = std::env::var(CHILD) {
        let mut world = TestWorld::new();
        load(
            &mut world,
            "r1 += 4096\ncall test_crash\nexit",
            ENGINES[usize::from(engine == "1")],
        );
        let memory = world.memory;
        let _ = Vm::call(&mut world, 0, [memory, 0, 0, 0, 0]);
        return;
    }
    for engine in ["0", "1"] {
        let name = "nesting::a_bug_of_the_simulator_is_not_a_fault_of_the_policy";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(CHILD, engine)
            .output()
            .expect("the test runs itself");
        assert!(
            matches!(child.status.signal(), Some(libc::SIGSEGV | libc::SIGABRT)),
            "engine {engine}: {child:?}"
        );
    }
}

#[test]
#[should_panic(expected = "a map is used with its own region")]
fn a_hash_map_is_used_with_its_own_region() {
    let [world, other] = [TestWorld::new(), TestWorld::new()];
    let def = MapDef {
        kind: kind::HASH,
        key_size: 4,
        value_size: 8,
        max_entries: 1,
        ..MapDef::default()
    };
    let map = Map::create(&def, &world.region, NR_CPUS).expect("the definition is valid");
    map.update(&world.region, &[1; 4], &[0; 8], 0, 0)
        .expect("the key is new");
    let _ = map.lookup(&other.region, &[1; 4], 0);
}
