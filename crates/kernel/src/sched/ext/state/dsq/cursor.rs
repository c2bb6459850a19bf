// SPDX-License-Identifier: GPL-2.0-only
//! Iterations over the tasks of a DSQ (bpf_iter_scx_dsq).
//!
//! If the task that an iteration visits next is removed from the DSQ, the iteration continues with
//! the task after it. Tasks that were inserted after the iteration began are skipped.

use crate::sched::ext::state::dsq::{DsqRef, Dsqs, NIL, some};
use crate::simulation::id::TaskId;

/// An iteration over a DSQ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    dsq: DsqRef,
    next: TaskId,
    reverse: bool,
    /// Value of the DSQ's insertion counter when the iteration began.
    seq: u32,
    /// Whether the iteration is in progress. If it is not, this entry can be reused.
    used: bool,
    /// Whether the first task has been visited. `next` is undefined until then.
    started: bool,
}

impl Dsqs {
    /// Returns the number of iterations in progress.
    pub fn nr_cursors(&self) -> usize {
        self.cursors.iter().filter(|cursor| cursor.used).count()
    }

    /// Starts an iteration. Returns its number, which identifies it in the other functions.
    pub(crate) fn cursor_new(&mut self, dsq: DsqRef, reverse: bool) -> u32 {
        let it = &mut self.dsqs[dsq];
        it.nr_cursors += 1;
        let cursor = Cursor {
            dsq,
            next: NIL,
            reverse,
            seq: it.seq,
            used: true,
            started: false,
        };
        match self.cursors.iter().position(|cursor| !cursor.used) {
            Some(free) => {
                self.cursors[free] = cursor;
                free as u32
            }
            None => {
                self.cursors.push(cursor);
                self.cursors.len() as u32 - 1
            }
        }
    }

    /// Returns the next task of an iteration, or `None` after the last task. The call after that
    /// starts again with the first task.
    pub(crate) fn cursor_next(&mut self, cursor: u32) -> Option<TaskId> {
        let Cursor {
            dsq,
            reverse,
            seq,
            started,
            next,
            ..
        } = self.cursors[cursor as usize];
        let it = &self.dsqs[dsq];
        let mut at = match (started, reverse) {
            (true, _) => next,
            (false, false) => it.head,
            (false, true) => it.tail,
        };
        // Tasks that were queued after the iteration began are skipped.
        while at != NIL && (seq.wrapping_sub(self.nodes[at].seq) as i32) < 0 {
            at = self.after(at, reverse);
        }
        let next = if at == NIL { NIL } else { self.after(at, reverse) };
        let cursor = &mut self.cursors[cursor as usize];
        cursor.next = next;
        cursor.started = at != NIL;
        some(at)
    }

    fn after(&self, task: TaskId, reverse: bool) -> TaskId {
        let node = &self.nodes[task];
        if reverse { node.prev } else { node.next }
    }

    /// Returns whether a task is on the iteration's DSQ and was there when the iteration began.
    pub(crate) fn cursor_has(&self, cursor: u32, task: TaskId) -> bool {
        let Some(cursor) = self.cursors.get(cursor as usize) else {
            return false;
        };
        let Some(node) = self.nodes.get(task.slot() as usize) else {
            return false;
        };
        cursor.used && node.dsq == cursor.dsq && (cursor.seq.wrapping_sub(node.seq) as i32) >= 0
    }

    /// Returns the DSQ of an iteration.
    pub(crate) fn cursor_dsq(&self, cursor: u32) -> Option<DsqRef> {
        self.cursors
            .get(cursor as usize)
            .filter(|cursor| cursor.used)
            .map(|cursor| cursor.dsq)
    }

    pub fn cursor_drop(&mut self, cursor: u32) {
        let Some(cursor) = self.cursors.get_mut(cursor as usize).filter(|cursor| cursor.used) else {
            return;
        };
        cursor.used = false;
        let dsq = cursor.dsq;
        let it = &mut self.dsqs[dsq];
        it.nr_cursors -= 1;
        if !it.alive && it.nr_cursors == 0 {
            self.free.push(dsq);
        }
    }

    /// Ends all iterations. This is necessary after a fault of the BPF program that started them,
    /// because the program can no longer end them itself.
    pub fn cursors_drop_all(&mut self) {
        for cursor in 0..self.cursors.len() as u32 {
            self.cursor_drop(cursor);
        }
    }

    /// Advances all iterations that would visit `task` next, because `task` is removed from the
    /// DSQ.
    pub(crate) fn cursors_pass(&mut self, dsq: DsqRef, task: TaskId, prev: TaskId, next: TaskId) {
        for cursor in &mut self.cursors {
            if cursor.used && cursor.dsq == dsq && cursor.next == task {
                cursor.next = if cursor.reverse { prev } else { next };
            }
        }
    }
}
