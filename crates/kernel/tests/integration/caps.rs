// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the capabilities of sub-schedulers and of rescues, as in Linux 7.3
//! (`kernel::sched::ext::caps`, `kernel::sched::ext::rescue`).

use crate::policies::{Run, compile};
use crate::support::*;
use bpf::engine::Engine;
use bpf::link::Image;
use bpf::object::Object;
use kernel::ext::{Exit, ExitKind};
use kernel::load::{LoadError, load_sub};
use kernel::release::Release;
use kernel::{Machine, Options};
use profile::Profile;
use trace::Hash;
use workload::{Action, Cgroup, Disturbance};

/// Indexes of the cgroups. Their ids are greater by one.
const APP: u32 = 1;
const NESTED: u32 = 2;

/// SCX_CAP_*
const IMMED: u64 = 1;
const ENQ: u64 = 2;
const PREEMPT: u64 = 4;
const ALL: u64 = 15;

/// A root policy and its sub-schedulers on two CPUs that Linux 7.3 runs.
struct Tree {
    run: Run,
    subs: Vec<Image>,
}

/// Returns a machine with two CPUs and Linux 7.3.
fn machine() -> Machine {
    machine_with(hogs(), false)
}

/// Returns two tasks of / and two of /app. All of them run all the time.
fn hogs() -> Tasks {
    let hog = || forever(vec![run_ms(5)]);
    let mut tasks = Tasks::default();
    for (name, cgroup) in [("root1", 0), ("root2", 0), ("app1", APP), ("app2", APP)] {
        tasks = tasks.add(name, hog()).with(|task| task.cgroup = cgroup);
    }
    tasks
}

fn machine_with(tasks: Tasks, sanitizer: bool) -> Machine {
    let mut workload = tasks.workload;
    workload.cgroups = ["/", "/app", "/app/nested"]
        .map(|path| Cgroup {
            path: path.into(),
            weight: 100,
        })
        .into();
    let options = Options {
        release: Release::LINUX_7_3,
        sanitizer,
        ..Options::default()
    };
    let mut machine = Machine::new(free(2), workload, options).expect("a machine");
    machine.advance(MS / 2, &mut Vec::new());
    machine
}

impl Tree {
    fn new(machine: Machine, defines: &[&str]) -> Tree {
        Tree {
            run: Run::new(machine, "caps", defines),
            subs: Vec::new(),
        }
    }

    fn attach(mut self, cgroup: u32, defines: &[&str]) -> Tree {
        let defines: Vec<&str> = ["NAME=\"child\""].into_iter().chain(defines.iter().copied()).collect();
        let bytes = std::fs::read(compile("caps", &defines)).expect("an object");
        let object = Object::parse(&bytes, "caps.bpf.o").expect("a BPF object");
        let machine = &mut self.run.machine;
        match load_sub(machine, &object, &Profile::default(), Engine::default(), cgroup) {
            Ok(image) => self.subs.push(image),
            Err(LoadError::Refused(exit)) => panic!("{exit}"),
            Err(LoadError::Input(message)) => panic!("{message}"),
        }
        self
    }

    fn advance(mut self, until: u64) -> Tree {
        self.run.machine.advance(until, &mut self.run.records);
        self
    }

    /// Returns the value of a global variable of a sub-scheduler.
    fn var(&self, sub: usize, name: &str) -> u64 {
        let text = self.subs[sub].get(self.run.machine.region(), name).expect("a variable");
        text.parse::<i128>().expect("a number") as u64
    }

    fn vars<const N: usize>(&self, sub: usize, names: [&str; N]) -> [u64; N] {
        names.map(|name| self.var(sub, name))
    }

    /// Returns the exit record of the only sub-scheduler that has ended.
    fn sub_exit(&self) -> &Exit {
        let exits = &self.run.machine.ext().sub_exits;
        assert_eq!(exits.len(), 1);
        &exits[0].1
    }

    /// Returns the CPU time in ms that a task has got.
    fn ran_ms(&self, comm: &str) -> u64 {
        let task = self.run.machine.tasks().iter().find(|task| task.comm() == comm);
        task.expect("the task exists").sum_exec_runtime() / MS
    }
}

