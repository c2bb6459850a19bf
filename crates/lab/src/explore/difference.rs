// SPDX-License-Identifier: GPL-2.0-only
//! Compares what was found in two versions of a policy. Line numbers and instructions differ between
//! versions, so findings are matched by the source text of their accesses.

use super::observe::{Finding, callback, source, words};
use super::{Explored, Found};
use bpf::image::Code;
use std::collections::BTreeSet;

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
