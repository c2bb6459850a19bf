// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the cost of memory accesses. Cache lines move between CPUs, and the footprints of tasks
//! (their working sets) are loaded into caches again.

use crate::policies::Run;
use crate::support::*;
use bpf::cache::Transfers;
use kernel::Machine;
use kernel::timeline::LockId;
use machine::{ByDistance, MachineSpec, TaskSets};
use workload::{Dist, Op, SchedPolicy, TaskSpec};

const FOOTPRINT: u64 = 512 << 10;

/// Returns a machine with two nodes. Each node has one LLC and two cores. Only accesses to caches
/// and memory take time. Each private cache has 1 MiB.
fn caches() -> MachineSpec {
    let mut spec = MachineSpec::regular(2, 1, 2, 1).free();
    spec.costs.reload_llc_ps = 100;
    spec.costs.reload_memory_ps = 1_000;
    spec.costs.reload_remote_ps = 3_000;
    spec
}

/// Returns a function that changes a task: it gives the task a footprint of `bytes` and binds the
/// task to CPU 0.
fn touching(bytes: u64) -> impl FnOnce(&mut TaskSpec) {
    move |task| {
        task.footprint_bytes = bytes;
        task.cpus = Some(vec![0]);
    }
}

/// Returns the reload time of a task with the footprint [`FOOTPRINT`]. The task runs on CPU 0,
/// sleeps and then continues on CPU `target_cpu`. While it sleeps, another task with a footprint of
/// `other` bytes runs on CPU 0.
fn reload(spec: MachineSpec, target_cpu: u32, other: u64) -> u64 {
    let sleeper = vec![
        run_ms(1),
        sleep_ms(2),
        Op::SetAffinity(Some(vec![target_cpu])),
        run_ms(1),
    ];
    let tasks = Tasks::default()
        .add("sleeper", sleeper)
        .with(touching(FOOTPRINT))
        .add("other", vec![sleep_ms(2), run_ms(1)])
        .with(touching(other));
    let mut machine = Machine::new(spec, tasks.workload, 1).expect("a machine");
    let mut records = Vec::new();
    machine.run(20 * MS, &mut records);
    assert_eq!(machine.nr_alive, 0);
    machine.reload_ns()
}

#[test]
fn a_task_reloads_nothing_from_an_undisturbed_cache() {
    assert_eq!(reload(caches(), 0, 0), 0);
    // The cache has room for the footprints of both tasks.
    assert_eq!(reload(caches(), 0, FOOTPRINT), 0);
}

#[test]
fn displaced_bytes_are_reloaded_from_the_next_cache() {
    let spec = caches();
    // The other task's footprint of 640 KiB displaces a quarter of the first footprint from the
    // cache of 1 MiB. A footprint of 8 MiB displaces all of it.
    assert_eq!(reload(spec.clone(), 0, 640 << 10), (FOOTPRINT / 4) / 10);
    assert_eq!(reload(spec, 0, 8 << 20), FOOTPRINT / 10);
}

#[test]
fn another_core_reloads_from_the_llc_and_another_node_from_remote_memory() {
    let spec = caches();
    // The task wakes up on CPU 0, whose cache still contains its footprint, and then moves to
    // another CPU.
    assert_eq!(reload(spec.clone(), 1, 0), FOOTPRINT / 10);
    assert_eq!(reload(spec.clone(), 2, 0), FOOTPRINT * 3);
    let mut flat = spec;
    flat.costs.flat_memory = true;
    assert_eq!(reload(flat, 2, 0), FOOTPRINT * 2, "half of the memory is local");
}

#[test]
fn reloading_is_time_without_progress() {
    let end = |footprint: u64| {
        let ops = vec![run_ms(1), Op::SetAffinity(Some(vec![2])), run_ms(1)];
        let tasks = Tasks::default().add("mover", ops).with(touching(footprint));
        let mut machine = Machine::new(caches(), tasks.workload, 1).expect("a machine");
        let mut records = Vec::new();
        machine.run(20 * MS, &mut records);
        (machine.now, machine.reload_ns())
    };
    let (light, heavy) = (end(0), end(FOOTPRINT));
    assert_eq!(light.1, 0);
    assert_eq!(heavy, (light.0 + FOOTPRINT * 3, FOOTPRINT * 3));
}

