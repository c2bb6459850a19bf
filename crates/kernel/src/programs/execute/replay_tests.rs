// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the rules that apply only to the replay of a recording.

use crate::testbed::*;
use trace::{Event, TaskState};
use workload::{Dist, Op};

const US: u64 = 1000;
const MS: u64 = 1_000_000;

fn run(ns: u64) -> Op {
    Op::Run(Dist::Fixed(ns))
}

/// Returns how often task 2 sleeps on CPU 0 while it waits for three wake-ups that task 1 has sent in
/// advance. With `busy`, another task competes for the CPU.
fn sleeps(replay: bool, busy: bool) -> usize {
    let mut bed = Bed::default();
    let semaphore = bed.semaphore();
    let post = Op::SemPost(semaphore);
    bed.pinned(1, vec![post.clone(), post.clone(), post]);
    let mut ops = vec![run(MS)];
    for _ in 0..3 {
        ops.extend([Op::SemWait(semaphore), run(100 * US)]);
    }
    bed.pinned(0, ops);
    if busy {
        bed.pinned(0, hog());
    }
    if replay {
        bed.replay();
    }
    let (_, records) = bed.run(free(spec(1, 1, 2, 1)), 20 * MS);
    let slept = |prev, state| prev == 2 && state == TaskState::Interruptible;
    let switches = records
        .iter()
        .filter(|record| matches!(record.event, Event::Switch { prev, prev_state, .. } if slept(prev, prev_state)));
    switches.count()
}

#[test]
fn a_task_sleeps_for_a_wakeup_that_came_early_if_others_wait_for_its_cpu() {
    assert_eq!(sleeps(false, true), 0);
    assert_eq!(sleeps(true, false), 0, "no task waits for the CPU");
    assert_eq!(sleeps(true, true), 3);
}

#[test]
fn recorded_times_contain_the_kernels_work() {
    let busy = |replay: bool| {
        let mut bed = Bed::default();
        let pause = Op::Sleep(Dist::Fixed(50 * US));
        let mut ops: Vec<Op> = (0..20).flat_map(|_| [run(100 * US), pause.clone()]).collect();
        ops.push(Op::Sleep(Dist::Fixed(100 * MS)));
        bed.pinned(0, ops);
        if replay {
            bed.replay();
        }
        let (m, _) = bed.run(spec(1, 1, 1, 1), 20 * MS);
        used(&m, 0)
    };
    let (plain, replayed) = (busy(false), busy(true));
    assert!(plain > 2000 * US + 20 * US, "{plain}");
    // The kernel's work before the first step and after the last one is not part of a step.
    assert!(
        replayed.abs_diff(2000 * US) < 10 * US,
        "{replayed} ns instead of {}",
        2000 * US
    );
}

#[test]
fn a_late_timer_is_a_sleep_if_others_wait_for_the_cpu() {
    let sleeps = |replay: bool| {
        let mut bed = Bed::default();
        let timer = |period| Op::Timer {
            timer: 0,
            period,
            absolute: true,
        };
        bed.pinned(0, vec![timer(MS), run(3 * MS), timer(MS), run(MS)]);
        bed.pinned(0, hog());
        if replay {
            bed.replay();
        }
        let (_, records) = bed.run(free(spec(1, 1, 1, 1)), 30 * MS);
        let slept = |record: &&trace::Record| {
            matches!(
                record.event,
                Event::Switch {
                    prev: 1,
                    prev_state: TaskState::Interruptible,
                    ..
                }
            )
        };
        records.iter().filter(slept).count()
    };
    assert_eq!((sleeps(false), sleeps(true)), (1, 2));
}
