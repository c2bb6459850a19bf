// SPDX-License-Identifier: GPL-2.0-only
//! The tables of the page, and the drawings that need no scripts.

use super::Run;
use super::data::{Callback, callbacks, class_name, classes};
use super::moves::{DISTANCES, REASONS};
use super::verdict::{Tag, TagKind, Verdict, heading};
use crate::counters::{self, Counter, CountersResult};
use crate::score::Better;
use crate::table::columns;
use crate::units;
use maud::{Markup, html};

/// Maximum number of locks in a run's table.
const LOCKS: usize = 6;

/// Returns the colour and the label of a run.
pub fn chip(index: usize, label: &str) -> Markup {
    html! { span.chip style={ "--c:var(--run-" (index % super::page::COLOURS) ")" } { i {} (label) } }
}

/// Replaces `us` in times by `µs`, as the page writes it.
pub fn micro(text: &str) -> String {
    let mut parts = text.split(" us");
    let mut out = parts.next().unwrap_or("").to_owned();
    for part in parts {
        // The letters belong to a word, for example "usual".
        let is_word = part.starts_with(|c: char| c.is_alphanumeric());
        out += if is_word { " us" } else { " µs" };
        out += part;
    }
    out
}

/// Returns the summary table. It has one row for each run, with remarks from the verdict (the most
/// important results in words).
pub fn summary(runs: &[Run], labels: &[String], verdict: &Verdict) -> Markup {
    let results: Vec<_> = runs.iter().map(|run| run.result.clone()).collect();
    let columns = columns(&results);
    let best: Vec<Option<f64>> = columns.iter().map(|column| column.best(&results)).collect();
    let most = |at: usize| results.iter().filter_map(|r| columns[at].value(r)).fold(0.0, f64::max);
    let score_better = columns[0].better;
    html! {
        div.scroll tabindex="0" role="region" aria-label="Summary" {
            table.summary {
                thead { tr {
                    th scope="col" { "policy" }
                    @for column in &columns { th.n scope="col" { (heading(&column.head)) } }
                    th scope="col" { "verdict" }
                } }
                tbody {
                    @for (i, result) in results.iter().enumerate() {
                        tr {
                            th scope="row" { (chip(i, &labels[i])) }
                            @for (at, column) in columns.iter().enumerate() {
                                @let value = column.value(result);
                                @let is_best = runs.len() > 1 && value.is_some() && value == best[at] && result.can_win();
                                td.n.best[is_best] {
                                    @match value {
                                        Some(value) => { (micro(&(column.text)(value))) }
                                        None => span.none { "–" }
                                    }
                                    @if at == 0 && runs.len() > 1 && let Some(value) = value {
                                        (bar(value, most(at), i))
                                        @if let Some(off) = off(value, best[at], score_better) { small { (off) } }
                                    }
                                }
                            }
                            td { @for tag in &verdict.tags[i] { (tag_mark(tag)) } }
                        }
                    }
                }
            }
        }
    }
}

fn tag_mark(tag: &Tag) -> Markup {
    let (class, sign) = match tag.kind {
        TagKind::Good => ("good", "✓"),
        TagKind::Bad => ("bad", "✕"),
        TagKind::Note => ("note", "•"),
    };
    html! { span.tag.(class) { b aria-hidden="true" { (sign) } " " (micro(&tag.text)) } " " }
}

fn bar(value: f64, most: f64, index: usize) -> Markup {
    let width = 100.0 * value / most.max(f64::MIN_POSITIVE);
    let colour = index % super::page::COLOURS;
    html! { span.bar style={ "--w:" (format!("{width:.1}%")) ";--c:var(--run-" (colour) ")" } {} }
}

/// Returns by how much a value differs from the best one, as text.
fn off(value: f64, best: Option<f64>, better: Option<Better>) -> Option<String> {
    let best = best.filter(|&best| best != value && best > 0.0)?;
    let percent = 100.0 * (value / best - 1.0);
    better.map(|_| match percent.abs() {
        p if p >= 1000.0 => format!("{:.0}×", value / best),
        p if p < 0.05 => "equal".to_owned(),
        p if p < 10.0 => format!("{percent:+.1} %").replace('-', "−"),
        _ => format!("{percent:+.0} %").replace('-', "−"),
    })
}

