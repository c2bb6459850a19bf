// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the programs of tasks. Each step of a program must have its effects in the right order
//! and at the right time. Kernel work has no cost here and each task has its own CPU, so all times
//! are exact.

use crate::support::*;
use kernel::Ended;
use kernel::waiting::BlockedTask;
use trace::{Event, Record, TaskState};
use workload::{Channel, Dist, Op, Resource, SchedPolicy};

/// Returns the end of a run in which these tasks wait forever: their pids, names and what they wait
/// for.
pub fn deadlock(blocked: &[(u32, &str, &str)]) -> Ended {
    let blocked = blocked.iter().map(|&(pid, comm, waits_for)| BlockedTask {
        pid,
        comm: comm.to_owned(),
        waits_for: waits_for.to_owned(),
    });
    Ended::Deadlock {
        blocked: blocked.collect(),
    }
}

fn mutex() -> Resource {
    Resource::Mutex {
        name: "m".into(),
        priority_inheritance: false,
    }
}

/// Returns the Done records of a task. Each has a time in ms, a count, and a response time in ms.
fn done(records: &[Record], pid: u32) -> Vec<(u64, u32, u64)> {
    let done = |r: &Record| match r.event {
        Event::Done {
            pid: p,
            count,
            response_ns,
        } if p == pid => Some((r.time / MS, count, response_ns / MS)),
        _ => None,
    };
    records.iter().filter_map(done).collect()
}

#[test]
fn work_and_sleep_take_their_time_and_the_task_exits() {
    let (records, ended) = run(1, Tasks::default().add("a", vec![run_ms(2), sleep_ms(3), run_ms(1)]));
    assert_eq!(starts(&records, 1), [0, 5]);
    assert_eq!(
        stops(&records, 1),
        [(2, TaskState::Interruptible), (6, TaskState::Dead)]
    );
    assert_eq!(ended, Ended::AllExited);
}

#[test]
fn a_slow_cpu_takes_longer_for_work_but_not_for_runtime() {
    let mut spec = free(1);
    spec.topology.cpus[0].capacity = 512;
    let tasks = Tasks::default().add("a", vec![run_ms(2), sleep_ms(1), Op::Runtime(Dist::Fixed(3 * MS))]);
    let (_, records, _) = draw(spec, tasks, END, MS);
    assert_eq!(
        stops(&records, 1),
        [(4, TaskState::Interruptible), (8, TaskState::Dead)]
    );
}

#[test]
fn io_is_an_uninterruptible_wait() {
    let (records, _) = run(1, Tasks::default().add("a", vec![Op::Io { bytes: 2_000_000 }]));
    assert_eq!(stops(&records, 1)[0].1, TaskState::Uninterruptible);
    assert_eq!(starts(&records, 1), [0, 1]);
}

#[test]
fn memory_steps_are_work() {
    let (records, _) = run(1, Tasks::default().add("a", vec![Op::Mem { bytes: 50_000_000 }]));
    assert_eq!(stops(&records, 1), [(5, TaskState::Dead)]);
}

#[test]
fn a_mutex_has_one_owner_at_a_time() {
    let section = || vec![Op::Lock(0), run_ms(3), Op::Unlock(0), run_ms(1)];
    let tasks = Tasks::default()
        .resources(vec![mutex()])
        .add("a", section())
        .add("b", section())
        .add("c", section());
    let (records, _) = run(3, tasks);
    assert_eq!(stops(&records, 1).last(), Some(&(4, TaskState::Dead)));
    assert_eq!(starts(&records, 2), [0, 3]);
    assert_eq!(stops(&records, 2).last(), Some(&(7, TaskState::Dead)));
    assert_eq!(starts(&records, 3), [0, 6]);
}