#[test]
fn a_sub_scheduler_gets_only_the_cpus_that_it_may_use() {
    let tree = Tree::new(machine(), &["CIDS=1", "CAPS=2"])
        .attach(APP, &[])
        .advance(100 * MS);
    tree.run.assert_alive();
    assert_eq!(
        [
            tree.run.var("own_cids"),
            tree.run.var("online_cids"),
            tree.run.var("grant_result")
        ],
        [3, 3, 0]
    );
    assert!(tree.var(0, "ran[0]") > 20);
    assert_eq!(tree.vars(0, ["ran[1]", "nr_rejected", "own_cids"]), [0, 0, 0]);
    // ops.sub_caps_updated() is called for a grant of ops.sub_attach() after the policy has been enabled.
    assert_eq!(tree.vars(0, ["nr_caps", "changed_caps", "changed_cids"]), [1, ENQ, 1]);
    assert_eq!(tree.vars(0, ["nr_ecaps", "ecaps[0]", "ecaps[1]"]), [1, ENQ | IMMED, 0]);
    assert_eq!(tree.var(0, "enable_mask"), 3);
}

#[test]
fn without_capabilities_the_tasks_starve() {
    let tree = Tree::new(machine(), &["CIDS=0"]).attach(APP, &[]).advance(100 * MS);
    tree.run.assert_alive();
    assert_eq!(tree.vars(0, ["ran[0]", "ran[1]", "nr_caps", "nr_ecaps"]), [0; 4]);
    assert!(tree.ran_ms("root1") > 80);
}

#[test]
fn an_insertion_on_a_forbidden_cpu_is_rejected() {
    let tree = Tree::new(machine(), &["CIDS=1", "CAPS=2"])
        .attach(APP, &["ON=1"])
        .advance(100 * MS);
    tree.run.assert_alive();
    assert!(tree.var(0, "nr_rejected") > 10);
    assert_eq!(tree.vars(0, ["reason_caps", "reason_cid", "ran[1]"]), [ENQ, 1, 0]);
    assert!(tree.var(0, "ran[0]") > 10);
    // A preemption of a task of the parent needs a stronger capability.
    let preempts = ["ON=0", "FLAGS=(1ULL<<32)"];
    let tree = Tree::new(machine(), &["CIDS=1", "CAPS=2"])
        .attach(APP, &preempts)
        .advance(100 * MS);
    assert!(tree.var(0, "nr_rejected") > 1);
    assert_eq!(tree.vars(0, ["reason_caps", "reason_cid"]), [PREEMPT, 0]);
}

#[test]
fn a_task_that_is_rejected_forever_ends_its_policy() {
    let tree = Tree::new(machine(), &["CIDS=0"])
        .attach(APP, &["ON=1", "LOOP"])
        .advance(100 * MS);
    tree.run.assert_alive();
    let exit = tree.sub_exit();
    assert_eq!((exit.kind, exit.reason), (ExitKind::ErrorReenq, "reenqueue limit"));
    assert!(
        exit.message.ends_with("reenqueued 257 times without running"),
        "{}",
        exit.message
    );
    assert_eq!((tree.var(0, "exit_kind"), tree.run.var("nr_detached")), (1027, 1));
    assert!(tree.ran_ms("app1") > 10);
}

#[test]
fn a_rescued_task_gets_a_small_share_of_the_cpu() {
    let rescued = ["ON=1", "FLAGS=(1ULL<<34)", "LOOP"];
    let ran = |root: &[&str]| {
        let defines: Vec<&str> = ["CIDS=0"].iter().chain(root).copied().collect();
        let tree = Tree::new(machine(), &defines).attach(APP, &rescued).advance(3_000 * MS);
        tree.run.assert_alive();
        assert_eq!(tree.vars(0, ["nr_rejected", "ran[0]"]), [0, 0]);
        tree.ran_ms("app1") + tree.ran_ms("app2")
    };
    // 2 % of 3 s by default.
    let (some, more) = (ran(&[]), ran(&["PPT=200"]));
    assert!((30..=80).contains(&some), "{some}");
    assert!((400..=700).contains(&more), "{more}");
    // Rescues can be turned off.
    let tree = Tree::new(machine(), &["CIDS=0", "PPT=0xffffffff"])
        .attach(APP, &rescued)
        .advance(100 * MS);
    assert_eq!(tree.sub_exit().kind, ExitKind::ErrorReenq);
}

