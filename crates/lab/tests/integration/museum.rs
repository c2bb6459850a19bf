// SPDX-License-Identifier: GPL-2.0-only
//! The museum: small policies, each with one kind of race or stall, and a mended twin of each. An
//! exploration finds all of them, and nothing in the twins.

use lab::explore::case::{Case, Load, Space};
use lab::explore::observe::{Finding, Target, place};
use lab::explore::order::Order;
use lab::explore::part::Part;
use lab::explore::shrink::Shrink;
use lab::explore::{Explored, Limits, explore, text};
use runner::spec::RunSpec;
use std::num::NonZero;
use std::path::Path;
use std::time::Duration;

/// Number of runs within which a defect is found. The largest number that was needed is 42.
const RUNS: u64 = 192;
/// Number of runs of a twin.
const TWIN_RUNS: u64 = 64;

fn target(name: &str) -> Target {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/museum/{name}.bpf.c"));
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("museum/{name}.bpf.o"));
    clang::compile(&source, &["-g", "-Wall", "-Werror"], &object).unwrap_or_else(|error| panic!("{error}"));
    let spec = RunSpec {
        policy: object.to_string_lossy().into_owned(),
        ..RunSpec::default()
    };
    Target::new(spec)
}

fn run(target: &Target, runs: u64) -> Explored {
    run_in(target, &Space::default(), runs, 1)
}

fn run_in(target: &Target, space: &Space, runs: u64, seed: u64) -> Explored {
    let limits = Limits {
        runs: Some(runs),
        time: Duration::from_secs(600),
        all: false,
        guided: false,
        threads: None,
    };
    explore(target, space, seed, limits, &|_, _| {}).unwrap_or_else(|error| panic!("{error}"))
}

/// Checks that the defect is found, as the kind of finding that `is_expected` accepts, and that the
/// twin has no finding. Shrinks the finding and repeats the smallest case from its token.
fn check(name: &str, is_expected: impl Fn(&Finding) -> bool) {
    check_with_seed(name, 1, is_expected);
}

fn check_with_seed(name: &str, seed: u64, is_expected: impl Fn(&Finding) -> bool) {
    let broken = target(name);
    let explored = run_in(&broken, &Space::default(), RUNS, seed);
    let found = explored.found.iter().find(|found| is_expected(&found.finding));
    let found = found.unwrap_or_else(|| {
        let other: Vec<&Finding> = explored.found.iter().map(|found| &found.finding).collect();
        panic!("{name}: not found in {} runs, but {other:?}", explored.runs)
    });
    let time = Duration::from_secs(20);
    let (case, _) = Shrink::new(&broken, found.finding.clone(), found.case.clone(), time)
        .run()
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(case.holds.len() <= found.case.holds.len());
    let token = case.token(name, broken.spec.kernel);
    let (_, repeated, _) = Case::from_token(&token).expect("a token");
    let observed = broken.observe(&repeated, true).expect("the policy is loaded");
    let same = |finding: &&Finding| finding.same_as(&found.finding, &observed.code);
    let finding = observed.findings.iter().find(same);
    let finding = finding.unwrap_or_else(|| panic!("{name}: the token shows {:?}", observed.findings));
    if let Finding::Race(race) = finding {
        let first = text::finding(finding, &observed.code);
        let first = first.lines().next().unwrap_or_default().to_owned();
        for pc in [race.store.pc, race.other.pc] {
            assert!(first.contains(&place(&observed.code, pc)), "{first}");
        }
    }
    assert!(!text::listing(&observed, finding).is_empty());

    let twin = target(&format!("{name}_mended"));
    let explored = run(&twin, TWIN_RUNS);
    let found: Vec<&Finding> = explored.found.iter().map(|found| &found.finding).collect();
    assert!(found.is_empty(), "{name}_mended: {found:?}");
    assert!(explored.nr_held > 0);
}

fn is_race(finding: &Finding) -> bool {
    matches!(finding, Finding::Race(race) if !race.benign)
}

fn is_stall(finding: &Finding) -> bool {
    matches!(finding, Finding::Stall { .. })
}

fn ends(finding: &Finding, with: &str) -> bool {
    matches!(finding, Finding::Ended { message, .. } if message.contains(with))
}

#[test]
fn an_unlocked_counter() {
    check("counter", is_race);
}

#[test]
fn an_idle_bit_claimed_twice() {
    check("claim", is_race);
}

#[test]
fn aba_on_a_stack_of_free_slots() {
    // With the seed 1, the defect is found in run 409.
    check_with_seed("aba", 5, |finding| ends(finding, "is used twice"));
}

#[test]
fn a_lost_wakeup() {
    check("wakeup", is_stall);
}

#[test]
fn a_slot_taken_twice() {
    check("taken", is_race);
}

#[test]
fn a_stale_mask() {
    check("mask", |finding| ends(finding, "no CPU is preferred"));
}

#[test]
fn an_affinity_change_between_selection_and_dispatch() {
    check("affinity", |finding| ends(finding, "SCX_DSQ_LOCAL[_ON]"));
}