#[test]
fn a_mutex_with_priority_inheritance_goes_to_the_highest_waiter() {
    let pi = Resource::Mutex {
        name: "m".into(),
        priority_inheritance: true,
    };
    let section = |delay| vec![sleep_ms(delay), Op::Lock(0), run_ms(5), Op::Unlock(0)];
    let tasks = Tasks::default()
        .resources(vec![pi])
        .add("owner", section(1))
        .add("low", section(2))
        .add("high", section(3))
        .with(|task| task.policy = SchedPolicy::Fifo { rt_priority: 10 });
    let (records, _) = run(3, tasks);
    assert_eq!(starts(&records, 3).last(), Some(&6));
    assert_eq!(starts(&records, 2).last(), Some(&11));
}

#[test]
fn waiting_on_a_condition_releases_and_reacquires_the_mutex() {
    let resources = vec![mutex(), Resource::Cond { name: "c".into() }];
    let tasks = Tasks::default()
        .resources(resources)
        .add(
            "waits",
            vec![
                Op::Lock(0),
                Op::CondWait { cond: 1, mutex: 0 },
                run_ms(1),
                Op::Unlock(0),
            ],
        )
        // This task signals at 2 ms and holds the mutex until 5 ms.
        .add(
            "signals",
            vec![
                run_ms(1),
                Op::Lock(0),
                run_ms(1),
                Op::Signal(1),
                run_ms(3),
                Op::Unlock(0),
            ],
        );
    let (records, ended) = run(2, tasks);
    // The signal at 2 ms wakes the task. At this time the mutex is locked, so the task sleeps again
    // until 5 ms.
    assert_eq!(starts(&records, 1), [0, 2, 5]);
    assert_eq!(stops(&records, 1).last(), Some(&(6, TaskState::Dead)));
    assert_eq!(ended, Ended::AllExited);
}

#[test]
fn a_broadcast_wakes_all_and_a_signal_one() {
    let resources = || vec![mutex(), Resource::Cond { name: "c".into() }];
    let waiter = || vec![Op::Lock(0), Op::CondWait { cond: 1, mutex: 0 }, Op::Unlock(0)];
    let woken = |op: Op| {
        let tasks = Tasks::default()
            .resources(resources())
            .add("a", waiter())
            .add("b", waiter())
            .add("c", vec![run_ms(1), op]);
        let (records, ended) = run(3, tasks);
        ((1..=2).filter(|&pid| starts(&records, pid).len() > 1).count(), ended)
    };
    assert_eq!(woken(Op::Broadcast(1)), (2, Ended::AllExited));
    assert_eq!(
        woken(Op::Signal(1)),
        (1, deadlock(&[(2, "b", "a signal of condition variable c")]))
    );
}

#[test]
fn sync_signals_and_waits_in_one() {
    let resources = vec![mutex(), Resource::Cond { name: "c".into() }];
    let side = |first: Vec<Op>| {
        let turn = [Op::Lock(0), Op::Sync { cond: 1, mutex: 0 }, Op::Unlock(0), run_ms(2)];
        first
            .into_iter()
            .chain(turn.clone())
            .chain(turn)
            .chain([Op::Broadcast(1)])
            .collect()
    };
    let tasks = Tasks::default()
        .resources(resources)
        .add("a", side(vec![]))
        .add("b", side(vec![run_ms(1)]));
    let (records, ended) = run(2, tasks);
    // Task b signals task a at 1 ms and waits. Task a works until 3 ms, signals task b and waits,
    // and so on.
    assert_eq!(starts(&records, 1), [0, 1, 5]);
    assert_eq!(starts(&records, 2), [0, 3, 7]);
    assert_eq!(ended, Ended::AllExited);
}

#[test]
fn a_barrier_blocks_until_all_participants_arrive() {
    let tasks = (1..=3).fold(
        Tasks::default().resources(vec![Resource::Barrier {
            name: "b".into(),
            participants: 3,
        }]),
        |tasks, n| {
            tasks.add(
                "t",
                vec![run_ms(n), Op::Barrier(0), run_ms(1), Op::Barrier(0), run_ms(1)],
            )
        },
    );
    let (records, _) = run(3, tasks);
    for pid in 1..=3 {
        assert_eq!(stops(&records, pid).last(), Some(&(5, TaskState::Dead)), "task {pid}");
    }
}

