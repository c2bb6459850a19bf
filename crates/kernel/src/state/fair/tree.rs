// SPDX-License-Identifier: GPL-2.0-only
//! The timeline of a queue: a tree of its entities, ordered by virtual deadline. Each node also
//! stores the smallest vruntime of its subtree, so that the first eligible entity can be found
//! quickly.
//!
//! The tree is a treap, a binary search tree that is balanced by random priorities. Here the
//! priorities are hashes of a counter, so the shape of the tree depends only on the order of
//! insertions. The nodes are stored in a vector. Entities with equal deadlines are in the order in
//! which they were inserted.

use crate::state::fair::entity::EntityId;

const NIL: u32 = u32::MAX;

/// Deadline and insertion number of an entity, which determine its position in the timeline. The
/// position is valid until the entity is removed.
pub type Position = (i64, u64);

#[derive(Clone, Copy)]
struct Node {
    deadline: i64,
    sequence: u64,
    vruntime: i64,
    /// Smallest vruntime in the subtree, including this node.
    min_vruntime: i64,
    priority: u32,
    entity: EntityId,
    left: u32,
    right: u32,
}

#[derive(Default)]
pub struct Timeline {
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// Index of the root node plus 1; 0 if the tree is empty.
    root: u32,
    sequence: u64,
}

impl Timeline {
    fn root(&self) -> u32 {
        self.root.wrapping_sub(1)
    }

    /// Inserts an entity and returns its position.
    pub fn insert(&mut self, entity: EntityId, deadline: i64, vruntime: i64) -> Position {
        self.sequence += 1;
        let sequence = self.sequence;
        // Fibonacci hashing spreads the priorities evenly and yields the same values in every run.
        let priority = (sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        let node = Node {
            deadline,
            sequence,
            vruntime,
            min_vruntime: vruntime,
            priority,
            entity,
            left: NIL,
            right: NIL,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        let root = self.insert_below(self.root(), at);
        self.root = root.wrapping_add(1);
        (deadline, sequence)
    }

    fn insert_below(&mut self, top: u32, new: u32) -> u32 {
        if top == NIL {
            return new;
        }
        let (t, n) = (self.nodes[top as usize], self.nodes[new as usize]);
        if n.deadline < t.deadline {
            let left = self.insert_below(t.left, new);
            self.nodes[top as usize].left = left;
            if self.nodes[left as usize].priority > t.priority {
                self.nodes[top as usize].left = self.nodes[left as usize].right;
                self.update(top);
                self.nodes[left as usize].right = top;
                self.update(left);
                return left;
            }
        } else {
            let right = self.insert_below(t.right, new);
            self.nodes[top as usize].right = right;
            if self.nodes[right as usize].priority > t.priority {
                self.nodes[top as usize].right = self.nodes[right as usize].left;
                self.update(top);
                self.nodes[right as usize].left = top;
                self.update(right);
                return right;
            }
        }
        self.update(top);
        top
    }

    /// Removes the entity at a position.
    pub fn remove(&mut self, position: Position) {
        let root = self.remove_below(self.root(), position);
        self.root = root.wrapping_add(1);
    }

    fn remove_below(&mut self, top: u32, position: Position) -> u32 {
        assert!(top != NIL, "the timeline has no entity at the position {position:?}");
        let t = self.nodes[top as usize];
        let key = (t.deadline, t.sequence);
        if position == key {
            self.free.push(top);
            return self.merge(t.left, t.right);
        }
        if position < key {
            self.nodes[top as usize].left = self.remove_below(t.left, position);
        } else {
            self.nodes[top as usize].right = self.remove_below(t.right, position);
        }
        self.update(top);
        top
    }

    /// Merges two trees. All deadlines of `left` must precede those of `right`.
    fn merge(&mut self, left: u32, right: u32) -> u32 {
        if left == NIL {
            return right;
        }
        if right == NIL {
            return left;
        }
        if self.nodes[left as usize].priority > self.nodes[right as usize].priority {
            self.nodes[left as usize].right = self.merge(self.nodes[left as usize].right, right);
            self.update(left);
            left
        } else {
            self.nodes[right as usize].left = self.merge(left, self.nodes[right as usize].left);
            self.update(right);
            right
        }
    }

    /// Recomputes the smallest vruntime of a node's subtree.
    fn update(&mut self, at: u32) {
        let n = self.nodes[at as usize];
        let mut min = n.vruntime;
        for child in [n.left, n.right] {
            if child != NIL {
                min = min.min(self.nodes[child as usize].min_vruntime);
            }
        }
        self.nodes[at as usize].min_vruntime = min;
    }

    /// Returns the eligible entity with the earliest deadline, and this deadline. An entity is
    /// eligible if `eligible` is true for its vruntime.
    ///
    /// If `eligible` is true for some vruntime, it must be true for all smaller vruntimes.
    pub fn first_eligible(&self, eligible: impl Fn(i64) -> bool) -> Option<(EntityId, i64)> {
        let mut at = self.root();
        while at != NIL {
            let n = &self.nodes[at as usize];
            // If the left subtree has an eligible entity, that entity has an earlier deadline.
            if n.left != NIL && eligible(self.nodes[n.left as usize].min_vruntime) {
                at = n.left;
            } else if eligible(n.vruntime) {
                return Some((n.entity, n.deadline));
            } else {
                at = n.right;
            }
        }
        None
    }

    /// Returns the entity at the root of the tree. Callers use this for timelines with one entity.
    pub fn any(&self) -> Option<EntityId> {
        self.nodes.get(self.root() as usize).map(|n| n.entity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::rng::Rng;

    #[test]
    fn the_tree_agrees_with_a_linear_search() {
        let mut rng = Rng::new(1);
        let mut tree = Timeline::default();
        let mut list: Vec<(Position, i64, EntityId)> = Vec::new();
        for step in 0..20_000u32 {
            if list.len() < 200 && rng.below(5) < 3 {
                let (deadline, vruntime) = (rng.below(1000) as i64, rng.below(1000) as i64 - 500);
                list.push((tree.insert(step, deadline, vruntime), vruntime, step));
            } else if !list.is_empty() {
                let (position, ..) = list.swap_remove(rng.below(list.len() as u64) as usize);
                tree.remove(position);
            }
            let bound = rng.below(1100) as i64 - 550;
            let expected = list
                .iter()
                .filter(|e| e.1 <= bound)
                .min_by_key(|e| e.0)
                .map(|e| (e.2, e.0.0));
            assert_eq!(tree.first_eligible(|v| v <= bound), expected);
        }
    }

    #[test]
    fn depth_stays_logarithmic_for_rising_deadlines() {
        let mut tree = Timeline::default();
        for i in 0..100_000 {
            tree.insert(i, i64::from(i), 0);
        }
        fn depth(tree: &Timeline, at: u32) -> u32 {
            if at == NIL {
                return 0;
            }
            let n = tree.nodes[at as usize];
            1 + depth(tree, n.left).max(depth(tree, n.right))
        }
        assert!(depth(&tree, tree.root()) < 60);
    }
}
