// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the comparison of two runs. The traces are so small that the expected numbers can be
//! computed by hand.

use super::lengths::Step;
use super::*;
use crate::layout::Surface;
use std::collections::BTreeSet;
use trace::{CpuPosition, Event, Header, Record, TaskState};

const US: u64 = 1000;
/// Pids of the tasks: the sender, the receiver, and a program that is not part of the workload.
const A: u32 = 1;
const B: u32 = 2;
const OTHER: u32 = 9;

/// A trace on two CPUs that share an LLC.
#[derive(Clone, Default)]
struct Trace(Vec<Record>);

impl Trace {
    fn new() -> Trace {
        let new = |pid, comm: &str| Event::TaskNew {
            pid,
            tgid: pid,
            parent: 0,
            prio: 120,
            comm: comm.into(),
        };
        Trace::default()
            .add(0, 0, new(OTHER, "daemon"))
            .add(0, 0, new(A, "sender"))
            .add(0, 0, new(B, "receiver"))
    }

    fn add(mut self, us: u64, cpu: u32, event: Event) -> Trace {
        self.0.push(Record {
            time: us * US,
            cpu,
            after: 0,
            event,
        });
        self
    }

    fn switch(self, us: u64, prev: u32, prev_state: TaskState, next: u32) -> Trace {
        self.add(us, 0, Event::Switch { prev, prev_state, next })
    }

    fn wake(self, us: u64, waker: u32, pid: u32, target: u32) -> Trace {
        self.add(us, 0, Event::Waking { pid, waker }).add(
            us,
            0,
            Event::Wakeup {
                pid,
                target,
                new: false,
            },
        )
    }

    fn scan(&self, names: Option<&[&str]>, event_ns: u64) -> Side {
        let header = Header {
            cpus: (0..2).map(|core| CpuPosition { core, llc: 0, node: 0 }).collect(),
            hz: 1000,
            ..Header::default()
        };
        let names = names.map(|names| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>());
        Scan::new(header, names).without_recording(event_ns).of(&self.0)
    }
}

use TaskState::{Dead, Interruptible, Running};

/// A run in which each task runs twice on CPU 0. The sender wakes the receiver, which runs after
/// the sender blocks.
fn common() -> Trace {
    Trace::new()
        .wake(0, 0, A, 0)
        .switch(10, 0, Running, A)
        .wake(20, A, B, 0)
        .switch(50, A, Interruptible, B)
        .wake(60, B, A, 0)
        .switch(90, B, Interruptible, A)
        .switch(100, A, Dead, 0)
        .wake(150, 0, B, 0)
        .switch(160, 0, Running, B)
        .switch(200, B, Dead, 0)
}

fn why(simulated: &Trace, live: &Trace) -> Why {
    let names = ["sender", "receiver"];
    Why::new(&simulated.scan(Some(&names), 0), &live.scan(Some(&names), 0))
}

fn length(why: &Why, group: &str, step: Step) -> Length {
    let found = why
        .lengths
        .iter()
        .find(|length| length.group == group && length.step == step);
    found.unwrap_or_else(|| panic!("no {step:?} of {group}")).clone()
}

#[test]
fn equal_traces_have_no_differences() {
    let why = why(&common(), &common());
    assert_eq!(why.first, None);
    assert_eq!((why.matched_tasks, why.equal_tasks), (2, 2));
    assert_eq!(why.simulated, why.live);
    assert!(why.ends.iter().all(|count| count.simulated == count.live));
    assert!(why.lengths.iter().all(|length| length.simulated == length.live));
    // CPU 1 idles all the time. The times are means over both CPUs.
    let ns = |name: &str| {
        why.budget
            .iter()
            .find(|part| part.name == name)
            .map(|part| part.live_ns)
    };
    assert_eq!(ns("sender"), Some(25 * US));
    assert_eq!(ns("receiver"), Some(40 * US));
    assert_eq!(ns("idle"), Some(135 * US));
    assert_eq!(why.live.run_ns, 200 * US);
}

