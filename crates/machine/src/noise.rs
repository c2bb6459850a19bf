// SPDX-License-Identifier: GPL-2.0-only
//! Background work of the kernel, called noise: kernel threads and interrupts that belong to no
//! workload. The key `noise` of machine files switches it on.

use input::Error;
use serde::Serialize;

/// Amount of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Noise {
    /// A system on which nothing runs but the workload.
    Quiet,
    /// A server with block I/O, network traffic and processes that come and go.
    Server,
    /// A desktop with a display and an input device.
    Desktop,
}

impl Noise {
    /// Names in machine files and on the command line.
    pub const NAMES: [(&'static str, Noise); 3] = [
        ("quiet", Noise::Quiet),
        ("server", Noise::Server),
        ("desktop", Noise::Desktop),
    ];

    pub fn name(self) -> &'static str {
        let named = Noise::NAMES.iter().find(|named| named.1 == self);
        named.map_or("", |named| named.0)
    }

    /// Returns the level with a name, or `None` if there is no such level.
    pub fn named(name: &str) -> Option<Noise> {
        let named = Noise::NAMES.iter().find(|named| named.0 == name);
        named.map(|named| named.1)
    }

    /// Returns the level with a name. The name "off" stands for no background work.
    ///
    /// # Errors
    /// There is no such level. The message contains a hint.
    pub fn parse(name: &str) -> Result<Option<Noise>, Error> {
        let level = Noise::named(name);
        if level.is_some() || name == "off" {
            return Ok(level);
        }
        let mut names = vec!["off"];
        names.extend(Noise::NAMES.map(|known| known.0));
        let hint = input::suggest::hint(name, &names);
        Err(Error::new(format!(
            "there is no level of background work '{name}': {hint}"
        )))
    }
}

/// Kind of a part of a machine. An activity exists once in each part of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A task that may run only on its CPU, or an interrupt of each CPU. The rate is for one CPU.
    Cpu,
    /// A task that may run anywhere. The rate is for one CPU, so the task of an LLC with 8 CPUs has
    /// 8 times the rate.
    Llc,
    /// A task that may run anywhere, or a device whose interrupts arrive at one CPU. The rate is
    /// for the whole machine.
    Machine,
}

impl Scope {
    /// Returns the unit of an activity's rate.
    fn unit(self) -> &'static str {
        match self {
            Scope::Cpu => "per CPU",
            Scope::Llc => "per CPU, in one task for each LLC",
            Scope::Machine => "per machine",
        }
    }
}

/// A kind of background work. The intervals between two occurrences and the durations have
/// exponential distributions.
pub struct Activity {
    /// Name of the task, in which `{cpu}` is the number of the CPU and `{pool}` that of the LLC.
    /// For an interrupt, the name of the device.
    pub name: &'static str,
    pub scope: Scope,
    /// Whether the activity is an interrupt. Otherwise it is a task.
    pub interrupt: bool,
    /// Nice value of the task.
    pub nice: i32,
    /// Occurrences in 1000 s at the levels quiet, server and desktop. 0 switches the activity off.
    pub per_1000s: [u32; 3],
    /// Mean duration of an occurrence, ns.
    pub mean_ns: u32,
    /// Origin of the rates and the duration.
    pub source: &'static str,
}

impl Activity {
    /// Returns the mean interval in ns between two occurrences on `cpus` CPUs, or `None` if the
    /// level `noise` does not have this activity. `cpus` matters only for [`Scope::Llc`].
    pub fn interval_ns(&self, noise: Noise, cpus: u64) -> Option<u64> {
        let rate = u64::from(self.per_1000s[noise as usize]);
        let rate = match self.scope {
            Scope::Llc => rate * cpus,
            Scope::Cpu | Scope::Machine => rate,
        };
        1_000_000_000_000_u64.checked_div(rate)
    }
}

/// Makes the table of [`ACTIVITIES`]. A row has the name, the kind, the scope, the occurrences in
/// 1000 s at each level, the mean duration in ns, and the source. The kind is `interrupt`, or `task`
/// with its nice value.
macro_rules! activities {
    (@is_interrupt interrupt) => { true };
    (@is_interrupt task) => { false };
    ($(
        $name:literal: $kind:ident $(($nice:literal))?, $scope:ident, $per_1000s:expr, $mean_ns:literal,
        $source:literal;
    )*) => {
        [$(Activity {
            name: $name,
            scope: Scope::$scope,
            interrupt: activities!(@is_interrupt $kind),
            nice: [$($nice,)? 0][0],
            per_1000s: $per_1000s,
            mean_ns: $mean_ns,
            source: $source,
        }),*]
    };
}

