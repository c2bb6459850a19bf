// SPDX-License-Identifier: GPL-2.0-only
//! Tests of task groups: division of CPU time by cpu.weight, on one CPU and on several, and changes
//! of groups while the machine runs. A "hog" is a task that never sleeps.

use crate::layout::SCHED_IDLE;
use crate::machine::Machine;
use crate::sched::state::task::State;
use crate::simulation::rng::Rng;
use crate::testbed::*;
use machine::MachineSpec;
use workload::{Action, Dist, Op, SchedPolicy};

fn cpus(nr: u32) -> MachineSpec {
    free(spec(1, 1, nr, 1))
}

/// Returns the CPU time that all tasks of a cgroup have used, ns.
fn used_in(m: &Machine, cgroup: u32) -> u64 {
    let tasks = m.tasks.iter().filter(|t| t.cgroup() == cgroup);
    tasks.map(|t| t.sum_exec_runtime()).sum()
}

/// Adds `nr` hogs to a cgroup. They start on the CPUs 0 to `nr_cpus` - 1 in turn.
fn hogs(bed: &mut Bed, cgroup: u32, nr: u32, nr_cpus: u32) {
    for n in 0..nr {
        bed.task(n % nr_cpus, hog()).cgroup = cgroup;
    }
}

#[track_caller]
fn is_near(value: u64, expected: u64, percent: u64) {
    assert!(
        value.abs_diff(expected) * 100 <= expected * percent,
        "{value} differs from {expected} by more than {percent} %"
    );
}

/// Returns the CPU time that two cgroups with the weights 100 and 300 use in `seconds` of simulated
/// time, ns. `hogs_of` contains the numbers of hogs in the two cgroups.
fn shares(nr_cpus: u32, hogs_of: [u32; 2], seconds: u64) -> [u64; 2] {
    let mut bed = Bed::default();
    let groups = [bed.cgroup("/a", 100), bed.cgroup("/b", 300)];
    for (cgroup, nr) in groups.into_iter().zip(hogs_of) {
        hogs(&mut bed, cgroup, nr, nr_cpus);
    }
    let (m, _) = bed.run(cpus(nr_cpus), seconds * SECOND);
    groups.map(|cgroup| used_in(&m, cgroup))
}

#[test]
fn groups_share_a_cpu_by_weight_regardless_of_their_numbers_of_tasks() {
    for hogs_of in [[1, 1], [1, 4], [5, 1]] {
        let [a, b] = shares(1, hogs_of, 8);
        is_near(a, 2 * SECOND, 2);
        is_near(b, 6 * SECOND, 2);
    }
}

#[test]
fn groups_share_several_cpus_by_weight() {
    // Each group has enough tasks for all CPUs, so its weight counts once for each of them. (The
    // estimated number of tasks is rounded down, so it takes one task more than there are CPUs.)
    for (nr_cpus, hogs_of) in [(2, [3, 4]), (4, [12, 5]), (4, [5, 12]), (8, [16, 16])] {
        let [a, b] = shares(nr_cpus, hogs_of, 8);
        let all = u64::from(nr_cpus) * 8 * SECOND;
        is_near(a, all / 4, 8);
        is_near(b, all * 3 / 4, 3);
    }
}

#[test]
fn a_group_with_fewer_tasks_than_its_share_leaves_the_rest() {
    // By its weight, group b could use three of the four CPUs. However, its only task can use only
    // one CPU at a time.
    let [a, b] = shares(4, [8, 1], 8);
    is_near(b, 8 * SECOND, 3);
    is_near(a, 24 * SECOND, 2);
}

#[test]
fn nested_groups_divide_the_share_of_their_parent() {
    let mut bed = Bed::default();
    let a = bed.cgroup("/a", 100);
    let (x, y) = (bed.cgroup("/a/x", 100), bed.cgroup("/a/y", 300));
    hogs(&mut bed, 0, 1, 1);
    hogs(&mut bed, a, 1, 1);
    hogs(&mut bed, x, 3, 1);
    hogs(&mut bed, y, 1, 1);
    let (m, _) = bed.run(cpus(1), 10 * SECOND);
    // On the root queue, the root's task counts like a group of weight 100. In /a, the task counts
    // like group x, and group y counts three times as much.
    is_near(used_in(&m, 0), 5 * SECOND, 2);
    is_near(used_in(&m, a), SECOND, 3);
    is_near(used_in(&m, x), SECOND, 3);
    is_near(used_in(&m, y), 3 * SECOND, 3);
}

