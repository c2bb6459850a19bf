// SPDX-License-Identifier: GPL-2.0-only
//! Speeds of hardware threads that share a core: the key `smt_throughput`.
//!
//! For example, `[1.0, 0.62]` belongs to a core with two threads. Each thread runs at full speed
//! while the other thread is idle, and at 0.62 of full speed while both are busy. Two busy threads
//! then do 1.24 times the work of one. The speeds are whole multiples of 1/1024 in a
//! [`MachineSpec`](crate::MachineSpec), because a simulation uses no floating-point numbers.

use crate::topology::Topology;

/// Full speed of a hardware thread.
pub const FULL_SPEED: u32 = 1024;

/// Name of the key, and of its source in [`Definition::cost_sources`](crate::Definition).
pub const SMT_THROUGHPUT: &str = "smt_throughput";

/// Source of the speeds that [`default_throughput`] returns.
pub(crate) const DEFAULT_SOURCE: &str = "estimate: each doubling of the busy threads adds 24 % to the work of a \
     core; for two threads, Linux up to 5.0 assumed 15 % (smt_gain is 1178 of 1024), and Intel published up to 30 % for \
     servers (Marr et al., Hyper-Threading Technology Architecture and Microarchitecture, Intel Technology Journal 6(1), \
     2002)";

/// Work per time of a core with 1 to 8 busy threads, in 1/1000 of its work with one. Each doubling
/// of the busy threads adds 24 %. Between two doublings, the work grows evenly.
const DEFAULT_WORK: [u64; 8] = [1000, 1240, 1389, 1538, 1630, 1722, 1814, 1907];

/// Returns the speeds for a machine whose description contains none: one entry for each thread of
/// the largest core. More than eight threads do no more work than eight.
#[expect(clippy::cast_possible_truncation, reason = "a speed is at most FULL_SPEED")]
pub(crate) fn default_throughput(topology: &Topology) -> Vec<u32> {
    let speed = |busy: usize| {
        let work = DEFAULT_WORK[busy.min(DEFAULT_WORK.len()) - 1];
        let busy = busy as u64;
        ((work * u64::from(FULL_SPEED) + 500 * busy) / (1000 * busy)) as u32
    };
    (1..=threads_per_core(topology)).map(speed).collect()
}

/// Returns the number of hardware threads of the machine's largest core.
pub(crate) fn threads_per_core(topology: &Topology) -> usize {
    topology.cores.iter().map(Vec::len).max().unwrap_or(1)
}

/// Converts a speed, relative to 1.0, to a multiple of 1/1024; at least 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is from 1 to FULL_SPEED"
)]
pub(crate) fn in_1024ths(speed: f64) -> u32 {
    (speed * f64::from(FULL_SPEED))
        .round()
        .clamp(1.0, f64::from(FULL_SPEED)) as u32
}

/// Formats a speed as a decimal, in which 1.00 is full speed. A speed that a file specifies in
/// hundredths is printed unchanged.
pub(crate) fn decimal(speed: u32) -> String {
    let hundredths = (speed * 100 + FULL_SPEED / 2) / FULL_SPEED;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MachineSpec;

    #[test]
    fn a_doubling_of_the_busy_threads_adds_24_percent_by_default() {
        let speeds = MachineSpec::regular(1, 1, 1, 16).smt_throughput;
        assert_eq!(speeds[..4], [1024, 635, 474, 394]);
        for (index, &speed) in speeds.iter().enumerate().take(8) {
            let work = u64::from(speed) * (index as u64 + 1);
            let expected = DEFAULT_WORK[index] * 1024 / 1000;
            assert!(work.abs_diff(expected) <= index as u64, "{index}: {work} {expected}");
        }
        assert_eq!((speeds[7], speeds[15]), (244, 122), "16 threads do the work of 8");
        assert!(speeds.windows(2).all(|two| two[0] > two[1]));
        assert_eq!(MachineSpec::smp(4).smt_throughput, [1024]);
    }

    #[test]
    fn speeds_are_read_and_written_as_decimals() {
        for hundredths in 1..=100 {
            let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            assert_eq!(decimal(in_1024ths(text.parse().unwrap())), text);
        }
        assert_eq!(in_1024ths(1e-9), 1);
    }
}
