// SPDX-License-Identifier: GPL-2.0-only
//! Shrinks a case: removes and shortens parts of it while it shows the same finding.

use super::case::{Case, Load, Space};
use super::observe::{Finding, Observed, Target};
use super::part::{Part, PartKind};
use input::error::Error;
use kernel::rng::Rng;
use std::time::{Duration, Instant};

/// Number of times that new random switches are tried after a change of the tasks. The change
/// renumbers the points, so the old switches take place elsewhere.
const RETRIES: u64 = 6;
/// Number of times that one or two random switches are tried in place of many.
const SEARCHES: u64 = 160;
/// Distance from the last switch at which new ones are tried, in points: about ten callbacks.
const NEAR: u64 = 200;

/// A case under reduction.
pub struct Shrink<'a> {
    target: &'a Target,
    finding: Finding,
    best: Case,
    /// Number of points that the run of `best` reaches.
    points: u64,
    rng: Rng,
    /// Number of runs so far.
    pub runs: u64,
    deadline: Instant,
}

impl<'a> Shrink<'a> {
    /// Begins with a case that shows `finding`. The reduction ends after `time` at the latest.
    pub fn new(target: &'a Target, finding: Finding, case: Case, time: Duration) -> Shrink<'a> {
        Shrink {
            target,
            finding,
            rng: Rng::new(case.seed),
            points: case.holds.last().map_or(1, |&(point, _)| point),
            best: case,
            runs: 0,
            deadline: Instant::now() + time,
        }
    }

    /// Shrinks the forced switches, then the tasks, the CPUs and the time, and the forced switches
    /// again. Returns the smallest case.
    ///
    /// # Errors
    /// Those of [`Target::observe`].
    pub fn run(mut self) -> Result<(Case, u64), Error> {
        loop {
            let before = self.best.clone();
            self.holds()?;
            self.search()?;
            self.parts()?;
            self.machine()?;
            self.time()?;
            self.lengths()?;
            if self.best == before || Instant::now() >= self.deadline {
                return Ok((self.best, self.runs));
            }
        }
    }

    /// Takes a smaller case if it shows the same finding.
    fn accept(&mut self, case: Case) -> Result<bool, Error> {
        if case == self.best || Instant::now() >= self.deadline {
            return Ok(false);
        }
        self.runs += 1;
        let observed: Observed = self.target.observe(&case, false)?;
        let shows = observed
            .findings
            .iter()
            .any(|finding| finding.same_as(&self.finding, &observed.code) && !self.is_weaker(finding));
        if shows {
            self.best = case;
            self.points = observed.points;
        }
        Ok(shows)
    }

    /// Returns whether a finding proves less than the original one: a race in which no value was
    /// lost.
    fn is_weaker(&self, finding: &Finding) -> bool {
        match (&self.finding, finding) {
            (Finding::Race(old), Finding::Race(new)) => old.lost && !new.lost,
            _ => false,
        }
    }

    /// Removes forced switches: all, then halves, quarters and so on, and at last single ones
    /// (delta debugging). Late switches are removed first, because that renumbers no earlier points.
    fn holds(&mut self) -> Result<(), Error> {
        let mut none = self.best.clone();
        none.holds.clear();
        if self.accept(none)? {
            return Ok(());
        }
        let mut size = self.best.holds.len().div_ceil(2).max(1);
        loop {
            let mut end = self.best.holds.len();
            while end > 0 {
                let start = end.saturating_sub(size);
                let mut case = self.best.clone();
                case.holds.drain(start..end);
                self.accept(case)?;
                end = start;
            }
            if size == 1 {
                return Ok(());
            }
            size = size.div_ceil(2);
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

    /// Looks for one or two switches that have the same effect as many: near the last one, which
    /// often is the cause, and anywhere.
    fn search(&mut self) -> Result<(), Error> {
        for attempt in 0..SEARCHES {
            let Some(&(last, ns)) = self.best.holds.last() else {
                return Ok(());
            };
            let nr = 1 + attempt % 2;
            if self.best.holds.len() as u64 <= nr {
                return Ok(());
            }
            let mut case = self.resampled(&self.best.clone(), nr);
            if attempt % 4 < 2 {
                for hold in &mut case.holds {
                    let near = last.saturating_sub(NEAR) + self.rng.next_u64() % (2 * NEAR);
                    *hold = (near.max(1), ns);
                }
                case.holds.sort_unstable();
                case.holds.dedup_by_key(|(point, _)| *point);
            }
            self.accept(case)?;
        }
        Ok(())
    }

    fn change_parts(&mut self, change: impl Fn(&mut Vec<Part>)) -> Result<bool, Error> {
        let mut case = self.best.clone();
        if let Load::Parts(parts) = &mut case.load {
            change(parts);
            if parts
                .iter()
                .all(|part| matches!(part.kind, PartKind::Irq | PartKind::Fifo | PartKind::Hotplug))
            {
                return Ok(false);
            }
        }
        if self.accept(case.clone())? {
            return Ok(true);
        }
        let nr = case.holds.len() as u64;
        for _ in 0..if nr > 0 { RETRIES } else { 0 } {
            let case = self.resampled(&case, nr);
            if self.accept(case)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn parts(&mut self) -> Result<(), Error> {
        let nr = |case: &Case| match &case.load {
            Load::Parts(parts) => parts.len(),
            Load::Named(_) => 0,
        };
        let mut at = 0;
        while at < nr(&self.best) {
            let remove = |parts: &mut Vec<Part>| {
                parts.remove(at);
            };
            if !self.change_parts(remove)? {
                at += 1;
            }
        }
        for at in 0..nr(&self.best) {
            while self.change_parts(|parts| parts[at].tasks = parts[at].tasks.div_ceil(2))? {}
            while self.change_parts(|parts| parts[at].rounds = parts[at].rounds.div_ceil(2))? {}
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
            if !self.accept(case)? {
                break;
            }
        }
        Ok(())
    }

    fn time(&mut self) -> Result<(), Error> {
        let mut case = self.best.clone();
        while case.for_ns > 1_000_000 {
            case.for_ns = (case.for_ns / 2).max(1_000_000);
            if !self.accept(case.clone())? {
                break;
            }
        }
        Ok(())
    }

    /// Shortens the forced delays.
    fn lengths(&mut self) -> Result<(), Error> {
        for at in 0..self.best.holds.len() {
            for ns in [500, 2000, 10_000] {
                let mut case = self.best.clone();
                if at < case.holds.len() && case.holds[at].1 > ns {
                    case.holds[at].1 = ns;
                    if self.accept(case)? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
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
