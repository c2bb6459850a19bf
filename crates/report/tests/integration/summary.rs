// SPDX-License-Identifier: GPL-2.0-only
//! Tests of each figure of a result. Each test uses a few records, from which the expected value
//! can be computed by hand.

use TaskState::{Dead, Interruptible, Running};
use report::{Run, RunResult, Summary};
use trace::event::MigrateReason;
use trace::{CpuPosition, Event, KTHREADD, Record, Sink, TaskState};

/// Returns the positions of 8 CPUs with two CPUs per core. CPUs 0-3 are node 0 and share an LLC.
/// CPUs 4-7 are node 1 and have an LLC for each core.
fn positions() -> Vec<CpuPosition> {
    (0..8)
        .map(|i| CpuPosition {
            core: i / 2,
            llc: [0, 0, 0, 0, 1, 1, 2, 2][i as usize],
            node: i / 4,
        })
        .collect()
}

fn at(time: u64, cpu: u32, event: Event) -> Record {
    Record {
        time,
        cpu,
        after: 0,
        event,
    }
}

fn switch(time: u64, cpu: u32, prev: u32, prev_state: TaskState, next: u32) -> Record {
    at(time, cpu, Event::Switch { prev, prev_state, next })
}

fn wakeup(time: u64, pid: u32) -> Record {
    at(
        time,
        0,
        Event::Wakeup {
            pid,
            target: 0,
            new: false,
        },
    )
}

fn waking(time: u64, pid: u32) -> Record {
    at(time, 0, Event::Waking { pid, waker: 0 })
}

fn new(pid: u32, comm: &str) -> Record {
    at(
        0,
        0,
        Event::TaskNew {
            pid,
            tgid: pid,
            parent: 1,
            prio: 120,
            comm: comm.into(),
        },
    )
}

fn result_at(end: u64, records: &[Record], run: Run) -> RunResult {
    let mut summary = Summary::new(&positions());
    summary.take(records);
    summary.result(Run {
        simulated_ns: end,
        ..run
    })
}

fn result(end: u64, records: &[Record]) -> RunResult {
    result_at(end, records, Run::default())
}

#[test]
fn switches_to_idle_count_and_switches_to_the_same_task_do_not() {
    let r = result(
        100,
        &[
            switch(10, 0, 0, Running, 5),
            switch(20, 0, 5, Running, 5),
            switch(30, 0, 5, Interruptible, 0),
        ],
    );
    assert_eq!((r.context_switches, r.preemptions), (2, 0));
    assert_eq!((r.tasks[0].pid, r.tasks[0].switches, r.tasks[0].cpu_ns), (5, 1, 20));
}

#[test]
fn busy_time_includes_tasks_that_still_run() {
    // CPU 0 is busy from 10 to 30 ns and from 50 to 100 ns, CPU 1 from 0 to 100 ns. This is 170 ns
    // of the 800 ns that eight CPUs have.
    let records = [
        switch(0, 1, 0, Running, 6),
        switch(10, 0, 0, Running, 5),
        switch(30, 0, 5, Interruptible, 0),
        switch(50, 0, 0, Running, 5),
    ];
    let r = result(100, &records);
    assert_eq!(r.busy_percent, 21.25);
    assert_eq!(
        r.tasks.iter().map(|t| (t.pid, t.cpu_ns)).collect::<Vec<_>>(),
        [(6, 100), (5, 70)]
    );
}

#[test]
fn time_after_the_end_is_not_busy() {
    // A long operation of the kernel delays the last switches of two CPUs beyond the end at 100.
    let records = [
        switch(0, 0, 0, Running, 5),
        switch(0, 1, 0, Running, 6),
        switch(130, 0, 5, Interruptible, 0),
        switch(140, 1, 6, Running, 7),
    ];
    let r = result(100, &records);
    assert_eq!(r.busy_percent, 25.0);
    assert_eq!(
        r.tasks.iter().map(|t| (t.pid, t.cpu_ns)).collect::<Vec<_>>(),
        [(5, 100), (6, 100), (7, 0)]
    );
}

