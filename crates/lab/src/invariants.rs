// SPDX-License-Identifier: GPL-2.0-only
//! Checks invariants of a run and draws the first violation of each.
//!
//! There are three invariants: no CPU idles while a task waits that may run there (work
//! conservation), no task starves, and tasks run only on the CPUs of their affinity mask. The
//! kernel crate's module `invariant` counts violations. The run is then repeated to draw the time
//! around the first violation of each.

use crate::diff::format_ranges;
use input::duration;
use input::error::Error;
use kernel::decision::Snapshot;
use kernel::violation::{Tally, Violation};
use report::html::written::{Body, Section, Table, Written, written};
use report::layout::{Grid, Mark, Surface, Text};
use report::{RunResult, Status, SubResult};
use runner::interrupt;
use runner::scenario::{PIECE_MAX_NS, Scenario};
use serde_json::{Value, json};
use std::fmt::Write;
use trace::{DrawOptions, Tee, escape};

/// Approximate number of columns of a drawing. With many tasks, a column is more than one character
/// wide.
const COLUMNS: u64 = 60;
/// Minimum time that a drawing shows before and after the violation, in ns.
const MARGIN_NS: u64 = 100_000;

/// The limits of the two invariants that concern waits. A longer wait is a violation.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum time that a CPU may idle while a task waits that may run there, in ns.
    pub idle_ns: u64,
    /// Maximum time that a task may wait for a CPU, in ns.
    pub starvation_ns: u64,
}

/// Result of one invariant in one run.
#[derive(Clone, Debug)]
pub struct CheckedInvariant {
    pub name: &'static str,
    pub about: &'static str,
    pub bound_ns: Option<u64>,
    pub tally: Tally,
    pub illustration: Option<Illustration>,
}

/// Drawing of the first violation of an invariant, which is made in a second run.
#[derive(Clone, Debug)]
pub struct Illustration {
    /// Start and end of the drawn time, in ns.
    pub from: u64,
    pub to: u64,
    pub drawing: String,
    /// State of the machine when the wait reached the limit.
    pub seen: Snapshot,
}

/// Result of a run, and the results of all invariants in it.
#[derive(Clone, Debug)]
pub struct Report {
    pub result: RunResult,
    pub checked: Vec<CheckedInvariant>,
}

impl Report {
    pub fn has_violation(&self) -> bool {
        self.checked.iter().any(|checked| checked.tally.count > 0)
    }
}

/// Runs a scenario and checks the invariants. For each violated one, repeats the run and draws the
/// first violation. `progress` is called with the progress, from 0 to 1000.
///
/// # Errors
/// The errors of [`Scenario::run`].
pub fn check(scenario: &Scenario, bounds: Bounds, progress: &mut dyn FnMut(u64)) -> Result<Report, Error> {
    let mut running = scenario.start()?;
    running.machine.watch(bounds.idle_ns, bounds.starvation_ns);
    let piece = (running.until() / 200).clamp(1, PIECE_MAX_NS);
    while !running.ended() {
        if interrupt::signal().is_some() {
            running.interrupt();
            break;
        }
        running.advance(running.at() + piece, &mut Tee::new())?;
        progress(running.at().saturating_mul(1000) / running.until());
    }
    running.end(&mut Tee::new());
    let watched = running.machine.take_violations();
    let result = running.outcome()?.result;
    let checked = |name, about, bound_ns, tally| CheckedInvariant {
        name,
        about,
        bound_ns,
        tally,
        illustration: None,
    };
    let name_sub = |mut tally: Tally| {
        for violation in tally.first.iter_mut().chain(&mut tally.worst) {
            let mut subs = scenario.subs.iter();
            let named = subs.find(|sub| Some(&sub.cgroup) == violation.sub.as_ref());
            violation.sub = named.map(|sub| SubResult::label(&sub.name, &sub.cgroup));
        }
        tally
    };
    let mut checked = vec![
        checked(
            "work conservation",
            "no CPU idles while a task that may run there waits",
            Some(bounds.idle_ns),
            name_sub(watched.idle_while_waiting),
        ),
        checked(
            "starvation",
            "no task waits too long for a CPU",
            Some(bounds.starvation_ns),
            name_sub(watched.starvation),
        ),
        checked(
            "affinity",
            "no task runs on a CPU that its affinity excludes",
            None,
            name_sub(watched.affinity),
        ),
    ];
    for one in &mut checked {
        // The drawing needs a second run, because the first run does not know in advance when a
        // violation will happen.
        if let Some(first) = one.tally.first.as_ref().filter(|_| !result.interrupted) {
            one.illustration = Some(illustrate(scenario, first, one.bound_ns.unwrap_or(0))?);
        }
    }
    Ok(Report { result, checked })
}

