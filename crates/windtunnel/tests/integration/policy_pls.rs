// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the policy pls. It must make the same decisions as dss, which chooses the waiting task
//! with the highest goodness, a figure that Linux 2.4 computes for each task. dss examines all
//! waiting tasks. pls sorts them into levels of goodness, and examines only the levels whose tasks
//! could be chosen.

use crate::support::policy::*;
use workload::{Dist, Op, SchedPolicy};

/// Generates tasks of all kinds. The seed determines them.
fn random(seed: u64, cpus: u32) -> Tasks {
    let mut state = seed;
    let mut below = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % n
    };
    let count = 2 + below(30);
    (0..count).fold(Tasks::default(), |tasks, i| {
        let length = |a: u64| Dist::Fixed((1 + a) * 137 * US);
        let ops = match below(4) {
            0 => hog(),
            1 => forever(vec![Op::Run(length(below(100))), Op::Yield]),
            _ => forever(vec![Op::Run(length(below(300))), Op::Sleep(length(below(600)))]),
        };
        let (nice, process, start) = (below(40) as i32 - 20, below(6), below(50) * MS);
        let pinned = (below(5) == 0).then(|| vec![below(u64::from(cpus)) as u32]);
        tasks.add(&format!("t{i}"), ops).with(|task| {
            task.policy = SchedPolicy::Normal { nice };
            task.process = process as u32;
            task.start_ns = start;
            task.cpus = pinned;
        })
    })
}

#[test]
fn pls_makes_the_same_decisions_as_dss() {
    for seed in 1..=24 {
        let cpus = 1 + seed as u32 % 4;
        let ran = |policy| {
            let mut machine = free(cpus);
            machine.hz = 250;
            let run = Run::new(policy).machine(machine).seed(seed);
            run.tasks(random(seed, cpus)).for_ms(2000)
        };
        let (dss, pls) = (ran("dss"), ran("pls"));
        let (a, b) = (dss.stints(), pls.stints());
        let first = a.iter().zip(&b).position(|(a, b)| a != b);
        if let Some(at) = first {
            panic!("seed {seed}: after {at} stints dss {:?}, pls {:?}", a[at], b[at]);
        }
        assert_eq!(a.len(), b.len());
        assert!(a.len() > 20, "seed {seed}: {} stints", a.len());
        let recalculations = |ran: &Observed| ran.counter("nr_recalculations");
        assert_eq!(recalculations(&dss), recalculations(&pls));
    }
}

#[test]
fn the_search_stops_where_no_lower_level_can_win() {
    // A hundred tasks have much lower goodness than two other tasks, which yield to each other.
    let tasks = || {
        let yields = forever(vec![run(MS), Op::Yield]);
        let tasks = Tasks::default().add_many(100, "low", &hog());
        let tasks = tasks.with_all(|task| task.policy = SchedPolicy::Normal { nice: 19 });
        let high = |task: &mut workload::TaskSpec| task.policy = SchedPolicy::Normal { nice: -20 };
        tasks
            .add("high0", yields.clone())
            .with(high)
            .add("high1", yields)
            .with(high)
    };
    let examined = |policy| {
        let ran = Run::new(policy).tasks(tasks()).for_ms(200);
        assert!(ran.cpu_ns("high") > 190 * MS);
        ran.counter("nr_examined") / ran.stints().len() as u64
    };
    let (dss, pls) = (examined("dss"), examined("pls"));
    assert!(dss > 90 && pls < 6, "examined tasks: dss {dss}, pls {pls}");
}

#[test]
fn a_recalculation_sorts_the_queue_again() {
    let ran = Run::new("pls")
        .tasks(Tasks::default().add_many(5, "hog", &hog()))
        .for_ms(3000);
    // At each recalculation, the four waiting tasks move up from the lowest level.
    let (sorted, recalculations) = (ran.counter("nr_sorted"), ran.counter("nr_recalculations"));
    assert!(recalculations >= 9);
    assert_eq!(sorted, 4 * recalculations);
}

#[test]
fn with_many_levels_pls_executes_fewer_instructions_than_dss() {
    // Tasks of all nice values arrive and sleep. `insns` returns the mean number of instructions
    // that ops.dispatch() executes, which chooses the next task.
    let insns = |policy: &str, spread: bool| {
        let cycle = forever(vec![run(MS), sleep(3 * MS)]);
        let tasks = (0..60).fold(Tasks::default(), |tasks, i| {
            let value = if spread { i * 39 / 59 - 20 } else { 0 };
            tasks.add(&format!("t{i}"), cycle.clone()).with(|task| {
                task.policy = SchedPolicy::Normal { nice: value };
                task.process = 0;
            })
        });
        let ran = Run::new(policy).machine(free(4)).tasks(tasks).for_ms(1000);
        let dispatch = kernel::ext::ops::NAMES.iter().position(|name| *name == "dispatch");
        let called = &ran.machine.ext().called[dispatch.expect("the kernel calls ops.dispatch")];
        called.insns / called.count
    };
    let (dss, pls) = (insns("dss", true), insns("pls", true));
    assert!(pls * 2 < dss, "instructions with many levels: dss {dss}, pls {pls}");
    // If all tasks have the same level, pls must examine all of them, as dss does.
    let (dss, pls) = (insns("dss", false), insns("pls", false));
    assert!(pls < dss * 3, "instructions with one level: dss {dss}, pls {pls}");
}
