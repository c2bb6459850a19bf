// SPDX-License-Identifier: GPL-2.0-only
//! Prints findings, and interleavings side by side in source lines.

use super::case::{Case, Load};
use super::observe::{Finding, Observed, callback, named, place, source};
use bpf::engine::AccessKind;
use bpf::image::Code;
use kernel::release::Release;
use kernel::{CpuId, Race, RaceKind, Seen, Step};
use std::fmt::Write;
use trace::escape;

/// Number of columns of a line of a listing.
const COLUMNS: usize = 100;
/// Number of columns for the time in a listing.
const TIME: usize = 15;
/// Number of rows of a listing before and after the accesses of a race.
const MARGIN: usize = 6;
/// Number of rows of a listing before the end of a policy or the start of a stall.
const LAST: usize = 30;
/// Largest number of rows of a listing.
const MAX_ROWS: usize = 200;

/// Describes a finding. The first line names the file and line of each access.
pub fn finding(finding: &Finding, code: &Code) -> String {
    let text = match finding {
        Finding::Race(race) => race_text(race, code),
        Finding::Ended { message, places } => {
            let mut text = String::new();
            let first = places.first().map_or("the policy ended", |place| place_of(place));
            let _ = writeln!(text, "{first}: {message}");
            for place in places {
                let _ = writeln!(text, "  in {place}");
            }
            text
        }
        Finding::Stall { comm, pid, from_ns, ns } => format!(
            "stall: {comm}[{pid}] waits for a CPU from {} on, for at least {}\n",
            ms(*from_ns),
            ms(*ns)
        ),
        Finding::Affinity { comm, pid, cpu } => {
            format!("affinity: {comm}[{pid}] runs on CPU {cpu}, which its affinity excludes\n")
        }
    };
    escape::text(&text).into_owned()
}

/// Returns `file:line` of a place such as `function (file:line: text)`.
fn place_of(place: &str) -> &str {
    if !place.contains(":") {
        return place;
    }
    let inner = place.split_once('(').map_or(place, |(_, inner)| inner);
    let inner = inner.strip_prefix("near ").unwrap_or(inner);
    let end = inner.match_indices(':').nth(1).map_or(inner.len(), |(at, _)| at);
    let path = &inner[..end];
    path.rsplit('/').next().unwrap_or(path)
}

fn race_text(race: &Race, code: &Code) -> String {
    let mut places = vec![
        place(code, race.load.pc),
        place(code, race.store.pc),
        place(code, race.other.pc),
    ];
    places.dedup();
    let what = match (race.kind, race.lost) {
        _ if race.benign => "a statistics counter may lose a change",
        (RaceKind::Update, true) => "a change was lost",
        (RaceKind::Update, false) => "a change can be lost",
        (RaceKind::Check, true) => "a check was out of date",
        (RaceKind::Check, false) => "a check can be out of date",
        (RaceKind::Replace, true) => "a value was overwritten before it was seen",
        (RaceKind::Replace, false) => "a value can be overwritten before it is seen",
        (RaceKind::Flag, _) => "a flag can change after it was read",
    };
    let mut text = format!("{}: race: {what}\n", places.join(", "));
    let mut row = |verb: &str, seen: &Seen| {
        let (cpu, pc) = (seen.cpu, seen.pc);
        let _ = writeln!(
            text,
            "  CPU {cpu} {:<17} {verb} {:<12} {}: {}",
            callback(seen),
            number(seen.value),
            place(code, pc),
            source(code, pc)
        );
    };
    row("loads ", &race.load);
    if race.lost {
        row("stores", &race.other);
        row("stores", &race.store);
    } else {
        row("stores", &race.store);
        row("stores", &race.other);
    }
    let between = match race.lost {
        true => "stored between the load and the store, and its value was overwritten",
        false => "can store between the load and the store: no lock or atomic instruction orders them",
    };
    let _ = writeln!(text, "  CPU {} {between}", race.other.cpu);
    text
}

/// Returns a suite with one case, which fails as long as the policy has the defect. `object` is the
/// name of the policy's object, which is loaded for the release `kernel`.
pub fn suite(object: &str, kernel: Release, case: &Case, finding: &Finding, code: &Code) -> String {
    let about = self::finding(finding, code);
    let holds: String = case
        .holds
        .iter()
        .map(|(point, ns)| format!(" {point}@{ns}ns"))
        .collect();
    let step = format!("explored {} {}ns{holds}", case.seed, case.for_ns);
    let workload = match &case.load {
        Load::Named(word) => word.as_str(),
        Load::Parts(_) => "found",
    };
    // Strings of JSON are strings of TOML.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut suite = String::new();
    if let Some(json) = case.json() {
        let _ = writeln!(suite, "[workloads]\nfound = {}\n", quoted(&json));
    }
    let about = about.lines().next().unwrap_or_default();
    for (key, value) in [
        ("[[case]]\nobject", quoted(object)),
        ("about", quoted(&format!("mended: {about}"))),
        ("machine", quoted(&case.machine)),
        ("workload", quoted(workload)),
        ("steps", format!("[{}]", quoted(&step))),
    ] {
        let _ = writeln!(suite, "{key} = {value}");
    }
    if kernel != Release::default() {
        let _ = writeln!(suite, "kernel = {}", quoted(&kernel.to_string()));
    }
    suite
}