#[test]
fn a_wake_up_on_a_different_cpu_is_found() {
    let live = Trace::new()
        .wake(0, 0, A, 0)
        .switch(10, 0, Running, A)
        .wake(20, A, B, 1)
        .add(
            25,
            1,
            Event::Switch {
                prev: 0,
                prev_state: Running,
                next: B,
            },
        );
    let why = why(&common(), &live);
    let text: Vec<_> = why.wakeups.iter().map(|count| count.event.as_str()).collect();
    assert!(text.contains(&"sender wakes receiver on its own CPU, busy"), "{text:?}");
    assert!(text.contains(&"sender wakes receiver in its LLC, idle"), "{text:?}");
    let first = why.first.expect("a difference");
    assert_eq!(
        (first.task.as_str(), first.simulated.as_str(), first.live.as_str()),
        ("receiver 1", "runs on CPU 0", "runs on CPU 1")
    );
    assert_eq!((first.simulated_ns, first.live_ns, first.step), (50 * US, 25 * US, 1));
}

#[test]
fn preemptions_are_counted_by_reason() {
    let run = |switched: u64| {
        Trace::new()
            .wake(0, 0, A, 0)
            .switch(10, 0, Running, A)
            .wake(20, A, B, 0)
            .switch(switched, A, Running, B)
            .switch(900, B, Dead, A)
            .switch(950, A, Dead, 0)
    };
    // A switch counts as the effect of a wake-up if it follows within an eighth of a tick (125 us).
    // In the first run, the switch follows after 10 us, in the second run after 780 us.
    let why = why(&run(30), &run(800));
    let count = |event: &str| {
        let found = why.ends.iter().find(|count| count.event == event);
        let found = found.unwrap_or_else(|| panic!("no '{event}' in {:?}", why.ends));
        (found.simulated.count, found.live.count, found.live.first_ns)
    };
    assert_eq!(count("sender preempted by receiver, just woken"), (1, 0, None));
    assert_eq!(
        count("sender preempted by receiver, tick or yield"),
        (0, 1, Some(800 * US))
    );
    let wakeup = length(&why, "receiver", Step::Wakeup);
    assert_eq!((wakeup.simulated.sum_ns, wakeup.live.sum_ns), (10 * US, 780 * US));
    let turn = length(&why, "sender", Step::PreemptedTurn);
    assert_eq!((turn.simulated.sum_ns, turn.live.sum_ns), (20 * US, 790 * US));
    let waited = length(&why, "sender", Step::Preempted);
    assert_eq!((waited.simulated.sum_ns, waited.live.sum_ns), (870 * US, 100 * US));
}

#[test]
fn lengths_of_turns_sleeps_and_idle_times_are_compared() {
    let mut live = common();
    // The sender's first turn is 30 us longer, and the receiver's first turn is 10 us longer.
    for (index, record) in live.0.iter_mut().enumerate() {
        record.time += match index {
            0..8 => 0,
            8..11 => 30 * US,
            _ => 40 * US,
        };
    }
    let why = why(&common(), &live);
    assert_eq!(why.first, None);
    let sums = |group: &str, step| {
        let length = length(&why, group, step);
        (length.simulated.sum_ns / US, length.live.sum_ns / US)
    };
    assert_eq!(sums("sender", Step::BlockedTurn), (40 + 10, 70 + 10));
    assert_eq!(sums("receiver", Step::BlockedTurn), (80, 90));
    // The parts of the time add up to the length of the run.
    assert_eq!(why.live.run_ns - why.simulated.run_ns, 40 * US);
    let sum = |ns: fn(&Part) -> u64| why.budget.iter().map(ns).sum::<u64>();
    assert_eq!(sum(|part| part.simulated_ns), why.simulated.run_ns);
    assert_eq!(sum(|part| part.live_ns), why.live.run_ns);
}

