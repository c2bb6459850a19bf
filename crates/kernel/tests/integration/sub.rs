// SPDX-License-Identifier: GPL-2.0-only
//! Tests of sub-schedulers: policies that schedule the tasks of a cgroup on behalf of a parent.

use crate::policies::{Run, compile};
use crate::support::*;
use bpf::engine::Engine;
use bpf::link::Image;
use bpf::object::Object;
use kernel::ext::{Exit, ExitKind};
use kernel::load::{LoadError, load_sub};
use kernel::{Machine, Options};
use profile::Profile;
use trace::{Event, Hash, Record};
use workload::{Action, Cgroup, Disturbance};

/// Indexes of the cgroups. Their ids are greater by one.
const APP: u32 = 1;
const NESTED: u32 = 2;
const OTHER: u32 = 3;

/// Returns a machine with the cgroups /app, /app/nested and /other, on which the tasks exist.
fn machine(cpus: u32, tasks: Tasks, sanitize: bool) -> Machine {
    let mut workload = tasks.workload;
    workload.cgroups = ["/", "/app", "/app/nested", "/other"]
        .map(|path| Cgroup {
            path: path.into(),
            weight: 100,
        })
        .into();
    let mut machine = Machine::new(free(cpus), workload, sanitizer(sanitize)).expect("a machine");
    machine.advance(MS / 2, &mut Vec::new());
    machine
}

/// Returns two tasks in /, two in /app and one in /app/nested. All of them run all the time.
fn hogs() -> Tasks {
    let hog = || forever(vec![run_ms(5)]);
    let mut tasks = Tasks::default();
    for (name, cgroup) in [
        ("root1", 0),
        ("root2", 0),
        ("app1", APP),
        ("app2", APP),
        ("nested", NESTED),
    ] {
        tasks = tasks.add(name, hog()).with(|task| task.cgroup = cgroup);
    }
    tasks
}

/// A run with a root policy and sub-schedulers.
struct Tree {
    run: Run,
    subs: Vec<Image>,
}

impl Tree {
    fn new(machine: Machine, defines: &[&str]) -> Tree {
        Tree {
            run: Run::new(machine, "sub", defines),
            subs: Vec::new(),
        }
    }

    /// Attaches a sub-scheduler.
    fn try_attach(&mut self, cgroup: u32, name: &str, defines: &[&str]) -> Result<(), Box<Exit>> {
        let name = format!("NAME=\"{name}\"");
        let defines: Vec<&str> = [name.as_str()].into_iter().chain(defines.iter().copied()).collect();
        let bytes = std::fs::read(compile("sub", &defines)).expect("an object");
        let object = Object::parse(&bytes, "sub.bpf.o").expect("a BPF object");
        let machine = &mut self.run.machine;
        match load_sub(machine, &object, &Profile::default(), Engine::default(), cgroup) {
            Ok(image) => {
                self.subs.push(image);
                Ok(())
            }
            Err(LoadError::Refused(exit)) => Err(exit),
            Err(LoadError::Input(message)) => panic!("{message}"),
        }
    }

    fn attach(mut self, cgroup: u32, name: &str, defines: &[&str]) -> Tree {
        if let Err(exit) = self.try_attach(cgroup, name, defines) {
            panic!("{exit}");
        }
        self
    }

    fn advance(&mut self, until: u64) -> &mut Tree {
        self.run.machine.advance(until, &mut self.run.records);
        self
    }

    /// Returns the value of a global variable of a sub-scheduler.
    fn var(&self, sub: usize, name: &str) -> u64 {
        let text = self.subs[sub].get(self.run.machine.region(), name).expect("a variable");
        text.parse::<i64>().expect("a number") as u64
    }

    fn sub_exits(&self) -> &[(u32, Exit)] {
        &self.run.machine.ext().sub_exits
    }
}

/// Returns the CPU time in ms that a task has got.
fn ran_ms(machine: &Machine, comm: &str) -> u64 {
    let task = machine.tasks().iter().find(|task| task.comm() == comm);
    task.expect("the task exists").sum_exec_runtime() / MS
}

