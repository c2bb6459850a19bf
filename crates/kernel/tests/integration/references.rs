// SPDX-License-Identifier: GPL-2.0-only
//! Tests of references to kernel objects that a policy holds. This includes references in map
//! values and in allocated objects.

use crate::policies::Run;
use crate::support::*;
use kernel::release::Release;
use kernel::{Machine, Options};
use workload::{Action, Cgroup, Disturbance};

/// Runs five tasks on two CPUs until all of them sleep. Returns three numbers: how many references
/// the policy then holds, how many it has stored in total, and how many it has dropped in total.
/// The references are to tasks, or to the tasks' cgroup if `cgroup` is set. `checked` turns the
/// sanitizer on.
fn references_at_the_end(defines: &str, cgroup: bool, checked: bool) -> (usize, u64, u64) {
    references_with(sanitizer(checked), defines, cgroup)
}

fn references_with(options: Options, defines: &str, cgroup: bool) -> (usize, u64, u64) {
    let tasks = (0..5).fold(Tasks::default(), |tasks, i| {
        tasks.add(
            &format!("t{i}"),
            vec![run_ms(1), sleep_ms(1), run_ms(1), sleep_ms(1000)],
        )
    });
    let machine = Machine::new(costly(2), tasks.workload, options).expect("a machine");
    let cgroup_define = cgroup.then_some("CGROUP");
    let defines: Vec<&str> = defines.split(' ').chain(cgroup_define).collect();
    let mut run = Run::new(machine, "kptrs", &defines);
    run.run(300 * MS).assert_alive();
    let (kept, dropped) = (run.var("nr_kept"), run.var("nr_dropped"));
    let layout = run.machine.layout();
    let held = match cgroup {
        true => layout.cgroup_refs(layout.cgroup_addr(0)) as usize,
        false => run
            .machine
            .tasks()
            .iter()
            .filter(|task| layout.is_referenced(task.addr()))
            .count(),
    };
    (held, kept, dropped)
}

/// All combinations of the arguments `cgroup` and `checked`.
const KINDS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

#[test]
fn evicting_an_lru_element_drops_its_reference() {
    for (cgroup, checked) in KINDS {
        let (held, kept, _) = references_at_the_end("EVICT", cgroup, checked);
        assert!(kept >= 10, "{kept} kept");
        assert_eq!(
            held, 1,
            "cgroups: {cgroup}, checked: {checked}: only the last reference is in the map"
        );
    }
}

#[test]
fn deleting_a_map_value_drops_its_references() {
    check_references_are_dropped(&["DELETE", "UPDATE", "EXCHANGE", "OBJECT", "TREE", "LIST"]);
}

#[test]
fn a_deleted_element_keeps_its_references_in_linux_7_3() {
    for checked in [false, true] {
        let options = Options {
            release: Release::LINUX_7_3,
            ..sanitizer(checked)
        };
        let (held, kept, deleted) = references_with(options, "DELETE", false);
        assert!(kept >= 10 && kept == deleted, "{kept} kept, {deleted} deleted");
        // The next element of a CPU is the one that it has freed last. The policy releases what is in it.
        assert!((1..=2).contains(&held), "{held} references are left on two CPUs");
    }
}

#[test]
fn dropping_an_object_drops_its_references() {
    check_references_are_dropped(&[
        "DROP OBJECT",
        "DROP TREE",
        "DROP LIST",
        "NESTED OBJECT",
        "NESTED TREE",
        "NESTED LIST",
    ]);
}

fn check_references_are_dropped(defines: &[&str]) {
    for define in defines {
        for (cgroup, checked) in KINDS {
            let (held, kept, dropped) = references_at_the_end(define, cgroup, checked);
            assert!(
                kept >= 10 && kept == dropped,
                "{define}: {kept} kept, {dropped} dropped"
            );
            assert_eq!(
                held, 0,
                "{define}, cgroups: {cgroup}, checked: {checked}: every task sleeps, so no reference may be left"
            );
        }
    }
}

