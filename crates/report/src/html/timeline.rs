// SPDX-License-Identifier: GPL-2.0-only
//! The timeline: which task ran on each CPU at which time. The memory that it takes is limited, and
//! therefore also the size of the page.
//!
//! A turn is the time between two switches of a CPU. At first, each turn becomes a segment: an
//! interval of the timeline. When the number of segments reaches its limit (the budget), turns that
//! are shorter than a threshold (the quantum) are merged with their neighbours. The quantum grows
//! by a quarter until the segments fit. A long run is therefore shown with less detail, but without
//! gaps.
//!
//! A merged segment stores how long the CPU was busy, the number of turns, and the task with the
//! longest turn.

use super::pack;

/// Task indices that stand for an idle and for an offline CPU.
pub const IDLE: u32 = 0;
pub const OFFLINE: u32 = 1;

/// The quantum in ns when segments are merged for the first time.
const LEAST_QUANTUM_NS: u64 = 1_000;

/// A segment: a part of a CPU's time, from the end of the previous segment to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub end: u64,
    pub task: u32,
    /// Number of turns in the segment. It is greater than 1 if the segment was merged.
    pub turns: u32,
    pub busy_ns: u64,
}

/// The segments of one CPU, and the task that runs on it now.
#[derive(Clone, Debug)]
struct Row {
    segments: Vec<Segment>,
    task: u32,
}

/// The segments of all CPUs.
#[derive(Clone, Debug)]
pub struct Timeline {
    rows: Vec<Row>,
    count: usize,
    budget: usize,
    /// Segments shorter than this are merged. 0 means that no segments are merged.
    quantum_ns: u64,
}

impl Timeline {
    /// Returns the timeline of a machine whose CPUs are idle. It will have at most about `budget`
    /// segments.
    pub fn new(nr_cpus: usize, budget: usize) -> Timeline {
        let row = Row {
            segments: Vec::new(),
            task: IDLE,
        };
        Timeline {
            rows: vec![row; nr_cpus],
            count: 0,
            // Every CPU needs a few segments.
            budget: budget.max(4 * nr_cpus),
            quantum_ns: 0,
        }
    }

    /// Starts a turn: `task` runs on a CPU from now on.
    #[inline]
    pub fn switch(&mut self, cpu: usize, now: u64, task: u32) {
        let row = &mut self.rows[cpu];
        let begin = row.segments.last().map_or(0, |segment| segment.end);
        if now > begin {
            row.segments.push(turn(begin, now, row.task));
            self.count += 1;
        }
        row.task = task;
        if self.count > self.budget {
            self.coarsen();
        }
    }

    pub fn quantum_ns(&self) -> u64 {
        self.quantum_ns
    }

    /// Ends all turns at the end of the run.
    pub fn finish(&mut self, end: u64) {
        for cpu in 0..self.rows.len() {
            let task = self.rows[cpu].task;
            self.switch(cpu, end, task);
        }
        // The turns since the last call of coarsen() are not merged yet. They are merged here, so
        // that the whole run is shown with the same level of detail.
        if self.quantum_ns > 0 {
            self.merge();
        }
    }

    #[cold]
    fn coarsen(&mut self) {
        // The turns since the last call of this function are not merged yet.
        if self.quantum_ns > 0 {
            self.merge();
        }
        // Every CPU keeps at least one segment, so the number of segments may stay above the limit.
        // The limit on the quantum then ends the loop.
        while self.count > self.budget / 4 * 3 && self.quantum_ns < u64::MAX / 4 {
            self.quantum_ns = (self.quantum_ns / 4 * 5).max(LEAST_QUANTUM_NS);
            self.merge();
        }
    }

    fn merge(&mut self) {
        let quantum = self.quantum_ns;
        self.rows.iter_mut().for_each(|row| row.coarsen(quantum));
        self.count = self.rows.iter().map(|row| row.segments.len()).sum();
    }

    /// Returns the packed timeline for the page. For each CPU, it contains the number of segments,
    /// and then these numbers of each segment:
    ///
    /// - `2 * length`, plus 1 if the segment was merged;
    /// - the index of the task;
    /// - only for merged segments: the number of turns, and the busy share in 255ths as one byte.
    ///
    /// All numbers except the busy share are varints.
    pub fn packed(&self) -> String {
        let mut bytes = Vec::new();
        for row in &self.rows {
            pack::varint(row.segments.len() as u64, &mut bytes);
            let mut begin = 0;
            for segment in &row.segments {
                let ns = segment.end - begin;
                let merged = segment.turns > 1;
                pack::varint(ns << 1 | u64::from(merged), &mut bytes);
                pack::varint(u64::from(segment.task), &mut bytes);
                if merged {
                    pack::varint(u64::from(segment.turns), &mut bytes);
                    let share = (u128::from(segment.busy_ns) * 255).div_ceil(u128::from(ns.max(1)));
                    bytes.push(share.min(255) as u8);
                }
                begin = segment.end;
            }
        }
        pack::packed(&bytes)
    }
}

