// SPDX-License-Identifier: GPL-2.0-only
//! Tests of load balancing: they check which tasks migrate and which do not. A "hog" is a task that
//! never sleeps.

use crate::machine::Machine;
use crate::sched::fair::balance::should_we_balance;
use crate::sched::fair::busiest::group_stats;
use crate::sched::fair::detach;
use crate::sched::fair::lb_env::{Env, IdleType, Migrate};
use crate::sched::fair::state::domains::{Domains, Level};
use crate::sched::fair::state::group::GroupType;
use crate::simulation::id::TaskId;
use crate::testbed::*;
use machine::MachineSpec;
use trace::{Event, MigrateReason, Record};
use workload::{Dist, Op, SchedPolicy};

/// Returns all migrations by load balancing, each with its time, pid, source CPU and destination
/// CPU.
fn moves(records: &[Record]) -> Vec<(u64, u32, u32, u32)> {
    let moved = records.iter().filter_map(|r| match r.event {
        Event::Migrate {
            pid,
            from,
            to,
            reason: MigrateReason::Balance,
        } => Some((r.time, pid, from, to)),
        _ => None,
    });
    moved.collect()
}

fn hogs_on(bed: &mut Bed, cpu: u32, nr: u32) {
    for _ in 0..nr {
        bed.task(cpu, hog());
    }
}

#[test]
fn hogs_spread_evenly() {
    for shape in [(1, 1, 2, 1), (1, 2, 1, 1), (2, 1, 1, 1), (1, 1, 1, 2)] {
        let mut bed = Bed::default();
        hogs_on(&mut bed, 0, 7);
        let (m, records) = bed.run(spec(shape.0, shape.1, shape.2, shape.3), 2 * SECOND);
        let mut nr = queued(&m);
        nr.sort_unstable();
        assert_eq!(nr, [3, 4], "shape {shape:?}, migrations {:?}", moves(&records));
    }
}

#[test]
fn idle_cpus_get_work_within_a_few_ticks() {
    let mut bed = Bed::default();
    hogs_on(&mut bed, 0, 8);
    let (m, records) = bed.run(spec(1, 1, 8, 1), 40 * MS);
    assert_eq!(queued(&m), vec![1; 8], "{:?}", moves(&records));
}

#[test]
fn balancing_is_recorded() {
    let mut bed = Bed::default();
    hogs_on(&mut bed, 0, 4);
    let (_, records) = bed.run(spec(1, 1, 4, 1), 100 * MS);
    let recorded: u32 = records
        .iter()
        .map(|r| {
            if let Event::Balance { moved } = r.event {
                moved
            } else {
                0
            }
        })
        .sum();
    assert!(recorded > 0);
    assert_eq!(recorded as usize, moves(&records).len());
}

#[test]
fn a_newly_idle_cpu_pulls_immediately() {
    let mut bed = Bed::default();
    hogs_on(&mut bed, 0, 3);
    // The task ends shortly after a tick.
    bed.pinned(1, vec![Op::Run(Dist::Fixed(20 * MS + 100 * US))]);
    for cpu in 2..4 {
        bed.pinned(cpu, hog());
    }
    let mut m = bed.machine(spec(1, 1, 4, 1));
    // By default, half of the attempts of new-idle balancing are skipped at random (NI_RANDOM). A
    // success rate of 1024 makes every attempt happen.
    for level in m.domains.levels.iter_mut().flatten() {
        level.newidle_ratio = 1024;
    }
    let mut records = Vec::new();
    m.run(40 * MS, &mut records);
    let end = records
        .iter()
        .find(|r| matches!(r.event, Event::TaskExit { .. }))
        .expect("a task must exit")
        .time;
    let first = moves(&records).into_iter().find(|m| m.3 == 1).expect("CPU 1 must pull");
    assert!(
        first.0 >= end && first.0 - end < 100 * US,
        "CPU 1 becomes idle at {end} ns, but its first pull is {first:?}"
    );
}

