// SPDX-License-Identifier: GPL-2.0-only
//! Tests of scheduler features that are switched on or off.

use crate::machine::Machine;
use crate::sched::class::state::flags;
use crate::sched::fair::detach;
use crate::sched::fair::lb_env::{Env, IdleType, Migrate};
use crate::sched::fair::preempt::set_protect_slice;
use crate::sched::fair::select_task_rq;
use crate::simulation::cpuset::CpuSet;
use crate::testbed::*;
use machine::MachineSpec;
use trace::{Event, MigrateReason, Record};
use workload::{Dist, Op, SchedPolicy};

/// Returns a machine without costs on which these features differ from the default.
fn with(features: &[&str], (llcs, cores): (u32, u32)) -> MachineSpec {
    let mut spec = free(spec(1, llcs, cores, 1));
    for feature in features {
        spec.kernel
            .features
            .apply("features", feature)
            .expect("a known feature");
    }
    spec
}

fn naps() -> Vec<Op> {
    vec![Op::Run(Dist::Fixed(10 * US)), Op::Sleep(Dist::Fixed(100 * SECOND))]
}

/// Returns a machine whose CPU 0 runs one of three hogs, which is protected from preemption. The first
/// task has run there, and sleeps.
fn crowd(features: &[&str]) -> Machine {
    let mut bed = Bed::default();
    bed.pinned(0, naps());
    for cpu in [0, 0, 0, 1] {
        bed.pinned(cpu, hog()).start_ns = MS;
    }
    let (mut m, _) = bed.run(with(features, (1, 2)), 20 * MS + 50 * US);
    m.enter(cpu_id(0));
    let v = m.avg_vruntime(cpu_id(0));
    let curr = m.rqs[0].curr;
    let e = &mut m.tasks[curr].fair;
    (e.vruntime, e.deadline) = (v - 500_000, v + 900_000);
    e.vprot = e.deadline;
    m.rqs[0].need_resched_lazy = false;
    m
}

/// Wakes the sleeper of a [`crowd`] with this lag. Returns whether it preempts the running task.
fn preempts(m: &mut Machine, lag: i64, wake_flags: u32) -> bool {
    m.tasks[0].fair.vlag = lag;
    assert!(m.try_to_wake_up(nth(0), wake_flags));
    assert_eq!(m.tasks[0].cpu(), cpu_id(0));
    m.rqs[0].need_resched_lazy
}

#[test]
fn the_next_buddy_preempts_a_protected_task() {
    assert!(!preempts(&mut crowd(&[]), 300_000, 0));
    let buddy = ["NEXT_BUDDY"];
    let mut m = crowd(&buddy);
    assert!(preempts(&mut m, 300_000, 0));
    assert_eq!(m.rqs[0].fair.eevdf.next, nth(0));
    assert!(
        !preempts(&mut crowd(&["NEXT_BUDDY", "NO_PICK_BUDDY"]), 300_000, 0),
        "without PICK_BUDDY, a buddy must not be picked first"
    );
    let mut m = crowd(&buddy);
    assert!(!preempts(&mut m, -300_000, 0), "the task is not eligible");
    assert_eq!(m.rqs[0].fair.eevdf.next, nth(0));
    let mut m = crowd(&buddy);
    assert!(!preempts(&mut m, 300_000, flags::WF_SYNC), "the waker goes on");
    assert_eq!(m.rqs[0].fair.eevdf.next, nth(0));
    m.deactivate_task(cpu_id(0), nth(0), flags::NOCLOCK);
    assert_eq!(m.rqs[0].fair.eevdf.next, crate::simulation::id::IDLE);
}

#[test]
fn a_buddy_with_an_earlier_deadline_stays() {
    let mut m = crowd(&["NEXT_BUDDY"]);
    let older = m
        .tasks
        .ids()
        .find(|&t| m.tasks[t].cpu() == cpu_id(0) && m.rqs[0].curr != t && t != nth(0));
    let older = older.expect("a waiting hog");
    m.rqs[0].fair.eevdf.next = older;
    m.tasks[older].fair.deadline -= SECOND as i64;
    preempts(&mut m, 300_000, 0);
    assert_eq!(m.rqs[0].fair.eevdf.next, older);
}

