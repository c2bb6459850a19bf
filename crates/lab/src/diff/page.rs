// SPDX-License-Identifier: GPL-2.0-only
//! The HTML page of a difference.

use super::{Diff, present};
use report::html::written::{Body, Section, Written, written};

/// Returns the page. `facts` is a line about the inputs.
pub fn page(diff: &Diff, facts: &str, repeat: &str) -> String {
    let text = present::text(diff, false);
    let (headline, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let section = Section {
        head: "The first difference".to_owned(),
        about: String::new(),
        body: Body::Text(rest.to_owned()),
    };
    let has_rest = !rest.trim().is_empty();
    let [a, b] = &diff.names;
    written(&Written {
        title: format!("{a} and {b}"),
        facts: facts.to_owned(),
        verdict: vec![headline.to_owned()],
        sections: if has_rest { vec![section] } else { Vec::new() },
        repeat: repeat.to_owned(),
    })
}