#[test]
fn a_referenced_cgroup_outlives_its_removal_and_replacement() {
    for checked in [false, true] {
        let turns = (0..80).map(|n| if n % 2 == 0 { run_ms(1) } else { sleep_ms(1) });
        let task = Tasks::default().add("t", turns.collect());
        let mut workload = task.workload;
        workload.cgroups = ["/", "/a", "/a/b"]
            .map(|path| Cgroup {
                path: path.into(),
                weight: 100,
            })
            .into();
        let attach = |cgroup| Action::Attach {
            cgroup,
            comm: "t".into(),
            process: false,
        };
        let actions = [
            (5, Action::Remove { cgroup: 2 }),
            (6, Action::Remove { cgroup: 1 }),
            (8, Action::Create { cgroup: 1 }),
            (9, attach(1)),
            (20, attach(0)),
            (21, Action::Remove { cgroup: 1 }),
            (22, Action::Create { cgroup: 1 }),
            (23, Action::Create { cgroup: 2 }),
        ];
        let disturbance = |(at, what): (u64, Action)| Disturbance {
            at_ns: at * MS,
            action: what,
        };
        workload.disturbances = actions.map(disturbance).into();
        workload.check().expect("a valid workload");
        let machine = Machine::new(costly(1), workload, sanitizer(checked)).expect("a machine");
        let mut run = Run::new(machine, "held_cgroup", &["RELEASE_AT=15000000"]);
        let first = run.machine.layout().cgroup_addr(1);
        assert_eq!(run.machine.layout().cgroup_refs(first), 1);
        let recorded =
            |run: &Run| ["held_id", "held_number", "held_root", "has_task", "same_place"].map(|name| run.var(name));

        run.run(4 * MS).assert_alive();
        assert_eq!(
            ["pre", "post", "below", "own"].map(|name| run.var(name)),
            [1_24_25, 25_24_01, 24, 24_25]
        );

        run.run(14 * MS).assert_alive();
        assert_eq!(run.machine.cgroups().refused, [""; 0]);
        let second = run.machine.layout().cgroup_addr(1);
        assert_ne!(first, second, "the new cgroup has another address");
        assert_eq!(recorded(&run), [24, 124, 1, 0, 0]);
        let walks = ["pre", "post", "below", "own"].map(|name| run.var(name));
        assert_eq!(walks, [1_24_24, 24_24_01, 24_24, 24], "iterators visit both cgroups");
        assert_eq!(run.machine.layout().cgroup_refs(first), 1);

        run.run(30 * MS).assert_alive();
        assert_eq!(run.machine.cgroups().refused, [""; 0]);
        assert!(!run.machine.layout().is_cgroup_referenced(first));
        assert_eq!(run.var("nr_exits"), 3, "a cgroup can be referenced while it is removed");
        assert_eq!(
            (run.var("dying_number"), run.var("dying_other")),
            (3, 0),
            "existing storage is accessible, but no new storage can be created"
        );
        assert_eq!(
            run.machine.layout().cgroup_addr(1),
            second,
            "memory without references is reused"
        );
        let chain = |cgroup| run.machine.layout().cgroup_addr(cgroup);
        assert_eq!(run.machine.layout().cgroup_chain(chain(2)), [0, 1, 2].map(chain));
    }
}

#[test]
fn task_storage_lives_as_long_as_references_to_the_task() {
    let turns = |n: usize| (0..n).flat_map(|_| [run_ms(1), sleep_ms(1)]).collect::<Vec<_>>();
    let tasks = Tasks::default()
        .add("short", turns(2))
        .add("long", turns(40))
        .add("late", turns(5))
        .with(|task| task.start_ns = 40 * MS);
    let machine = Machine::new(costly(2), tasks.workload, 1).expect("a machine");
    let mut run = Run::new(machine, "held_task", &["RELEASE_AT=20000000"]);
    run.run(18 * MS).assert_alive();
    assert!(run.var("nr_held") > 5, "other tasks run while the reference is held");
    assert_eq!((run.var("held_number"), run.var("held_other")), (77, 1));
    let address = run.var("address");
    assert!(run.machine.layout().is_referenced(address));

    run.run(38 * MS).assert_alive();
    assert!(
        run.var("nr_gone") > 5,
        "other tasks run after the reference is released"
    );
    let gone = ["gone_number", "gone_other", "gone_acquired"].map(|name| run.var(name));
    assert_eq!(gone, [0, 0, 0], "a freed task has no storage and cannot be acquired");
    assert!(!run.machine.layout().is_referenced(address));

    run.run(60 * MS).assert_alive();
    assert!(
        run.var("of_new") >= 100 && run.var("of_new").is_multiple_of(100),
        "{}",
        run.var("of_new")
    );
}
