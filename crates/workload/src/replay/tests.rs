// SPDX-License-Identifier: GPL-2.0-only
use super::*;

fn replay(text: &str) -> Workload {
    let recording = trace::recording::read(text).expect("the text is a recording");
    from_records(&recording.records, None, "x.txt").expect("the recording can be replayed")
}

fn program<'a>(workload: &'a Workload, comm: &str) -> &'a [Op] {
    let task = workload
        .tasks
        .iter()
        .find(|task| task.comm == comm)
        .expect("the workload has this task");
    &workload.programs[task.program as usize].ops
}

fn run(us: u64) -> Op {
    Op::Run(Dist::Fixed(us * 1000))
}

/// A list of more CPUs than any machine has allows all CPUs.
#[test]
fn cpus_of_a_snapshot() {
    for (list, expected) in [
        ("0-1,3", Some(vec![0, 1, 3])),
        ("", None),
        ("0-8192", None),
        ("0-4294967294", None),
    ] {
        let known = TaskAttributes {
            cpus: list.into(),
            ..TaskAttributes::default()
        };
        let mut spec = task("t", 0, 0);
        apply(&known, &mut spec);
        assert_eq!(spec.cpus, expected, "{list:?}");
    }
}

#[test]
fn wakeups_are_replayed_but_waits_for_a_cpu_are_not() {
    let w = replay(
        "\
 swapper 0 [000] 1.000000: sched_switch: swapper/0:0 [120] R ==> a:1 [110]
 a 1 [000] 1.000010: sched_switch: a:1 [110] R ==> b:2 [95]
 b 2 [000] 1.000030: sched_switch: b:2 [95] S ==> a:1 [110]
 a 1 [000] 1.000035: sched_waking: comm=b pid=2 prio=95 target_cpu=000
 a 1 [000] 1.000036: sched_switch: a:1 [110] S ==> b:2 [95]
 b 2 [000] 1.000040: sched_switch: b:2 [95] D ==> swapper/0:0 [120]
 swapper 0 [000] 1.000100: sched_waking: comm=b pid=2 prio=95 target_cpu=000
 swapper 0 [000] 1.000101: sched_switch: swapper/0:0 [120] R ==> b:2 [95]
 b 2 [000] 1.000108: sched_process_exit: comm=b pid=2 prio=95
 b 2 [000] 1.000109: sched_switch: b:2 [95] Z ==> swapper/0:0 [120]
",
    );
    assert_eq!(program(&w, "a"), [run(15), Op::SemPost(0), run(1)]);
    let slept = Op::Sleep(Dist::Fixed(60_000));
    assert_eq!(program(&w, "b"), [run(20), Op::SemWait(0), run(4), slept, run(8)]);
    assert_eq!(w.tasks[0].policy, SchedPolicy::Normal { nice: -10 });
    assert_eq!(w.tasks[1].policy, SchedPolicy::Fifo { rt_priority: 4 });
}

#[test]
fn a_timer_keeps_its_schedule_but_a_device_takes_as_long_as_recorded() {
    let w = replay(
        "\
 a 1 [000] 1.000000: sched_switch: a:1 [120] R ==> swapper/0:0 [120]
 swapper 0 [000] 1.000005: sched_switch: swapper/0:0 [120] R ==> a:1 [120]
 a 1 [000] 1.000010: sched_switch: a:1 [120] S ==> swapper/0:0 [120]
 swapper 0 [000] 1.000030: sched_waking: comm=a pid=1 prio=120 target_cpu=000
 swapper 0 [000] 1.000040: sched_switch: swapper/0:0 [120] R ==> a:1 [120]
 a 1 [000] 1.000050: sched_switch: a:1 [120] D ==> swapper/0:0 [120]
 swapper 0 [000] 1.000057: sched_waking: comm=a pid=1 prio=120 target_cpu=000
 swapper 0 [000] 1.000058: sched_switch: swapper/0:0 [120] R ==> a:1 [120]
 a 1 [000] 1.000060: sched_switch: a:1 [120] S ==> swapper/0:0 [120]
 swapper 0 [000] 1.000070: sched_waking: comm=a pid=1 prio=120 target_cpu=000
 swapper 0 [000] 1.000071: sched_switch: swapper/0:0 [120] R ==> a:1 [120]
 a 1 [000] 1.000072: sched_switch: a:1 [120] S ==> swapper/0:0 [120]
",
    );
    let timer = |us: u64| Op::Timer {
        timer: 0,
        period: us * 1000,
        absolute: true,
    };
    // The second expiry is 40 us after the first, whenever the task then begins to sleep.
    let device = Op::Sleep(Dist::Fixed(7000));
    assert_eq!(
        program(&w, "a"),
        [run(5), timer(20), run(10), device, run(2), timer(40), run(1)]
    );
}

