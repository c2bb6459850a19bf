// SPDX-License-Identifier: GPL-2.0-only
//! The data that the page's scripts draw. The page contains it as JSON.
//!
//! The timeline consists of segments, intervals in which a CPU ran one task. Runqueue lengths are
//! means over bins, intervals of equal length. Fairness is shown for always runnable tasks: they
//! never slept, did not exit, and existed for at least half of the run.

use super::moves::Cell;
use super::pack;
use super::scan::Scan;
use super::{Run, Section};
use crate::jain;
use serde::Serialize;
use std::cmp::Reverse;

/// Maximum number of CPU shares for each priority on a page. If more tasks have the same priority,
/// the page shows every n-th of their shares in ascending order.
const SHARES: usize = 400;

/// The data of all runs on a page.
#[derive(Serialize)]
pub struct Data<'a> {
    pub runs: Vec<RunData<'a>>,
}

/// The data of one run. Times are in ns.
#[derive(Serialize)]
pub struct RunData<'a> {
    label: &'a str,
    end: u64,
    /// Core, LLC and node of each CPU.
    places: Vec<[u32; 3]>,
    /// Capacities of the CPUs. Empty if all are equal, or unknown.
    capacities: &'a [u32],
    /// For each task, its pid, name and CPU time in ns, as packed JSON. Task 0 is the idle task.
    /// Task 1 stands for an offline CPU.
    tasks: String,
    timeline: Timeline,
    queues: Queues,
    waits: Waits,
    /// Explained waits: index of the wait, headline, and headings with their lines.
    explained: Vec<(usize, &'a str, &'a [Section])>,
    /// Command that explains a wait if `TASK@TIME` is appended.
    why: &'a str,
    migrations: Vec<Cell>,
    /// Histogram of wake-up latencies: the middle and the count of each bucket.
    wakeup: Vec<(u64, u64)>,
    response: Vec<(u64, u64)>,
    predicted: &'a [super::Predicted],
}

/// The packed segments of [`super::timeline::Timeline`] (intervals in which a CPU ran one task).
#[derive(Serialize)]
struct Timeline {
    quantum: u64,
    segments: String,
}

/// The packed waits of [`super::waits::Waits`].
#[derive(Serialize)]
struct Waits {
    /// Number of waits that are left out. They have at most `least` ns.
    left_out: u64,
    least: u64,
    packed: String,
}

/// Runqueue lengths in intervals (bins) of `width` ns.
#[derive(Serialize)]
struct Queues {
    width: u64,
    bins: usize,
    means: String,
    /// For each bin in which tasks were moved: its index, the number of runs of load balancing, the
    /// number of tasks that these runs moved, and the number of all migrations of runnable tasks
    /// (by load balancing or by a policy).
    balance: Vec<(usize, u64, u64, u64)>,
}

/// Returns the data of a run.
pub fn run<'a>(run: &'a Run, label: &'a str) -> RunData<'a> {
    let scan = &run.scan;
    let tasks: Vec<(u32, &str, u64)> = scan.named.iter().map(|t| (t.pid, t.comm.as_str(), t.cpu_ns)).collect();
    let (left_out, least) = scan.waits.left_out();
    let explained = run.explained.iter().filter_map(|one| {
        let index = scan.waits.find(one.pid, one.begin)?;
        Some((index, one.headline.as_str(), one.parts.as_slice()))
    });
    let equal = scan.capacities.windows(2).all(|two| two[0] == two[1]);
    let balance = scan.queues.balances().iter().enumerate();
    RunData {
        label,
        end: scan.end,
        places: scan.header.cpus.iter().map(|p| [p.core, p.llc, p.node]).collect(),
        tasks: pack::packed(&serde_json::to_vec(&tasks).unwrap_or_default()),
        timeline: Timeline {
            quantum: scan.timeline.quantum_ns(),
            segments: scan.timeline.packed(),
        },
        queues: Queues {
            width: scan.queues.width_ns(),
            bins: scan.queues.bins(),
            means: scan.queues.packed(),
            balance: balance
                .filter(|(_, b)| b.runs + b.pulled > 0)
                .map(|(bin, b)| (bin, b.runs, b.moved, b.pulled))
                .collect(),
        },
        capacities: if equal { &[] } else { &scan.capacities },
        waits: Waits {
            left_out,
            least,
            packed: scan.waits.packed(),
        },
        explained: explained.collect(),
        why: &run.why,
        migrations: scan.moves.cells(),
        wakeup: scan.wakeup.filled().collect(),
        response: scan.response.filled().collect(),
        predicted: &run.predicted,
    }
}

/// Costs of one callback, for a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Callback {
    pub name: String,
    pub count: u64,
    pub total: u64,
    /// Instructions per call. The percentiles are unknown if the run counted the calls but the
    /// trace does not contain them.
    pub mean: u64,
    pub p50: Option<u64>,
    pub p99: Option<u64>,
    pub max: u64,
}

/// Returns the callbacks that were called. The callback with the most instructions is the first.
pub fn callbacks(run: &Run) -> Vec<Callback> {
    let traced = run.scan.callbacks.iter().enumerate();
    let mut callbacks: Vec<Callback> = traced
        .filter(|(_, callback)| callback.insns.count() > 0)
        .map(|(op, callback)| Callback {
            name: match run.scan.header.ops.get(op) {
                Some(name) => name.clone(),
                None => format!("callback {op}"),
            },
            count: callback.insns.count(),
            total: callback.total,
            mean: callback.insns.mean(),
            p50: Some(callback.insns.quantile(500_000)),
            p99: Some(callback.insns.quantile(990_000)),
            max: callback.insns.max(),
        })
        .collect();
    if callbacks.is_empty() {
        let counted = run.result.callbacks.iter().map(|callback| Callback {
            name: callback.callback.clone(),
            count: callback.count,
            total: callback.insns,
            mean: crate::units::rounded(callback.insns_mean),
            max: callback.insns_max,
            ..Callback::default()
        });
        callbacks.extend(counted);
    }
    callbacks.sort_by_key(|callback| Reverse(callback.total));
    callbacks
}

/// How evenly CPU time was divided among the always runnable tasks of one priority.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    pub prio: i32,
    pub tasks: usize,
    pub jain: f64,
    /// CPU shares in ppm, in ascending order. There are at most [`SHARES`].
    pub shares: Vec<u64>,
}

/// Returns the fairness of each priority that has several always runnable tasks.
pub fn classes(scan: &Scan) -> Vec<Class> {
    let class = |(prio, shares): &(i32, Vec<u64>)| {
        let mut sorted = shares.clone();
        sorted.sort_unstable();
        let step = sorted.len().div_ceil(SHARES).max(1);
        // The last of the shown shares is replaced by the largest share, which may not be an n-th
        // one.
        let best = sorted.last().copied();
        let mut shown: Vec<u64> = sorted.iter().copied().step_by(step).collect();
        shown.pop();
        shown.extend(best);
        Class {
            prio: *prio,
            tasks: shares.len(),
            jain: jain::index(shares),
            shares: shown,
        }
    };
    scan.shares.iter().map(class).collect()
}

/// Returns a priority in the terms that users know: a nice value or a real-time priority.
pub fn class_name(prio: i32) -> String {
    match prio {
        ..100 => format!("real-time {}", 99 - prio),
        _ => format!("nice {}", prio - 120),
    }
}

/// Serializes data for a script element. `<` is escaped, so that the text cannot end the element.
pub fn json(data: &impl Serialize) -> String {
    serde_json::to_string(data).unwrap_or_default().replace('<', "\\u003c")
}
