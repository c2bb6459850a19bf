// SPDX-License-Identifier: GPL-2.0-only
//! The treap that keeps the tasks of a DSQ in vtime order.
//!
//! A treap is a binary search tree whose nodes have random priorities, which keep the tree shallow.
//! Tasks with equal vtimes are in order of insertion. The list of the DSQ and its tree always have
//! the same order: the tree search determines the neighbour next to which the task is put in the
//! list, and rotations do not change the order. This holds even for vtimes for which
//! time_before64() defines no order.

use crate::sched::ext::state::dsq::{DsqRef, Dsqs, NIL, Node, some};
use crate::simulation::id::TaskId;

impl Dsqs {
    /// Inserts a task into the treap and returns its predecessor in order, or NIL.
    pub(crate) fn treap_insert(&mut self, dsq: DsqRef, task: TaskId, vtime: u64) -> TaskId {
        self.weights ^= self.weights << 13;
        self.weights ^= self.weights >> 17;
        self.weights ^= self.weights << 5;
        self.nodes[task].weight = self.weights;
        let (mut at, mut parent, mut before, mut left) = (self.spine(dsq, vtime), NIL, NIL, false);
        while at != NIL {
            parent = at;
            let node = &self.nodes[at];
            // This comparison is time_before64() of the kernel.
            left = (vtime.wrapping_sub(node.vtime) as i64) < 0;
            if left {
                at = node.left;
            } else {
                before = at;
                at = node.right;
            }
        }
        self.nodes[task].parent = parent;
        if parent == NIL {
            self.dsqs[dsq].root = task;
            return NIL;
        }
        if left {
            self.nodes[parent].left = task;
        } else {
            self.nodes[parent].right = task;
        }
        loop {
            let parent = self.nodes[task].parent;
            if parent == NIL || self.nodes[parent].weight >= self.nodes[task].weight {
                return before;
            }
            self.rotate_up(dsq, task);
        }
    }

    /// Returns the node at which the search for the position of `vtime` starts. The function goes
    /// up from the last task to the first node whose vtime is not later than `vtime`, or to the
    /// root. This is faster than a search from the root, because most tasks are inserted near the
    /// end.
    #[inline]
    fn spine(&self, dsq: DsqRef, vtime: u64) -> TaskId {
        let it = &self.dsqs[dsq];
        if it.root == NIL {
            return NIL;
        }
        let mut at = it.tail;
        while at != it.root && (vtime.wrapping_sub(self.nodes[at].vtime) as i64) < 0 {
            at = self.nodes[at].parent;
        }
        at
    }

    /// Removes a task from the treap. Rotates the task down until it has at most one child.
    pub(crate) fn treap_remove(&mut self, dsq: DsqRef, task: TaskId) {
        loop {
            let Node {
                left, right, parent, ..
            } = self.nodes[task];
            if left != NIL && right != NIL {
                let heavier = self.nodes[left].weight >= self.nodes[right].weight;
                self.rotate_up(dsq, if heavier { left } else { right });
                continue;
            }
            let child = if left != NIL { left } else { right };
            if child != NIL {
                self.nodes[child].parent = parent;
            }
            self.replace_child(dsq, parent, task, child);
            return;
        }
    }

    /// Returns the first task of the tree with this root, or NIL if the tree is empty.
    pub(crate) fn treap_first(&self, root: TaskId) -> TaskId {
        let mut at = root;
        while at != NIL && self.nodes[at].left != NIL {
            at = self.nodes[at].left;
        }
        at
    }

    /// Returns the task that follows `task` in the tree's order, or NIL.
    pub(crate) fn treap_next(&self, task: TaskId) -> TaskId {
        let right = self.nodes[task].right;
        if right != NIL {
            return self.treap_first(right);
        }
        let mut at = task;
        loop {
            let parent = self.nodes[at].parent;
            if parent == NIL || self.nodes[parent].left == at {
                return parent;
            }
            at = parent;
        }
    }

    /// Rotates the tree so that `task` becomes the parent of its current parent.
    fn rotate_up(&mut self, dsq: DsqRef, task: TaskId) {
        let parent = self.nodes[task].parent;
        let grand = self.nodes[parent].parent;
        let moved = if self.nodes[parent].left == task {
            let moved = self.nodes[task].right;
            self.nodes[parent].left = moved;
            self.nodes[task].right = parent;
            moved
        } else {
            let moved = self.nodes[task].left;
            self.nodes[parent].right = moved;
            self.nodes[task].left = parent;
            moved
        };
        if moved != NIL {
            self.nodes[moved].parent = parent;
        }
        self.nodes[parent].parent = task;
        self.nodes[task].parent = grand;
        self.replace_child(dsq, grand, parent, task);
    }

    fn replace_child(&mut self, dsq: DsqRef, parent: TaskId, old: TaskId, new: TaskId) {
        if parent == NIL {
            self.dsqs[dsq].root = new;
        } else if self.nodes[parent].left == old {
            self.nodes[parent].left = new;
        } else {
            self.nodes[parent].right = new;
        }
    }

    /// Returns the tasks that the kernel compares with `task` when it inserts `task` into the tree
    /// of `dsq`. A DSQ in FIFO order has no tree.
    ///
    /// The kernel's red-black tree is balanced, so a search visits about log2(n) of n tasks. In the
    /// treap, the path is longer. Of its tasks, the ones nearest to the root are returned. The
    /// insertion may have rotated `task` up. The lower part of the path is then split into two
    /// paths below `task`.
    #[inline]
    pub(crate) fn search_path(&self, dsq: DsqRef, task: TaskId) -> impl Iterator<Item = TaskId> + '_ {
        let node = &self.nodes[task];
        let others = if node.on_priq { self.dsqs[dsq].nr - 1 } else { 0 };
        let levels = (u32::BITS - others.leading_zeros()) as usize;
        let (parent, left, right) = if levels > 0 {
            (node.parent, node.left, node.right)
        } else {
            (NIL, NIL, NIL)
        };
        // The path to the root is walked twice. In the first walk, `lead` is `levels` nodes ahead of
        // `from`. When it has reached the root, `from` is the lowest node of the upper part.
        let (mut from, mut lead, mut below) = (parent, parent, levels);
        while lead != NIL && below > 0 {
            lead = self.nodes[lead].parent;
            below -= 1;
        }
        while lead != NIL {
            lead = self.nodes[lead].parent;
            from = self.nodes[from].parent;
        }
        let upper = self.walk(from, |node| node.parent);
        let before = self.walk(left, |node| node.right);
        let behind = self.walk(right, |node| node.left);
        upper.chain(before.chain(behind).take(below))
    }

    /// Iterates over `from` and the tasks after it, up to the first task whose link is NIL.
    #[inline(always)]
    fn walk(&self, from: TaskId, link: impl Fn(&Node) -> TaskId) -> impl Iterator<Item = TaskId> {
        let mut at = from;
        std::iter::from_fn(move || {
            let here = some(at)?;
            at = link(&self.nodes[here]);
            Some(here)
        })
    }
}
