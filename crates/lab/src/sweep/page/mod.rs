// SPDX-License-Identifier: GPL-2.0-only
//! Writes the HTML page of a sweep. The page is a single file and needs no network. The summary is
//! a table that needs no script. The script draws the rest from the JSON of [`Analysis`].

use super::analysis::{Analysis, Configuration};
use maud::{Markup, html};
use report::html::{Scripted, json, scripted};

const LINKS: [(&str, &str); 5] = [
    ("summary", "Summary"),
    ("heat", "Heat map"),
    ("pareto", "Pareto front"),
    ("effects", "Main effects"),
    ("parallel", "Parallel coordinates"),
];
/// Names of the metrics that the summary shows, if configurations have values for them.
const SHOWN: [&str; 3] = ["score", "p99_wakeup", "p50_wakeup"];
/// Maximum number of rows of the summary.
const ROWS: usize = 200;

/// Returns the page. `name` is the name of the table.
pub fn page(name: &str, found: &Analysis) -> String {
    let plural = |n: usize, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
    let facts = [
        plural(found.runs, "run"),
        plural(found.configurations.len(), "configuration"),
        format!("{} of machine and workload", plural(found.places.len(), "combination")),
        plural(found.seeds, "seed"),
    ]
    .join(" · ");
    let sections = html! {
        (verdict(found))
        section #summary aria-labelledby="summary-h" {
            h2 #summary-h { "Summary" }
            p.about {
                "Each number compares a configuration with the best one: the geometric mean of the ratios on all machines and \
                 workloads. 1.00 is the best everywhere; 1.10 is 10 % worse on average."
            }
            (summary(found))
        }
        noscript { p.empty { "The charts below need JavaScript. The summary works without it." } }
        section #heat aria-labelledby="heat-h" {
            h2 #heat-h { "Heat map" }
            p.about { "Mean over the seeds. The colour compares the configurations of a column. A click shows the command that repeats the first run of the cell." }
            div.tools #heat-tools {}
            div.scroll #heat-body tabindex="0" role="region" aria-label="Heat map" {}
            p #command role="status" hidden { code {} button type="button" { "Copy" } }
        }
        section #pareto aria-labelledby="pareto-h" {
            h2 #pareto-h { "Pareto front" }
            p.about { "One point for each configuration, as in the summary. No configuration is better in both figures than one on the line." }
            div.tools #pareto-tools {}
            div.scroll #pareto-body tabindex="0" role="region" aria-label="Pareto front" {}
        }
        section #effects aria-labelledby="effects-h" {
            h2 #effects-h { "Main effects" }
            p.about {
                "Change of a figure by one factor, compared with the mean of the factor's levels, within runs that agree in \
                 everything else. Lines are 95 % confidence intervals."
            }
            div.tools #effects-tools {}
            div.scroll #effects-body tabindex="0" role="region" aria-label="Main effects" {}
        }
        section #parallel aria-labelledby="parallel-h" {
            h2 #parallel-h { "Parallel coordinates" }
            p.about { "One line for each cell of the heat map. A click on a line shows its command below the heat map." }
            div.scroll #parallel-body tabindex="0" role="region" aria-label="Parallel coordinates" {}
        }
    };
    scripted(&Scripted {
        title: name,
        facts: &facts,
        links: &LINKS,
        sections: &sections,
        data: json(found),
        style: include_str!("page.css"),
        script: include_str!("page.js"),
    })
}

/// Returns the configurations with a value for a metric, best first.
fn ranked(found: &Analysis, metric: usize) -> Vec<(&Configuration, f64)> {
    let mut all: Vec<(&Configuration, f64)> = found
        .configurations
        .iter()
        .filter_map(|one| Some((one, one.relative[metric]?)))
        .collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all
}

fn verdict(found: &Analysis) -> Markup {
    let best = ranked(found, 0);
    html! {
        section.verdict aria-label="Verdict" {
            @match best.as_slice() {
                [] => p.headline { "No configuration has a score for every machine and workload." },
                [(only, _)] => p.headline { (only.label) " is the only configuration with a score for every machine and workload." },
                [(first, ratio), (second, behind), ..] => {
                    p.headline { (first.label) " has the best score on average." }
                    ul {
                        li { (second.label) " follows; its score is " (format!("{:.1}", 100.0 * (behind / ratio - 1.0))) " % worse." }
                        @if *ratio > 1.0005 { li { (first.label) " is not the best everywhere: it is " (format!("{:.1}", 100.0 * (ratio - 1.0))) " % behind the best of each column." } }
                    }
                }
            }
            @if found.failed > 0 { p.caveat { (found.failed) " of " (found.runs) " runs have no figures, because their policy failed." } }
        }
    }
}

fn summary(found: &Analysis) -> Markup {
    let has_values = |metric: &usize| found.configurations.iter().any(|one| one.relative[*metric].is_some());
    let shown = SHOWN
        .iter()
        .filter_map(|name| found.metrics.iter().position(|metric| metric.name == *name));
    let shown: Vec<usize> = shown.filter(has_values).collect();
    let rank = |one: &Configuration| one.relative[0].unwrap_or(f64::INFINITY);
    let mut order: Vec<usize> = (0..found.configurations.len()).collect();
    order.sort_by(|&a, &b| rank(&found.configurations[a]).total_cmp(&rank(&found.configurations[b])));
    let left_out = order.len().saturating_sub(ROWS);
    order.truncate(ROWS);
    let failed = |index: usize| -> usize {
        let own = found.cells.iter().filter(|cell| cell.configuration == index);
        own.map(|cell| cell.failed).sum()
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Summary" { table {
            thead { tr {
                th scope="col" { "configuration" }
                @for &metric in &shown { th.n scope="col" title=(found.metrics[metric].about) { (found.metrics[metric].name) } }
                th.n scope="col" { "failed runs" }
            } }
            tbody { @for index in order { tr {
                td { (found.configurations[index].label) }
                @for &metric in &shown {
                    td.n { (found.configurations[index].relative[metric].map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"))) }
                }
                td.n { (failed(index)) }
            } } }
        } }
        @if left_out > 0 { p.legend { (left_out) " more configurations are only in the charts." } }
    }
}
