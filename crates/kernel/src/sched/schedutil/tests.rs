// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the governor schedutil and of frequencies. The kernel's work takes no time, so times
//! are exact.

use super::*;
use crate::simulation::rng::Rng;
use crate::testbed::*;
use machine::{FrequencyDomain, FrequencyGovernor, MachineSpec};
use trace::{Event as Traced, Record};
use workload::{Dist, Op, SchedPolicy};

/// Returns a machine with `cores` cores and the governor schedutil.
fn governed(cores: u32, rate_limit_ns: u64, transition_ns: u64) -> MachineSpec {
    let mut spec = free(spec(1, 1, cores, 1));
    spec.cpuperf_min = 100;
    spec.frequency = machine::Frequency {
        governor: FrequencyGovernor::Schedutil,
        rate_limit_ns,
        transition_ns,
        ..machine::Frequency::default()
    };
    spec
}

/// Sets the utilization of a CPU, on which no task waits, and reports it to the governor.
fn report(m: &mut Machine, cpu: u32, util: u64) {
    let avg = &mut m.rqs[cpu_id(cpu)].fair.cfs.avg;
    (avg.util_avg, avg.runnable_avg) = (util, util);
    m.cpufreq_update_util(cpu_id(cpu), false);
}

/// Handles all events until the time `until` and makes it the current time.
fn pass(m: &mut Machine, until: u64) {
    m.advance(until, &mut Vec::new());
    m.now = until;
}

fn level(m: &Machine, cpu: u32) -> u64 {
    m.perf_level(cpu_id(cpu))
}

#[test]
fn the_frequency_is_125_percent_of_the_utilization() {
    for (util, expected) in [(0, 100), (40, 100), (400, 500), (819, 1023), (820, 1024), (1024, 1024)] {
        let mut m = Bed::default().machine(governed(1, 0, 0));
        report(&mut m, 0, util);
        pass(&mut m, 1);
        assert_eq!(level(&m, 0), expected, "utilization {util}");
    }
    // The utilization of a slow CPU is relative to its capacity.
    let mut spec = governed(2, 0, 0);
    spec.topology.cpus[0].capacity = 512;
    let mut m = Bed::default().machine(spec);
    report(&mut m, 0, 256);
    pass(&mut m, 1);
    assert_eq!((level(&m, 0), m.rqs[cpu_id(0)].capacity), (640, 320));
    // Tasks that wait for the CPU count as well.
    let avg = &mut m.rqs[cpu_id(1)].fair.cfs.avg;
    (avg.util_avg, avg.runnable_avg) = (200, 400);
    m.cpufreq_update_util(cpu_id(1), false);
    pass(&mut m, 2);
    assert_eq!(level(&m, 1), 500);
}

#[test]
fn the_frequency_changes_once_per_rate_limit() {
    let mut m = Bed::default().machine(governed(1, 1000, 0));
    report(&mut m, 0, 400);
    pass(&mut m, 999);
    report(&mut m, 0, 600);
    pass(&mut m, 1000);
    assert_eq!(level(&m, 0), 500, "an update within the rate limit has an effect");
    report(&mut m, 0, 600);
    pass(&mut m, 1001);
    assert_eq!(level(&m, 0), 750);
}

#[test]
fn a_change_takes_the_transition_time() {
    let mut m = Bed::default().machine(governed(1, 0, 500));
    report(&mut m, 0, 400);
    pass(&mut m, 300);
    // The second request replaces the first one, which has not taken effect yet.
    report(&mut m, 0, 600);
    pass(&mut m, 499);
    assert_eq!(level(&m, 0), 1024);
    pass(&mut m, 500);
    assert_eq!(level(&m, 0), 750);
    pass(&mut m, 2000);
    assert_eq!(level(&m, 0), 750);
}

#[test]
fn a_cpu_that_never_idles_keeps_its_frequency() {
    let mut m = Bed::default().machine(governed(1, 0, 0));
    report(&mut m, 0, 800);
    pass(&mut m, 1);
    report(&mut m, 0, 400);
    pass(&mut m, 2);
    assert_eq!(level(&m, 0), 1000, "the CPU was not idle since the last update");
    let mut bed = Bed::default();
    bed.pinned(0, vec![Op::Run(Dist::Fixed(10)), Op::Sleep(Dist::Fixed(SECOND))]);
    let mut m = bed.machine(governed(1, 0, 0));
    pass(&mut m, 1000);
    report(&mut m, 0, 400);
    pass(&mut m, 1001);
    assert_eq!(level(&m, 0), 500, "the CPU was idle since the last update");
}

#[test]
fn cpus_of_a_domain_have_the_frequency_of_the_busiest() {
    let mut spec = governed(2, 0, 0);
    spec.frequency.domain = FrequencyDomain::Package;
    let mut m = Bed::default().machine(spec);
    report(&mut m, 0, 400);
    pass(&mut m, 1);
    assert_eq!((level(&m, 0), level(&m, 1)), (500, 500));
    report(&mut m, 1, 600);
    report(&mut m, 0, 100);
    pass(&mut m, 2);
    assert_eq!((level(&m, 0), level(&m, 1)), (750, 750));
}

