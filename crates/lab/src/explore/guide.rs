// SPDX-License-Identifier: GPL-2.0-only
//! Guides an exploration by coverage: cases that did something new are kept, and later cases are
//! changes of them.
//!
//! Two things count as new: a direction of a jump in the policy's code, and an order of two accesses
//! to one variable by different CPUs. If the CPUs have accessed a variable in one order only, a
//! change delays the first access, to obtain the other order.

use super::case::{Case, Load, Space};
use kernel::rng::Rng;
use std::collections::BTreeSet;

/// Number of cases that are kept. Older ones are dropped.
const MAX_KEPT: usize = 256;
/// Largest number of forced switches of a changed case.
const MAX_HOLDS: usize = 160;

/// What a run has covered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Covered {
    /// Directions of jumps: the instruction, and whether the jump was taken.
    pub branches: Vec<(usize, bool)>,
    /// Pairs of accesses by different CPUs: the two instructions in their order, and the point of the
    /// first one.
    pub pairs: Vec<(usize, usize, u64)>,
}

/// The cases that have covered something new, and everything that they have covered.
#[derive(Clone, Debug, Default)]
pub struct Guide {
    branches: BTreeSet<(usize, bool)>,
    pairs: BTreeSet<(usize, usize)>,
    kept: Vec<Kept>,
}

#[derive(Clone, Debug)]
struct Kept {
    case: Case,
    pairs: Vec<(usize, usize, u64)>,
    /// Number of points that the run reached.
    points: u64,
}

impl Guide {
    /// Learns from a run. Returns whether it covered something new.
    pub fn learn(&mut self, case: &Case, covered: &Covered, points: u64) -> bool {
        let before = self.size();
        self.branches.extend(&covered.branches);
        let pairs = covered.pairs.iter().map(|&(first, second, _)| (first, second));
        self.pairs.extend(pairs);
        let is_new = self.size() > before;
        if is_new {
            if self.kept.len() == MAX_KEPT {
                self.kept.remove(0);
            }
            self.kept.push(Kept {
                case: case.clone(),
                pairs: covered.pairs.clone(),
                points,
            });
        }
        is_new
    }

    /// Returns the number of branches and pairs that were covered.
    pub fn size(&self) -> usize {
        self.branches.len() + self.pairs.len()
    }

    /// Returns case number `number` of an exploration: a change of a kept case, or a new one.
    pub fn case(&self, space: &Space, seed: u64, number: u64) -> Case {
        let fresh = space.case(seed, number);
        let mut rng = Rng::new(seed.wrapping_mul(0xd1b5_4a32_d192_ed03).wrapping_add(number));
        // New cases remain frequent, because a defect may need tasks that no kept case has.
        if self.kept.is_empty() || rng.next_u64().is_multiple_of(2) {
            return fresh;
        }
        let kept = &self.kept[below(&mut rng, self.kept.len())];
        let space = Space {
            points: kept.points,
            ..space.clone()
        };
        let mut case = kept.case.clone();
        match rng.next_u64() % 8 {
            0 => case.seed = fresh.seed,
            1 => change_parts(&mut case, &fresh, &mut rng),
            2 => case.holds = space.holds(&mut rng, case.holds.len() as u64 + 1),
            3 => {
                let nr = 1 + rng.next_u64() % 8;
                case.holds.extend(space.holds(&mut rng, nr));
            }
            _ => self.reverse(kept, &space, &mut case, &mut rng),
        }
        case.holds.sort_unstable();
        case.holds.dedup_by_key(|(point, _)| *point);
        while case.holds.len() > MAX_HOLDS {
            case.holds.remove(below(&mut rng, case.holds.len()));
        }
        case
    }

    /// Delays the first access of a pair that was seen in one order only.
    fn reverse(&self, kept: &Kept, space: &Space, case: &mut Case, rng: &mut Rng) {
        let one_way: Vec<u64> = kept
            .pairs
            .iter()
            .filter(|&&(first, second, point)| point > 0 && !self.pairs.contains(&(second, first)))
            .map(|&(_, _, point)| point)
            .collect();
        let mut added = space.holds(rng, 1);
        if let (Some(hold), false) = (added.first_mut(), one_way.is_empty()) {
            hold.0 = one_way[below(rng, one_way.len())];
            // A forced switch renumbers later points, so only the earlier ones keep their meaning.
            if rng.next_u64().is_multiple_of(2) {
                case.holds.retain(|(point, _)| *point < hold.0);
            }
        }
        case.holds.extend(added);
    }
}

/// Takes over a part of a different case, or its times.
fn change_parts(case: &mut Case, fresh: &Case, rng: &mut Rng) {
    let (Load::Parts(parts), Load::Parts(others)) = (&mut case.load, &fresh.load) else {
        case.seed = fresh.seed;
        return;
    };
    if let Some(other) = others.get(below(rng, others.len().max(1))) {
        match parts
            .iter_mut()
            .find(|part| part.kind == other.kind && part.name == other.name)
        {
            Some(part) => *part = other.clone(),
            None => parts.push(other.clone()),
        }
    }
}

fn below(rng: &mut Rng, nr: usize) -> usize {
    (rng.next_u64() % nr as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        Space {
            points: 1000,
            ..Space::default()
        }
    }

    fn covered(branches: &[(usize, bool)], pairs: &[(usize, usize, u64)]) -> Covered {
        Covered {
            branches: branches.to_vec(),
            pairs: pairs.to_vec(),
        }
    }

    #[test]
    fn only_new_coverage_keeps_a_case() {
        let mut guide = Guide::default();
        let case = space().case(1, 0);
        assert!(guide.learn(&case, &covered(&[(1, true)], &[]), 1000));
        assert!(!guide.learn(&case, &covered(&[(1, true)], &[]), 1000));
        assert!(guide.learn(&case, &covered(&[(1, false)], &[]), 1000));
        assert!(guide.learn(&case, &covered(&[], &[(1, 2, 5)]), 1000));
        assert!(!guide.learn(&case, &covered(&[], &[(1, 2, 7)]), 1000));
        assert_eq!((guide.size(), guide.kept.len()), (3, 3));
    }

    #[test]
    fn cases_are_new_without_coverage_and_valid_changes_with_it() {
        let mut guide = Guide::default();
        assert_eq!(guide.case(&space(), 1, 5), space().case(1, 5));
        let kept = space().case(7, 3);
        guide.learn(&kept, &covered(&[], &[(10, 20, 77), (30, 40, 88), (40, 30, 99)]), 1000);
        let cases: Vec<Case> = (0..400).map(|number| guide.case(&space(), 1, number)).collect();
        let has = |point: u64| {
            let holds = cases.iter().flat_map(|case| &case.holds);
            holds.filter(|hold| hold.0 == point).count()
        };
        // The pair 30, 40 was seen in both orders.
        assert!(has(77) > 50 && has(88) < 25, "{} {}", has(77), has(88));
        for case in &cases {
            assert!(case.holds.is_sorted() && case.holds.len() <= MAX_HOLDS);
            case.workload().expect("a valid workload");
        }
        let again: Vec<Case> = (0..400).map(|number| guide.case(&space(), 1, number)).collect();
        assert_eq!(cases, again);
    }

    #[test]
    fn old_cases_are_dropped() {
        let mut guide = Guide::default();
        for pc in 0..MAX_KEPT + 10 {
            guide.learn(&space().case(1, pc as u64), &covered(&[(pc, true)], &[]), 1000);
        }
        assert_eq!(guide.kept.len(), MAX_KEPT);
    }
}
