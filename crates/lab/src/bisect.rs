// SPDX-License-Identifier: GPL-2.0-only
//! Finds the version of a policy at which a condition changes, in as few tests as possible.

use input::Error;

/// Result of the test of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Good,
    Bad,
    /// The version cannot be tested, for this reason.
    Skipped(String),
}

/// Where the condition changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Index of the last version that is like the first one.
    pub before: usize,
    /// Index of the first version that is like the last one. Versions between the two were skipped.
    pub after: usize,
    /// Whether the versions become bad. Otherwise, they become good.
    pub is_regression: bool,
}

/// Searches among `nr` versions, which are ordered by age. `test` returns the verdict of a version.
///
/// # Errors
/// The first and the last version have the same verdict, or one of them cannot be tested, or `test`
/// fails.
pub fn search(nr: usize, mut test: impl FnMut(usize) -> Result<Verdict, Error>) -> Result<Change, Error> {
    let last = nr
        .checked_sub(1)
        .filter(|&last| last > 0)
        .ok_or_else(|| Error::new("at least two versions are needed"))?;
    let ends = [("oldest", test(0)?), ("newest", test(last)?)];
    for (name, verdict) in &ends {
        if let Verdict::Skipped(reason) = verdict {
            return Err(Error::new(format!("the {name} version cannot be tested: {reason}")));
        }
    }
    let [(_, old), (_, new)] = ends;
    if old == new {
        let both = if old == Verdict::Good { "good" } else { "bad" };
        return Err(
            Error::new(format!("both versions are {both}, so there is no change between them"))
                .hint("take other versions, or a condition that distinguishes them (exit status 0 or 1)"),
        );
    }
    let (mut before, mut after): (usize, usize) = (0, last);
    let mut skipped = vec![false; nr];
    loop {
        let middle = before.midpoint(after);
        let candidates = (before + 1..after).filter(|&index| !skipped[index]);
        let Some(next) = candidates.min_by_key(|index| index.abs_diff(middle)) else {
            return Ok(Change {
                before,
                after,
                is_regression: old == Verdict::Good,
            });
        };
        match test(next)? {
            Verdict::Skipped(_) => skipped[next] = true,
            verdict if verdict == old => before = next,
            _ => after = next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches in versions that letters describe: g(ood), b(ad), s(kipped). Returns the indices
    /// before and after the change, and the number of tests.
    fn searched(versions: &str) -> Result<(usize, usize, usize), String> {
        let mut tests = 0;
        let change = search(versions.len(), |index| {
            tests += 1;
            Ok(match versions.as_bytes()[index] {
                b'g' => Verdict::Good,
                b'b' => Verdict::Bad,
                _ => Verdict::Skipped("no object".to_owned()),
            })
        });
        change
            .map(|change| {
                assert_eq!(change.is_regression, versions.starts_with('g'));
                (change.before, change.after, tests)
            })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_changed_version_is_found() {
        for changed in 1..32 {
            let versions = "g".repeat(changed) + &"b".repeat(32 - changed);
            let (before, after, tests) = searched(&versions).expect("a change");
            assert_eq!((before, after), (changed - 1, changed));
            assert!(tests <= 7, "{tests} tests");
        }
        assert_eq!(searched("bbbg"), Ok((2, 3, 4)));
        assert_eq!(searched("gb"), Ok((0, 1, 2)));
    }

    #[test]
    fn skipped_versions_remain_between_the_two() {
        assert_eq!(searched("gssb"), Ok((0, 3, 4)));
        assert_eq!(searched("ggsbb").map(|(before, after, _)| (before, after)), Ok((1, 3)));
    }

    #[test]
    fn versions_without_a_change_are_errors() {
        assert!(searched("ggg").is_err_and(|error| error.contains("both versions are good")));
        assert!(searched("bb").is_err_and(|error| error.contains("both versions are bad")));
        assert!(searched("sgb").is_err_and(|error| error.contains("oldest version cannot be tested: no object")));
        assert!(searched("g").is_err_and(|error| error.contains("two versions")));
    }
}
