// SPDX-License-Identifier: GPL-2.0-only
//! Where the costs of a policy come from: the source lines that execute its instructions, the
//! callbacks that wait for each other's locks, and the fields whose cache lines move between CPUs.

use crate::details::section;
use crate::layout::{Grid, Surface};
use crate::units::{count, time};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;
use trace::escape;

/// Maximum number of rows of each table in the text and on the page. The JSON has all rows.
pub(crate) const ROWS: usize = 20;

/// The costs of a policy by their origin. Each list begins with the largest cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HotspotsResult {
    /// Instructions that the policy and its sub-schedulers executed, in all programs of their objects.
    pub insns: u64,
    pub lines: Vec<LineCost>,
    pub lock_pairs: Vec<LockPairResult>,
    pub fields: Vec<FieldTransfers>,
}

/// The instructions of a source line on one call path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LineCost {
    /// Name and cgroup of the sub-scheduler that contains the line. Empty for the run's policy.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sub: String,
    /// The callback, or for other programs the name of the function that the kernel called.
    pub callback: String,
    /// The functions on the call path. The kernel called the first one, and the last one contains
    /// the instructions. An inlined function is no part of the path, but its lines keep their place
    /// in the source.
    pub functions: Vec<String>,
    /// File name without directories, or an empty text if the object has no source lines.
    pub file: String,
    /// Line from 1, or 0 if the object has no source lines.
    pub line: u32,
    /// Source text of the line.
    pub text: String,
    pub insns: u64,
}

/// The waits of one callback for a lock that another callback held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LockPairResult {
    /// The lock. All runqueues count as one lock.
    pub lock: String,
    /// Code that held the lock directly before the waiter: a callback, `kernel`, or other programs.
    pub holder: String,
    pub waiter: String,
    pub waits: u64,
    pub wait_ns: u64,
    pub wait_max_ns: u64,
}

/// The transfers of cache lines that accesses to one field caused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FieldTransfers {
    /// Path as in C: `task_ctx[].deadline` for a map, `nr_queued` for a global variable,
    /// `task_struct.scx.slice` for a kernel object.
    pub field: String,
    /// Lines that were fetched for a load.
    pub loads: u64,
    /// Lines whose copies in other caches were invalidated for a store.
    pub stores: u64,
    pub ns: u64,
}

impl LineCost {
    /// Returns the position in the source, for example `fifo.bpf.c:42`. If the object has no source
    /// lines, returns the function.
    pub fn place(&self) -> String {
        match self.line {
            0 => self.functions.last().cloned().unwrap_or_default(),
            line => format!("{}:{line}", self.file),
        }
    }

    /// Returns the names of the frames, outermost first: sub-scheduler, callback, functions, source line.
    pub(crate) fn frames(&self) -> impl Iterator<Item = String> {
        let line = (self.line > 0).then(|| self.place());
        let callback = (self.functions.first() != Some(&self.callback)).then(|| self.callback.clone());
        let sub = Some(self.sub.clone()).filter(|sub| !sub.is_empty());
        sub.into_iter()
            .chain(callback)
            .chain(self.functions.iter().cloned())
            .chain(line)
    }
}

impl HotspotsResult {
    /// Returns whether a sub-scheduler executed instructions.
    pub(crate) fn has_subs(&self) -> bool {
        self.lines.iter().any(|line| !line.sub.is_empty())
    }

    /// Sorts all lists by cost.
    pub fn sort(&mut self) {
        self.lines
            .sort_by(|a, b| (b.insns, &a.sub, &a.functions, a.line).cmp(&(a.insns, &b.sub, &b.functions, b.line)));
        self.lock_pairs.sort_by_key(|pair| Reverse(pair.wait_ns));
        self.fields.sort_by(|a, b| (b.ns, &a.field).cmp(&(a.ns, &b.field)));
    }

    /// Returns the instructions as folded stacks, which tools for flame graphs read: a line for each
    /// stack, its frames separated by semicolons, and the number of instructions.
    pub fn folded(&self) -> String {
        let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
        for line in &self.lines {
            let frames: Vec<String> = line
                .frames()
                .map(|frame| escape::line(&frame).replace(';', ","))
                .collect();
            *stacks.entry(frames.join(";")).or_default() += line.insns;
        }
        let lines = stacks.into_iter().map(|(stack, insns)| format!("{stack} {insns}\n"));
        lines.collect()
    }

