// SPDX-License-Identifier: GPL-2.0-only
//! Suggests the correct name for a misspelt one.

/// Maximum length in bytes of a name that is compared. A longer name is probably not a misspelling,
/// and the comparison with all candidates would take long.
const MAX_BYTES: usize = 64;

/// Returns the candidate that is most similar to `name`. Returns `None` if no candidate is similar
/// enough to be a misspelling.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_within(name, candidates, |shorter| 1 + shorter / 3)
}

/// Returns the candidate that is most similar to a short `name`, such as that of a command. Short
/// names that differ in two letters are different names, not misspellings.
pub fn nearest_short<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_within(name, candidates, |shorter| (shorter / 3).max(1))
}

/// Returns the candidate with the fewest edits between it and `name`. `most` returns the highest
/// number of edits, for the length of the shorter of the two names.
fn nearest_within<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    most: fn(usize) -> usize,
) -> Option<&'a str> {
    if name.len() > MAX_BYTES {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(name, candidate), candidate))
        .filter(|&(distance, candidate)| distance <= most(name.len().min(candidate.len())))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns a hint: "did you mean 'x'?", or the list of all candidates.
pub fn hint(name: &str, candidates: &[&str]) -> String {
    match nearest(name, candidates.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("known are {}", candidates.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_is_suggested() {
        let known = ["fifo", "o1", "pmqs", "pmqs/table1", "vtime"];
        assert_eq!(nearest("ffio", known), Some("fifo"));
        assert_eq!(nearest("vtimes", known), Some("vtime"));
        assert_eq!(nearest("pmsq/table1", known), Some("pmqs/table1"));
        assert_eq!(nearest("something", known), None);
        let machines = ["smp4", "smp8", "numa16", "numa32"];
        assert_eq!(nearest("nuna16", machines), Some("numa16"));
        assert_eq!(nearest("smp", machines), Some("smp4"));
        assert_eq!(nearest("epyc", machines), None);
        assert_eq!(nearest(&"x".repeat(65), ["x"]), None);
    }

    #[test]
    fn short_names_differ_in_one_letter_at_most() {
        let commands = ["run", "top", "diff", "compare"];
        assert_eq!(nearest_short("rnu", commands), Some("run"));
        assert_eq!(nearest_short("foo", commands), None);
        assert_eq!(nearest_short("fifo", commands), None);
        assert_eq!(nearest_short("comapres", commands), Some("compare"));
        assert_eq!(nearest("foo", commands), Some("top"));
    }

    #[test]
    fn a_hint_names_the_most_similar_candidate_or_all() {
        assert_eq!(hint("instances", &["instance", "delay"]), "did you mean 'instance'?");
        assert_eq!(hint("xyz", &["delay", "loop"]), "known are delay, loop");
    }
}
