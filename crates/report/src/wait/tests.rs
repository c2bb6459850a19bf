// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the story of a wait.

use super::*;
use trace::TaskState::{Dead, Interruptible, Running};
use trace::{Event, MigrateReason, Record, Sink, TaskState};

/// Two CPUs. Task 3 (`late`) is woken by task 1 on CPU 0, waits on CPU 1 behind task 2, is moved to
/// CPU 0 and runs there. Afterwards, it loses the CPU to task 1 and waits again.
fn records() -> Vec<Record> {
    let new = |pid, comm: &str| Event::TaskNew {
        pid,
        tgid: pid,
        parent: 0,
        prio: 120,
        comm: comm.into(),
    };
    let switch = |prev, prev_state: TaskState, next| Event::Switch { prev, prev_state, next };
    let wakeup = |pid, target| Event::Wakeup {
        pid,
        target,
        new: false,
    };
    [
        (0, 0, new(1, "waker")),
        (0, 0, new(2, "hog")),
        (0, 0, new(3, "late")),
        (0, 0, wakeup(1, 0)),
        (0, 1, wakeup(3, 1)),
        (0, 0, switch(0, Running, 1)),
        (0, 1, switch(0, Running, 3)),
        (1000, 1, switch(3, Interruptible, 0)),
        (2000, 0, wakeup(2, 1)),
        (2000, 1, switch(0, Running, 2)),
        (5000, 0, Event::Waking { pid: 3, waker: 1 }),
        (5000, 0, wakeup(3, 1)),
        (7000, 0, switch(1, Interruptible, 0)),
        (
            9000,
            0,
            Event::Migrate {
                pid: 3,
                from: 1,
                to: 0,
                reason: MigrateReason::Balance,
            },
        ),
        (9500, 0, switch(0, Running, 3)),
        (9600, 1, Event::Waking { pid: 1, waker: 0 }),
        (9600, 1, wakeup(1, 0)),
        (9700, 0, switch(3, Running, 1)),
        (9900, 0, switch(1, Dead, 3)),
    ]
    .map(|(time, cpu, event)| Record {
        time,
        cpu,
        after: 0,
        event,
    })
    .to_vec()
}

fn find(wanted: Wanted) -> Result<Vec<Wait>, String> {
    let mut find = Find::new(wanted, 2);
    find.take(&records());
    find.finish().map_err(|none| none.to_string())
}

fn tell(wait: &Wait, notes: &Notes) -> String {
    let mut story = Story::new(wait.clone(), 2);
    story.take(&records());
    story.finish();
    text(&story, notes)
}

#[test]
fn the_longest_waits_are_found() {
    let waits = find(Wanted::Longest(2)).expect("there are waits");
    let short: Vec<_> = waits.iter().map(|wait| (wait.pid, wait.begin, wait.end)).collect();
    assert_eq!(short, [(3, 5000, Some(9500)), (3, 9700, Some(9900))]);
    assert_eq!(waits[0].cause, Cause::Woken { waker: 1, cpu: 0 });
    assert_eq!(waits[1].cause, Cause::Preempted { cpu: 0 });
}

#[test]
fn a_wait_is_found_by_task_and_time() {
    let at = |task: &str, time| find(Wanted::At(task.into(), time));
    assert_eq!(at("late", 6000).map(|waits| waits[0].end), Ok(Some(9500)));
    assert_eq!(at("3", 9800).map(|waits| waits[0].end), Ok(Some(9900)));
    let near =
        "task 'late' does not wait for a CPU at 0.003000 ms; its nearest wait is from 0.005000 ms to 0.009500 ms";
    assert_eq!(at("late", 3000), Err(near.into()));
    assert_eq!(
        at("nobody", 3000),
        Err("there is no task 'nobody'; names of tasks: hog, late, waker".into())
    );
    let never = "task 'hog' does not wait for a CPU at 0.003000 ms, and at no other time";
    assert_eq!(at("hog", 3000), Err(never.into()));
}

#[test]
fn the_story_of_a_wait_names_all_parties() {
    let waits = find(Wanted::Longest(2)).expect("there are waits");
    let first = "\
late (pid 3) waited 4.50 us for a CPU, from 0.005000 ms to 0.009500 ms

begin       waker (pid 1) woke it on CPU 0; it last ran on CPU 1, 4.00 us before
queued      on CPU 1, which ran hog (pid 2); no other task waited there
moved       0.009000 ms: from CPU 1 to CPU 0 by load balancing or dispatch
place       0.005000 ms: 1 task waiting on its CPU
ran instead   4.00 us  CPU 1  hog (pid 2)
               500 ns  CPU 0  idle, until it had left its idle state and switched
other CPUs  CPU 0  ran waker (pid 1); idle for 2.50 us of the wait (55 %)
end         CPU 0, which was idle, switched to it
";
    assert_eq!(tell(&waits[0], &Notes::default()), first);
    let second = "\
late (pid 3) waited 200 ns for a CPU, from 0.009700 ms to 0.009900 ms

begin       it lost CPU 0 while it was runnable
queued      on CPU 0, which ran waker (pid 1); no other task waited there
place       0.009700 ms: 1 task waiting on its CPU
ran instead    200 ns  CPU 0  waker (pid 1), then exited
other CPUs  CPU 1  ran hog (pid 2); never idle during the wait
end         CPU 0 switched to it when waker (pid 1) exited
";
    assert_eq!(tell(&waits[1], &Notes::default()), second);
}

