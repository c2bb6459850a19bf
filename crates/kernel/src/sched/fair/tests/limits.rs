// SPDX-License-Identifier: GPL-2.0-only
//! Tests of cpu.max: a group gets its quota but not more, and other groups get the remaining time.

use crate::machine::Machine;
use crate::testbed::*;
use machine::MachineSpec;
use trace::Event;
use workload::{Action, Dist, Op, SchedPolicy};

/// Returns a machine with full preemption. On this machine a task is throttled as soon as the CPU
/// notices that the quota is used up. With lazy preemption, the task would continue until the next
/// tick.
fn cpus(nr: u32) -> MachineSpec {
    let mut spec = free(spec(1, 1, nr, 1));
    spec.kernel.preempt_full = true;
    spec
}

/// Returns an action that sets a limit with a period of 100 ms.
fn max(cgroup: u32, quota_ms: Option<u64>, burst_ms: u64) -> Action {
    Action::Max {
        cgroup,
        quota_us: quota_ms.map(|ms| ms * 1000),
        period_us: 100_000,
        burst_us: burst_ms * 1000,
    }
}

/// Returns an action that sets a limit with a period of one second.
fn max_of_a_second(cgroup: u32, quota_ms: u64) -> Action {
    Action::Max {
        cgroup,
        quota_us: Some(quota_ms * 1000),
        period_us: 1_000_000,
        burst_us: 0,
    }
}

/// Returns the CPU time that all tasks of a cgroup have used, ns.
fn used_in(m: &Machine, cgroup: u32) -> u64 {
    let tasks = m.tasks.iter().filter(|t| t.cgroup() == cgroup);
    tasks.map(|t| t.sum_exec_runtime()).sum()
}

#[track_caller]
fn is_near(value: u64, expected: u64, percent: u64) {
    assert!(
        value.abs_diff(expected) * 100 <= expected * percent,
        "{value} differs from {expected} by more than {percent} %"
    );
}

#[test]
fn a_group_gets_its_quota_and_the_others_the_rest() {
    for nr_cpus in [1, 4] {
        let mut bed = Bed::default();
        let (a, b) = (bed.cgroup("/a", 10_000), bed.cgroup("/b", 100));
        for n in 0..2 * nr_cpus {
            bed.task(n % nr_cpus, hog()).cgroup = a;
            bed.task(n % nr_cpus, hog()).cgroup = b;
        }
        bed.disturb(0, max(a, Some(20), 0));
        let (m, _) = bed.run(cpus(nr_cpus), 5 * SECOND);
        is_near(used_in(&m, a), SECOND, 4);
        is_near(used_in(&m, b), (5 * u64::from(nr_cpus) - 1) * SECOND, 1);
    }
}

#[test]
fn a_cpu_idles_while_all_of_its_tasks_wait_for_their_period() {
    let mut bed = Bed::default();
    let a = bed.cgroup("/a", 100);
    bed.task(0, hog()).cgroup = a;
    bed.disturb(0, max(a, Some(20), 0));
    let (m, records) = bed.run(cpus(1), 5 * SECOND);
    is_near(used_in(&m, a), SECOND, 3);
    assert_eq!(m.rqs[0].time.idle_ns, 5 * SECOND - used_in(&m, a));
    // A throttled task does not wait for a CPU, so the idle time of the CPU is not counted in
    // `idle_while_waiting_ns`.
    assert_eq!(m.checks.idle_while_waiting_ns, 0);
    // The group runs for 20 ms from the beginning of each period.
    let starts: Vec<u64> = records
        .iter()
        .filter(|r| matches!(r.event, Event::Switch { next: 1, .. }))
        .map(|r| r.time / MS)
        .collect();
    assert_eq!(starts[1..4], [100, 200, 300], "{starts:?}");
}

#[test]
fn a_quota_may_exceed_one_cpu() {
    let mut bed = Bed::default();
    let a = bed.cgroup("/a", 100);
    for n in 0..4 {
        bed.task(n, hog()).cgroup = a;
    }
    bed.disturb(0, max(a, Some(250), 0));
    let (m, _) = bed.run(cpus(4), 5 * SECOND);
    is_near(used_in(&m, a), 12_500 * MS, 3);
}

#[test]
fn a_limit_applies_to_all_groups_below() {
    let mut bed = Bed::default();
    let (a, x, y) = (bed.cgroup("/a", 100), bed.cgroup("/a/x", 100), bed.cgroup("/a/y", 300));
    for n in 0..4 {
        bed.task(n % 2, hog()).cgroup = if n < 2 { x } else { y };
    }
    bed.disturb(0, max_of_a_second(a, 400));
    let (m, _) = bed.run(cpus(2), 10 * SECOND);
    is_near(used_in(&m, x) + used_in(&m, y), 4 * SECOND, 3);
    is_near(used_in(&m, y), 3 * SECOND, 6);
    // If a group and its parent both have limits, the lower limit counts.
    let mut bed = Bed::default();
    let (a, x) = (bed.cgroup("/a", 100), bed.cgroup("/a/x", 100));
    bed.task(0, hog()).cgroup = a;
    bed.task(0, hog()).cgroup = x;
    bed.disturb(0, max(a, Some(50), 0));
    bed.disturb(0, max(x, Some(10), 0));
    let (m, _) = bed.run(cpus(1), 10 * SECOND);
    is_near(used_in(&m, x), SECOND, 5);
    is_near(used_in(&m, a), 4 * SECOND, 5);
}