#[test]
fn tasks_leave_a_shared_core_for_an_idle_one() {
    let mut bed = Bed::default();
    bed.task(0, hog());
    bed.task(1, hog());
    let (m, records) = bed.run(spec(1, 1, 2, 2), 500 * MS);
    let nr = queued(&m);
    assert_eq!((nr[0] + nr[1], nr[2] + nr[3]), (1, 1), "{:?}", moves(&records));
}

#[test]
fn pinned_tasks_stay() {
    let mut bed = Bed::default();
    for _ in 0..5 {
        bed.pinned(0, hog());
    }
    let (m, records) = bed.run(spec(1, 1, 2, 1), SECOND);
    assert_eq!(queued(&m), [5, 0]);
    assert!(moves(&records).is_empty());
}

#[test]
fn affinity_across_groups_does_not_prevent_balance() {
    // Each of the two LLCs has two tasks, so the load looks balanced. However, two of the tasks are
    // on CPU 3, and their affinities do not include the other CPUs of this LLC.
    let mut bed = Bed::default();
    for cpu in [3, 3, 4, 5] {
        bed.task(cpu, hog()).cpus = Some(vec![3, 4, 5, 6]);
    }
    let (m, records) = bed.run(spec(1, 2, 4, 1), 2 * SECOND);
    assert_eq!(queued(&m), [0, 0, 0, 1, 1, 1, 1, 0], "{:?}", moves(&records));
}

#[test]
fn a_cpu_balances_for_all_cpus_of_its_group() {
    // CPU 2 balances for its group but may not run the task, so it pulls the task to CPU 3.
    let mut bed = Bed::default();
    for _ in 0..2 {
        bed.task(0, hog()).cpus = Some(vec![0, 3]);
    }
    let (m, records) = bed.run(spec(1, 2, 2, 1), SECOND);
    assert_eq!(queued(&m), [1, 0, 0, 1], "{:?}", moves(&records));
}

#[test]
fn one_cpu_of_a_group_balances_for_it() {
    let mut bed = Bed::default();
    bed.pinned(0, hog());
    bed.pinned(4, hog());
    let (mut m, _) = bed.run(free(spec(1, 2, 3, 2)), 20 * MS);
    let balancers = |m: &crate::machine::Machine, cpus: std::ops::Range<u32>, level| {
        let yes = |&cpu: &u32| should_we_balance(m, &env(cpu, 0, level, IdleType::Idle));
        cpus.filter(yes).collect::<Vec<_>>()
    };
    // Within an LLC, the idle thread of a core balances for the core. Between LLCs, the first CPU
    // on an idle core balances for its LLC. If no core is idle, the first idle thread does.
    assert_eq!(balancers(&m, 0..2, 1), [1]);
    assert_eq!(balancers(&m, 0..6, 2), [2]);
    m.idle_cpus.remove(cpu_id(2));
    assert_eq!(balancers(&m, 0..6, 2), [1]);
    // If no CPU is idle, the first CPU balances. A CPU that becomes idle always balances.
    (0..6).for_each(|cpu| m.idle_cpus.remove(cpu_id(cpu)));
    assert_eq!(balancers(&m, 0..6, 2), [0]);
    assert!(should_we_balance(&m, &env(5, 0, 2, IdleType::NewlyIdle)));
}

fn env(dst_cpu: u32, src_cpu: u32, level: usize, idle: IdleType) -> Env {
    let (dst_cpu, src_cpu) = (cpu_id(dst_cpu), cpu_id(src_cpu));
    Env {
        dst_cpu,
        cpu: dst_cpu,
        level,
        idle,
        kind: Migrate::Task,
        imbalance: 1,
        src_cpu,
        preference: Default::default(),
        excluded: Vec::new(),
    }
}

