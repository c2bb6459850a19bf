// SPDX-License-Identifier: GPL-2.0-only
//! What the page's scripts draw, as JSON.

use super::Run;
use super::moves::Cell;
use super::pack;
use super::scan::Scan;
use crate::jain;
use serde::Serialize;
use std::cmp::Reverse;

/// Shares of tasks that a page shows of a priority, evenly taken from more.
const SHARES: usize = 400;

#[derive(Serialize)]
pub struct Data<'a> {
    pub runs: Vec<RunData<'a>>,
}

#[derive(Serialize)]
pub struct RunData<'a> {
    label: &'a str,
    end: u64,
    /// Core, LLC, node of each CPU.
    places: Vec<[u32; 3]>,
    /// Packed JSON: pid, name and CPU time in ns of each task; 0 is idle, 1 offline.
    tasks: String,
    timeline: Timeline,
    queues: Queues,
    migrations: Vec<Cell>,
    /// Middle and number of each bucket, ns.
    wakeup: Vec<(u64, u64)>,
    /// Latency, when it ended, CPU, task; the worst first.
    slowest: Vec<(u64, u64, u32, u32)>,
    response: Vec<(u64, u64)>,
    predicted: &'a [super::Predicted],
}

#[derive(Serialize)]
struct Timeline {
    quantum: u64,
    segments: String,
}

#[derive(Serialize)]
struct Queues {
    width: u64,
    bins: usize,
    means: String,
    /// Bin, runs of balancers, tasks those moved, runnable tasks moved by whom ever; of bins that have some.
    balance: Vec<(usize, u64, u64, u64)>,
}

pub fn run<'a>(run: &'a Run, label: &'a str) -> RunData<'a> {
    let scan = &run.scan;
    let tasks: Vec<(u32, &str, u64)> = scan.named.iter().map(|t| (t.pid, t.comm.as_str(), t.cpu_ns)).collect();
    let mut slowest: Vec<_> = scan.slowest.iter().map(|Reverse(wakeup)| *wakeup).collect();
    slowest.sort_unstable_by_key(|&wakeup| Reverse(wakeup));
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
        migrations: scan.moves.cells(),
        wakeup: scan.wakeup.filled().collect(),
        slowest: slowest.iter().map(|w| (w.latency, w.time, w.cpu, w.task)).collect(),
        response: scan.response.filled().collect(),
        predicted: &run.predicted,
    }
}

/// A callback, for its table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Callback {
    pub name: String,
    pub count: u64,
    pub total: u64,
    /// Instructions of a call; percentiles are unknown where calls were counted but not traced.
    pub mean: u64,
    pub p50: Option<u64>,
    pub p99: Option<u64>,
    pub max: u64,
}

/// The callbacks that were called, most instructions first.
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
            mean: callback.insns_mean.round() as u64,
            max: callback.insns_max,
            ..Callback::default()
        });
        callbacks.extend(counted);
    }
    callbacks.sort_by_key(|callback| Reverse(callback.total));
    callbacks
}

/// How evenly always runnable tasks of a priority were served.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    pub prio: i32,
    pub tasks: usize,
    pub jain: f64,
    /// CPU shares in ppm, ascending, no more than [`SHARES`].
    pub shares: Vec<u64>,
}

pub fn classes(scan: &Scan) -> Vec<Class> {
    let class = |(prio, shares): &(i32, Vec<u64>)| {
        let mut sorted = shares.clone();
        sorted.sort_unstable();
        let step = sorted.len().div_ceil(SHARES).max(1);
        // The last one is the best served, whatever the step.
        let best = sorted.last().copied();
        let mut told: Vec<u64> = sorted.iter().copied().step_by(step).collect();
        told.pop();
        told.extend(best);
        Class {
            prio: *prio,
            tasks: shares.len(),
            jain: jain::index(shares),
            shares: told,
        }
    };
    scan.shares.iter().map(class).collect()
}

/// A priority as users say it.
pub fn class_name(prio: i32) -> String {
    match prio {
        ..100 => format!("real-time {}", 99 - prio),
        _ => format!("nice {}", prio - 120),
    }
}

/// Text that ends no script element.
pub fn json(data: &impl Serialize) -> String {
    serde_json::to_string(data).unwrap_or_default().replace('<', "\\u003c")
}
