// SPDX-License-Identifier: GPL-2.0-only
//! Callbacks and waits for locks as spans of each CPU's time that nest.
//!
//! Records tell a callback when it ended, those within it before it, and all of them at the instant the kernel was
//! entered. Here they are put in the order in which they began.

use crate::event::{Event, Record};
use std::cmp::Reverse;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Callback { op: u16, insns: u32 },
    LockWait { lock: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    Begin(What),
    End,
}

#[derive(Clone, Copy)]
struct Span {
    cpu: u32,
    begin: u64,
    end: u64,
    what: What,
}

/// Gathers the spans of one instant.
#[derive(Default)]
pub(super) struct Spans {
    time: u64,
    gathered: Vec<Span>,
    /// When the last span of each CPU was over.
    over: Vec<u64>,
}

impl Spans {
    /// Takes a record in; `tell` gets (time, CPU, edge) of spans that are complete. Within a CPU, times do not go back.
    pub fn add(&mut self, record: &Record, tell: &mut dyn FnMut(u64, u32, Edge)) {
        let (after, ns, what) = match record.event {
            Event::Callback { op, insns, after, ns } => (after, u64::from(ns), What::Callback { op, insns }),
            Event::LockWait { lock, after, ns } => (after, ns, What::LockWait { lock }),
            _ => return,
        };
        if record.time != self.time {
            self.finish(tell);
            self.time = record.time;
        }
        let begin = record.time + u64::from(after);
        self.gathered.push(Span {
            cpu: record.cpu,
            begin,
            end: begin + ns,
            what,
        });
    }

    /// Tells the spans that were gathered.
    pub fn finish(&mut self, tell: &mut dyn FnMut(u64, u32, Edge)) {
        let mut spans = std::mem::take(&mut self.gathered);
        // The order of records decides between equals: what was told later is around what was told before.
        spans.reverse();
        spans.sort_by_key(|span| (span.cpu, span.begin, Reverse(span.end)));
        let mut open: Vec<u64> = Vec::new();
        for (index, span) in spans.iter().enumerate() {
            let cpu = span.cpu as usize;
            self.over.resize(self.over.len().max(cpu + 1), 0);
            let begin = span.begin.max(self.over[cpu]);
            while let Some(end) = open.pop_if(|end| *end <= begin) {
                tell(end, span.cpu, Edge::End);
            }
            let end = span.end.max(begin).min(open.last().copied().unwrap_or(u64::MAX));
            tell(begin, span.cpu, Edge::Begin(span.what));
            open.push(end);
            if spans.get(index + 1).is_none_or(|next| next.cpu != span.cpu) {
                self.over[cpu] = open.iter().copied().max().unwrap_or(0).max(begin);
                while let Some(end) = open.pop() {
                    tell(end, span.cpu, Edge::End);
                }
            }
        }
        spans.clear();
        self.gathered = spans;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_nest_in_the_order_they_began() {
        let callback = |op, after, ns| Event::Callback {
            op,
            insns: 5,
            after,
            ns,
        };
        let wait = |lock, after, ns| Event::LockWait { lock, after, ns };
        let mut told = Vec::new();
        let mut tell = |time, cpu, edge| {
            told.push(match edge {
                Edge::Begin(What::Callback { op, .. }) => format!("{time} cpu{cpu} op{op}"),
                Edge::Begin(What::LockWait { lock }) => format!("{time} cpu{cpu} lock{lock}"),
                Edge::End => format!("{time} cpu{cpu} end"),
            });
        };
        let mut spans = Spans::default();
        for (time, cpu, event) in [
            (100, 0, wait(9, 0, 10)),
            (100, 0, wait(8, 20, 10)),
            (100, 0, callback(2, 15, 30)),
            (100, 0, callback(1, 15, 50)),
            (100, 1, callback(3, 5, 0)),
            (100, 0, callback(4, 65, 5)),
            (120, 0, callback(5, 10, 60)), // the CPU was busy until 170
        ] {
            spans.add(&Record { time, cpu, event }, &mut tell);
        }
        spans.finish(&mut tell);
        let want = [
            "100 cpu0 lock9",
            "110 cpu0 end",
            "115 cpu0 op1",
            "115 cpu0 op2",
            "120 cpu0 lock8",
            "130 cpu0 end",
            "145 cpu0 end",
            "165 cpu0 end",
            "165 cpu0 op4",
            "170 cpu0 end",
            "105 cpu1 op3",
            "105 cpu1 end",
            "170 cpu0 op5",
            "190 cpu0 end",
        ];
        assert_eq!(told, want);
    }
}