#[test]
fn a_runnable_realtime_task_requests_the_full_frequency() {
    let program = || vec![Op::Sleep(Dist::Fixed(50 * MS)), Op::Run(Dist::Fixed(20 * MS))];
    for (policy, expected) in [
        (SchedPolicy::Fifo { rt_priority: 1 }, 1024),
        (SchedPolicy::RoundRobin { rt_priority: 1 }, 1024),
        // A deadline task is guaranteed its bandwidth only.
        (SchedPolicy::Deadline { bandwidth: 300 }, 300),
    ] {
        let mut bed = Bed::default();
        bed.pinned(0, program()).policy = policy;
        let mut m = bed.machine(governed(1, 0, 0));
        pass(&mut m, 40 * MS);
        report(&mut m, 0, 0);
        pass(&mut m, 50 * MS + 1);
        assert_eq!(level(&m, 0), expected, "{policy:?}");
    }
}

#[test]
fn a_greater_deadline_bandwidth_ignores_the_rate_limit() {
    let mut bed = Bed::default();
    bed.pinned(0, vec![Op::Run(Dist::Fixed(MS)), Op::Sleep(Dist::Fixed(SECOND))])
        .start_ns = 2;
    bed.pinned(0, vec![Op::Run(Dist::Fixed(MS)), Op::Sleep(Dist::Fixed(SECOND))]);
    let deadline = bed.pinned(1, vec![Op::Run(Dist::Fixed(MS))]);
    deadline.policy = SchedPolicy::Deadline { bandwidth: 700 };
    deadline.start_ns = 100;
    let mut m = bed.machine(governed(2, SECOND, 0));
    report(&mut m, 1, 80);
    pass(&mut m, 50);
    assert_eq!(level(&m, 1), 100);
    pass(&mut m, 101);
    assert_eq!(level(&m, 1), 700);
}

#[test]
fn wakeups_after_io_double_the_boost() {
    let mut m = Bed::default().machine(governed(1, 0, 0));
    let mut wake = |at: u64, iowait: bool| {
        pass(&mut m, at);
        m.cpufreq_update_util(cpu_id(0), iowait);
        // The frequency is lowered only after an idle time, which this test does not simulate.
        let governor = m.schedutil.as_mut().expect("the governor is schedutil");
        governor.cpus[cpu_id(0)].saved_idle_calls = u64::MAX;
        pass(&mut m, at + 1);
        level(&m, 0)
    };
    // The boost is 1/8 of the capacity and doubles up to the capacity. The frequency is 1.25 times
    // as high. The tick period is 1 ms.
    let mut at = 5 * MS / 2;
    let doubled: Vec<u64> = (1..=5).map(|n| wake(n * MS / 2, true)).collect();
    assert_eq!(doubled, [160, 320, 640, 1024, 1024]);
    // Each update without a wake-up after I/O halves the boost.
    let halved: Vec<u64> = (1..=4).map(|n| wake(at + n * MS / 2, false)).collect();
    assert_eq!(halved, [640, 320, 160, 100]);
    // After more than a tick without an update, the boost starts again.
    at += 4 * MS;
    assert_eq!((wake(at, true), wake(at + MS / 2, true)), (160, 320));
    assert_eq!(wake(at + 5 * MS, true), 160);
}

#[test]
fn a_task_that_waits_for_io_raises_the_frequency() {
    let frequency = |op: Op| {
        let mut bed = Bed::default();
        bed.pinned(
            0,
            vec![
                Op::Run(Dist::Fixed(10 * US)),
                op,
                Op::LoopBack {
                    counter: 0,
                    times: None,
                    target: 0,
                },
            ],
        );
        let (m, _) = bed.run(governed(1, 0, 0), SECOND);
        m.busy_frequencies()[0].mean
    };
    // The I/O takes 80 us, as the sleep does.
    let (io, sleep) = (
        frequency(Op::Io { bytes: 0 }),
        frequency(Op::Sleep(Dist::Fixed(80 * US))),
    );
    assert!(
        io > 900 && sleep < 400,
        "mean frequency with I/O: {io}, with sleeps: {sleep}"
    );
}

#[test]
fn a_periodic_task_settles_at_125_percent_of_its_utilization() {
    let mut bed = Bed::default();
    bed.pinned(
        0,
        vec![
            Op::Run(Dist::Fixed(MS)),
            Op::Timer {
                timer: 0,
                period: 4 * MS,
                absolute: true,
            },
            Op::LoopBack {
                counter: 0,
                times: None,
                target: 0,
            },
        ],
    );
    let (m, records) = bed.run(governed(1, MS, 0), 2 * SECOND);
    // The task needs a quarter of the CPU at full frequency: its utilization is about 256.
    let mean = m.busy_frequencies()[0].mean;
    assert!((300..370).contains(&mean), "mean frequency {mean}");
    let busy = m.busy_frequencies()[0].busy_ns;
    let work = busy * mean / 1024;
    assert!(work.abs_diff(500 * MS) < 5 * MS, "the task did {work} ns of work");
    assert!(records.iter().any(|r| matches!(r.event, Traced::Switch { .. })));
}

