// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the event queue.

use super::*;
use crate::testbed::cpu_id;

#[test]
fn events_at_the_same_time_keep_their_push_order() {
    let mut queue = EventQueue::new(4);
    for cpu in 0..100 {
        queue.push(7, Event::Resched { cpu: cpu_id(cpu) });
    }
    queue.push(3, Event::Watchdog);
    assert_eq!(queue.pop(u64::MAX), Some((3, Event::Watchdog)));
    for cpu in 0..100 {
        assert_eq!(queue.pop(u64::MAX), Some((7, Event::Resched { cpu: cpu_id(cpu) })));
    }
    assert_eq!(queue.pop(u64::MAX), None);
}

#[test]
fn starts_come_as_if_each_had_been_pushed() {
    let mut rng = crate::simulation::rng::Rng::new(2);
    let (mut queue, mut expected) = (EventQueue::new(4), EventQueue::new(4));
    let mut times: Vec<u64> = (0..300).map(|_| rng.below(5) * rng.below(2) * 700).collect();
    times.push(50_000_000);
    let starts = || times.iter().copied().zip(0..);
    queue.push_starts(starts());
    for (time, index) in starts() {
        let (parent, thread) = (IDLE, false);
        expected.push(time, Event::Spawn { index, parent, thread });
    }
    let mut nr = 0;
    for cpu in 0.. {
        let (popped, wanted) = (queue.pop(u64::MAX), expected.pop(u64::MAX));
        assert_eq!(popped, wanted);
        assert_eq!(queue.wakers() > 0, expected.wakers() > 0);
        let Some((now, event)) = wanted else { break };
        nr += u32::from(matches!(event, Event::Spawn { .. }));
        if cpu < 1000 {
            for queue in [&mut queue, &mut expected] {
                queue.push(now + u64::from(cpu) % 2 * 350, Event::Resched { cpu: cpu_id(cpu) });
            }
        }
    }
    assert_eq!(nr, 301);
    assert!(queue.is_empty());
}

#[test]
fn near_and_far_events_come_in_order_of_time_and_sequence() {
    let mut rng = crate::simulation::rng::Rng::new(1);
    let mut queue = EventQueue::new(4);
    let mut expected = std::collections::BTreeMap::new();
    let mut now = 0;
    for sequence in 0..200_000u32 {
        // Near times are in the current bucket or in one of the next buckets, distant times in
        // the heap.
        let ahead = [0, 300, 50_000, 3_000_000, 500_000_000, 30_000_000_000][rng.below(6) as usize];
        let time = now + rng.below(ahead + 1);
        queue.push(time, Event::Resched { cpu: cpu_id(sequence) });
        expected.insert((time, sequence), ());
        if rng.below(3) > 0 {
            let ((time, sequence), ()) = expected.pop_first().unwrap();
            assert!(time == 0 || queue.pop(time - 1).is_none());
            assert_eq!(queue.pop(time), Some((time, Event::Resched { cpu: cpu_id(sequence) })));
            now = time;
        }
    }
    while let Some(((time, sequence), ())) = expected.pop_first() {
        assert_eq!(
            queue.pop(u64::MAX),
            Some((time, Event::Resched { cpu: cpu_id(sequence) }))
        );
    }
    assert_eq!(queue.pop(u64::MAX), None);
    assert!(queue.wakers() == 0 && queue.is_empty());
}