#[test]
fn a_semaphore_counts() {
    let tasks = Tasks::default()
        .resources(vec![Resource::Semaphore {
            name: "s".into(),
            value: 1,
        }])
        .add("a", vec![Op::SemWait(0), Op::SemWait(0), Op::SemWait(0)])
        .add("b", vec![run_ms(2), Op::SemPost(0), run_ms(2), Op::SemPost(0)]);
    let (records, ended) = run(2, tasks);
    assert_eq!(starts(&records, 1), [0, 2, 4]);
    assert_eq!(ended, Ended::AllExited);
}

#[test]
fn a_resume_before_the_suspend_is_kept_once() {
    let tasks = Tasks::default()
        .resources(vec![Resource::Suspend { name: "s".into() }])
        .add("a", vec![run_ms(2), Op::Suspend(0), Op::Suspend(0)])
        .add("b", vec![run_ms(1), Op::Resume(0), run_ms(4), Op::Resume(0)]);
    let (records, _) = run(2, tasks);
    assert_eq!(starts(&records, 1), [0, 5]);
}

#[test]
fn only_absolute_timers_catch_up_with_missed_expiries() {
    let start_times = |absolute| {
        let timer = Op::Timer {
            timer: 0,
            period: 10 * MS,
            absolute,
        };
        let late = vec![
            timer.clone(),
            run_ms(25),
            timer.clone(),
            run_ms(1),
            timer.clone(),
            run_ms(1),
            timer,
            run_ms(1),
        ];
        starts(&run(1, Tasks::default().add("a", late)).0, 1)
    };
    // The first expiry is at 10 ms. At 35 ms, the expiries at 20 and 30 ms have already passed. An
    // absolute timer does not wait for these two, so its next expiry is at 40 ms.
    assert_eq!(start_times(true), [0, 10, 40]);
    // A relative timer starts again at 35 ms, so its next expiry is at 45 ms.
    assert_eq!(start_times(false), [0, 10, 45, 55]);
}

#[test]
fn timer_intervals_do_not_depend_on_the_work_in_between() {
    let next = || Op::Interval {
        timer: 0,
        length: Dist::Trace(vec![10 * MS]),
    };
    let ops = vec![next(), run_ms(3), next(), run_ms(12), next(), run_ms(1), next()];
    // The timer expires at 10, 20, 30 and 40 ms. The task works until 32 ms, so it does not wait
    // for the expiry at 30 ms.
    let (records, _) = run(1, Tasks::default().add("a", ops));
    assert_eq!(starts(&records, 1), [0, 10, 20, 40]);
    assert_eq!(stops(&records, 1)[2].0, 33);
}

#[test]
fn response_times_count_from_the_wakeup_if_asked_to() {
    // Both tasks wake up at 10 ms. The second task waits for the first one.
    let ops = || vec![sleep_ms(10), Op::BeginWoken, run_ms(2), Op::Done { count: 1 }];
    let fifo = |task: &mut workload::TaskSpec| task.policy = SchedPolicy::Fifo { rt_priority: 1 };
    let tasks = Tasks::default().add("a", ops()).with(fifo).add("b", ops()).with(fifo);
    let (records, _) = run(1, tasks);
    assert_eq!(done(&records, 1), [(12, 1, 2)]);
    assert_eq!(done(&records, 2), [(14, 1, 4)]);
}

#[test]
fn a_loop_repeats_and_operations_are_counted_with_their_response_times() {
    let ops = vec![
        Op::LoopInit { counter: 0 },
        Op::Begin { arrival: false },
        run_ms(2),
        sleep_ms(1),
        Op::Done { count: 7 },
        Op::LoopBack {
            counter: 0,
            times: Some(3),
            target: 1,
        },
    ];
    let (records, _) = run(1, Tasks::default().add("a", ops));
    assert_eq!(done(&records, 1), [(3, 7, 3), (6, 7, 3), (9, 7, 3)]);
}

#[test]
fn response_times_count_from_arrival_if_asked_to() {
    let ops = vec![
        sleep_ms(4),
        Op::Begin { arrival: true },
        run_ms(1),
        Op::Done { count: 1 },
    ];
    let tasks = Tasks::default().add("a", ops).with(|task| task.start_ns = 10 * MS);
    assert_eq!(done(&run(1, tasks).0, 1), [(15, 1, 5)]);
}

