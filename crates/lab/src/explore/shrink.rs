// SPDX-License-Identifier: GPL-2.0-only
//! Shrinks a case: removes and shortens parts of it while it shows the same finding.
//!
//! Forced switches, parts of the workload and tasks are removed by delta debugging (ddmin, Zeller and
//! Hildebrandt 2002): subsets and complements of halves, quarters and so on, until no single element
//! can be removed. Numbers are lowered in one step if possible. Everything is repeated until nothing
//! changes.

use super::case::{Case, Load, Space};
use super::ddmin::Ddmin;
use super::observe::{Finding, Observed, Target};
use super::part::Part;
use input::error::Error;
use kernel::rng::Rng;
use runner::parallel;
use std::collections::HashSet;
use std::num::NonZero;
use std::time::{Duration, Instant};

/// Number of times that new random switches are tried after a change of the tasks. The change
/// renumbers the points, so the old switches take place elsewhere.
const RETRIES: u64 = 4;
/// Number of new random switches in half of the retries. Many switches hit the right point more often
/// than the one or two that are left, and are removed again afterwards.
const MANY: u64 = 64;
/// Number of times that a case without forced switches is tried with a different seed after a change
/// of the tasks.
const SEEDS: u64 = 2;
/// Number of additional switches that fewer tasks are worth.
const FEW: usize = 2;
/// Number of times that one or two random switches are tried in place of many.
const SEARCHES: u64 = 160;
/// Distance from the last switch at which new ones are tried, in points: about ten callbacks.
const NEAR: u64 = 200;
/// Shortest limit of a run that is tried, ns.
const MIN_FOR_NS: u64 = 1_000_000;
/// Lengths of a forced delay that are tried, ns.
const LENGTHS: [u64; 3] = [500, 2000, 10_000];
/// Shortest time of a round that is tried, us.
const MIN_ROUND_US: u32 = 5;
/// Changes of a number that are tried, the largest one first.
const CHANGES: [fn(u32) -> u32; 5] = [
    |_| 0,
    |number| number / 4,
    |number| number / 2,
    |number| number - number / 4,
    |number| number.saturating_sub(1),
];

/// A case under reduction.
pub struct Shrink<'a> {
    target: &'a Target,
    finding: Finding,
    best: Case,
    /// Whether a script shows the finding of `best`. No later case loses this.
    is_scripted: bool,
    /// Number of forced switches at the beginning.
    nr_holds: usize,
    /// The last case before a step that added forced switches.
    fallback: Option<Case>,
    /// Number of points that the run of `best` reaches.
    points: u64,
    rng: Rng,
    /// Cases that do not show the finding.
    failed: HashSet<String>,
    threads: NonZero<usize>,
    /// Number of runs so far.
    runs: u64,
    deadline: Instant,
}

impl<'a> Shrink<'a> {
    /// Begins with a case that shows `finding`. The reduction ends after `time` at the latest.
    pub fn new(target: &'a Target, finding: Finding, case: Case, time: Duration) -> Shrink<'a> {
        let available = std::thread::available_parallelism();
        Shrink {
            target,
            finding,
            rng: Rng::new(case.seed),
            points: case.holds.last().map_or(1, |&(point, _)| point),
            is_scripted: false,
            nr_holds: case.holds.len(),
            best: case,
            fallback: None,
            failed: HashSet::new(),
            threads: available.unwrap_or(NonZero::<usize>::MIN),
            runs: 0,
            deadline: Instant::now() + time,
        }
    }

    /// Sets the number of threads. It does not influence the result, unless the time ends.
    #[must_use]
    pub fn threads(mut self, threads: Option<NonZero<usize>>) -> Shrink<'a> {
        self.threads = threads.unwrap_or(self.threads);
        self
    }

