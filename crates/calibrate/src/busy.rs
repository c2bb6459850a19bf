// SPDX-License-Identifier: GPL-2.0-only
//! Notices whether other programs, or other virtual machines, use the CPUs of the host during a
//! measurement. They make the measured costs too high.

use std::time::{Duration, Instant};

/// Minimum CPU time of other programs that is reported, in CPUs. An idle system with its services
/// uses less.
const OTHERS: f64 = 0.1;
/// Minimum part of the time of all CPUs that other virtual machines took (steal) and that is
/// reported.
const STEAL: f64 = 0.01;
/// Time for which the host is watched before the measurement.
const BEFORE: Duration = Duration::from_millis(300);

/// CPU times up to one moment.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    at: Instant,
    /// Times of all CPUs together since boot, in seconds: busy, and taken by other virtual machines.
    busy: f64,
    steal: f64,
    nr_cpus: f64,
    /// CPU time of this process and of its children, in seconds.
    own: f64,
}

impl Load {
    /// Reads the times. Returns `None` if this host has no /proc/stat.
    pub fn now() -> Option<Load> {
        let (busy, steal, nr_cpus) = parse(&std::fs::read_to_string("/proc/stat").ok()?)?;
        // SAFETY: sysconf has no preconditions.
        let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64;
        Some(Load {
            at: Instant::now(),
            busy: busy / ticks,
            steal: steal / ticks,
            nr_cpus,
            own: used(libc::RUSAGE_SELF) + used(libc::RUSAGE_CHILDREN),
        })
    }

    /// Watches the host for a moment, in which this process does nothing.
    pub fn watch() -> Option<String> {
        let before = Load::now()?;
        std::thread::sleep(BEFORE);
        before.others(&Load::now()?)
    }

    /// Says which others used the CPUs between two moments, and how this was noticed. Returns `None`
    /// if the host was idle but for this process.
    pub fn others(&self, later: &Load) -> Option<String> {
        self.others_in(later, later.at.duration_since(self.at).as_secs_f64())
    }

    fn others_in(&self, later: &Load, seconds: f64) -> Option<String> {
        let cpus = later.nr_cpus.max(1.0);
        let per_cpu = |time: f64| time / seconds.max(0.001);
        let others = per_cpu(later.busy - self.busy - (later.own - self.own));
        let steal = per_cpu(later.steal - self.steal);
        let mut parts = Vec::new();
        if others >= OTHERS {
            parts.push(format!(
                "other programs used {others:.1} of {cpus:.0} CPUs (busy time in /proc/stat without that of this process)"
            ));
        }
        if steal >= STEAL * cpus {
            parts.push(format!(
                "other virtual machines took {:.0} % of the CPU time (steal in /proc/stat)",
                100.0 * steal / cpus
            ));
        }
        (!parts.is_empty()).then(|| parts.join(", and "))
    }
}

/// Parses /proc/stat. Returns the busy time and the stolen time of all CPUs together in ticks, and
/// the number of CPUs.
fn parse(stat: &str) -> Option<(f64, f64, f64)> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // The columns are user, nice, system, idle, iowait, irq, softirq and steal. Guest time, which
    // follows, is already part of user time.
    let times: Vec<f64> = all.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = times[..] else {
        return None;
    };
    let is_cpu = |line: &&str| {
        line.strip_prefix("cpu")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let nr_cpus = stat.lines().filter(is_cpu).count() as f64;
    Some((user + nice + system + irq + softirq, steal, nr_cpus))
}

/// Returns the CPU time of this process (RUSAGE_SELF) or of its children, in seconds.
fn used(who: i32) -> f64 {
    // SAFETY: all zeros are a valid rusage, and the call writes at most its size.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(busy: f64, steal: f64, own: f64) -> Load {
        Load {
            at: Instant::now(),
            busy,
            steal,
            nr_cpus: 4.0,
            own,
        }
    }

    #[test]
    fn time_of_others_is_the_busy_time_without_the_own() {
        let before = load(100.0, 5.0, 1.0);
        assert_eq!(before.others_in(&load(110.5, 5.0, 11.0), 10.0), None);
        assert_eq!(
            before.others_in(&load(123.0, 5.0, 9.0), 10.0).as_deref(),
            Some("other programs used 1.5 of 4 CPUs (busy time in /proc/stat without that of this process)")
        );
        assert_eq!(
            before.others_in(&load(110.0, 7.0, 11.0), 10.0).as_deref(),
            Some("other virtual machines took 5 % of the CPU time (steal in /proc/stat)")
        );
        let both = before
            .others_in(&load(140.0, 9.0, 11.0), 10.0)
            .expect("the host is busy");
        assert!(
            both.starts_with("other programs used 3.0 of 4 CPUs (") && both.contains("), and other virtual"),
            "{both}"
        );
    }

    #[test]
    fn the_busy_columns_of_the_kernel_are_added() {
        let stat = "cpu  10 20 30 4000 500 6 7 8 9 1\ncpu0 5 10 15 2000 250 3 3 4 0 0\ncpu1 5 10 15 2000 250 3 4 4 0 0\nintr 1 2\n";
        assert_eq!(parse(stat), Some((73.0, 8.0, 2.0)));
        assert_eq!(parse("cpu 1 2 3"), None);
        assert_eq!(parse(""), None);
    }
}
