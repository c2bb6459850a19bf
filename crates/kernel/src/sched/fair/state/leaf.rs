// SPDX-License-Identifier: GPL-2.0-only
//! The list of a CPU's group queues whose load averages are not zero (rq->leaf_cfs_rq_list).
//!
//! Each queue comes before that of its parent group. The order of siblings is that in which they
//! joined the list, unless one joined before its parent. It decides which loads have reached a
//! parent when the parent's contribution to its group is updated, which happens at most once in a
//! millisecond.
//!
//! The root's queue always comes last, so it is not part of this list.

use crate::sched::fair::state::entity::CfsRqId;

#[derive(Clone, Default)]
pub(crate) struct LeafList {
    queues: Vec<CfsRqId>,
    /// Number of queues at the front whose parent has not joined yet (rq->tmp_alone_branch).
    alone: usize,
}

impl LeafList {
    /// Returns the queue at a position.
    pub(crate) fn get(&self, at: usize) -> Option<CfsRqId> {
        self.queues.get(at).copied()
    }

    /// Adds a queue that is not in the list (list_add_leaf_cfs_rq). `above` is the queue of the parent
    /// group, or `None` for a child of the root.
    pub(crate) fn add(&mut self, id: CfsRqId, above: Option<CfsRqId>) {
        debug_assert!(!self.queues.contains(&id));
        let place = match above {
            Some(above) => self.queues.iter().position(|&other| other == above),
            None => Some(self.queues.len()),
        };
        match place {
            Some(place) => {
                self.queues.insert(place, id);
                self.alone = 0;
            }
            // The parent follows in the same operation.
            None => {
                self.queues.insert(self.alone, id);
                self.alone += 1;
            }
        }
    }

    /// Removes a queue (list_del_leaf_cfs_rq).
    pub(crate) fn remove(&mut self, id: CfsRqId) {
        let at = self
            .queues
            .iter()
            .position(|&other| other == id)
            .expect("the queue is in the list");
        self.queues.remove(at);
        self.alone -= usize::from(at < self.alone);
    }

    /// Returns the queue before `id`, or the last queue without its parent if `id` is not in the
    /// list. If any queue of a child group is in the list, this is one (child_cfs_rq_on_list).
    pub(crate) fn before(&self, id: CfsRqId) -> Option<CfsRqId> {
        let at = self.queues.iter().position(|&other| other == id).unwrap_or(self.alone);
        Some(self.queues[at.checked_sub(1)?])
    }
}

#[cfg(test)]
mod tests {
    use super::LeafList;

    #[test]
    fn a_queue_comes_before_that_of_its_parent() {
        let mut list = LeafList::default();
        // The groups 2 and 3 are children of 1, and 4 is a child of the root.
        list.add(4, None);
        list.add(2, Some(1));
        list.add(1, None);
        assert_eq!(list.queues, [2, 4, 1]);
        list.add(3, Some(1));
        assert_eq!(list.queues, [2, 4, 3, 1]);
        assert_eq!((list.before(1), list.before(2)), (Some(3), None));
        list.remove(4);
        assert_eq!(list.queues, [2, 3, 1]);
    }

    #[test]
    fn a_queue_waits_for_its_parent_at_the_front() {
        let mut list = LeafList::default();
        list.add(4, None);
        list.add(3, Some(2));
        assert_eq!(
            (list.queues.as_slice(), list.alone, list.before(2)),
            ([3, 4].as_slice(), 1, Some(3))
        );
        list.add(2, Some(1));
        assert_eq!((list.queues.as_slice(), list.alone), ([3, 2, 4].as_slice(), 2));
        list.remove(3);
        list.add(1, None);
        assert_eq!((list.queues.as_slice(), list.alone), ([2, 4, 1].as_slice(), 0));
    }
}
