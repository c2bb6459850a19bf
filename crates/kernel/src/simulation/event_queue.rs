// SPDX-License-Identifier: GPL-2.0-only
//! The queue of pending events, ordered by time and then by sequence number.
//!
//! Pending events are never removed. An event that may become obsolete instead contains a
//! generation number, and its handler does nothing if this number differs from the one in the task
//! or timer that it belongs to. Changing the latter thus cancels the event. The exception is the
//! step event of a CPU, which can be moved and removed (see `step`).

use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE};
use crate::simulation::step::Steps;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Sort key of an event. The high 64 bits are the time, the low 64 bits are the sequence number.
type Key = u128;

fn key(time: u64, sequence: u64) -> Key {
    u128::from(time) << 64 | u128::from(sequence)
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    key: Key,
    event: Event,
    /// Index of the next entry in the list of the same bucket, or in the list of free entries.
    next: u32,
}

/// Returns the number of the bucket that the time in `key` belongs to.
#[inline]
fn bucket(key: Key) -> u64 {
    (key >> 64) as u64 >> SHIFT
}

impl Ord for Entry {
    // The order is reversed because the top of a BinaryHeap is its maximum, and the earliest event
    // must be on top.
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

/// Starts of consecutive tasks of the workload at the same time.
struct Starts {
    time: u64,
    /// Index of the first task that is not in the queue yet.
    next: u32,
    /// Index after the last task.
    end: u32,
}

/// log2 of the width of a bucket in ns. A bucket is 2^9 = 512 ns wide, so few events have to be
/// sorted at a time.
const SHIFT: u32 = 9;
/// Number of buckets. Together they cover the next 33 ms. Most events are due within this time and
/// are inserted in constant time.
const BUCKETS: usize = 65536;
/// Number of sequence numbers that are reserved for ticks, one for each CPU.
const TICKS: u64 = 1 << 16;
/// Value of `EventQueue::start_sequence` if there is no start. No event has this sequence number.
const NO_START: u64 = u64::MAX;
/// Marks the end of a bucket's list.
const NIL: u32 = u32::MAX;

/// The queue of pending events. Events in the near future are in buckets by time and are not sorted
/// within a bucket. A bucket is sorted when it becomes the current bucket. All later events are in
/// a heap.
pub struct EventQueue {
    /// Events of bucket number `base`, latest first.
    current: Vec<Entry>,
    /// Events of bucket `base` or an earlier bucket that were added after `base` had become the
    /// current bucket.
    early: BinaryHeap<Entry>,
    /// Number of the current bucket: the start of its time interval divided by the width of a
    /// bucket. At the start, it is -1 (all bits are set), so that the first events are in buckets.
    base: u64,
    /// Lower bound for the number of the next bucket with events: all buckets between `base` and
    /// this number are empty.
    next: u64,
    /// Lower bound for the times of all events but steps, ns. A step before it comes first.
    bound: u64,
    /// First entry of each bucket's list. Buckets `base + 1` to `base + BUCKETS - 1` are stored
    /// here; bucket n has the index n % BUCKETS.
    buckets: Box<[u32]>,
    occupied: Occupied,
    /// Entries of the lists of all buckets.
    entries: Vec<Entry>,
    /// Index of the first free entry. NIL means that all entries are in use.
    free: u32,
    /// Events that are later than the last bucket.
    far: BinaryHeap<Entry>,
    /// Starts of tasks that are not in the queue yet, latest first. Only the earliest start is in the
    /// queue, because each of a million events would take as much memory as other data of a task.
    starts: Vec<Starts>,
    /// Sequence number of the start that is in the queue, or [`NO_START`].
    start_sequence: u64,
    steps: Steps,
    sequence: u64,
    /// Whether ticks have sequence numbers as other events do, see
    /// [`EventQueue::order_ticks_by_start`].
    ticks_by_start: bool,
    /// Number of pending events that can make a task runnable.
    wakers: u64,
}

/// Bitmap of the buckets that are not empty (`words`). Bit n of `summary` is set if word n of
/// `words` is not 0.
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