#[test]
fn a_core_with_two_busy_threads_is_detected() {
    let mut bed = Bed::default();
    bed.pinned(0, hog());
    bed.pinned(1, hog());
    let (mut m, _) = bed.run(spec(1, 1, 2, 2), 100 * MS);
    let busiest = |m: &mut crate::machine::Machine, idle| {
        let own = m.domains.levels[2][1].local as usize;
        group_stats(m, &env(2, 0, 1, idle), 1 - own, false).kind
    };
    assert_eq!(busiest(&mut m, IdleType::Idle), GroupType::SmtBalance);
    assert_ne!(busiest(&mut m, IdleType::Busy), GroupType::SmtBalance);
}

#[test]
fn cache_hot_and_ineligible_tasks_stay_at_first() {
    let mut bed = Bed::default();
    for cpu in [0, 0, 0, 1, 1, 1] {
        bed.task(cpu, hog());
    }
    let (mut m, _) = bed.run(free(spec(1, 1, 2, 1)), 100 * MS);
    let src = m.rqs[0].curr;
    let mut waiting = m.tasks.ids().filter(|&t| m.tasks[t].cpu() == 0 && t != src);
    let (a, b) = (waiting.next().unwrap(), waiting.next().unwrap());
    let mut may = |task: TaskId, failed, age: u64| {
        m.tasks[task].fair.exec_start = m.now - age;
        m.domains.levels[1][0].nr_balance_failed = failed;
        detach::can_migrate_task(&mut m, &env(1, 0, 0, IdleType::Idle), &mut Default::default(), task)
    };
    // The tasks are cache-hot, so they may not be moved until balancing has failed twice.
    assert!(!may(a, 1, 100 * US) && !may(b, 1, 100 * US));
    assert!(may(a, 2, 100 * US) && may(b, 2, 100 * US));
    // The tasks are no longer cache-hot.
    assert!(may(a, 1, MS) && may(b, 1, MS));
    assert!(!may(src, 2, MS), "a running task must not be moved");
    // Gives `a` a negative lag and `b` a positive lag. A task with negative lag may be moved only
    // after a balancing run has failed.
    let v = m.avg_vruntime(cpu_id(0));
    for (task, lead) in [(a, 500_000), (b, -500_000)] {
        let rq = &mut m.rqs[0].fair.eevdf;
        rq.remove(&m.tasks, task);
        m.tasks[task].fair.vruntime = v + lead;
        rq.insert(&mut m.tasks, task);
    }
    let mut may = |task: TaskId, failed| {
        m.tasks[task].fair.exec_start = 0;
        m.domains.levels[1][0].nr_balance_failed = failed;
        detach::can_migrate_task(&mut m, &env(1, 0, 0, IdleType::Idle), &mut Default::default(), task)
    };
    assert!(!may(a, 0) && may(a, 1) && may(b, 0));
}