/// Returns the table of migrations by distance and reason.
pub fn migrations(runs: &[Run], labels: &[String]) -> Markup {
    let all = |run: &Run, distance: usize| {
        run.scan
            .moves
            .by_reason
            .iter()
            .map(|by_distance| by_distance[distance])
            .sum::<u64>()
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Migrations by distance and reason" { table {
            thead { tr {
                th scope="col" { "migrations" }
                @for distance in DISTANCES { th.n scope="col" { (distance) } }
                @for reason in REASONS { th.n scope="col" { (reason) } }
            } }
            tbody { @for (i, run) in runs.iter().enumerate() {
                tr {
                    th scope="row" { (chip(i, &labels[i])) }
                    @for distance in 0..DISTANCES.len() { (number(all(run, distance))) }
                    @for by_distance in &run.scan.moves.by_reason { (number(by_distance.iter().sum())) }
                }
            } }
        } }
    }
}

fn number(n: u64) -> Markup {
    html! { td.n { @if n == 0 { span.none { "0" } } @else { (units::count(n)) } } }
}

/// Returns the tables of fairness, one for each priority. Each row has a strip. A mark on the strip
/// shows the share of a CPU that one task got.
pub fn fairness(runs: &[Run], labels: &[String]) -> Markup {
    let classes: Vec<_> = runs.iter().map(|run| classes(&run.scan)).collect();
    let mut prios: Vec<i32> = classes.iter().flatten().map(|class| class.prio).collect();
    prios.sort_unstable();
    prios.dedup();
    let most = classes.iter().flatten().flat_map(|class| class.shares.last()).max();
    // The axis ends at the next tenth of a CPU.
    let axis = (most.copied().unwrap_or(0).div_ceil(100_000)).max(1) as f64 * 100_000.0;
    let x = |share: u64| format!("{:.2}", 1000.0 * share as f64 / axis);
    let percent = |share: u64| format!("{:.1} %", share as f64 / 1e4);
    html! {
        @if prios.is_empty() {
            p.empty { "Fairness cannot be measured: no two tasks of the same priority were always runnable." }
        }
        @for &prio in &prios {
            h3 { (class_name(prio)) }
            div.scroll tabindex="0" role="region" aria-label={ "Fairness at " (class_name(prio)) } { table.strips {
                thead { tr {
                    th scope="col" { "policy" } th.n scope="col" { "Jain" } th.n scope="col" { "tasks" }
                    th.n scope="col" { "least" } th.n scope="col" { "most" }
                    th.wide scope="col" { span.axis { span { "0" } span { "share of a CPU" } span { (percent(units::rounded(axis.trunc()))) } } }
                } }
                tbody { @for (i, by_prio) in classes.iter().enumerate() {
                    @if let Some(class) = by_prio.iter().find(|class| class.prio == prio) { tr {
                        th scope="row" { (chip(i, &labels[i])) }
                        td.n { (format!("{:.4}", class.jain)) }
                        td.n { (class.tasks) }
                        td.n { (percent(class.shares.first().copied().unwrap_or(0))) }
                        td.n { (percent(class.shares.last().copied().unwrap_or(0))) }
                        td.wide {
                            svg.strip viewBox="0 0 1000 24" preserveAspectRatio="none" role="img"
                                aria-label={ "shares of " (class.tasks) " tasks" }
                                style={ "--c:var(--run-" (i % super::page::COLOURS) ")" } {
                                path d={ @for &share in &class.shares { "M" (x(share)) " 3V21" } } {}
                            }
                        }
                    } }
                } }
            } }
        }
    }
}