#[test]
fn too_many_rescues_end_the_policy_that_uses_most() {
    let mut tasks = Tasks::default().add("root1", forever(vec![run_ms(5)]));
    for number in 0..100 {
        let hog = forever(vec![run_ms(5)]);
        tasks = tasks.add(&format!("app{number}"), hog).with(|task| task.cgroup = APP);
    }
    let tree = Tree::new(machine_with(tasks, false), &["CIDS=0"])
        .attach(APP, &["ON=1", "FLAGS=(1ULL<<34)", "LOOP"])
        .advance(9_000 * MS);
    tree.run.assert_alive();
    let exit = tree.sub_exit();
    assert_eq!(
        (exit.kind, exit.reason),
        (ExitKind::ErrorRescue, "rescue bandwidth overload")
    );
    assert!(
        exit.message.starts_with("used too much rescue CPU time ("),
        "{}",
        exit.message
    );
    assert!(exit.message.ends_with("s to be rescued"), "{}", exit.message);
    // The dump shows how many tasks wait for a rescue on CPU 1.
    let waiting = exit
        .dump
        .split("rescue=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    assert!(
        waiting.is_some_and(|number| number.parse::<u32>().is_ok()),
        "{}",
        exit.dump
    );
    assert!(exit.dump.contains("us rescuing="), "{}", exit.dump);
}

#[test]
fn a_revoked_cpu_is_cleared_of_tasks() {
    let tree = Tree::new(machine(), &["REVOKE=2"])
        .attach(APP, &["ON=1"])
        .advance(100 * MS);
    tree.run.assert_alive();
    assert_eq!([tree.run.var("acted"), tree.run.var("child_cids")], [1, 1]);
    assert_eq!(tree.vars(0, ["ecaps[0]", "ecaps[1]"]), [ALL, 0]);
    assert!(tree.var(0, "ran[1]") > 0 && tree.var(0, "ran[1]") < 15);
    assert!(tree.var(0, "ran[0]") > 20 && tree.var(0, "nr_rejected") > 10);
}

#[test]
fn a_parent_can_kill_a_sub_scheduler() {
    let tree = Tree::new(machine(), &["KILL"]).attach(APP, &[]).advance(100 * MS);
    tree.run.assert_alive();
    let exit = tree.sub_exit();
    assert_eq!((exit.kind, exit.code), (ExitKind::ParentKill, 0));
    assert_eq!(exit.message, "cgroup 24 must go");
    assert_eq!(tree.run.var("nr_detached"), 1);
    assert!(tree.ran_ms("app1") > 10);
}

#[test]
fn a_sub_scheduler_can_pass_on_only_what_it_has() {
    let tree = Tree::new(machine(), &["CIDS=1", "REVOKE=1"])
        .attach(APP, &[])
        .attach(NESTED, &[]);
    // /app has capabilities for cid 0 only, so a grant for both cids is denied for cid 1.
    assert_eq!(tree.vars(0, ["grant_result", "denied_cids"]), [(-1i64) as u64, 2]);
    let tree = tree.advance(15 * MS);
    assert_eq!(tree.vars(1, ["ecaps[0]", "ecaps[1]", "changed_caps"]), [ALL, 0, ALL]);
    // A revocation reaches the policies below.
    let tree = tree.advance(100 * MS);
    assert_eq!(tree.vars(0, ["ecaps[0]"]), [0]);
    assert_eq!(tree.vars(1, ["ecaps[0]", "nr_caps"]), [0, 2]);
}