#[test]
fn background_work_is_counted_apart_from_the_workload() {
    let kthread = at(
        0,
        0,
        Event::TaskNew {
            pid: 9,
            tgid: 9,
            parent: KTHREADD,
            prio: 120,
            comm: "kworker/0:0".into(),
        },
    );
    let migrate = |pid| {
        let reason = MigrateReason::Wakeup;
        at(
            60,
            0,
            Event::Migrate {
                pid,
                from: 0,
                to: 1,
                reason,
            },
        )
    };
    // The task runs from 10 to 30 and from 40 to 50, the kernel thread from 30 to 40 and from 70 to
    // 100 after a wait of 10.
    let r = result(
        100,
        &[
            new(5, "task"),
            kthread.clone(),
            waking(5, 5),
            wakeup(5, 5),
            switch(10, 0, 0, Running, 5),
            waking(30, 9),
            wakeup(30, 9),
            switch(30, 0, 5, Running, 9),
            switch(40, 0, 9, Interruptible, 5),
            switch(50, 0, 5, Interruptible, 0),
            migrate(9),
            waking(60, 9),
            wakeup(60, 9),
            switch(70, 0, 0, Running, 9),
        ],
    );
    assert_eq!(r.tasks.iter().map(|t| (t.pid, t.cpu_ns)).collect::<Vec<_>>(), [(5, 30)]);
    // The three counted switches are two to the task, and one from the task to idle.
    assert_eq!(
        (r.tasks_total, r.context_switches, r.wakeups, r.migrations),
        (1, 3, 1, 0)
    );
    assert_eq!((r.wakeup_latency_ns.count, r.wakeup_latency_ns.max), (1, 5));
    assert_eq!(r.busy_percent, 3.75);
    let noise = r.noise.expect("the run has background work");
    assert_eq!((noise.tasks, noise.cpu_ns, noise.percent), (1, 40, 5.0));
    assert_eq!((noise.switches, noise.wakeups), (2, 2));
    assert_eq!(result(100, &[new(5, "task")]).noise, None);

    // The last switch is later than the end at 100.
    let late = [
        kthread,
        switch(0, 0, 0, Running, 9),
        switch(130, 0, 9, Interruptible, 0),
    ];
    let r = result(100, &late);
    assert_eq!(
        (r.noise.expect("the run has background work").cpu_ns, r.busy_percent),
        (100, 0.0)
    );
}

#[test]
fn offline_time_is_not_cpu_time() {
    let mut records = vec![switch(0, 7, 0, Running, 5)];
    records.extend((0..7).map(|cpu| at(0, cpu, Event::Hotplug { online: false })));
    records.push(at(50, 0, Event::Hotplug { online: true }));
    // One CPU is online for 100 ns and one for 50 ns. The busy time is 100 ns.
    assert_eq!(result(100, &records).busy_percent, 66.667);
}

#[test]
fn overhead_is_a_share_of_all_cpu_time() {
    let r = result(
        1000,
        &[
            at(1, 0, Event::Overhead { ns: 30 }),
            at(2, 3, Event::Overhead { ns: 10 }),
        ],
    );
    assert_eq!((r.overhead_ns, r.overhead_percent), (40, 0.5));
}

#[test]
fn latency_begins_at_waking_or_else_at_wakeup() {
    let records = [
        waking(10, 5),
        wakeup(12, 5),
        switch(40, 0, 0, Running, 5), // latency 40 - 10
        wakeup(45, 5),                // the task is awake, so no wait begins
        switch(50, 0, 5, Interruptible, 0),
        wakeup(60, 5),
        switch(67, 0, 0, Running, 5), // latency 67 - 60
    ];
    let r = result(100, &records);
    let p = r.wakeup_latency_ns;
    assert_eq!((p.count, p.p50, p.max, p.mean), (2, 7, 30, 18));
    assert_eq!(r.wakeups, 3);
    assert_eq!(
        (r.tasks[0].wait_ns, r.tasks[0].waits, r.tasks[0].wakeup_latency_p99_ns),
        (37, 2, 30)
    );
}

#[test]
fn latency_is_a_difference_of_local_times() {
    let after = |after, record| Record { after, ..record };
    let records = [
        after(3, waking(10, 5)),
        after(8, switch(10, 0, 0, Running, 5)),       // latency 18 - 13
        after(2, switch(50, 0, 5, Interruptible, 0)), // the task ran from 18 to 52
    ];
    let r = result(100, &records);
    assert_eq!((r.wakeup_latency_ns.max, r.tasks[0].cpu_ns), (5, 34));
}

