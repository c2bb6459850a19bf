// SPDX-License-Identifier: GPL-2.0-only
//! Replay: converts a recording into a workload whose tasks do the same work.
//!
//! Each task computes for as long as in the recording. If another task woke it in the recording, it
//! waits until a task wakes it. Otherwise it sleeps for as long as in the recording. A different
//! scheduler thus changes how long tasks wait for a CPU, but not what they do.
//!
//! - The time that a task computes between two other steps becomes one [`Op::Run`], even if the
//!   task was preempted or changed CPUs. A recorded time contains the kernel's work on the task's
//!   CPU: system calls, switches, wake-ups and interrupts. In a replay
//!   ([`Workload::recorded_on`]), the simulated machine subtracts its own costs of this work.
//! - Each task has a semaphore. The tasks that wake it in the recording post the semaphore, and the
//!   task waits for it. A wake-up that happens earlier than in the recording is not lost, and it
//!   does not matter which of several wakers is the first: a reader of a queue takes the first
//!   message, whoever sent it.
//! - A task that waits for a wake-up which has already happened sleeps nevertheless, and wakes at
//!   once, if other tasks wait for its CPU. A recording shows only those wake-ups for which a task
//!   slept. In the recorded run, a late task also found work that had arrived meanwhile, and an
//!   early task slept more often. Without this rule, a task that is late skips sleeps, but a task
//!   that is early cannot have more, so a replay would always have too few switches.
//! - A wake-up by an interrupt becomes a sleep. A task in TASK_UNINTERRUPTIBLE waits for a device,
//!   and sleeps as long as recorded. Any other task waits for a timer or for a message from outside
//!   of the machine. These come at the recorded times, even if the task is late: it then sleeps
//!   shorter ([`Op::Timer`]). With equal sleeps, a periodic task would fall behind by each delay.
//! - A fork is replayed as a fork. A task that existed at the start of the recording starts at time
//!   0. A task whose first event is a wake-up by an interrupt starts with that wake-up.
//! - A task exits where it exited in the recording, or where the recording ends.
//!
//! - If the recording contains a [`Snapshot`], tasks have its affinities, scheduling policies, nice
//!   values, processes and groups (cgroups and autogroups). A task that is not in the snapshot has
//!   the attributes of its parent.
//!
//! A replay leaves out changes of these attributes, execs, and the caches and speeds of the
//! recorded CPUs: all computing is assumed to have happened at capacity 1024.
//!
//! In a recording that does not mark interrupts, a wake-up by an interrupt looks like a wake-up by
//! the interrupted task, and is replayed as a wake-up by this task.

use crate::generator::{empty, task};
use crate::program::{Cgroup, Dist, Op, Program, Resource, SchedPolicy, Score, Workload};
use crate::task_specs::TaskSpec;
use input::{Error, cpu_list};
use std::collections::BTreeMap;
use trace::recording::MAX_CPUS;
use trace::snapshot::{self, TaskAttributes};
use trace::{Event, Record, Snapshot, TaskState};

/// State of a task, with the time in ns at which it began.
#[derive(Clone, Copy)]
enum Doing {
    Runs(u64),
    /// Runnable, waiting for a CPU.
    Waits,
    Sleeps(u64),
    /// Sleeps in TASK_UNINTERRUPTIBLE.
    WaitsForDevice(u64),
    Exited,
}

/// A task of the recording, and the program built for it so far.
struct Replayed {
    spec: TaskSpec,
    ops: Vec<Op>,
    doing: Doing,
    /// Computing time in ns that is not yet part of a step.
    computed: u64,
    /// Recorded time of the last expiry of the task's timer.
    expired: Option<u64>,
    /// Whether the task has run or has been woken since the start of the recording.
    met: bool,
}

impl Replayed {
    /// Adds the time up to `time` to `computed` if the task is running.
    fn compute_until(&mut self, time: u64) {
        if let Doing::Runs(since) = self.doing {
            self.computed += time - since;
            self.doing = Doing::Runs(time);
        }
    }

    /// Appends a sleep that ends at `time` without a wake-up by a task.
    fn sleep_until(&mut self, time: u64) {
        let step = match self.doing {
            Doing::Sleeps(since) => {
                let period = time - self.expired.replace(time).unwrap_or(since);
                Op::Timer {
                    timer: 0,
                    period,
                    absolute: true,
                }
            }
            Doing::WaitsForDevice(since) => Op::Sleep(Dist::Fixed(time - since)),
            Doing::Waits | Doing::Runs(_) | Doing::Exited => return,
        };
        self.step(Some(step));
    }

