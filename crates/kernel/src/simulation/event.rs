// SPDX-License-Identifier: GPL-2.0-only
//! The event queue, ordered by (time, sequence number).
//!
//! Except for a CPU's step, an event is never removed before its time. An event that may become
//! obsolete has a generation number; its handler ignores the event if the owner's number has
//! changed.

use crate::simulation::id::{CpuId, TaskId};
use crate::simulation::step::Steps;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// An event that is due at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The running task of the CPU has finished its current work. If the CPU was charged since the
    /// step was armed, the step has to be armed again.
    Step { cpu: CpuId },
    /// A reschedule IPI arrives.
    Resched { cpu: CpuId },
    /// The scheduler tick.
    Tick { cpu: CpuId, generation: u32 },
    /// High-resolution tick: the slice of the running fair task ends.
    Hrtick { cpu: CpuId },
    /// A cgroup's cpu.max period ends.
    CfsPeriod { group: u32, generation: u32 },
    /// A CPU's unused cpu.max runtime is returned to its cgroup, for other CPUs.
    CfsSlack { group: u32, generation: u32 },
    /// A sleeping task's timer or I/O completes on the CPU it slept on.
    Wake { task: TaskId, generation: u32 },
    /// A task of the workload is created.
    Spawn { index: u32, parent: TaskId, thread: bool },
    /// A BPF timer fires; `timer` is an index into the machine's timer table.
    BpfTimer { timer: u32, generation: u32 },
    /// The sched_ext watchdog checks for stalled tasks.
    Watchdog,
    /// A disturbance of the workload takes place; `index` is its index in the workload.
    Disturb { index: u32 },
    /// A CPU goes online or offline.
    Hotplug { cpu: CpuId, online: bool },
    /// Nohz idle balancing and other periodic work of the fair class.
    NohzBalance { cpu: CpuId },
    /// The timer of a CPU's deadline server fires.
    DlServer { cpu: CpuId },
    /// Deferred sched_ext work on a CPU (irq_work, deferred local DSQ moves).
    ExtDeferred { cpu: CpuId },
}

impl Event {
    /// Returns whether the event can make a task runnable.
    fn wakes(&self) -> bool {
        matches!(
            self,
            Event::Wake { .. } | Event::Spawn { .. } | Event::CfsPeriod { .. } | Event::CfsSlack { .. }
        )
    }
}

/// Sort key of an event: the time in the high 64 bits, the sequence number in the low ones.
type Key = u128;

fn key(time: u64, sequence: u64) -> Key {
    u128::from(time) << 64 | u128::from(sequence)
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    key: Key,
    event: Event,
    /// Index of the next entry of the same bucket, or of the next free entry.
    next: u32,
}

/// Returns the number of the bucket that contains the time of a key.
#[inline]
fn bucket(key: Key) -> u64 {
    (key >> 64) as u64 >> SHIFT
}

impl Ord for Entry {
    // BinaryHeap's maximum is on top, so the order is reversed: the earliest event must be on top.
    #[inline]
    fn cmp(&self, other: &Entry) -> Ordering {
        other.key.cmp(&self.key)
    }
}

impl PartialOrd for Entry {
    #[inline]
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &Entry) -> bool {
        other.key < self.key
    }
}

/// log2 of a bucket's width in ns: 2^9 ns. Buckets are so narrow that few events have to be sorted
/// at a time.
const SHIFT: u32 = 9;
/// Number of buckets, which cover the next 33 ms. Most events are due within that time; pushing one
/// takes constant time.
const BUCKETS: usize = 65536;
/// The end of a bucket's list.
const NIL: u32 = u32::MAX;

/// The queue of pending events. Near events lie unsorted in buckets by time, and a bucket is sorted
/// when its time comes. Far events wait in a heap.
pub struct EventQueue {
    /// Events of bucket number `base`, the latest first.
    current: Vec<Entry>,
    /// Events pushed since `base` became current that belong into that bucket or an earlier one.
    early: BinaryHeap<Entry>,
    base: u64,
    /// First entry of each bucket's list. Bucket n, for n in base+1 .. base+BUCKETS, has index n %
    /// BUCKETS.
    buckets: Box<[u32]>,
    occupied: Occupied,
    /// Entries of all buckets' lists.
    entries: Vec<Entry>,
    /// First free entry, or NIL.
    free: u32,
    /// Events beyond the last bucket.
    far: BinaryHeap<Entry>,
    steps: Steps,
    sequence: u64,
    /// Number of pending events that can make a task runnable.
    wakers: u64,
}