#[test]
fn idle_cpus_are_reported_to_the_policies_that_may_use_them() {
    let tasks = Tasks::default()
        .add("app1", sleeper(MS, 4 * MS))
        .with(|task| task.cgroup = APP);
    let tree = Tree::new(machine_with(tasks, false), &["CIDS=1"])
        .attach(APP, &[])
        .advance(100 * MS);
    tree.run.assert_alive();
    assert!(tree.run.var("idled[0]") > 10 && tree.run.var("idled[1]") > 0);
    assert!(tree.var(0, "idled[0]") > 10);
    assert_eq!(tree.var(0, "idled[1]"), 0);
}

#[test]
fn init_cids_can_assign_cids_and_shards() {
    let mut tree = Tree::new(machine(), &["SHARDS"]).advance(10 * MS);
    tree.run.assert_alive();
    assert_eq!(tree.run.var("shard_of_last"), 1);
    tree = Tree::new(machine(), &["SHARDS"])
        .attach(APP, &["SHARDS"])
        .advance(50 * MS);
    // A sub-scheduler gets the cids of the root policy. Its ops.init_cids() is not called.
    assert!(tree.var(0, "ran[0]") > 0);
    assert_eq!(tree.var(0, "shard_of_last"), 1);
}

#[test]
fn runs_with_capabilities_are_deterministic() {
    let hash = |sanitizer: bool| {
        let mut tasks = hogs();
        tasks = tasks.add("late", vec![run_ms(5)]).with(|task| {
            task.cgroup = APP;
            task.start_ns = 20 * MS;
        });
        let machine = machine_with(tasks, sanitizer);
        let tree = Tree::new(machine, &["CIDS=1"]).attach(APP, &["ON=1", "FLAGS=(1ULL<<34)"]);
        let mut hash = Hash::default();
        tree.advance(500 * MS)
            .run
            .records
            .iter()
            .for_each(|record| hash.add(record));
        hash.value()
    };
    assert_eq!(hash(false), hash(false));
    assert_eq!(hash(false), hash(true));
}

#[test]
fn cgroups_and_tasks_change_their_policy() {
    let mut tasks = hogs();
    let at = |ms: u64, action: Action| Disturbance { at_ns: ms * MS, action };
    let attach = |comm: &str, cgroup| Action::Attach {
        cgroup,
        comm: comm.into(),
        process: false,
    };
    tasks.workload.disturbances = vec![
        at(5, attach("root1", NESTED)),
        at(10, attach("app1", 0)),
        // The settings of a cgroup belong to the policy of its parent.
        at(
            12,
            Action::Weight {
                cgroup: APP,
                weight: 200,
            },
        ),
        at(
            13,
            Action::Weight {
                cgroup: NESTED,
                weight: 200,
            },
        ),
    ];
    let machine = machine_with(tasks, false);
    let tree = Tree::new(machine, &["KILL"]).attach(APP, &[]);
    let cgroups = ["nr_cgroup_init", "nr_cgroup_exit"];
    assert_eq!(tree.vars(0, cgroups), [2, 0]);
    assert_eq!(cgroups.map(|name| tree.run.var(name)), [3, 2]);
    let tasks = ["nr_init_task", "nr_exit_task"];
    assert_eq!(tree.vars(0, tasks), [2, 0]);
    let tree = tree.advance(15 * MS);
    assert_eq!(tree.vars(0, tasks), [3, 1]);
    assert_eq!(tasks.map(|name| tree.run.var(name)), [5, 3]);
    assert_eq!((tree.run.var("nr_set_weight"), tree.var(0, "nr_set_weight")), (1, 1));
    // The end of the sub-scheduler returns everything to the parent.
    let tree = tree.advance(100 * MS);
    tree.run.assert_alive();
    assert_eq!(tree.vars(0, cgroups), [2, 2]);
    assert_eq!(cgroups.map(|name| tree.run.var(name)), [5, 2]);
    assert_eq!(tree.vars(0, tasks), [3, 3]);
    assert_eq!(tasks.map(|name| tree.run.var(name)), [7, 3]);
}
