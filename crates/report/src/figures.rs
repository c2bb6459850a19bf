// SPDX-License-Identifier: GPL-2.0-only
//! The table of figures. It defines what a run's result contains, in the order of the JSON and of
//! all lists.
//!
//! To add a figure, add a row. For example, this row
//!
//! ```text
//! /// Wake-ups of tasks.
//! wakeups: u64, Known::Always, |run| run.counts.wakeups => [
//!     Figure::new("wake-ups", Unit::Count, |r| Some(r.wakeups as f64)).details("wake-ups").measure("wakeups", 1.0),
//! ];
//! ```
//!
//! - adds the field `wakeups` to [`RunResult`] and to the JSON, with the comment as documentation;
//! - declares that runs on a real machine have a value, too. With `Known::Simulated` they have none,
//!   and their JSON does not contain the field;
//! - computes the value when a run has ended ([`Ended`]);
//! - shows the value in the details of a result, and makes it a measure of experiments. [`Figure`]
//!   lists all tables and lists that can show a value.
//!
//! A field can have several figures (for example, one for each percentile) or none. To count
//! something new, add a field to [`crate::Summary`] and an arm to the `match` in its function
//! `add`. If each task has its own count, add the field to `Task` in `task.rs` instead. With
//! `Known::Always`, also set the field in [`crate::Summary::add_counters`], which gets the counts of
//! a real machine.

use crate::counters::CountersResult;
use crate::failure::{Blocked, ExitRecord, Status};
use crate::figure::{Field, Figure, Known, MS, S, US, Unit};
use crate::hotspots::HotspotsResult;
use crate::jain;
use crate::kicks::KicksResult;
use crate::lost::LostTasks;
use crate::result::{
    self, ArenaFault, CallbackResult, CheckedResult, Fairness, FrequencyResult, IdleStateResult, LockResult,
    Migrations, NoiseResult, Percentiles, SubResult, TaskResult, Throughput,
};
use crate::score::Better;
use crate::summary::Ended;
use crate::units::{count, percent, time};
use lines::{
    frequencies_line, idle_states_line, kicks_line, migrations_line, numa_line, percentiles, score_line,
    throughput_line,
};
use serde::{Deserialize, Serialize};

mod lines;

