// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the policy steal: the bitmap of overloaded CPUs, the choice of the CPU from which an
//! idle CPU steals a task (the victim), and load balancing without stealing. A hog is a task that
//! computes without pauses.

use crate::support::policy::*;
use machine::MachineSpec;
use std::collections::BTreeSet;
use workload::{Channel, Op, Resource, SchedPolicy};

const NEVER: u64 = 10_000_000_000;

/// Returns a run in which hogs are named after the CPU where they start. `crowd` contains CPUs and
/// their numbers of hogs. The CPU `idle` is busy for 10 ms and then idles. All other CPUs stay
/// busy. Stealing is the only load balancing.
fn crowd(machine: MachineSpec, crowd: &[(u32, u32)], idle: u32) -> Run {
    let mut tasks = Tasks::default();
    for cpu in 0..machine.topology.nr_cpus() {
        let n = crowd.iter().find(|(on, _)| *on == cpu).map_or(0, |(_, n)| *n);
        for i in 0..n {
            let name = format!("hog{cpu}.{i}");
            tasks = tasks.add(&name, hog()).with(|task| task.start_cpu = Some(cpu));
        }
        if n == 0 {
            let program = if cpu == idle { vec![run(10 * MS)] } else { hog() };
            tasks = tasks.add("blocker", program).with(|task| task.cpus = Some(vec![cpu]));
        }
    }
    let run = Run::new("steal").machine(machine).tasks(tasks);
    run.set("idle_balance", 0).set("balance_ns", NEVER)
}

/// Returns the first hog that ran on a CPU, and the time when it began to run.
fn first_on(ran: &Observed, cpu: u32) -> Option<(String, u64)> {
    let stints = ran.stints();
    let first = stints.iter().find(|stint| stint.cpu == cpu && stint.comm != "blocker");
    first.map(|stint| (stint.comm.clone(), stint.from))
}

#[test]
fn a_cpu_that_goes_idle_steals_what_runs_next() {
    let ran = crowd(free(2), &[(0, 3)], 1).for_ms(50);
    // At 10 ms the third hog runs. The first hog has waited longest.
    assert_eq!(first_on(&ran, 1), Some(("hog0.0".into(), 10 * MS)));
    assert!(ran.counter("nr_stolen") >= 1);
    let ran = crowd(free(2), &[(0, 3)], 1).set("steal", 0).for_ms(50);
    assert_eq!((first_on(&ran, 1), ran.counter("nr_stolen")), (None, 0));
}

#[test]
fn stealing_can_be_switched_on_while_running() {
    let run = crowd(free(2), &[(0, 3)], 1).set("steal", 0);
    let ran = run.change(5 * MS, "steal", 1).for_ms(50);
    assert!(ran.counter("nr_stolen") >= 1);
}

#[test]
fn stealing_stays_within_the_llc_by_default() {
    // The first machine has one node with two LLCs. The second has two nodes with one LLC each.
    let (llcs, nodes) = (MachineSpec::regular(1, 2, 2, 1).free(), grouped(4, 2));
    let stole = |machine: &MachineSpec, switch: &str| {
        let run = crowd(machine.clone(), &[(0, 3)], 2);
        let ran = if switch.is_empty() { run } else { run.set(switch, 1) }.for_ms(50);
        assert_eq!(first_on(&ran, 2).is_some(), ran.counter("nr_stolen") > 0);
        ran.counter("nr_stolen") > 0
    };
    for machine in [&llcs, &nodes] {
        assert!(!stole(machine, ""));
    }
    assert!(stole(&llcs, "steal_llcs") && !stole(&llcs, "steal_nodes"));
    assert!(!stole(&nodes, "steal_llcs") && stole(&nodes, "steal_nodes"));
}

#[test]
fn machines_with_many_nodes_do_not_steal() {
    let run = || crowd(grouped(4, 2), &[(0, 3)], 1);
    assert!(run().for_ms(50).counter("nr_stolen") > 0);
    assert_eq!(run().set("steal_node_limit", 1).for_ms(50).counter("nr_stolen"), 0);
}