#[test]
fn a_sub_scheduler_gets_the_tasks_of_its_cgroup_and_those_below() {
    for sanitize in [false, true] {
        let mut tree = Tree::new(machine(1, hogs(), sanitize), &["SUBS_FIRST"]).attach(APP, "child", &[]);
        assert_eq!(
            (
                tree.run.var("nr_init"),
                tree.run.var("nr_exit"),
                tree.run.var("nr_attached")
            ),
            (5, 3, 1)
        );
        assert_eq!(
            (
                tree.var(0, "nr_init"),
                tree.var(0, "nr_enabled"),
                tree.var(0, "nr_exit")
            ),
            (3, 3, 0)
        );
        let text = |name: &str| tree.run.image.get(tree.run.machine.region(), name).expect("a variable");
        assert!(
            text("path").contains("/app") && text("child_name").contains("child"),
            "{}",
            text("path")
        );
        tree.advance(100 * MS);
        tree.run.assert_alive();
        // The root policy prefers the sub-scheduler, so its own tasks run only before it is attached.
        for name in ["app1", "app2", "nested"] {
            let ran = ran_ms(&tree.run.machine, name);
            assert!((30..=36).contains(&ran), "{name} ran for {ran} ms");
        }
        assert!(tree.var(0, "nr_own") > 40 && tree.var(0, "foreign_prev") == 0);
        assert_eq!(tree.run.var("foreign_prev"), 0);
        assert_eq!(tree.sub_exits(), []);
    }
}

#[test]
fn a_parent_that_never_asks_starves_the_sub_scheduler_until_the_watchdog_ends_it() {
    let mut tree = Tree::new(machine(1, hogs(), false), &[]).attach(APP, "child", &[]);
    tree.advance(150 * MS);
    assert_eq!(tree.var(0, "nr_dispatched"), 0);
    tree.advance(1000 * MS);
    let [(APP, exit)] = tree.sub_exits() else {
        panic!("{:?}", tree.sub_exits());
    };
    assert_eq!((exit.policy.as_str(), exit.kind), ("child", ExitKind::ErrorStall));
    tree.run.assert_alive();
    assert_eq!((tree.run.var("nr_detached"), tree.run.var("nr_init")), (1, 8));
    // The parent schedules all five tasks again.
    assert!(ran_ms(&tree.run.machine, "app1") > 100);
}

#[test]
fn a_sub_scheduler_that_fails_is_ejected_alone() {
    for sanitize in [false, true] {
        let machine = machine(2, hogs(), sanitize);
        let mut tree = Tree::new(machine, &["SUBS_FIRST"]).attach(APP, "child", &["BAD_DSQ"]);
        tree.advance(200 * MS);
        let [(APP, exit)] = tree.sub_exits() else {
            panic!("{:?}", tree.sub_exits());
        };
        assert_eq!(
            (exit.kind, exit.message.as_str()),
            (ExitKind::Error, "non-existent DSQ 0x4d")
        );
        assert!(exit.dump.starts_with("child: sub1-24 /app\n"), "{}", exit.dump);
        assert!(
            !exit.dump.contains(" *root ") && exit.dump.contains("*sub1-24"),
            "{}",
            exit.dump
        );
        assert_eq!((tree.var(0, "nr_exits"), tree.var(0, "exit_kind")), (1, 1024));
        assert_eq!((tree.var(0, "nr_disabled"), tree.var(0, "nr_exit")), (3, 3));
        tree.run.assert_alive();
        assert_eq!((tree.run.var("nr_detached"), tree.run.var("nr_init")), (1, 8));
        let before = ran_ms(&tree.run.machine, "nested");
        tree.advance(400 * MS);
        assert!(ran_ms(&tree.run.machine, "nested") > before + 50);
        let logged = tree.run.records.iter().any(|record| {
            matches!(&record.event, Event::Printk { text }
                if text.starts_with("sched_ext: BPF sub-scheduler \"child\" disabled (runtime error)"))
        });
        assert!(logged);
    }
}

#[test]
fn tasks_of_a_bypassed_sub_scheduler_run_before_they_return_to_the_parent() {
    // With 100 ticks per second, bypass mode lasts for 20 ms.
    let mut workload = hogs().workload;
    workload.cgroups = ["/", "/app", "/app/nested"]
        .map(|path| Cgroup {
            path: path.into(),
            weight: 100,
        })
        .into();
    let mut spec = free(1);
    spec.hz = 100;
    let mut machine = Machine::new(spec, workload, Options::default()).expect("a machine");
    machine.advance(MS / 2, &mut Vec::new());
    let mut tree = Tree::new(machine, &["SUBS_FIRST"]).attach(APP, "child", &["BAD_DSQ"]);
    let mut failed = MS;
    while tree.var(0, "nr_enqueued") < 10 {
        failed += MS;
        tree.advance(failed);
    }
    let counted = tree.var(0, "nr_running");
    let before = ran_ms(&tree.run.machine, "app1") + ran_ms(&tree.run.machine, "app2");
    tree.advance(failed + 15 * MS);
    assert_eq!(tree.sub_exits().len(), 0, "the sub-scheduler is still in bypass mode");
    assert!(tree.var(0, "nr_running") > counted);
    assert!(ran_ms(&tree.run.machine, "app1") + ran_ms(&tree.run.machine, "app2") >= before + 5);
    tree.advance(failed + 60 * MS);
    assert_eq!(tree.sub_exits().len(), 1);
}

