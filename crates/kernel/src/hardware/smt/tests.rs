// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the contention between hardware threads. The kernel's work takes no time, so times are
//! exact.

use crate::machine::Machine;
use crate::simulation::rng::Rng;
use crate::testbed::*;
use machine::MachineSpec;
use trace::{Event, Record};
use workload::{Dist, Op};

fn work(ns: u64) -> Op {
    Op::Run(Dist::Fixed(ns))
}

/// CPU time that does not depend on the speed.
fn runtime(ns: u64) -> Op {
    Op::Runtime(Dist::Fixed(ns))
}

/// Returns `cores` cores of two threads. If both threads of a core are busy, both run at 635/1024
/// of the full speed.
fn two_threads(cores: u32) -> MachineSpec {
    let mut spec = free(spec(1, 1, cores, 2));
    spec.smt_throughput = vec![1024, 635];
    spec
}

#[test]
fn two_hogs_on_one_core_take_longer_than_on_two() {
    for (cpus, end) in [([0, 2], 10 * MS), ([0, 1], 16_125_985)] {
        let mut bed = Bed::default();
        for cpu in cpus {
            bed.pinned(cpu, vec![work(10 * MS)]);
        }
        let (_, records) = bed.run(two_threads(2), SECOND);
        assert_eq!(
            exits(&records, 2),
            [end, end],
            "CPUs {cpus:?}: on one core, both tasks take 10 ms * 1024 / 635"
        );
    }
}

#[test]
fn a_sibling_slows_a_task_only_while_it_is_busy() {
    let mut bed = Bed::default();
    bed.pinned(0, vec![work(10 * MS)]);
    bed.pinned(1, vec![runtime(3 * MS)]).start_ns = 2 * MS;
    let (m, records) = bed.run(two_threads(1), SECOND);
    // For 3 ms, the task does only 635/1024 of the work that it would do alone. It does the missing
    // work at the end.
    let end = 10 * MS + (3 * MS * (1024 - 635)).div_ceil(1024);
    assert_eq!(exits(&records, 2), [end, 5 * MS]);
    assert_eq!(m.rqs[0].time.tasks_ns, end, "CPU time is elapsed time and not work");

    let mut spec = free(spec(1, 1, 1, 4));
    spec.smt_throughput = vec![1024, 700, 500, 400];
    let mut bed = Bed::default();
    bed.pinned(0, vec![work(10 * MS)]);
    bed.pinned(1, vec![runtime(9 * MS)]);
    bed.pinned(2, vec![runtime(3 * MS)]).start_ns = 2 * MS;
    let (_, records) = bed.run(spec, SECOND);
    let done_at_9_ms = (2 + 4) * MS * 700 + 3 * MS * 500;
    let end = 9 * MS + (10 * MS * 1024 - done_at_9_ms).div_ceil(1024);
    assert_eq!(exits(&records, 3), [end, 9 * MS, 5 * MS]);
}

#[test]
fn speed_depends_on_frequency_and_busy_siblings() {
    let mut bed = Bed::default();
    bed.pinned(0, vec![work(10 * MS)]);
    bed.pinned(1, vec![runtime(20 * MS)]);
    let mut spec = two_threads(1);
    spec.cpuperf_min = 256;
    let mut m = bed.machine(spec);
    let mut records = Vec::new();
    m.advance(4 * MS, &mut records);
    // 1.25 times the target is 512, half of the full performance level.
    m.set_perf_target(cpu_id(0), 410);
    assert_eq!((m.rqs[0].capacity, m.rqs[0].speed), (512, 318));
    m.run(SECOND, &mut records);
    let left = 10 * MS * 1024 - 4 * MS * 635 - 16 * MS * 318;
    assert_eq!(exits(&records, 2), [20 * MS + left.div_ceil(512), 20 * MS]);
}

/// Runs two hogs, tasks that never sleep, on CPU 0, and a task with the program `sibling` on the
/// other thread of the core. Returns the state that the scheduler of CPU 0 sees: the times of its
/// context switches, the utilisation and clock_pelt.
fn seen_by_the_scheduler(sibling: Vec<Op>) -> (Vec<u64>, u64, u64) {
    let mut bed = Bed::default();
    bed.pinned(0, hog());
    bed.pinned(0, hog());
    bed.pinned(1, sibling);
    let (m, records) = bed.run(two_threads(1), 200 * MS);
    let switches = |r: &Record| (r.cpu == 0 && matches!(r.event, Event::Switch { .. })).then_some(r.time);
    (
        records.iter().filter_map(switches).collect(),
        m.rqs[0].fair.cfs.avg.util_avg,
        m.layout.rq_struct(cpu_id(0)).clock_pelt,
    )
}

#[test]
fn slices_and_averages_do_not_depend_on_the_siblings() {
    let alone = seen_by_the_scheduler(vec![runtime(1)]);
    assert!(alone.0.len() > 20, "only {} switches", alone.0.len());
    assert_eq!(seen_by_the_scheduler(sleeper(70 * US, 30 * US)), alone);
    assert_eq!(seen_by_the_scheduler(hog()), alone);
}

