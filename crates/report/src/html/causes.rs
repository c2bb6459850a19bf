// SPDX-License-Identifier: GPL-2.0-only
//! The section of the page that says where the time of each run goes, and where the differences
//! from the first run come from.

use super::Run;
use super::tables::{chip, micro};
use crate::attribution::{Basis, attribute, comparable, cpu_kind};
use crate::path::{Divided, Part, SegmentKind, Undivided};
use crate::units;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Maximum number of parts in the table of all parts.
const PARTS: usize = 40;

/// Returns a paragraph about the time that is divided.
fn about(basis: Basis) -> &'static str {
    match basis {
        Basis::Completion => {
            "The time until the last task exits, along the critical path: from this exit back to the waker of each task that \
             had to be woken. At each time, the path is in one task, so its parts add up to the completion time."
        }
        Basis::Operation => {
            "The time of all tasks, divided by the number of operations that they complete. The parts add up to the time \
             that the tasks need for one operation."
        }
        Basis::Task => "The time of all tasks. The parts add up to their lifetimes.",
    }
}

/// Returns the section, or why there is none.
pub fn causes(runs: &[Run], labels: &[String]) -> Markup {
    let divided: Result<Vec<&Divided>, &Undivided> = runs.iter().map(|run| run.scan.divided()).collect();
    let divided = match divided {
        Ok(divided) => divided,
        Err(why) => return html! { p.empty { "The time cannot be divided: " (why) "." } },
    };
    let (basis, parts) = comparable(&divided);
    let totals: Vec<f64> = parts.iter().map(|parts| parts.values().sum()).collect();
    let most = totals.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return html! { p.empty { "No task ran." } };
    }
    let by_kind: Vec<Vec<(usize, SegmentKind, f64)>> = parts.iter().map(kinds).collect();
    let used = |index: usize| by_kind.iter().flatten().any(|part| part.0 == index && part.2 > 0.0);
    html! {
        p.about { (about(basis)) }
        p.keys { @for (index, kind) in SegmentKind::ALL.into_iter().enumerate().filter(|(index, _)| used(*index)) {
            span.key { i style={ "background:var(--part-" (index) ")" } {} (kind.text()) }
        } }
        div.scroll tabindex="0" role="region" aria-label="Where the time goes" { table {
            thead { tr { th scope="col" { "policy" } th.n scope="col" { "time" } th.wide-bar scope="col" { "parts" } } }
            tbody { @for (run, kinds) in by_kind.iter().enumerate() { tr {
                th scope="row" { (chip(run, &labels[run])) }
                td.n { (time(totals[run])) }
                td.wide-bar { div.parts role="img" aria-label=(described(kinds, totals[run])) {
                    @for (index, kind, ns) in kinds { @if *ns > 0.0 {
                        i title={ (kind.text()) ": " (time(*ns)) ", " (percent(*ns, totals[run])) }
                            style={ "--w:" (format!("{:.3}%", 100.0 * ns / most)) ";background:var(--part-" (index) ")" } {}
                    } }
                } }
            } } }
        } }
        @for run in 1..runs.len() {
            @let attribution = attribute([divided[0], divided[run]], [labels[0].clone(), labels[run].clone()]);
            h3 { (micro(&attribution.headline())) }
            div.scroll tabindex="0" role="region" aria-label={ "Difference of " (labels[run]) } { table.causes {
                thead { tr {
                    th.n scope="col" { "points" } th scope="col" { "part" }
                    th.n scope="col" { (chip(0, &labels[0])) } th.n scope="col" { (chip(run, &labels[run])) }
                } }
                tbody { @for (points, text, [before, after]) in attribution.table() { tr {
                    td.n { (points.replace('-', "−")) } td { (text) } td.n { (micro(&before)) } td.n { (micro(&after)) }
                } } }
            } }
        }
        (all_parts(&parts, &totals, labels))
    }
}

fn time(ns: f64) -> String {
    micro(&units::time(units::rounded(ns)))
}

fn percent(ns: f64, total: f64) -> String {
    format!("{:.1} %", 100.0 * ns / total.max(1.0))
}

/// Returns the sums of the parts of each kind, with the number of the kind.
fn kinds(parts: &BTreeMap<Part, f64>) -> Vec<(usize, SegmentKind, f64)> {
    let sum = |kind: SegmentKind| -> f64 {
        let own = parts.iter().filter(|(part, _)| part.kind == kind);
        own.map(|(_, ns)| ns).sum()
    };
    let all = SegmentKind::ALL.into_iter().enumerate();
    all.map(|(index, kind)| (index, kind, sum(kind))).collect()
}

/// Describes a bar for readers who cannot see it.
fn described(kinds: &[(usize, SegmentKind, f64)], total: f64) -> String {
    let shown = kinds.iter().filter(|(_, _, ns)| *ns > 0.0);
    let shown: Vec<String> = shown
        .map(|(_, kind, ns)| format!("{} {}", kind.text(), percent(*ns, total)))
        .collect();
    shown.join(", ")
}

/// Returns the table of all parts, by tasks and kind of CPU.
fn all_parts(parts: &[BTreeMap<Part, f64>], totals: &[f64], labels: &[String]) -> Markup {
    let mut all: BTreeMap<&Part, Vec<f64>> = BTreeMap::new();
    for (run, parts) in parts.iter().enumerate() {
        for (part, &ns) in parts {
            all.entry(part).or_insert_with(|| vec![0.0; totals.len()])[run] = ns;
        }
    }
    let mut capacities: Vec<u32> = all.keys().filter_map(|part| part.capacity).collect();
    capacities.sort_unstable_by_key(|&capacity| std::cmp::Reverse(capacity));
    capacities.dedup();
    let mut rows: Vec<(&Part, Vec<f64>)> = all.into_iter().collect();
    let largest = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    rows.sort_by(|a, b| largest(&b.1).total_cmp(&largest(&a.1)));
    let left_out = rows.len().saturating_sub(PARTS);
    rows.truncate(PARTS);
    html! { details {
        summary { "All parts, by tasks and kind of CPU" }
        div.scroll tabindex="0" role="region" aria-label="All parts" { table {
            thead { tr {
                th scope="col" { "tasks" } th scope="col" { "part" } th scope="col" { "CPUs" }
                @for (run, label) in labels.iter().enumerate() { th.n scope="col" { (chip(run, label)) } }
            } }
            tbody { @for (part, times) in &rows { tr {
                td { (part.tasks) } td { (part.kind.text()) }
                td { @if let Some(capacity) = part.capacity { (cpu_kind(capacity, &capacities)) } }
                @for (run, ns) in times.iter().enumerate() { td.n {
                    @if *ns > 0.0 { (time(*ns)) " (" (percent(*ns, totals[run])) ")" } @else { span.none { "0" } }
                } }
            } } }
        } }
        @if left_out > 0 { p.legend { (left_out) " smaller parts are left out." } }
    } }
}