#[test]
fn a_delayed_sleeper_is_moved_only_with_load() {
    let mut bed = Bed::default();
    bed.pinned(1, hog());
    bed.task(
        0,
        vec![
            Op::Run(Dist::Fixed(300 * US)),
            Op::Sleep(Dist::Fixed(20 * MS)),
            Op::Run(Dist::Fixed(SECOND)),
        ],
    );
    bed.pinned(0, hog());
    bed.pinned(0, hog());
    let mut m = bed.machine(free(spec(1, 1, 2, 1)));
    let mut records = Vec::new();
    let sleeper = nth(1);
    let mut until = 0;
    while until == 0 || !m.tasks[sleeper].fair.delayed {
        until += 10 * US;
        m.advance(until, &mut records);
        assert!(until < 5 * MS, "the dequeue of the sleeper must be delayed");
    }
    assert_eq!(m.tasks[sleeper].cpu(), 0);
    // Five failures are enough for balancing to move cache-hot and ineligible tasks.
    m.domains.levels[1][0].nr_balance_failed = 5;
    m.enter(cpu_id(1));
    let mut pull = |kind| {
        let mut state = detach::Detach {
            left: 8,
            ..Default::default()
        };
        let imbalance = 10_000;
        let mut env = Env {
            kind,
            imbalance,
            ..env(1, 0, 0, IdleType::Idle)
        };
        let moved = detach::move_tasks(&mut m, &mut env, &mut state);
        m.verify_fair();
        (moved, imbalance - env.imbalance)
    };
    assert_eq!((pull(Migrate::Task), pull(Migrate::Util)), ((0, 0), (0, 0)));
    let (moved, load) = pull(Migrate::Load);
    assert!(moved == 1 && load > 0, "{moved} tasks with a load of {load} moved");
    m.leave();
    let t = &m.tasks[sleeper];
    assert!(t.fair.delayed && t.fair.on_rq && !t.on_rq() && t.cpu() == 1);
    assert!(t.fair.vlag < 0, "the sleeper must keep its negative lag");
    let counts = |cpu: u32| {
        let rq = &m.rqs[cpu_id(cpu)];
        (rq.fair.cfs.h_nr_queued, rq.fair.cfs.h_nr_runnable, rq.nr_running)
    };
    assert_eq!((counts(0), counts(1)), ((2, 2, 2), (2, 1, 2)));
    // The sleeper competes on its new CPU until its lag is 0, and wakes up there.
    m.advance(until + 10 * MS, &mut records);
    assert!(!m.tasks[sleeper].fair.on_rq && m.tasks[sleeper].cpu() == 1);
    m.advance(until + 25 * MS, &mut records);
    assert!(m.tasks[sleeper].on_rq() && m.tasks[sleeper].cpu() == 1);
}

#[test]
fn a_heavy_task_gets_a_cpu_of_its_own() {
    let mut bed = Bed::default();
    bed.task(0, hog()).policy = SchedPolicy::Normal { nice: -5 };
    for cpu in [0, 1, 1] {
        bed.task(cpu, hog());
    }
    let (m, records) = bed.run(spec(1, 1, 2, 1), 5 * SECOND);
    assert!(
        used(&m, 0) > 5 * SECOND * 85 / 100,
        "{} {:?}",
        used(&m, 0),
        moves(&records).len()
    );
}

#[test]
fn a_big_task_is_moved_to_a_fast_cpu() {
    let mut machine = spec(1, 1, 2, 1);
    machine.topology.cpus[0].capacity = 400;
    let mut bed = Bed::default();
    bed.task(0, hog());
    let (m, _) = bed.run(machine, SECOND);
    assert_eq!(queued(&m), [0, 1]);
}

#[test]
fn a_pair_stays_on_its_node() {
    let mut bed = Bed::default();
    hogs_on(&mut bed, 0, 2);
    let (m, _) = bed.run(spec(2, 1, 16, 1), SECOND);
    assert_eq!(queued(&m)[..16].iter().sum::<usize>(), 2);
}

#[test]
fn domains_follow_the_topology() {
    let d = Domains::new(&spec(2, 2, 4, 2).topology, &[], &[]);
    let sizes = |cpu: usize| -> Vec<(u32, usize)> {
        d.levels[cpu]
            .iter()
            .map(|l| &d.spans[l.span as usize])
            .map(|s| (s.weight, s.groups.len()))
            .collect()
    };
    assert_eq!(sizes(0), [(2, 2), (8, 4), (16, 2), (32, 2)]);
    assert_eq!(sizes(31), sizes(0));
    let spans: Vec<_> = d.levels[0].iter().map(|l| &d.spans[l.span as usize]).collect();
    assert!(spans[0].smt && spans[1].share_llc && !spans[2].numa && spans[3].numa);
    assert_eq!(
        spans.iter().map(|s| s.imbalance_pct).collect::<Vec<_>>(),
        [110, 117, 117, 117]
    );
    // A larger domain is balanced less often. More runs have to fail before it moves cache-hot
    // tasks.
    let slower = |pair: &[Level]| pair[0].balance_interval < pair[1].balance_interval;
    assert!(d.levels[0].windows(2).all(slower));
    assert!(spans[1].cache_nice_tries < spans[3].cache_nice_tries);
    // A machine with a single CPU has no domain. Two cores with one thread each have one common
    // domain.
    assert!(Domains::new(&spec(1, 1, 1, 1).topology, &[], &[]).levels[0].is_empty());
    assert_eq!(Domains::new(&spec(1, 1, 2, 1).topology, &[], &[]).levels[0].len(), 1);
}

