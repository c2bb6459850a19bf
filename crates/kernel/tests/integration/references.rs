// SPDX-License-Identifier: GPL-2.0-only
//! References to kernel objects that a policy holds, including those in map values and in allocated
//! objects.

use crate::policies::Run;
use crate::support::*;
use kernel::Machine;
use workload::{Action, Cgroup, Disturbance};

/// Runs five tasks on two CPUs until all sleep, with or without the sanitizer. Returns the number
/// of references that the policy then holds to tasks, or to their cgroup if `cgroup`, and the
/// numbers of stored and dropped references.
fn held_at_the_end(defines: &str, cgroup: bool, checked: bool) -> (usize, u64, u64) {
    let tasks = (0..5).fold(Tasks::default(), |tasks, i| {
        tasks.add(
            &format!("t{i}"),
            vec![run_ms(1), sleep_ms(1), run_ms(1), sleep_ms(1000)],
        )
    });
    let mut machine = Machine::new(costly(2), tasks.workload, 1).expect("a machine");
    machine.checked = checked;
    let cgroup_too = cgroup.then_some("CGROUP");
    let defines: Vec<&str> = defines.split(' ').chain(cgroup_too).collect();
    let mut run = Run::new(machine, "kptrs", &defines);
    run.run(300 * MS).assert_alive();
    let (kept, dropped) = (run.var("nr_kept"), run.var("nr_dropped"));
    let layout = &run.machine.layout;
    let held = match cgroup {
        true => layout.cgroup_refs(layout.cgroup_addr(0)) as usize,
        false => run.machine.tasks.ids().filter(|&task| layout.task_held(task)).count(),
    };
    (held, kept, dropped)
}

/// All combinations of the arguments `cgroup` and `checked`.
const KINDS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

#[test]
fn what_an_lru_map_throws_out_gives_its_reference_back() {
    for (cgroup, checked) in KINDS {
        let (held, kept, _) = held_at_the_end("EVICT", cgroup, checked);
        assert!(kept >= 10, "{kept} kept");
        assert_eq!(
            held, 1,
            "cgroups: {cgroup}, checked: {checked}: the last one alone is in the map"
        );
    }
}

#[test]
fn references_in_map_values_are_given_back_with_them() {
    given_back(&["DELETE", "UPDATE", "EXCHANGE", "OBJECT", "TREE", "LIST"]);
}

#[test]
fn references_in_dropped_objects_are_given_back_with_them() {
    given_back(&[
        "DROP OBJECT",
        "DROP TREE",
        "DROP LIST",
        "NESTED OBJECT",
        "NESTED TREE",
        "NESTED LIST",
    ]);
}

fn given_back(defines: &[&str]) {
    for define in defines {
        for (cgroup, checked) in KINDS {
            let (held, kept, dropped) = held_at_the_end(define, cgroup, checked);
            assert!(
                kept >= 10 && kept == dropped,
                "{define}: {kept} kept, {dropped} dropped"
            );
            assert_eq!(
                held, 0,
                "{define}, cgroups: {cgroup}, checked: {checked}: every task sleeps, and nothing is held"
            );
        }
    }
}

#[test]
fn a_cgroup_that_is_held_stays_when_it_is_removed_and_another_is_made_in_its_place() {
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
        let what = [
            (5, Action::Remove { cgroup: 2 }),
            (6, Action::Remove { cgroup: 1 }),
            (8, Action::Make { cgroup: 1 }),
            (9, attach(1)),
            (20, attach(0)),
            (21, Action::Remove { cgroup: 1 }),
            (22, Action::Make { cgroup: 1 }),
            (23, Action::Make { cgroup: 2 }),
        ];
        let disturbance = |(at, what): (u64, Action)| Disturbance { at_ns: at * MS, what };
        workload.disturbances = what.map(disturbance).into();
        workload.check().expect("it is whole");
        let mut machine = Machine::new(costly(1), workload, 1).expect("a machine");
        machine.checked = checked;
        let mut run = Run::new(machine, "held_cgroup", &["RELEASE_AT=15000000"]);
        let first = run.machine.layout.cgroup_addr(1);
        assert_eq!(run.machine.layout.cgroup_refs(first), 1);
        let noted =
            |run: &Run| ["held_id", "held_number", "held_root", "has_task", "same_place"].map(|name| run.var(name));

        run.run(4 * MS).assert_alive();
        assert_eq!(
            ["pre", "post", "below", "own"].map(|name| run.var(name)),
            [123, 321, 2, 23]
        );

        run.run(14 * MS).assert_alive();
        assert_eq!(run.machine.cgroups.refused, [""; 0]);
        let second = run.machine.layout.cgroup_addr(1);
        assert_ne!(first, second, "another one is made elsewhere");
        assert_eq!(noted(&run), [2, 102, 1, 0, 0]);
        let walks = ["pre", "post", "below", "own"].map(|name| run.var(name));
        assert_eq!(walks, [122, 221, 22, 2], "iterators come to both");
        assert_eq!(run.machine.layout.cgroup_refs(first), 1);

        run.run(30 * MS).assert_alive();
        assert_eq!(run.machine.cgroups.refused, [""; 0]);
        assert!(!run.machine.layout.cgroup_held(first));
        assert_eq!(run.var("nr_exits"), 3, "it can be held while it is removed");
        assert_eq!(
            (run.var("dying_number"), run.var("dying_other")),
            (3, 0),
            "what is kept for it is still there, but no more can be"
        );
        assert_eq!(
            run.machine.layout.cgroup_addr(1),
            second,
            "nobody held it, and its memory is used again"
        );
        let chain = |cgroup| run.machine.layout.cgroup_addr(cgroup);
        assert_eq!(run.machine.layout.cgroup_chain(chain(2)), [0, 1, 2].map(chain));
    }
}

#[test]
fn what_is_kept_for_a_task_stays_as_long_as_it_is_held() {
    let turns = |n: usize| (0..n).flat_map(|_| [run_ms(1), sleep_ms(1)]).collect::<Vec<_>>();
    let tasks = Tasks::default()
        .add("short", turns(2))
        .add("long", turns(40))
        .add("late", turns(5))
        .with(|task| task.start_ns = 40 * MS);
    let machine = Machine::new(costly(2), tasks.workload, 1).expect("a machine");
    let mut run = Run::new(machine, "held_task", &["RELEASE_AT=20000000"]);
    run.run(18 * MS).assert_alive();
    assert!(run.var("nr_held") > 5, "the other task runs on after it");
    assert_eq!((run.var("held_number"), run.var("held_other")), (77, 1));
    let slot = run.machine.task_index(run.var("address")).expect("a task");
    assert!(run.machine.layout.task_held(slot));

    run.run(38 * MS).assert_alive();
    assert!(run.var("nr_gone") > 5, "it is let go");
    let gone = ["gone_number", "gone_other", "gone_acquired"].map(|name| run.var(name));
    assert_eq!(gone, [0, 0, 0], "nothing can be had of a task that is gone");
    assert!(!run.machine.layout.task_held(slot));

    run.run(60 * MS).assert_alive();
    assert!(
        run.var("of_new") >= 100 && run.var("of_new").is_multiple_of(100),
        "{}",
        run.var("of_new")
    );
}
