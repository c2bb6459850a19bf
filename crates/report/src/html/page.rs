// SPDX-License-Identifier: GPL-2.0-only
//! Writes the page: a single HTML file that contains its data, styles and scripts.

use super::data::{self, Data};
use super::hotspots::hotspots;
use super::tables::{self, chip, micro};
use super::verdict::{Verdict, verdict};
use super::{Predicted, Run};
use crate::units;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Number of distinct colours for runs. If there are more runs, the colours repeat.
pub const COLOURS: usize = 8;

const STYLE: [&str; 2] = [include_str!("vendor/uPlot.min.css"), include_str!("app/style.css")];
const SCRIPTS: [&str; 14] = [
    include_str!("vendor/uPlot.iife.min.js"),
    include_str!("app/core.js"),
    include_str!("app/turns.js"),
    include_str!("app/rows.js"),
    include_str!("app/align.js"),
    include_str!("app/waits.js"),
    include_str!("app/tasks.js"),
    include_str!("app/input.js"),
    include_str!("app/timeline.js"),
    include_str!("app/story.js"),
    include_str!("app/plots.js"),
    include_str!("app/heat.js"),
    include_str!("app/state.js"),
    include_str!("app/main.js"),
];

/// Keys of the timelines, for readers who cannot see the charts.
const TIMELINE_KEYS: &str = "Left and right move in time, plus and minus zoom, 0 shows the whole run. Up and down choose a row, comma \
                             and full stop move to the previous and next turn, Enter explains the wait before the turn.";

/// A section of the page: its id, heading, description and contents.
struct Section {
    id: &'static str,
    head: &'static str,
    about: &'static str,
    body: Markup,
}

/// Returns the page that shows these runs. There must be at least one run. The first run determines
/// the title. `model_errors` are sentences about the errors of the model, which follow the verdict.
pub fn page(runs: &[Run], model_errors: &[String]) -> String {
    let labels = labels(runs);
    let verdict = verdict(runs, &labels);
    let data = Data {
        runs: runs
            .iter()
            .zip(&labels)
            .map(|(run, label)| data::run(run, label))
            .collect(),
    };
    let title = title(runs);
    let sections = sections(runs, &labels);
    let body = html! {
                a.skip href="#verdict" { "Skip to the verdict" }
                (bar(&sections, &labels))
                main {
                    header.top {
                        h1 { (title) }
                        p.facts { (common_properties(runs)) }
                    }
                    (verdict_card(&verdict, runs, &labels, model_errors))
                    section #summary aria-labelledby="summary-h" {
                        h2 #summary-h { "Summary" }
                        (tables::summary(runs, &labels, &verdict))
                        @if runs.len() > 1 { p.legend { "Bold values are the best of their column. The number below a score is its difference from the best score." } }
                    }
                    noscript { p.empty { "The charts below need JavaScript. The verdict and the tables work without it." } }
                    @for section in &sections {
                        section id=(section.id) aria-labelledby={ (section.id) "-h" } {
                            h2 id={ (section.id) "-h" } { (section.head) }
                            @if !section.about.is_empty() { p.about { (section.about) } }
                            (section.body)
                        }
                    }
                    footer { (inputs(runs, &labels)) }
                }
                div #tip role="status" aria-live="polite" hidden {}
                script type="application/json" #data { (PreEscaped(data::json(&data))) }
                @for script in SCRIPTS { script { (PreEscaped(script)) } }
    };
    document(&title, &body)
}

/// Returns a page in the same style, but without scripts. `facts` is a line below the title.
/// `sections` follow it.
pub fn plain(title: &str, facts: &str, sections: &Markup) -> String {
    let body = html! {
        nav.bar aria-label="Page" { span.brand { (mark()) span { "windtunnel" } } }
        main { header.top { h1 { (title) } p.facts { (facts) } } (sections) }
    };
    document(title, &body)
}

