// SPDX-License-Identifier: GPL-2.0-only
//! Functions that record scheduling decisions when they are made (see
//! [`decision`](crate::watch::state::decision)).

use crate::layout::callbacks::Callback;
use crate::machine::Machine;
use crate::simulation::id::{IDLE, TaskId};
use crate::watch::state::decision::*;

impl Machine {
    /// Called at the start of a handler that may make a decision. Takes a snapshot of the machine
    /// if this handler may make the decision that the user has selected.
    #[inline]
    pub(crate) fn note_decision_handler(&mut self, handler: Handler, task: TaskId) {
        if self.decisions.on {
            self.keep_state(handler, task);
        }
    }

    #[cold]
    fn keep_state(&mut self, handler: Handler, task: TaskId) {
        // If a callback returns without calling any function, the decision is attributed to its
        // first instruction.
        if handler == Handler::SelectCpu && self.ext.has_policy() {
            let vm = self.ext.vm();
            let function = self.ext.ops().function(Callback::SelectCpu);
            if let Some(function) = function.and_then(|index| vm.code().functions.get(index)) {
                vm.set_pc(function.start);
            }
        }
        let decisions = &self.decisions;
        let soon = |wanted: u64| (decisions.nr..decisions.nr + EARLY).contains(&wanted);
        if decisions.wanted.is_some_and(soon) {
            self.decisions.latest[handler as usize] = Some(self.snapshot((task != IDLE).then(|| self.pid_of(task))));
        }
    }

    /// Records a decision. If a callback is running, the decision is attributed to it.
    #[inline]
    pub(crate) fn record_decision(&mut self, what: impl FnOnce(&Machine) -> DecisionKind) {
        if self.decisions.on {
            self.note(what(self), None);
        }
    }

    /// Records a decision that follows from the return value of the callback `op`. `op` is `None`
    /// if no callback was called.
    #[inline]
    pub(crate) fn record_decision_by(&mut self, op: Option<Callback>, what: impl FnOnce(&Machine) -> DecisionKind) {
        if self.decisions.on {
            self.note(what(self), op);
        }
    }

    #[cold]
    fn note(&mut self, what: DecisionKind, op: Option<Callback>) {
        let op = op.or(self.ext.frame.op).filter(|_| self.ext.has_policy());
        let by = op.map(|op| (op, self.ext.vm().pc()));
        let number = self.decisions.nr;
        self.decisions.nr += 1;
        self.decisions.recorded.push(Decision {
            number,
            time: self.now,
            cpu: self.this_cpu.nr(),
            what,
            by,
        });
        if self.decisions.wanted == Some(number) {
            let handler = match (what, op) {
                (DecisionKind::Run { .. } | DecisionKind::Take { .. }, _) | (_, Some(Callback::Dispatch)) => {
                    Handler::Schedule
                }
                (DecisionKind::Cpu { .. }, _) | (_, Some(Callback::SelectCpu)) => Handler::SelectCpu,
                (_, Some(Callback::Enqueue)) => Handler::Enqueue,
                // The decision was made in another callback, so the snapshot is taken now.
                _ => {
                    self.decisions.seen = Some(self.snapshot(None));
                    return;
                }
            };
            let latest = self.decisions.latest[handler as usize].take();
            self.decisions.seen = Some(latest.unwrap_or_else(|| self.snapshot(None)));
        }
    }

    /// Returns the source code that made a decision, in the form "function (file:line: source
    /// text)".
    pub fn place(&self, decision: &Decision) -> Option<String> {
        let (_, pc) = decision.by?;
        self.ext.last_vm().map(|vm| vm.code().describe_caller(pc))
    }
}