#[test]
fn an_attachment_that_fails_leaves_the_tasks_with_the_parent() {
    let defines = ["SUBS_FIRST", "REFUSE"];
    let mut tree = Tree::new(machine(1, hogs(), false), &defines);
    let mut message =
        |cgroup, name, defines: &[&str]| tree.try_attach(cgroup, name, defines).expect_err("no error").message;
    assert_eq!(message(APP, "refused", &[]), "parent rejected (-13)");
    assert_eq!(
        message(APP, "child", &["REFUSE_TASK=4"]),
        "scx_sub_enable() failed (-12)"
    );
    assert_eq!(
        message(APP, "child", &["BY_CPU", "NO_SUBS"]),
        "sub-sched requires cid-form struct_ops"
    );
    assert_eq!(
        message(APP, "child", &["TRACING"]),
        "not supported: a sub-scheduler with tracing programs, such as tp_btf or fentry"
    );
    assert_eq!(
        message(0, "child", &[]),
        "policy \"root\" is already attached to cgroup / (-16)"
    );
    tree = tree.attach(APP, "child", &["NO_SUBS"]);
    let mut message =
        |cgroup, name, defines: &[&str]| tree.try_attach(cgroup, name, defines).expect_err("no error").message;
    assert_eq!(
        message(APP, "child", &[]),
        "policy \"child\" is already attached to cgroup /app (-16)"
    );
    assert_eq!(
        message(NESTED, "child", &[]),
        "policy \"child\" accepts no sub-schedulers: it has no ops.sub_attach() (-95)"
    );
    tree.advance(50 * MS);
    tree.run.assert_alive();
    assert_eq!(tree.sub_exits(), []);
}

#[test]
fn without_a_policy_no_sub_scheduler_can_be_attached() {
    let bytes = std::fs::read(compile("sub", &[])).expect("an object");
    let object = Object::parse(&bytes, "sub.bpf.o").expect("a BPF object");
    let mut machine = machine(1, hogs(), false);
    let error = load_sub(&mut machine, &object, &Profile::default(), Engine::default(), APP).expect_err("no error");
    assert!(
        error
            .to_string()
            .contains("no policy is loaded that could accept a sub-scheduler (-19)"),
        "{error}"
    );
}

#[test]
fn sub_schedulers_nest_and_end_with_their_parents() {
    let tree = Tree::new(machine(1, hogs(), false), &["SUBS_FIRST"]);
    let mut tree = tree
        .attach(APP, "middle", &["SUBS_FIRST"])
        .attach(NESTED, "inner", &["TIMER"]);
    assert_eq!((tree.var(0, "nr_exit"), tree.var(1, "nr_init")), (1, 1));
    tree.advance(100 * MS);
    // When the slice of this task ends, the inner policy has no other task, so the middle one runs one
    // of its own tasks.
    let ran = ran_ms(&tree.run.machine, "nested");
    assert!((45..=55).contains(&ran), "nested ran for {ran} ms");
    assert!((95..=101).contains(&tree.var(1, "fired")), "{}", tree.var(1, "fired"));
    tree.run.unload();
    let ended: Vec<(u32, ExitKind)> = tree
        .sub_exits()
        .iter()
        .map(|(cgroup, exit)| (*cgroup, exit.kind))
        .collect();
    assert_eq!(ended, [(NESTED, ExitKind::Parent), (APP, ExitKind::Parent)]);
    assert_eq!((tree.var(0, "nr_detached"), tree.run.var("nr_detached")), (1, 1));
    assert_eq!((tree.run.var("nr_init"), tree.run.var("nr_exit")), (8, 8));
    // The fair class schedules the tasks now.
    tree.advance(200 * MS);
    assert!(ran_ms(&tree.run.machine, "root1") > 10);
}