    /// Returns the costs as text. `policy` is the headline. The text ends with a newline.
    pub fn text(&self, policy: &str, surface: impl Into<Surface>) -> String {
        let surface = surface.into();
        let policy = escape::line(policy);
        let mut out = format!("{policy}\n{}\n", "=".repeat(policy.chars().count()));
        let insns = count(self.insns);
        let _ = writeln!(out, "{insns} instructions");
        let mut grid = Grid::plain();
        grid.left("source line", 0);
        grid.right("insns", 0);
        grid.right("share", 0);
        if self.has_subs() {
            grid.left("sub-scheduler", 0);
        }
        grid.left("callback", 1);
        grid.left("function", 2);
        grid.left("text", 3);
        for line in self.lines.iter().take(ROWS) {
            let function = line.functions.last().cloned().unwrap_or_default();
            let mut row = vec![line.place(), count(line.insns), self.share(line.insns)];
            if self.has_subs() {
                row.push(line.sub.clone());
            }
            row.extend([line.callback.clone(), function, shortened(&line.text)]);
            grid.row(row);
        }
        if !grid.is_empty() {
            out.push('\n');
            out.push_str(&grid.render(surface));
        }
        omitted(&mut out, self.lines.len(), "source lines");
        let fields = self.fields.iter().take(ROWS).map(|field| {
            vec![
                field.field.clone(),
                count(field.loads),
                count(field.stores),
                time(field.ns),
            ]
        });
        section(
            &mut out,
            surface,
            &["cache lines of", "fetched", "invalidated", "took"],
            fields,
        );
        omitted(&mut out, self.fields.len(), "fields");
        let pairs = self.lock_pairs.iter().take(ROWS).map(|pair| {
            vec![
                format!("{} waits for {}", pair.waiter, pair.holder),
                pair.lock.clone(),
                count(pair.waits),
                time(pair.wait_ns),
                time(pair.wait_max_ns),
            ]
        });
        section(&mut out, surface, &["locks", "lock", "waits", "waited", "max"], pairs);
        omitted(&mut out, self.lock_pairs.len(), "pairs of callbacks");
        out
    }

    /// Returns a number of instructions in percent of all.
    pub(crate) fn share(&self, insns: u64) -> String {
        let permille = u128::from(insns) * 1000 / u128::from(self.insns.max(1));
        format!("{}.{} %", permille / 10, permille % 10)
    }
}

/// Returns a source text that fits into a column.
fn shortened(text: &str) -> String {
    const MAX: usize = 60;
    match text.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn omitted(out: &mut String, all: usize, what: &str) {
    if all > ROWS {
        let _ = writeln!(out, "... and {} more {what}", all - ROWS);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns costs with three source lines, a field and a pair of callbacks.
    pub(crate) fn example() -> HotspotsResult {
        let line = |callback: &str, functions: &[&str], line, insns| LineCost {
            sub: String::new(),
            callback: callback.into(),
            functions: functions.iter().map(|&name| name.into()).collect(),
            file: "fifo.bpf.c".into(),
            line,
            text: "nr_queued++;".into(),
            insns,
        };
        let mut costs = HotspotsResult {
            insns: 1000,
            lines: vec![
                line("enqueue", &["fifo_enqueue"], 12, 100),
                line("enqueue", &["fifo_enqueue", "place"], 7, 850),
                line("tick", &["tick"], 30, 50),
            ],
            lock_pairs: vec![LockPairResult {
                lock: "dsq 0x0".into(),
                holder: "dispatch".into(),
                waiter: "enqueue".into(),
                waits: 3,
                wait_ns: 2_000,
                wait_max_ns: 900,
            }],
            fields: vec![FieldTransfers {
                field: "nr_queued".into(),
                loads: 4,
                stores: 40,
                ns: 3_000,
            }],
        };
        costs.sort();
        costs
    }

    #[test]
    fn the_largest_cost_is_the_first() {
        let costs = example();
        assert_eq!(
            costs.lines.iter().map(|line| line.insns).collect::<Vec<_>>(),
            [850, 100, 50]
        );
        let text = costs.text("fifo", false);
        assert!(text.contains("1.00k instructions"), "{text}");
        let row = text
            .lines()
            .find(|line| line.starts_with("fifo.bpf.c:7"))
            .expect("the line is shown");
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words[1..6], ["850", "85.0", "%", "enqueue", "place"], "{row}");
        assert!(text.contains("enqueue waits for dispatch"), "{text}");
        assert!(text.contains("nr_queued"), "{text}");
    }

    #[test]
    fn folded_stacks_have_callback_functions_and_line() {
        assert_eq!(
            example().folded(),
            "enqueue;fifo_enqueue;fifo.bpf.c:12 100\n\
             enqueue;fifo_enqueue;place;fifo.bpf.c:7 850\n\
             tick;fifo.bpf.c:30 50\n"
        );
    }

    #[test]
    fn long_lists_end_with_a_note() {
        let mut costs = example();
        costs.lines = (1..=25)
            .map(|line| LineCost {
                line,
                ..costs.lines[0].clone()
            })
            .collect();
        assert!(costs.text("fifo", false).contains("... and 5 more source lines"));
    }
}