/// Returns the table of callbacks. Each row has a line on a logarithmic axis, from the median to
/// the maximum number of instructions.
pub fn callback_costs(runs: &[Run], labels: &[String]) -> Markup {
    let costs: Vec<Vec<Callback>> = runs.iter().map(callbacks).collect();
    let most = costs.iter().flatten().map(|c| c.max).max().unwrap_or(1).max(10);
    let decades = most.ilog10() + 1;
    let x = |insns: u64| 1000.0 * (insns.max(1) as f64).log10() / f64::from(decades);
    let mut names: Vec<(u64, &str)> = Vec::new();
    for callback in costs.iter().flatten() {
        match names.iter_mut().find(|(_, name)| *name == callback.name) {
            Some((total, _)) => *total += callback.total,
            None => names.push((callback.total, &callback.name)),
        }
    }
    names.sort_by_key(|&(total, _)| std::cmp::Reverse(total));
    let part = |i: usize, c: &Callback| {
        let all: u64 = costs[i].iter().map(|c| c.total).sum();
        100.0 * c.total as f64 / all.max(1) as f64
    };
    html! {
        @if names.is_empty() { p.empty { "There are no callbacks: none of these runs used a BPF policy." } }
        @else {
            div.scroll tabindex="0" role="region" aria-label="Instructions per callback" { table.callbacks {
                thead { tr {
                    th scope="col" { "callback" } th scope="col" { "policy" } th.n scope="col" { "calls" }
                    th.n scope="col" { "mean" } th.n scope="col" { "p50" } th.n scope="col" { "p99" } th.n scope="col" { "max" }
                    th.n scope="col" { "share" }
                    th.wide scope="col" { span.axis {
                        @for decade in 0..=decades { span { (units::count(10u64.pow(decade))) } }
                    } }
                } }
                @for (_, name) in &names { tbody {
                    @let rows: Vec<(usize, &Callback)> = costs.iter().enumerate()
                        .filter_map(|(i, own)| Some((i, own.iter().find(|c| c.name == *name)?))).collect();
                    @for (at, (i, c)) in rows.iter().enumerate() { tr {
                        @if at == 0 { th scope="rowgroup" rowspan=(rows.len()) { code { (name) } } }
                        td { (chip(*i, &labels[*i])) }
                        (number(c.count)) (number(c.mean))
                        td.n { (known(c.p50)) } td.n { (known(c.p99)) } (number(c.max))
                        td.n { (format!("{:.0} %", part(*i, c))) }
                        td.wide { svg.range viewBox="0 0 1000 16" preserveAspectRatio="none" role="img"
                            aria-label={ "median " (known(c.p50)) ", p99 " (known(c.p99)) ", longest " (c.max) " instructions" }
                            style={ "--c:var(--run-" (i % super::page::COLOURS) ")" } {
                            @let (low, high) = (c.p50.unwrap_or(c.mean), c.p99.unwrap_or(c.max));
                            path.thin d={ "M" (format!("{:.1}", x(low))) " 8H" (format!("{:.1}", x(c.max))) } {}
                            path.thick d={ "M" (format!("{:.1}", x(low))) " 8H" (format!("{:.1}", x(high).max(x(low) + 3.0))) } {}
                        } }
                    } }
                } }
            } }
        }
    }
}

fn known(n: Option<u64>) -> String {
    n.map_or_else(|| "–".to_owned(), units::count)
}

/// Returns the table of locks. The lock with the longest total wait is the first.
pub fn locks(runs: &[Run], labels: &[String]) -> Markup {
    let waited = |run: &Run| run.result.locks.iter().any(|lock| lock.wait_ns > 0);
    if !runs.iter().any(waited) {
        return html! { p.empty { "No CPU waited for a lock." } };
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Locks" { table {
            thead { tr {
                th scope="col" { "policy" } th scope="col" { "lock" } th.n scope="col" { "acquired" }
                th.n scope="col" { "waits" } th.n scope="col" { "waited" } th.n scope="col" { "longest" } th.n scope="col" { "held" }
            } }
            @for (i, run) in runs.iter().enumerate().filter(|(_, run)| waited(run)) { tbody {
                @let locks: Vec<_> = run.result.locks.iter().filter(|lock| lock.wait_ns > 0).take(LOCKS).collect();
                @for (at, lock) in locks.iter().enumerate() { tr {
                    @if at == 0 { th scope="rowgroup" rowspan=(locks.len()) { (chip(i, &labels[i])) } }
                    td { code { (lock.lock) } }
                    (number(lock.acquisitions)) (number(lock.waits))
                    td.n { (micro(&units::time(lock.wait_ns))) }
                    td.n { (micro(&units::time(lock.wait_max_ns))) }
                    td.n { (micro(&units::time(lock.held_ns))) }
                } }
            } }
        } }
    }
}

