// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel explain` prints what a term, a figure or a word of an output means. The explanations
//! are those of the tables in the documentation, and of the table of figures.

use clap::Args as ClapArgs;
use input::error::Error;
use input::suggest;
use report::{Better, FIGURES, Figure, Unit};
use runner::exit::ExitStatus;
use runner::outln;

/// Pages whose tables explain the words in their first column.
const PAGES: [(&str, &str); 6] = [
    ("docs/glossary.md", include_str!("../../../../docs/glossary.md")),
    ("docs/outputs.md", include_str!("../../../../docs/outputs.md")),
    ("docs/sanitizer.md", include_str!("../../../../docs/sanitizer.md")),
    ("docs/surface.md", include_str!("../../../../docs/surface.md")),
    ("docs/traces.md", include_str!("../../../../docs/traces.md")),
    (
        "docs/machine-format.md",
        include_str!("../../../../docs/machine-format.md"),
    ),
];

#[derive(ClapArgs)]
pub struct Args {
    /// A term of the glossary, a figure, a key of the JSON, a callback, a field of a task, a status
    /// or exit status, the reason why a policy ended, a check of the sanitizer, a kfunc that is not
    /// modelled, or a key of machine files. Without it, lists the terms of the glossary
    #[arg(value_name = "TERM")]
    term: Vec<String>,
}

/// A row of a table in the documentation.
struct Row {
    page: &'static str,
    /// Headings of the table's columns.
    head: Vec<String>,
    /// The first cell without formatting, and the words that it lists.
    term: String,
    words: Vec<String>,
    cells: Vec<String>,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let rows = rows();
        if self.term.is_empty() {
            for row in rows.iter().filter(|row| row.page == PAGES[0].0) {
                outln!("{}", row.term);
            }
            return Ok(ExitStatus::SUCCESS);
        }
        let term = self.term.join(" ");
        let found = explanations(&rows, bare(&term));
        if found.is_empty() {
            let figures: Vec<String> = FIGURES.iter().flat_map(names).collect();
            let words = rows.iter().flat_map(|row| &row.words).chain(&figures);
            let hint = match suggest::nearest(&term, words.map(String::as_str)) {
                Some(word) => format!("did you mean '{word}'?"),
                None => "'windtunnel explain' lists the terms of the glossary".to_owned(),
            };
            return Err(Error::new(format!("no page explains '{term}'")).hint(hint));
        }
        outln!("{}", found.join("\n\n"));
        Ok(ExitStatus::SUCCESS)
    }
}

/// Removes what outputs and source code print around a word that is explained: `exit status 2` is
/// the row `2`, `p->scx.slice` the row `scx.slice`, and `ops.enqueue()` the row `enqueue`.
fn bare(term: &str) -> &str {
    let prefixes = ["exit status ", "p->", "ops."];
    let found = prefixes.iter().find_map(|prefix| term.strip_prefix(prefix));
    let bare = found.unwrap_or(term);
    bare.strip_suffix("()").unwrap_or(bare)
}

/// Returns all explanations of a term. Words may be separated by spaces or, as in JSON, by
/// underscores.
fn explanations(rows: &[Row], term: &str) -> Vec<String> {
    let is = |word: &str| word.eq_ignore_ascii_case(term) || word.replace('_', " ").eq_ignore_ascii_case(term);
    let rows = rows.iter().filter(|row| row.words.iter().any(|word| is(word)));
    let mut found: Vec<String> = rows.map(explain_row).collect();
    let figures = FIGURES
        .iter()
        .filter(|figure| names(figure).iter().any(|name| is(name)));
    found.extend(figures.map(explain_figure));
    found
}

fn explain_row(row: &Row) -> String {
    let mut text = format!("{} ({})", row.term, row.page);
    for (index, cell) in row.cells.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
        text += match (index, row.head.get(index + 1)) {
            (0, _) | (_, None) => format!("\n  {cell}"),
            // The last column of the glossary.
            (_, Some(head)) if head == "Linux" => match cell.as_str() {
                "yes" => "\n  a term of Linux".to_owned(),
                _ => "\n  not a term of Linux".to_owned(),
            },
            (_, Some(head)) => format!("\n  {head}: {cell}"),
        }
        .as_str();
    }
    text
}

/// Returns the names of a figure in tables and options. A heading is joined into one line.
fn names(figure: &Figure) -> Vec<String> {
    let measure = figure.measure.map(|measure| measure.name.to_owned());
    let column = figure
        .table
        .map(|column| column.head.replace("-\n", "").replace('\n', " "));
    let about = Some(figure.about.to_owned());
    let compare = figure.compare.map(str::to_owned);
    let mut names: Vec<String> = [about, compare, measure, column].into_iter().flatten().collect();
    names.dedup();
    names
}

fn explain_figure(figure: &Figure) -> String {
    let unit = match figure.unit {
        Unit::Score => "in the unit of the workload",
        Unit::Duration => "a length of time",
        Unit::TotalTime => "a sum of times",
        Unit::Count => "a count",
        Unit::Percent => "a percentage",
        Unit::Index => "a number from 0 to 1",
    };
    let better = match figure.better {
        Some(Better::Lower) => "; lower is better",
        Some(Better::Higher) => "; higher is better",
        None => "",
    };
    let names = names(figure);
    let mut text = format!("{} (a figure of results)\n  {unit}{better}", figure.about);
    if names.len() > 1 {
        text += &format!("\n  other names: {}", names[1..].join(", "));
    }
    text
}

