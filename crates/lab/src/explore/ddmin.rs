// SPDX-License-Identifier: GPL-2.0-only
//! Delta debugging (ddmin, Zeller and Hildebrandt 2002): finds a small part of a list that still has a
//! property.

/// The search for a small part of a list. The caller tests the candidates, and reports which of them
/// has the property.
pub(super) struct Ddmin {
    /// Elements that are left.
    elements: Vec<usize>,
    /// Number of chunks into which the elements are divided.
    nr_chunks: usize,
    candidates: Vec<Vec<usize>>,
}

impl Ddmin {
    /// Begins with the elements `0..nr`, which have the property.
    pub(super) fn new(nr: usize) -> Ddmin {
        Ddmin {
            elements: (0..nr).collect(),
            nr_chunks: 2,
            candidates: Vec::new(),
        }
    }

    /// Returns the lists to test, the most promising first: each chunk, and then everything except for
    /// one chunk, from the last chunk on. Returns `None` at the end of the search.
    pub(super) fn candidates(&mut self) -> Option<&[Vec<usize>]> {
        let nr = self.elements.len();
        if nr < 2 || self.nr_chunks > nr {
            return None;
        }
        let bound = |chunk: usize| chunk * nr / self.nr_chunks;
        let chunks = (0..self.nr_chunks).map(|chunk| bound(chunk)..bound(chunk + 1));
        let subsets = chunks.clone().map(|chunk| self.elements[chunk].to_vec());
        let complements = chunks.rev().map(|chunk| {
            let (before, after) = (&self.elements[..chunk.start], &self.elements[chunk.end..]);
            [before, after].concat()
        });
        // With two chunks, the complements are the subsets.
        let nr_complements = if self.nr_chunks > 2 { self.nr_chunks } else { 0 };
        self.candidates = subsets.chain(complements.take(nr_complements)).collect();
        Some(&self.candidates)
    }

    /// Continues with the candidate that has the property, or with smaller chunks if none has.
    pub(super) fn reduce(&mut self, candidate: Option<usize>) {
        match candidate {
            Some(index) => {
                let is_subset = index < self.nr_chunks;
                self.elements = self.candidates.swap_remove(index);
                self.nr_chunks = if is_subset { 2 } else { (self.nr_chunks - 1).max(2) };
            }
            None if self.nr_chunks < self.elements.len() => {
                self.nr_chunks = (2 * self.nr_chunks).min(self.elements.len());
            }
            None => self.nr_chunks = usize::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minimise(nr: usize, has_property: impl Fn(&[usize]) -> bool) -> Vec<usize> {
        let mut ddmin = Ddmin::new(nr);
        while let Some(lists) = ddmin.candidates() {
            let found = lists.iter().position(|list| has_property(list));
            ddmin.reduce(found);
        }
        ddmin.elements
    }

    #[test]
    fn elements_that_are_far_apart_remain() {
        let needed = [3, 50, 97];
        let all = |list: &[usize]| needed.iter().all(|element| list.contains(element));
        assert_eq!(minimise(100, all), needed);
    }

    #[test]
    fn no_single_element_of_the_result_can_be_removed() {
        assert_eq!(minimise(31, |list| list.len() >= 7).len(), 7);
        assert_eq!(minimise(64, |list| list.contains(&9)), [9]);
        assert_eq!(minimise(2, |_| false), [0, 1]);
    }

    #[test]
    fn short_lists_have_no_candidates() {
        for nr in 0..2 {
            assert!(Ddmin::new(nr).candidates().is_none());
        }
    }
}