    /// Returns the first bucket at or after `start` that is not empty. The search wraps around.
    #[inline]
    fn first_from(&self, start: usize) -> Option<usize> {
        let here = self.words[start / 64] >> (start % 64);
        if here != 0 {
            return Some(start + here.trailing_zeros() as usize);
        }
        // Tests the following words, and finally the lower bits of the first word.
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
            next: 0,
            bound: 0,
            base: u64::MAX,
            buckets: vec![NIL; BUCKETS].into(),
            occupied: Occupied {
                words: [0; BUCKETS / 64],
                summary: [0; BUCKETS / 64 / 64],
            },
            entries: Vec::new(),
            free: NIL,
            far: BinaryHeap::new(),
            starts: Vec::new(),
            start_sequence: NO_START,
            steps: Steps::new(nr_cpus),
            sequence: TICKS,
            ticks_by_start: false,
            wakers: 0,
        }
    }

    #[inline]
    pub fn push(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.wakers += u64::from(event.wakes());
        self.insert(key(time, self.sequence), event);
    }

    /// Adds the creations of all tasks that start with the run: time and index in the workload. Must be
    /// called once. The result is the same as if each were pushed in this order.
    pub(crate) fn push_starts(&mut self, tasks: impl Iterator<Item = (u64, u32)>) {
        let first = self.sequence + 1;
        for (time, index) in tasks {
            self.sequence += 1;
            match self.starts.last_mut() {
                Some(last) if last.time == time && last.end == index => last.end += 1,
                _ => self.starts.push(Starts {
                    time,
                    next: index,
                    end: index + 1,
                }),
            }
        }
        // At equal times, the order remains that of the indexes.
        self.starts.sort_by_key(|starts| starts.time);
        self.starts.reverse();
        self.push_next_start(first);
    }

    /// Adds the next start of a task with this sequence number. All starts have consecutive sequence
    /// numbers, which are smaller than those of all later events.
    fn push_next_start(&mut self, sequence: u64) {
        let Some(starts) = self.starts.last_mut() else {
            self.start_sequence = NO_START;
            return;
        };
        let (time, index) = (starts.time, starts.next);
        starts.next += 1;
        if starts.next == starts.end {
            self.starts.pop();
        }
        self.start_sequence = sequence;
        self.wakers += 1;
        let start = Event::Spawn {
            index,
            parent: IDLE,
            thread: false,
        };
        self.insert(key(time, sequence), start);
    }

    /// Lets ticks and other timers that are due at the same time come in the order in which they were
    /// started, as those of one CPU do in Linux (timerqueue_add).
    pub(crate) fn order_ticks_by_start(&mut self) {
        self.ticks_by_start = true;
    }

    /// Adds a tick. Ticks come before all other events at the same time and are ordered by CPU, unless
    /// [`EventQueue::order_ticks_by_start`] was called.
    pub(crate) fn push_tick(&mut self, time: u64, cpu: CpuId, generation: u32) {
        if self.ticks_by_start {
            return self.push(time, Event::Tick { cpu, generation });
        }
        self.insert(key(time, u64::from(cpu)), Event::Tick { cpu, generation });
    }

    #[inline]
    fn insert(&mut self, key: Key, event: Event) {
        let number = bucket(key);
        self.next = self.next.min(number);
        self.bound = self.bound.min((key >> 64) as u64);
        // The event belongs to bucket `base`, to an earlier bucket, or after the last bucket.
        if number.wrapping_sub(self.base.wrapping_add(1)) >= BUCKETS as u64 - 1 {
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

    /// Stores an event that belongs to the current bucket, to an earlier one, or after the last
    /// one.
    #[inline(never)]
    fn push_outside_buckets(&mut self, key: Key, event: Event) {
        let entry = Entry { key, event, next: NIL };
        if self.base != u64::MAX && bucket(key) <= self.base {
            self.early.push(entry);
        } else {
            self.far.push(entry);
        }
    }

    /// Returns the number of the first bucket after `base` that is not empty.
    fn next_bucket(&self) -> Option<u64> {
        let first = self.base.wrapping_add(1);
        let start = first as usize % BUCKETS;
        let found = self.occupied.first_from(start)?;
        Some(first + (found.wrapping_sub(start) % BUCKETS) as u64)
    }

    /// Returns whether the earliest step event is due before the time interval of `bucket`.
    #[inline]
    fn step_precedes(&self, bucket: u64) -> bool {
        self.steps.first().is_some_and(|(time, _)| time >> SHIFT < bucket)
    }

    /// Makes the next bucket with events the current bucket. Moves the events of the heap that now
    /// fit into the table of buckets to their buckets.
    ///
    /// Does nothing if a step event is due before the next bucket. The reason is the case that all
    /// CPUs are busy and the next bucket contains only ticks that are milliseconds away. If this
    /// bucket became the current bucket, all events that are added until the ticks would go to
    /// `early`, which is slower than the buckets.
    fn refill(&mut self) {
        let near = self.next_bucket();
        let far = self.far.peek().map(|entry| bucket(entry.key));
        let Some(base) = near.into_iter().chain(far).min() else {
            return;
        };
        self.next = base;
        if self.step_precedes(base) {
            return;
        }
        self.base = base;
        self.next = base + 1;
        if near == Some(base) {
            let at = base as usize % BUCKETS;
            self.occupied.clear(at);
            let first = std::mem::replace(&mut self.buckets[at], NIL);
            let mut slot = first;
            while let Some(entry) = self.entries.get_mut(slot as usize) {
                self.current.push(*entry);
                slot = entry.next;
                if slot == NIL {
                    // Adds all entries of the bucket's list to the free entries at once.
                    entry.next = std::mem::replace(&mut self.free, first);
                }
            }
            // The order of `Entry` is reversed for BinaryHeap, so the earliest event is now at the
            // end of `current`.
            self.current.sort_unstable();
        }
        while self
            .far
            .peek()
            .is_some_and(|entry| bucket(entry.key) < base + BUCKETS as u64)
        {
            let entry = self.far.pop().expect("peek() has found an entry");
            self.insert(entry.key, entry.event);
        }
    }

    /// Removes and returns the next event and its time, if it is due at `until` or earlier. A step
    /// event is not removed. Its handler schedules it again or removes it.
    #[inline(always)]
    pub fn pop(&mut self, until: u64) -> Option<(u64, Event)> {
        if let Some((time, cpu)) = self.steps.first()
            && time < self.bound
        {
            return (time <= until).then_some((time, Event::Step { cpu }));
        }
        let popped = self.pop_compared(until);
        self.set_bound();
        popped
    }

    /// Sets `bound` to the time of the earliest event that is not a step if this event is sorted,
    /// otherwise to the
    /// start of the first bucket that may contain it.
    #[inline]
    fn set_bound(&mut self) {
        let mut bound = self.next << SHIFT;
        if let Some(entry) = self.current.last() {
            bound = bound.min((entry.key >> 64) as u64);
        }
        if let Some(entry) = self.early.peek() {
            bound = bound.min((entry.key >> 64) as u64);
        }
        self.bound = bound;
    }

    /// Does the work of [`EventQueue::pop`] if the earliest step is not known to be the next event.
    fn pop_compared(&mut self, until: u64) -> Option<(u64, Event)> {
        if self.current.is_empty() && self.early.is_empty() && !self.step_precedes(self.next) {
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
        if key as u64 == self.start_sequence {
            self.push_next_start(key as u64 + 1);
        }
        Some((time, event))
    }

    /// Returns the two events that will probably be handled next. They are used for prefetching.
    #[inline]
    pub fn likely(&self) -> [Option<Event>; 2] {
        let event = |entry: &Entry| entry.event;
        match self.current.as_slice() {
            [.., then, next] => [Some(event(next)), Some(event(then))],
            [next] => [Some(event(next)), None],
            [] => [None, None],
        }
    }

    /// Returns the CPU of the step event that will probably follow the next step event.
    #[inline]
    pub(crate) fn likely_step(&self) -> Option<CpuId> {
        self.steps.runner_up()
    }

    /// Schedules the step event of a CPU. If it is already scheduled, moves it to the new time.
    #[inline]
    pub(crate) fn arm_step(&mut self, cpu: CpuId, time: u64) {
        self.sequence += 1;
        self.steps.arm(cpu, time, self.sequence);
    }

    #[inline]
    pub(crate) fn disarm_step(&mut self, cpu: CpuId) {
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

    /// Returns the pending events and their times in any order, without steps.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (u64, Event)> {
        let list = |&first: &u32| {
            let entry = |slot: u32| self.entries.get(slot as usize);
            std::iter::successors(entry(first), move |last| entry(last.next))
        };
        let sorted = self.current.iter().chain(&self.early).chain(&self.far);
        let all = sorted.chain(self.buckets.iter().flat_map(list));
        all.map(|entry| ((entry.key >> 64) as u64, entry.event))
    }

    /// Returns the number of pending events that can make a task runnable.
    #[inline]
    pub fn wakers(&self) -> u64 {
        self.wakers
    }
}

#[cfg(test)]
mod tests;