#[test]
fn a_child_starts_after_the_cost_of_fork() {
    let mut spec = free(2);
    spec.costs.fork_ns = 3_000_000;
    let tasks = Tasks::default()
        .add(
            "parent",
            vec![run_ms(2), Op::Fork { task: 1, thread: false }, run_ms(1)],
        )
        .add("child", vec![run_ms(1)])
        .with(|task| task.spawn = false);
    let (_, records, _) = draw(spec, tasks, END, MS);
    assert_eq!((starts(&records, 2), stop_ns(&records, 1) / MS), (vec![5], 6));
}

#[test]
fn a_child_works_before_its_first_step() {
    let ends = |thread, fork_start_ns, thread_start_ns| {
        let mut spec = free(2);
        (spec.costs.fork_start_ns, spec.costs.thread_start_ns) = (fork_start_ns, thread_start_ns);
        let tasks = Tasks::default()
            .add("parent", vec![run_ms(2), Op::Fork { task: 1, thread }, run_ms(9)])
            .add("child", vec![run_ms(1)])
            .with(|task| task.spawn = false);
        let (_, records, _) = draw(spec, tasks, END, MS);
        assert_eq!(starts(&records, 1), [0], "the parent pays nothing");
        (starts(&records, 2), stop_ns(&records, 2) / MS)
    };
    assert_eq!(ends(false, 0, 0), (vec![2], 3));
    assert_eq!(ends(false, 3_000_000, 1_000_000), (vec![2], 6));
    assert_eq!(ends(true, 3_000_000, 1_000_000), (vec![2], 4));
    // Without a cost of threads, that of processes applies.
    assert_eq!(ends(true, 3_000_000, 0), (vec![2], 6));
}

#[test]
fn a_thread_has_its_own_costs() {
    let times = |thread, thread_ns| {
        let mut spec = free(2);
        (spec.costs.fork_ns, spec.costs.exit_ns) = (3_000_000, 4_000_000);
        (spec.costs.thread_ns, spec.costs.thread_exit_ns) = (thread_ns, thread_ns);
        let tasks = Tasks::default()
            .add("parent", vec![run_ms(2), Op::Fork { task: 1, thread }, run_ms(9)])
            .add("child", vec![run_ms(1)])
            .with(|task| task.spawn = false);
        let (_, records, _) = draw(spec, tasks, END, MS);
        (starts(&records, 2), stop_ns(&records, 2) / MS)
    };
    assert_eq!(times(true, 1_000_000), (vec![3], 5));
    // Without costs of threads, and for processes, the costs of processes apply.
    assert_eq!(times(true, 0), (vec![5], 10));
    assert_eq!(times(false, 1_000_000), (vec![5], 10));
}

/// A parent waits for children that exit after 2, 3 and 4 ms.
#[test]
fn each_exit_of_a_process_wakes_its_waiting_parent() {
    let turns = |thread, wait: Op| {
        let fork = |task| Op::Fork { task, thread };
        let mut tasks = Tasks::default().add("parent", vec![fork(1), fork(2), fork(3), wait, run_ms(1)]);
        for ms in 2..5 {
            tasks = tasks.add("child", vec![run_ms(ms)]).with(|task| task.spawn = false);
        }
        starts(&run(4, tasks).0, 1)
    };
    assert_eq!(turns(false, Op::WaitChildren), [0, 2, 3, 4]);
    assert_eq!(turns(false, Op::WaitChild { left: 1 }), [0, 2, 3]);
    assert_eq!(turns(true, Op::WaitChildren), [0, 4]);
}