#[test]
fn the_search_for_a_victim_starts_after_the_own_cpu() {
    let ran = crowd(free(4), &[(0, 2), (3, 2)], 1).for_ms(50);
    assert!(
        first_on(&ran, 1)
            .expect("a hog has run on the CPU")
            .0
            .starts_with("hog3")
    );
    let ran = crowd(free(4), &[(0, 2), (2, 2)], 3).for_ms(50);
    assert!(
        first_on(&ran, 3)
            .expect("a hog has run on the CPU")
            .0
            .starts_with("hog0")
    );
}

#[test]
fn siblings_of_the_own_core_are_victims_first() {
    let run = crowd(free(4), &[(0, 2), (2, 2)], 3);
    let ran = run.set("core_of[3]", 2).for_ms(50);
    assert!(
        first_on(&ran, 3)
            .expect("a hog has run on the CPU")
            .0
            .starts_with("hog2")
    );
}

#[test]
fn tasks_that_may_not_run_here_are_not_stolen() {
    let tasks = Tasks::default()
        .add_many(3, "hog", &hog())
        .with_all(|task| task.cpus = Some(vec![0]))
        .add("blocker", vec![run(10 * MS)])
        .with(|task| task.cpus = Some(vec![1]));
    let ran = Run::new("steal").machine(free(2)).tasks(tasks).for_ms(100);
    assert_eq!(ran.cpus("hog"), BTreeSet::from([0]));
    assert_eq!(ran.counter("nr_stolen") + ran.counter("nr_pulled"), 0);
}

#[test]
fn the_bitmap_follows_the_overloaded_state() {
    let nap = forever(vec![run(300 * US), sleep(150 * US)]);
    let ran = Run::new("steal")
        .machine(free(4))
        .tasks(Tasks::default().add_many(7, "nap", &nap))
        .for_ns(100 * MS + 37 * US);
    let runnable = |cpu| {
        ran.machine
            .tasks()
            .iter()
            .filter(|task| task.on_rq() && task.cpu().nr() == cpu)
            .count()
    };
    let overloaded = (0..4).filter(|&cpu| runnable(cpu) > 1).count() as u64;
    assert_eq!(ran.counter("nr_set") - ran.counter("nr_cleared"), overloaded);
    assert!(ran.counter("nr_set") > 100);
    assert!(ran.counter("nr_stolen") + ran.counter("nr_pulled") > 20);
}

#[test]
fn idle_balancing_precedes_stealing() {
    let ran = crowd(free(2), &[(0, 3)], 1).set("idle_balance", 2).for_ms(15);
    assert_eq!((ran.counter("nr_pulled"), ran.counter("nr_stolen")), (1, 0));
    assert_eq!(first_on(&ran, 1).expect("a hog has run on the CPU").1, 10 * MS);
    // Tasks are also pulled from CPUs of other LLCs.
    let ran = crowd(grouped(4, 2), &[(0, 3)], 2).set("idle_balance", 1).for_ms(50);
    assert!(ran.counter("nr_pulled") >= 1);
}

#[test]
fn idle_balance_declines_when_idle_times_are_short() {
    // CPU 1 repeatedly idles for 100 us, while a hog waits on CPU 0. If the assumed cost of a
    // migration is longer than 100 us, CPU 1 must not pull the hog.
    let pulls = |cost: u64| {
        let tasks = Tasks::default()
            .add_many(2, "hog", &hog())
            .with_all(|task| task.start_cpu = Some(0))
            .add("nap", forever(vec![run(100 * US), sleep(100 * US)]))
            .with(|task| task.cpus = Some(vec![1]));
        let run = Run::new("steal").machine(free(2)).tasks(tasks).set("steal", 0);
        let ran = run.set("balance_ns", NEVER).set("migration_cost_ns", cost).for_ms(50);
        (ran.counter("nr_pulled"), ran.counter("nr_declined"))
    };
    let (pulled, declined) = pulls(500 * US);
    // At the start, the policy assumes that CPU 1 idles for a long time. CPU 1 may therefore pull
    // once.
    assert!(pulled <= 1 && (pulled == 1 || declined > 200), "{pulled} {declined}");
    assert!(pulls(20 * US).0 >= 1);
    // On a machine with 32 CPUs, the search of all CPUs takes longer than a CPU idles.
    let nap = forever(vec![run(20 * US), sleep(2 * US)]);
    let ran = Run::new("steal")
        .machine(costly(32))
        .tasks(Tasks::default().add_many(32, "nap", &nap))
        .set("migration_cost_ns", US)
        .for_ms(20);
    assert!(ran.counter("nr_declined") > 1000, "{}", ran.counter("nr_declined"));
}

