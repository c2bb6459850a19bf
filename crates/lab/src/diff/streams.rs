// SPDX-License-Identifier: GPL-2.0-only
//! Finds the first difference between the decisions of two runs, run 0 and run 1. The runs may make
//! the same decisions at different times.
//!
//! A run has many streams of decisions: one about each task, one for the tasks that each CPU runs,
//! and one for the kicks of each CPU. Only the order within a stream is compared, because the order
//! between streams depends on a few nanoseconds.
//!
//! ```text
//! run 0, CPU 3:   A    B    C
//! run 1, CPU 3:    A     B      D      differs at the third decision
//! ```
//!
//! In each stream, the n-th decision of one run is compared with the n-th decision of the other
//! run. The earliest decision that has no equal counterpart is the first difference. A counterpart
//! also counts as missing if the other run has not made it long after the decision.

use kernel::decision::{Decision, DecisionKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Time in ns within which a run must make the counterpart of a decision of the other run.
/// Otherwise the counterpart counts as missing. If equal decisions are made at different times, the
/// limit is longer: [`LAGS`] times the largest such time difference is added.
const PATIENCE_NS: u64 = 20_000_000;
const LAGS: u64 = 4;

/// Key of a stream: a task, the tasks that a CPU runs, or the kicks of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stream {
    Task(u32),
    Runs(u32),
    Kicks(u32),
}

/// Kinds of decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StreamKind {
    /// CPU that is selected for a woken or new task.
    Cpu,
    /// DSQ, slice and position of an inserted task.
    Insert,
    /// CPU that takes a task from a DSQ.
    Take,
    /// Task that a CPU runs next.
    Run,
    Kick,
}

impl StreamKind {
    pub const ALL: [StreamKind; 5] = [
        StreamKind::Cpu,
        StreamKind::Insert,
        StreamKind::Take,
        StreamKind::Run,
        StreamKind::Kick,
    ];
    /// Kinds of decisions that every scheduling class makes, and that affect where and when tasks
    /// run.
    pub const EFFECTS: [StreamKind; 2] = [StreamKind::Cpu, StreamKind::Run];

    pub fn from_decision(what: &DecisionKind) -> StreamKind {
        match what {
            DecisionKind::Cpu { .. } => StreamKind::Cpu,
            DecisionKind::Insert { .. } => StreamKind::Insert,
            DecisionKind::Take { .. } => StreamKind::Take,
            DecisionKind::Run { .. } => StreamKind::Run,
            DecisionKind::Kick { .. } => StreamKind::Kick,
        }
    }
}

/// The decisions of both runs at a difference. `None` if a run did not make a matching decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Time of the earlier of the two decisions, in ns.
    pub time: u64,
    pub sides: [Option<Decision>; 2],
}

impl Mismatch {
    /// Sort key: the time. Differences at the same time are sorted by the sequence numbers of their
    /// decisions.
    fn order(&self) -> (u64, Option<u64>, Option<u64>) {
        let numbers = self.sides.iter().flatten().map(|decision| decision.number);
        (self.time, numbers.clone().min(), numbers.max())
    }
}

/// Matches the decisions of two runs, stream by stream.
#[derive(Debug, Default)]
pub struct Streams {
    kinds: Vec<StreamKind>,
    /// Decisions whose counterpart in the other run is not known yet. In each stream, at most one
    /// of the two runs has such decisions.
    pending: [BTreeMap<Stream, VecDeque<Decision>>; 2],
    /// Streams in which a difference was found. Later decisions in them are ignored.
    mismatched: BTreeSet<Stream>,
    first: Option<Mismatch>,
    /// Largest difference between the times of equal decisions, in ns.
    lag: u64,
    /// Time differences between equal decisions, in ns. The key consists of the earlier of the two
    /// times and the sequence number of run 0's decision. An entry moves to `settled` when it is
    /// certain that the first difference is later.
    recent: BTreeMap<(u64, u64), u64>,
    /// Summary of the entries that were removed from `recent`: their number, and the largest time
    /// difference in ns.
    settled: (u64, u64),
}

impl Streams {
    pub fn new(kinds: &[StreamKind]) -> Streams {
        Streams {
            kinds: kinds.to_vec(),
            ..Streams::default()
        }
    }

    /// Adds a decision of run 0 or 1 (`side`). The decisions of a run must be added in the order in
    /// which the run made them.
    pub fn take(&mut self, side: usize, decision: &Decision) {
        if !self.kinds.contains(&StreamKind::from_decision(&decision.what)) {
            return;
        }
        let stream = match decision.what {
            DecisionKind::Cpu { pid, .. } | DecisionKind::Insert { pid, .. } | DecisionKind::Take { pid, .. } => {
                Stream::Task(pid)
            }
            DecisionKind::Run { .. } => Stream::Runs(decision.cpu),
            DecisionKind::Kick { .. } => Stream::Kicks(decision.cpu),
        };
        if self.mismatched.contains(&stream) {
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
            let a = if side == 0 { decision } else { &other };
            self.recent.insert((other.time.min(decision.time), a.number), lag);
            return;
        }
        let mut sides = [Some(other), Some(*decision)];
        if side == 0 {
            sides.reverse();
        }
        self.add_mismatch(stream, other.time.min(decision.time), sides);
    }

    fn add_mismatch(&mut self, stream: Stream, time: u64, sides: [Option<Decision>; 2]) {
        self.mismatched.insert(stream);
        for pending in &mut self.pending {
            pending.remove(&stream);
        }
        let mismatch = Mismatch { time, sides };
        if self.first.is_none_or(|first| mismatch.order() < first.order()) {
            self.first = Some(mismatch);
        }
    }