#[test]
fn other_programs_and_recording_are_parts_of_their_own() {
    let live = Trace::new()
        .wake(0, 0, A, 0)
        .switch(10, 0, Running, A)
        .wake(20, A, B, 0)
        .switch(30, A, Running, OTHER)
        .switch(70, OTHER, Interruptible, A)
        .switch(90, A, Interruptible, B)
        .wake(100, B, A, 0)
        .switch(130, B, Interruptible, A)
        .switch(140, A, Dead, 0)
        .wake(190, 0, B, 0)
        .switch(200, 0, Running, B)
        .switch(240, B, Dead, 0);
    let names = ["sender", "receiver"];
    let why = Why::new(&common().scan(Some(&names), 0), &live.scan(Some(&names), US));
    let part = |name: &str| {
        why.budget
            .iter()
            .find(|part| part.name == name)
            .expect("a part")
            .clone()
    };
    // The turn of the other program takes 40 us. One event is recorded in it, which takes 1 us and
    // is subtracted. The result is the mean over two CPUs.
    assert_eq!(part("other programs").live_ns, (40 - 1) * US / 2);
    // The last switch is not counted, because it ends the run.
    assert_eq!(why.live.events, 15);
    assert_eq!(part("recording").live_ns, 15 * US / 2);
    // The preemption by the other program is not a step of the sender's course, so the courses do
    // not differ.
    assert_eq!(why.first, None);
    let length = length(&why, "receiver", Step::Wakeup);
    // The wait takes 70 us. Four events were recorded during the wait, which take 4 us.
    assert_eq!(length.live.max_ns, 66 * US);
}

/// A recording contains a new task first with the name of its parent.
#[test]
fn a_task_that_is_renamed_before_it_runs_has_its_new_name() {
    let renamed = |at: usize| {
        let mut live = common();
        let rename = Record {
            time: 0,
            cpu: 0,
            after: 0,
            event: Event::TaskRename {
                pid: B,
                comm: "receiver".into(),
            },
        };
        for record in &mut live.0 {
            if let Event::TaskNew { pid: B, comm, .. } = &mut record.event {
                *comm = "sender".into();
            }
        }
        live.0.insert(at, rename);
        let why = why(&common(), &live);
        let turns = why.lengths.iter().filter(|length| length.step == Step::BlockedTurn);
        turns
            .map(|length| (length.group.clone(), length.live.count))
            .collect::<Vec<_>>()
    };
    let named = |turns: &[(String, u64)], name: &str| turns.iter().find(|turn| turn.0 == name).map_or(0, |turn| turn.1);
    let before = renamed(3);
    assert_eq!((named(&before, "sender"), named(&before, "receiver")), (2, 2));
    // After its first wake-up, the task stays in its group.
    let after = renamed(8);
    assert_eq!((named(&after, "sender"), named(&after, "receiver")), (4, 0));
}

#[test]
fn the_text_has_at_most_100_columns() {
    let mut live = common();
    live.0.truncate(9);
    let why = why(&common(), &live);
    let surface = Surface {
        terminal: true,
        ..Surface::default()
    };
    for surface in [surface, Surface::default()] {
        let text = text(&why, surface);
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
        for words in [
            "Time of the run per CPU",
            "First difference in the course of a task",
            "sender blocks, receiver next",
            "sender: turn until it blocks",
        ] {
            assert!(text.contains(words), "no '{words}' in {text}");
        }
        // A table that is wider than the page has a block of lines for each row. No table here is
        // so wide.
        let rows = ["sender blocks, receiver next", "sender: turn until it blocks"];
        for row in rows {
            let boxed = |line: &str| line.starts_with(['|', '│']) && line.contains(row);
            assert!(text.lines().any(boxed), "'{row}' in {text}");
        }
    }
    assert!(serde_json::to_string(&why).expect("JSON").contains("\"equal_tasks\""));
}
