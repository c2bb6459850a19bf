// SPDX-License-Identifier: GPL-2.0-only
//! Tests of hostile policies, with and without the sanitizer (`--sanitize`). The policies call
//! arbitrary functions with arbitrary arguments or write to arbitrary memory. In all cases the run
//! either continues or ends with an error that names its cause. The result is the same in the JIT
//! and in the interpreter. Memory that does not belong to the policy is not changed.
mod calls;

use crate::policies;
use crate::support::*;
use bpf::engine::Engine;
use bpf::object::Object;
use kernel::Machine;
use kernel::ext::ExitKind;
use kernel::kfuncs;
use kernel::load::{LoadError, attach, open_changed};
use profile::Profile;
use random::Random;
use std::collections::BTreeMap;
use trace::Record;
use workload::Op;

/// Number of seeds that the test tries. The fuzz target `policy` tries more.
const SEEDS: u64 = 200;

/// Prints the seed and the engine (JIT or interpreter) if the test panics.
struct Seed(u64, Engine);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}, {:?}", self.0, self.1);
        }
    }
}

/// Runs a hostile policy. Returns the message with which it ends, and the trace records.
fn run(object: &Object, seed: u64, engine: Engine) -> (String, Vec<Record>) {
    let _seed = Seed(seed, engine);
    let tasks = (0..4).fold(Tasks::default(), |tasks, i| {
        tasks.add(&format!("t{i}"), vec![run_ms(1), sleep_ms(1), run_ms(1)])
    });
    let mut m = Machine::new(costly(2), tasks.workload, sanitizer(true)).expect("a machine");
    let table = kfuncs::table(&m.spec().costs);
    let profile = Profile::default();
    let put = |image: &mut _| calls::put(image, &table, &mut Random::new(seed));
    let (image, policy) = match open_changed(&m, object, &profile, engine, put) {
        Ok(opened) => opened,
        // Some programs are refused when they are loaded. The kernel's verifier would reject these
        // programs as well.
        Err(error) => return (error.to_string(), Vec::new()),
    };
    let constants = image
        .sections
        .iter()
        .find(|section| section.name == ".rodata")
        .expect("the object has constants");
    let constants = (constants.addr, constants.size);
    let before = m
        .region()
        .bytes(constants.0, constants.1)
        .expect("the constants are in the region")
        .to_vec();
    let mut records = Vec::new();
    let refused = match attach(&mut m, &image, policy, &profile) {
        Ok(()) => None,
        Err(LoadError::Input(error)) => panic!("{error}"),
        Err(LoadError::Refused(exit)) => Some(exit),
    };
    m.run(10 * MS, &mut records);
    m.verify();
    assert_eq!(
        m.region()
            .bytes(constants.0, constants.1)
            .expect("the constants are in the region")
            .to_vec(),
        before
    );
    let exit = refused.as_deref().or(m.ext().exit.as_ref());
    let message = exit.map_or("the run continues".to_string(), |exit| {
        let by_itself = matches!(exit.kind, ExitKind::None | ExitKind::Unreg | ExitKind::UnregBpf);
        assert!(by_itself || !exit.message.is_empty(), "{exit}");
        exit.message.clone()
    });
    (message, records)
}

#[test]
fn a_hostile_policy_does_no_harm() {
    let path = policies::compile("hostile", &[]);
    let bytes = std::fs::read(&path).expect("an object");
    let object = Object::parse(&bytes, "hostile.bpf.o").expect("a BPF object");
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..SEEDS {
        let (message, records) = run(&object, seed, Engine::Jit);
        let (other_message, records_too) = run(&object, seed, Engine::Interpreter);
        assert_eq!(message, other_message, "seed {seed}");
        assert!(records == records_too, "seed {seed}: {message}");
        let kind = message.split(": ").nth(1).unwrap_or("").to_string();
        *ends.entry(kind).or_default() += 1;
    }
    // Most arguments are nearly valid, so some of the random calls must get as far as each of these
    // checks.
    for check in ["bad-pointer", "not-a-reference", "special-field", "stack-out-of-bounds"] {
        assert!(ends.contains_key(check), "no policy ended with {check}: {ends:#?}");
    }
}

/// Runs the policy `tamper` without the sanitizer. The policy executes the C statement `statement`.
/// Returns the message with which the policy ends.
fn tamper(statement: &str, engine: Engine) -> String {
    let path = policies::compile("tamper", &[&format!("STORE={statement}")]);
    let bytes = std::fs::read(&path).expect("an object");
    let object = Object::parse(&bytes, "tamper.bpf.o").expect("a BPF object");
    let tasks = (0..4).fold(Tasks::default(), |tasks, i| {
        tasks.add(
            &format!("t{i}"),
            vec![run_ms(1), sleep_ms(1), run_ms(1), sleep_ms(1), run_ms(1)],
        )
    });
    let mut m = Machine::new(costly(2), tasks.workload, 1).expect("a machine");
    kernel::load::load(&mut m, &object, &Profile::default(), engine).expect("the policy loads");
    m.run(30 * MS, &mut Vec::<Record>::new());
    m.verify();
    m.ext()
        .exit
        .as_ref()
        .map_or("the run continues".to_string(), |exit| exit.message.clone())
}

