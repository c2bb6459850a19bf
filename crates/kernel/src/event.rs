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
    /// Timer of a CPU's deadline server.
    DlServer { cpu: u32 },
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

/// Width of a bucket: 2^12 ns, about 4 us.
const SHIFT: u32 = 12;
/// Buckets: 33 ms ahead in all. Most events are nearer than that, and then cost the same however many there are.
const BUCKETS: u64 = 8192;

/// Near events lie unordered in buckets by time; the bucket whose time has come is put in order. Far ones wait in a heap.
pub struct EventQueue {
    /// The events that lay in bucket number `base` when its time came, the latest first.
    current: Vec<Entry>,
    /// Those of that bucket or of an earlier time that were made since.
    early: BinaryHeap<Entry>,
    base: u64,
    /// Bucket number n, for n in base+1 .. base+BUCKETS, is at n % BUCKETS.
    buckets: Vec<Vec<Entry>>,
    /// A bit for each bucket that is not empty.
    occupied: [u64; (BUCKETS / 64) as usize],
    /// Events of later buckets.
    far: BinaryHeap<Entry>,
    /// Emptied buffers, for the next bucket that needs one.
    spare: Vec<Vec<Entry>>,
    sequence: u64,
    /// Pending events that can make a task runnable.
    wakers: u64,
}

impl Default for EventQueue {
    fn default() -> EventQueue {
        EventQueue {
            current: Vec::new(),
            early: BinaryHeap::new(),
            base: 0,
            buckets: (0..BUCKETS).map(|_| Vec::new()).collect(),
            occupied: [0; (BUCKETS / 64) as usize],
            far: BinaryHeap::new(),
            spare: Vec::new(),
            sequence: 0,
            wakers: 0,
        }
    }
}

impl EventQueue {
    pub fn push(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.wakers += u64::from(event.wakes());
        self.place(Entry {
            time,
            sequence: self.sequence,
            event,
        });
    }

    fn place(&mut self, entry: Entry) {
        let number = entry.time >> SHIFT;
        if number <= self.base {
            self.early.push(entry);
        } else if number < self.base + BUCKETS {
            let at = (number % BUCKETS) as usize;
            let bucket = &mut self.buckets[at];
            if bucket.capacity() == 0
                && let Some(buffer) = self.spare.pop()
            {
                *bucket = buffer;
            }
            bucket.push(entry);
            self.occupied[at / 64] |= 1 << (at % 64);
        } else {
            self.far.push(entry);
        }
    }

    /// Number of the first bucket after `base` that holds something.
    fn next_bucket(&self) -> Option<u64> {
        let start = (self.base + 1) % BUCKETS;
        let words = self.occupied.len();
        for step in 0..=words {
            let at = (start as usize / 64 + step) % words;
            let mut word = self.occupied[at];
            if step == 0 {
                word &= !0 << (start % 64);
            } else if step == words {
                word &= !(!0 << (start % 64));
            }
            if word != 0 {
                let found = at as u64 * 64 + u64::from(word.trailing_zeros());
                return Some(self.base + 1 + (found + BUCKETS - start) % BUCKETS);
            }
        }
        None
    }

    /// Makes the earliest events current.
    fn refill(&mut self) {
        let near = self.next_bucket();
        let far = self.far.peek().map(|entry| entry.time >> SHIFT);
        let Some(base) = near.into_iter().chain(far).min() else {
            return;
        };
        self.base = base;
        let at = (base % BUCKETS) as usize;
        if near == Some(base) {
            self.occupied[at / 64] &= !(1 << (at % 64));
            let entries = std::mem::take(&mut self.buckets[at]);
            let emptied = std::mem::replace(&mut self.current, entries);
            self.spare.push(emptied);
            // Entry's order puts what is due first last, as BinaryHeap wants it.
            self.current.sort_unstable();
        }
        while self
            .far
            .peek()
            .is_some_and(|entry| entry.time >> SHIFT < base + BUCKETS)
        {
            let entry = self.far.pop().expect("just seen");
            self.place(entry);
        }
    }

    pub fn next_time(&mut self) -> Option<u64> {
        if self.current.is_empty() && self.early.is_empty() {
            self.refill();
        }
        let (current, early) = (self.current.last(), self.early.peek());
        current.into_iter().chain(early).map(|entry| entry.time).min()
    }

    pub fn pop(&mut self) -> Option<(u64, Event)> {
        if self.current.is_empty() && self.early.is_empty() {
            self.refill();
        }
        // `None` is less than any entry, and of two entries the greater is due first.
        let entry = if self.early.peek() > self.current.last() {
            self.early.pop()?
        } else {
            self.current.pop()?
        };
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

    #[test]
    fn near_and_far_events_come_in_order_of_time_and_sequence() {
        let mut rng = crate::rng::Rng::new(1);
        let mut queue = EventQueue::default();
        let mut expected = std::collections::BTreeMap::new();
        let mut now = 0;
        for sequence in 0..200_000u32 {
            // Mostly near, sometimes within the bucket, sometimes far, sometimes in the past's bucket.
            let ahead = [0, 300, 50_000, 3_000_000, 500_000_000, 30_000_000_000][rng.below(6) as usize];
            let time = now + rng.below(ahead + 1);
            queue.push(time, Event::Resched { cpu: sequence });
            expected.insert((time, sequence), ());
            if rng.below(3) > 0 {
                let ((time, sequence), ()) = expected.pop_first().unwrap();
                assert_eq!(queue.next_time(), Some(time));
                assert_eq!(queue.pop(), Some((time, Event::Resched { cpu: sequence })));
                now = time;
            }
        }
        while let Some(((time, sequence), ())) = expected.pop_first() {
            assert_eq!(queue.pop(), Some((time, Event::Resched { cpu: sequence })));
        }
        assert_eq!(queue.pop(), None);
        assert!(queue.nothing_wakes());
    }
}