/// Returns a page in the same style with a style sheet and a script of its own. `facts` is a line
/// below the title. `links` are the ids and headings of sections. The script finds `data` as JSON
/// in the element with the id `data`.
pub fn scripted(page: &Scripted) -> String {
    let body = html! {
        nav.bar aria-label="Page" {
            span.brand { (mark()) span { "windtunnel" } }
            div.links { @for (id, head) in page.links { a href={ "#" (id) } { (head) } } }
        }
        main {
            header.top { h1 { (page.title) } p.facts { (page.facts) } }
            style { (PreEscaped(page.style)) }
            (page.sections)
        }
        div #tip role="status" aria-live="polite" hidden {}
        script type="application/json" #data { (PreEscaped(&page.data)) }
        script { (PreEscaped(page.script)) }
    };
    document(page.title, &body)
}

/// The parts of a page with a script of its own.
pub struct Scripted<'a> {
    pub title: &'a str,
    pub facts: &'a str,
    pub links: &'a [(&'a str, &'a str)],
    pub sections: &'a Markup,
    /// JSON in which `<` is escaped ([`super::json`]).
    pub data: String,
    pub style: &'a str,
    pub script: &'a str,
}

fn document(title: &str, body: &Markup) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content="windtunnel";
                title { (title) " – windtunnel" }
                @for style in STYLE { style { (PreEscaped(style)) } }
            }
            body { (body) }
        }
    };
    markup.into_string()
}

/// Returns a label for each run: the policy's name. If several runs have the same name, settings or
/// a number are added.
pub fn labels(runs: &[Run]) -> Vec<String> {
    let names: Vec<&str> = runs.iter().map(|run| run.result.policy.as_str()).collect();
    let alone = |i: usize| names.iter().filter(|name| **name == names[i]).count() == 1;
    let shared = |i: usize, setting: &String| {
        let mut same = runs.iter().zip(&names).filter(|(_, name)| **name == names[i]);
        same.all(|(run, _)| run.result.settings.contains(setting))
    };
    let own = |i: usize| -> Vec<&str> {
        let settings = runs[i].result.settings.iter();
        settings
            .filter(|setting| !shared(i, setting))
            .map(String::as_str)
            .collect()
    };
    let mut labels: Vec<String> = (0..runs.len())
        .map(|i| match own(i).as_slice() {
            own if alone(i) || own.is_empty() => names[i].to_owned(),
            own => format!("{} {}", names[i], own.join(" ")),
        })
        .collect();
    for i in 0..labels.len() {
        let same: Vec<usize> = (i..labels.len()).filter(|&j| labels[j] == labels[i]).collect();
        if same.len() > 1 {
            same.iter()
                .zip(1..)
                .for_each(|(&j, n)| labels[j] = format!("{} #{n}", labels[j]));
        }
    }
    labels
}

fn title(runs: &[Run]) -> String {
    let Some(first) = runs.first().map(|run| &run.result) else {
        return "No run".to_owned();
    };
    let same = |f: fn(&Run) -> &str| runs.iter().all(|run| f(run) == f(&runs[0]));
    match (same(|run| &run.result.workload), same(|run| &run.result.machine)) {
        (true, true) => format!("{} on {}", first.workload, first.machine),
        (true, false) => format!("{} on several machines", first.workload),
        (false, true) => format!("Several workloads on {}", first.machine),
        (false, false) => "Several workloads and machines".to_owned(),
    }
}