/// Returns the rows of all tables.
fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (page, text) in PAGES {
        let mut head: Option<Vec<String>> = None;
        for line in text.lines() {
            let Some(line) = line.strip_prefix('|') else {
                head = None;
                continue;
            };
            let raw: Vec<&str> = split_cells(line.trim_end().trim_end_matches('|'));
            let cells: Vec<String> = raw.iter().map(|cell| plain(cell)).collect();
            let Some(head) = &head else {
                head = Some(cells);
                continue;
            };
            let Some((term, rest)) = cells.split_first().filter(|(term, _)| !term.starts_with("---")) else {
                continue;
            };
            rows.push(Row {
                page,
                head: head.clone(),
                term: term.clone(),
                words: words(raw[0], term, rest.first().filter(|_| head[1] == "reason")),
                cells: rest.to_vec(),
            });
        }
    }
    rows
}

/// Splits a row of a table at its bars, but not inside of code.
fn split_cells(line: &str) -> Vec<&str> {
    let (mut cells, mut begin, mut code) = (Vec::new(), 0, false);
    for (at, c) in line.char_indices() {
        match c {
            '`' => code = !code,
            '|' if !code => {
                cells.push(line[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    cells.push(line[begin..].trim());
    cells
}

/// Removes the marks of code, and the targets of links.
fn plain(cell: &str) -> String {
    let mut text = String::new();
    let mut rest = cell;
    while let Some((before, link)) = rest.split_once('[') {
        text += before;
        match link
            .split_once("](")
            .and_then(|(label, after)| Some((label, after.split_once(')')?.1)))
        {
            Some((label, after)) if !label.contains('[') => {
                text += label;
                rest = after;
            }
            _ => {
                text.push('[');
                rest = link;
            }
        }
    }
    text += rest;
    text.replace(['`', '*'], "").trim().to_owned()
}

/// Returns the words by which a row is found: the whole first cell, its parts between commas, and
/// the first word of each part of code, such as `--json` of `--json FILE`. The words of an exit
/// record are found, too.
fn words(cell: &str, term: &str, reason: Option<&String>) -> Vec<String> {
    let mut words: Vec<String> = vec![term.to_owned()];
    words.extend(reason.cloned());
    words.extend(term.split(", ").map(str::to_owned));
    let code = cell.split('`').skip(1).step_by(2);
    words.extend(
        code.filter_map(|code| code.split_whitespace().next())
            .map(str::to_owned),
    );
    words.sort();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::ext::ExitKind;
    use report::{FIELDS, RunResult};

    fn explain(term: &str) -> String {
        explanations(&rows(), term).join("\n\n")
    }

    #[test]
    fn terms_of_the_glossary_are_explained() {
        let text = explain("dsq");
        assert!(
            text.starts_with("DSQ (docs/glossary.md)\n  dispatch queue of sched_ext"),
            "{text}"
        );
        assert!(text.ends_with("\n  a term of Linux"), "{text}");
        assert!(explain("debt").ends_with("\n  not a term of Linux"));
        let glossary = rows().into_iter().filter(|row| row.page == PAGES[0].0);
        for row in glossary {
            assert!(!row.cells[0].is_empty(), "{}", row.term);
        }
    }

    #[test]
    fn words_of_outputs_are_explained() {
        assert!(explain("ejected").contains("failed, or ended itself, during the run\n  figures: "));
        assert!(explain("130").contains("Ctrl-C"));
        assert!(explain("out-of-bounds").contains("(docs/sanitizer.md)"));
        assert!(explain("--perfetto").contains("(docs/outputs.md)"));
        assert!(explain("bpf_tail_call").contains("maps of programs are not modelled"));
    }

    #[test]
    fn all_keys_of_the_json_are_explained() {
        let default = serde_json::to_value(RunResult::default()).expect("a result can be written");
        let written = default.as_object().expect("a result is an object").keys().cloned();
        for key in written.chain(FIELDS.iter().map(|field| field.key.to_owned())) {
            assert!(explain(&key).contains("(docs/outputs.md)"), "{key}");
        }
    }

    #[test]
    fn ways_in_which_a_policy_ends_are_explained() {
        let kinds = [
            ExitKind::Unreg,
            ExitKind::UnregBpf,
            ExitKind::UnregKern,
            ExitKind::Sysrq,
            ExitKind::Parent,
            ExitKind::Error,
            ExitKind::ErrorBpf,
            ExitKind::ErrorStall,
            ExitKind::ErrorCheck,
        ];
        for kind in kinds {
            let text = explain(kind.name());
            assert!(text.contains(&format!("\n  {}\n  meaning: ", kind.reason())), "{text}");
            assert!(explain(kind.reason()).contains(kind.name()));
        }
        assert_eq!(explain(bare("exit status 2")), explain("2"));
        assert!(explain(bare("p->scx.slice")).contains("(docs/glossary.md)"));
        assert!(explain(bare("ops.enqueue()")).contains("inserts it into a DSQ"));
        assert!(explain("lost tasks").contains("probably lost"));
        assert!(explain("context switches").contains("including those from and to idle"));
    }

    #[test]
    fn all_figures_are_explained() {
        for figure in FIGURES {
            let text = explain(figure.about);
            assert!(text.contains("(a figure of results)"), "{text}");
        }
    }

    #[test]
    fn marks_and_links_are_removed() {
        assert_eq!(plain("a `b|c` [link](x.md#y) [1] *d*"), "a b|c link [1] d");
        assert_eq!(split_cells(" `a|b` | c "), ["`a|b`", "c"]);
    }
}