/// Repeats the run until shortly after the violation and draws the time around the violation.
fn illustrate(scenario: &Scenario, violation: &Violation, bound_ns: u64) -> Result<Illustration, Error> {
    let margin = ((violation.until - violation.from) / 2).max(MARGIN_NS);
    let (from, to) = (violation.from.saturating_sub(margin), violation.until + margin);
    // The start and the end are rounded to multiples of the time that a column shows. The numbers
    // are then short enough for a user to type.
    let step = DrawOptions::columns(from, to, COLUMNS).step;
    let (from, to) = (from / step * step, to.div_ceil(step) * step);
    let mut scenario = scenario.clone();
    scenario.draw = Some(DrawOptions::columns(from, to, (to - from) / step));
    let mut running = scenario.start()?;
    let reached = (violation.from + bound_ns).min(violation.until);
    running.advance(reached, &mut Tee::new())?;
    let mut seen = running.machine.snapshot(Some(violation.pid));
    // The machine's clock shows the time of its last event, which may be earlier than `reached`.
    seen.time = reached;
    running.advance(to, &mut Tee::new())?;
    running.end(&mut Tee::new());
    Ok(Illustration {
        from,
        to,
        drawing: running.outcome()?.drawing.unwrap_or_default(),
        seen,
    })
}

/// Formats a time with microseconds: `12.345 ms`.
fn format_time(ns: u64) -> String {
    format!("{}.{:03} ms", ns / 1_000_000, ns / 1000 % 1000)
}

/// Returns in words whether an invariant holds. If the policy failed, nothing is known about the
/// time after the failure. If the run is not longer than the bound, no wait in it can violate the
/// invariant.
fn verdict(checked: &CheckedInvariant, result: &RunResult) -> String {
    let ended = result.exit.as_ref().map_or(result.simulated_ns, |exit| exit.at_ns);
    match (checked.tally.count, result.status) {
        (1.., _) => "BROKEN".to_owned(),
        (0, Status::Refused) => "not known".to_owned(),
        (0, _) if checked.bound_ns.is_some_and(|bound| bound >= ended) => "not tested".to_owned(),
        (0, Status::Ran) => "holds".to_owned(),
        (0, Status::Ejected | Status::Deadlock) => format!("holds up to {}", format_time(ended)),
    }
}

/// Returns a table of the invariants, followed by the first violation of each. `command` returns
/// the command line that draws the schedule between two times.
pub fn text(report: &Report, surface: impl Into<Surface>, command: &dyn Fn(u64, u64) -> String) -> String {
    let surface = surface.into();
    let mut grid = Grid::new();
    grid.left("invariant", 0);
    grid.left("bound", 3);
    grid.left("", 0);
    grid.right("violations", 1);
    grid.right("first at", 2);
    grid.right("longest", 4);
    for checked in &report.checked {
        let mut row = row(checked, &report.result).map(Text::from);
        if checked.tally.count > 0 {
            row[2] = Text::new(&verdict(checked, &report.result), Mark::Failed);
        }
        grid.row(row);
    }
    let r = &report.result;
    let names = [&r.policy, &r.machine, &r.workload].map(|name| escape::line(name));
    let head = format!(
        "{} on machine {}, workload {}, seed {}",
        names[0], names[1], names[2], r.seed
    );
    surface.line(&head, " ") + &grid.render(surface) + &violations(report, command)
}