#[test]
fn a_store_to_the_kernels_memory_ends_the_policy_and_names_the_field() {
    let allowed = "a policy may store only to scx.slice, scx.dsq_vtime and scx.disallow";
    let reads = "a policy may only read this object";
    for (statement, size, field, object, rule) in [
        ("p->scx.flags=0xffffffff", 4, "scx.flags", "task_struct", allowed),
        ("p->scx.weight=0", 4, "scx.weight", "task_struct", allowed),
        ("p->nr_cpus_allowed=4000", 4, "nr_cpus_allowed", "task_struct", allowed),
        ("p->pid=-1", 4, "pid", "task_struct", allowed),
        (
            "*(u64*)((char*)&p->scx.dsq_vtime+4)=1",
            8,
            "scx.dsq_vtime",
            "task_struct",
            allowed,
        ),
        ("*(u64*)(((char*)p)+4096)=1", 8, "", "task_struct", allowed),
        (
            "__sync_fetch_and_add(&p->scx.slice,1)",
            8,
            "scx.slice",
            "task_struct",
            allowed,
        ),
        ("*(u64*)p->cpus_ptr=~0ULL", 8, "cpus_mask.bits", "task_struct", allowed),
        ("*(u64*)scx_bpf_get_idle_cpumask()=~0ULL", 8, "bits", "cpumask", reads),
        ("*(u64*)scx_bpf_get_online_cpumask()=0", 8, "bits", "cpumask", reads),
        ("scx_bpf_cpu_rq(1)->curr=p", 8, "curr", "rq", reads),
        ("scx_bpf_task_cgroup(p)->level=1<<20", 4, "level", "cgroup", reads),
    ] {
        let message = tamper(statement, Engine::Jit);
        assert_eq!(message, tamper(statement, Engine::Interpreter), "{statement}");
        let start = format!("ops.running(): store of {size} bytes to {field}");
        let middle = format!(" of a {object}, which the kernel does not allow: {rule} in tamper_running (");
        assert!(
            message.starts_with(&start) && message.contains(&middle),
            "{statement}: {message}"
        );
    }
}

#[test]
fn allowed_stores_succeed() {
    for engine in [Engine::Jit, Engine::Interpreter] {
        assert_eq!(tamper("p->scx.slice=cell", engine), "the run continues");
        assert_eq!(tamper("scx->dsq_vtime=~0ULL", engine), "the run continues");
        assert_eq!(tamper("scx->slice=1000000", engine), "the run continues");
        assert_eq!(tamper("p->scx.disallow=false", engine), "the run continues");
        assert_eq!(
            tamper("*(volatile u32*)&p->scx.slice=4000000", engine),
            "the run continues"
        );
    }
}

/// Runs the policy `hog` with a memory limit of 8 MiB. Returns the message with which it ends.
fn hog(kind: &str, engine: Engine) -> String {
    let path = policies::compile("hog", &[kind]);
    let bytes = std::fs::read(&path).expect("an object");
    let object = Object::parse(&bytes, "hog.bpf.o").expect("a BPF object");
    let tasks = Tasks::default().add("t", vec![run_ms(1)]);
    let mut m = Machine::new(costly(2), tasks.workload, 1).expect("a machine");
    m.region().memory().set_limit(8 << 20);
    match kernel::load::load(&mut m, &object, &Profile::default(), engine) {
        Ok(_) => "the run continues".to_string(),
        Err(LoadError::Refused(exit)) => {
            m.run(10 * MS, &mut Vec::<Record>::new());
            exit.message.clone()
        }
        Err(LoadError::Input(error)) => error.to_string(),
    }
}

#[test]
fn exhausted_memory_ends_the_policy_and_names_the_largest_user() {
    for (kind, most) in [
        ("OBJECTS", "records of elements, objects, trees and lists"),
        ("ELEMENTS", "records of elements, objects, trees and lists"),
        ("ARENA", "arenas"),
        ("QUEUE", "allocated objects, hash elements and local storage"),
        ("DSQS", "DSQs and locks"),
        ("LOCKS", "DSQs and locks"),
        ("TIMERS", "timers"),
        ("STARTS", "timers"),
        ("LINES", "printed text"),
        ("MASKS", "records of elements, objects, trees and lists"),
        ("LIST", "arrays, globals and ring buffers"),
        ("RECORDS", "records of elements, objects, trees and lists"),
    ] {
        let message = hog(kind, Engine::Jit);
        assert_eq!(message, hog(kind, Engine::Interpreter), "{kind}");
        assert!(message.contains("out of memory: "), "{kind}: {message}");
        assert!(message.contains(most), "{kind}: {message}");
        assert!(
            message.contains("raise the limit (--memory) or use less"),
            "{kind}: {message}"
        );
    }
}