/// Bitmap of the buckets that are not empty, and a bitmap of its words that are not 0.
struct Occupied {
    words: [u64; BUCKETS / 64],
    summary: [u64; BUCKETS / 64 / 64],
}

impl Occupied {
    #[inline]
    fn set(&mut self, at: usize) {
        self.words[at / 64] |= 1 << (at % 64);
        self.summary[at / 4096] |= 1 << (at / 64 % 64);
    }

    #[inline]
    fn clear(&mut self, at: usize) {
        let word = &mut self.words[at / 64];
        *word &= !(1 << (at % 64));
        if *word == 0 {
            self.summary[at / 4096] &= !(1 << (at / 64 % 64));
        }
    }

    /// Returns the first non-empty bucket at or after `start`, wrapping around.
    #[inline]
    fn first_from(&self, start: usize) -> Option<usize> {
        let here = self.words[start / 64] >> (start % 64);
        if here != 0 {
            return Some(start + here.trailing_zeros() as usize);
        }
        // Checks the words after it, and finally the lower bits of its own word.
        let after = start / 64 + 1;
        for step in 0..=self.summary.len() {
            let at = (after / 64 + step) % self.summary.len();
            let mut words = self.summary[at];
            if step == 0 {
                words &= !0 << (after % 64);
            }
            if words != 0 {
                let word = at * 64 + words.trailing_zeros() as usize;
                return Some(word * 64 + self.words[word].trailing_zeros() as usize);
            }
        }
        None
    }
}

impl EventQueue {
    /// Returns an empty queue for a machine with `nr_cpus` CPUs.
    pub fn new(nr_cpus: u32) -> EventQueue {
        EventQueue {
            current: Vec::new(),
            early: BinaryHeap::new(),
            base: 0,
            buckets: vec![NIL; BUCKETS].into(),
            occupied: Occupied {
                words: [0; BUCKETS / 64],
                summary: [0; BUCKETS / 64 / 64],
            },
            entries: Vec::new(),
            free: NIL,
            far: BinaryHeap::new(),
            steps: Steps::new(nr_cpus),
            sequence: 0,
            wakers: 0,
        }
    }

    #[inline]
    pub fn push(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.wakers += u64::from(event.wakes());
        self.insert(key(time, self.sequence), event);
    }

    #[inline]
    fn insert(&mut self, key: Key, event: Event) {
        let number = bucket(key);
        // The event belongs to bucket `base`, to an earlier one, or beyond the last bucket.
        if number.wrapping_sub(self.base + 1) >= BUCKETS as u64 - 1 {
            return self.push_outside_buckets(key, event);
        }
        let at = number as usize % BUCKETS;
        let next = self.buckets[at];
        self.occupied.set(at);
        self.buckets[at] = match self.entries.get_mut(self.free as usize) {
            Some(slot) => {
                let free = std::mem::replace(&mut slot.next, next);
                slot.key = key;
                slot.event = event;
                std::mem::replace(&mut self.free, free)
            }
            None => {
                self.entries.push(Entry { key, event, next });
                self.entries.len() as u32 - 1
            }
        };
    }

    /// Stores an event that belongs into none of the buckets.
    #[inline(never)]
    fn push_outside_buckets(&mut self, key: Key, event: Event) {
        let entry = Entry { key, event, next: NIL };
        if bucket(key) <= self.base {
            self.early.push(entry);
        } else {
            self.far.push(entry);
        }
    }

    /// Returns the number of the first non-empty bucket after `base`.
    fn next_bucket(&self) -> Option<u64> {
        let start = (self.base as usize + 1) % BUCKETS;
        let found = self.occupied.first_from(start)?;
        Some(self.base + 1 + (found.wrapping_sub(start) % BUCKETS) as u64)
    }