#[test]
fn a_child_inherits_the_location_of_its_parents_memory() {
    let child_ms = |cpu, bytes| {
        let mut spec = free(2);
        spec.costs.reload_llc_ps = 1_000_000;
        let tasks = Tasks::default()
            .add("parent", vec![run_ms(1), Op::Fork { task: 1, thread: false }])
            .with(|task| (task.cpus, task.footprint_bytes) = (Some(vec![0]), bytes))
            .add("child", vec![run_ms(1)])
            .with(|task| (task.cpus, task.footprint_bytes, task.spawn) = (Some(vec![cpu]), 4000, false));
        let (_, records, _) = draw(spec, tasks, END, MS);
        stop_ns(&records, 2) / MS
    };
    // A reload takes 1000 ns per byte, so the reload of the child's 4000 bytes takes 4 ms.
    assert_eq!((child_ms(0, 8000), child_ms(1, 8000)), (2, 6));
    assert_eq!(child_ms(1, 0), 2);
}

#[test]
fn a_forked_child_is_waited_for() {
    let tasks = Tasks::default()
        .add(
            "parent",
            vec![
                Op::Fork { task: 1, thread: false },
                Op::Fork { task: 1, thread: true },
                Op::WaitChildren,
                run_ms(1),
            ],
        )
        .add(
            "child",
            vec![
                Op::Exec {
                    comm: "a-long-name-is-cut-short".into(),
                },
                run_ms(3),
            ],
        )
        .with(|task| task.spawn = false);
    let (records, ended) = run(3, tasks);
    assert_eq!(ended, Ended::AllExited);
    assert_eq!(stops(&records, 1).last(), Some(&(4, TaskState::Dead)));
    let news: Vec<(u32, u32, u32)> = records
        .iter()
        .filter_map(|r| match r.event {
            Event::TaskNew { pid, tgid, parent, .. } => Some((pid, tgid, parent)),
            _ => None,
        })
        .collect();
    assert_eq!(
        news,
        [(1, 1, 0), (2, 2, 1), (3, 1, 1)],
        "a process has its own tgid, a thread that of its parent"
    );
    let renamed = |r: &&Record| matches!(&r.event, Event::TaskRename { comm, .. } if comm == "a-long-name-is-");
    assert_eq!(records.iter().filter(renamed).count(), 2);
}

#[test]
fn waiting_for_fewer_children_ends_when_any_child_exits() {
    let fork = |task| Op::Fork { task, thread: false };
    let child = |ms| vec![run_ms(ms)];
    let parent = vec![
        fork(1),
        fork(2),
        fork(3),
        Op::WaitChild { left: 3 }, // A task never has more than three children.
        run_ms(1),
        Op::WaitChild { left: 1 },
        run_ms(1),
        Op::WaitChild { left: 0 },
        run_ms(1),
    ];
    let mut tasks = Tasks::default().add("parent", parent);
    for ms in [9, 3, 5] {
        tasks = tasks.add("child", child(ms)).with(|task| task.spawn = false);
    }
    let (records, ended) = run(4, tasks);
    assert_eq!(ended, Ended::AllExited);
    assert_eq!(
        stops(&records, 1),
        [
            (1, TaskState::Interruptible),
            // The parent may continue after the second exit.
            (3, TaskState::Interruptible),
            (6, TaskState::Interruptible),
            (10, TaskState::Dead)
        ]
    );
}

#[test]
fn a_yielding_task_lets_the_other_run() {
    let tasks = Tasks::default()
        .add("a", vec![Op::Yield, run_ms(1), Op::Yield, run_ms(1)])
        .add("b", vec![Op::Yield, run_ms(1), Op::Yield, run_ms(1)]);
    let mut spec = free(1);
    spec.costs.syscall_ns = 1000;
    let (_, records, _) = draw(spec, tasks, END, MS);
    let preempted = |pid| {
        stops(&records, pid)
            .iter()
            .filter(|stop| stop.1 == TaskState::Running)
            .count()
    };
    assert!(preempted(1) >= 2 && preempted(2) >= 1, "{records:?}");
}

#[test]
fn affinity_changed_while_running_moves_the_task() {
    let tasks = Tasks::default()
        .add(
            "a",
            vec![
                run_ms(1),
                Op::SetAffinity(Some(vec![2])),
                run_ms(1),
                Op::SetAffinity(None),
                run_ms(1),
            ],
        )
        .with(|task| task.cpus = Some(vec![0]));
    let (records, _) = run(3, tasks);
    let cpus: Vec<u32> = records
        .iter()
        .filter(|r| matches!(r.event, Event::Switch { next: 1, .. }))
        .map(|r| r.cpu)
        .collect();
    assert_eq!(cpus, [0, 2]);
}

