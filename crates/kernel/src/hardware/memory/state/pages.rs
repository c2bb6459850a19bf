// SPDX-License-Identifier: GPL-2.0-only
//! The pages of a task's footprint: on which node each page is, and which pages cause a hinting
//! fault of NUMA balancing when the task next accesses them.
//!
//! The pages are not stored one by one. A footprint is a list of runs, which are neighbouring pages
//! in the same state:
//!
//! ```text
//! address   0         4000          9000       16384
//!           | node 1  | node 0      | node 0   |
//!           |         | inaccessible|          |
//! ```
//!
//! A scan makes a range of pages inaccessible. The task then accesses them in the order of their
//! addresses, and each access causes a fault. A fault makes its page accessible again and may move
//! it to the node of the CPU. Because scans and faults follow the addresses, a footprint has only a
//! few runs.

use crate::hardware::footprint::state::NOWHERE;

/// Size of a page. Larger pages (transparent huge pages) are not modelled.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Neighbouring pages in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    pages: u64,
    /// Node whose memory contains the pages.
    node: u32,
    /// Node of the CPU that caused the last hinting fault of each of these pages (the node of
    /// `last_cpupid` in struct page), or NOWHERE if there was none.
    last: u32,
    /// Whether the next access causes a hinting fault (PROT_NONE).
    marked: bool,
}

impl Run {
    fn same_state(&self, other: &Run) -> bool {
        (self.node, self.last, self.marked) == (other.node, other.last, other.marked)
    }
}

/// The pages of a footprint.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    /// The runs in the order of their addresses. Two neighbouring runs have different states.
    runs: Vec<Run>,
    nr: u64,
    /// Number of pages that cause a fault at the next access.
    marked: u64,
    /// Number of pages on each node.
    on_node: Vec<u64>,
}

/// Hinting faults of neighbouring pages with the same outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) pages: u64,
    /// Node of the pages before the faults.
    pub(crate) from: u32,
    /// Node of the pages after the faults.
    pub(crate) to: u32,
}

impl Pages {
    /// Returns the pages of a footprint of `bytes` bytes, which are all on node `node` of a machine
    /// with `nr_nodes` nodes.
    pub(crate) fn new(bytes: u64, node: u32, nr_nodes: usize) -> Pages {
        let nr = bytes.div_ceil(PAGE_BYTES);
        let mut on_node = vec![0; nr_nodes];
        on_node[node as usize] = nr;
        Pages {
            runs: vec![Run {
                pages: nr,
                node,
                last: NOWHERE,
                marked: false,
            }],
            nr,
            marked: 0,
            on_node,
        }
    }

    pub(crate) fn nr(&self) -> u64 {
        self.nr
    }

    /// Returns the number of pages that cause a fault at the next access.
    pub(crate) fn marked(&self) -> u64 {
        self.marked
    }

    /// Returns the number of pages on each node.
    pub(crate) fn by_node(&self) -> &[u64] {
        &self.on_node
    }

    /// Returns the node with the most pages. If several nodes have equally many, returns the first
    /// of them.
    pub(crate) fn main_node(&self) -> u32 {
        let mut main = 0;
        for (node, &pages) in self.on_node.iter().enumerate() {
            if pages > self.on_node[main] {
                main = node;
            }
        }
        main as u32
    }

    /// Returns whether several nodes have pages.
    pub(crate) fn spread(&self) -> bool {
        self.on_node.iter().filter(|&&pages| pages > 0).count() > 1
    }

    /// Makes the pages with the numbers `from` to `to - 1` inaccessible, as a scan of NUMA
    /// balancing does (change_prot_numa). Returns the number of pages that were accessible before.
    pub(crate) fn mark(&mut self, from: u64, to: u64) -> u64 {
        let (from, to) = (from.min(self.nr), to.min(self.nr));
        if from >= to {
            return 0;
        }
        let first = self.split_at(from);
        let end = self.split_at(to);
        let mut marked = 0;
        for run in &mut self.runs[first..end] {
            if !run.marked {
                run.marked = true;
                marked += run.pages;
            }
        }
        self.marked += marked;
        self.merge();
        marked
    }

    /// Accesses up to `most` inaccessible pages on a CPU of node `node`, each of which causes a
    /// hinting fault. Calls `each` for the faults.
    ///
    /// A page on another node moves to `node` if one of these conditions holds
    /// (should_numa_migrate_memory):
    /// - `early` is set, which means that the task was scanned only a few times so far.
    /// - The fault is the page's first fault, or its previous fault was on a CPU of the same node.
    pub(crate) fn fault(&mut self, most: u64, node: u32, early: bool, mut each: impl FnMut(Faults)) {
        let mut left = most.min(self.marked);
        self.marked -= left;
        let mut at = 0;
        let mut position = 0;
        while left > 0 && at < self.runs.len() {
            let run = self.runs[at];
            if run.marked {
                if run.pages > left {
                    self.split_at(position + left);
                }
                let run = &mut self.runs[at];
                let migrates = early || run.last == NOWHERE || run.last == node;
                let from = run.node;
                run.marked = false;
                run.last = node;
                if migrates {
                    run.node = node;
                }
                let (pages, to) = (run.pages, run.node);
                self.on_node[from as usize] -= pages;
                self.on_node[to as usize] += pages;
                left -= pages;
                each(Faults { pages, from, to });
            }
            position += self.runs[at].pages;
            at += 1;
        }
        self.merge();
    }