#[test]
fn nice_levels_apply_within_a_group() {
    let mut bed = Bed::default();
    let (a, b) = (bed.cgroup("/a", 100), bed.cgroup("/b", 100));
    bed.task(0, hog()).cgroup = a;
    bed.task(0, hog()).cgroup = b;
    let low = bed.task(0, hog());
    (low.cgroup, low.policy) = (b, SchedPolicy::Normal { nice: 5 });
    let (m, _) = bed.run(cpus(1), 10 * SECOND);
    is_near(used(&m, 0), 5 * SECOND, 2);
    is_near(used(&m, 1), 5 * SECOND * 1024 / (1024 + 335), 3);
}

#[test]
fn a_weight_applies_from_the_time_it_is_set() {
    for nr_cpus in [1, 4] {
        let mut bed = Bed::default();
        let (a, b) = (bed.cgroup("/a", 100), bed.cgroup("/b", 100));
        hogs(&mut bed, a, 2 * nr_cpus, nr_cpus);
        hogs(&mut bed, b, 3 * nr_cpus, nr_cpus);
        bed.disturb(4 * SECOND, Action::Weight { cgroup: b, weight: 900 });
        let mut m = bed.machine(cpus(nr_cpus));
        m.advance(4 * SECOND, &mut Vec::new());
        let before = (used_in(&m, a), used_in(&m, b));
        let all = u64::from(nr_cpus) * SECOND;
        is_near(before.0, 2 * all, 4);
        m.run(14 * SECOND, &mut Vec::new());
        is_near(used_in(&m, a) - before.0, all, 8);
        is_near(used_in(&m, b) - before.1, 9 * all, 2);
    }
}

#[test]
fn a_group_with_cpu_idle_gets_the_remaining_time() {
    let mut bed = Bed::default();
    let (a, b) = (bed.cgroup("/a", 100), bed.cgroup("/b", 100));
    hogs(&mut bed, a, 3, 1);
    bed.task(0, sleeper(MS, MS)).cgroup = b;
    bed.disturb(0, Action::Idle { cgroup: a, idle: true });
    bed.disturb(5 * SECOND, Action::Idle { cgroup: a, idle: false });
    let mut m = bed.machine(cpus(1));
    let mut records = Vec::new();
    m.advance(5 * SECOND, &mut records);
    // The tasks of the group with cpu.idle have a small weight, so the task in group b hardly ever
    // waits.
    let waits = latencies(&records, 4);
    assert!(
        waits.len() > 2000 && waits.iter().filter(|&&ns| ns > 10 * US).count() < waits.len() / 50,
        "the wake-up latencies are too long or too few: {waits:?}"
    );
    is_near(used_in(&m, b), 2500 * MS, 2);
    let before = used_in(&m, b);
    m.run(10 * SECOND, &mut records);
    assert!(
        used_in(&m, b) - before < 2400 * MS,
        "group b uses {} ns after cpu.idle was cleared in group a",
        used_in(&m, b) - before
    );
}

#[test]
fn a_woken_task_competes_with_each_task_of_another_group() {
    // The sleeper has the weight of its group, and each of the ten hogs a tenth of theirs.
    let mut bed = Bed::default();
    let (a, b) = (bed.cgroup("/a", 100), bed.cgroup("/b", 100));
    hogs(&mut bed, a, 10, 1);
    bed.task(0, sleeper(200 * US, 5 * MS)).cgroup = b;
    let (_, records) = bed.run(cpus(1), 5 * SECOND);
    let waits = latencies(&records, 11);
    assert!(waits.len() > 850, "only {} wake-ups", waits.len());
    // The wait is at most one slice of 0.7 ms. If eleven tasks competed on one queue, the wait
    // would be several slices.
    assert!(
        waits.iter().all(|&ns| ns <= 750 * US),
        "the longest wake-up latency is {:?} ns",
        waits.iter().max()
    );
}

