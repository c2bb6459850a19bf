// SPDX-License-Identifier: GPL-2.0-only
//! Tests properties that every policy must have, with random workloads and machines.
//!
//! - The policy does not fail, and a run can be repeated.
//! - No task is lost.
//! - Affinity is respected, even when it changes.
//! - No task waits longer than the policy's parameters allow.
//! - Nice values have the promised effect.
//! - Turns have the promised order.
//!
//! Cases are generated from a seed. If a case fails, the test searches for a smaller case that
//! fails. POLICY_CASES=N tests N cases of each policy, POLICY_SEED=N selects other cases, and
//! POLICY=NAME selects a single policy.

mod case;
mod hogs;
mod order;
mod promise;

use crate::support::policy::{MS, Observed, Run, Tasks, costly, hog};
use crate::support::records::{Promise, records};
use case::{Case, Mask, Step, cases, name};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeMap;
use trace::{Event, Hash};

/// Simulated time in which waits are measured, in ms. It is longer than the longest wait that any
/// policy allows, except linux26 and windows.
const WAITS_MS: u64 = 8000;
/// Simulated time in which CPU shares are measured, in ms.
const SHARES_MS: u64 = 8000;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect(variable))
}

/// A policy with its record in policies/policies.toml, or the kernel's fair class.
pub struct Tested {
    name: String,
    pub promise: Promise,
    conserving: bool,
}

impl Tested {
    /// Returns a run of the policy on one CPU. The work of the kernel and the policy takes no time.
    pub fn run(&self) -> Run {
        match self.promise {
            Promise::FairClass => Run::fair(),
            _ => Run::new(&self.name),
        }
    }
}

/// Returns all policies that have a record in policies/policies.toml, and the fair class.
fn policies() -> Vec<Tested> {
    let records = records().into_iter().map(|(name, record)| Tested {
        name,
        promise: record.promise,
        conserving: record.conserving,
    });
    let fair = Tested {
        name: "eevdf".into(),
        promise: Promise::FairClass,
        conserving: false,
    };
    let only = std::env::var("POLICY").ok();
    let wanted = |policy: &Tested| only.as_ref().is_none_or(|only| policy.name == *only);
    records.chain([fair]).filter(wanted).collect()
}

/// Tests cases under every policy. Panics at the first failure.
fn for_all<C: std::fmt::Debug>(default_cases: u64, strategy: impl Strategy<Value = C>, check: impl Fn(&Tested, &C)) {
    for policy in policies() {
        if let Err(error) = try_cases(&policy, default_cases, 4000, &strategy, &check) {
            panic!("{}, {error}", policy.name);
        }
    }
}