    /// Makes the earliest pending events current.
    fn refill(&mut self) {
        let near = self.next_bucket();
        let far = self.far.peek().map(|entry| bucket(entry.key));
        let Some(base) = near.into_iter().chain(far).min() else {
            return;
        };
        self.base = base;
        if near == Some(base) {
            let at = base as usize % BUCKETS;
            self.occupied.clear(at);
            let first = std::mem::replace(&mut self.buckets[at], NIL);
            let mut slot = first;
            while let Some(entry) = self.entries.get_mut(slot as usize) {
                self.current.push(*entry);
                slot = entry.next;
                if slot == NIL {
                    // Frees the bucket's entire list at once.
                    entry.next = std::mem::replace(&mut self.free, first);
                }
            }
            // `Entry`'s order is reversed for BinaryHeap, so the earliest event ends up last.
            self.current.sort_unstable();
        }
        while self
            .far
            .peek()
            .is_some_and(|entry| bucket(entry.key) < base + BUCKETS as u64)
        {
            let entry = self.far.pop().expect("just seen");
            self.insert(entry.key, entry.event);
        }
    }

    /// Removes and returns the next event and its time if it is due by `until`. A step stays armed;
    /// its handler re-arms or disarms it.
    #[inline]
    pub fn pop(&mut self, until: u64) -> Option<(u64, Event)> {
        if self.current.is_empty() && self.early.is_empty() {
            self.refill();
        }
        let (current, early) = (self.current.last(), self.early.peek());
        let take_early = match (early, current) {
            (Some(early), Some(current)) => early.key < current.key,
            _ => early.is_some(),
        };
        let entry = if take_early { early } else { current };
        if let Some((time, cpu)) = self.steps.first()
            && entry.is_none_or(|entry| match time.cmp(&((entry.key >> 64) as u64)) {
                Ordering::Equal => self.steps.sequence(cpu) < entry.key as u64,
                order => order == Ordering::Less,
            })
        {
            return (time <= until).then_some((time, Event::Step { cpu }));
        }
        let &Entry { key, event, .. } = entry?;
        let time = (key >> 64) as u64;
        if time > until {
            return None;
        }
        if take_early {
            self.early.pop();
        } else {
            self.current.pop();
        }
        self.wakers -= u64::from(event.wakes());
        Some((time, event))
    }

    /// Returns the two events that will probably be due next, for prefetching.
    #[inline]
    pub fn likely(&self) -> [Option<Event>; 2] {
        let event = |entry: &Entry| entry.event;
        match self.current.as_slice() {
            [.., then, next] => [Some(event(next)), Some(event(then))],
            [next] => [Some(event(next)), None],
            [] => [None, None],
        }
    }

    /// Returns a CPU with a step that will probably be due soon, other than the first one's.
    #[inline]
    pub fn likely_step(&self) -> Option<CpuId> {
        self.steps.runner_up()
    }

    /// Arms the step of a CPU, or moves it to another time.
    #[inline]
    pub fn arm_step(&mut self, cpu: CpuId, time: u64) {
        self.sequence += 1;
        self.steps.arm(cpu, time, self.sequence);
    }

    #[inline]
    pub fn disarm_step(&mut self, cpu: CpuId) {
        self.steps.disarm(cpu);
    }

    /// Returns whether no event is pending.
    pub fn is_empty(&self) -> bool {
        self.current.is_empty()
            && self.early.is_empty()
            && self.far.is_empty()
            && self.next_bucket().is_none()
            && self.steps.first().is_none()
    }

    /// Returns whether no pending event can make a sleeping task runnable.
    #[inline]
    pub fn no_event_wakes(&self) -> bool {
        self.wakers == 0
    }
}

#[cfg(test)]
mod tests {
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
    fn near_and_far_events_come_in_order_of_time_and_sequence() {
        let mut rng = crate::simulation::rng::Rng::new(1);
        let mut queue = EventQueue::new(4);
        let mut expected = std::collections::BTreeMap::new();
        let mut now = 0;
        for sequence in 0..200_000u32 {
            // Near events, some of them in the current bucket or an earlier one, and far events.
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
        assert!(queue.no_event_wakes() && queue.is_empty());
    }
}
