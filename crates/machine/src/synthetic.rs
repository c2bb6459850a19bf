// SPDX-License-Identifier: GPL-2.0-only
//! A look at an hwloc synthetic string before hwloc sees it.
//!
//! hwloc allocates whatever a string asks for, ignores an index list that does not fit, and
//! stumbles over one that names a CPU twice. What the levels mean stays hwloc's business.

use crate::MAX_CPUS;
use crate::error::Error;
use std::collections::BTreeSet;

/// Longest string, in bytes: an index list of the largest machine fits.
const MAX_BYTES: usize = 1 << 16;

pub(crate) const HINT: &str = "a synthetic machine reads like \"pack:2 l3:4 core:8 pu:2\": levels from the \
     outside in, `pu` last (hwloc(7), \"Synthetic topologies\"; try `lstopo -i \"...\"`)";

/// Checks that `text` can be given to hwloc. `place` is used in messages.
pub(crate) fn check(place: &str, text: &str) -> Result<(), Error> {
    let error = |message: String| Err(Error::new(place, message).hint(HINT));
    if text.len() > MAX_BYTES {
        return error(format!("a synthetic string of more than {MAX_BYTES} bytes"));
    }
    if text.contains('\0') {
        return error("a NUL character in a synthetic string".into());
    }
    let mut objects: u64 = 1;
    for level in levels(text) {
        let (head, attributes) = match level.split_once('(') {
            // A parenthesis that closes nothing would also hide the levels behind it and their numbers.
            _ if level.split('(').next().is_some_and(|head| head.contains(')')) => {
                return error(format!("the parentheses of {level:?} do not match"));
            }
            Some((head, rest)) => match rest.trim_end_matches(']').strip_suffix(')') {
                Some(attributes) if !attributes.contains(['(', ')']) => (head, attributes),
                _ => return error(format!("the parentheses of {level:?} do not match")),
            },
            None => (level, ""),
        };
        // Memory in brackets and attributes alone belong to the level before: no more CPUs.
        if !head.is_empty() && !head.starts_with('[') {
            let count = head.rsplit(':').next().unwrap_or(head);
            match count.parse::<u64>() {
                Ok(0) => return error(format!("{level:?} asks for no objects")),
                Ok(n) => objects = objects.saturating_mul(n),
                Err(_) => return error(format!("{level:?} has no number of objects")),
            }
        }
        if objects > u64::from(MAX_CPUS) {
            return error(format!("{text:?} has more than the {MAX_CPUS} CPUs supported"));
        }
        for attribute in attributes.split_whitespace() {
            if let Some(list) = attribute.strip_prefix("indexes=")
                && let Err(message) = indexes(list, objects)
            {
                return error(format!("indexes={list} of {head:?}: {message}"));
            }
        }
    }
    Ok(())
}

/// The levels of a string: separated by white space outside of parentheses.
fn levels(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0 && c.is_whitespace()
    })
    .filter(|level| !level.is_empty())
}

/// An index for each of `objects`, each its own: a list `0,2,1,3`, or nested loops
/// `TIMES*STEP:TIMES*STEP`, the first one innermost.
fn indexes(list: &str, objects: u64) -> Result<(), String> {
    let number = |text: &str| {
        text.parse::<u64>()
            .ok()
            .filter(|&n| n <= u64::from(MAX_CPUS))
            .ok_or_else(|| format!("{text:?} is not a number up to {MAX_CPUS}"))
    };
    let mut values: Vec<u64> = Vec::new();
    if list.contains('*') {
        values.push(0);
        for one in list.split(':') {
            let (times, step) = one.split_once('*').ok_or(format!("{one:?} is not TIMES*STEP"))?;
            let (times, step) = (number(times)?, number(step)?);
            if times == 0 || values.len() as u64 * times > objects {
                return Err(format!("the loops do not make {objects} indexes"));
            }
            let inner = values.clone();
            for n in 1..times {
                values.extend(inner.iter().map(|v| v + n * step));
            }
        }
    } else {
        for one in list.split(',') {
            values.push(number(one)?);
        }
    }
    if values.len() as u64 != objects {
        return Err(format!("{} indexes for {objects} objects", values.len()));
    }
    let largest = values.iter().max().copied().unwrap_or(0);
    if largest >= u64::from(MAX_CPUS) {
        return Err(format!("index {largest} is more than the {MAX_CPUS} CPUs supported"));
    }
    if values.iter().collect::<BTreeSet<_>>().len() != values.len() {
        return Err("an index is there twice".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        check("m", text).map_or_else(|e| e.message, |()| "fine".into())
    }

    #[test]
    fn strings() {
        for text in [
            "node:2 core:8 pu:2",
            "8",
            "pack:2 [numa(memory=1GiB)] l3:2(size=32MiB memory=3) core:1 pu:2",
            "pack:2 [numa(indexes=1,0)] core:2 pu:2(indexes=2*4:4*1)",
        ] {
            assert_eq!(said(text), "fine", "{text}");
        }
        assert_eq!(said("core:0 pu:1"), "\"core:0\" asks for no objects");
        assert_eq!(said("core: pu:1"), "\"core:\" has no number of objects");
        assert_eq!(said("pu:2(size=3"), "the parentheses of \"pu:2(size=3\" do not match");
        assert!(said("pu:2((size=3))").ends_with("do not match"));
        assert!(said("nod)e:2 core:2147483647 pu:56").ends_with("do not match"));
        assert!(said("node:4294967296 core:4294967296").ends_with("CPUs supported"));
        for (list, expected) in [
            ("0,1", "2 indexes for 4 objects"),
            ("0,1,2,2", "an index is there twice"),
            ("0,1,2,9999", "\"9999\" is not a number up to 8192"),
            ("2*2:2*2", "an index is there twice"),
            ("2*1:3*2", "the loops do not make 4 indexes"),
            ("2*1", "2 indexes for 4 objects"),
            ("core*2", "\"core\" is not a number up to 8192"),
        ] {
            assert_eq!(
                said(&format!("core:2 pu:2(indexes={list})")),
                format!("indexes={list} of \"pu:2\": {expected}")
            );
        }
    }
}