#[test]
fn a_preempted_task_waits_without_a_wakeup() {
    let records = [
        wakeup(0, 5),
        switch(0, 0, 0, Running, 5),
        switch(10, 0, 5, Running, 6),
        wakeup(15, 5), // the task is still runnable, so no wait begins
        switch(30, 0, 6, Running, 5),
    ];
    let r = result(100, &records);
    assert_eq!(
        (r.wakeup_latency_ns.count, r.wakeup_latency_ns.max, r.preemptions),
        (1, 0, 2)
    );
    // Two switches away from tasks, which have computed for 100 ns.
    assert_eq!(r.turn_mean_ns, 50);
    let five = r.tasks.iter().find(|t| t.pid == 5).unwrap();
    assert_eq!((five.wait_ns, five.preemptions, five.cpu_ns), (20, 1, 80));
    // Task 6 loses the CPU at time 30 and waits until the end.
    let six = r.tasks.iter().find(|t| t.pid == 6).unwrap();
    assert_eq!((six.wait_ns, six.waits), (70, 1));
}

#[test]
fn a_wait_at_the_end_counts() {
    let r = result(5_000, &[wakeup(100, 5)]);
    assert_eq!((r.wakeup_latency_ns.count, r.wakeup_latency_ns.max), (1, 4_900));
}

#[test]
fn percentiles_are_within_one_percent() {
    let mut records = Vec::new();
    for i in 1..=1000u64 {
        records.push(wakeup(i * 1_000_000, 5));
        records.push(switch(i * 1_000_000 + i * 100, 0, 0, Running, 5));
        records.push(switch(i * 1_000_000 + 500_000, 0, 5, Interruptible, 0));
    }
    let p = result(2_000_000_000, &records).wakeup_latency_ns;
    for (estimate, exact) in [(p.p50, 50_000u64), (p.p99, 99_000), (p.p999, 99_900)] {
        assert!(
            estimate.abs_diff(exact) * 100 <= exact,
            "estimate {estimate}, exact {exact}"
        );
    }
    assert_eq!((p.max, p.count), (100_000, 1000));
}

#[test]
fn migrations_are_counted_by_distance() {
    let to = |from, to| {
        at(
            1,
            0,
            Event::Migrate {
                pid: 5,
                from,
                to,
                reason: MigrateReason::Balance,
            },
        )
    };
    let records = [to(0, 1), to(1, 3), to(3, 0), to(4, 6), to(6, 5), to(7, 4), to(0, 4)];
    let r = result(10, &records);
    let m = r.migrations_by_distance;
    assert_eq!((m.core, m.llc, m.node, m.remote, r.migrations), (1, 2, 3, 1, 7));
    assert_eq!(r.tasks[0].migrations, 7);
}

#[test]
fn operations_and_responses_are_counted() {
    let done = |count, response_ns| {
        at(
            1,
            0,
            Event::Done {
                pid: 5,
                count,
                response_ns,
            },
        )
    };
    let run = Run {
        unit: "requests".into(),
        ..Run::default()
    };
    let r = result_at(2_000_000_000, &[done(3, 0), done(1, 70), done(1, 90)], run);
    assert_eq!((r.throughput.operations, r.throughput.per_second), (5, 2.5));
    assert_eq!(r.throughput.unit, "requests");
    assert_eq!((r.score, r.score_unit.as_str()), (Some(2.5), "requests/s"));
    assert_eq!((r.response_ns.count, r.response_ns.p50, r.response_ns.max), (2, 70, 90));
}

#[test]
fn callbacks_locks_ipis_and_balance_moves_are_counted() {
    let records = [
        at(
            1,
            0,
            Event::Callback {
                op: 2,
                insns: 10,
                after: 0,
                ns: 30,
            },
        ),
        at(
            1,
            0,
            Event::Callback {
                op: 2,
                insns: 15,
                after: 0,
                ns: 30,
            },
        ),
        at(
            1,
            0,
            Event::Callback {
                op: 0,
                insns: 1,
                after: 0,
                ns: 30,
            },
        ),
        at(
            1,
            0,
            Event::LockWait {
                lock: 0,
                after: 0,
                ns: 5,
            },
        ),
        at(
            1,
            0,
            Event::LockWait {
                lock: 9,
                after: 0,
                ns: 50,
            },
        ),
        at(
            1,
            0,
            Event::LockWait {
                lock: 9,
                after: 0,
                ns: 20,
            },
        ),
        at(1, 0, Event::Ipi { target: 3 }),
        at(1, 0, Event::Balance { moved: 4 }),
        at(1, 0, Event::Balance { moved: 0 }),
    ];
    let run = Run {
        ops: vec!["init".into(), "exit".into()],
        locks: vec!["rq 0".into()],
        ..Run::default()
    };
    let r = result_at(10, &records, run);
    let callbacks: Vec<_> = r
        .callbacks
        .iter()
        .map(|c| (c.callback.as_str(), c.count, c.insns_mean, c.insns_max))
        .collect();
    assert_eq!(callbacks, [("init", 1, 1.0, 1), ("callback 2", 2, 12.5, 15)]);
    let locks: Vec<_> = r
        .locks
        .iter()
        .map(|l| (l.lock.as_str(), l.waits, l.wait_ns, l.wait_max_ns))
        .collect();
    assert_eq!(locks, [("lock 9", 2, 70, 50), ("rq 0", 1, 5, 5)]);
    assert_eq!((r.lock_wait_ns, r.ipis, r.balance_moves), (75, 1, 4));
}