#[test]
fn a_task_that_is_moved_while_it_runs_waits_on_its_new_cpu() {
    let mut records = records();
    let moved = Event::Migrate {
        pid: 3,
        from: 0,
        to: 1,
        reason: MigrateReason::Balance,
    };
    let lost = records
        .iter()
        .position(|record| record.time == 9700)
        .expect("the task loses its CPU");
    let (time, cpu, after) = (9700, 0, 0);
    records.insert(
        lost,
        Record {
            time,
            cpu,
            after,
            event: moved,
        },
    );
    let mut find = Find::new(Wanted::At("late".into(), 9800), 2);
    find.take(&records);
    let mut story = Story::new(find.finish().expect("there is a wait").remove(0), 2);
    story.take(&records);
    let text = text(&story, &Notes::default());
    let want = "begin       it was moved away from CPU 0 while it ran\n\
                queued      on CPU 1, which ran hog (pid 2); no other task waited there\n\
                moved       0.009700 ms: from CPU 0 to CPU 1 by load balancing or dispatch\n\
                place       0.009700 ms: 1 task waiting on its CPU\n\
                ran instead    200 ns  CPU 1  hog (pid 2)\n";
    assert!(text.contains(want), "{text}");
}

#[test]
fn notes_of_a_simulated_run_are_part_of_the_story() {
    let waits = find(Wanted::Longest(1)).expect("there are waits");
    let notes = Notes {
        decisions: vec![(5000, "CPU 1 was chosen".into())],
        allowed: vec![false, true],
        capacities: vec![1024, 446],
        places: vec![(5000, "fair queue of CPU 1".into(), 2, 3)],
        running: vec!["hog had 1 ms of its slice left".into()],
    };
    let text = tell(&waits[0], &notes);
    for part in [
        "            hog had 1 ms of its slice left\ndecided     0.005000 ms: CPU 1 was chosen\n",
        "place       0.005000 ms: 2 of 3 in the fair queue of CPU 1\n",
        "idle for 2.50 us of the wait (55 %); the task may not use it; capacity 1024\n",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_task_that_waits_at_the_end_is_found() {
    let mut cut = records();
    cut.truncate(14);
    let mut find = Find::new(Wanted::Longest(1), 2);
    find.take(&cut);
    let wait = find.finish().expect("there is a wait").remove(0);
    assert_eq!((wait.pid, wait.end, wait.ns(9000)), (3, None, 4000));
    let mut story = Story::new(wait, 2);
    story.take(&cut);
    story.finish();
    let text = text(&story, &Notes::default());
    assert!(text.starts_with("late (pid 3) has waited 4.00 us for a CPU, from 0.005000 ms to the end\n"));
    assert!(text.ends_with("end         the run ended before a CPU switched to it\n"));
    assert_eq!(json(&story, &Notes::default())["cpus"][0]["idle_ns"], 2000);
}

#[test]
fn many_turns_are_summed_by_task() {
    let mut records = records();
    records.truncate(12);
    for time in (5100..6500).step_by(100) {
        let (prev, next) = if time % 200 == 100 { (2, 4) } else { (4, 2) };
        records.push(Record {
            time,
            cpu: 1,
            after: 0,
            event: Event::Switch {
                prev,
                prev_state: Running,
                next,
            },
        });
    }
    let mut find = Find::new(Wanted::At("late".into(), 6000), 2);
    find.take(&records);
    let mut story = Story::new(find.finish().expect("there is a wait").remove(0), 2);
    story.take(&records);
    story.finish();
    let text = text(&story, &Notes::default());
    assert!(
        text.contains("ran instead    700 ns  hog (pid 2) in 7 turns\n               700 ns   (pid 4) in 7 turns\n"),
        "{text}"
    );
}

#[test]
fn cpus_that_idled_all_the_time_are_one_line() {
    let mut find = Find::new(Wanted::Longest(1), 8);
    find.take(&records());
    let mut story = Story::new(find.finish().expect("there is a wait").remove(0), 8);
    story.take(&records());
    story.finish();
    let notes = Notes {
        allowed: vec![true, true, true, true, true, false, true, true],
        ..Notes::default()
    };
    let text = text(&story, &notes);
    let want = "other CPUs  CPUs 2-4, 6-7  idle during the whole wait\n            \
                CPU 5  idle during the whole wait; the task may not use it\n            CPU 0  ran waker";
    assert!(text.contains(want), "{text}");
}