/// Returns a line with the properties that all runs have in common.
fn common_properties(runs: &[Run]) -> String {
    let Some(first) = runs.first() else {
        return String::new();
    };
    let cpus = &first.scan.header.cpus;
    let distinct = |part: fn(&trace::CpuPosition) -> u32| {
        let mut all: Vec<u32> = cpus.iter().map(part).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    let plural = |n: usize, unit: &str| format!("{n} {unit}{}", if n == 1 { "" } else { "s" });
    let mut parts = vec![plural(runs.len(), "run")];
    if runs.iter().all(|run| run.scan.header.cpus == *cpus) {
        let (llcs, nodes) = (distinct(|p| p.llc), distinct(|p| p.node));
        let shape = [plural(cpus.len(), "CPU"), plural(llcs, "LLC"), plural(nodes, "node")];
        parts.push(shape.join(", "));
    }
    let ends = runs.iter().map(|run| run.result.simulated_ns);
    let (least, most) = (ends.clone().min().unwrap_or(0), ends.max().unwrap_or(0));
    parts.push(match least == most {
        true => format!("{} simulated", units::time(most)),
        false => format!("{} to {} simulated", units::time(least), units::time(most)),
    });
    if runs.iter().all(|run| run.result.seed == first.result.seed) {
        parts.push(format!("seed {}", first.result.seed));
    }
    micro(&parts.join(" · "))
}

/// Returns the navigation bar. It has links to sections, buttons that show or hide runs, and a
/// button for the colour theme.
fn bar(sections: &[Section], labels: &[String]) -> Markup {
    html! {
        nav.bar aria-label="Page" {
            a.brand href="#verdict" { (mark()) span { "windtunnel" } }
            div.links {
                a href="#summary" { "Summary" }
                @for section in sections { a href={ "#" (section.id) } { (section.head) } }
            }
            @if labels.len() > 1 {
                div.runs role="group" aria-label="Runs shown" {
                    @for (i, label) in labels.iter().enumerate() {
                        button.run type="button" data-run=(i) aria-pressed="true" title="Show or hide this run" { (chip(i, label)) }
                    }
                }
            }
            button #theme type="button" title="Colour theme: automatic, light or dark" { "Auto" }
        }
    }
}

/// The logo: air flowing around a body.
fn mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 32 20" aria-hidden="true" {
            path d="M1 4H8C13 4 13 1.5 18 1.5S24 4 31 4M1 16H8C13 16 13 18.5 18 18.5S24 16 31 16M1 10H9M26 10H31" {}
            ellipse cx="17.5" cy="10" rx="6" ry="4.2" {}
        }
    }
}

fn verdict_card(verdict: &Verdict, runs: &[Run], labels: &[String], model_errors: &[String]) -> Markup {
    html! {
        section.verdict #verdict aria-label="Verdict" {
            p.headline { (micro(verdict.headline.trim_end_matches('.'))) "." }
            @if !verdict.points.is_empty() {
                ul { @for point in &verdict.points { li { (micro(point)) } } }
            }
            @if !verdict.caveat.is_empty() { p.caveat { (verdict.caveat) } }
            @for (run, label) in runs.iter().zip(labels) { @for lack in &run.lacks { p.caveat { (label) ": " (lack) } } }
            @for sentence in model_errors { p.caveat { (sentence) } }
        }
    }
}