fn turn(begin: u64, end: u64, task: u32) -> Segment {
    let busy = task != IDLE && task != OFFLINE;
    Segment {
        end,
        task,
        turns: 1,
        busy_ns: if busy { end - begin } else { 0 },
    }
}

/// The segments that are being merged into one.
#[derive(Default)]
struct Merge {
    last: Option<Segment>,
    begin: u64,
    turns: u32,
    busy_ns: u64,
    longest_ns: u64,
    task: u32,
}

impl Merge {
    fn add(&mut self, begin: u64, segment: Segment) {
        if self.last.is_none() {
            *self = Merge {
                begin,
                ..Merge::default()
            };
        }
        self.turns = self.turns.saturating_add(segment.turns);
        self.busy_ns += segment.busy_ns;
        if segment.busy_ns > self.longest_ns {
            (self.longest_ns, self.task) = (segment.busy_ns, segment.task);
        }
        self.last = Some(segment);
    }

    fn close(&mut self, into: &mut Vec<Segment>) {
        if let Some(last) = self.last.take() {
            into.push(Segment {
                end: last.end,
                task: self.task,
                turns: self.turns,
                busy_ns: self.busy_ns,
            });
        }
    }
}

impl Row {
    fn coarsen(&mut self, quantum_ns: u64) {
        let mut coarse = Vec::with_capacity(self.segments.len() / 2);
        let mut merge = Merge::default();
        let mut begin = 0;
        for &segment in &self.segments {
            if segment.end - begin >= quantum_ns || segment.task == OFFLINE {
                merge.close(&mut coarse);
                coarse.push(segment);
            } else {
                merge.add(begin, segment);
                if segment.end - merge.begin >= quantum_ns {
                    merge.close(&mut coarse);
                }
            }
            begin = segment.end;
        }
        merge.close(&mut coarse);
        self.segments = coarse;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a timeline with turns of 100 ns by tasks 2 and 3. Every third turn is idle. The last
    /// turn takes 1 ms.
    fn run(budget: usize) -> Timeline {
        let mut timeline = Timeline::new(2, budget);
        for turn in 0..3_000u64 {
            let task = if turn % 3 == 2 { IDLE } else { 2 + (turn % 2) as u32 };
            timeline.switch(0, turn * 100, task);
        }
        timeline.switch(0, 300_000, 9);
        timeline.switch(0, 1_300_000, IDLE);
        timeline.finish(2_000_000);
        timeline
    }

    fn busy(timeline: &Timeline) -> u64 {
        timeline.rows[0].segments.iter().map(|segment| segment.busy_ns).sum()
    }

    #[test]
    fn every_turn_is_kept_within_the_budget() {
        let timeline = run(10_000);
        let segments = &timeline.rows[0].segments;
        assert_eq!((segments.len(), timeline.quantum_ns()), (3_002, 0));
        assert_eq!(segments[0], turn(0, 100, 2));
        assert_eq!(segments[2], turn(200, 300, IDLE));
        assert_eq!(segments[3_000], turn(300_000, 1_300_000, 9));
        assert_eq!(timeline.rows[1].segments, [turn(0, 2_000_000, IDLE)]);
    }

    #[test]
    fn beyond_the_budget_turns_are_merged_without_losing_time() {
        let (fine, coarse) = (run(10_000), run(100));
        assert!(coarse.count <= 100, "{}", coarse.count);
        assert_eq!(busy(&fine), busy(&coarse));
        let segments = &coarse.rows[0].segments;
        assert_eq!(segments.last().map(|segment| segment.end), Some(2_000_000));
        assert_eq!(segments.iter().map(|segment| segment.turns).sum::<u32>(), 3_002);
        // A long turn is never merged.
        assert!(segments.contains(&turn(300_000, 1_300_000, 9)));
        let merged = segments[0];
        assert!(merged.turns > 1 && merged.task != IDLE && merged.busy_ns < merged.end);
    }

    #[test]
    fn offline_time_is_never_merged() {
        let mut timeline = Timeline::new(1, 4);
        for turn in 0..100u64 {
            let task = if turn == 50 { OFFLINE } else { 2 };
            timeline.switch(0, turn * 100, task);
        }
        timeline.finish(10_000);
        assert!(timeline.rows[0].segments.contains(&turn(5_000, 5_100, OFFLINE)));
    }
}
