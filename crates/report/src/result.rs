// SPDX-License-Identifier: GPL-2.0-only
//! The parts of a run's result as `--json` prints them. The field names are JSON keys and must not
//! change. The result itself is [`RunResult`], which the table in [`crate::figures`] defines.

use crate::counters::CountersResult;
use crate::failure::{Blocked, ExitRecord, Status};
use crate::figures::RunResult;
use crate::histogram::Histogram;
use crate::kicks::KicksResult;
use crate::lost::Waiting;
use crate::units;
use serde::{Deserialize, Serialize};

/// Information about a run that its records do not contain.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub policy: String,
    pub machine: String,
    pub workload: String,
    /// Policy parameters that the user set, for example `slice_ns=2000000`.
    pub settings: Vec<String>,
    /// The policy's profile: the argument of `--profile` that selects it. Empty if it has none.
    pub profile: String,
    /// Linux release that the policy saw as its kernel. Empty for the default release.
    pub kernel: String,
    pub seed: u64,
    /// Time in ns at which the run ended. Runs begin at 0.
    pub simulated_ns: u64,
    pub wall_ns: u64,
    /// Sum over CPUs of the time during which a CPU was idle although a waiting task was allowed to
    /// run there. Very short times are not counted.
    pub idle_while_waiting_ns: u64,
    /// Value of [`trace::Hash::value`].
    pub trace_hash: u64,
    /// Whether the policy was loaded, and whether it ran until the end.
    pub status: Status,
    pub exit: Option<ExitRecord>,
    /// Number of tasks of the workload that ops.init_task() refused.
    pub failed_forks: u64,
    /// Tasks that waited for a CPU when the run ended. The task that waited longest is the first.
    pub waiting: Vec<Waiting>,
    /// Tasks that had not exited when the run ended in a deadlock. Empty if it did not.
    pub deadlock: Vec<Blocked>,
    /// Name of the workload's operations in the plural, for example `requests` or `loops`.
    pub unit: String,
    pub score: workload::Score,
    /// Whether all tasks have exited.
    pub completed: bool,
    /// Totals of the callbacks, if the run counted them. Otherwise the totals are computed from the
    /// records.
    pub callbacks: Vec<CallbackResult>,
    /// Totals of the locks, if the run counted them. Otherwise the totals are computed from the
    /// records.
    pub lock_waits: Vec<LockResult>,
    /// Time in ns that tasks spent reloading their data into caches.
    pub reload_ns: u64,
    /// Number of cache lines with kernel and policy data that were fetched from another CPU's cache
    /// or invalidated there.
    pub line_transfers: u64,
    /// Time of these transfers in ns.
    pub line_transfer_ns: u64,
    /// Number of hinting faults of NUMA balancing.
    pub numa_faults: u64,
    /// Number of hinting faults whose page was on the node of the CPU.
    pub numa_faults_local: u64,
    /// Number of pages that NUMA balancing moved to another node.
    pub numa_pages_migrated: u64,
    /// Time that the CPUs spent in each idle state, in ns. It does not contain exit latencies.
    pub idle_states: Vec<(String, u64)>,
    /// For each CPU: the time in ns during which it was busy, and its mean frequency in that time in
    /// 1/1024 of its highest frequency. Empty if the machine has no model of frequencies.
    pub frequencies: Vec<(u64, u64)>,
    /// The kicks of the policy, or `None` if it kicked no CPU.
    pub kicks: Option<KicksResult>,
    /// The numbers that the policy changed, if they were read during the run.
    pub counters: CountersResult,
    /// Names of the callbacks. `op` of `Event::Callback` is an index into this list.
    pub ops: Vec<String>,
    /// Names of the locks. `lock` of `Event::LockWait` is an index into this list. Locks without a
    /// name are printed as numbers.
    pub locks: Vec<String>,
}

/// The time that the CPUs spent in an idle state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleStateResult {
    pub name: String,
    /// Sum over all CPUs, without exit latencies.
    pub ns: u64,
    /// This time in percent of the time of all CPUs while they were online.
    pub percent: f64,
}