/// Runs a task with the program `steps`, and on the sibling CPU a task that often wakes up.
/// Accounts the time of all CPUs every `every` ns. Returns the trace records.
fn accounted_every(every: u64, steps: Vec<Op>) -> Vec<Record> {
    let mut bed = Bed::default();
    bed.pinned(0, steps);
    let sibling = (0..500).flat_map(|_| [work(3001), Op::Sleep(Dist::Fixed(1777))]);
    bed.pinned(1, sibling.collect());
    let mut m = bed.machine(two_threads(1));
    let mut records = Vec::new();
    let mut until = every;
    let ended = loop {
        if let Some(ended) = m.advance(until, &mut records) {
            break ended;
        }
        m.now = until;
        for cpu in m.cpus() {
            m.account(cpu);
        }
        until += every;
    };
    m.finish(&ended, until, &mut records);
    records
}

#[test]
fn work_ends_at_the_same_time_regardless_of_steps_and_accounting() {
    let whole = accounted_every(SECOND, vec![work(5 * MS)]);
    let ends = exits(&whole, 2);
    assert!(ends[0] > 5 * MS, "the sibling did not slow the task: {ends:?}");
    for every in [100, 997, 123_457] {
        assert_eq!(
            accounted_every(every, vec![work(5 * MS)]),
            whole,
            "the trace changes if CPUs are accounted every {every} ns"
        );
    }
    for step in [1, 7, 1000, 9973] {
        let mut steps = vec![work(step); (5 * MS / step).min(10_000) as usize];
        steps.push(work(5 * MS - step * steps.len() as u64));
        let records = accounted_every(SECOND, steps);
        assert_eq!(
            exits(&records, 2),
            ends,
            "the work ends at another time if it consists of steps of {step} ns"
        );
    }
}

/// A task of a random case: its CPU, its start, and its total work in ns and steps.
struct Known {
    cpu: u32,
    start: u64,
    work: u64,
    steps: u64,
}

/// Returns random tasks for a random machine. They work and sleep in turn.
fn random_case(rng: &mut Rng) -> (Machine, Vec<Known>) {
    let threads = 1 + rng.below(4) as u32;
    let mut spec = free(spec(1, 1, 1 + rng.below(2) as u32, threads));
    let mut speed = 1024;
    for entry in &mut spec.smt_throughput {
        *entry = speed;
        speed = 1 + rng.below(u64::from(speed)) as u32;
        speed = speed.max(100);
    }
    let nr_cpus = spec.topology.nr_cpus();
    let (mut bed, mut known) = (Bed::default(), Vec::new());
    for _ in 0..1 + rng.below(2 * u64::from(nr_cpus)) {
        let mut task = Known {
            cpu: rng.below(nr_cpus.into()) as u32,
            start: rng.below(MS),
            work: 0,
            steps: 1 + rng.below(20),
        };
        let mut ops = Vec::new();
        for _ in 0..task.steps {
            let ns = 1 + rng.below(2 * MS);
            task.work += ns;
            ops.push(work(ns));
            if rng.below(2) == 0 {
                ops.push(Op::Sleep(Dist::Fixed(1 + rng.below(MS))));
            }
        }
        bed.pinned(task.cpu, ops).start_ns = task.start;
        known.push(task);
    }
    (bed.machine(spec), known)
}

/// Returns the work of each task as calculated from the switches alone: the integral of the task's
/// speed over the time in which it runs.
fn integrals(m: &Machine, records: &[Record], nr: usize) -> Vec<u64> {
    let mut running = vec![0; m.rqs.len()];
    let mut done = vec![0; nr + 1];
    let mut since = 0;
    for record in records {
        for (cpu, &pid) in running.iter().enumerate() {
            let siblings = m.spec.topology.siblings(cpu as u32);
            let busy = siblings.iter().filter(|&&cpu| running[cpu as usize] != 0).count();
            if pid != 0 {
                done[pid as usize] += (record.time - since) * u64::from(m.spec.smt_throughput[busy - 1]);
            }
        }
        since = record.time;
        if let Event::Switch { next, .. } = record.event {
            running[record.cpu as usize] = next;
        }
    }
    done.split_off(1)
}

#[test]
fn work_is_the_integral_of_speed_over_time() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let (mut m, mut known) = random_case(&mut rng);
        let mut records = Vec::new();
        m.run(60 * SECOND, &mut records);
        assert_eq!(m.nr_alive, 0, "seed {seed}: some tasks have not exited");
        // Tasks that start later have higher pids.
        known.sort_by_key(|task| task.start);
        for (task, done) in known.iter().zip(integrals(&m, &records, known.len())) {
            let all = task.work * 1024;
            // A step ends at a whole nanosecond. If a sleep follows, the rest of the last
            // nanosecond is not used, so `done` can be too large by up to 1024 units for each step.
            assert!(
                (all..all + task.steps * 1024).contains(&done),
                "seed {seed}, CPU {}: the task has {all} units of work in {} steps, but did {done} units",
                task.cpu,
                task.steps
            );
        }
    }
}

#[test]
fn a_machine_without_smt_has_no_contention() {
    for spec in [
        MachineSpec::smp(4),
        machine::load("numa16", &[]).expect("the machine numa16 exists"),
    ] {
        let m = Bed::default().machine(spec);
        assert!(m.smt.speeds.is_empty());
        assert!(m.rqs.iter().all(|rq| rq.speed == 1024));
    }
}