#[test]
fn numa_domains_grow_by_distance() {
    // The distances are those of a ring of four nodes.
    let mut machine = spec(4, 1, 2, 1);
    let ring = |a: i32, b: i32| [10, 20, 30, 20][(a - b).unsigned_abs() as usize];
    let distances = (0..4).map(|a| (0..4).map(|b| ring(a, b)).collect()).collect();
    machine.topology = machine::Topology::new(machine.topology.cpus.clone(), distances);
    let d = Domains::new(&machine.topology, &[], &[]);
    for cpu in 0..8 {
        let weights: Vec<u32> = d.levels[cpu].iter().map(|l| d.spans[l.span as usize].weight).collect();
        assert_eq!(weights, [2, 6, 8]);
        for level in &d.levels[cpu] {
            let span = &d.spans[level.span as usize];
            assert!(span.groups[level.local as usize].set.contains(cpu_id(cpu as u32)));
            assert!(span.set.iter().all(|c| span.groups.iter().any(|g| g.set.contains(c))));
        }
    }
    let mut bed = Bed::default();
    hogs_on(&mut bed, 0, 8);
    let (m, records) = bed.run(machine, 2 * SECOND);
    assert_eq!(queued(&m), vec![1; 8], "{:?}", moves(&records));
}

#[test]
fn hotplug_rebuilds_domains_from_online_cpus() {
    let weights = |m: &Machine, cpu: usize| -> Vec<u32> {
        let spans = m.domains.levels[cpu]
            .iter()
            .map(|level| &m.domains.spans[level.span as usize]);
        spans.map(|span| span.weight).collect()
    };
    let mut bed = Bed::default();
    bed.task(0, hog());
    let mut m = bed.machine(spec(2, 1, 2, 2));
    let whole = weights(&m, 0);
    assert_eq!(whole, [2, 4, 8]);
    assert_eq!(m.domains.llc(cpu_id(0)).weight, 4);
    for (ms, cpu, online) in [
        (10, 1, false),
        (20, 4, false),
        (20, 5, false),
        (20, 6, false),
        (20, 7, false),
    ] {
        m.plan_hotplug(ms * MS, cpu, online);
    }
    m.advance(15 * MS, &mut Vec::new());
    // The core of CPU 0 has only one online thread left, so it has no domain. Its LLC has three
    // online CPUs.
    assert_eq!(
        (weights(&m, 0), weights(&m, 1), weights(&m, 2)),
        (vec![3, 7], vec![], vec![2, 3, 7])
    );
    assert_eq!(m.domains.llc(cpu_id(0)).weight, 3);
    assert!(m.domains.levels[0].iter().all(|level| level.last_balance > 0));
    // All CPUs of the other node are offline, so there is no domain above the LLC.
    m.advance(25 * MS, &mut Vec::new());
    assert_eq!(weights(&m, 2), [2, 3]);
    for cpu in [1, 4, 5, 6, 7] {
        m.plan_hotplug(30 * MS, cpu, true);
    }
    m.advance(35 * MS, &mut Vec::new());
    assert_eq!(weights(&m, 0), whole);
}

