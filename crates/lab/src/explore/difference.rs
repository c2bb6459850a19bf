// SPDX-License-Identifier: GPL-2.0-only
//! Compares findings. Those of two versions of a policy are matched by the source text of their
//! accesses, because line numbers and instructions differ. Races of one version are grouped by the
//! functions in which they are.

use super::observe::{Finding, callback, source, words};
use super::{Explored, Found};
use bpf::image::Code;
use std::collections::BTreeSet;

/// Groups races whose accesses are in the same two functions. Other findings are groups of their own.
/// Groups are in the order of their first findings.
pub fn by_functions<'a>(found: impl IntoIterator<Item = &'a Found>, code: &Code) -> Vec<Vec<&'a Found>> {
    let mut groups: Vec<(Option<[usize; 2]>, Vec<&Found>)> = Vec::new();
    for found in found {
        let functions = match &found.finding {
            Finding::Race(race) => {
                let start = |pc| code.function_at(pc).map(|function| function.start);
                let pair = start(race.store.pc).zip(start(race.other.pc));
                pair.map(|(one, other)| [one.min(other), one.max(other)])
            }
            _ => None,
        };
        let known = groups.iter_mut().find(|(key, _)| key.is_some() && *key == functions);
        match known {
            Some((_, group)) => group.push(found),
            None => groups.push((functions, vec![found])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Returns the findings of `one` that `other` does not have.
pub fn only<'a>(one: &'a Explored, other: &Explored) -> Vec<&'a Found> {
    let keys = |explored: &Explored| -> BTreeSet<String> {
        let findings = explored.found.iter().map(|found| &found.finding);
        findings.map(|finding| key(finding, &explored.code)).collect()
    };
    let known = keys(other);
    let found = one.found.iter();
    found
        .filter(|found| !known.contains(&key(&found.finding, &one.code)))
        .collect()
}

/// Returns a text that is equal for findings with the same cause in two versions.
fn key(finding: &Finding, code: &Code) -> String {
    match finding {
        Finding::Race(race) => {
            let access = |seen| {
                let &kernel::Seen { pc, .. } = seen;
                let file = code
                    .line_at(pc)
                    .map_or("", |line| line.file.rsplit('/').next().unwrap_or(""));
                format!("{} {file} {}", callback(seen), source(code, pc).trim())
            };
            let mut pair = [access(&race.store), access(&race.other)];
            pair.sort();
            format!("race {} {}", pair[0], pair[1])
        }
        Finding::Ended { message, .. } => format!("ended {}", words(message)),
        Finding::Stall { .. } => "stall".to_owned(),
        Finding::Affinity { .. } => "affinity".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::case::Space;
    use bpf::image::Function;
    use kernel::{CpuId, Race, RaceKind, Seen};
    use std::time::Duration;

    fn function(start: usize, end: usize) -> Function {
        Function {
            name: String::new(),
            start,
            end,
            stack: 0,
            params: None,
            is_global: false,
            is_callback: false,
            lines: Vec::new(),
        }
    }

    fn found(finding: Finding) -> Found {
        Found {
            finding,
            case: Space::default().case(1, 0),
            run: 1,
            nr_runs: 1,
            last: 0,
            after: Duration::ZERO,
        }
    }

    fn race(store: usize, other: usize) -> Found {
        let seen = |pc| Seen {
            pc,
            cpu: CpuId::BOOT,
            op: None,
            value: 0,
            time: 0,
            point: 0,
        };
        found(Finding::Race(Race {
            addr: 8,
            size: 8,
            load: seen(store),
            store: seen(store),
            other: seen(other),
            kind: RaceKind::Update,
            lost: false,
            benign: false,
        }))
    }

    #[test]
    fn races_in_the_same_two_functions_are_one_group() {
        let code = Code {
            functions: vec![function(0, 10), function(10, 20)],
            ..Code::default()
        };
        let stall = || {
            found(Finding::Stall {
                comm: "a".to_owned(),
                pid: 1,
                from_ns: 0,
                ns: 1,
            })
        };
        let all = [race(1, 12), race(2, 3), race(15, 4), stall(), stall(), race(5, 6)];
        let groups = by_functions(&all, &code);
        let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 2, 1, 1]);
    }
}