#[test]
fn a_buddy_is_cache_hot() {
    let may_move = |features: &[&str], dst_hogs: u32| {
        let mut bed = Bed::default();
        for _ in 0..3 {
            bed.task(0, hog());
        }
        for _ in 0..dst_hogs {
            bed.pinned(1, hog());
        }
        let mut m = bed.machine(with(features, (1, 2)));
        m.run(MS, &mut Vec::new());
        let curr = m.rqs[0].curr;
        let task = m.tasks.ids().find(|&t| m.tasks[t].cpu() == cpu_id(0) && t != curr);
        let task = task.expect("a waiting hog");
        m.tasks[task].fair.exec_start = 0;
        m.domains.levels[1][0].nr_balance_failed = 1;
        m.rqs[0].fair.eevdf.next = task;
        let env = Env {
            dst_cpu: cpu_id(1),
            cpu: cpu_id(1),
            level: 0,
            idle: IdleType::Idle,
            kind: Migrate::Task,
            imbalance: 1,
            src_cpu: cpu_id(0),
            preference: Default::default(),
            excluded: Vec::new(),
        };
        detach::can_migrate_task(&mut m, &env, &mut Default::default(), task)
    };
    assert!(!may_move(&[], 2));
    assert!(may_move(&["NO_CACHE_HOT_BUDDY"], 2));
}

/// Returns the time until CPU 1 pulls a task after its own task has exited, ns.
fn pull_ns(features: &[&str]) -> u64 {
    let mut bed = Bed::default();
    for _ in 0..3 {
        bed.task(0, hog());
    }
    bed.pinned(1, vec![Op::Run(Dist::Fixed(20 * MS + 100 * US))]);
    for cpu in 2..4 {
        bed.pinned(cpu, hog());
    }
    let mut m = bed.machine(with(features, (1, 4)));
    for level in m.domains.levels.iter_mut().flatten() {
        level.newidle_ratio = 0;
    }
    let mut records = Vec::new();
    m.run(60 * MS, &mut records);
    let time = |wanted: &dyn Fn(&Record) -> bool| records.iter().find(|r| wanted(r)).expect("an event").time;
    let moved = time(&|r| {
        let balance = MigrateReason::Balance;
        matches!(r.event, Event::Migrate { to: 1, reason, .. } if reason == balance)
    });
    moved - time(&|r| matches!(r.event, Event::TaskExit { .. }))
}

#[test]
fn without_ni_random_no_attempt_is_skipped() {
    assert!(pull_ns(&[]) > 100 * US);
    assert_eq!(pull_ns(&["NO_NI_RANDOM"]), 0);
}

#[test]
fn rare_attempts_raise_the_success_rate() {
    let ratio = |by_rate| {
        let mut m = crowd(&[]);
        let level = &mut m.domains.levels[0][0];
        (level.newidle_call, level.newidle_success) = (1023, 100);
        level.count_newidle(level.newidle_stamp_ns + SECOND, 0, by_rate);
        level.newidle_ratio
    };
    assert_eq!((ratio(true), ratio(false)), (100 + (SECOND >> 22) as u32, 100));
}

#[test]
fn failed_new_idle_balancing_raises_the_cost_of_the_domain() {
    let cost = |raises| {
        let mut bed = Bed::default();
        bed.pinned(0, hog());
        bed.pinned(0, hog());
        bed.pinned(1, sleeper(100 * US, 2 * MS));
        let mut spec = with(&["NO_NI_RANDOM"], (1, 2));
        spec.kernel.newidle_raises = raises;
        let mut m = bed.machine(spec);
        m.domains.levels[1][0].max_newidle_lb_cost = 1000;
        m.run(5 * MS, &mut Vec::new());
        let early = m.domains.levels[1][0].max_newidle_lb_cost;
        m.run(500 * MS, &mut Vec::new());
        (early, m.domains.levels[1][0].max_newidle_lb_cost)
    };
    assert_eq!(cost(false), (1000, 1000));
    let (early, last) = cost(true);
    assert!([1500, 2250, 3375, 5062].contains(&early), "{early}");
    assert_eq!(last, 500_200);
}

