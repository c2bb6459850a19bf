// SPDX-License-Identifier: GPL-2.0-only
//! The HTML page of a difference.

use super::{Diff, present};
use report::html::written::{Body, Section, Written, written};

/// Returns the page. `facts` is a line about the inputs.
pub fn page(diff: &Diff, facts: &str, repeat: &str) -> String {
    let text = present::text(diff, false);
    let (headline, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let [a, b] = &diff.names;
    written(&Written {
        title: format!("{a} and {b}"),
        facts: facts.to_owned(),
        verdict: vec![headline.to_owned()],
        sections: sections(rest, &diff.names),
        repeat: repeat.to_owned(),
    })
}

/// Divides the text of a difference into sections, which begin with the lines that [`heading`]
/// finds.
fn sections(text: &str, names: &[String; 2]) -> Vec<Section> {
    let mut sections: Vec<(String, String)> = vec![("The first difference".to_owned(), String::new())];
    let mut after_blank = true;
    for line in text.lines() {
        match heading(line, names).filter(|_| after_blank) {
            Some(head) => sections.push((head, String::new())),
            None => {
                if let Some((_, body)) = sections.last_mut() {
                    *body += line;
                    body.push('\n');
                }
            }
        }
        after_blank = line.is_empty();
    }
    let sections = sections.into_iter().filter(|(_, body)| !body.trim().is_empty());
    let sections = sections.map(|(head, body)| Section {
        head,
        about: String::new(),
        body: Body::Text(body.trim_matches('\n').to_owned()),
    });
    sections.collect()
}

/// Returns the heading of the section that a line begins, or `None` if it begins none.
fn heading(line: &str, names: &[String; 2]) -> Option<String> {
    if names.iter().any(|name| name == line) {
        return Some(format!("The schedule of {line}"));
    }
    let begins = ["State that ", "Earlier decisions of ", "The first effect on "];
    let found = begins.iter().any(|begin| line.starts_with(begin));
    found.then(|| line.trim_end_matches(':').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_a_section_for_each_part() {
        let text = "\nA fifo, 1 ms: CPU 3 runs a\n\nState that both policies saw:\n  idle CPUs: none\n\n\
                    Earlier decisions of fifo about the same CPU or task:\n  0.5 ms  a\n\nfifo\ncpu  |0\n  0  AA\n\n\
                    cpu  |1\n  0  BB\n\nvtime\ncpu  |0\n";
        let sections = sections(text, &["fifo".to_owned(), "vtime".to_owned()]);
        let heads: Vec<&str> = sections.iter().map(|section| section.head.as_str()).collect();
        let want = [
            "The first difference",
            "State that both policies saw",
            "Earlier decisions of fifo about the same CPU or task",
            "The schedule of fifo",
            "The schedule of vtime",
        ];
        assert_eq!(heads, want);
        let Body::Text(schedule) = &sections[3].body else {
            panic!("a schedule is a text");
        };
        assert_eq!(schedule, "cpu  |0\n  0  AA\n\ncpu  |1\n  0  BB");
        assert!(super::sections("\n", &["a".to_owned(), "b".to_owned()]).is_empty());
    }
}