/// Returns the row of an invariant: name, bound, verdict, number of violations, time of the first
/// one, and length of the longest one.
fn row(checked: &CheckedInvariant, result: &RunResult) -> [String; 6] {
    let tally = &checked.tally;
    let at = |violation: Option<&Violation>, text: fn(&Violation) -> String| violation.map(text).unwrap_or_default();
    [
        checked.name.to_owned(),
        checked.bound_ns.map(duration::format).unwrap_or_default(),
        verdict(checked, result),
        tally.count.to_string(),
        at(tally.first.as_ref(), |first| format_time(first.from)),
        at(tally.worst.as_ref(), |worst| format_time(worst.until - worst.from)),
    ]
}

/// Returns the first violation of each invariant, with its drawing. `command` is that of [`text`].
pub fn violations(report: &Report, command: &dyn Fn(u64, u64) -> String) -> String {
    let mut rest = String::new();
    let r = &report.result;
    for checked in &report.checked {
        if let (Some(first), Some(illustration)) = (&checked.tally.first, &checked.illustration) {
            let _ = writeln!(rest, "\n{}: {}", checked.name, describe_violation(checked, first));
            let _ = writeln!(
                rest,
                "{}\n\n{}",
                describe_situation(first, &illustration.seen),
                illustration.drawing.trim_end()
            );
            let _ = writeln!(
                rest,
                "\nto repeat this drawing: {}",
                command(illustration.from, illustration.to)
            );
        }
    }
    if let Some(lost) = &r.lost_tasks {
        let _ = writeln!(rest, "{} lost tasks: {}", escape::line(&r.policy), lost.sentence());
    }
    if r.interrupted {
        let _ = writeln!(
            rest,
            "interrupted at {}: the verdicts cover the run up to then",
            format_time(r.simulated_ns)
        );
    }
    escape::text(&rest).into_owned()
}

fn describe_violation(checked: &CheckedInvariant, v: &Violation) -> String {
    let sub = v.sub.as_ref().map_or(String::new(), |sub| format!(" of {sub}"));
    let task = format!("{}:{}{}", escape::line(&v.comm), v.pid, escape::line(&sub));
    let length = format_time(v.until - v.from);
    match (v.cpu, checked.bound_ns) {
        (Some(cpu), Some(_)) => format!(
            "from {} on, CPU {cpu} idled for {length} while {task}, which may run there, waited",
            format_time(v.from)
        ),
        (None, _) => format!("from {} on, {task} waited for {length}", format_time(v.from)),
        (Some(cpu), None) => format!(
            "at {}, {task} ran on CPU {cpu}, which its affinity excludes",
            format_time(v.from)
        ),
    }
}

/// Describes the queue in which the task waited, and lists the idle and the busy CPUs.
fn describe_situation(v: &Violation, seen: &Snapshot) -> String {
    let queue = seen
        .queues
        .iter()
        .find_map(|queue| Some((queue, queue.tasks.iter().position(|&pid| pid == v.pid)?)));
    let position = match queue {
        Some((queue, 0)) => format!("the task was the first of {} in: {}", queue.tasks.len(), queue.name),
        Some((queue, ahead)) => format!(
            "the task was number {} of {} in: {}",
            ahead + 1,
            queue.tasks.len(),
            queue.name
        ),
        None => "the task was in no queue".to_owned(),
    };
    let numbers = |idle: bool| {
        let cpus = seen
            .cpus
            .iter()
            .zip(0..)
            .filter(|(cpu, _)| cpu.online && (cpu.curr == 0) == idle);
        format_ranges(&cpus.map(|(_, number)| number).collect::<Vec<u32>>())
    };
    format!(
        "at {}, {position}; idle CPUs: {}; busy CPUs: {}",
        format_time(seen.time),
        numbers(true),
        numbers(false)
    )
}

