// SPDX-License-Identifier: GPL-2.0-only
//! Finds the basic blocks of a BPF function and their dominator tree. A block dominates another one
//! if every path to the other one leads through it.

use crate::image::{Function, Insn};
use crate::insn;

/// A basic block.
pub(super) struct Block {
    /// First instruction.
    pub start: usize,
    /// Instruction after the last one.
    pub end: usize,
    /// Reachable blocks that jump or fall into this block.
    pub preds: Vec<usize>,
    /// Blocks into which this block jumps or falls.
    pub succs: Vec<usize>,
    /// Number that a preorder walk of the dominator tree gives to this block.
    enter: u32,
    /// Largest number that the walk gives to a block in this block's subtree.
    leave: u32,
}

/// The basic blocks of a function.
pub(super) struct Flow {
    /// All blocks in the order of the code, including unreachable ones.
    pub blocks: Vec<Block>,
    /// Reachable blocks, ordered so that each block follows its dominators.
    pub order: Vec<usize>,
}

impl Flow {
    pub fn new(insns: &[Insn], function: &Function) -> Flow {
        let (start, end) = (function.start, function.end);
        let mut leader = vec![false; end - start + 1];
        leader[0] = true;
        for pc in start..end {
            let i = &insns[pc];
            if insn::is_jump(i.op) {
                leader[(pc as i64 + 1 + i64::from(i.off)) as usize - start] = true;
            }
            if insn::is_jump(i.op) || i.op == insn::EXIT {
                leader[pc + 1 - start] = true;
            }
        }
        let starts: Vec<usize> = (start..end).filter(|pc| leader[pc - start]).collect();
        let mut blocks: Vec<Block> = starts
            .iter()
            .enumerate()
            .map(|(n, &start)| Block {
                start,
                end: starts.get(n + 1).copied().unwrap_or(end),
                preds: Vec::new(),
                succs: Vec::new(),
                enter: 0,
                leave: 0,
            })
            .collect();

        for (n, block) in blocks.iter_mut().enumerate() {
            let last = &insns[block.end - 1];
            if !matches!(last.op, insn::EXIT | insn::GOTO | insn::GOTOL) && block.end < end {
                block.succs.push(n + 1);
            }
            if insn::is_jump(last.op) {
                let target = (block.end as i64 + i64::from(last.off)) as usize;
                block
                    .succs
                    .push(starts.binary_search(&target).expect("jump targets start a block"));
            }
        }
        let order = reverse_postorder(&blocks);
        for &from in &order {
            for to in blocks[from].succs.clone() {
                blocks[to].preds.push(from);
            }
        }
        let mut flow = Flow { blocks, order };
        flow.number_dominators();
        flow
    }

    /// Returns the number of loops: blocks that are the target of a backward jump.
    pub fn loops(&self) -> usize {
        let mut heads = vec![false; self.blocks.len()];
        for &from in &self.order {
            for &to in self.blocks[from].succs.iter().filter(|&&to| to <= from) {
                heads[to] = true;
            }
        }
        heads.iter().filter(|&&head| head).count()
    }

    /// Returns whether every path to block `b` leads through block `a`.
    pub fn dominates(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.blocks[a], &self.blocks[b]);
        a.enter <= b.enter && b.enter <= a.leave
    }

    /// Computes immediate dominators with the iterative algorithm of Cooper, Harvey and Kennedy,
    /// and numbers the blocks in a walk of the dominator tree.
    fn number_dominators(&mut self) {
        let mut rank = vec![usize::MAX; self.blocks.len()];
        for (n, &block) in self.order.iter().enumerate() {
            rank[block] = n;
        }
        let mut idom = vec![usize::MAX; self.order.len()];
        idom[0] = 0;
        let mut changed = true;
        while changed {
            changed = false;
            for n in 1..self.order.len() {
                let preds = self.blocks[self.order[n]].preds.iter().map(|&p| rank[p]);
                let new = preds
                    .filter(|&p| idom[p] != usize::MAX)
                    .reduce(|mut a, mut b| {
                        while a != b {
                            if a > b {
                                a = idom[a];
                            } else {
                                b = idom[b];
                            }
                        }
                        a
                    })
                    .expect("a reachable block follows one of its predecessors");
                changed |= idom[n] != new;
                idom[n] = new;
            }
        }
        let mut children = vec![Vec::new(); idom.len()];
        for n in 1..idom.len() {
            children[idom[n]].push(n);
        }
        let mut next = 0;
        let mut stack = vec![(0, false)];
        while let Some((n, done)) = stack.pop() {
            if done {
                self.blocks[self.order[n]].leave = next;
                continue;
            }
            next += 1;
            self.blocks[self.order[n]].enter = next;
            stack.push((n, true));
            stack.extend(children[n].iter().map(|&child| (child, false)));
        }
    }
}

fn reverse_postorder(blocks: &[Block]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut seen = vec![false; blocks.len()];
    seen[0] = true;
    let mut stack = vec![(0, 0)];
    while let Some((block, nth)) = stack.pop() {
        match blocks[block].succs.get(nth) {
            None => order.push(block),
            Some(&to) => {
                stack.push((block, nth + 1));
                if !seen[to] {
                    seen[to] = true;
                    stack.push((to, 0));
                }
            }
        }
    }
    order.reverse();
    order
}
