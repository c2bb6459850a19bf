// SPDX-License-Identifier: GPL-2.0-only
//! Where two sequences of decisions part, though what they cost differs and so the times do.
//!
//! What is decided about a task is one stream, what a CPU runs another, and its kicks a third: within a stream order means
//! something, between streams it hangs on nanoseconds. Two runs part at the earliest decision which is not the other run's next one
//! in its stream. A decision that the other run has not made though its clock is well past it counts as well.

use kernel::decision::{Decision, What};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How much later than its counterpart a decision may come beyond [`LAGS`] times what was seen so far.
const PATIENCE_NS: u64 = 20_000_000;
const LAGS: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stream {
    Task(u32),
    Runs(u32),
    Kicks(u32),
}

/// Kinds of decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The CPU of a woken or new task.
    Cpu,
    /// DSQ, slice and place of an insertion.
    Insert,
    /// Which CPU takes a task from which DSQ.
    Take,
    /// What a CPU runs next.
    Run,
    Kick,
}

impl Kind {
    pub const ALL: [Kind; 5] = [Kind::Cpu, Kind::Insert, Kind::Take, Kind::Run, Kind::Kick];
    /// Those that every class makes, and that have an effect by themselves.
    pub const EFFECTS: [Kind; 2] = [Kind::Cpu, Kind::Run];

    pub fn of(what: &What) -> Kind {
        match what {
            What::Cpu { .. } => Kind::Cpu,
            What::Insert { .. } => Kind::Insert,
            What::Take { .. } => Kind::Take,
            What::Run { .. } => Kind::Run,
            What::Kick { .. } => Kind::Kick,
        }
    }
}

/// The first difference. One of the sides may not have made a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parting {
    /// Of the earlier one, ns.
    pub time: u64,
    pub sides: [Option<Decision>; 2],
}

impl Parting {
    /// Of what parts at the same time, that is first which was decided first.
    fn order(&self) -> (u64, Option<u64>, Option<u64>) {
        let numbers = self.sides.iter().flatten().map(|decision| decision.number);
        (self.time, numbers.clone().min(), numbers.max())
    }
}

#[derive(Debug, Default)]
pub struct Streams {
    kinds: Vec<Kind>,
    /// Decisions whose counterpart has not come. At most one side of a stream has some.
    pending: [BTreeMap<Stream, VecDeque<Decision>>; 2],
    /// Streams that have parted.
    parted: BTreeSet<Stream>,
    first: Option<Parting>,
    /// The most by which the times of decisions that both made differed, ns.
    lag: u64,
    /// That of each pair which may turn out to lie behind the first difference, by the earlier time and A's number.
    recent: BTreeMap<(u64, u64), u64>,
    /// How many there were before, and the most of these.
    settled: (u64, u64),
}

impl Streams {
    pub fn new(kinds: &[Kind]) -> Streams {
        Streams {
            kinds: kinds.to_vec(),
            ..Streams::default()
        }
    }

    /// Takes a decision of side 0 or 1. Those of a side come in their order.
    pub fn take(&mut self, side: usize, decision: &Decision) {
        if !self.kinds.contains(&Kind::of(&decision.what)) {
            return;
        }
        let stream = match decision.what {
            What::Cpu { pid, .. } | What::Insert { pid, .. } | What::Take { pid, .. } => Stream::Task(pid),
            What::Run { .. } => Stream::Runs(decision.cpu),
            What::Kick { .. } => Stream::Kicks(decision.cpu),
        };
        if self.parted.contains(&stream) {
            return;
        }
        let waiting = self.pending[1 - side].get_mut(&stream);
        let Some(other) = waiting.and_then(VecDeque::pop_front) else {
            self.pending[side].entry(stream).or_default().push_back(*decision);
            return;
        };
        if same(&other.what, &decision.what) {
            let lag = other.time.abs_diff(decision.time);
            self.lag = self.lag.max(lag);
            let of_a = if side == 0 { decision } else { &other };
            self.recent.insert((other.time.min(decision.time), of_a.number), lag);
            return;
        }
        let mut sides = [Some(other), Some(*decision)];
        if side == 0 {
            sides.reverse();
        }
        self.part(stream, other.time.min(decision.time), sides);
    }

    fn part(&mut self, stream: Stream, time: u64, sides: [Option<Decision>; 2]) {
        self.parted.insert(stream);
        for pending in &mut self.pending {
            pending.remove(&stream);
        }
        let parting = Parting { time, sides };
        if self.first.is_none_or(|first| parting.order() < first.order()) {
            self.first = Some(parting);
        }
    }

    /// The first parting, once it is sure: no earlier one can come up with the sides' clocks where they are. A side that has ended by
    /// itself has come to the end of time.
    pub fn parting(&mut self, clocks: [u64; 2]) -> Option<Parting> {
        let patience = PATIENCE_NS.saturating_add(LAGS.saturating_mul(self.lag));
        for side in [0, 1] {
            let late = |decision: &Decision| decision.time.saturating_add(patience) <= clocks[1 - side];
            let fronts = self.pending[side]
                .iter()
                .filter_map(|(stream, queue)| Some((*stream, *queue.front()?)));
            let absent: Vec<(Stream, Decision)> = fronts.filter(|(_, decision)| late(decision)).collect();
            for (stream, decision) in absent {
                let mut sides = [Some(decision), None];
                if side == 1 {
                    sides.reverse();
                }
                self.part(stream, decision.time, sides);
            }
        }
        let sure = clocks[0].min(clocks[1]).saturating_sub(patience);
        let behind = self.first.map_or(sure, |first| first.time.min(sure));
        let kept = self.recent.split_off(&(behind, 0));
        for lag in std::mem::replace(&mut self.recent, kept).into_values() {
            self.settled = (self.settled.0 + 1, self.settled.1.max(lag));
        }
        self.first.filter(|first| first.time <= sure)
    }

