// SPDX-License-Identifier: GPL-2.0-only
//! Orders the spans of time during which a CPU executes a callback or waits for a lock.
//!
//! Spans are nested like a call stack. A callback is recorded when it returns, so nested callbacks
//! are recorded before the callback that contains them. In addition, all records of an entry into
//! the kernel have the same time, which is the time of the entry and not the time at which the span
//! began. This module computes when each span began and ended.

use crate::event::{Event, Record};
use std::cmp::Reverse;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanKind {
    Callback { op: u16, insns: u32 },
    LockWait { lock: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    Begin(SpanKind),
    End,
}

#[derive(Clone, Copy)]
struct Span {
    cpu: u32,
    begin: u64,
    end: u64,
    kind: SpanKind,
}

/// Collects the spans of one entry into the kernel and sorts them.
#[derive(Default)]
pub(super) struct Spans {
    time: u64,
    pending: Vec<Span>,
    /// Time at which the last span ends, for each CPU.
    busy_until: Vec<u64>,
}

impl Spans {
    /// Adds a record. When all records of an entry into the kernel have been added, calls `emit`
    /// with (time, CPU, edge) for the beginning and the end of each span. The times of one CPU
    /// never decrease.
    pub fn add(&mut self, record: &Record, emit: &mut dyn FnMut(u64, u32, Edge)) {
        let (after, ns, kind) = match record.event {
            Event::Callback { op, insns, after, ns } => (after, u64::from(ns), SpanKind::Callback { op, insns }),
            Event::LockWait { lock, after, ns } => (after, ns, SpanKind::LockWait { lock }),
            _ => return,
        };
        if record.time != self.time {
            self.finish(emit);
            self.time = record.time;
        }
        let begin = record.time + u64::from(after);
        self.pending.push(Span {
            cpu: record.cpu,
            begin,
            end: begin + ns,
            kind,
        });
    }

    /// Emits the beginning and the end of each collected span.
    pub fn finish(&mut self, emit: &mut dyn FnMut(u64, u32, Edge)) {
        let mut spans = std::mem::take(&mut self.pending);
        // If two spans have equal times, the span that was recorded later contains the span that
        // was recorded earlier.
        spans.reverse();
        spans.sort_by_key(|span| (span.cpu, span.begin, Reverse(span.end)));
        let mut open: Vec<u64> = Vec::new();
        for (index, span) in spans.iter().enumerate() {
            let cpu = span.cpu as usize;
            self.busy_until.resize(self.busy_until.len().max(cpu + 1), 0);
            let begin = span.begin.max(self.busy_until[cpu]);
            while let Some(end) = open.pop_if(|end| *end <= begin) {
                emit(end, span.cpu, Edge::End);
            }
            let end = span.end.max(begin).min(open.last().copied().unwrap_or(u64::MAX));
            emit(begin, span.cpu, Edge::Begin(span.kind));
            open.push(end);
            if spans.get(index + 1).is_none_or(|next| next.cpu != span.cpu) {
                self.busy_until[cpu] = open.iter().copied().max().unwrap_or(0).max(begin);
                while let Some(end) = open.pop() {
                    emit(end, span.cpu, Edge::End);
                }
            }
        }
        spans.clear();
        self.pending = spans;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_nested_and_in_order_of_their_begin() {
        let callback = |op, after, ns| Event::Callback {
            op,
            insns: 5,
            after,
            ns,
        };
        let wait = |lock, after, ns| Event::LockWait { lock, after, ns };
        let mut edges = Vec::new();
        let mut emit = |time, cpu, edge| {
            edges.push(match edge {
                Edge::Begin(SpanKind::Callback { op, .. }) => format!("{time} cpu{cpu} op{op}"),
                Edge::Begin(SpanKind::LockWait { lock }) => format!("{time} cpu{cpu} lock{lock}"),
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
            (120, 0, callback(5, 10, 60)), // begins while the CPU is busy until 170
        ] {
            spans.add(
                &Record {
                    time,
                    cpu,
                    after: 0,
                    event,
                },
                &mut emit,
            );
        }
        spans.finish(&mut emit);
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
        assert_eq!(edges, want);
    }
}