#[test]
fn a_moved_task_gets_its_part_of_the_new_group() {
    let mut bed = Bed::default();
    let (a, b) = (bed.cgroup("/a", 100), bed.cgroup("/b", 100));
    hogs(&mut bed, a, 2, 1);
    hogs(&mut bed, b, 1, 1);
    let attach = Action::Attach {
        cgroup: b,
        comm: "t0".into(),
        process: false,
    };
    bed.disturb(2 * SECOND, attach);
    let mut m = bed.machine(cpus(1));
    m.advance(2 * SECOND - 1, &mut Vec::new());
    is_near(used(&m, 0), SECOND / 2, 3);
    let before = [0, 1, 2].map(|n| used(&m, n));
    m.run(6 * SECOND, &mut Vec::new());
    let since = [0, 1, 2].map(|n| used(&m, n) - before[n as usize]);
    is_near(since[0], SECOND, 3);
    is_near(since[1], 2 * SECOND, 3);
    is_near(since[2], SECOND, 3);
}

#[test]
fn tasks_of_groups_spread_over_the_cpus() {
    // All tasks start on the same CPU, one of four.
    let mut bed = Bed::default();
    let (a, b) = (bed.cgroup("/a", 100), bed.cgroup("/a/b", 100));
    hogs(&mut bed, a, 4, 1);
    hogs(&mut bed, b, 4, 1);
    let (m, _) = bed.run(cpus(4), 2 * SECOND);
    assert_eq!(queued(&m), [2, 2, 2, 2]);
    // The load of tasks that have moved away is subtracted, so the group's load is that of its own
    // four tasks and of the inner group, whose shares count three times.
    let load = m.task_groups.groups[a as usize].load_avg;
    assert!((6500..7800).contains(&load), "the load of the group is {load}");
}

#[test]
fn a_group_that_is_created_again_starts_anew() {
    let mut bed = Bed::default();
    let (a, b) = (bed.cgroup("/a", 100), bed.cgroup("/b", 100));
    bed.task(0, hog()).cgroup = a;
    bed.task(0, hog()).cgroup = b;
    let move_to = |cgroup| Action::Attach {
        cgroup,
        comm: "t0".into(),
        process: false,
    };
    let max = |quota_us| Action::Max {
        cgroup: a,
        quota_us,
        period_us: 100_000,
        burst_us: 0,
    };
    bed.disturb(0, Action::Weight { cgroup: a, weight: 10 });
    bed.disturb(0, max(Some(5000)));
    bed.disturb(SECOND, move_to(0));
    bed.disturb(SECOND, Action::Remove { cgroup: a });
    bed.disturb(2 * SECOND, Action::Create { cgroup: a });
    bed.disturb(2 * SECOND, move_to(a));
    let mut m = bed.machine(cpus(1));
    m.advance(2 * SECOND, &mut Vec::new());
    assert_eq!(m.cgroups.refused, [""; 0]);
    let before = used(&m, 0);
    m.run(6 * SECOND, &mut Vec::new());
    is_near(used(&m, 0) - before, 2 * SECOND, 2);
}

#[test]
fn groups_survive_hotplug() {
    let mut bed = Bed::default();
    let (a, b) = (bed.cgroup("/a", 100), bed.cgroup("/b", 300));
    hogs(&mut bed, a, 8, 4);
    hogs(&mut bed, b, 8, 4);
    for n in 0..3 {
        let at = u64::from(n + 1) * SECOND;
        bed.disturb(at, Action::Hotplug { cpu: n, online: false });
        bed.disturb(at + SECOND / 2, Action::Hotplug { cpu: n, online: true });
    }
    let mut m = bed.machine(cpus(4));
    m.advance(4 * SECOND, &mut Vec::new());
    let before = (used_in(&m, a), used_in(&m, b));
    m.run(10 * SECOND, &mut Vec::new());
    is_near(used_in(&m, a) - before.0, 6 * SECOND, 10);
    is_near(used_in(&m, b) - before.1, 18 * SECOND, 3);
}

#[test]
#[should_panic(expected = "queue of a group on CPU 0")]
fn the_checker_detects_wrong_counters_of_groups() {
    let mut bed = Bed::default();
    let a = bed.cgroup("/a", 100);
    hogs(&mut bed, a, 2, 1);
    let (mut m, _) = bed.run(cpus(1), 10 * MS);
    m.verify();
    let id = m.task_groups.id(a, cpu_id(0));
    m.cfs_mut(id).h_nr_runnable += 1;
    m.verify();
}

