// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the tables that have the formats of perf and of the kernel. Committed texts contain the
//! expected tables. The run is so small that the numbers can be checked by hand.

use report::{Latency, Schedstat, Timehist};
use trace::event::MigrateReason;
use trace::{CpuPosition, Event, Record, Sink, TaskState};

/// Returns the records of a run on four CPUs with two LLCs. Times are in us.
fn records() -> Vec<Record> {
    let new = |pid, tgid, comm: &str| Event::TaskNew {
        pid,
        tgid,
        parent: 0,
        prio: 120,
        comm: comm.into(),
    };
    let waking = |pid, waker| Event::Waking { pid, waker };
    let wakeup = |pid, target, new| Event::Wakeup { pid, target, new };
    let switch = |prev, prev_state, next| Event::Switch { prev, prev_state, next };
    use TaskState::{Dead, Interruptible, Running};
    [
        (0, 0, new(10, 10, "server")),
        (0, 0, new(11, 10, "worker")),
        (0, 0, new(12, 10, "worker")),
        (0, 0, wakeup(10, 0, true)),
        (0, 0, switch(0, Running, 10)),
        // Task 11 waits 100 us for the CPU of task 10, then runs 50 us.
        (1000, 0, wakeup(11, 0, true)),
        (1100, 0, switch(10, Running, 11)),
        (1150, 0, switch(11, Interruptible, 10)),
        // Task 12 is woken on a CPU of the other LLC and starts after 25 us.
        (1200, 0, wakeup(12, 2, true)),
        (1225, 2, switch(0, Running, 12)),
        (1300, 2, switch(12, Interruptible, 0)),
        // Task 11 is woken on a CPU of the same LLC. perf counts the 7 us between waking and
        // wakeup, but the kernel does not.
        (2000, 0, waking(11, 10)),
        (2007, 0, wakeup(11, 1, false)),
        (2010, 1, switch(0, Running, 11)),
        (2400, 1, switch(11, Interruptible, 0)),
        // An interrupt wakes task 12 on the interrupted CPU. The task waits there for 300 us, is
        // migrated, and waits for another 200 us.
        (3000, 0, waking(12, 0)),
        (3000, 0, wakeup(12, 0, false)),
        (
            3300,
            2,
            Event::Migrate {
                pid: 12,
                from: 0,
                to: 2,
                reason: MigrateReason::Balance,
            },
        ),
        (3500, 2, switch(0, Running, 12)),
        (3600, 2, switch(12, Dead, 0)),
        // Task 11 is woken on a CPU of the other LLC.
        (4000, 0, waking(11, 10)),
        (4000, 0, wakeup(11, 3, false)),
        (4020, 3, switch(0, Running, 11)),
    ]
    .map(|(us, cpu, event)| Record {
        time: us * 1000,
        cpu,
        after: 0,
        event,
    })
    .into()
}

const END: u64 = 5_000_000;

#[test]
fn latency_matches_golden() {
    let mut latency = Latency::new(4);
    latency.take(&records());
    golden::check!("latency.txt", &latency.finish(END));
}

#[test]
fn timehist_matches_golden() {
    let mut text = Vec::new();
    let mut timehist = Timehist::new(&mut text, 4);
    timehist.take(&records());
    timehist.finish().expect("writing to memory cannot fail");
    golden::check!("timehist.txt", &String::from_utf8(text).expect("the text is UTF-8"));
}

#[test]
fn schedstat_matches_golden() {
    let position = |core| CpuPosition {
        core,
        llc: core / 2,
        node: 0,
    };
    let mut schedstat = Schedstat::new(&[0, 1, 2, 3].map(position));
    schedstat.take(&records());
    golden::check!("schedstat.txt", &schedstat.finish(END, 1000));
    // A machine with SMT siblings and so many CPUs that a bitmap has several words.
    let many: Vec<CpuPosition> = (0..72)
        .map(|cpu| CpuPosition {
            core: cpu / 2,
            llc: cpu / 8,
            node: cpu / 36,
        })
        .collect();
    let text = Schedstat::new(&many).finish(END, 0);
    assert!(text.starts_with("version 17\ntimestamp -\ncpu0 - 0 0 0 0 0 0 0 0\ndomain0 SMT 00,00000000,00000003 "));
    assert!(text.contains("\ndomain1 MC 00,00000000,000000ff "));
    assert!(
        text.contains("\ndomain2 PKG 00,0000000f,ffffffff ") && text.contains("\ndomain3 NUMA ff,ffffffff,ffffffff ")
    );
    let fields = |line: &str| line.split(' ').skip(3).count();
    assert!(
        text.lines()
            .filter(|line| line.starts_with("domain"))
            .all(|line| fields(line) == 45)
    );
}