#[test]
fn periodic_balancing_works_without_stealing() {
    let tasks = Tasks::default()
        .add_many(4, "hog", &hog())
        .with_all(|task| task.start_cpu = Some(0));
    let ran = Run::new("steal")
        .set("steal", 0)
        .set("idle_balance", 0)
        .machine(free(2))
        .tasks(tasks)
        .for_ms(100);
    assert_eq!(ran.counter("nr_balanced"), 2);
    assert!(first_on(&ran, 1).expect("a hog has run on the CPU").1 <= 16 * MS + US);
}

#[test]
fn a_wake_up_finds_an_idle_cpu_of_the_llc() {
    for bitmap in [0, 1] {
        let tasks = Tasks::default()
            .add("hog", hog())
            .with(|task| task.start_cpu = Some(0))
            .add("nap", forever(vec![run(MS), sleep(MS)]))
            .with(|task| task.start_cpu = Some(0));
        let run = Run::new("steal")
            .set("idle_cores", bitmap)
            .machine(free(4))
            .tasks(tasks);
        let ran = run
            .set("steal", 0)
            .set("idle_balance", 0)
            .set("balance_ns", NEVER)
            .for_ms(100);
        assert!(ran.wakeup_latency_after("nap", 20 * MS).0 < 10 * US);
    }
}

/// Returns the CPUs on which "nap" runs. It wakes up on CPU 0, where a hog runs. Each of the first
/// `hogs` CPUs has a hog.
fn nap_beside_hogs(machine: MachineSpec, hogs: u32, settings: &[(&str, u64)]) -> BTreeSet<u32> {
    let hogs = (0..hogs).fold(Tasks::default(), |tasks, cpu| {
        tasks.add("hog", hog()).with(|task| task.cpus = Some(vec![cpu]))
    });
    let tasks = hogs.add("nap", forever(vec![run(US), sleep(MS)]));
    let run = Run::new("steal")
        .machine(machine)
        .tasks(tasks.with(|task| task.start_cpu = Some(0)));
    let run = run
        .set("steal", 0)
        .set("idle_balance", 0)
        .set("balance_ns", NEVER)
        .set("slice_ns", 2 * MS);
    settings
        .iter()
        .fold(run, |run, (name, value)| run.set(name, value))
        .for_ms(100)
        .cpus("nap")
}

#[test]
fn a_search_for_an_idle_cpu_is_as_short_as_idle_times() {
    // With migration_cost_ns = 1, the search examines only its minimum of four CPUs, so it does not
    // reach CPU 4.
    let short = ("migration_cost_ns", 1);
    assert_eq!(nap_beside_hogs(free(8), 4, &[short]), BTreeSet::from([0]));
    assert!(nap_beside_hogs(free(8), 4, &[]).contains(&4));
    assert!(nap_beside_hogs(free(8), 4, &[short, ("idle_cores", 1)]).contains(&4));
}

#[test]
fn an_idle_core_is_preferred_to_an_idle_thread() {
    let cpus = nap_beside_hogs(MachineSpec::regular(1, 1, 2, 2).free(), 1, &[]);
    assert_eq!(cpus, BTreeSet::from([0, 2]));
    let cpus = nap_beside_hogs(MachineSpec::regular(1, 1, 2, 2).free(), 3, &[("migration_cost_ns", 1)]);
    assert_eq!(cpus, BTreeSet::from([0, 3]));
}

