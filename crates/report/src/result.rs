// SPDX-License-Identifier: GPL-2.0-only
//! The parts of a run's result, as `--json` prints them. Field names are the JSON's; they stay. The result itself,
//! [`RunResult`], is the table of [`crate::figures`].

use crate::figures::RunResult;
use crate::histogram::Histogram;
use crate::units;
use serde::{Deserialize, Serialize};

/// What the trace does not say about a run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub policy: String,
    pub machine: String,
    pub workload: String,
    /// Parameters that were set: `slice_ns=2000000`.
    pub settings: Vec<String>,
    /// The release of Linux whose symbols the policy found; empty: the usual one.
    pub kernel: String,
    pub seed: u64,
    /// The run's end; runs begin at 0.
    pub simulated_ns: u64,
    pub wall_ns: u64,
    /// From the checker beside the machine: CPU time idle beyond its bound while an allowed task waited.
    pub idle_while_waiting_ns: u64,
    /// [`trace::Hash::value`]
    pub trace_hash: u64,
    /// How far the run came with its policy.
    pub status: Status,
    pub exit: Option<ExitRecord>,
    /// Tasks of the workload that ops.init_task() refused.
    pub failed_forks: u64,
    /// Tasks that waited for a CPU when the run ended, longest first.
    pub waiting: Vec<Waiting>,
    /// What the workload counts as an operation, plural: `requests`, `loops`.
    pub unit: String,
    /// What its result is in one number.
    pub score: workload::Score,
    /// All tasks have exited.
    pub completed: bool,
    /// The callbacks' totals where the run has counted them; otherwise they are added up from the records.
    pub callbacks: Vec<CallbackResult>,
    /// The same for locks.
    pub lock_waits: Vec<LockResult>,
    /// Task time that went into reloading caches.
    pub reload_ns: u64,
    /// Cache lines of kernel and policy data that came from another cache or were invalidated there, and the time that took.
    pub line_transfers: u64,
    pub line_transfer_ns: u64,
    /// Names of callbacks, indexed by `Event::Callback::op`.
    pub ops: Vec<String>,
    /// Names of locks, indexed by `Event::LockWait::lock`; missing ones are told by number.
    pub locks: Vec<String>,
}

/// How far a run came with its policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The policy scheduled the run to its end.
    #[default]
    Ran,
    /// The policy ended before the run ([`RunResult::exit`] has the time). The figures are those up to then, unless
    /// the run went on under the fair class.
    Ejected,
    /// The policy was not loaded. There was no run, and there are no figures.
    Refused,
}

/// A task that waited for a CPU when the run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub pid: u32,
    pub comm: String,
    /// When the wait began, ns since the run's start.
    pub since_ns: u64,
    /// The queue that keeps the task, in words; empty if it is not described.
    pub kept: String,
}

/// Tasks that waited suspiciously long when the run ended, as a policy leaves them that loses tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostTasks {
    pub count: u64,
    /// The longest wait, ns, and its task.
    pub longest_ns: u64,
    pub pid: u32,
    pub comm: String,
    /// The queue that keeps that task, in words.
    pub kept: String,
}

/// Why a policy ended, as the kernel words it (`struct scx_exit_info`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Simulated time, ns.
    #[serde(default)]
    pub at_ns: u64,
    /// As `enum scx_exit_kind` spells it: `SCX_EXIT_ERROR_STALL`.
    pub kind: String,
    pub reason: String,
    pub message: String,
    /// The callback that ran, if one did.
    pub callback: Option<String>,
    /// `file:line` of the policy's source, if the object has line information.
    pub source: Option<String>,
    /// From checked mode: the calls under way, innermost first, and what is known of the address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backtrace: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    pub dump: String,
}

/// What checked mode has looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedResult {
    /// Loads, stores and atomics other than to known places of the own stack frame.
    pub accesses: u64,
    /// Calls of helpers and kfuncs.
    pub calls: u64,
}

/// A distribution of times in ns. All 0 if `count` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    pub count: u64,
    pub mean: u64,
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// Migrations by the nearest thing that both CPUs share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migrations {
    pub core: u64,
    pub llc: u64,
    pub node: u64,
    /// Between NUMA nodes.
    pub remote: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    pub unit: String,
    pub operations: u64,
    pub per_second: f64,
}

/// One callback of the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallbackResult {
    pub callback: String,
    pub count: u64,
    pub insns: u64,
    pub insns_mean: f64,
    pub insns_max: u64,
}

/// One lock, as lockstat tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockResult {
    pub lock: String,
    /// 0 where only waits are known: figures read from a trace.
    #[serde(default)]
    pub acquisitions: u64,
    pub waits: u64,
    pub wait_ns: u64,
    pub wait_max_ns: u64,
    #[serde(default)]
    pub held_ns: u64,
}

/// One of the tasks with the most CPU time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskResult {
    pub pid: u32,
    pub comm: String,
    pub prio: i32,
    pub cpu_ns: u64,
    /// Runnable without a CPU.
    pub wait_ns: u64,
    pub waits: u64,
    pub switches: u64,
    pub preemptions: u64,
    pub migrations: u64,
    /// Within 6 %: single tasks get a coarse histogram.
    #[serde(default)]
    pub wakeup_latency_p99_ns: u64,
}