fn sections(runs: &[Run], labels: &[String]) -> Vec<Section> {
    let figure_per_run = |class: &str| {
        html! {
            @for (i, label) in labels.iter().enumerate() {
                figure.(class) data-run=(i) { figcaption { (chip(i, label)) } div.plot {} }
            }
        }
    };
    let mut sections = vec![Section {
        id: "causes",
        head: "Where the time goes",
        about: "",
        body: super::causes::causes(runs, labels),
    }];
    sections.push(Section {
        id: "timeline",
        head: "Timeline",
        about: "The task that ran on each CPU. When zoomed out, the filled height of a row is the share of time that the CPU was busy. \
                When zoomed in, every task's turn is visible. Click on a turn to see why its task had waited before. Drag to move. \
                Use Ctrl and the mouse wheel, or + and −, to zoom. Drag with Shift to zoom into a part. All charts over time show \
                the same window of time.",
        body: html! {
            div #tl-tools {}
            p #tl-help.quiet { (TIMELINE_KEYS) }
            div.tl-body { div { (figure_per_run("tl")) } aside #story aria-labelledby="story-h" aria-live="polite" hidden {} }
        },
    });
    sections.push(Section {
        id: "queues",
        head: "Runqueues",
        about: "Number of tasks that run or wait on each CPU. The spread is the standard deviation over the CPUs. It is 0 if all \
                CPUs have equally many tasks.",
        body: html! {
            div.pair {
                figure { figcaption { "Mean length" } div.plot data-plot="mean" {} }
                figure { figcaption { "Spread between CPUs" } div.plot data-plot="spread" {} }
            }
            h3 { "Deviation of each CPU's runqueue from the mean, and migrations of runnable tasks" }
            (figure_per_run("deviation"))
        },
    });
    sections.push(Section {
        id: "migrations",
        head: "Migrations",
        about: "Number of migrations from one CPU (row) to another (column). Thin lines separate LLCs, thick lines NUMA \
                nodes. All runs have the same colour scale.",
        body: html! { div #heat-tools {} div.heats { (figure_per_run("heat")) } (tables::migrations(runs, labels)) },
    });
    sections.push(Section {
        id: "latency",
        head: "Wake-up latency",
        about: "Time from the wake-up of a task until it runs. The chart shows the share of wake-ups that took longer than a given time, \
                where even one in a million is visible. It can also show the share that took at most that time.",
        body: html! { div #latency-tools {} figure { div.plot data-plot="latency" {} } div #slowest {} },
    });
    if runs.iter().any(|run| run.result.response_ns.count > 0) {
        sections.push(Section {
            id: "response",
            head: "Response times",
            about: "Time from the beginning of a request to its end.",
            body: html! { figure { div.plot data-plot="response" {} } (predictions(runs)) },
        });
    }
    sections.push(Section {
        id: "fairness",
        head: "Fairness",
        about: "CPU time of tasks that were always runnable, by priority. Each mark is one task, at its share of a CPU. Jain's index is \
                1 if all n tasks got the same, and 1/n if one task got everything.",
        body: tables::fairness(runs, labels),
    });
    sections.push(Section {
        id: "callbacks",
        head: "Callbacks",
        about: "BPF instructions per call of each callback, on a logarithmic axis. The thick line extends from the median to the 99th \
                percentile, the thin line to the maximum.",
        body: tables::callback_costs(runs, labels),
    });
    if runs
        .iter()
        .any(|run| run.result.kicks.is_some() || !run.result.counters.is_empty())
    {
        sections.push(Section {
            id: "counters",
            head: "Counters",
            about: "What the policies say about themselves: the numbers in their memory that they changed, after loading, at the end and \
                    over time. A kick makes a CPU reschedule. It had an effect if the CPU then switched to a different task.",
            body: tables::counters(runs, labels),
        });
    }
    if runs.iter().any(|run| run.result.hotspots.is_some()) {
        sections.push(Section {
            id: "hotspots",
            head: "Hot spots",
            about: "Where the costs of a policy come from: the instructions of each source line, the fields whose cache lines move \
                    between CPUs, and the callbacks that wait for each other's locks. In the flame graph, the width of a frame is the \
                    number of instructions of its callback, function or line.",
            body: hotspots(runs, labels),
        });
    }
    sections.push(Section {
        id: "locks",
        head: "Locks",
        about: "Time that CPUs waited for locks. The lock with the longest total wait is the first.",
        body: tables::locks(runs, labels),
    });
    sections
}

fn predictions(runs: &[Run]) -> Markup {
    let mut all: Vec<&Predicted> = runs.iter().flat_map(|run| &run.predicted).collect();
    all.sort_by_key(|predicted| predicted.ns);
    all.dedup();
    html! {
        @if !all.is_empty() {
            p.legend {
                "Dashed lines are predictions: "
                @for (i, predicted) in all.iter().enumerate() {
                    @if i > 0 { ", " }
                    (micro(&units::time(predicted.ns))) " " (predicted.label)
                }
                "."
            }
        }
    }
}

/// Returns a table with the inputs of each run, from which the run can be repeated.
fn inputs(runs: &[Run], labels: &[String]) -> Markup {
    html! {
        h2 { "Inputs" }
        div.scroll tabindex="0" role="region" aria-label="Inputs" { table {
            thead { tr { @for head in ["run", "policy", "settings", "machine", "workload", "seed", "simulated", "trace hash"] { th scope="col" { (head) } } } }
            tbody { @for (i, run) in runs.iter().enumerate() { tr {
                @let result = &run.result;
                th scope="row" { (chip(i, &labels[i])) }
                td { (result.policy) }
                td { @if result.settings.is_empty() { span.none { "–" } } @else { code { (result.settings.join(" ")) } } }
                td { (result.machine) } td { code { (result.workload) } } td { (result.seed) }
                td { (units::time(result.simulated_ns)) } td { code { (result.trace_hash) } }
            } } }
        } }
        p.legend { "Equal inputs produce equal runs, down to the byte. Equal trace hashes confirm this. Created by windtunnel; charts drawn with uPlot (MIT)." }
    }
}
