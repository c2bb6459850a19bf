// SPDX-License-Identifier: GPL-2.0-only
//! Lines in the details of a result that show more than one value of a figure. A line is left out
//! (`None`) if there is nothing to show.

use crate::figures::RunResult;
use crate::result::{self, FrequencyResult, Percentiles};
use crate::score::Better;
use crate::units::{count, percent, rounded, tenths, time};

/// Returns the line about kicks, or `None` if there were none.
pub(super) fn kicks_line(r: &RunResult) -> Option<String> {
    let kicks = r.kicks.as_ref()?;
    let (calls, switches, ipis) = (count(kicks.calls()), count(kicks.switches()), count(kicks.ipis));
    Some(format!(
        "{calls}, {switches} of them with a switch of tasks, {ipis} IPIs, {}",
        time(kicks.ns)
    ))
}

/// Returns the line with the score. Returns `None` if the score is the throughput, because the
/// throughput has its own line.
pub(super) fn score_line(r: &RunResult) -> Option<String> {
    let score = r.score.filter(|_| r.score_unit != format!("{}/s", r.throughput.unit))?;
    let better = match r.score_better {
        Better::Higher => "higher",
        Better::Lower => "lower",
    };
    Some(format!("{score} {}, {better} is better", r.score_unit))
}

/// Returns the line about NUMA balancing, or `None` if there were no hinting faults.
pub(super) fn numa_line(r: &RunResult) -> Option<String> {
    let local = result::percent(r.numa_faults_local.into(), r.numa_faults.into());
    (r.numa_faults > 0).then(|| {
        let (faults, pages) = (count(r.numa_faults), count(r.numa_pages_migrated));
        format!(
            "{faults} faults, {} % of them local, {pages} pages moved",
            percent(local)
        )
    })
}

pub(super) fn throughput_line(r: &RunResult) -> Option<String> {
    let (operations, unit) = (r.throughput.operations, &r.throughput.unit);
    let per_second = tenths(rounded(r.throughput.per_second * 10.0));
    (operations > 0).then(|| format!("{} {unit}, {per_second}/s", count(operations)))
}

pub(super) fn percentiles(p: &Percentiles) -> Option<String> {
    let [p50, p99, p999, max, mean] = [p.p50, p.p99, p.p999, p.max, p.mean].map(time);
    (p.count > 0).then(|| format!("p50 {p50}, p99 {p99}, p99.9 {p999}, max {max}, mean {mean}"))
}

/// Returns the line with the share of time in each idle state that was used.
pub(super) fn idle_states_line(r: &RunResult) -> Option<String> {
    let used = r.idle_states.iter().filter(|state| state.ns > 0);
    let shares: Vec<String> = used
        .map(|state| format!("{} {} %", state.name, percent(state.percent)))
        .collect();
    (!shares.is_empty()).then(|| shares.join(", "))
}

/// Returns the line with the mean frequency of busy CPUs, and the lowest and highest mean of a CPU.
pub(super) fn frequencies_line(r: &RunResult) -> Option<String> {
    let mean = result::mean_frequency(&r.frequencies)?;
    let busy = r.frequencies.iter().filter(|cpu| cpu.busy_ns > 0);
    let lowest = busy.clone().min_by(|a, b| a.percent.total_cmp(&b.percent))?;
    let highest = busy.max_by(|a, b| a.percent.total_cmp(&b.percent))?;
    let cpu = |of: &FrequencyResult| format!("{} % (CPU {})", percent(of.percent), of.cpu);
    Some(format!("{} %, from {} to {}", percent(mean), cpu(lowest), cpu(highest)))
}

pub(super) fn migrations_line(r: &RunResult) -> Option<String> {
    let m = r.migrations_by_distance;
    let [all, core, llc, node, remote] = [r.migrations, m.core, m.llc, m.node, m.remote].map(count);
    Some(format!("{all} (core {core}, LLC {llc}, node {node}, remote {remote})"))
}