#[test]
fn a_task_is_placed_by_its_lag_and_deadline() {
    let wake = |features: &[&str]| {
        let mut m = crowd(features);
        preempts(&mut m, -300_000, 0);
        m.entity_lag(cpu_id(0), nth(0))
    };
    assert!(wake(&[]).abs_diff(-300_000) < 10);
    assert!(wake(&["NO_PLACE_LAG"]).abs_diff(0) < 10);
    let left = |features: &[&str]| {
        let mut m = crowd(features);
        let hog = m.rqs[0].fair.eevdf.timeline.any().expect("a waiting hog");
        m.tasks[hog].cpus = CpuSet::all(2).into();
        m.move_queued_task(hog, cpu_id(1), MigrateReason::Balance);
        m.tasks[hog].fair.deadline - m.tasks[hog].fair.vruntime
    };
    assert_eq!(left(&["NO_PLACE_REL_DEADLINE"]), 1_400_000);
    let slice = |features: &[&str]| {
        let mut bed = Bed::default();
        bed.pinned(0, hog());
        bed.pinned(0, hog()).start_ns = 10 * MS;
        let (m, _) = bed.run(with(features, (1, 1)), 10 * MS + 1);
        m.tasks[1].fair.deadline - m.tasks[1].fair.vruntime
    };
    assert_eq!((slice(&[]), slice(&["NO_PLACE_DEADLINE_INITIAL"])), (350_000, 700_000));
}

#[test]
fn delayed_dequeue_is_optional() {
    let sleep = |features: &[&str]| {
        let mut bed = Bed::default();
        let ops = vec![Op::Run(Dist::Fixed(300 * US)), Op::Sleep(Dist::Fixed(100 * MS))];
        bed.pinned(0, ops);
        bed.pinned(0, hog());
        let mut m = bed.machine(with(features, (1, 1)));
        let mut delayed = false;
        for step in 1..300 {
            m.run(step * 10 * US, &mut Vec::new());
            delayed |= m.tasks[0].fair.delayed;
        }
        assert!(!m.tasks[0].fair.on_rq);
        (delayed, m.tasks[0].fair.vlag)
    };
    assert!(matches!(sleep(&[]), (true, ..=0)));
    assert!(!sleep(&["NO_DELAY_DEQUEUE"]).0);
    assert!(matches!(sleep(&["NO_DELAY_ZERO"]), (true, 1..)));
}

#[test]
fn wake_ups_do_not_preempt_without_wakeup_preemption() {
    let preempts = |features: &[&str]| {
        let mut bed = Bed::default();
        bed.pinned(0, naps());
        bed.pinned(0, hog()).policy = SchedPolicy::Idle;
        let (mut m, _) = bed.run(with(features, (1, 1)), 20 * MS + 50 * US);
        m.enter(cpu_id(0));
        assert!(m.try_to_wake_up(nth(0), 0));
        m.rqs[0].need_resched_lazy
    };
    assert!(preempts(&[]) && !preempts(&["NO_WAKEUP_PREEMPTION"]));
}

#[test]
fn a_shorter_slice_preempts_only_with_preempt_short() {
    let preempts = |features: &[&str]| {
        let mut m = crowd(features);
        m.task_groups.custom_slices = true;
        m.tasks[0].fair.slice = 200 * US;
        preempts(&mut m, 300_000, 0)
    };
    assert!(preempts(&[]) && !preempts(&["NO_PREEMPT_SHORT"]));
}

#[test]
fn the_protection_follows_run_to_parity() {
    let protection = |features: &[&str]| {
        let mut m = crowd(features);
        let curr = m.rqs[0].curr;
        set_protect_slice(&mut m, cpu_id(0), curr);
        let e = &m.tasks[curr].fair;
        e.deadline - e.vprot
    };
    assert_eq!(protection(&[]), 0);
    assert!(protection(&["NO_RUN_TO_PARITY"]) > 0);
    // Half of the slice on a machine with two CPUs.
    assert_eq!(protection(&["NO_RUN_TO_PARITY", "NO_PREEMPT_SHORT"]), 700_000);
}

/// Returns the CPU for a task that slept on CPU `prev`, if CPU `waker` wakes it.
fn chosen(features: &[&str], waker: u32, prev: u32, wake_flags: u32) -> u32 {
    let mut bed = Bed::default();
    bed.task(prev, naps());
    bed.pinned(0, hog());
    for cpu in 4..8 {
        (0..4).for_each(|_| bed.pinned(cpu, hog()).start_ns = MS);
    }
    let (mut m, _) = bed.run(with(features, (2, 4)), 200 * MS);
    m.enter(cpu_id(waker));
    select_task_rq(&mut m, nth(0), cpu_id(prev), flags::WF_TTWU | wake_flags).nr()
}