#[test]
fn a_finding_without_overlap_becomes_a_script() {
    let broken = target("affinity");
    let found = run(&broken, RUNS).found.remove(0);
    let time = Duration::from_secs(20);
    let shrink = Shrink::new(&broken, found.finding.clone(), found.case.clone(), time);
    let (case, _) = shrink.run().unwrap_or_else(|error| panic!("{error}"));
    let script = broken
        .script(&case, &found.finding)
        .expect("a script can express the case");
    let script = script.expect("the script shows the finding");
    assert!(script.text.contains("\naffinity "), "{}", script.text);
    let ended = script.ended.unwrap_or_default();
    assert!(ended.contains("SCX_DSQ_LOCAL[_ON] target CPU"), "{ended}");
    let mended = target("affinity_mended")
        .script(&case, &found.finding)
        .expect("a script can express the case");
    assert!(mended.is_none());
}

#[test]
fn a_timer_against_the_exit_of_a_task() {
    check("timer", |finding| ends(finding, "has no entry"));
}

#[test]
fn locks_in_opposite_orders() {
    check("order", |finding| ends(finding, "failed"));
}

#[test]
fn a_budget_that_wraps() {
    check("underflow", |finding| ends(finding, "below zero"));
}

#[test]
fn a_ring_without_a_lock() {
    check("ring", is_race);
}

#[test]
fn a_count_that_is_cleared_after_it_was_read() {
    check("batch", is_race);
}

/// Returns a case with many tasks, long rounds and a long time that shows a lost wake-up or a race.
fn large_case(broken: &Target) -> (Case, Finding) {
    let space = Space {
        machine: Some("smp4".to_owned()),
        ..Space::default()
    };
    for number in 0.. {
        let mut case = space.case(3, number);
        let Load::Parts(parts) = &mut case.load else { continue };
        for part in parts.iter_mut() {
            (part.tasks, part.rounds, part.run, part.sleep) = (3, 40, 80, 160);
        }
        let observed = broken.observe(&case, false).expect("the policy is loaded");
        let nr_parts = case.json().unwrap_or_default().matches("loop").count();
        if let Some(finding) = observed.findings.into_iter().next().filter(|_| nr_parts > 3) {
            return (case, finding);
        }
    }
    unreachable!("the numbers do not end")
}

#[test]
fn shrinking_removes_tasks_and_lowers_all_numbers() {
    let broken = target("affinity");
    let (case, finding) = large_case(&broken);
    let shrink = |threads| {
        let shrink = Shrink::new(&broken, finding.clone(), case.clone(), Duration::from_secs(300));
        let (case, _) = shrink
            .threads(NonZero::new(threads))
            .run()
            .expect("the policy is loaded");
        case
    };
    let small = shrink(1);
    assert_eq!(shrink(3), small, "the result depends on the number of threads");
    let Load::Parts(parts) = &small.load else {
        panic!("{small:?}")
    };
    assert!(
        small.nr_tasks() <= Some(2) && small.machine == "smp2" && small.holds.is_empty(),
        "{small:?}"
    );
    assert!(small.for_ns <= 4_000_000, "{small:?}");
    let are_low = |part: &Part| part.rounds <= 4 && part.run <= 20 && part.sleep <= 20;
    assert!(parts.iter().all(are_low), "{small:?}");
}

#[test]
fn priorities_become_forced_switches_that_repeat_the_run() {
    let broken = target("order");
    let space = Space {
        order: Order::Priorities { depth: 3 },
        points: 2000,
        ..Space::default()
    };
    let (mut nr_held, mut nr_found) = (0, 0);
    for number in 0..24 {
        let (mut case, priorities) = space.ordered(space.case(1, number), 1, number);
        let ranked = broken.observe_ranked(&mut case, priorities.expect("priorities"));
        let ranked = ranked.expect("the policy is loaded");
        let repeated = broken.observe(&case, false).expect("the policy is loaded");
        assert_eq!(repeated.findings, ranked.findings);
        assert_eq!((repeated.points, repeated.nr_held), (ranked.points, ranked.nr_held));
        assert_eq!(case.holds.len() as u64, ranked.nr_held);
        nr_held += ranked.nr_held;
        nr_found += usize::from(!ranked.findings.is_empty());
    }
    assert!(nr_held > 24 && nr_found > 0, "{nr_held} {nr_found}");
}

#[test]
fn priorities_find_a_lock_inversion() {
    let space = Space {
        order: Order::Priorities { depth: 2 },
        ..Space::default()
    };
    let explored = run_in(&target("order"), &space, RUNS, 1);
    assert!(explored.found.iter().any(|found| ends(&found.finding, "failed")));
}

#[test]
fn the_mended_ring_wakes_a_cpu_that_is_about_to_idle() {
    let space = Space {
        machine: Some("smp2".to_owned()),
        ..Space::default()
    };
    let explored = run_in(&target("ring_mended"), &space, 64, 1);
    let found: Vec<&Finding> = explored.found.iter().map(|found| &found.finding).collect();
    assert!(found.is_empty(), "{found:?}");
}
