// SPDX-License-Identifier: GPL-2.0-only
//! The timeline of a queue: its entities in the order of their virtual deadlines. Linux keeps them
//! in a red-black tree (`cfs_rq::tasks_timeline`).
//!
//! Here the entities are in a sorted list that is divided into blocks of at most 32 entities. Each
//! block also stores its smallest vruntime, so that the first eligible entity is found quickly. A
//! tree would need fewer comparisons in long queues, but its nodes are spread over the memory of
//! the host. With a million tasks, reading them takes most of the time.

use crate::simulation::id::TaskId;

/// Maximum number of entities in a block.
const MAX: usize = 32;

/// Deadline and insertion number of an entity, which determine its position in the timeline. The
/// position is valid until the entity is removed.
pub type Position = (i64, u64);

#[derive(Clone, Copy)]
struct Entry {
    deadline: i64,
    /// Insertion number. Entities with equal deadlines are in the order of their insertion.
    sequence: u64,
    vruntime: i64,
    entity: TaskId,
}

#[derive(Default)]
struct Block {
    /// A lower bound of the positions in this block, above all positions in the previous block. The
    /// first block also contains the positions below its bound.
    from: Position,
    min_vruntime: i64,
    entries: Vec<Entry>,
}

impl Block {
    fn new(entries: Vec<Entry>) -> Block {
        let mut block = Block {
            from: entries.first().map_or((0, 0), |e| (e.deadline, e.sequence)),
            min_vruntime: 0,
            entries,
        };
        block.update_min();
        block
    }

    fn update_min(&mut self) {
        let vruntimes = self.entries.iter().map(|e| e.vruntime);
        self.min_vruntime = vruntimes.min().unwrap_or(i64::MAX);
    }
}

/// A timeline. A block is empty only if it is the only one.
#[derive(Default)]
pub struct Timeline {
    blocks: Vec<Block>,
    /// Number of entities.
    count: u32,
    /// Number of insertions.
    sequence: u64,
}

impl Timeline {
    /// Returns the index of the block to which a position belongs.
    #[inline]
    fn block_of(&self, position: Position) -> usize {
        match self.blocks.len() {
            0 | 1 => 0,
            _ => self
                .blocks
                .partition_point(|block| block.from <= position)
                .saturating_sub(1),
        }
    }

    /// Inserts an entity and returns its position.
    pub fn insert(&mut self, entity: TaskId, deadline: i64, vruntime: i64) -> Position {
        self.count += 1;
        self.sequence += 1;
        let position = (deadline, self.sequence);
        let entry = Entry {
            deadline,
            sequence: self.sequence,
            vruntime,
            entity,
        };
        let mut at = self.block_of(position);
        if self.blocks.get(at).is_none_or(|block| block.entries.len() == MAX) {
            at = self.make_room(at, position);
        }
        let block = &mut self.blocks[at];
        // Most new deadlines are late, so the search begins at the end.
        let before = block.entries.iter().rposition(|e| e.deadline <= deadline);
        block.entries.insert(before.map_or(0, |before| before + 1), entry);
        block.min_vruntime = block.min_vruntime.min(vruntime);
        position
    }

    /// Divides the full block `at`, or adds the first block. Returns the block to which `position`
    /// then belongs.
    #[cold]
    fn make_room(&mut self, at: usize, position: Position) -> usize {
        let is_last = at + 1 >= self.blocks.len();
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push(Block {
                min_vruntime: i64::MAX,
                ..Block::default()
            });
            return 0;
        };
        let after_all = block.entries.last().is_some_and(|e| e.deadline <= position.0);
        if is_last && after_all {
            // Deadlines that only rise fill their blocks completely.
            self.blocks.push(Block {
                from: position,
                min_vruntime: i64::MAX,
                entries: Vec::new(),
            });
            return at + 1;
        }
        let upper = Block::new(block.entries.split_off(MAX / 2));
        block.update_min();
        let belongs_to_upper = upper.from <= position;
        self.blocks.insert(at + 1, upper);
        at + usize::from(belongs_to_upper)
    }

    /// Removes the entity at a position.
    pub fn remove(&mut self, position: Position) {
        let at = self.block_of(position);
        let block = self.blocks.get_mut(at);
        let found = block
            .as_ref()
            .and_then(|block| block.entries.iter().position(|e| e.sequence == position.1));
        let (Some(block), Some(index)) = (block, found) else {
            panic!("the timeline has no entity at the position {position:?}")
        };
        self.count -= 1;
        let removed = block.entries.remove(index);
        if removed.vruntime == block.min_vruntime {
            block.update_min();
        }
        if self.blocks.len() > 1 {
            self.join(at);
        }
    }

    /// Joins a block with a neighbour if both are small. Removes it if it is empty.
    fn join(&mut self, at: usize) {
        for lower in [at, at.wrapping_sub(1)] {
            let upper = lower.wrapping_add(1);
            let (Some(a), Some(b)) = (self.blocks.get(lower), self.blocks.get(upper)) else {
                continue;
            };
            if a.entries.is_empty() || b.entries.is_empty() || a.entries.len() + b.entries.len() <= MAX / 2 {
                let upper = self.blocks.remove(upper);
                let lower = &mut self.blocks[lower];
                lower.entries.extend(upper.entries);
                lower.min_vruntime = lower.min_vruntime.min(upper.min_vruntime);
                return;
            }
        }
    }

    /// Returns the eligible entity with the earliest deadline, and this deadline. An entity is
    /// eligible if `eligible` is true for its vruntime.
    ///
    /// If `eligible` is true for some vruntime, it must be true for all smaller vruntimes.
    pub fn first_eligible(&self, eligible: impl Fn(i64) -> bool) -> Option<(TaskId, i64)> {
        let has_eligible = |block: &&Block| !block.entries.is_empty() && eligible(block.min_vruntime);
        let block = self.blocks.iter().find(has_eligible)?;
        let first = block.entries.iter().find(|e| eligible(e.vruntime))?;
        Some((first.entity, first.deadline))
    }

    /// Returns the entities in the order of their deadlines.
    pub(crate) fn iter(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.blocks
            .iter()
            .flat_map(|block| block.entries.iter().map(|e| e.entity))
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the first entity of the timeline. Callers use this for timelines with one entity.
    pub fn any(&self) -> Option<TaskId> {
        Some(self.blocks.first()?.entries.first()?.entity)
    }
}