/// Tests cases under one policy. After a failure, makes up to `shrink` attempts to find a smaller
/// case that fails.
fn try_cases<C: std::fmt::Debug>(
    policy: &Tested,
    default_cases: u64,
    shrink: u32,
    strategy: &impl Strategy<Value = C>,
    check: impl Fn(&Tested, &C),
) -> Result<(), String> {
    let seed = number("POLICY_SEED", 1);
    let config = Config {
        cases: number("POLICY_CASES", default_cases) as u32,
        failure_persistence: None,
        max_shrink_iters: shrink,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let result = runner.run(strategy, |case| {
        check(policy, &case);
        Ok(())
    });
    result.map_err(|error| format!("POLICY_SEED={seed}: {error}"))
}

/// Checks that all created tasks have exited, and that each task has done its work.
fn check_no_task_is_lost(case: &Case, ran: &Observed) {
    let mut alive = BTreeMap::new();
    for record in &ran.records {
        match &record.event {
            Event::TaskNew { pid, comm, .. } => drop(alive.insert(*pid, comm.as_str())),
            Event::TaskExit { pid } => drop(alive.remove(pid)),
            _ => {}
        }
    }
    assert!(alive.is_empty(), "these tasks have not exited: {alive:?}");
    for (number, task) in case.tasks.iter().enumerate() {
        let used = ran.cpu_ns(&name(number));
        assert!(used >= task.work(), "{} used only {used} ns", name(number));
    }
}

/// Affinity masks of a task during a run.
struct AllowedCpus {
    masks: Vec<Mask>,
    /// Index of the current mask.
    at: usize,
    /// Whether no CPU of the mask was online. In this case the kernel allows the task all CPUs.
    broken: bool,
}

impl AllowedCpus {
    /// Returns whether the task may run on a CPU. A new mask takes effect shortly before the record
    /// of the change. The next mask is therefore allowed too.
    fn allows(&self, case: &Case, cpu: u32) -> bool {
        let in_mask = |at: usize| {
            let mask = self.masks.get(at);
            mask.is_some_and(|&mask| case.cpus(mask).is_none_or(|cpus| cpus.contains(&cpu)))
        };
        self.broken || in_mask(self.at) || in_mask(self.at + 1)
    }
}

/// Checks that tasks run only on CPUs that are online and in their affinity masks.
fn check_affinity(case: &Case, ran: &Observed) {
    let mut allowed: BTreeMap<u32, AllowedCpus> = BTreeMap::new();
    let mut online = vec![true; case.nr_cpus() as usize];
    for record in &ran.records {
        match &record.event {
            Event::TaskNew { pid, comm, .. } => {
                let number = comm.strip_prefix('t').and_then(|number| number.parse::<usize>().ok());
                if let Some(number) = number {
                    let masks = case.tasks[number].masks().collect();
                    let task_cpus = AllowedCpus {
                        masks,
                        at: 0,
                        broken: false,
                    };
                    allowed.insert(*pid, task_cpus);
                }
            }
            Event::Hotplug { online: now } => online[record.cpu as usize] = *now,
            Event::Phase { pid, .. } => {
                let task_cpus = allowed.get_mut(pid).expect("the task belongs to the case");
                task_cpus.at += 1;
                task_cpus.broken = false;
            }
            _ => {}
        }
        for task_cpus in allowed.values_mut() {
            let cpus = case.cpus(task_cpus.masks[task_cpus.at]);
            task_cpus.broken |= cpus.is_some_and(|cpus| !cpus.iter().any(|&cpu| online[cpu as usize]));
        }
        let (pid, cpu) = match record.event {
            Event::Switch { next, .. } if next != 0 => (next, record.cpu),
            Event::Phase { pid, .. } => (pid, record.cpu),
            _ => continue,
        };
        let time = record.time;
        assert!(
            online[cpu as usize],
            "pid {pid} on CPU {cpu}, which is offline, at {time}"
        );
        if let Some(task_cpus) = allowed.get(&pid) {
            let mask = task_cpus.masks[task_cpus.at];
            assert!(
                task_cpus.allows(case, cpu),
                "pid {pid} on CPU {cpu}, which its mask {mask:#b} excludes, at {time}"
            );
        }
    }
}

fn hash(ran: &Observed) -> u64 {
    let mut hash = Hash::default();
    ran.records.iter().for_each(|record| hash.add(record));
    hash.value()
}

#[test]
fn no_task_is_lost_or_misplaced() {
    for_all(10, cases(0), |policy, case| {
        let ran = case.run(policy);
        check_no_task_is_lost(case, &ran);
        check_affinity(case, &ran);
    });
}

#[test]
fn no_task_is_lost_or_misplaced_during_hotplug() {
    for_all(10, cases(4), |policy, case| {
        let ran = case.run(policy);
        check_no_task_is_lost(case, &ran);
        check_affinity(case, &ran);
    });
}

/// A CPU that has gone offline looks idle, but no task may be sent there.
#[test]
fn no_task_is_sent_to_an_offline_cpu() {
    let pools: &[_] = &[("poolsize", 1), ("balancer", 2), ("interval_ms", 50)];
    let with_pools = policies().into_iter().filter(|policy| policy.name == "pmqs");
    let with_pools = with_pools.map(|policy| (policy, pools));
    for (policy, settings) in policies().into_iter().map(|policy| (policy, &[][..])).chain(with_pools) {
        let mut tasks = Tasks::default();
        for number in 0..7 {
            tasks = tasks.add(&name(number), hog());
        }
        let run = settings
            .iter()
            .fold(policy.run(), |run, &(name, value)| run.set(name, value));
        let fair = !matches!(policy.promise, Promise::Nothing);
        let policy = policy.name;
        let ran = run
            .machine(costly(4))
            .tasks(tasks)
            .hotplug(500 * MS, 3, false)
            .for_ms(8000);
        for number in 0..7 {
            let used = ran.cpu_ns_between(&name(number), 4000 * MS, 8000 * MS);
            assert!(
                !fair || used >= 400 * MS,
                "{policy}: {} used only {used} ns of the last 4 s",
                name(number)
            );
        }
        // While the CPU goes offline, the policy does not know it yet.
        let sent = ran.machine.ext().stats.dispatch_local_dsq_offline;
        assert!(sent <= 7, "{policy}: {sent} tasks were sent to the offline CPU");
    }
}

#[test]
fn a_run_can_be_repeated() {
    for_all(2, cases(2), |policy, case| {
        assert_eq!(
            hash(&case.run(policy)),
            hash(&case.run(policy)),
            "two equal runs have different hashes"
        );
    });
}

#[test]
fn no_task_waits_longer_than_the_parameters_allow() {
    for_all(4, hogs::hogs(-20), |policy, hogs| {
        let ran = hogs.run(policy, 0, WAITS_MS);
        for hog in 0..hogs.nices.len() {
            let Some(bound) = promise::longest_wait(policy.promise, &ran, &hogs.nices, hog) else {
                continue;
            };
            let waited = hogs.longest_wait(&ran, hog);
            assert!(waited <= bound, "hog {hog} waits {waited} ns, and {bound} is the bound");
        }
    });
}

#[test]
fn equal_turns_follow_the_order_of_arrival() {
    for_all(4, order::sleepers(), |policy, sleepers| {
        if matches!(policy.promise, Promise::EqualTurns) {
            order::check_arrival(&sleepers.run(policy));
        }
    });
}

#[test]
fn a_policy_that_prefers_woken_tasks_is_caught() {
    let policy = Tested {
        name: "crates/windtunnel/tests/policies/woken_first".into(),
        promise: Promise::EqualTurns,
        conserving: true,
    };
    let tried = try_cases(&policy, 4, 0, &order::sleepers(), |policy, sleepers| {
        order::check_arrival(&sleepers.run(policy));
    });
    let error = tried.expect_err("a woken task runs before tasks that wait longer");
    assert!(error.contains("is runnable since"), "{error}");
}

#[test]
fn nice_values_have_the_promised_effect_also_after_a_change() {
    for_all(3, hogs::hogs(-12), |policy, hogs| {
        if matches!(policy.promise, Promise::Nothing) {
            return;
        }
        let change_ms = if policy.promise.follows_nice_changes() { 2 } else { 0 };
        let ran = hogs.run(policy, change_ms, SHARES_MS);
        hogs.check_division(policy.promise, &ran);
    });
}

#[test]
fn a_work_conserving_policy_leaves_no_cpu_idle_while_an_allowed_task_waits() {
    for_all(IDLE_CASES, idle_cases(), |policy, case| {
        if policy.conserving {
            check_no_cpu_idles(policy, case);
        }
    });
}

#[test]
fn a_policy_that_never_kicks_idle_cpus_is_caught() {
    let policy = Tested {
        name: "crates/windtunnel/tests/policies/never_kicks".into(),
        promise: Promise::Nothing,
        conserving: true,
    };
    let tried = try_cases(&policy, IDLE_CASES, 0, &idle_cases(), check_no_cpu_idles);
    let error = tried.expect_err("a task waits while a CPU idles");
    assert!(error.contains("ns idle while a task waits"), "{error}");
}

/// Number of cases that is sufficient to find a policy which seldom lets a task wait while a CPU
/// idles. A policy that never kicks fails in a quarter of the cases.
const IDLE_CASES: u64 = 24;

fn idle_cases() -> impl Strategy<Value = Case> {
    prop_oneof![1 => cases(0), 2 => case::sparse_cases()]
}

fn check_no_cpu_idles(policy: &Tested, case: &Case) {
    let mut case = case.clone();
    case.load_us = 0;
    // When a task yields, policies that follow Linux 2.4 leave it on its CPU, even if another CPU
    // idles. All yields are therefore removed from the cases.
    let steps = case.tasks.iter_mut().map(|task| &mut task.steps);
    steps.for_each(|steps| steps.retain(|step| !matches!(step, Step::Yield)));
    let ran = case.run(policy);
    // A CPU notices a wake-up or a switch up to 2 us late. This is the time of an IPI and of
    // leaving the idle state.
    let late = ran.records.iter().filter(|record| {
        let event = &record.event;
        matches!(event, Event::Wakeup { .. } | Event::Switch { .. } | Event::Phase { .. })
    });
    let (idle, most) = (ran.machine.idle_while_waiting_ns(), 2000 * late.count() as u64);
    assert!(idle <= most, "{idle} ns idle while a task waits, more than {most}");
}