#[test]
fn a_deadlock_lists_the_waiting_tasks_and_what_they_wait_for() {
    let tasks = Tasks::default()
        .resources(vec![mutex(), mutex()])
        .add("a", vec![Op::Lock(0), run_ms(1), Op::Lock(1)])
        .add("b", vec![Op::Lock(1), run_ms(1), Op::Lock(0)]);
    let expected = [
        (1, "a", "mutex m, which b[2] holds"),
        (2, "b", "mutex m, which a[1] holds"),
    ];
    assert_eq!(run(2, tasks).1, deadlock(&expected));
}

#[test]
fn a_deadlock_names_each_kind_of_object() {
    let channel = |name: &str, kind| Resource::Channel {
        name: name.into(),
        capacity: 100,
        kind,
    };
    let resources = vec![
        Resource::Barrier {
            name: "b".into(),
            participants: 3,
        },
        Resource::Semaphore {
            name: "s".into(),
            value: 0,
        },
        Resource::Suspend { name: "r".into() },
        channel("p", Channel::Pipe),
        channel("q", Channel::Socket),
        Resource::Cond { name: "c".into() },
        mutex(),
    ];
    let send = || Op::Send { channel: 4, bytes: 80 };
    let tasks = Tasks::default()
        .resources(resources)
        .add("at-barrier", vec![Op::Barrier(0)])
        .add("on-semaphore", vec![Op::SemWait(1)])
        .add("suspended", vec![Op::Suspend(2)])
        .add("reader", vec![Op::Recv(3)])
        .add("poller", vec![Op::Poll(3)])
        .add("writer", vec![send(), send()])
        .add("owner", vec![run_ms(1), Op::Lock(6), Op::Signal(5), Op::Suspend(2)])
        .add("signalled", vec![Op::Lock(6), Op::CondWait { cond: 5, mutex: 6 }])
        .add("parent", vec![Op::Fork { task: 9, thread: false }, Op::WaitChildren])
        .add("child", vec![Op::Suspend(2)])
        .with(|task| task.spawn = false);
    let expected = [
        (1, "at-barrier", "barrier b, where 1 of 3 tasks have arrived"),
        (2, "on-semaphore", "a post of semaphore s"),
        (3, "suspended", "a resume of r"),
        (4, "reader", "a message in pipe p"),
        (5, "poller", "a message in pipe p"),
        (6, "writer", "room in socket q"),
        (7, "owner", "a resume of r"),
        (8, "signalled", "mutex m, which owner[7] holds"),
        (9, "parent", "the exit of a child (1 left)"),
        (10, "child", "a resume of r"),
    ];
    assert_eq!(run(16, tasks).1, deadlock(&expected));
}

#[test]
fn a_program_that_never_lets_time_pass_is_ended() {
    let round = Op::LoopBack {
        counter: 0,
        times: None,
        target: 0,
    };
    let tasks = Tasks::default().add("a", vec![round]).add("b", vec![run_ms(1)]);
    let mut m = kernel::Machine::new(free(1), tasks.workload, 1).expect("a machine");
    assert_eq!(m.run(END, &mut Vec::<Record>::new()), Ended::AllExited);
    let ended = "task 'a' (pid 1) was ended because its program loops without using CPU time or blocking: add a run or sleep step to the loop";
    assert_eq!(m.ended_tasks, [ended]);
}

#[test]
fn affinity_steps_must_name_existing_cpus() {
    let ops = vec![run_ms(1), Op::SetAffinity(Some(vec![0, 2])), run_ms(1)];
    let tasks = Tasks::default().add("moves", ops);
    let error = kernel::Machine::new(free(2), tasks.workload, 1)
        .err()
        .expect("CPU 2 does not exist");
    assert!(error.to_string().contains("task 'moves' uses CPU 2"), "{error}");
}