/// Mean frequency of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FrequencyResult {
    pub cpu: u32,
    /// Time during which the CPU was busy.
    pub busy_ns: u64,
    /// Mean frequency in this time, in percent of the CPU's highest frequency.
    pub percent: f64,
}

/// Returns the mean frequency of all CPUs while they were busy, in percent. Returns `None` if no
/// CPU was busy.
pub(crate) fn mean_frequency(cpus: &[FrequencyResult]) -> Option<f64> {
    let busy: u64 = cpus.iter().map(|cpu| cpu.busy_ns).sum();
    let sum: f64 = cpus.iter().map(|cpu| cpu.busy_ns as f64 * cpu.percent).sum();
    (busy > 0).then(|| sum / busy as f64)
}

/// Totals of the background work (noise): kernel threads that do not belong to the workload.
/// Interrupts are not included, because their time is overhead.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NoiseResult {
    pub tasks: u64,
    /// CPU time of these tasks. The busy time of the run does not contain it.
    pub cpu_ns: u64,
    /// CPU time of these tasks in percent of the time of all CPUs while they were online.
    pub percent: f64,
    /// Number of switches to these tasks, and from them to idle.
    pub switches: u64,
    pub wakeups: u64,
}

/// The result of a sub-scheduler: a policy that scheduled the tasks of a cgroup on behalf of the run's
/// policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubResult {
    /// Path of the cgroup.
    pub cgroup: String,
    pub policy: String,
    pub status: Status,
    /// Why the sub-scheduler was refused or ended before the run's policy did.
    pub exit: Option<ExitRecord>,
    /// Calls and instructions of its callbacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callbacks: Vec<CallbackResult>,
}

impl SubResult {
    /// Returns the name of the sub-scheduler in lists: its policy and its cgroup.
    pub fn label(policy: &str, cgroup: &str) -> String {
        format!("{policy} ({cgroup})")
    }

    /// Describes why the sub-scheduler was refused or ended. Returns `None` if it did not end before
    /// the run's policy.
    pub fn failure(&self) -> Option<String> {
        let exit = self.exit.as_ref()?;
        let fate = match self.status {
            Status::Refused => "was refused".to_owned(),
            _ => format!("ended at {}", units::time(exit.at_ns)),
        };
        let cause = match self.status {
            Status::Refused => exit.message.clone(),
            _ => exit.sentence(),
        };
        let (policy, cgroup) = (&self.policy, &self.cgroup);
        Some(format!("sub-scheduler {policy} of cgroup {cgroup} {fate}: {cause}"))
    }
}

/// Number of checks that the sanitizer made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedResult {
    /// Number of loads, stores and atomics, except those at constant offsets in the program's own
    /// stack frame.
    pub accesses: u64,
    /// Number of calls of helpers and kfuncs.
    pub calls: u64,
}

/// Accesses of one instruction to pages of an arena that were not allocated. The kernel reports each
/// of them in the program's BPF stream, and lets the program go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArenaFault {
    /// Name and cgroup of the sub-scheduler that made the accesses. Empty for the run's policy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sub: String,
    /// `READ` or `WRITE`. The kernel reports every access but a load as a write.
    pub access: String,
    pub count: u64,
    /// User-space address of the first access, in hexadecimal.
    pub address: String,
    /// Position of the instruction in the policy's source.
    pub source: String,
}

impl ArenaFault {
    /// Returns a sentence about the accesses. It contains the line that the kernel writes.
    pub fn sentence(&self) -> String {
        let plural = if self.count == 1 { "" } else { "s" };
        let effect = match self.access.as_str() {
            "READ" => format!("{} load{plural} returned 0", self.count),
            _ => format!("{} store{plural} had no effect", self.count),
        };
        let who = match self.sub.as_str() {
            "" => String::new(),
            sub => format!("{sub}: "),
        };
        format!(
            "{who}{effect}, because the page of the arena is not allocated; Linux reports \"ERROR: Arena {} access at \
             unmapped address {}\": {}",
            self.access, self.address, self.source
        )
    }
}