/// A reload may be interrupted. If the task soon continues to run on the same CPU, it is charged
/// only for the rest of the reload.
#[test]
fn an_interrupted_reload_is_not_charged_twice() {
    let mover = vec![run_ms(1), Op::SetAffinity(Some(vec![2])), run_ms(5)];
    let rt = |task: &mut TaskSpec| {
        task.cpus = Some(vec![2]);
        task.policy = SchedPolicy::Fifo { rt_priority: 1 };
    };
    let tasks = Tasks::default()
        .add("mover", mover)
        .with(touching(FOOTPRINT))
        .add("rt", vec![Op::Sleep(Dist::Fixed(1_500 * US)), run_ms(1)])
        .with(rt);
    let mut machine = Machine::new(caches(), tasks.workload, 1).expect("a machine");
    let mut records = Vec::new();
    machine.run(20 * MS, &mut records);
    let off = machine.reload_ns().abs_diff(FOOTPRINT * 3);
    assert!(off < 10, "{} ns instead of {}", machine.reload_ns(), FOOTPRINT * 3);
}

/// Load balancing may move a task at exec. It does so before the new program has accessed memory,
/// so the memory is placed on the node to which the task moves.
#[test]
fn memory_is_placed_where_a_task_runs_after_exec() {
    let moved = |then: Vec<Op>| {
        let exec = Op::Exec { comm: "cc1".into() };
        let ops = vec![run_ms(1), exec, Op::SetAffinity(Some(vec![2])), run_ms(1)];
        let ops = ops.into_iter().chain(then).collect();
        let tasks = Tasks::default().add("sh", ops).with(touching(FOOTPRINT));
        let mut machine = Machine::new(caches(), tasks.workload, 1).expect("a machine");
        let mut records = Vec::new();
        machine.run(20 * MS, &mut records);
        assert_eq!(machine.nr_alive, 0);
        machine.reload_ns()
    };
    assert_eq!(moved(vec![]), 0, "the new program has no memory yet");
    let back = vec![Op::SetAffinity(Some(vec![0])), run_ms(1)];
    assert_eq!(
        moved(back),
        FOOTPRINT * 3,
        "the memory is on node 1, and CPU 0 has none of it in its caches"
    );
}

/// CPUs 0 and 1 are on node 0, and CPUs 2 and 3 are on node 1. Each CPU has its own LLC.
#[test]
fn shared_cache_lines_come_from_the_kernels_node() {
    let mut spec = MachineSpec::regular(2, 2, 1, 1).free();
    spec.costs.cache_line = ByDistance {
        node: 100,
        remote: 1000,
        ..ByDistance::default()
    };
    // CPU 3 writes to the cache line. Then CPU 2 reads it first, and after it the other CPUs.
    let reads = |spec: &MachineSpec| {
        let machine = Machine::new(spec.clone(), Default::default(), 1).expect("a machine");
        let (lines, addr) = (
            machine.region().lines(),
            machine.region().alloc(64).expect("the region has free memory"),
        );
        // SAFETY: the address lies in the region to which the cache lines belong.
        unsafe {
            lines.store(3, addr);
            [2, 0, 1].map(|cpu| lines.load(cpu, addr))
        }
    };
    assert_eq!(reads(&spec), [100, 1000, 100]);
    spec.topology.kernel_node = Some(0);
    assert_eq!(reads(&spec), [100, 100, 100]);
    spec.topology.kernel_node = Some(1);
    assert_eq!(reads(&spec), [100, 1000, 1000]);
}

/// Returns a program that alternates between running and sleeping.
fn naps() -> Vec<Op> {
    forever(vec![
        Op::Run(Dist::Exponential { mean: 100 * US }),
        Op::Sleep(Dist::Exponential { mean: 70 * US }),
    ])
}

/// Returns the number of cache-line transfers and the overhead in ns. Only transfers of cache lines
/// take time on this machine.
fn line_transfers(cpus: u32, defines: &[&str]) -> (u64, u64) {
    let mut spec = free(cpus);
    spec.costs.cache_line = ByDistance {
        llc: 50,
        ..ByDistance::default()
    };
    let tasks = (0..3 * cpus).fold(Tasks::default(), |tasks, i| tasks.add(&format!("nap{i}"), naps()));
    let machine = Machine::new(spec, tasks.workload, 1).expect("a machine");
    let mut run = Run::new(machine, "lines", defines);
    run.run(50 * MS).assert_alive();
    let overhead = run.machine.rqs().iter().map(|rq| rq.time.overhead_ns).sum();
    (run.machine.line_transfers().count, overhead)
}