/// Returns the HTML page of the reports, each with its [`violations`].
pub fn page(reports: &[(Report, String)]) -> String {
    let mut verdicts: Vec<String> = reports.iter().map(|(report, _)| sentence(report)).collect();
    if reports.len() > 1 {
        let bad = reports.iter().filter(|(report, _)| {
            let broken = report.checked.iter().any(|checked| checked.tally.count > 0);
            broken || report.result.failure().is_some()
        });
        let headline = match bad.count() {
            0 => "No policy violates an invariant".to_owned(),
            1 => format!("1 of {} policies violates an invariant or fails", reports.len()),
            bad => format!("{bad} of {} policies violate an invariant or fail", reports.len()),
        };
        verdicts.insert(0, headline);
    }
    let mut sections = Vec::new();
    for (report, violations) in reports {
        let rows = report
            .checked
            .iter()
            .map(|checked| row(checked, &report.result).to_vec());
        let head = ["invariant", "bound", "verdict", "violations", "first at", "longest"];
        let section = |body| Section {
            head: report.result.policy.clone(),
            about: String::new(),
            body,
        };
        sections.push(section(Body::Table(Table {
            head: head.map(str::to_owned).to_vec(),
            numbers: 3,
            rows: rows.collect(),
        })));
        if !violations.trim().is_empty() {
            let mut drawn = section(Body::Text(violations.trim_start_matches('\n').to_owned()));
            drawn.head += ": first violations";
            sections.push(drawn);
        }
    }
    let first = reports.first().map(|(report, _)| &report.result);
    written(&Written {
        title: "Invariants".to_owned(),
        facts: first.map_or_else(String::new, |result| {
            format!("{} on {} · seed {}", result.workload, result.machine, result.seed)
        }),
        verdict: verdicts,
        sections,
        repeat: String::new(),
    })
}

/// Returns in one sentence what a report says.
fn sentence(report: &Report) -> String {
    let broken = report.checked.iter().filter(|checked| checked.tally.count > 0);
    let broken: Vec<&str> = broken.map(|checked| checked.name).collect();
    let policy = &report.result.policy;
    match (broken.is_empty(), report.result.failure()) {
        (true, None) => format!("{policy} violates no invariant"),
        (true, Some(failure)) => format!("{policy} {failure}"),
        (false, _) => format!("{policy} violates: {}", broken.join(", ")),
    }
}

/// Returns the report as JSON, with times in ns.
pub fn json(report: &Report, command: &dyn Fn(u64, u64) -> String) -> Value {
    let violation = |v: &Violation| json!({ "from_ns": v.from, "until_ns": v.until, "pid": v.pid, "comm": v.comm, "sub": v.sub, "cpu": v.cpu });
    let one = |checked: &CheckedInvariant| {
        json!({
            "invariant": checked.name,
            "about": checked.about,
            "bound_ns": checked.bound_ns,
            "verdict": verdict(checked, &report.result),
            "violations": checked.tally.count,
            "first": checked.tally.first.as_ref().map(violation),
            "longest": checked.tally.worst.as_ref().map(violation),
            "drawing": checked.illustration.as_ref().map(|illustration| &illustration.drawing),
            "command": checked.illustration.as_ref().map(|illustration| command(illustration.from, illustration.to)),
        })
    };
    json!({
        "policy": report.result.policy,
        "machine": report.result.machine,
        "workload": report.result.workload,
        "seed": report.result.seed,
        "profile": Some(&report.result.profile).filter(|profile| !profile.is_empty()),
        "invariants": report.checked.iter().map(one).collect::<Vec<_>>(),
        "status": report.result.status,
        "exit": report.result.exit,
    })
}