#[test]
fn unused_quota_is_saved_up_to_the_burst() {
    // Every second period, the task needs 30 ms of CPU time, and the quota is 20 ms per period.
    // Without a burst, the task needs two periods for its work. With a burst, it can also use quota
    // that is left from earlier periods.
    let longest = |burst_ms| {
        let mut bed = Bed::default();
        let a = bed.cgroup("/a", 100);
        let every_200_ms = Op::Timer {
            timer: 0,
            period: 200 * MS,
            absolute: true,
        };
        let again = Op::LoopBack {
            counter: 0,
            times: None,
            target: 0,
        };
        let ops = vec![Op::Run(Dist::Fixed(30 * MS)), every_200_ms, again];
        bed.task(0, ops).cgroup = a;
        bed.disturb(0, max(a, Some(20), burst_ms));
        let (_, records) = bed.run(cpus(1), 5 * SECOND);
        let lengths = stretches(&records, 1);
        lengths.into_iter().max().expect("the task must run")
    };
    assert!(longest(0) < 26 * MS);
    assert!(longest(20) >= 30 * MS);
}

#[test]
fn removing_a_limit_unthrottles_all_tasks() {
    let mut bed = Bed::default();
    let a = bed.cgroup("/a", 100);
    for n in 0..4 {
        bed.task(n % 2, hog()).cgroup = a;
    }
    bed.disturb(0, max(a, Some(5), 0));
    bed.disturb(950 * MS, max(a, None, 0));
    let mut m = bed.machine(cpus(2));
    m.advance(949 * MS, &mut Vec::new());
    assert!(m.tasks.iter().all(|t| t.fair.throttled));
    assert_eq!((m.rqs[0].nr_running, m.rqs[1].nr_running), (0, 0));
    let before = used_in(&m, a);
    m.run(2 * SECOND, &mut Vec::new());
    is_near(used_in(&m, a) - before, 2100 * MS, 1);
}

#[test]
fn a_throttled_task_may_leave_the_group_or_the_cpu() {
    let mut bed = Bed::default();
    let (a, b) = (bed.cgroup("/a", 100), bed.cgroup("/b", 100));
    for n in 0..3 {
        bed.task(n % 2, hog()).cgroup = a;
    }
    bed.disturb(0, max(a, Some(5), 0));
    let attach = |comm: &str| Action::Attach {
        cgroup: b,
        comm: comm.into(),
        process: false,
    };
    // Each of these changes happens while the task is throttled.
    bed.disturb(450 * MS, attach("t0"));
    bed.disturb(650 * MS, Action::Hotplug { cpu: 1, online: false });
    let mut m = bed.machine(cpus(2));
    m.advance(449 * MS, &mut Vec::new());
    assert!(m.tasks.iter().all(|t| t.fair.throttled));
    // The task runs immediately in its new group, which has no limit. Its CPU was idle before.
    let before = m.tasks[0].sum_exec_runtime();
    m.advance(470 * MS, &mut Vec::new());
    is_near(m.tasks[0].sum_exec_runtime() - before, 20 * MS, 1);
    m.advance(649 * MS, &mut Vec::new());
    assert!(!m.tasks[0].fair.throttled && m.tasks[1].fair.throttled);
    m.advance(700 * MS - 1, &mut Vec::new());
    assert!(m.tasks.iter().all(|t| t.cpu() == 0));
    let before = used_in(&m, a);
    m.run(2700 * MS, &mut Vec::new());
    is_near(used_in(&m, a) - before, 100 * MS, 6);
    is_near(m.rqs[0].time.idle_ns + m.rqs[0].time.tasks_ns, 2700 * MS, 1);
}

#[test]
fn unused_runtime_is_available_to_other_cpus() {
    // Seven CPUs take slices for 2.6 ms of work each. A real-time task interrupts each of them from
    // 1 ms to 12 ms, so the work ends at 13.6 ms. By then, the task on the eighth CPU, which never
    // sleeps, has used up the rest of the pool.
    let mut bed = Bed::default();
    let a = bed.cgroup("/a", 100);
    for cpu in 0..7 {
        let once = |ns| vec![Op::Run(Dist::Fixed(ns)), Op::Sleep(Dist::Fixed(SECOND))];
        bed.pinned(cpu, once(2600 * US)).cgroup = a;
        let realtime = bed.pinned(cpu, once(11 * MS));
        (realtime.policy, realtime.start_ns) = (SchedPolicy::Fifo { rt_priority: 1 }, MS);
    }
    bed.pinned(7, hog()).cgroup = a;
    bed.disturb(0, max(a, Some(52), 0));
    let mut m = bed.machine(cpus(8));
    let hog = |m: &Machine| {
        let hog = m.tasks.iter().find(|t| t.cpu() == 7).expect("CPU 7 must have a task");
        (hog.sum_exec_runtime(), hog.fair.throttled)
    };
    for ms in [13, 18] {
        m.advance(ms * MS, &mut Vec::new());
        let (used, throttled) = hog(&m);
        assert!(
            throttled && used <= 11 * MS,
            "CPU 7's task has used {used} ns after {ms} ms"
        );
    }
    // Each of the other seven queues keeps 1 ms of its unused runtime. It returns the rest, which
    // the task on CPU 7 then uses.
    m.advance(99 * MS, &mut Vec::new());
    is_near(hog(&m).0, (52 - 7) * MS - 7 * 2600 * US, 3);
}
