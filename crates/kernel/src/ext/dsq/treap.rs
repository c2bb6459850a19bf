// SPDX-License-Identifier: GPL-2.0-only
//! The treap that keeps a DSQ in vtime order: a binary tree by vtime whose random priorities keep it shallow. Its nodes are
//! those of the list; equals are in order of arrival. Insertion and removal need no transitive order: the walk that finds a
//! task's place ends beside its neighbour in the list, whatever the comparisons say, and rotations keep that order.

use super::{DsqRef, Dsqs, NIL, Node};
use crate::task::TaskId;

impl Dsqs {
    /// Inserts into the treap; returns the task that comes before it in order, or NIL.
    pub(super) fn treap_insert(&mut self, dsq: DsqRef, task: TaskId, vtime: u64) -> u32 {
        self.weights ^= self.weights << 13;
        self.weights ^= self.weights >> 17;
        self.weights ^= self.weights << 5;
        self.nodes[task as usize].weight = self.weights;
        let (mut at, mut parent, mut before, mut left) = (self.spine(dsq, vtime), NIL, NIL, false);
        while at != NIL {
            parent = at;
            let node = &self.nodes[at as usize];
            // time_before64
            left = (vtime.wrapping_sub(node.vtime) as i64) < 0;
            if left {
                at = node.left;
            } else {
                before = at;
                at = node.right;
            }
        }
        self.nodes[task as usize].parent = parent;
        if parent == NIL {
            self.dsqs[dsq.0 as usize].root = task;
            return NIL;
        }
        if left {
            self.nodes[parent as usize].left = task;
        } else {
            self.nodes[parent as usize].right = task;
        }
        loop {
            let parent = self.nodes[task as usize].parent;
            if parent == NIL || self.nodes[parent as usize].weight >= self.nodes[task as usize].weight {
                return before;
            }
            self.rotate_up(dsq, task);
        }
    }

    /// Where to start looking for a place: the lowest node of the way from the last one up to the root that is not behind
    /// `vtime`. Most newcomers belong near the end.
    #[inline]
    fn spine(&self, dsq: DsqRef, vtime: u64) -> u32 {
        let it = &self.dsqs[dsq.0 as usize];
        if it.root == NIL {
            return NIL;
        }
        let mut at = it.tail;
        while at != it.root && (vtime.wrapping_sub(self.nodes[at as usize].vtime) as i64) < 0 {
            at = self.nodes[at as usize].parent;
        }
        at
    }

    pub(super) fn treap_remove(&mut self, dsq: DsqRef, task: TaskId) {
        loop {
            let Node {
                left, right, parent, ..
            } = self.nodes[task as usize];
            if left != NIL && right != NIL {
                let heavier = self.nodes[left as usize].weight >= self.nodes[right as usize].weight;
                self.rotate_up(dsq, if heavier { left } else { right });
                continue;
            }
            let child = if left != NIL { left } else { right };
            if child != NIL {
                self.nodes[child as usize].parent = parent;
            }
            self.replace_child(dsq, parent, task, child);
            return;
        }
    }

    /// The first task in order of the tree with this root, or NIL.
    pub(super) fn treap_first(&self, root: u32) -> u32 {
        let mut at = root;
        while at != NIL && self.nodes[at as usize].left != NIL {
            at = self.nodes[at as usize].left;
        }
        at
    }

    /// The task behind this one in the tree's order, or NIL.
    pub(super) fn treap_next(&self, task: u32) -> u32 {
        let right = self.nodes[task as usize].right;
        if right != NIL {
            return self.treap_first(right);
        }
        let mut at = task;
        loop {
            let parent = self.nodes[at as usize].parent;
            if parent == NIL || self.nodes[parent as usize].left == at {
                return parent;
            }
            at = parent;
        }
    }

    /// Makes `task` the parent of its parent.
    fn rotate_up(&mut self, dsq: DsqRef, task: u32) {
        let parent = self.nodes[task as usize].parent;
        let grand = self.nodes[parent as usize].parent;
        let moved = if self.nodes[parent as usize].left == task {
            let moved = self.nodes[task as usize].right;
            self.nodes[parent as usize].left = moved;
            self.nodes[task as usize].right = parent;
            moved
        } else {
            let moved = self.nodes[task as usize].left;
            self.nodes[parent as usize].right = moved;
            self.nodes[task as usize].left = parent;
            moved
        };
        if moved != NIL {
            self.nodes[moved as usize].parent = parent;
        }
        self.nodes[parent as usize].parent = task;
        self.nodes[task as usize].parent = grand;
        self.replace_child(dsq, grand, parent, task);
    }

    fn replace_child(&mut self, dsq: DsqRef, parent: u32, old: u32, new: u32) {
        if parent == NIL {
            self.dsqs[dsq.0 as usize].root = new;
        } else if self.nodes[parent as usize].left == old {
            self.nodes[parent as usize].left = new;
        } else {
            self.nodes[parent as usize].right = new;
        }
    }
}
