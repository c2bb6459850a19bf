// SPDX-License-Identifier: GPL-2.0-only
//! What holds for every policy, over seeded random workloads and machines: no task is lost, affinity is respected, the
//! policy lives, a run repeats; and where a policy promises it, nobody starves and nice counts.

mod support;

use kernel::rng::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use support::policy::{MS, Observed, Run, Tasks, US, costly, hog, run, sleep};
use trace::{Event, Hash};
use workload::{Op, Policy};

const SEEDS: u64 = 4;

/// Longest time in which each of four equal hogs on a CPU must run, ms. `None`: the policy bounds nothing; strict
/// priorities (windows, p9, torus) are such, and so is what is not told here.
fn bound_ms(policy: &str) -> Option<u64> {
    match policy {
        "fifo" | "vtime" | "percpu" | "steal" => Some(200),
        // A slice of 100 ms each.
        "rr" => Some(500),
        "dss" | "pls" | "mqs" | "pmqs" | "o1" | "linux26" => Some(2000),
        _ => None,
    }
}

fn policies() -> Vec<String> {
    let entries = std::fs::read_dir(support::root().join("policies")).expect("policies");
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().into_string().expect("a name"));
    let mut names: Vec<String> = names
        .filter_map(|name| name.strip_suffix(".bpf.c").map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// Up to `most` finite tasks on 1 to 8 CPUs; about a third of them pinned to one CPU.
fn random(policy: &str, seed: u64, most: u64) -> (Run, Vec<(String, u32)>) {
    let mut rng = Rng::new(seed);
    let cpus = 1 + rng.below(8);
    let mut tasks = Tasks::default();
    let mut pinned = Vec::new();
    for i in 0..most {
        let comm = format!("t{i:02}");
        let mut ops = Vec::new();
        for _ in 0..1 + rng.below(4) {
            ops.push(run((50 + rng.below(3000)) * US));
            ops.push(sleep((10 + rng.below(2000)) * US));
        }
        ops.push(Op::Exit);
        let nice = rng.below(40) as i32 - 20;
        let cpu = (rng.below(3) == 0).then(|| rng.below(cpus) as u32);
        pinned.extend(cpu.map(|cpu| (comm.clone(), cpu)));
        tasks = tasks.add(&comm, ops).with(|task| {
            task.policy = Policy::Normal { nice: nice as _ };
            task.cpus = cpu.map(|cpu| vec![cpu]);
        });
    }
    (
        Run::new(policy).machine(costly(cpus as u32)).tasks(tasks).seed(seed),
        pinned,
    )
}

fn hash(observed: &Observed) -> u64 {
    let mut hash = Hash::default();
    observed.records.iter().for_each(|record| hash.add(record));
    hash.value()
}

fn check(policy: &str, seed: u64, most: u64) {
    let (run, pinned) = random(policy, seed, most);
    let observed = run.for_ms(5000);
    let exits = observed
        .records
        .iter()
        .filter(|record| matches!(record.event, Event::TaskExit { .. }));
    assert_eq!(exits.count() as u64, most, "tasks that exited");
    for (comm, cpu) in pinned {
        let ran = observed.cpus(&comm);
        assert!(ran.iter().eq([&cpu]), "{comm} may run on {cpu} and ran on {ran:?}");
    }
    let again = random(policy, seed, most).0.for_ms(5000);
    assert_eq!(hash(&observed), hash(&again), "the same run twice");
}

#[test]
fn no_task_is_lost_or_misplaced_and_runs_repeat() {
    for policy in policies() {
        for seed in 1..=SEEDS {
            let fails = |most: &u64| catch_unwind(AssertUnwindSafe(|| check(&policy, seed, *most))).is_err();
            if fails(&24) {
                let least = [1, 2, 3, 4, 6, 8, 12, 16].into_iter().find(fails).unwrap_or(24);
                panic!("{policy}: seed {seed} fails with {least} tasks (the messages are above)");
            }
        }
    }
}

#[test]
fn nobody_starves_beyond_the_bound() {
    for policy in policies() {
        let Some(bound) = bound_ms(&policy) else { continue };
        let observed = Run::new(&policy)
            .tasks(Tasks::default().add_many(4, "hog", &hog()))
            .for_ms(2 * bound);
        for hog in ["hog0", "hog1", "hog2", "hog3"] {
            for from in [0, bound * MS] {
                let got = observed.cpu_ns_between(hog, from, from + bound * MS);
                assert!(got > 0, "{policy}: {hog} starves for {bound} ms from {from}");
            }
        }
    }
}

#[test]
fn nice_counts_where_it_is_promised() {
    for policy in ["vtime", "o1", "linux26"] {
        let nice = |nice| move |task: &mut workload::TaskSpec| task.policy = Policy::Normal { nice };
        let tasks = Tasks::default().add("better", hog()).with(nice(-5));
        let tasks = tasks.add("plain", hog()).add("worse", hog()).with(nice(5));
        let observed = Run::new(policy).tasks(tasks).for_ms(6000);
        let [better, plain, worse] = ["better", "plain", "worse"].map(|comm| observed.cpu_ns(comm));
        assert!(better > plain && plain > worse, "{policy}: {better} {plain} {worse}");
    }
}
