// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the start of generated workloads: one task creates the others, and the measurement
//! begins when all of them are ready.

use crate::support::*;
use trace::{Event, Record};
use workload::MEASURED;

/// Runs a workload to its end. Returns its records, and the index of the record at which the
/// measurement begins.
fn measured(workload: &str) -> (Vec<Record>, usize) {
    let workload = workload::load(workload, &[]).expect("a workload");
    let (_, records, _) = draw(costly(4), Tasks { workload }, END, MS);
    let begins = |r: &Record| matches!(r.event, Event::Phase { phase: MEASURED, .. });
    let at = records.iter().position(begins).expect("the measurement begins");
    (records, at)
}

#[test]
fn the_tasks_of_hackbench_are_forked_and_wait_for_each_other() {
    let (records, begin) = measured("hackbench:groups=1,fds=3,loops=2");
    let parents: Vec<u32> = records
        .iter()
        .filter_map(|r| match r.event {
            Event::TaskNew { parent, .. } => Some(parent),
            _ => None,
        })
        .collect();
    assert_eq!(parents, [0, 1, 1, 1, 1, 1, 1]);
    // When the measurement begins, all children exist, and none of them has received a message.
    let (before, after) = records.split_at(begin);
    let count = |records: &[Record], is: fn(&Event) -> bool| records.iter().filter(|r| is(&r.event)).count();
    assert_eq!(count(before, |e| matches!(e, Event::TaskNew { .. })), 7);
    assert_eq!(count(before, |e| matches!(e, Event::Done { .. })), 0);
    assert_eq!(count(after, |e| matches!(e, Event::Done { .. })), 3 * 3 * 2);
    // To begin, the parent writes one byte. This wakes all children, which sleep in poll().
    let woken_by_parent = |r: &&Record| matches!(r.event, Event::Waking { waker: 1, .. });
    let wakes = after.iter().filter(woken_by_parent).count();
    assert_eq!(wakes, 6);
}

#[test]
fn lat_ctx_passes_the_token_once_before_it_measures() {
    let (records, begin) = measured("lat_ctx:processes=3,rounds=4");
    let done = |records: &[Record]| records.iter().filter(|r| matches!(r.event, Event::Done { .. })).count();
    assert_eq!((done(&records[..begin]), done(&records[begin..])), (0, 3 * 4));
    let first = records.iter().position(|r| matches!(r.event, Event::Waking { .. }));
    assert!(
        first.is_some_and(|at| at < begin),
        "the token passes before the measurement"
    );
}