#[test]
fn all_wakers_of_a_task_post_the_same_semaphore() {
    let w = replay(
        "\
 a 1 [000] 1.000000: sched_waking: comm=c pid=3 prio=120 target_cpu=001
 c 3 [001] 1.000001: sched_switch: c:3 [120] S ==> b:2 [120]
 b 2 [001] 1.000005: sched_waking: comm=c pid=3 prio=120 target_cpu=001
 b 2 [001] 1.000006: sched_switch: b:2 [120] S ==> c:3 [120]
 c 3 [001] 1.000008: sched_switch: c:3 [120] S ==> swapper/1:0 [120]
 a 1 [000] 1.000009: sched_switch: a:1 [120] S ==> swapper/0:0 [120]
",
    );
    assert_eq!(w.resources.len(), 1);
    let posts = |comm| program(&w, comm).iter().filter(|op| **op == Op::SemPost(0)).count();
    assert_eq!((posts("a"), posts("b")), (1, 1), "{w:?}");
}

#[test]
fn a_snapshot_gives_tasks_their_attributes_and_children_inherit_them() {
    let text = "\
 a 11 [000] 1.000000: sched_switch: a:11 [120] R ==> a:11 [120]
 a 11 [000] 1.000005: sched_process_fork: comm=a pid=11 child_comm=kid child_pid=13
 a 11 [000] 1.000006: sched_switch: a:11 [120] S ==> b:12 [120]
 b 12 [000] 1.000007: sched_switch: b:12 [120] S ==> kid:13 [120]
 kid 13 [000] 1.000009: sched_switch: kid:13 [120] S ==> swapper/0:0 [120]
";
    let recording = trace::recording::read(text).expect("the text is a recording");
    let task = |pid, policy, nice, cpus: &str, group| TaskAttributes {
        pid,
        tgid: 11,
        policy,
        nice,
        rt_priority: 30 * u32::from(policy == snapshot::SCHED_RR),
        cpus: cpus.into(),
        group,
    };
    let snapshot = Snapshot {
        release: String::new(),
        groups: vec![snapshot::TaskGroup {
            path: "/autogroup-1".into(),
            weight: 50,
        }],
        tasks: vec![
            task(11, snapshot::SCHED_BATCH, 5, "0-1", 1),
            task(12, snapshot::SCHED_RR, 0, "what", 0),
        ],
    };
    let w = from_records(&recording.records, Some(&snapshot), "x").expect("the recording can be replayed");
    let find = |comm: &str| w.tasks.iter().find(|task| task.comm == comm).expect("the task exists");
    let (a, b, kid) = (find("a"), find("b"), find("kid"));
    assert_eq!((a.policy, a.process, a.cgroup), (SchedPolicy::Batch { nice: 5 }, 11, 1));
    assert_eq!(a.cpus, Some(vec![0, 1]));
    assert_eq!((b.policy, b.process), (SchedPolicy::RoundRobin { rt_priority: 30 }, 11));
    // A list that cannot be read allows all CPUs.
    assert_eq!((b.cpus.clone(), b.cgroup), (None, 0));
    assert_eq!((kid.cpus.clone(), kid.cgroup, kid.process), (Some(vec![0, 1]), 1, 13));
    assert!(matches!(kid.policy, SchedPolicy::Batch { .. }));
    assert_eq!((w.cgroups.len(), w.cgroups[1].weight), (2, 50));
}

#[test]
fn forks_stay_forks_and_sleepers_start_when_they_are_woken() {
    let w = replay(
        "\
 a 1 [000] 1.000000: sched_waking: comm=early pid=7 prio=120 target_cpu=001
 a 1 [000] 1.000005: sched_process_fork: comm=a pid=1 child_comm=kid child_pid=9
 a 1 [000] 1.000006: sched_wakeup_new: comm=kid pid=9 prio=120 target_cpu=000
 a 1 [000] 1.000007: sched_switch: a:1 [120] S ==> kid:9 [120]
 kid 9 [000] 1.000020: sched_switch: kid:9 [120] X ==> early:7 [120]
 early 7 [000] 1.000021: sched_switch: early:7 [120] S ==> swapper/0:0 [120]
 swapper 0 [000] 1.000050: sched_waking: comm=late pid=8 prio=120 target_cpu=000
 swapper 0 [000] 1.000051: sched_switch: swapper/0:0 [120] R ==> late:8 [120]
 late 8 [000] 1.000053: sched_switch: late:8 [120] S ==> swapper/0:0 [120]
",
    );
    let kid = w
        .tasks
        .iter()
        .position(|task| task.comm == "kid")
        .expect("the forked task exists") as u32;
    let fork = Op::Fork {
        task: kid,
        thread: false,
    };
    assert_eq!(program(&w, "a"), [Op::SemPost(0), run(5), fork, run(2)]);
    assert_eq!(program(&w, "kid"), [run(13)]);
    assert_eq!(program(&w, "early"), [Op::SemWait(0), run(1)]);
    assert_eq!(program(&w, "late"), [run(2)]);
    let start = |comm: &str| {
        w.tasks
            .iter()
            .find(|task| task.comm == comm)
            .map(|task| (task.spawn, task.start_ns))
    };
    assert_eq!(
        [start("kid"), start("early"), start("late")],
        [Some((false, 0)), Some((true, 0)), Some((true, 50_000))]
    );
}
