// SPDX-License-Identifier: GPL-2.0-only
//! The event queue: what happens next, ordered by (time, sequence).
//!
//! Nothing is removed from the middle. An event that may become void carries a generation number that its
//! handler compares with the owner's.

use crate::task::TaskId;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The task running on the CPU has finished the work it was given.
    Step { cpu: u32, generation: u32 },
    /// A reschedule IPI arrives.
    Resched { cpu: u32 },
    /// The scheduler tick.
    Tick { cpu: u32, generation: u32 },
    /// The high resolution tick: the running fair task's slice ends.
    Hrtick { cpu: u32 },
    /// A sleeping task's timer or I/O completes on the CPU it slept on.
    Wake { task: TaskId, generation: u32 },
    /// A task of the workload is created.
    Spawn { index: u32, parent: TaskId, thread: bool },
    /// A BPF timer fires. Indexes the machine's timer table.
    BpfTimer { timer: u32, generation: u32 },
    /// The sched_ext watchdog looks for stalled tasks.
    Watchdog,
    /// A CPU goes online or offline.
    Hotplug { cpu: u32, online: bool },
    /// Nohz idle balancing and other periodic work of the fair class.
    NohzBalance { cpu: u32 },
    /// Deferred sched_ext work on a CPU (irq_work, deferred local DSQ moves).
    ExtDeferred { cpu: u32 },
}

impl Event {
    fn wakes(&self) -> bool {
        matches!(self, Event::Wake { .. } | Event::Spawn { .. })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    time: u64,
    sequence: u64,
    event: Event,
}

impl Ord for Entry {
    // BinaryHeap keeps the greatest on top; the earliest must be there.
    fn cmp(&self, other: &Entry) -> Ordering {
        (other.time, other.sequence).cmp(&(self.time, self.sequence))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Default)]
pub struct EventQueue {
    heap: BinaryHeap<Entry>,
    sequence: u64,
    /// Pending events that can make a task runnable.
    wakers: u64,
}

impl EventQueue {
    pub fn push(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.wakers += u64::from(event.wakes());
        self.heap.push(Entry { time, sequence: self.sequence, event });
    }

    pub fn next_time(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.time)
    }

    pub fn pop(&mut self) -> Option<(u64, Event)> {
        let entry = self.heap.pop()?;
        self.wakers -= u64::from(entry.event.wakes());
        Some((entry.time, entry.event))
    }

    /// No pending event can make a sleeping task runnable.
    pub fn nothing_wakes(&self) -> bool {
        self.wakers == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_come_in_the_order_they_were_pushed() {
        let mut queue = EventQueue::default();
        for cpu in 0..100 {
            queue.push(7, Event::Resched { cpu });
        }
        queue.push(3, Event::Watchdog);
        assert_eq!(queue.pop(), Some((3, Event::Watchdog)));
        for cpu in 0..100 {
            assert_eq!(queue.pop(), Some((7, Event::Resched { cpu })));
        }
        assert_eq!(queue.pop(), None);
    }
}