#[cfg(test)]
mod tests {
    use crate::sched::fair::state::timeline::*;
    use crate::simulation::rng::Rng;
    use crate::simulation::table::Id;

    /// Checks the rules that the fields of the blocks follow.
    fn verify(timeline: &Timeline) {
        let positions = |block: &Block| {
            block
                .entries
                .iter()
                .map(|e| (e.deadline, e.sequence))
                .collect::<Vec<_>>()
        };
        let all: Vec<Position> = timeline.blocks.iter().flat_map(positions).collect();
        assert!(all.is_sorted());
        for (i, block) in timeline.blocks.iter().enumerate() {
            let min = block.entries.iter().map(|e| e.vruntime).min();
            assert_eq!(block.min_vruntime, min.unwrap_or(i64::MAX));
            assert!(block.entries.len() <= MAX);
            assert!(i == 0 || positions(block).iter().all(|&position| block.from <= position));
            assert!(timeline.blocks.len() == 1 || !block.entries.is_empty());
        }
        assert_eq!(timeline.count(), all.len() as u32);
        let small = |pair: &&[Block]| pair[0].entries.len() + pair[1].entries.len() <= MAX / 2;
        assert_eq!(timeline.blocks.windows(2).filter(small).count(), 0);
    }

    #[test]
    fn the_timeline_agrees_with_a_linear_search() {
        let mut rng = Rng::new(1);
        let mut timeline = Timeline::default();
        let mut list: Vec<(Position, i64, TaskId)> = Vec::new();
        for step in 0..40_000u32 {
            // The number of entities rises and falls, so that blocks are divided and joined.
            let limit = [3, 40, 200, 600][step as usize / 500 % 4];
            if list.len() < limit && rng.below(5) < 3 {
                let deadline = rng.below([1, 30, 1000][step as usize / 100 % 3]) as i64;
                let vruntime = rng.below(1000) as i64 - 500;
                let task = TaskId::new(step as usize);
                list.push((timeline.insert(task, deadline, vruntime), vruntime, task));
            } else if !list.is_empty() {
                let (position, ..) = list.swap_remove(rng.below(list.len() as u64) as usize);
                timeline.remove(position);
            }
            let bound = rng.below(1100) as i64 - 550;
            let expected = list
                .iter()
                .filter(|e| e.1 <= bound)
                .min_by_key(|e| e.0)
                .map(|e| (e.2, e.0.0));
            assert_eq!(timeline.first_eligible(|v| v <= bound), expected);
            if step % 50 == 0 {
                verify(&timeline);
            }
        }
    }

    #[test]
    fn rising_deadlines_fill_their_blocks() {
        let mut timeline = Timeline::default();
        for i in 0..3200 {
            timeline.insert(TaskId::new(i), i as i64, 0);
        }
        assert_eq!(timeline.blocks.len(), 100);
    }

    #[test]
    #[should_panic(expected = "no entity at the position (5, 9)")]
    fn a_position_that_is_not_in_the_timeline_is_an_error() {
        let mut timeline = Timeline::default();
        timeline.insert(TaskId::new(1), 5, 0);
        timeline.remove((5, 9));
    }
}