#[test]
fn fairness_compares_always_runnable_tasks() {
    let records = [
        switch(0, 0, 0, Running, 5),
        at(
            0,
            0,
            Event::Wakeup {
                pid: 6,
                target: 0,
                new: true,
            },
        ),
        switch(750, 0, 5, Running, 6),
        // Task 7 sleeps, so it is not always runnable and must not be compared.
        switch(0, 1, 0, Running, 7),
        switch(10, 1, 7, Interruptible, 0),
    ];
    let r = result(1000, &records);
    assert_eq!(r.fairness.len(), 1);
    let f = &r.fairness[0];
    assert_eq!((f.tasks, f.jain, f.least_percent, f.most_percent), (2, 0.8, 25.0, 75.0));
}

#[test]
fn renames_priorities_and_reused_pids_are_followed() {
    let records = [
        new(5, "sh"),
        at(
            1,
            0,
            Event::TaskRename {
                pid: 5,
                comm: "make".into(),
            },
        ),
        at(1, 0, Event::Prio { pid: 5, prio: 100 }),
        switch(2, 0, 0, Running, 5),
        switch(4, 0, 5, Dead, 0),
        at(4, 0, Event::TaskExit { pid: 5 }),
    ];
    let r = result(10, &records);
    assert_eq!(
        (r.tasks[0].comm.as_str(), r.tasks[0].prio, r.tasks[0].cpu_ns),
        ("make", 100, 2)
    );
    let again = [
        records.as_slice(),
        &[at(5, 0, new(5, "cc").event), switch(6, 0, 0, Running, 5)],
    ]
    .concat();
    let r = result(10, &again);
    assert_eq!(
        (r.tasks[0].comm.as_str(), r.tasks[0].prio, r.tasks[0].cpu_ns),
        ("cc", 120, 4)
    );
    assert_eq!(r.busy_percent, 7.5);
}

#[test]
fn only_the_tasks_with_the_most_cpu_time_are_listed() {
    let mut records = Vec::new();
    for i in 0..100u32 {
        let time = u64::from(i) * 1000;
        records.push(switch(time, 0, 0, Running, 100 + i));
        records.push(switch(time + u64::from(i), 0, 100 + i, Interruptible, 0));
    }
    let r = result(100_000, &records);
    assert_eq!(
        (r.tasks_total, r.tasks.len(), r.tasks[0].pid, r.tasks[1].pid),
        (100, RunResult::TASKS, 199, 198)
    );
}

/// The sizes of batches must not change the result.
#[test]
fn batch_sizes_do_not_change_the_result() {
    let records = [
        wakeup(1, 5),
        switch(9, 0, 0, Running, 5),
        switch(50, 0, 5, Interruptible, 0),
    ];
    let mut summary = Summary::new(&positions());
    records.chunks(1).for_each(|one| summary.take(one));
    let one_by_one = summary.result(Run {
        simulated_ns: 80,
        ..Run::default()
    });
    assert_eq!(one_by_one, result(80, &records));
}

#[test]
fn throughput_counts_from_the_begin_of_the_measurement() {
    let done = |time| {
        at(
            time,
            0,
            Event::Done {
                pid: 1,
                count: 3,
                response_ns: 0,
            },
        )
    };
    let phase = |phase| at(1_000_000_000, 0, Event::Phase { pid: 1, phase });
    for (number, per_second) in [(workload::MEASURED, 12.0), (1, 4.0)] {
        let records = [new(1, "a"), phase(number), done(1_200_000_000), done(1_500_000_000)];
        let r = result_at(1_500_000_000, &records, Run::default());
        assert_eq!((r.throughput.per_second, r.score), (per_second, Some(per_second)));
    }
}