#[test]
fn active_cores_limit_the_frequency() {
    let mut spec = free(spec(1, 1, 2, 2));
    spec.frequency.turbo = vec![1024, 512];
    spec.smt_throughput = vec![1024, 1024];
    let mut bed = Bed::default();
    bed.pinned(0, vec![Op::Run(Dist::Fixed(10 * MS))]);
    // The other thread of the same core does not count as another core.
    bed.pinned(1, vec![Op::Run(Dist::Fixed(MS))]);
    bed.pinned(2, vec![Op::Runtime(Dist::Fixed(4 * MS))]).start_ns = 2 * MS;
    let (m, records) = bed.run(spec, SECOND);
    let end = |pid| {
        let exit = |r: &&Record| matches!(r.event, Traced::Switch { prev, .. } if prev == pid);
        records.iter().find(exit).expect("the task ended").time
    };
    // For 4 ms, both cores are active, and the first task does 2 ms of work.
    assert_eq!((end(1), end(2), end(3)), (12 * MS, MS, 6 * MS));
    assert_eq!(m.busy_frequencies()[0].mean, (8 * 1024 + 4 * 512) / 12);
}

#[test]
fn a_machine_without_these_keys_measures_no_frequency() {
    let (m, _) = Bed::default().run(free(spec(1, 1, 2, 1)), MS);
    assert!(m.busy_frequencies().is_empty());
}

/// A task of a random case: its CPU, its start, and its total work in ns and steps.
struct Known {
    cpu: u32,
    start: u64,
    work: u64,
    steps: u64,
}

/// Returns random tasks for a random machine whose frequencies change often.
fn random_case(rng: &mut Rng) -> (Machine, Vec<Known>) {
    let mut spec = governed(1 + rng.below(4) as u32, rng.below(MS), rng.below(100 * US));
    spec.cpuperf_min = 1 + rng.below(500) as u32;
    let domains = [FrequencyDomain::Core, FrequencyDomain::Llc, FrequencyDomain::Package];
    spec.frequency.domain = domains[rng.below(3) as usize];
    let mut speed = 1024;
    for _ in 0..spec.topology.cores.len() {
        spec.frequency.turbo.push(speed);
        speed = (1 + rng.below(u64::from(speed)) as u32).max(200);
    }
    for cpu in &mut spec.topology.cpus {
        cpu.capacity = 300 + rng.below(725) as u32;
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
            ops.push(Op::Run(Dist::Fixed(ns)));
            match rng.below(4) {
                0 => ops.push(Op::Sleep(Dist::Fixed(1 + rng.below(20 * MS)))),
                1 => ops.push(Op::Io { bytes: 0 }),
                _ => {}
            }
        }
        bed.pinned(task.cpu, ops).start_ns = task.start;
        known.push(task);
    }
    (bed.machine(spec), known)
}

/// Returns the work of each task as calculated from the switches and the changes of frequency: the
/// integral of the task's speed over the time in which it runs.
fn integrals(m: &Machine, records: &[Record], nr: usize) -> Vec<u64> {
    let mut running = vec![0; m.rqs.len()];
    let mut speed: Vec<u64> = m.cpus().map(|cpu| m.arch_capacity(cpu)).collect();
    let mut done = vec![0; nr + 1];
    let mut since = 0;
    let mut changes = m.cpufreq.changes.iter().peekable();
    for record in records {
        loop {
            let change = changes.next_if(|change| change.0 <= record.time);
            let until = change.map_or(record.time, |change| change.0);
            for (cpu, &pid) in running.iter().enumerate() {
                done[pid as usize] += (until - since) * speed[cpu];
            }
            since = until;
            let Some(&(_, cpu, level)) = change else { break };
            speed[cpu.index()] = (m.arch_capacity(cpu) * level / 1024).max(1);
        }
        if let Traced::Switch { next, .. } = record.event {
            running[record.cpu as usize] = next;
        }
    }
    done.split_off(1)
}

#[test]
fn work_is_the_integral_of_the_frequency_over_time() {
    let mut nr_changes = 0;
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let (mut m, mut known) = random_case(&mut rng);
        let mut records = Vec::new();
        m.run(60 * SECOND, &mut records);
        assert_eq!(m.nr_alive, 0, "seed {seed}: some tasks have not exited");
        nr_changes += m.cpufreq.changes.len();
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
    assert!(nr_changes > 5000, "only {nr_changes} changes of frequency");
}