/// The three machines exist at the same time, so the host has mapped their memory at different
/// addresses. The policy computes slices from addresses. If it saw the addresses of the host, the
/// schedules would differ.
#[test]
fn a_policy_sees_the_same_addresses_in_every_machine() {
    let path = policies::compile(
        "tamper",
        &["STORE=p->scx.slice=100000+((u64)p>>6)%3000000+((u64)&nr_running>>4)%1000"],
    );
    let bytes = std::fs::read(&path).expect("an object");
    let object = Object::parse(&bytes, "tamper.bpf.o").expect("a BPF object");
    let run = |engine| {
        let tasks = (0..6).fold(Tasks::default(), |tasks, i| {
            tasks.add(&format!("t{i}"), vec![run_ms(30)])
        });
        let mut m = Machine::new(costly(2), tasks.workload, 1).expect("a machine");
        kernel::load::load(&mut m, &object, &Profile::default(), engine).expect("the policy loads");
        let mut records: Vec<Record> = Vec::new();
        m.run(200 * MS, &mut records);
        assert!(m.ext().exit.is_none());
        (records, m)
    };
    let (first, machine) = run(Engine::Jit);
    let others = [run(Engine::Jit), run(Engine::Interpreter)];
    let mut addresses = vec![machine.region().delta()];
    for (records, other) in &others {
        assert!(*records == first);
        addresses.push(other.region().delta());
    }
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), 3, "the regions are at different addresses");
}

#[test]
fn tasks_beyond_the_memory_limit_are_not_created() {
    let fork = Op::Fork { task: 1, thread: false };
    let again = Op::LoopBack {
        counter: 0,
        times: None,
        target: 0,
    };
    let bomb = vec![fork, run_ms(1), again];
    let tasks = Tasks::default()
        .add("bomb", bomb)
        .add("child", vec![sleep_ms(100_000)])
        .with(|task| task.spawn = false);
    let mut m = Machine::new(costly(2), tasks.workload, 1).expect("a machine");
    m.region().memory().set_limit(m.region().memory().used() + 100_000);
    m.run(200 * MS, &mut Vec::<Record>::new());
    assert!((20..150).contains(&m.tasks().len()), "{}", m.tasks().len());
    assert!(m.failed_forks.len() > 50 && m.failed_forks.iter().all(|fork| *fork == ("child".to_owned(), -11)));
}

#[test]
fn a_run_with_unlimited_time_ends_with_its_tasks() {
    let mut m = Machine::new(
        costly(1),
        Tasks::default().add("t", vec![run_ms(1), sleep_ms(1)]).workload,
        1,
    )
    .expect("a machine");
    m.run(u64::MAX, &mut Vec::<Record>::new());
    assert_eq!(m.nr_alive, 0);
}

/// Runs the policy `search`, which calls a function in an endless loop, on a machine with `cpus`
/// CPUs. Returns the message with which the policy ends, and how often it has called the function.
fn search(function: &str, cpus: u32, engine: Engine) -> (String, u64) {
    let path = policies::compile("search", &[function]);
    let bytes = std::fs::read(&path).expect("an object");
    let object = Object::parse(&bytes, "search.bpf.o").expect("a BPF object");
    let tasks = Tasks::default().add("t", vec![run_ms(1)]);
    let mut m = Machine::new(costly(cpus), tasks.workload, 1).expect("a machine");
    let image = kernel::load::load(&mut m, &object, &Profile::default(), engine).expect("the policy loads");
    m.run(MS, &mut Vec::<Record>::new());
    m.verify();
    let calls = image.get(m.region(), "nr_calls").expect("the policy has this counter");
    let exit = m.ext().exit.as_ref().expect("the policy has ended");
    (exit.message.clone(), calls.parse().expect("the counter is a number"))
}

#[test]
fn the_budget_pays_for_searches_of_the_kernel() {
    // `work` is a number of instructions. Each call must be charged this number for the search in
    // the kernel, in addition to the instructions of the loop.
    for (function, cpus, work) in [
        ("PICK_IDLE", 8192, 8192 / 64),
        ("ONLINE_MASK", 8192, 8192 / 64),
        ("DSQ_ITERATOR", 2, 16),
        ("KICK", 2, 1),
    ] {
        let (message, calls) = search(function, cpus, Engine::Jit);
        assert!(message.contains("an endless loop?"), "{function}: {message}");
        assert!(
            (1000..bpf::engine::BUDGET / work).contains(&calls),
            "{function}: {calls} calls"
        );
    }
}
