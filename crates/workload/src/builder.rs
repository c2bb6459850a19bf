// SPDX-License-Identifier: GPL-2.0-only
//! A builder of programs, which turns loops into counters and jumps.

use crate::program::{Op, Program};

/// A program under construction.
#[derive(Default)]
pub struct Builder {
    ops: Vec<Op>,
    counters: u32,
}

/// A loop that has begun but not ended. It must be passed to [`Builder::end_loop`].
#[must_use]
pub struct Loop {
    counter: u32,
    times: Option<u64>,
    body: usize,
    /// Whether the loop has only one round and therefore needs no counter and no jump.
    plain: bool,
}

impl Builder {
    /// Appends a step.
    pub fn op(&mut self, op: Op) -> &mut Builder {
        self.ops.push(op);
        self
    }

    /// Appends several steps.
    pub fn ops(&mut self, ops: impl IntoIterator<Item = Op>) -> &mut Builder {
        self.ops.extend(ops);
        self
    }

    /// Returns the index of the next step.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Begins a loop over the following steps. `times` is the number of rounds; `None` means
    /// endless.
    pub fn begin_loop(&mut self, times: Option<u64>) -> Loop {
        let plain = times == Some(1);
        let counter = self.counters;
        if !plain {
            self.counters += 1;
            self.ops.push(Op::LoopInit { counter });
        }
        Loop {
            counter,
            times,
            body: self.ops.len(),
            plain,
        }
    }

    pub fn end_loop(&mut self, begun: Loop) {
        if !begun.plain {
            self.ops.push(Op::LoopBack {
                counter: begun.counter,
                times: begun.times,
                target: input::index(begun.body),
            });
        }
    }

    /// Appends a loop over the steps that `body` appends.
    pub fn repeat(&mut self, times: Option<u64>, body: impl FnOnce(&mut Builder)) -> &mut Builder {
        let begun = self.begin_loop(times);
        body(self);
        self.end_loop(begun);
        self
    }

    pub fn finish(self) -> Program {
        Program {
            ops: self.ops,
            counters: self.counters,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_nest() {
        let mut b = Builder::default();
        b.repeat(None, |b| {
            b.op(Op::Yield).repeat(Some(3), |b| {
                b.op(Op::Yield).repeat(Some(1), |b| {
                    b.op(Op::Exit);
                });
            });
        });
        let program = b.finish();
        assert_eq!(program.counters, 2);
        assert_eq!(
            program.ops,
            [
                Op::LoopInit { counter: 0 },
                Op::Yield,
                Op::LoopInit { counter: 1 },
                Op::Yield,
                Op::Exit,
                Op::LoopBack {
                    counter: 1,
                    times: Some(3),
                    target: 3
                },
                Op::LoopBack {
                    counter: 0,
                    times: None,
                    target: 1
                },
            ]
        );
    }
}
