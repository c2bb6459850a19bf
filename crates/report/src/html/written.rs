// SPDX-License-Identifier: GPL-2.0-only
//! Pages of commands whose results are sentences, tables and drawings in text: comparisons,
//! differences and invariants. They have the design of the page of a run, and no scripts.

use super::page::plain;
use super::tables::micro;
use maud::{Markup, html};

/// The contents of a page.
#[derive(Clone, Debug, Default)]
pub struct Written {
    pub title: String,
    /// A line below the title.
    pub facts: String,
    /// The most important results. The first is the headline.
    pub verdict: Vec<String>,
    pub sections: Vec<Section>,
    /// Command that repeats the result. Empty if there is none.
    pub repeat: String,
}

/// A section with its heading.
#[derive(Clone, Debug)]
pub struct Section {
    pub head: String,
    pub about: String,
    pub body: Body,
}

#[derive(Clone, Debug)]
pub enum Body {
    /// A drawing, or another text in which blanks matter.
    Text(String),
    Table(Table),
}

/// A table. Columns from `numbers` on are numbers.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub head: Vec<String>,
    pub numbers: usize,
    pub rows: Vec<Vec<String>>,
}

/// Returns the page.
pub fn written(page: &Written) -> String {
    let sections = html! {
        @if let Some((headline, points)) = page.verdict.split_first() {
            section.verdict aria-label="Verdict" {
                p.headline { (micro(headline)) }
                @if !points.is_empty() { ul { @for point in points { li { (micro(point)) } } } }
            }
        }
        @for section in &page.sections {
            section {
                h2 { (section.head) }
                @if !section.about.is_empty() { p.about { (micro(&section.about)) } }
                (body(section))
            }
        }
        @if !page.repeat.is_empty() { footer { p.legend { "To repeat this: " code { (page.repeat) } } } }
    };
    plain(&page.title, &page.facts, &sections)
}

fn body(section: &Section) -> Markup {
    match &section.body {
        Body::Text(text) => html! {
            div.scroll tabindex="0" role="region" aria-label=(section.head) { pre.drawing { (text.trim_end()) } }
        },
        Body::Table(table) => html! {
            div.scroll tabindex="0" role="region" aria-label=(section.head) { table {
                thead { tr { @for (at, head) in table.head.iter().enumerate() {
                    th.n[at >= table.numbers] scope="col" { (head) }
                } } }
                tbody { @for row in &table.rows { tr { @for (at, cell) in row.iter().enumerate() {
                    @if at == 0 { th scope="row" { (cell) } } @else {
                        td.n[at >= table.numbers].good[cell == "better" || cell == "holds"].bad[cell == "worse" || cell == "BROKEN"] { (micro(cell)) }
                    }
                } } } }
            } }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_drawings_keep_their_blanks() {
        let section = |body| Section {
            head: "Metrics".to_owned(),
            about: String::new(),
            body,
        };
        let table = Table {
            head: vec!["metric".to_owned(), "change".to_owned(), "B is".to_owned()],
            numbers: 1,
            rows: vec![vec!["p99_wakeup".to_owned(), "<b>5 us".to_owned(), "worse".to_owned()]],
        };
        let page = written(&Written {
            title: "fifo & vtime".to_owned(),
            verdict: vec!["vtime is slower".to_owned(), "by 5 us, as usual".to_owned()],
            sections: vec![
                section(Body::Text("  CPU 0 |AAA|".to_owned())),
                section(Body::Table(table)),
            ],
            repeat: "windtunnel diff fifo vtime".to_owned(),
            ..Written::default()
        });
        for part in [
            "fifo &amp; vtime",
            "<pre class=\"drawing\">  CPU 0 |AAA|</pre>",
            "<td class=\"n\">&lt;b&gt;5 µs</td>",
            "<td class=\"n bad\">worse</td>",
            "<li>by 5 µs, as usual</li>",
            "windtunnel diff fifo vtime",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        assert!(!page.contains("<script"));
    }
}