#[test]
fn each_policy_has_its_own_counts_of_callbacks() {
    let tree = Tree::new(machine(1, hogs(), false), &["SUBS_FIRST"]);
    let mut tree = tree
        .attach(APP, "middle", &["SUBS_FIRST"])
        .attach(NESTED, "inner", &[])
        .attach(OTHER, "other", &[]);
    tree.advance(20 * MS);
    tree.run.unload();
    assert_eq!(tree.sub_exits().len(), 3);
    let costs = tree.run.machine.ext().sub_costs();
    let enqueue = kernel::ext::Callback::Enqueue as usize;
    for (sub, cgroup) in [(1, NESTED), (2, OTHER), (0, APP)] {
        let own = costs
            .iter()
            .find(|costs| costs.cgroup == cgroup)
            .expect("the costs are kept");
        assert_eq!(
            own.called[enqueue].count,
            tree.var(sub, "nr_enqueued"),
            "cgroup {cgroup}"
        );
    }
    assert_eq!(
        tree.run.machine.ext().called[enqueue].count,
        tree.run.var("nr_enqueued")
    );
}

#[test]
fn a_distant_sub_scheduler_cannot_be_asked() {
    let tree = Tree::new(machine(1, hogs(), false), &["DISTANT=25"]);
    let mut tree = tree.attach(APP, "middle", &["SUBS_FIRST"]).attach(NESTED, "inner", &[]);
    tree.advance(20 * MS);
    assert_eq!(
        tree.run.exit().message,
        "trying to dispatch a distant sub-sched on cgroup 25"
    );
}

#[test]
fn a_parent_that_rejects_a_returning_task_ends_too() {
    let mut tree =
        Tree::new(machine(1, hogs(), false), &["SUBS_FIRST", "REJECT_BACK=6"]).attach(APP, "child", &["BAD_DSQ"]);
    tree.advance(200 * MS);
    let message = &tree.run.exit().message;
    assert!(
        message.starts_with("ops.init_task() failed (-12) for app2["),
        "{message}"
    );
    assert!(message.ends_with("while disabling a sub-scheduler"), "{message}");
    let before = ran_ms(&tree.run.machine, "app2");
    tree.advance(400 * MS);
    assert!(ran_ms(&tree.run.machine, "app2") > before + 20);
}

#[test]
fn new_tasks_belong_to_the_sub_scheduler_of_their_cgroup() {
    let mut tasks = hogs();
    for (name, cgroup) in [("late", NESTED), ("other", OTHER)] {
        tasks = tasks.add(name, vec![run_ms(5)]).with(|task| {
            task.cgroup = cgroup;
            task.start_ns = 20 * MS;
        });
    }
    let mut tree = Tree::new(machine(2, tasks, false), &["SUBS_FIRST"]).attach(APP, "child", &[]);
    let (root, child) = (tree.run.var("nr_init"), tree.var(0, "nr_init"));
    tree.advance(200 * MS);
    assert_eq!((tree.run.var("nr_init") - root, tree.var(0, "nr_init") - child), (1, 1));
    // The new task of /app/nested has exited.
    assert_eq!(tree.var(0, "nr_exit"), 1);
}

#[test]
fn the_removal_of_a_cgroup_ends_its_sub_scheduler() {
    let mut tasks = hogs();
    tasks.workload.disturbances = vec![Disturbance {
        at_ns: 10 * MS,
        action: Action::Remove { cgroup: OTHER },
    }];
    let mut tree = Tree::new(machine(1, tasks, false), &["SUBS_FIRST"]).attach(OTHER, "other", &[]);
    tree.advance(50 * MS);
    let [(OTHER, exit)] = tree.sub_exits() else {
        panic!("{:?}", tree.sub_exits());
    };
    assert_eq!(
        (exit.kind, exit.message.as_str()),
        (ExitKind::UnregKern, "cgroup 26 going offline")
    );
    assert_eq!(tree.run.var("nr_detached"), 1);
    tree.run.assert_alive();
}

#[test]
fn runs_with_sub_schedulers_are_deterministic() {
    let hash = |sanitize: bool| {
        let tree = Tree::new(machine(2, hogs(), sanitize), &["SUBS_FIRST"]);
        let mut tree = tree
            .attach(APP, "middle", &["SUBS_FIRST", "BAD_DSQ"])
            .attach(OTHER, "other", &["TIMER"]);
        tree.advance(300 * MS);
        let mut hash = Hash::default();
        tree.run.records.iter().for_each(|record: &Record| hash.add(record));
        hash.value()
    };
    assert_eq!(hash(false), hash(false));
    assert_eq!(hash(false), hash(true));
}