#[test]
fn wake_affine_has_three_features() {
    assert_eq!(chosen(&[], 0, 4, 0), 1);
    assert_eq!(chosen(&["NO_WA_WEIGHT"], 0, 4, 0), 4);
    assert_eq!(chosen(&["NO_WA_WEIGHT"], 0, 4, flags::WF_SYNC), 1);
    assert_eq!(chosen(&["NO_WA_WEIGHT", "NO_WA_IDLE"], 0, 4, flags::WF_SYNC), 4);
}

#[test]
fn without_sis_util_the_whole_llc_is_searched() {
    let chosen = |features: &[&str]| {
        let mut bed = Bed::default();
        bed.task(0, naps());
        bed.pinned(0, hog());
        let (mut m, _) = bed.run(with(features, (1, 4)), 20 * MS);
        m.domains.llc(cpu_id(0)).nr_idle_scan = 0;
        m.enter(cpu_id(0));
        select_task_rq(&mut m, nth(0), cpu_id(0), flags::WF_TTWU).nr()
    };
    assert_eq!((chosen(&[]), chosen(&["NO_SIS_UTIL"])), (0, 1));
}

#[test]
fn utilization_is_estimated_only_with_util_est() {
    let estimate = |features: &[&str]| {
        let mut bed = Bed::default();
        bed.pinned(0, sleeper(5 * MS, 5 * MS));
        let (m, _) = bed.run(with(features, (1, 1)), 200 * MS);
        m.tasks[0].fair.util_est
    };
    assert!(estimate(&[]) > 0 && estimate(&["NO_UTIL_EST"]) == 0);
}

#[test]
fn a_waker_queues_the_task_itself_without_ttwu_queue() {
    let queues = |features: &[&str]| {
        let mut bed = Bed::default();
        bed.task(1, naps()).cpus = Some(vec![1]);
        bed.pinned(0, hog());
        let (mut m, _) = bed.run(with(features, (1, 2)), 20 * MS);
        m.enter(cpu_id(0));
        assert!(m.try_to_wake_up(nth(0), 0));
        m.tasks[0].on_rq()
    };
    assert!(!queues(&[]) && queues(&["NO_TTWU_QUEUE"]));
}

#[test]
fn light_tasks_are_not_moved_with_lb_min() {
    let may_move = |features: &[&str], failed| {
        let mut bed = Bed::default();
        for _ in 0..3 {
            bed.task(0, hog()).policy = SchedPolicy::Normal { nice: 19 };
        }
        bed.pinned(1, hog());
        let mut m = bed.machine(with(features, (1, 2)));
        m.run(100 * MS, &mut Vec::new());
        let task = m.tasks.ids().find(|&t| m.tasks[t].cpu() == cpu_id(0)).expect("a hog");
        m.domains.levels[1][0].nr_balance_failed = failed;
        let mut env = Env {
            dst_cpu: cpu_id(1),
            cpu: cpu_id(1),
            level: 0,
            idle: IdleType::Idle,
            kind: Migrate::Load,
            imbalance: 1000,
            src_cpu: cpu_id(0),
            preference: Default::default(),
            excluded: Vec::new(),
        };
        detach::within_imbalance(&mut m, &mut env, task)
    };
    assert!(may_move(&[], 0) && !may_move(&["LB_MIN"], 0) && may_move(&["LB_MIN"], 1));
}

#[test]
fn the_load_of_a_task_decays_outside_of_the_class() {
    let load = |features: &[&str]| {
        let mut m = crowd(features);
        let (cpu, task) = (cpu_id(0), nth(0));
        m.leave_cfs_rq(0, task.into());
        let before = m.tasks[0].fair.avg.load_avg;
        m.now += 32 * MS;
        m.tasks[0].cpus = CpuSet::from_cpus(2, &[0]).into();
        m.join_cfs_rq(m.task_cfs_rq(cpu, task), task.into());
        (before, m.tasks[0].fair.avg.load_avg)
    };
    let (before, after) = load(&[]);
    assert!(after < before, "{before} {after}");
    let (before, after) = load(&["NO_ATTACH_AGE_LOAD"]);
    assert_eq!(before, after);
}