    /// Splits the runs so that a run begins at the page number `position`. Returns the index of
    /// this run, or the number of runs if `position` is the end.
    fn split_at(&mut self, position: u64) -> usize {
        let mut begin = 0;
        for at in 0..self.runs.len() {
            if begin == position {
                return at;
            }
            let pages = self.runs[at].pages;
            if position < begin + pages {
                let mut rest = self.runs[at];
                rest.pages = begin + pages - position;
                self.runs[at].pages = position - begin;
                self.runs.insert(at + 1, rest);
                return at + 1;
            }
            begin += pages;
        }
        self.runs.len()
    }

    /// Joins neighbouring runs with the same state.
    fn merge(&mut self) {
        self.runs.dedup_by(|next, run| {
            let same = run.same_state(next);
            if same {
                run.pages += next.pages;
            }
            same
        });
    }

    /// Verifies the counters and the number of pages.
    ///
    /// # Panics
    /// If a counter does not agree with the runs, or if the footprint does not have `bytes` bytes.
    pub(crate) fn verify(&self, bytes: u64) {
        let all: u64 = self.runs.iter().map(|run| run.pages).sum();
        assert_eq!(all, bytes.div_ceil(PAGE_BYTES), "pages got lost");
        assert_eq!(all, self.nr, "the number of pages is wrong");
        let marked = self.runs.iter().filter(|run| run.marked).map(|run| run.pages);
        assert_eq!(
            marked.sum::<u64>(),
            self.marked,
            "the number of inaccessible pages is wrong"
        );
        for (node, &pages) in self.on_node.iter().enumerate() {
            let on_node = self.runs.iter().filter(|run| run.node as usize == node);
            assert_eq!(
                on_node.map(|run| run.pages).sum::<u64>(),
                pages,
                "the number of pages on node {node} is wrong"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::hardware::memory::state::pages::*;
    use crate::simulation::rng::Rng;

    fn faults(pages: &mut Pages, most: u64, node: u32, early: bool) -> Vec<(u64, u32, u32)> {
        let mut found = Vec::new();
        pages.fault(most, node, early, |f| found.push((f.pages, f.from, f.to)));
        found
    }

    #[test]
    fn a_page_moves_to_a_node_at_the_second_fault_from_there() {
        let mut pages = Pages::new(100 * PAGE_BYTES, 0, 2);
        assert_eq!(pages.mark(0, 100), 100);
        assert_eq!(pages.mark(0, 100), 0, "all pages are inaccessible already");
        // The first faults of the pages are on their own node.
        assert_eq!(faults(&mut pages, 1000, 0, false), [(100, 0, 0)]);
        // A task on the other node accesses them. They move at the second time.
        pages.mark(0, 100);
        assert_eq!(faults(&mut pages, 1000, 1, false), [(100, 0, 0)]);
        pages.mark(0, 60);
        assert_eq!(faults(&mut pages, 50, 1, false), [(50, 0, 1)]);
        assert_eq!((pages.by_node(), pages.marked()), (&[50, 50][..], 10));
        assert!(pages.spread());
        assert_eq!(faults(&mut pages, 50, 1, false), [(10, 0, 1)]);
        assert_eq!(pages.main_node(), 1);
        // Pages without faults move at their first fault, and so do all pages of a young task.
        let mut new = Pages::new(PAGE_BYTES, 0, 2);
        new.mark(0, 1);
        assert_eq!(faults(&mut new, 1, 1, false), [(1, 0, 1)]);
        new.mark(0, 1);
        assert_eq!(faults(&mut new, 1, 0, true), [(1, 1, 0)]);
    }

    #[test]
    fn random_scans_and_faults_keep_all_pages() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let nodes = 1 + rng.below(4) as u32;
            let bytes = 1 + rng.below(1000 * PAGE_BYTES);
            let mut pages = Pages::new(bytes, rng.below(nodes.into()) as u32, nodes as usize);
            for _ in 0..100 {
                let from = rng.below(1100);
                let before = pages.marked();
                let newly = pages.mark(from, from + rng.below(1100));
                assert_eq!(pages.marked(), before + newly);
                let most = rng.below(1100);
                let expected = most.min(pages.marked());
                let node = rng.below(nodes.into()) as u32;
                let handled = faults(&mut pages, most, node, rng.below(2) == 0);
                assert_eq!(handled.iter().map(|f| f.0).sum::<u64>(), expected, "seed {seed}");
                assert!(handled.iter().all(|f| f.2 == node || f.2 == f.1), "seed {seed}");
                pages.verify(bytes);
            }
        }
    }
}