    /// How many decisions both made before they parted, or in all, and the most by which their times differed, ns.
    pub fn before(&self, parting: Option<&Parting>) -> (u64, u64) {
        let end = parting.map(|parting| (parting.time, parting.sides[0].map_or(0, |of_a| of_a.number)));
        let recent = self.recent.range(..end.unwrap_or((u64::MAX, u64::MAX)));
        recent.fold(self.settled, |(count, most), (_, &lag)| (count + 1, most.max(lag)))
    }

    /// The first parting when both have ended at these times.
    pub fn last(&mut self, clocks: [u64; 2]) -> Option<Parting> {
        let _ = self.parting(clocks);
        self.first
    }
}

/// Is it the same decision? vtimes and what was run before follow from times.
fn same(a: &What, b: &What) -> bool {
    match (*a, *b) {
        (What::Cpu { cpu: a, .. }, What::Cpu { cpu: b, .. }) => a == b,
        (
            What::Insert {
                dsq: a,
                slice: a_slice,
                vtime: a_vtime,
                flags: a_flags,
                ..
            },
            What::Insert {
                dsq: b,
                slice: b_slice,
                vtime: b_vtime,
                flags: b_flags,
                ..
            },
        ) => (a, a_slice, a_flags, a_vtime.is_some()) == (b, b_slice, b_flags, b_vtime.is_some()),
        (What::Take { dsq: a, cpu: on_a, .. }, What::Take { dsq: b, cpu: on_b, .. }) => (a, on_a) == (b, on_b),
        (What::Run { pid: a, .. }, What::Run { pid: b, .. }) => a == b,
        (
            What::Kick {
                target: a,
                flags: for_a,
            },
            What::Kick {
                target: b,
                flags: for_b,
            },
        ) => (a, for_a) == (b, for_b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u64, time: u64, cpu: u32, pid: u32) -> Decision {
        let what = What::Run { pid, prev: 0 };
        Decision {
            number,
            time,
            cpu,
            what,
            by: None,
        }
    }

    const LATER: [u64; 2] = [u64::MAX; 2];

    #[test]
    fn costs_shift_and_swap_nothing() {
        let mut streams = Streams::new(&Kind::ALL);
        for turn in 0..100 {
            streams.take(0, &run(2 * turn, 1000 * turn, 0, turn as u32));
            streams.take(0, &run(2 * turn + 1, 1000 * turn + 1, 1, turn as u32));
        }
        // B takes longer all the time, and its CPUs come in the other order.
        for turn in 0..100 {
            streams.take(1, &run(2 * turn, 1010 * turn, 1, turn as u32));
            streams.take(1, &run(2 * turn + 1, 1010 * turn + 5, 0, turn as u32));
        }
        assert_eq!(streams.last(LATER), None);
        assert_eq!(streams.before(None), (200, 995));
    }

    #[test]
    fn the_earliest_difference_counts_whenever_it_is_seen() {
        let mut streams = Streams::new(&Kind::ALL);
        for decision in [run(0, 10, 0, 1), run(1, 50, 0, 2), run(2, 60, 1, 7)] {
            streams.take(0, &decision);
        }
        // CPU 1 differs at 60, which is seen first; CPU 0 at 50.
        for decision in [run(0, 11, 0, 1), run(1, 61, 1, 8), run(2, 70, 0, 3)] {
            streams.take(1, &decision);
        }
        let first = streams.last(LATER).expect("a parting");
        assert_eq!(first.time, 50);
        assert_eq!(first.sides.map(|side| side.expect("both").number), [1, 2]);
        assert_eq!(streams.before(Some(&first)), (1, 1));
    }

    #[test]
    fn what_the_other_does_not_do_is_a_difference() {
        let mut streams = Streams::new(&Kind::ALL);
        streams.take(1, &run(0, 1000, 3, 9));
        assert_eq!(streams.parting([5000, 2000]), None, "it may still come");
        streams.take(0, &run(0, 90_000_000, 0, 1));
        let parting = streams.parting([90_000_000, 95_000_000]).expect("it does not");
        assert_eq!((parting.time, parting.sides[0]), (1000, None));
        // What is decided shortly before a run's end may have its counterpart behind it.
        let mut streams = Streams::new(&Kind::ALL);
        streams.take(0, &run(0, 99_999_000, 0, 1));
        assert_eq!(streams.last([100_000_000; 2]), None);
    }

    #[test]
    fn kinds_that_are_not_asked_for_do_not_count() {
        let mut streams = Streams::new(&Kind::EFFECTS);
        let kick = Decision {
            what: What::Kick { target: 1, flags: 0 },
            ..run(0, 5, 0, 0)
        };
        streams.take(0, &kick);
        assert_eq!(streams.last(LATER), None);
    }
}