/// Size of the drawing of a counter over time.
const SPARK: (f64, f64) = (160.0, 24.0);

/// Returns the tables of kicks and of the numbers that the policies changed.
pub fn counters(runs: &[Run], labels: &[String]) -> Markup {
    let kicked = |run: &Run| run.result.kicks.is_some();
    let counted = |run: &Run| !run.result.counters.is_empty();
    html! {
        @if runs.iter().any(kicked) {
            h3 { "Kicks" }
            div.scroll tabindex="0" role="region" aria-label="Kicks" { table {
                thead { tr {
                    th scope="col" { "policy" } th scope="col" { "callback" } th.n scope="col" { "kicks" }
                    th.n scope="col" { "reschedules" } th.n scope="col" { "switches" } th.n scope="col" { "effect" }
                } }
                @for (i, run) in runs.iter().enumerate() { @if let Some(kicks) = &run.result.kicks { tbody {
                    @for (at, kicking) in kicks.callbacks.iter().enumerate() { tr {
                        @if at == 0 { th scope="rowgroup" rowspan=(kicks.callbacks.len()) { (chip(i, &labels[i])) } }
                        td { code { (kicking.callback) } }
                        (number(kicking.calls)) (number(kicking.reschedules)) (number(kicking.switches))
                        td.n { (format!("{:.0} %", 100.0 * kicking.switches as f64 / kicking.calls.max(1) as f64)) }
                    } }
                } } }
            } }
        }
        @for (i, run) in runs.iter().enumerate().filter(|(_, run)| counted(run)) {
            @let counters = &run.result.counters;
            h3 { (chip(i, &labels[i])) }
            div.scroll tabindex="0" role="region" aria-label={ "Counters of " (labels[i]) } { table.counters {
                thead { tr {
                    th scope="col" { "counter" } th.n scope="col" { "before" } th.n scope="col" { "after" }
                    th.n scope="col" { "per second" } th scope="col" { "over time" }
                } }
                tbody { @for counter in &counters.list { tr {
                    th scope="row" { code { (counter.name) } @if counter.elements > 1 { small { "sum of " (counter.elements) } } }
                    td.n { (counters::number(counter.before)) }
                    td.n { (counters::number(counter.after)) }
                    td.n { @match counters.per_second(counter, 0) {
                        Some(rate) => { (units::tenths(units::rounded(rate * 10.0))) }
                        None => span.none { "–" }
                    } }
                    td { (spark(counters, counter, i)) }
                } } }
            } }
            @if counters.omitted > 0 { p.legend { "and " (counters.omitted) " more numbers that changed" } }
        }
    }
}

/// Draws a number over time.
fn spark(counters: &CountersResult, counter: &Counter, run: usize) -> Markup {
    let values = std::iter::once(counter.before).chain(counter.samples.iter().copied());
    let least = values.clone().min().unwrap_or(0);
    let range = (values.clone().max().unwrap_or(0) - least).max(1) as f64;
    let end = counters.times_ns.last().copied().unwrap_or(1).max(1) as f64;
    let times = std::iter::once(0).chain(counters.times_ns.iter().copied());
    let point = |(time, value): (u64, i128)| {
        let x = SPARK.0 * time as f64 / end;
        let y = SPARK.1 - 1.0 - (SPARK.1 - 2.0) * (value - least) as f64 / range;
        format!("{x:.1} {y:.1}")
    };
    let points: Vec<String> = times.zip(values).map(point).collect();
    html! {
        svg.spark viewBox={ "0 0 " (SPARK.0) " " (SPARK.1) } width=(SPARK.0) height=(SPARK.1) role="img"
            aria-label={ "from " (counter.before) " to " (counter.after) }
            style={ "--c:var(--run-" (run % super::page::COLOURS) ")" } {
            path d={ "M" (points.join("L")) } {}
        }
    }
}