#[test]
fn a_single_cpu_transfers_no_cache_lines() {
    assert_eq!(line_transfers(1, &["DENSE"]), (0, 0));
}

#[test]
fn separate_cache_lines_are_cheaper_than_a_shared_one() {
    let (dense, sparse) = (line_transfers(8, &["DENSE"]), line_transfers(8, &[]));
    // Tasks move between CPUs in both cases, so both have transfers of cache lines.
    assert!(sparse.0 > 1000, "{sparse:?}");
    assert!(
        dense.0 * 7 > sparse.0 * 8 && dense.1 * 7 > sparse.1 * 8,
        "{dense:?} {sparse:?}"
    );
}

/// Returns the transfers of cache lines to the only CPU, and the policy's counter `nr_seen`.
///
/// The addresses of the tasks are multiples of 8 KiB, so their cache lines compete for the same
/// sets of the L2. The L2 has room for the cache lines of `room` tasks. From another CPU, one cache
/// line is fetched in 100 ns, and both cache lines of a task are fetched in `two_ns`.
fn task_line_transfers(room: u64, two_ns: u32) -> (Transfers, u64) {
    let mut spec = free(1);
    let by_distance = |node| ByDistance {
        node,
        ..ByDistance::default()
    };
    spec.costs.reload_memory_ps = 5_000;
    spec.costs.cache_line = by_distance(two_ns);
    spec.topology.cpus[0].l2_bytes = room * 8192;
    spec.topology.task_sets = Some(TaskSets {
        stride: 8192,
        ways: 4,
        line: by_distance(100),
    });
    let tasks = Tasks::default().add("nap", naps());
    let machine = Machine::new(spec, tasks.workload, 1).expect("a machine");
    let mut run = Run::new(machine, "lines", &["TASKS"]);
    run.run(50 * MS).assert_alive();
    (run.machine.line_transfers(), run.var("nr_seen"))
}

#[test]
fn task_structs_compete_for_sets_of_the_l2() {
    let ((few, seen), (many, _)) = (task_line_transfers(8, 200), task_line_transfers(64, 200));
    assert_eq!(
        few.ns,
        few.count * 160,
        "a transfer of 32 bytes from memory takes 5 ns per byte"
    );
    assert!(many.count < 32, "each cache line is fetched once: {many:?}");
    // The nth dispatch adds n to nr_seen for each of the 16 tasks. After n dispatches, nr_seen is
    // 16 * n * (n + 1) / 2, or about 8 * n * n. At the next dispatch, none of the 16 cache lines is
    // still in the L2.
    let dispatches = (seen / 8).isqrt();
    assert!(dispatches > 100 && few.count >= 16 * dispatches, "{few:?}");
}

#[test]
fn the_second_cache_line_of_a_task_struct_is_fetched_in_parallel() {
    // Each transfer takes 160 ns, with one exception: the second cache line of the task that sleeps
    // and wakes up takes 40 % of this time.
    let (two, _) = task_line_transfers(64, 140);
    assert_eq!(two.ns, two.count * 160 - 96);
}

#[test]
fn a_policys_lock_has_the_name_of_its_map_and_statistics() {
    let tasks = (0..24).fold(Tasks::default(), |tasks, i| tasks.add(&format!("nap{i}"), naps()));
    let mut spec = costly(8);
    // Each instruction takes 100 ns, so that the critical section is long.
    spec.costs.bpf_insn_ps = 100_000;
    let machine = Machine::new(spec, tasks.workload, 1).expect("a machine");
    let mut run = Run::new(machine, "locks", &[]);
    run.run(50 * MS).assert_alive();
    let lock = run.machine.locks().find(|(id, _)| matches!(id, LockId::Bpf(_)));
    let (id, stat) = lock.expect("the machine has the policy's lock");
    assert_eq!(run.machine.lock_name(id), "bpf_spin_lock counts[2]+0x8");
    assert_eq!(stat.acquisitions, run.var("nr_queued"));
    assert!(
        stat.contended > 0 && stat.wait_ns > 0 && stat.wait_max_ns <= stat.wait_ns,
        "{stat:?}"
    );
    // The critical section consists of several instructions that take 100 ns each.
    assert!(stat.held_ns >= stat.acquisitions * 400, "{stat:?}");
}