    /// Appends a step for the time computed since the last step, and then `op`.
    fn step(&mut self, op: Option<Op>) {
        let ns = std::mem::take(&mut self.computed);
        self.ops.extend((ns > 0).then_some(Op::Run(Dist::Fixed(ns))));
        self.ops.extend(op);
    }
}

/// Tasks of a recording, in the order of their creation.
#[derive(Default)]
struct Replay<'a> {
    snapshot: Option<&'a Snapshot>,
    tasks: Vec<Replayed>,
    /// Index of the task that currently has each pid. A later task can have the pid of an exited
    /// one.
    by_pid: BTreeMap<u32, usize>,
    /// Semaphore of each task that another task wakes, by the index of the task.
    semaphores: BTreeMap<usize, u32>,
}

/// Converts records into a workload. The records must contain every switch. If several records
/// describe the same wake-up, only the first of them may be included.
///
/// # Errors
/// Fails if no task runs.
pub fn from_records(records: &[Record], snapshot: Option<&Snapshot>, name: &str) -> Result<Workload, Error> {
    let mut replay = Replay {
        snapshot,
        ..Replay::default()
    };
    for record in records {
        replay.take(record);
    }
    let end = records.last().map_or(0, |record| record.time);
    let mut workload = empty("tasks", None);
    workload.name = name.into();
    workload.score = Score::CompletionTime;
    let groups = snapshot.map_or(&[][..], |snapshot| &snapshot.groups);
    workload.cgroups.extend(groups.iter().map(|group| Cgroup {
        path: group.path.clone(),
        weight: group.weight,
    }));
    let mut semaphores: Vec<_> = replay.semaphores.into_iter().collect();
    semaphores.sort_by_key(|&(_, id)| id);
    workload.resources = semaphores
        .into_iter()
        .map(|(woken, _)| Resource::Semaphore {
            name: format!("wake-ups of task {woken}"),
            value: 0,
        })
        .collect();
    for mut task in replay.tasks {
        task.compute_until(end);
        task.step(None);
        // A task without steps is not created. It stays in the list nevertheless, because forks
        // refer to tasks by their index.
        task.spec.spawn &= !task.ops.is_empty();
        workload.programs.push(Program {
            ops: task.ops,
            counters: 0,
        });
        workload.tasks.push(task.spec);
    }
    if !workload.tasks.iter().any(|task| task.spawn) {
        return Err(Error::at(name, "no task runs in this recording"));
    }
    workload.check()?;
    Ok(workload)
}

