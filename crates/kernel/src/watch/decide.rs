// SPDX-License-Identifier: GPL-2.0-only
//! Notes decisions as they are made ([`decision`](super::decision)).

use super::decision::*;
use crate::machine::Machine;
use crate::policy::callbacks::Op;
use crate::simulation::id::{IDLE, TaskId};

impl Machine {
    /// A handler begins that may decide something.
    #[inline]
    pub(crate) fn deciding(&mut self, handler: Handler, task: TaskId) {
        if self.decisions.on {
            self.keep_state(handler, task);
        }
    }

    #[cold]
    fn keep_state(&mut self, handler: Handler, task: TaskId) {
        // What a callback returns without having called anything is told of its beginning.
        if handler == Handler::SelectCpu && self.ext.has_policy() {
            let vm = self.ext.vm();
            let function = self.ext.ops().function(Op::SelectCpu);
            if let Some(function) = function.and_then(|index| vm.code().functions.get(index)) {
                vm.set_pc(function.start);
            }
        }
        let decisions = &self.decisions;
        let soon = |wanted: u64| (decisions.nr..decisions.nr + EARLY).contains(&wanted);
        if decisions.wanted.is_some_and(soon) {
            self.decisions.latest[handler as usize] = Some(self.snapshot(task));
        }
    }

    /// Notes a decision. The callback on the way, if one is, made it.
    #[inline]
    pub(crate) fn decided(&mut self, what: impl FnOnce(&Machine) -> What) {
        if self.decisions.on {
            self.note(what(self), None);
        }
    }

    /// The same of a callback that has returned, if one was asked.
    #[inline]
    pub(crate) fn decided_by(&mut self, op: Option<Op>, what: impl FnOnce(&Machine) -> What) {
        if self.decisions.on {
            self.note(what(self), op);
        }
    }

    #[cold]
    fn note(&mut self, what: What, op: Option<Op>) {
        let op = op.or(self.ext.frame.op).filter(|_| self.ext.has_policy());
        let by = op.map(|op| (op, self.ext.vm().pc()));
        let number = self.decisions.nr;
        self.decisions.nr += 1;
        self.decisions.noted.push(Decision {
            number,
            time: self.now,
            cpu: self.this_cpu.nr(),
            what,
            by,
        });
        if self.decisions.wanted == Some(number) {
            let handler = match (what, op) {
                (What::Run { .. } | What::Take { .. }, _) | (_, Some(Op::Dispatch)) => Handler::Schedule,
                (What::Cpu { .. }, _) | (_, Some(Op::SelectCpu)) => Handler::SelectCpu,
                (_, Some(Op::Enqueue)) => Handler::Enqueue,
                // Some other callback's: what there is now.
                _ => {
                    self.decisions.seen = Some(self.snapshot(IDLE));
                    return;
                }
            };
            let latest = self.decisions.latest[handler as usize].take();
            self.decisions.seen = Some(latest.unwrap_or_else(|| self.snapshot(IDLE)));
        }
    }

    /// Where a decision was made: "function (file:line: source text)".
    pub fn place(&self, decision: &Decision) -> Option<String> {
        let (_, pc) = decision.by?;
        self.ext.last_vm().map(|vm| vm.code().describe_caller(pc))
    }
}