/// A distribution of times in ns. All fields are 0 if `count` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    pub count: u64,
    pub mean: u64,
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// Number of migrations, by the smallest part of the machine that contains both CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migrations {
    pub core: u64,
    pub llc: u64,
    pub node: u64,
    /// Migrations between NUMA nodes.
    pub remote: u64,
}

/// Operations that the workload completed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    pub unit: String,
    pub operations: u64,
    pub per_second: f64,
}

/// Totals of one callback of the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallbackResult {
    pub callback: String,
    pub count: u64,
    pub insns: u64,
    pub insns_mean: f64,
    pub insns_max: u64,
}

/// Totals of one lock, similar to those of the kernel's lockstat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockResult {
    pub lock: String,
    /// Number of acquisitions. 0 if the totals come from a trace, because a trace contains only
    /// waits.
    #[serde(default)]
    pub acquisitions: u64,
    pub waits: u64,
    pub wait_ns: u64,
    pub wait_max_ns: u64,
    #[serde(default)]
    pub held_ns: u64,
}

/// Figures of one of the tasks with the most CPU time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskResult {
    pub pid: u32,
    pub comm: String,
    pub prio: i32,
    pub cpu_ns: u64,
    /// Time during which the task was runnable without a CPU.
    pub wait_ns: u64,
    pub waits: u64,
    pub switches: u64,
    pub preemptions: u64,
    pub migrations: u64,
    /// The error is at most 6 %, because the histogram of each task is coarse.
    #[serde(default)]
    pub wakeup_latency_p99_ns: u64,
}

/// How evenly CPU time was divided among the always runnable tasks of one priority.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    pub prio: i32,
    pub tasks: u64,
    /// Jain's index. It is 1 if all tasks got the same time, and 1/tasks if one task got all of it.
    pub jain: f64,
    /// CPU time of the task that got the smallest share, in percent of the time since the task
    /// began. The next field has the largest share.
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
    /// Maximum number of tasks and of locks in a result.
    pub const TASKS: usize = 32;

    /// Returns the result as JSON. The figures are left out if the policy was refused.
    ///
    /// # Errors
    /// Serialization fails only if a key is not text. All keys are text, so it does not fail.
    pub fn to_json(&self) -> Result<serde_json::Value, serde_json::Error> {
        const KEPT: [&str; 10] = [
            "policy", "machine", "cpus", "workload", "settings", "profile", "kernel", "seed", "status", "exit",
        ];
        let mut json = serde_json::to_value(self)?;
        if let Some(fields) = json.as_object_mut().filter(|_| self.status == Status::Refused) {
            fields.retain(|name, _| KEPT.contains(&name.as_str()));
        }
        Ok(json)
    }
}

impl Migrations {
    pub(crate) fn total(self) -> u64 {
        self.core + self.llc + self.node + self.remote
    }
}

impl Percentiles {
    /// Returns one of the times in ns, or `None` if there are no values.
    pub(crate) fn known(&self, time: fn(&Percentiles) -> u64) -> Option<f64> {
        (self.count > 0).then(|| time(self) as f64)
    }

    pub(crate) fn from_histogram<const BITS: u32>(histogram: &Histogram<BITS>) -> Percentiles {
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

/// Returns `scaled / 10^places` as the float that is nearest to this decimal number. The float is
/// printed as exactly this number.
pub(crate) fn decimals(scaled: u64, places: u32) -> f64 {
    // Both operands are exact below 2^53. IEEE division is rounded correctly on every host.
    scaled as f64 / 10u64.pow(places) as f64
}

/// Returns `part / whole * scale`, rounded, or 0 if `whole` is 0.
pub(crate) fn ratio(part: u128, whole: u128, scale: u64) -> u64 {
    let ratio = (part * u128::from(scale) + whole / 2).checked_div(whole).unwrap_or(0);
    u64::try_from(ratio).unwrap_or(u64::MAX)
}

/// Returns a percentage with three decimals.
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