/// How evenly the always runnable tasks of one priority were served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    pub prio: i32,
    pub tasks: u64,
    /// Jain's index: 1 = all got the same, 1/tasks = one got everything.
    pub jain: f64,
    /// CPU time of the least and of the best served task, of its time in the run.
    pub least_percent: f64,
    pub most_percent: f64,
}

impl CallbackResult {
    pub fn new(name: &str, count: u64, insns: u64, insns_max: u64) -> CallbackResult {
        let insns_mean = decimals(ratio(u128::from(insns), u128::from(count), 10), 1);
        CallbackResult {
            callback: name.to_owned(),
            count,
            insns,
            insns_mean,
            insns_max,
        }
    }
}

impl RunResult {
    /// How many tasks and how many locks a result lists.
    pub const TASKS: usize = 32;

    /// Whether the policy was refused or ended before the run.
    pub fn failed(&self) -> bool {
        self.status != Status::Ran
    }

    /// Whether the result can be the best of several: the policy scheduled the run to its end, lost no task and
    /// refused none, and nobody interrupted the run.
    pub fn can_win(&self) -> bool {
        !self.failed() && !self.interrupted && self.lost_tasks.is_none() && self.failed_forks == 0
    }

    /// Returns what became of a policy that failed: `refused`, `failed at 1.20 s`, or `ended at 1.20 s` if it wanted to end.
    pub fn fate(&self) -> Option<String> {
        match (self.status, &self.exit) {
            (Status::Ran, _) => None,
            (Status::Refused, _) | (Status::Ejected, None) => Some("refused".to_owned()),
            (Status::Ejected, Some(exit)) => {
                let verb = match exit.kind.starts_with("SCX_EXIT_ERROR") {
                    true => "failed",
                    false => "ended",
                };
                Some(format!("{verb} at {}", units::time(exit.at_ns).trim()))
            }
        }
    }

    /// Returns what became of a policy that failed, and why: `refused: ops.name is empty (-22)`.
    pub fn failure(&self) -> Option<String> {
        let (fate, exit) = (self.fate()?, self.exit.as_ref()?);
        Some(match exit.reason == fate {
            true => format!("{fate}: {}", exit.message),
            false => format!("{fate}: {}", exit.sentence()),
        })
    }

    /// Returns the result as JSON. A policy that was refused has no figures.
    ///
    /// # Errors
    /// None that is known: all field names are text.
    pub fn to_json(&self) -> Result<serde_json::Value, serde_json::Error> {
        const KEPT: [&str; 9] = [
            "policy", "machine", "cpus", "workload", "settings", "kernel", "seed", "status", "exit",
        ];
        let mut json = serde_json::to_value(self)?;
        if let Some(fields) = json.as_object_mut().filter(|_| self.status == Status::Refused) {
            fields.retain(|name, _| KEPT.contains(&name.as_str()));
        }
        Ok(json)
    }
}

impl LostTasks {
    /// Returns the finding in words, without the policy's name.
    pub fn sentence(&self) -> String {
        let tasks = match self.count {
            1 => "1 task waited".to_owned(),
            n => format!("{n} tasks waited"),
        };
        let place = match self.kept.as_str() {
            "" => String::new(),
            kept => format!(", {kept}"),
        };
        format!(
            "{tasks} for a CPU when the run ended, {}[{}] for {}{place}",
            self.comm,
            self.pid,
            units::time(self.longest_ns).trim()
        )
    }
}

impl ExitRecord {
    /// Returns the kernel's reason with the message: `runtime error: non-existent DSQ 0x7`.
    pub fn sentence(&self) -> String {
        match self.message.as_str() {
            "" => self.reason.clone(),
            message => format!("{}: {message}", self.reason),
        }
    }
}

impl Migrations {
    pub(crate) fn total(self) -> u64 {
        self.core + self.llc + self.node + self.remote
    }
}

impl Percentiles {
    /// Returns one of the times in ns; `None` if there was nothing to time.
    pub(crate) fn known(&self, time: fn(&Percentiles) -> u64) -> Option<f64> {
        (self.count > 0).then(|| time(self) as f64)
    }

    pub(crate) fn of<const BITS: u32>(histogram: &Histogram<BITS>) -> Percentiles {
        Percentiles {
            count: histogram.count(),
            mean: histogram.mean(),
            p50: histogram.quantile(500_000),
            p99: histogram.quantile(990_000),
            p999: histogram.quantile(999_000),
            max: histogram.max(),
        }
    }
}

/// `scaled / 10^places` as the float nearest to that decimal, which prints as the decimal itself.
pub(crate) fn decimals(scaled: u64, places: u32) -> f64 {
    // Both operands are exact below 2^53 and IEEE division rounds correctly, on every host.
    scaled as f64 / 10u64.pow(places) as f64
}

/// `part / whole` times `scale`, rounded; 0 if there is no whole.
pub(crate) fn ratio(part: u128, whole: u128, scale: u64) -> u64 {
    (part * u128::from(scale) + whole / 2).checked_div(whole).unwrap_or(0) as u64
}

/// A percentage with three decimals.
pub(crate) fn percent(part: u128, whole: u128) -> f64 {
    decimals(ratio(part, whole, 100_000), 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_rounded_decimals() {
        assert_eq!(percent(1, 3).to_string(), "33.333");
        assert_eq!(percent(2, 3).to_string(), "66.667");
        assert_eq!(percent(5, 0), 0.0);
        assert_eq!(percent(7, 7), 100.0);
        assert_eq!(decimals(12_345, 2).to_string(), "123.45");
    }
}