#[test]
fn load_is_even_after_cpus_leave_and_return() {
    let mut bed = Bed::default();
    hogs_on(&mut bed, 0, 6);
    let mut m = bed.machine(spec(2, 1, 4, 1));
    for cpu in [3, 5, 6, 7] {
        m.plan_hotplug(SECOND, cpu, false);
        m.plan_hotplug(2 * SECOND, cpu, true);
    }
    let mut records = Vec::new();
    m.advance(2 * SECOND - MS, &mut records);
    let left: Vec<usize> = [0, 1, 2, 4].map(|cpu| queued(&m)[cpu]).to_vec();
    assert!(
        left.iter().sum::<usize>() == 6 && left.iter().all(|&n| n == 1 || n == 2),
        "the online CPUs have {left:?} tasks"
    );
    m.advance(4 * SECOND, &mut records);
    assert!(queued(&m).iter().all(|&n| n <= 1), "{:?}", queued(&m));
}

/// Starts one hog on each CPU in `start`, on a machine whose CPUs have these priorities. Returns
/// the CPUs on which the hogs run after 100 ms, sorted.
fn packed(machine: MachineSpec, priorities: &[u32], start: &[u32]) -> Vec<u32> {
    let mut machine = free(machine);
    machine.priorities = priorities.to_vec();
    let mut bed = Bed::default();
    for &cpu in start {
        bed.task(cpu, hog());
    }
    let (m, _) = bed.run(machine, 100 * MS);
    let mut cpus: Vec<u32> = (0..start.len() as u32).map(|n| m.tasks[nth(n)].cpu().nr()).collect();
    cpus.sort_unstable();
    cpus
}

#[test]
fn running_tasks_move_to_idle_cpus_of_higher_priority() {
    let four = || spec(1, 1, 4, 1);
    assert_eq!(packed(four(), &[], &[0]), [0]);
    assert_eq!(packed(four(), &[1, 1, 9, 5], &[0]), [2]);
    assert_eq!(packed(four(), &[1, 1, 9, 5], &[0, 1]), [2, 3]);
    // Tasks do not move to CPUs of the same or a lower priority.
    assert_eq!(packed(four(), &[5, 5, 5, 5], &[0]), [0]);
    assert_eq!(packed(four(), &[9, 9, 1, 1], &[0, 1]), [0, 1]);
    // Between LLCs, too.
    assert_eq!(packed(spec(1, 2, 2, 1), &[1, 1, 9, 9], &[0, 1]), [2, 3]);
}

#[test]
fn a_core_with_two_busy_threads_gets_help_from_cpus_of_lower_priority() {
    // CPUs 0 and 1 are threads of a core of high priority, CPUs 2 and 3 of a core of low priority.
    let cpus = packed(spec(1, 1, 2, 2), &[9, 9, 1, 1], &[0, 1]);
    assert!(cpus[0] < 2 && cpus[1] >= 2, "{cpus:?}");
    // A thread whose sibling is busy does not attract tasks.
    let cpus = packed(spec(1, 1, 2, 2), &[9, 9, 1, 1], &[0, 2]);
    assert!(cpus[0] < 2 && cpus[1] >= 2, "{cpus:?}");
}

#[test]
fn the_kernel_does_not_know_the_speeds_of_cpus_without_capacities() {
    let mut machine = free(spec(1, 1, 2, 1));
    machine.speeds = vec![512, 1024];
    let mut bed = Bed::default();
    bed.pinned(0, vec![Op::Run(Dist::Fixed(10 * MS))]);
    let mut m = bed.machine(machine);
    let mut records = Vec::new();
    m.advance(15 * MS, &mut records);
    assert_eq!(
        m.now - m.clock_pelt(cpu_id(0)),
        0,
        "the clock of load averages is slower"
    );
    assert_eq!(m.arch_capacity(cpu_id(0)), 1024);
    assert!(!m.domains.asym);
    m.run(SECOND, &mut records);
    assert_eq!(m.rqs[cpu_id(0)].time.tasks_ns, 20 * MS);
}