    /// Shrinks the case until nothing changes or the time ends. Returns the smallest case and the
    /// number of runs.
    ///
    /// # Errors
    /// Those of [`Target::observe`].
    pub fn run(mut self) -> Result<(Case, u64), Error> {
        loop {
            let before = self.best.clone();
            // A short run on a small machine makes the other steps faster. Both keep the numbers of
            // the points before the finding.
            self.time()?;
            self.holds()?;
            self.search()?;
            self.machine()?;
            self.parts()?;
            self.tasks()?;
            self.numbers()?;
            self.lengths()?;
            if self.best == before || self.is_over() {
                let fallback = self.fallback.take();
                let most = self.nr_holds;
                // The time may end while many added switches are left.
                let fewer = fallback.filter(|old| self.best.holds.len() > most.min(old.holds.len() + FEW));
                return Ok((fewer.unwrap_or(self.best), self.runs));
            }
        }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Executes cases until one of them shows the finding, and takes it. Returns its index. The
    /// result is the first case in order, so it does not depend on the number of threads.
    fn first(&mut self, cases: Vec<Case>) -> Result<Option<usize>, Error> {
        let mut new: Vec<(usize, Case, String)> = Vec::new();
        let target = self.target;
        for (index, case) in cases.into_iter().enumerate() {
            let key = case.token("", target.spec.kernel);
            let is_known = self.failed.contains(&key) || new.iter().any(|(_, _, other)| *other == key);
            if case != self.best && !is_known {
                new.push((index, case, key));
            }
        }
        for batch in new.chunks(self.threads.get()) {
            if self.is_over() {
                return Ok(None);
            }
            let seen = parallel::run(batch, Some(self.threads), &|_, _| {}, |(_, case, _), _| {
                target.observe(case, false)
            })?;
            for ((index, case, key), observed) in batch.iter().zip(seen) {
                self.runs += 1;
                // A script shows the finding to a real kernel, which is worth more than a small case.
                let is_scripted = self.shows(&observed).then(|| self.has_script(case));
                if let Some(is_scripted) = is_scripted.filter(|is_scripted| *is_scripted || !self.is_scripted) {
                    self.is_scripted = is_scripted;
                    self.best = case.clone();
                    self.points = observed.points;
                    return Ok(Some(*index));
                }
                self.failed.insert(key.clone());
            }
        }
        Ok(None)
    }

    /// Returns whether a script shows the finding of a case.
    fn has_script(&self, case: &Case) -> bool {
        let is_sequential = self.target.needs_no_overlap(case, &self.finding);
        is_sequential.unwrap_or(false) && matches!(self.target.script(case, &self.finding), Ok(Some(_)))
    }

    fn shows(&self, observed: &Observed) -> bool {
        let mut findings = observed.findings.iter();
        findings.any(|finding| finding.same_as(&self.finding, &observed.code) && !self.is_weaker(finding))
    }

    /// Returns whether a finding proves less than the original one: a race in which no value was
    /// lost.
    fn is_weaker(&self, finding: &Finding) -> bool {
        match (&self.finding, finding) {
            (Finding::Race(old), Finding::Race(new)) => old.lost && !new.lost,
            _ => false,
        }
    }

    /// Removes elements of a list of `nr` by delta debugging. `keep` returns a case with these elements
    /// of the list only, or `None` if they are too few. If `changes_tasks`, each case is also tried
    /// with different forced switches.
    fn minimise(
        &mut self,
        nr: usize,
        changes_tasks: bool,
        keep: impl Fn(&Case, &[usize]) -> Option<Case>,
    ) -> Result<(), Error> {
        let mut ddmin = Ddmin::new(nr);
        while let Some(lists) = ddmin.candidates() {
            let of_list: Vec<(usize, Case)> = lists
                .iter()
                .enumerate()
                .filter_map(|(index, list)| Some((index, keep(&self.best, list)?)))
                .collect();
            let (indices, cases): (Vec<usize>, Vec<Case>) = of_list.into_iter().unzip();
            let cases = if changes_tasks { self.with_retries(cases) } else { cases };
            let found = self.first(cases)?;
            ddmin.reduce(found.map(|found| indices[found % indices.len()]));
            if changes_tasks {
                self.remove_added()?;
            }
            if self.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// Appends each case with other forced switches, or without any with other seeds.
    fn with_retries(&mut self, mut cases: Vec<Case>) -> Vec<Case> {
        let nr_holds = self.best.holds.len() as u64;
        if nr_holds > 0 && nr_holds < MANY {
            self.fallback = Some(self.best.clone());
        }
        let plain = cases.clone();
        for retry in 0..if nr_holds > 0 { RETRIES } else { SEEDS } {
            for case in &plain {
                cases.push(match nr_holds {
                    0 => Case {
                        seed: self.rng.next_u64() % 1_000_000,
                        ..case.clone()
                    },
                    nr if retry % 2 == 0 => self.resampled(case, nr.max(MANY)),
                    nr => self.resampled(case, nr),
                });
            }
        }
        cases
    }

    /// Removes the forced switches that a retry has added.
    fn remove_added(&mut self) -> Result<(), Error> {
        let nr = self.best.holds.len();
        match &self.fallback {
            Some(fallback) if fallback.holds.len() < nr => self.holds(),
            _ => Ok(()),
        }
    }

    /// Returns the case with `nr` new random switches.
    fn resampled(&mut self, case: &Case, nr: u64) -> Case {
        let space = Space {
            for_ns: case.for_ns,
            points: self.points,
            ..Space::default()
        };
        Case {
            holds: space.holds(&mut self.rng, nr),
            ..case.clone()
        }
    }

    fn holds(&mut self) -> Result<(), Error> {
        let all = self.best.holds.clone();
        if all.is_empty() || self.first(vec![with_holds(&self.best, Vec::new())])?.is_some() {
            return Ok(());
        }
        self.minimise(all.len(), false, |best, list| {
            Some(with_holds(best, list.iter().map(|&at| all[at]).collect()))
        })
    }

    /// Looks for one or two switches that have the same effect as many: near the last one, which
    /// often is the cause, and anywhere.
    fn search(&mut self) -> Result<(), Error> {
        for nr in [1, 2] {
            let Some(&(last, ns)) = self.best.holds.last() else {
                return Ok(());
            };
            if self.best.holds.len() as u64 <= nr {
                return Ok(());
            }
            let mut cases = Vec::new();
            for attempt in 0..SEARCHES / 2 {
                let mut case = self.resampled(&self.best.clone(), nr);
                if attempt % 2 == 0 {
                    for hold in &mut case.holds {
                        let near = last.saturating_sub(NEAR) + self.rng.next_u64() % (2 * NEAR);
                        *hold = (near.max(1), ns);
                    }
                    case.holds.sort_unstable();
                    case.holds.dedup_by_key(|(point, _)| *point);
                }
                cases.push(case);
            }
            self.first(cases)?;
        }
        Ok(())
    }

    /// Returns the parts of the best case, or none if the user names the workload.
    fn best_parts(&self) -> Vec<Part> {
        match &self.best.load {
            Load::Parts(parts) => parts.clone(),
            Load::Named(_) => Vec::new(),
        }
    }

    fn parts(&mut self) -> Result<(), Error> {
        let all = self.best_parts();
        self.minimise(all.len(), true, |best, list| {
            with_parts(best, list.iter().map(|&at| all[at].clone()).collect())
        })
    }

    /// Removes tasks of all parts. A part without tasks is removed, too.
    fn tasks(&mut self) -> Result<(), Error> {
        let all = self.best_parts();
        let nr = |part: &Part| if part.has_tasks() { part.tasks } else { 1 };
        let owners: Vec<usize> = all
            .iter()
            .enumerate()
            .flat_map(|(at, part)| (0..nr(part)).map(move |_| at))
            .collect();
        self.minimise(owners.len(), true, |best, list| {
            let mut parts = Vec::new();
            for (at, part) in all.iter().enumerate() {
                let left = list.iter().filter(|&&element| owners[element] == at).count() as u32;
                let tasks = if part.has_tasks() { left } else { part.tasks };
                if left > 0 {
                    parts.push(Part { tasks, ..part.clone() });
                }
            }
            with_parts(best, parts)
        })
    }

    /// Lowers the numbers of rounds and the times of rounds: those of all parts together, and then of
    /// each part.
    fn numbers(&mut self) -> Result<(), Error> {
        let nr = self.best_parts().len();
        let mut groups = vec![(0..nr).collect::<Vec<usize>>()];
        if nr > 1 {
            groups.extend((0..nr).map(|at| vec![at]));
        }
        type Field = fn(&mut Part) -> &mut u32;
        let fields: [(Field, u32); 3] = [
            (|part| &mut part.rounds, 1),
            (|part| &mut part.run, MIN_ROUND_US),
            (|part| &mut part.sleep, MIN_ROUND_US),
        ];
        for group in groups {
            for (field, least) in fields {
                let mut cases = Vec::new();
                let best = self.best_parts();
                for change in CHANGES {
                    let mut parts = best.clone();
                    for &at in &group {
                        let number = field(&mut parts[at]);
                        *number = change(*number).max(least.min(*number));
                    }
                    if parts != best {
                        cases.extend(with_parts(&self.best, parts));
                    }
                }
                let is_all = group.len() == nr;
                let cases = if is_all { self.with_retries(cases) } else { cases };
                self.first(cases)?;
                self.remove_added()?;
            }
        }
        Ok(())
    }

    /// Removes CPUs: half of them, as often as possible. Two remain, because parts use CPUs 0 and 1.
    fn machine(&mut self) -> Result<(), Error> {
        while let Some((nr, smaller)) = fewer_cpus(&self.best.machine) {
            let mut case = self.best.clone();
            case.machine = smaller;
            if let Load::Parts(parts) = &mut case.load {
                for part in parts.iter_mut().filter(|part| !part.cpus.is_empty()) {
                    let all = std::mem::take(&mut part.cpus);
                    part.cpus = all.iter().copied().filter(|&cpu| cpu < nr).collect();
                    if part.cpus.is_empty() {
                        // A task on one of the removed CPUs needs a different one.
                        part.cpus.push(all.first().map_or(0, |cpu| cpu % nr));
                    }
                }
            }
            let cases = self.with_retries(vec![case]);
            if self.first(cases)?.is_none() {
                break;
            }
            self.remove_added()?;
        }
        Ok(())
    }

    /// Shortens the run, to the shortest time first, because a short run costs little.
    fn time(&mut self) -> Result<(), Error> {
        let half = |&ns: &u64| (ns > MIN_FOR_NS).then(|| (ns / 2).max(MIN_FOR_NS));
        let times: Vec<u64> = std::iter::successors(half(&self.best.for_ns), half).collect();
        let cases = times.into_iter().rev().map(|for_ns| Case {
            for_ns,
            ..self.best.clone()
        });
        let cases = cases.collect();
        self.first(cases)?;
        Ok(())
    }

    /// Shortens the forced delays: all together, and then each one.
    fn lengths(&mut self) -> Result<(), Error> {
        let nr = self.best.holds.len();
        let single = (0..nr).map(|at| at..at + 1);
        for range in std::iter::once(0..nr).chain(single) {
            let cases = LENGTHS.iter().map(|&ns| {
                let mut case = self.best.clone();
                for hold in &mut case.holds[range.clone()] {
                    hold.1 = hold.1.min(ns);
                }
                case
            });
            let cases = cases.collect();
            self.first(cases)?;
        }
        Ok(())
    }
}

fn with_holds(case: &Case, holds: Vec<(u64, u64)>) -> Case {
    Case { holds, ..case.clone() }
}

/// Returns the case with these parts, or `None` if no task of theirs runs under the policy.
fn with_parts(case: &Case, parts: Vec<Part>) -> Option<Case> {
    let is_scheduled = parts.iter().any(Part::is_scheduled);
    is_scheduled.then(|| Case {
        load: Load::Parts(parts),
        ..case.clone()
    })
}

/// Returns a machine with half of the CPUs, and their number.
fn fewer_cpus(machine: &str) -> Option<(u32, String)> {
    if machine == "smp4" {
        return Some((2, "smp2".to_owned()));
    }
    let nr: u32 = machine.strip_prefix("core:")?.strip_suffix(" pu:1")?.parse().ok()?;
    let half = nr.div_ceil(2);
    (nr > 2).then(|| (half, format!("core:{half} pu:1")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_lose_half_of_their_cpus_down_to_two() {
        assert_eq!(fewer_cpus("smp4"), Some((2, "smp2".to_owned())));
        assert_eq!(fewer_cpus("core:5 pu:1"), Some((3, "core:3 pu:1".to_owned())));
        assert_eq!(
            (fewer_cpus("core:2 pu:1"), fewer_cpus("smp2"), fewer_cpus("numa32")),
            (None, None, None)
        );
    }
}