/// Formats a value: small numbers in decimal, others in hexadecimal.
pub(super) fn number(value: u64) -> String {
    match value {
        0..1_000_000 => value.to_string(),
        _ => format!("{value:#x}"),
    }
}

/// Formats a time in ns: `12.345 ms`.
pub fn ms(ns: u64) -> String {
    format!("{}.{:03} ms", ns / 1_000_000, ns / 1000 % 1000)
}

/// Lists the accesses around a finding, one column for each CPU that takes part.
pub fn listing(observed: &Observed, finding: &Finding) -> String {
    let rows = rows(&observed.steps, &observed.code);
    let range = match finding {
        Finding::Race(race) => {
            let times = [race.load.time, race.store.time, race.other.time];
            let (from, to) = (times.iter().min().copied(), times.iter().max().copied());
            let first = rows.partition_point(|row| Some(row.time) < from).saturating_sub(MARGIN);
            let last = (rows.partition_point(|row| Some(row.time) <= to) + MARGIN).min(rows.len());
            first.max(last.saturating_sub(MAX_ROWS))..last
        }
        Finding::Stall { from_ns, .. } => {
            let at = rows.partition_point(|row| row.time <= *from_ns);
            at.saturating_sub(LAST)..(at + MARGIN).min(rows.len())
        }
        _ => rows.len().saturating_sub(LAST)..rows.len(),
    };
    let rows = &rows[range];
    let mut cpus: Vec<CpuId> = match finding {
        Finding::Race(race) => vec![race.load.cpu, race.other.cpu],
        _ => rows.iter().map(|row| row.cpu).collect(),
    };
    cpus.sort();
    cpus.dedup();
    cpus.truncate(4);
    let width = (COLUMNS - TIME) / cpus.len().max(1);
    let mut text = format!("{:<TIME$}", "time");
    for cpu in &cpus {
        let _ = write!(text, "{:<width$}", format!("CPU {cpu}"));
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    for row in rows {
        let Some(column) = cpus.iter().position(|cpu| *cpu == row.cpu) else {
            continue;
        };
        let held = match row.held_ns {
            0 => String::new(),
            ns => format!("[held {}] ", us(ns)),
        };
        let cell: String = format!("{held}{}", row.text).chars().take(width - 1).collect();
        let line = format!("{:<TIME$}{:indent$}{cell}", us(row.time), "", indent = column * width);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    escape::text(&text).into_owned()
}

pub(super) fn us(ns: u64) -> String {
    format!("{}.{:03} us", ns / 1000, ns % 1000)
}

/// A row of a listing: consecutive accesses of one CPU on one source line.
struct Row {
    time: u64,
    cpu: CpuId,
    held_ns: u64,
    line: String,
    text: String,
}

fn rows(steps: &[Step], code: &Code) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut running: Vec<(CpuId, String)> = Vec::new();
    for step in steps {
        let line = format!("{} {}", named(step.op), place(code, step.pc));
        let verb = match step.kind {
            AccessKind::Load | AccessKind::Acquire => format!(" = {}", number(step.value)),
            AccessKind::Call => String::new(),
            _ => format!(" := {}", number(step.value)),
        };
        let last = running.iter_mut().find(|(cpu, _)| *cpu == step.cpu);
        let continues = last.as_ref().is_some_and(|(_, last)| *last == line);
        if continues
            && step.held_ns == 0
            && let Some(row) = rows.last_mut().filter(|row| row.cpu == step.cpu && row.line == line)
        {
            row.text.push_str(&verb);
            continue;
        }
        match last {
            Some((_, last)) => last.clone_from(&line),
            None => running.push((step.cpu, line.clone())),
        }
        let number = place(code, step.pc);
        let number = number.rsplit(':').next().unwrap_or_default().to_owned();
        let text = format!("{number}: {}{verb}", source(code, step.pc));
        rows.push(Row {
            time: step.time,
            cpu: step.cpu,
            held_ns: step.held_ns,
            line,
            text,
        });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_backtrace_is_file_and_line() {
        assert_eq!(place_of("enqueue (policies/a.bpf.c:12: x = f(1);)"), "a.bpf.c:12");
        assert_eq!(place_of("enqueue (near /tmp/a.bpf.c:7: y)"), "a.bpf.c:7");
        assert_eq!(place_of("ops.enqueue()"), "ops.enqueue()");
    }
}