#[test]
fn a_task_woken_by_a_message_goes_to_the_wakers_cpu_if_that_has_no_other_task() {
    let woken_on = |wake: Op, wait: Op| {
        let tasks = Tasks::default()
            .resources(vec![
                Resource::Channel {
                    name: "c".into(),
                    capacity: 1000,
                    kind: Channel::Socket,
                },
                Resource::Suspend { name: "s".into() },
            ])
            .add("hog", hog())
            .with(|task| task.cpus = Some(vec![1]))
            .add("waker", vec![run(20 * MS), wake, run(20 * MS)])
            .with(|task| task.cpus = Some(vec![0]))
            .add("woken", vec![wait, run(MS)])
            .with(|task| task.start_cpu = Some(1));
        let run = Run::new("steal").machine(free(2)).tasks(tasks);
        let ran = run
            .set("steal", 0)
            .set("idle_balance", 0)
            .set("balance_ns", NEVER)
            .for_ms(100);
        let stints = ran.stints();
        stints
            .iter()
            .rfind(|stint| stint.comm == "woken")
            .expect("the task has run")
            .cpu
    };
    assert_eq!(woken_on(Op::Send { channel: 0, bytes: 100 }, Op::Recv(0)), 0);
    assert_eq!(woken_on(Op::Resume(1), Op::Suspend(1)), 1);
}

#[test]
fn a_moved_task_keeps_its_relative_virtual_time() {
    // Virtual time passes faster on CPU 0, where one task runs, than on CPU 1, where five tasks
    // run.
    let tasks = Tasks::default()
        .add(
            "mover",
            vec![run(500 * MS), Op::SetAffinity(Some(vec![1])), run(10_000 * MS)],
        )
        .with(|task| task.cpus = Some(vec![0]))
        .add_many(4, "hog", &hog());
    let mut tasks = tasks;
    let hogs = tasks
        .workload
        .tasks
        .iter_mut()
        .filter(|task| task.comm.starts_with("hog"));
    hogs.for_each(|task| task.cpus = Some(vec![1]));
    let ran = Run::new("steal").machine(free(2)).tasks(tasks).for_ms(1000);
    let share = ran.cpu_ns_between("mover", 500 * MS, 1000 * MS);
    assert!(share.abs_diff(100 * MS) < 10 * MS, "{share}");
}

#[test]
fn the_time_of_searches_is_counted() {
    let ran = Run::new("steal")
        .machine(costly(4))
        .workload(generated("hackbench:groups=1,loops=20"))
        .for_ms(100);
    assert!(
        (20 * US..5 * MS).contains(&ran.counter("find_ns")),
        "{}",
        ran.counter("find_ns")
    );
}

#[test]
fn shares_follow_weights() {
    let tasks = Tasks::default()
        .add("heavy", hog())
        .add("light", hog())
        .with(|task| task.policy = SchedPolicy::Normal { nice: 5 });
    let ran = Run::new("steal").tasks(tasks).for_ms(2000);
    let permille = ran.cpu_ns("light") / (2 * MS);
    // The weights of the two tasks are 1024 and 335, so the light task gets 335 / 1359 of the CPU.
    assert!(permille.abs_diff(247) < 20, "{permille}");
}

#[test]
fn a_woken_task_preempts_with_a_lead_above_the_granularity() {
    let tasks = || {
        let tasks = Tasks::default().add("hog", hog());
        tasks.add("nap", forever(vec![run(100 * US), sleep(30 * MS + 300 * US)]))
    };
    let latency = |granularity| {
        let run = Run::new("steal")
            .set("slice_ns", 20 * MS)
            .set("wakeup_granularity_ns", granularity);
        run.tasks(tasks()).for_ms(1000).wakeup_latency_after("nap", 100 * MS).1
    };
    assert!(latency(15 * MS) < 10 * US);
    assert!(latency(30 * MS) > MS);
}
