// SPDX-License-Identifier: GPL-2.0-only
//! The line of statistics that `live load` prints each second. It shows the context switches, the
//! busy time and how much the policy's counters have grown.

use crate::globals::Globals;
use bpf::object::Object;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

/// Values of the counters at one time.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    context_switches: u64,
    busy: u64,
    total: u64,
    pub counters: BTreeMap<String, u64>,
}

/// Returns the names of the policy's counters. These are 64-bit globals whose name begins with
/// `nr_`.
fn counters(object: &Object) -> impl Iterator<Item = &str> {
    let counts = |name: &str, ty: &str| name.starts_with("nr_") && matches!(ty, "u64" | "unsigned long long");
    object
        .variables()
        .iter()
        .filter(move |variable| variable.live && counts(&variable.name, &variable.type_name))
        .map(|variable| variable.name.as_str())
}

impl Sample {
    pub fn now(object: &Object, globals: &Globals) -> Sample {
        let value = |name: &str| globals.get(object, name).ok()?.parse().ok();
        let counters = counters(object)
            .filter_map(|name| Some((name.to_owned(), value(name)?)))
            .collect();
        Sample {
            counters,
            ..machine(&fs::read_to_string("/proc/stat").unwrap_or_default())
        }
    }

    /// Formats one line with the rates since the sample `before`. `seconds` is the time between the
    /// two samples.
    pub fn since(&self, before: &Sample, seconds: f64) -> String {
        let rate = |now: u64, then: u64| (now.saturating_sub(then) as f64 / seconds).round() as u64;
        let share = |part: u64, whole: u64| (100 * part).checked_div(whole).unwrap_or(0);
        let busy = share(
            self.busy.saturating_sub(before.busy),
            self.total.saturating_sub(before.total),
        );
        let switches = rate(self.context_switches, before.context_switches);
        let mut text = format!("{switches:7} switches/s  {busy:3} % busy ");
        for (name, &now) in &self.counters {
            let then = before.counters.get(name).copied().unwrap_or(0);
            if now != then {
                let _ = write!(text, " {name} +{}", rate(now, then));
            }
        }
        text
    }
}

/// CPU time of all CPUs together since boot, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineCounts {
    pub busy: u64,
    pub total: u64,
}

/// Reads the CPU time of all CPUs together since boot.
pub fn machine_counts() -> MachineCounts {
    let Sample { busy, total, .. } = machine(&fs::read_to_string("/proc/stat").unwrap_or_default());
    MachineCounts { busy, total }
}

/// Parses the text of /proc/stat.
fn machine(stat: &str) -> Sample {
    let mut look = Sample::default();
    for line in stat.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("ctxt") => look.context_switches = words.next().and_then(|word| word.parse().ok()).unwrap_or(0),
            Some("cpu") => {
                // The columns are user, nice, system, idle, iowait, irq, softirq and steal. Guest
                // time, which follows, is already part of user time.
                let times: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
                look.total = times.iter().sum();
                look.busy = look.total - times.iter().skip(3).take(2).sum::<u64>();
            }
            _ => {}
        }
    }
    look
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statistics_line_shows_rates_between_two_samples() {
        let mut before = machine("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3\nctxt 5000\n");
        let mut now = machine("cpu  150 0 150 750 150 0 0 0 0 0\nctxt 9000\n");
        before.counters = BTreeMap::from([("nr_stolen".into(), 7), ("nr_set".into(), 1)]);
        now.counters = BTreeMap::from([("nr_stolen".into(), 27), ("nr_set".into(), 1)]);
        assert_eq!(now.since(&before, 2.0), "   2000 switches/s   50 % busy  nr_stolen +10");
    }
}
