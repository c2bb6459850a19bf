// SPDX-License-Identifier: GPL-2.0-only
//! Tests of CPUs that run in turn. The kernel's work takes no time, so times are exact.

use crate::simulation::rng::Rng;
use crate::testbed::*;
use machine::MachineSpec;
use trace::Event;
use workload::{Dist, Op};

const US: u64 = 1000;

/// Returns a machine with `cpus` CPUs whose turns take at most 10 us.
fn in_turn(cpus: u32) -> MachineSpec {
    let mut spec = free(spec(1, 1, cpus, 1));
    spec.turn_ns = 10 * US;
    spec
}

fn work(ns: u64) -> Op {
    Op::Run(Dist::Fixed(ns))
}

#[test]
fn busy_cpus_run_one_after_the_other() {
    let mut bed = Bed::default();
    for cpu in 0..4 {
        bed.pinned(cpu, vec![work(25 * US)]);
    }
    let (_, records) = bed.run(in_turn(4), SECOND);
    // A pass with turns of 10 us. The timer at 40 us asks all CPUs to leave, so the turns of the second
    // pass become shorter: 10, 7.5, 5.6 and 4.2 us; those of the third take 3.2 us. CPU 0 has the last
    // nanosecond before the timer at 80 us, and CPU 1 loses its turn, so CPU 2 is next.
    assert_eq!(exits(&records, 4), [95_664, 100_000, 86_211, 93_829]);
}

#[test]
fn a_cpu_that_runs_alone_is_not_interrupted() {
    let mut bed = Bed::default();
    bed.pinned(2, vec![work(100 * US)]);
    let (_, records) = bed.run(in_turn(4), SECOND);
    assert_eq!(exits(&records, 1), [100 * US]);
}

#[test]
fn a_waking_cpu_waits_for_its_turn() {
    // CPU 1 starts the timer in its first turn at 10 us. The timer expires at 13 us, when CPU 1 is about
    // to have a turn, and takes this turn away. CPU 0 comes first, for half of the time until the host's
    // next timer at 20 us.
    let mut bed = Bed::default();
    bed.pinned(0, vec![work(50 * US)]);
    bed.pinned(1, vec![Op::Sleep(Dist::Fixed(3 * US)), work(2 * US)]);
    let (_, records) = bed.run(in_turn(2), SECOND);
    let mut woken = records
        .iter()
        .filter(|r| matches!(r.event, Event::Wakeup { pid: 2, .. }));
    assert_eq!(
        woken.nth(1).map(|record| record.time),
        Some(16_500),
        "the first one is the fork"
    );
    assert_eq!(exits(&records, 2), [52 * US, 18_500]);
}

#[test]
fn a_turn_is_a_part_of_the_time_to_the_next_timer() {
    // The timer fires every 20 us. CPU 1 starts at 15 us. Each of the two CPUs gets half of the time
    // until the timer: 2.5 us. Then CPU 0 has a turn of 10 us, before CPU 1 computes the rest.
    let mut bed = Bed::default();
    bed.pinned(0, vec![work(40 * US)]);
    bed.pinned(1, vec![work(4 * US)]).start_ns = 15 * US;
    let (_, records) = bed.run(in_turn(2), SECOND);
    assert_eq!(exits(&records, 2), [44 * US, 31_500]);
}

#[test]
fn the_kernel_charges_a_task_for_the_turns_of_others() {
    let mut bed = Bed::default();
    for cpu in 0..2 {
        bed.pinned(cpu, vec![work(18 * US)]);
    }
    let (m, _) = bed.run(in_turn(2), SECOND);
    assert_eq!(m.rqs[0].time.tasks_ns, 28 * US);
    assert_eq!(m.rqs[1].time.tasks_ns, 36 * US);
}

#[test]
fn work_is_done_once_in_random_runs() {
    for seed in 1..=30 {
        let mut rng = Rng::new(seed);
        let cpus = 2 + rng.below(3) as u32;
        let mut bed = Bed::default();
        let mut total = 0;
        for index in 0..8 {
            let mut ops = Vec::new();
            for _ in 0..5 {
                let ns = 100 + rng.below(40_000);
                total += ns;
                ops.push(work(ns));
                ops.push(Op::Sleep(Dist::Fixed(rng.below(50_000))));
            }
            bed.task(index % cpus, ops);
        }
        let (m, records) = bed.run(in_turn(cpus), SECOND);
        assert_eq!(m.nr_alive, 0, "seed {seed}: a task did not end");
        let last = exits(&records, 8).into_iter().max().expect("eight tasks exited");
        assert!(
            last >= total,
            "seed {seed}: {last} ns for {total} ns of work on one thread"
        );
    }
}