/// All kinds of background work. "Guest" is a virtual machine with 2 CPUs and Linux 6.18 that
/// compiled and ran tests, on 24 November 2026. The rates are averages of its first 4.4 hours. The
/// durations are the run times in /proc/PID/schedstat, divided by the number of times that the
/// thread got a CPU.
pub const ACTIVITIES: [Activity; 12] = activities! {
    "kworker/{cpu}:0": task(0), Cpu, [1_000, 4_600, 4_600], 50_000,
        "quiet: vmstat_update once per second (vm.stat_interval); server: measured on the guest over 90 s, 9.3 turns per second of 49 us on 2 CPUs; desktop: assumption, as server";
    "kworker/{cpu}:0H": task(-20), Cpu, [0, 12_500, 4_000], 44_000,
        "server: measured on the guest, kblockd, 25 turns per second of 44 us on 2 CPUs; desktop: the lower rate of a period of 90 s, 8.1 per second on 2 CPUs";
    "kworker/u{pool}:0": task(0), Llc, [100, 2_000, 2_000], 170_000,
        "quiet: assumption, writeback every 5 s on 2 CPUs (vm.dirty_writeback_centisecs); server: measured on the guest, 3.9 turns per second of 173 us on 2 CPUs; desktop: assumption, as server; unbound workers stay in an LLC by default (workqueue.default_affinity_scope)";
    "kworker/u{pool}:1H": task(-20), Machine, [0, 0, 60_000], 100_000,
        "assumption: a display driver queues work of 100 us for each frame, at 60 Hz";
    "ksoftirqd/{cpu}": task(0), Cpu, [100, 2_600, 2_600], 40_000,
        "quiet: assumption; server: measured on the guest, 5.2 turns per second of 41 us on 2 CPUs; desktop: assumption, as server";
    "rcu_preempt": task(0), Machine, [4_000, 42_000, 42_000], 21_000,
        "quiet: assumption, a tenth of server; server: measured on the guest, 42 turns per second of 21 us; desktop: assumption, as server";
    "kcompactd0": task(0), Machine, [2_000, 2_000, 2_000], 21_000,
        "measured on the guest: 2.0 turns per second of 21 us (HPAGE_FRAG_CHECK_INTERVAL_MSEC is 500)";
    "timer": interrupt, Cpu, [1_000, 24_000, 24_000], 2_000,
        "quiet: assumption; server: measured on the guest, 47 TIMER softirqs per second on 2 CPUs; desktop: assumption, as server; the duration is an assumption";
    "disk": interrupt, Machine, [200, 61_000, 18_000], 3_000,
        "quiet: assumption; server: measured on the guest, 61 interrupts per second of a virtio disk; desktop: the lower rate of a period of 90 s; the duration is an assumption";
    "network": interrupt, Machine, [1_000, 500_000, 4_000], 5_000,
        "quiet and server: assumptions; desktop: measured on the guest, 4 NET_RX softirqs per second; the duration is an assumption";
    "display": interrupt, Machine, [0, 0, 60_000], 10_000,
        "assumption: one interrupt of 10 us for each frame, at 60 Hz";
    "input": interrupt, Machine, [0, 0, 125_000], 5_000,
        "assumption: a USB mouse that reports at 125 Hz";
};

/// Returns a Markdown section with all kinds of background work and their sources.
pub(crate) fn page() -> String {
    let mut out = String::from(
        "\n## Background work\n\n[Background work](model.md#background-work) of a machine with the key `noise`. \
         \"Guest\" is a virtual\nmachine with 2 CPUs and Linux 6.18 that compiled and ran tests, on 24 November \
         2026.\n\n| activity | kind | occurrences per second: quiet, server, desktop | mean duration | source \
         |\n|---|---|---|---|---|\n",
    );
    for activity in &ACTIVITIES {
        let kind = match (activity.interrupt, activity.nice) {
            (true, _) => "interrupt".to_owned(),
            (false, 0) => "task".to_owned(),
            (false, nice) => format!("task, nice {nice}"),
        };
        let rates = activity
            .per_1000s
            .map(|rate| format!("{}", f64::from(rate) / 1000.0))
            .join(", ");
        out.push_str(&format!(
            "| `{}` | {kind} | {rates} {} | {} us | {} |\n",
            activity.name,
            activity.scope.unit(),
            activity.mean_ns / 1000,
            activity.source
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names() {
        for (name, noise) in Noise::NAMES {
            assert_eq!((noise.name(), Noise::named(name)), (name, Some(noise)));
        }
        assert_eq!(Noise::named("loud"), None);
        assert_eq!(Noise::parse("server"), Ok(Some(Noise::Server)));
        assert_eq!(Noise::parse("off"), Ok(None));
        assert!(
            Noise::parse("sever")
                .unwrap_err()
                .message
                .ends_with("did you mean 'server'?")
        );
    }

    #[test]
    fn rates_become_intervals() {
        let activity = |name: &str| ACTIVITIES.iter().find(|a| a.name == name).expect("it exists");
        let vmstat = activity("kworker/{cpu}:0");
        assert_eq!(vmstat.interval_ns(Noise::Quiet, 8), Some(1_000_000_000));
        let unbound = activity("kworker/u{pool}:0");
        assert_eq!(unbound.interval_ns(Noise::Server, 8), Some(62_500_000));
        assert_eq!(activity("display").interval_ns(Noise::Server, 8), None);
    }

    #[test]
    fn every_activity_says_where_its_numbers_come_from() {
        for activity in &ACTIVITIES {
            let known = ["measured", "assumption"];
            assert!(
                known.iter().any(|word| activity.source.contains(word)),
                "{}",
                activity.name
            );
            assert!(activity.per_1000s.iter().any(|&rate| rate > 0) && activity.mean_ns > 0);
        }
    }
}
