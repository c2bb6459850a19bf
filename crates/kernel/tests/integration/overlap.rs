// SPDX-License-Identifier: GPL-2.0-only
//! Callbacks that overlap: what is interleaved, what locks exclude, and what the race detector sees.

use crate::policies::Run;
use crate::support::{MS, Tasks, US, costly, forever, sleeper};
use kernel::ext::Callback;
use kernel::rng::Rng;
use kernel::{Hold, Machine, Plan, Race};
use trace::Record;
use workload::{Action, Cgroup, Dist, Disturbance, Op};

/// Returns a machine with 4 CPUs on which 12 tasks sleep and run.
fn machine(seed: u64) -> Machine {
    let tasks = (0..12).fold(Tasks::default(), |tasks, n| {
        tasks.add(&format!("t{n}"), sleeper(40 * US + n * 7 * US, 50 * US + n * 5 * US))
    });
    Machine::new(costly(4), tasks.workload, seed).expect("a machine")
}

/// Returns a plan with holds at every `every`th point, on average.
fn holds(seed: u64, nr: u64, every: u64) -> Plan {
    let mut rng = Rng::new(seed);
    let mut point = 0;
    let hold = |_| {
        point += 1 + rng.next_u64() % (2 * every);
        Hold {
            point,
            ns: 1 + rng.next_u64() % 50_000,
        }
    };
    Plan {
        holds: (0..nr).map(hold).collect(),
        ..Plan::default()
    }
}

fn run(defines: &[&str], plan: Plan) -> Run {
    let mut run = Run::new(machine(1), "overlap", defines);
    run.machine.overlap_callbacks(plan).expect("a policy is loaded");
    run.run(20 * MS);
    run
}

fn races(run: &Run) -> Vec<Race> {
    run.machine.overlap().expect("callbacks overlap").detector.races()
}

/// Returns a name of the variable at the address of a race.
fn line(run: &Run, pc: usize) -> String {
    run.image.code.line_at(pc).expect("a line").text.to_string()
}

#[test]
fn an_update_without_a_lock_is_lost() {
    let run = run(&[], holds(1, 200, 50));
    let overlap = run.machine.overlap().expect("callbacks overlap");
    assert!(run.machine.ext().exit.is_none());
    assert!(
        overlap.nr_held > 50 && overlap.nr_suspended > 1000,
        "{}",
        overlap.nr_held
    );
    let lost: Vec<Race> = races(&run).into_iter().filter(|race| race.lost).collect();
    assert!(!lost.is_empty());
    // `nr` is a statistics counter, and `last` decides.
    for race in races(&run) {
        let text = line(&run, race.store.pc);
        assert_eq!(race.benign, text.contains("nr++"), "{text}");
    }
}

#[test]
fn locks_and_atomic_instructions_leave_no_race() {
    for seed in 1..=5 {
        let run = run(&["LOCKED", "ATOMIC"], holds(seed, 200, 50));
        assert!(run.machine.ext().exit.is_none());
        assert_eq!(races(&run), []);
        let nr = |name| {
            run.image
                .get(run.machine.region(), name)
                .expect("a global")
                .parse::<u64>()
                .expect("a number")
        };
        assert!(nr("nr") > 1000);
    }
}

#[test]
fn locks_in_opposite_orders_are_a_deadlock() {
    let run = run(&["CROSSED"], holds(1, 400, 20));
    let exit = run.machine.ext().exit.as_ref().expect("the policy ends");
    assert!(
        exit.message.contains("deadlock: CPUs wait for each other"),
        "{}",
        exit.message
    );
}

#[test]
fn a_task_can_be_inserted_while_its_enqueue_callback_runs() {
    for seed in 1..=5 {
        let run = run(&["STORED"], holds(seed, 300, 30));
        assert!(run.machine.ext().exit.is_none(), "{:?}", run.machine.ext().exit);
        let left = run.machine.waiting_at_end().len();
        assert!(left < 12, "{left} tasks wait");
    }
}