    /// Returns the first difference as soon as it is certain that no earlier difference will be
    /// found. `clocks` contains the time that each run has reached, or `u64::MAX` if the run has
    /// ended by itself.
    pub fn first_certain(&mut self, clocks: [u64; 2]) -> Option<Mismatch> {
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
                self.add_mismatch(stream, decision.time, sides);
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

    /// Returns the number of equal decisions before a difference, and the largest difference
    /// between their times in ns. Without a difference, all equal decisions count.
    pub fn equal_before(&self, mismatch: Option<&Mismatch>) -> (u64, u64) {
        let end = mismatch.map(|mismatch| (mismatch.time, mismatch.sides[0].map_or(0, |a| a.number)));
        let recent = self.recent.range(..end.unwrap_or((u64::MAX, u64::MAX)));
        recent.fold(self.settled, |(count, most), (_, &lag)| (count + 1, most.max(lag)))
    }

    /// Returns the first difference. Both runs have ended, at the times `clocks`.
    pub fn first_at_end(&mut self, clocks: [u64; 2]) -> Option<Mismatch> {
        let _ = self.first_certain(clocks);
        self.first
    }
}

/// Returns whether two decisions are equal. The task's vtime and the task that ran before are
/// ignored, because small differences of times change them.
fn same(a: &DecisionKind, b: &DecisionKind) -> bool {
    match (*a, *b) {
        (DecisionKind::Cpu { cpu: a, .. }, DecisionKind::Cpu { cpu: b, .. }) => a == b,
        (
            DecisionKind::Insert {
                dsq: a,
                slice: a_slice,
                vtime: a_vtime,
                flags: a_flags,
                ..
            },
            DecisionKind::Insert {
                dsq: b,
                slice: b_slice,
                vtime: b_vtime,
                flags: b_flags,
                ..
            },
        ) => (a, a_slice, a_flags, a_vtime.is_some()) == (b, b_slice, b_flags, b_vtime.is_some()),
        (DecisionKind::Take { dsq: a, cpu: on_a, .. }, DecisionKind::Take { dsq: b, cpu: on_b, .. }) => {
            (a, on_a) == (b, on_b)
        }
        (DecisionKind::Run { pid: a, .. }, DecisionKind::Run { pid: b, .. }) => a == b,
        (
            DecisionKind::Kick {
                target: a,
                flags: for_a,
            },
            DecisionKind::Kick {
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
        let what = DecisionKind::Run { pid, prev: 0 };
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
    fn later_and_reordered_decisions_are_equal() {
        let mut streams = Streams::new(&StreamKind::ALL);
        for turn in 0..100 {
            streams.take(0, &run(2 * turn, 1000 * turn, 0, turn as u32));
            streams.take(0, &run(2 * turn + 1, 1000 * turn + 1, 1, turn as u32));
        }
        // In run 1, the decisions are later, and CPU 1 decides before CPU 0.
        for turn in 0..100 {
            streams.take(1, &run(2 * turn, 1010 * turn, 1, turn as u32));
            streams.take(1, &run(2 * turn + 1, 1010 * turn + 5, 0, turn as u32));
        }
        assert_eq!(streams.first_at_end(LATER), None);
        assert_eq!(streams.equal_before(None), (200, 995));
    }

    #[test]
    fn the_earliest_difference_counts_in_any_order_of_adding() {
        let mut streams = Streams::new(&StreamKind::ALL);
        for decision in [run(0, 10, 0, 1), run(1, 50, 0, 2), run(2, 60, 1, 7)] {
            streams.take(0, &decision);
        }
        // CPU 1 differs at time 60 and is added first. CPU 0 differs at time 50.
        for decision in [run(0, 11, 0, 1), run(1, 61, 1, 8), run(2, 70, 0, 3)] {
            streams.take(1, &decision);
        }
        let first = streams.first_at_end(LATER).expect("the runs differ");
        assert_eq!(first.time, 50);
        assert_eq!(
            first
                .sides
                .map(|side| side.expect("both runs have the decision").number),
            [1, 2]
        );
        assert_eq!(streams.equal_before(Some(&first)), (1, 1));
    }

    #[test]
    fn a_decision_without_a_counterpart_is_a_difference() {
        let mut streams = Streams::new(&StreamKind::ALL);
        streams.take(1, &run(0, 1000, 3, 9));
        assert_eq!(
            streams.first_certain([5000, 2000]),
            None,
            "a counterpart may still follow"
        );
        streams.take(0, &run(0, 90_000_000, 0, 1));
        let mismatch = streams
            .first_certain([90_000_000, 95_000_000])
            .expect("the runs differ");
        assert_eq!((mismatch.time, mismatch.sides[0]), (1000, None));
        // A decision just before the end of the run is no difference, because its counterpart may
        // come after the end.
        let mut streams = Streams::new(&StreamKind::ALL);
        streams.take(0, &run(0, 99_999_000, 0, 1));
        assert_eq!(streams.first_at_end([100_000_000; 2]), None);
    }

    #[test]
    fn kinds_that_are_not_requested_do_not_count() {
        let mut streams = Streams::new(&StreamKind::EFFECTS);
        let kick = Decision {
            what: DecisionKind::Kick { target: 1, flags: 0 },
            ..run(0, 5, 0, 0)
        };
        streams.take(0, &kick);
        assert_eq!(streams.first_at_end(LATER), None);
    }
}
