// SPDX-License-Identifier: GPL-2.0-only
//! Finds the structure of rt-app files, which consist of phases, in the steps of a program.

use crate::program::{Dist, Op, Program};

/// Structure of a program: an optional delay, then the phases, which may be within a loop.
pub(super) struct Shape {
    pub(super) delay_us: u64,
    /// Index of the first step of the phases, and the index after the last.
    pub(super) body: (usize, usize),
    pub(super) rounds: Option<u64>,
}

impl Shape {
    pub(super) fn find(program: &Program) -> Option<Shape> {
        let ops = &program.ops;
        let mut at = 0;
        let mut delay_us = 0;
        let final_loop_end = |at: usize| loop_end(ops, at).filter(|end| end + 1 == ops.len());
        let timers = |from: usize| {
            let starts = ops[from..].iter().take_while(|op| {
                matches!(
                    op,
                    Op::Timer {
                        period: 0,
                        absolute: true,
                        ..
                    }
                )
            });
            starts.count()
        };
        // A sleep at the beginning is a delay if the task's loop or the start of its timers
        // follows.
        if let Some(Op::Sleep(Dist::Fixed(ns))) = ops.first()
            && ns.is_multiple_of(1000)
            && *ns > 0
            && (timers(1) > 0 || final_loop_end(1).is_some())
        {
            delay_us = ns / 1000;
            at = 1;
        }
        at += timers(at);
        if let Some(end) = final_loop_end(at)
            && let Op::LoopBack { times, .. } = ops[end]
        {
            return Some(Shape {
                delay_us,
                body: (at + 1, end),
                rounds: times,
            });
        }
        Some(Shape {
            delay_us,
            body: (at, ops.len()),
            rounds: Some(1),
        })
        .filter(|shape| shape.body.0 < shape.body.1)
    }

    /// Returns how many `Done` steps need not be written, because the reader of the file adds them:
    /// one at the end of each endless phase or, if there is no endless phase, one at the end of the
    /// program.
    pub(super) fn implicit_dones(&self, program: &Program) -> usize {
        let ops = &program.ops;
        let phases = segments(ops, self.body.0, self.body.1);
        let mut endless = phases.iter().filter(|(.., times)| times.is_none()).peekable();
        let counts = |at: usize| ops.get(at) == Some(&Op::Done { count: 1 });
        if endless.peek().is_none() {
            return usize::from(counts(self.body.1 - 1));
        }
        // If some endless phase has no `Done`, the reader must not add any. All `Done` steps must
        // then be written.
        let ends: Vec<bool> = endless.map(|(_, end, _)| counts(end - 2)).collect();
        if ends.iter().all(|end| *end) {
            ends.len()
        } else {
            usize::MAX
        }
    }
}

/// Returns the index of the end of the loop that begins at `at`, or `None` if no loop begins there.
pub(super) fn loop_end(ops: &[Op], at: usize) -> Option<usize> {
    let Some(Op::LoopInit { counter }) = ops.get(at) else {
        return None;
    };
    let is_end =
        |op: &Op| matches!(op, Op::LoopBack { counter: c, target, .. } if c == counter && *target as usize == at + 1);
    ops[at..].iter().position(is_end).map(|distance| at + distance)
}

pub(super) fn is_setting(op: &Op) -> bool {
    matches!(
        op,
        Op::Phase(_) | Op::SetAffinity(_) | Op::SetPolicy(_) | Op::SetSlice(_) | Op::SetCgroup(_)
    )
}

/// Divides the steps of a program into segments, which become phases. A segment consists of
/// settings, followed either by a loop or by the steps up to the next loop or setting. Returns
/// (begin, end, rounds) of each segment. Steps that do not have this structure are refused later.
pub(super) fn segments(ops: &[Op], begin: usize, end: usize) -> Vec<(usize, usize, Option<u64>)> {
    let mut segments = Vec::new();
    let mut at = begin;
    while at < end {
        let first = at;
        while at < end && is_setting(&ops[at]) {
            at += 1;
        }
        let mut times = Some(1);
        if let Some(back) = loop_end(ops, at).filter(|back| *back < end)
            && let Op::LoopBack { times: rounds, .. } = ops[back]
        {
            times = rounds;
            at = back + 1;
        } else {
            while at < end && !is_setting(&ops[at]) && loop_end(ops, at).is_none() {
                at += 1;
            }
        }
        segments.push((first, at, times));
    }
    segments
}