#[test]
fn instructions_of_other_cpus_do_not_count_for_a_waiting_callback() {
    for seed in 1..=20 {
        let fork = Op::Fork { task: 0, thread: false };
        let child = Tasks::default().add("child", vec![Op::Run(Dist::Fixed(30 * US))]);
        let child = child.with(|task| task.spawn = false);
        let tasks = (0..8).fold(child, |tasks, n| {
            let parent = forever(vec![fork.clone(), Op::Run(Dist::Fixed(20 * US)), Op::WaitChildren]);
            let sleeper = sleeper(15 * US + n * 3 * US, 10 * US + n * US);
            tasks
                .add(&format!("parent{n}"), parent)
                .add(&format!("sleeper{n}"), sleeper)
        });
        let machine = Machine::new(costly(4), tasks.workload, seed).expect("a machine");
        let mut run = Run::new(machine, "overlap", &["FORKED"]);
        run.machine
            .overlap_callbacks(holds(seed, 400, 10))
            .expect("a policy is loaded");
        // Each callback subtracts what was executed inside of it. A negative number would end the test.
        run.run(10 * MS);
        let ext = run.machine.ext();
        assert!(ext.exit.is_none(), "{:?}", ext.exit);
        let called = |op: Callback| ext.called[op as usize];
        let enable = called(Callback::Enable);
        assert!(enable.count > 50, "{}", enable.count);
        // The callback has no loop.
        assert!(enable.insns_max < 100, "{}", enable.insns_max);
    }
}

#[test]
fn the_same_plan_yields_the_same_run() {
    let records = |plan: Plan| -> Vec<Record> { run(&["STORED"], plan).records };
    let first = records(holds(7, 100, 100));
    assert!(first.len() > 1000);
    assert_eq!(first, records(holds(7, 100, 100)));
    assert_ne!(first, records(holds(8, 100, 100)));
}

#[test]
fn the_sanitizer_and_overlapping_callbacks_exclude_each_other() {
    let tasks = Tasks::default().add("t", sleeper(40 * US, 50 * US));
    let mut machine = Machine::new(costly(1), tasks.workload, crate::support::sanitizer(true)).expect("a machine");
    assert!(machine.overlap_callbacks(Plan::default()).is_err());
    Run::load(&mut machine, "overlap", &[]).expect("the policy is enabled");
    assert!(machine.overlap_callbacks(Plan::default()).is_err());
}

#[test]
fn moves_between_cgroups_overlap_with_callbacks_of_other_tasks() {
    let run = |defines: &[&str]| {
        let tasks = (0..12).fold(Tasks::default(), |tasks, n| {
            let name = if n < 4 { "moved" } else { "other" };
            tasks.add(name, sleeper(40 * US + n * 7 * US, 50 * US + n * 5 * US))
        });
        let mut workload = tasks.workload;
        workload.cgroups = ["/", "/a", "/b"]
            .map(|path| Cgroup {
                path: path.into(),
                weight: 100,
            })
            .into();
        let attach = |turn: u32| Disturbance {
            at_ns: (1 + u64::from(turn)) * 100 * US,
            action: Action::Attach {
                cgroup: 1 + turn % 2,
                comm: "moved".into(),
                process: false,
            },
        };
        workload.disturbances = (0..150).map(attach).collect();
        let machine = Machine::new(costly(4), workload, 1).expect("a machine");
        let mut run = Run::new(machine, "overlap", defines);
        let plan = holds(1, 400, 25);
        run.machine.overlap_callbacks(plan).expect("a policy is loaded");
        run.run(20 * MS);
        run.assert_alive();
        assert_eq!(run.var("nr_moved"), 600);
        run
    };
    let moved = |race: &Race| {
        let callbacks = [race.load.op, race.store.op, race.other.op];
        callbacks.contains(&Some(Callback::CgroupMove))
    };
    assert!(races(&run(&["MOVED"])).iter().any(moved));
    assert!(!races(&run(&["MOVED", "LOCKED"])).iter().any(moved));
}