macro_rules! figures {
    (
        before { $($before:tt)* }
        after { $($after:tt)* }
        $(
            $(#[$attribute:meta])*
            $key:ident: $type:ty, $known:expr, |$run:ident| $value:expr => [$($figure:expr),* $(,)?];
        )*
    ) => {
        /// The result of one policy on one machine with one workload. The field names are JSON keys
        /// and must not change.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct RunResult {
            $($before)*
            $( $(#[$attribute])* pub $key: $type, )*
            $($after)*
        }

        /// The fields of a [`RunResult`] that are computed from a run, in the order of the JSON.
        pub static FIELDS: &[Field] = &[$( Field { key: stringify!($key), known: $known } ),*];

        /// All figures, in the order in which lists show them.
        pub static FIGURES: &[Figure] = &[$( $( $figure, )* )*];

        impl RunResult {
            /// Computes the fields of this table. All other fields have their default values.
            pub(crate) fn computed(ended: &Ended) -> RunResult {
                RunResult {
                    $( $key: { let $run = ended; $value }, )*
                    ..RunResult::default()
                }
            }
        }
    };
}

figures! {
    before {
        pub policy: String,
        pub machine: String,
        pub cpus: u64,
        pub workload: String,
        /// Policy parameters that the user set, for example `slice_ns=2000000`.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub settings: Vec<String>,
        /// The policy's profile (a file that replaces its user-space part): the argument of
        /// `--profile` that selects it. Empty if the policy has none.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub profile: String,
        /// Linux release that the policy saw as its kernel. Empty for the default release.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub kernel: String,
        pub seed: u64,
        pub simulated_ns: u64,
        pub wall_ns: u64,
    }

    after {
        /// Number of checks that the sanitizer made (`--sanitize`). Checks take wall-clock time,
        /// but no simulated time.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub checked: Option<CheckedResult>,
        /// Costs of the policy by source line, field and lock (`--hotspots`).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub hotspots: Option<HotspotsResult>,
        /// Instructions of the policy that have accessed pages of its arena that were not allocated.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub arena_faults: Vec<ArenaFault>,
        /// Sub-schedulers of the policy (`--sub`).
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub sub_schedulers: Vec<SubResult>,
        pub status: Status,
        /// Number of tasks of the workload that could not be created because ops.init_task()
        /// refused them.
        pub failed_forks: u64,
        /// Tasks that the policy has probably lost. A policy that has lost tasks is never marked as
        /// the best.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub lost_tasks: Option<LostTasks>,
        /// Tasks of the deadlock in which the workload ended, and what they wait for.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub deadlock: Vec<Blocked>,
        /// Whether the user stopped the run at `simulated_ns`. The figures then cover only the time
        /// until then and are not the workload's final result.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub interrupted: bool,
        pub exit: Option<ExitRecord>,
    }

    /// The workload's result in its own unit. `None` if the policy ended before the workload did,
    /// or if the workload did nothing.
    score: Option<f64>, Known::Always, |run| run.score.value => [
        // The table that `windtunnel run` prints names this column after the workload's unit
        // (`table::score_column`).
        Figure::new("the workload's result in its own unit", Unit::Score, |r| r.score)
            .details_as("score", score_line).compare("score").measure("score", 1.0).live("score, {score unit}", 1.0),
        Figure::new("simulated time", Unit::Duration, |r| Some(r.simulated_ns as f64))
            .measure("time_s", S).live("time of the run, s", S),
    ];

    /// Unit of the score: `messages/s`, `s`, `us/op`, `switches/s` or `ms` (mean response time).
    score_unit: String, Known::Always, |run| run.score.unit.clone() => [];

    score_better: Better, Known::Always, |run| run.score.better => [];

    throughput: Throughput, Known::Always, |run| run.throughput.clone() => [
        Figure::new("operations of the workload", Unit::Count, |r| Some(r.throughput.operations as f64))
            .details_as("throughput", throughput_line).measure("operations", 1.0),
        Figure::new("operations of the workload per second", Unit::Count, |r| Some(r.throughput.per_second))
            .live("{operations}/s", 1.0),
    ];

    /// Time from sched_waking (or from sched_wakeup if there is no sched_waking) to the switch to
    /// the task. A task that still waits at the end of the run counts with the time that it has
    /// waited.
    wakeup_latency_ns: Percentiles, Known::Always, |run| Percentiles::from_histogram(&run.counts.wakeup) => [
        Figure::new("median wake-up latency", Unit::Duration, |r| r.wakeup_latency_ns.known(|p| p.p50)).lower()
            .table("wake-up\np50", 4).compare("p50_wakeup").live("wake-up latency p50, us", US),
        Figure::new("p99 wake-up latency", Unit::Duration, |r| r.wakeup_latency_ns.known(|p| p.p99)).lower()
            .table("wake-up\np99", 1).details_as("wake-up latency", |r| percentiles(&r.wakeup_latency_ns))
            .compare("p99_wakeup").live("wake-up latency p99, us", US),
        Figure::new("p99.9 wake-up latency", Unit::Duration, |r| r.wakeup_latency_ns.known(|p| p.p999)).lower()
            .compare("p999_wakeup"),
    ];

    /// Time from the beginning of a request to its end.
    response_ns: Percentiles, Known::Always, |run| Percentiles::from_histogram(&run.counts.response) => [
        Figure::new("mean response time", Unit::Duration, |r| r.response_ns.known(|p| p.mean)).lower()
            .details_as("response time", |r| percentiles(&r.response_ns))
            .compare("mean_response").live("response mean, us", US),
        Figure::new("p99 response time", Unit::Duration, |r| r.response_ns.known(|p| p.p99)).lower()
            .compare("p99_response").live("response p99, us", US),
    ];

    /// Number of sched_switch events, including switches from and to idle, as in the kernel's
    /// nr_switches.
    context_switches: u64, Known::Always, |run| run.counts.switches => [
        Figure::new("context switches, including those from and to idle", Unit::Count, |r| {
                Some(r.context_switches as f64)
            })
            .table("context\nswitches", 5)
            .details_as("context switches", |r| {
                Some(format!("{}, {} preemptions", count(r.context_switches), count(r.preemptions)))
            })
            .compare("switches").measure("switches", 1.0).live("context switches", 1.0),
    ];

    /// Number of switches away from a task that was still runnable.
    preemptions: u64, Known::Always, |run| run.tasks.iter().map(|(_, task)| task.preemptions).sum() => [
        Figure::new("switches away from a task that is still runnable", Unit::Count, |r| Some(r.preemptions as f64))
            .measure("preemptions", 1.0).live("preemptions", 1.0),
    ];

    migrations: u64, Known::Always, |run| run.counts.migrations.total() => [
        Figure::new("migrations of tasks between CPUs", Unit::Count, |r| Some(r.migrations as f64))
            .table("migra-\ntions", 7).details_as("migrations", migrations_line)
            .compare("migrations").measure("migrations", 1.0).live("migrations", 1.0),
    ];

    migrations_by_distance: Migrations, Known::Simulated, |run| run.counts.migrations => [];

    wakeups: u64, Known::Always, |run| run.counts.wakeups => [
        Figure::new("wake-ups", Unit::Count, |r| Some(r.wakeups as f64)).details("wake-ups").measure("wakeups", 1.0)
            .live("wake-ups", 1.0),
    ];

    /// CPU time of all tasks, divided by the number of switches away from them; 0 without a switch.
    /// This is the mean time for which a task runs at a stretch.
    turn_mean_ns: u64, Known::Always, |run| run.turn_mean_ns() => [
        Figure::new("mean time on a CPU between two switches", Unit::Duration, |r| {
                (r.turn_mean_ns > 0).then_some(r.turn_mean_ns as f64)
            })
            .live("turn mean, us", US),
    ];

    ipis: u64, Known::Simulated, |run| run.counts.ipis => [
        Figure::new("inter-processor interrupts", Unit::Count, |r| Some(r.ipis as f64))
            .details("IPIs").measure("ipis", 1.0),
    ];

    /// The kicks of the policy. `None` if it kicked no CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    kicks: Option<KicksResult>, Known::Simulated, |run| run.run.kicks.clone() => [
        Figure::new("kicks of CPUs by the policy", Unit::Count, |r| Some(r.kicks.as_ref()?.calls() as f64))
            .details_as("kicks", kicks_line),
    ];

    /// Number of lines that the policy printed with bpf_printk().
    #[serde(skip_serializing_if = "is_zero")]
    printed_lines: u64, Known::Simulated, |run| run.counts.printed_lines => [
        Figure::new("lines that the policy printed", Unit::Count, |r| Some(r.printed_lines as f64))
            .details_as("bpf_printk", |r| {
                (r.printed_lines > 0).then(|| format!("{} lines (--printk shows them)", count(r.printed_lines)))
            }),
    ];

    balance_moves: u64, Known::Simulated, |run| run.counts.balance_moves => [
        Figure::new("tasks moved by load balancing", Unit::Count, |r| Some(r.balance_moves as f64))
            .details("balance moves").measure("balance_moves", 1.0),
    ];

    /// CPU time that was not idle, in percent of the time of all CPUs while they were online.
    busy_percent: f64, Known::Always, |run| result::percent(run.counts.busy_ns, run.cpu_ns) => [
        Figure::new("CPU time not idle", Unit::Percent, |r| Some(r.busy_percent))
            .table("CPU\nbusy %", 6).details("CPU busy")
            .compare("busy").measure("busy_percent", 1.0).live("busy, %", 1.0),
    ];

    /// Background work of the machine. No other figure of tasks, switches, wake-ups and migrations
    /// contains it. `None` if the machine has no background work.
    #[serde(skip_serializing_if = "Option::is_none")]
    noise: Option<NoiseResult>, Known::Simulated, |run| run.noise() => [
        Figure::new("CPU time of background work", Unit::Percent, |r| r.noise.as_ref().map(|noise| noise.percent))
            .details_as("background work", |r| {
                let line = |noise: &NoiseResult| {
                    let (tasks, wakeups) = (count(noise.tasks), count(noise.wakeups));
                    format!("{} % of the CPUs, {tasks} tasks, {wakeups} wake-ups", percent(noise.percent))
                };
                r.noise.as_ref().map(line)
            }),
    ];

    /// Idle states of the machine, shallowest first.
    idle_states: Vec<IdleStateResult>, Known::Simulated, |run| run.idle_states() => [
        Figure::new("CPU time in idle states", Unit::Percent, |r| {
                Some(r.idle_states.iter().map(|state| state.percent).sum())
            })
            .details_as("idle states", idle_states_line),
    ];

    /// Mean frequency of each CPU while it was busy. Empty if the machine file names neither a
    /// frequency governor nor turbo frequencies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    frequencies: Vec<FrequencyResult>, Known::Simulated, |run| run.frequencies() => [
        Figure::new("mean frequency of busy CPUs", Unit::Percent, |r| result::mean_frequency(&r.frequencies))
            .details_as("frequency", frequencies_line)
            .measure("frequency_percent", 1.0),
    ];

    /// CPU time that the kernel and the policy used, in percent of the time of all online CPUs.
    overhead_percent: f64, Known::Simulated, |run| result::percent(run.counts.overhead_ns.into(), run.cpu_ns) => [
        Figure::new("CPU time of kernel and policy, in percent", Unit::Percent, |r| Some(r.overhead_percent)).lower()
            .table("overhead\n%", 3)
            .details_as("overhead", |r| Some(format!("{} %, {}", percent(r.overhead_percent), time(r.overhead_ns))))
            .compare("overhead").measure("overhead_percent", 1.0),
    ];

    overhead_ns: u64, Known::Simulated, |run| run.counts.overhead_ns => [
        Figure::new("CPU time of kernel and policy", Unit::TotalTime, |r| Some(r.overhead_ns as f64)).lower()
            .measure("overhead_ms", MS),
    ];

    /// Time that tasks spent on loading their data into caches again, in percent of the time of all
    /// online CPUs. This time is part of the busy time.
    reload_percent: f64, Known::Simulated, |run| result::percent(run.run.reload_ns.into(), run.cpu_ns) => [
        Figure::new("time in which tasks loaded their data into caches again", Unit::Percent, |r| Some(r.reload_percent)).lower()
            .details_as("cache reload", |r| {
                (r.reload_ns > 0).then(|| format!("{} %, {}", percent(r.reload_percent), time(r.reload_ns)))
            }),
    ];

    reload_ns: u64, Known::Simulated, |run| run.run.reload_ns => [];

    /// Number of cache lines with kernel and policy data that were fetched from another CPU's cache
    /// or invalidated there. The time that this takes is part of the overhead.
    line_transfers: u64, Known::Simulated, |run| run.run.line_transfers => [
        Figure::new("cache lines transferred between caches", Unit::Count, |r| Some(r.line_transfers as f64)).lower()
            .details_as("cache lines", |r| {
                let text = || format!("{} transfers, {}", count(r.line_transfers), time(r.line_transfer_ns));
                (r.line_transfers > 0).then(text)
            }),
    ];

    line_transfer_ns: u64, Known::Simulated, |run| run.run.line_transfer_ns => [];

    /// Number of hinting faults of NUMA balancing.
    numa_faults: u64, Known::Simulated, |run| run.run.numa_faults => [
        Figure::new("hinting faults of NUMA balancing", Unit::Count, |r| Some(r.numa_faults as f64)).lower()
            .details_as("NUMA balancing", numa_line).measure("numa_faults", 1.0),
    ];

    /// Number of hinting faults whose page was on the node of the CPU.
    numa_faults_local: u64, Known::Simulated, |run| run.run.numa_faults_local => [];

    /// Number of pages of 4 KiB that NUMA balancing moved to another node.
    numa_pages_migrated: u64, Known::Simulated, |run| run.run.numa_pages_migrated => [
        Figure::new("pages that NUMA balancing moved", Unit::Count, |r| Some(r.numa_pages_migrated as f64)).lower()
            .measure("numa_pages_migrated", 1.0),
    ];

    /// Sum over CPUs of the time during which a CPU was idle although a waiting task was allowed to
    /// run there. Very short times are not counted.
    idle_while_waiting_ns: u64, Known::Simulated, |run| run.run.idle_while_waiting_ns => [
        Figure::new("CPU time idle while an allowed task waited", Unit::TotalTime, |r| {
                Some(r.idle_while_waiting_ns as f64)
            })
            .lower().table("idle while\nwaiting", 2).details("idle while waiting")
            .compare("idle_while_waiting").measure("idle_while_waiting_ms", MS),
    ];

    lock_wait_ns: u64, Known::Simulated, |run| run.lock_wait_ns() => [
        Figure::new("time waited for locks", Unit::TotalTime, |r| Some(r.lock_wait_ns as f64)).lower()
            .details_as("waited for locks", |r| (r.lock_wait_ns > 0).then(|| time(r.lock_wait_ns)))
            .compare("lock_wait").measure("lock_wait_ms", MS),
    ];

    tasks_total: u64, Known::Always, |run| run.tasks.len() as u64 => [];

    callbacks: Vec<CallbackResult>, Known::Simulated, |run| run.callbacks() => [];

    /// The numbers in the policy's memory that it changed during the run. `windtunnel run` and the
    /// Python function `run()` read them.
    #[serde(skip_serializing_if = "CountersResult::is_empty")]
    counters: CountersResult, Known::Simulated, |run| run.run.counters.clone() => [];

    /// The locks with the longest total waiting times, longest first.
    locks: Vec<LockResult>, Known::Simulated, |run| run.locks.iter().take(RunResult::TASKS).cloned().collect() => [];

    fairness: Vec<Fairness>, Known::Always, |run| jain::fairness(run.tasks, run.run.simulated_ns) => [];

    /// The tasks with the most CPU time, most first. At most [`RunResult::TASKS`] of the
    /// `tasks_total` tasks are listed.
    tasks: Vec<TaskResult>, Known::Always, |run| run.longest_running() => [
        Figure::new("Jain's fairness index of tasks with the same name", Unit::Index, jain::fairness_by_name)
            .live("fairness (Jain)", 1.0),
    ];

    /// Hash of the records as 16 hexadecimal digits. Runs with equal records have equal hashes.
    trace_hash: String, Known::Simulated, |run| format!("{:016x}", run.run.trace_hash) => [];
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    type Name = fn(&Figure) -> Option<&str>;

    #[test]
    fn names_are_unique_in_every_list() {
        let lists: [(&str, Name); 5] = [
            ("table", |f| f.table.map(|column| column.head)),
            ("details", |f| f.details.map(|line| line.label)),
            ("compare", |f| f.compare),
            ("measure", |f| f.measure.map(|measure| measure.name)),
            ("live", |f| f.live.map(|live| live.name)),
        ];
        for (list, name) in lists {
            let mut names: Vec<&str> = FIGURES.iter().filter_map(name).collect();
            assert!(!names.is_empty(), "{list} shows nothing");
            names.sort_unstable();
            names.windows(2).for_each(|pair| assert_ne!(pair[0], pair[1], "{list}"));
        }
    }

    #[test]
    fn every_figure_is_shown_somewhere() {
        for figure in FIGURES {
            let shown = figure.table.is_some()
                || figure.details.is_some()
                || figure.compare.is_some()
                || figure.measure.is_some()
                || figure.live.is_some();
            assert!(shown, "'{}' is shown nowhere", figure.about);
        }
    }
}