/// Returns a random user action: it changes a cgroup, a task's cgroup or the set of online CPUs.
fn random_action(rng: &mut Rng, nr_groups: u32, nr_tasks: u32, nr_cpus: u32) -> Action {
    let cgroup = 1 + rng.below(u64::from(nr_groups)) as u32;
    match rng.below(8) {
        0 => Action::Weight {
            cgroup,
            weight: 1 + rng.below(10_000) as u32,
        },
        1 => Action::Idle {
            cgroup,
            idle: rng.below(2) == 0,
        },
        2 => Action::Max {
            cgroup,
            quota_us: (rng.below(3) > 0).then(|| 1000 + rng.below(60_000)),
            period_us: 10_000 + rng.below(90_000),
            burst_us: 0,
        },
        3 => Action::Hotplug {
            cpu: rng.below(u64::from(nr_cpus)) as u32,
            online: rng.below(2) == 0,
        },
        4 => Action::Remove { cgroup },
        5 => Action::Create { cgroup },
        _ => Action::Attach {
            cgroup: cgroup - rng.below(2) as u32,
            comm: format!("t{}", rng.below(u64::from(nr_tasks))),
            process: false,
        },
    }
}

fn random(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut shape = || 1 + rng.below(2) as u32;
    let machine = spec(shape(), shape(), 1 + shape(), shape());
    let nr_cpus = machine.topology.nr_cpus();
    let mut bed = Bed::default();
    let paths = ["/a", "/a/x", "/a/x/u", "/a/y", "/b", "/c"];
    for path in paths {
        bed.cgroup(path, 1 + rng.below(1000) as u32);
    }
    let nr = 2 + rng.below(3 * u64::from(nr_cpus)) as u32;
    for n in 0..nr {
        let ops = match rng.below(3) {
            0 => hog(),
            _ => sleeper(1 + rng.below(2 * MS), rng.below(3) * rng.below(3 * MS)),
        };
        let task = bed.task(n % nr_cpus, ops);
        task.cgroup = rng.below(1 + paths.len() as u64) as u32;
        task.policy = match rng.below(8) {
            0 => SchedPolicy::Idle,
            1 => SchedPolicy::Batch { nice: 5 },
            2 => SchedPolicy::Normal { nice: -10 },
            _ => SchedPolicy::Normal { nice: 0 },
        };
    }
    // One more task wakes up near the end of the run.
    let mut last = vec![Op::Sleep(Dist::Fixed(900 * MS))];
    last.push(Op::Run(Dist::Fixed(MS)));
    bed.task(0, last);
    let mut removed = Vec::new();
    for n in 0..60 {
        let action = random_action(&mut rng, paths.len() as u32, nr, nr_cpus);
        // All cgroups exist at the beginning, so each can be created only after it has been
        // removed.
        match action {
            Action::Remove { cgroup } => removed.push(cgroup),
            Action::Create { cgroup } if !removed.contains(&cgroup) => continue,
            _ => {}
        }
        bed.disturb(n * 10 * MS + rng.below(10 * MS), action);
    }
    // Removes all limits at 700 ms, so that every task can run from then on.
    for cgroup in 1..=paths.len() as u32 {
        let action = Action::Max {
            cgroup,
            quota_us: None,
            period_us: 100_000,
            burst_us: 0,
        };
        bed.disturb(700 * MS, action);
    }
    let mut m = bed.machine(machine);
    m.advance(750 * MS, &mut Vec::new());
    m.verify();
    for t in &m.tasks {
        assert!(
            !t.fair.throttled,
            "seed {seed}: {} is still throttled although no cgroup has a limit",
            t.comm()
        );
        assert_eq!(
            t.on_rq(),
            t.state() == State::Running,
            "seed {seed}: {} must be queued exactly while it is runnable",
            t.comm()
        );
    }
    let ran = m.tasks.iter().map(|t| t.sum_exec_runtime()).collect::<Vec<_>>();
    m.run(6 * SECOND, &mut Vec::new());
    for (t, before) in m.tasks.iter().zip(ran) {
        let low = t.policy() == SCHED_IDLE || t.cgroup() != 0;
        assert!(
            low || t.sum_exec_runtime() > before,
            "seed {seed}: {} must run after the last change of a cgroup",
            t.comm()
        );
    }
    for rq in &m.rqs {
        assert!(
            !rq.idle() || rq.nr_running == 0,
            "seed {seed}: CPU {} is idle although it has runnable tasks",
            rq.cpu
        );
    }
}

#[test]
fn random_tasks_in_random_groups() {
    for seed in 0..40 {
        random(seed);
    }
}
