// SPDX-License-Identifier: GPL-2.0-only
//! Formats everything about one result as text.

use crate::figures::{FIGURES, RunResult};
use crate::layout::{Grid, Surface};
use crate::result::SubResult;
use crate::units::{count, percent, rounded, tenths, time};
use std::fmt::Write;
use trace::escape;

/// Returns all figures of a result in sections. Empty sections are left out. The text ends with a
/// newline.
pub fn details(r: &RunResult, surface: impl Into<Surface>) -> String {
    let surface = surface.into();
    let policy = escape::line(&r.policy);
    let mut out = format!("{policy}\n{}\n", "=".repeat(policy.chars().count()));
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "{name:<20}{}", escape::line(&text));
    };
    line("machine", format!("{} ({} CPUs)", r.machine, r.cpus));
    line("workload", format!("{}, seed {}", r.workload, r.seed));
    line(
        "simulated",
        format!("{} in {} of wall time", time(r.simulated_ns), time(r.wall_ns)),
    );
    line("trace hash", r.trace_hash.clone());
    for (label, text) in FIGURES.iter().filter_map(|figure| figure.line(r)) {
        line(label, text);
    }
    if let Some(exit) = &r.exit {
        line("exit", format!("{} ({})", exit.reason, exit.kind));
        let parts = [
            ("  message", Some(&exit.message)),
            ("  callback", exit.callback.as_ref()),
            ("  source", exit.source.as_ref()),
        ];
        for (name, text) in parts {
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                line(name, text.clone());
            }
        }
        if !exit.dump.is_empty() {
            let _ = writeln!(out, "\ndebug dump\n{}", escape::text(exit.dump.trim_end()));
        }
    }
    let own = r.callbacks.iter().map(|c| (c.callback.clone(), c));
    let subs = r.sub_schedulers.iter().flat_map(|sub| {
        let label = SubResult::label(&sub.policy, &sub.cgroup);
        sub.callbacks
            .iter()
            .map(move |c| (format!("{label}: {}", c.callback), c))
    });
    let callbacks = own.chain(subs).map(|(name, c)| {
        let mean = tenths(rounded(c.insns_mean * 10.0));
        vec![name, count(c.count), mean, count(c.insns_max), count(c.insns)]
    });
    section(
        &mut out,
        surface,
        &["callback", "calls", "insns mean", "max", "total"],
        callbacks,
    );
    let kicks = r.kicks.iter().flat_map(|kicks| &kicks.callbacks).map(|kicking| {
        let numbers = [kicking.calls, kicking.reschedules, kicking.switches].map(count);
        let share = 100.0 * kicking.switches as f64 / kicking.calls.max(1) as f64;
        [
            &[kicking.callback.clone()][..],
            &numbers,
            &[format!("{} %", rounded(share))],
        ]
        .concat()
    });
    section(
        &mut out,
        surface,
        &["kicks by", "calls", "reschedules", "switches", "effect"],
        kicks,
    );
    section(
        &mut out,
        surface,
        &["counter", "before", "after", "per second", "over time"],
        r.counters.rows(),
    );
    if r.counters.omitted > 0 {
        let _ = writeln!(out, "... and {} more numbers that changed", r.counters.omitted);
    }
    let locks = r.locks.iter().map(|l| {
        let known = |text: String| if l.acquisitions > 0 { text } else { "-".to_owned() };
        vec![
            l.lock.clone(),
            known(count(l.acquisitions)),
            count(l.waits),
            time(l.wait_ns),
            time(l.wait_max_ns),
            known(time(l.held_ns)),
        ]
    });
    section(
        &mut out,
        surface,
        &["lock", "acquired", "waits", "waited", "max", "held"],
        locks,
    );
    let fairness = r.fairness.iter().map(|f| {
        let cpu = |share: f64| format!("{} %", percent(share));
        vec![
            format!("prio {}", f.prio),
            count(f.tasks),
            format!("{:.4}", f.jain),
            cpu(f.least_percent),
            cpu(f.most_percent),
        ]
    });
    section(
        &mut out,
        surface,
        &["always runnable", "tasks", "Jain", "least CPU", "most CPU"],
        fairness,
    );
    let tasks = r.tasks.iter().map(|t| {
        vec![
            t.comm.clone(),
            t.pid.to_string(),
            t.prio.to_string(),
            time(t.cpu_ns),
            time(t.wait_ns),
            count(t.switches),
            count(t.preemptions),
            count(t.migrations),
            time(t.wakeup_latency_p99_ns),
        ]
    });
    section(
        &mut out,
        surface,
        &[
            "task",
            "pid",
            "prio",
            "CPU time",
            "waited",
            "switches",
            "preempted",
            "migrations",
            "wake-up p99",
        ],
        tasks,
    );
    if r.tasks_total > r.tasks.len() as u64 {
        let _ = writeln!(out, "... and {} more tasks", r.tasks_total - r.tasks.len() as u64);
    }
    out
}

/// Adds a table. The first column contains names, the others contain numbers. Adds nothing if there
/// are no rows.
pub(crate) fn section(out: &mut String, surface: Surface, heads: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let mut grid = Grid::plain();
    for (index, head) in heads.iter().enumerate() {
        match index {
            0 => grid.left(head, 0),
            index => grid.right(head, index),
        }
    }
    rows.for_each(|row| grid.row(row));
    if !grid.is_empty() {
        out.push('\n');
        out.push_str(&grid.render(surface));
    }
}