impl Replay<'_> {
    /// Returns the task that currently has a pid.
    fn find(&mut self, pid: u32) -> Option<(usize, &mut Replayed)> {
        let &at = self.by_pid.get(&pid)?;
        Some((at, &mut self.tasks[at]))
    }

    /// Processes one record.
    fn take(&mut self, record: &Record) {
        let time = record.time;
        match record.event {
            Event::TaskNew {
                pid,
                tgid,
                parent,
                prio,
                ref comm,
            } => self.create(time, [pid, tgid, parent], prio, comm),
            Event::Switch { prev, prev_state, next } => {
                if let Some((_, task)) = self.find(prev) {
                    task.compute_until(time);
                    task.doing = match prev_state {
                        TaskState::Running => Doing::Waits,
                        TaskState::Interruptible => Doing::Sleeps(time),
                        TaskState::Uninterruptible => Doing::WaitsForDevice(time),
                        TaskState::Dead => Doing::Exited,
                    };
                }
                if let Some((_, task)) = self.find(next) {
                    // The recording contains no wake-up for this sleep.
                    task.sleep_until(time);
                    task.doing = Doing::Runs(time);
                    task.met = true;
                }
            }
            Event::Waking { pid, waker } => self.wake(time, pid, waker),
            _ => {}
        }
    }

    /// Adds a task. `pids` are its pid, its process and its parent.
    fn create(&mut self, time: u64, pids: [u32; 3], prio: i32, comm: &str) {
        let [pid, tgid, parent] = pids;
        let number = self.tasks.len();
        let id = input::index(number);
        let mut spec = task(comm, id, tgid);
        spec.policy = policy(prio);
        let known = self.snapshot.and_then(|snapshot| snapshot.task(pid));
        if let Some((_, parent)) = self.find(parent) {
            // A new task inherits these attributes. The kernel's priority is in the record.
            spec.cpus.clone_from(&parent.spec.cpus);
            spec.cgroup = parent.spec.cgroup;
            if matches!(
                (parent.spec.policy, spec.policy),
                (SchedPolicy::Batch { .. }, SchedPolicy::Normal { .. })
            ) {
                spec.policy = parent.spec.policy;
            }
        }
        if let Some(known) = known {
            apply(known, &mut spec);
        }
        if let Some((_, parent)) = self
            .find(parent)
            .filter(|(_, task)| matches!(task.doing, Doing::Runs(_)))
        {
            parent.compute_until(time);
            parent.step(Some(Op::Fork {
                task: id,
                thread: spec.process == parent.spec.process,
            }));
            spec.spawn = false;
        } else {
            spec.start_ns = time;
        }
        self.by_pid.insert(pid, number);
        self.tasks.push(Replayed {
            spec,
            ops: Vec::new(),
            doing: Doing::Waits,
            computed: 0,
            expired: None,
            met: false,
        });
    }

    fn wake(&mut self, time: u64, pid: u32, waker: u32) {
        let Some((woken, task)) = self.find(pid) else { return };
        match task.doing {
            Doing::Sleeps(_) | Doing::WaitsForDevice(_) => {}
            // This wake-up is the task's first event, so the task has slept since the start of the
            // recording.
            Doing::Waits if !task.met && task.spec.spawn => task.met = true,
            Doing::Waits | Doing::Runs(_) | Doing::Exited => return,
        }
        let began = !task.ops.is_empty() || task.computed > 0;
        let by_task = self
            .find(waker)
            .filter(|(_, task)| matches!(task.doing, Doing::Runs(_)));
        let Some((waker, by)) = by_task else {
            let task = &mut self.tasks[woken];
            match began {
                true => task.sleep_until(time),
                false => task.spec.start_ns = time,
            }
            task.doing = Doing::Waits;
            return;
        };
        by.compute_until(time);
        let next = input::index(self.semaphores.len());
        let semaphore = *self.semaphores.entry(woken).or_insert(next);
        self.tasks[waker].step(Some(Op::SemPost(semaphore)));
        self.tasks[woken].step(Some(Op::SemWait(semaphore)));
        self.tasks[woken].doing = Doing::Waits;
    }
}

/// Sets the attributes of a task that are in a snapshot.
fn apply(known: &TaskAttributes, spec: &mut TaskSpec) {
    let nice = known.nice;
    spec.process = known.tgid;
    spec.cgroup = known.group;
    spec.policy = match known.policy {
        snapshot::SCHED_NORMAL | snapshot::SCHED_EXT => SchedPolicy::Normal { nice },
        snapshot::SCHED_BATCH => SchedPolicy::Batch { nice },
        snapshot::SCHED_IDLE => SchedPolicy::Idle,
        snapshot::SCHED_FIFO if known.rt_priority > 0 => SchedPolicy::Fifo {
            rt_priority: known.rt_priority,
        },
        snapshot::SCHED_RR if known.rt_priority > 0 => SchedPolicy::RoundRobin {
            rt_priority: known.rt_priority,
        },
        _ => spec.policy,
    };
    // A list that cannot be read allows all CPUs. Without the limit, `0-4294967294` would use up the
    // memory.
    spec.cpus = cpu_list::parse(&known.cpus, MAX_CPUS)
        .ok()
        .filter(|cpus| !cpus.is_empty());
}

/// Converts the kernel's priority: 100..139 are nice -20..19. Lower values are real-time
/// priorities; 98 is rt_priority 1.
fn policy(prio: i32) -> SchedPolicy {
    match prio {
        100..=139 => SchedPolicy::Normal { nice: prio - 120 },
        140.. => SchedPolicy::Normal { nice: 19 },
        _ => SchedPolicy::Fifo {
            rt_priority: 99u32.saturating_sub_signed(prio).clamp(1, 99),
        },
    }
}

#[cfg(test)]
mod tests {
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
}
