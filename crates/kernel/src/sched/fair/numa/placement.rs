// SPDX-License-Identifier: GPL-2.0-only
//! A task's preferred node and its scan period. Both follow from the hinting faults of the task
//! (task_numa_placement, update_task_scan_period).

use crate::hardware::footprint::state::NOWHERE;
use crate::hardware::memory::state::pages::PAGE_BYTES;
use crate::machine::Machine;
use crate::sched::fair::numa::{NS_PER_MS, SCAN_PAGES};
use crate::sched::fair::sched_cache;
use crate::sched::fair::state::numa::NumaTask;
use crate::simulation::id::{CpuId, TaskId};

/// Shortest CPU time in which the whole footprint is scanned, ms
/// (sysctl_numa_balancing_scan_period_min).
const SCAN_PERIOD_MIN_MS: u64 = 1000;
/// Longest CPU time in which the whole footprint is scanned, ms
/// (sysctl_numa_balancing_scan_period_max).
const SCAN_PERIOD_MAX_MS: u64 = 60_000;
/// Shortest period of a scan of 256 MiB, ms. A task scans at most 2560 MiB per second
/// (MAX_SCAN_WINDOW).
const SCAN_FLOOR_MS: u64 = 1000 / (2560 / 256);
/// Number of parts into which a scan period is divided when it is changed (NUMA_PERIOD_SLOTS).
const PERIOD_SLOTS: u64 = 10;
/// Share of faults, in parts of [`PERIOD_SLOTS`], from which on the scan period becomes longer
/// (NUMA_PERIOD_THRESHOLD).
const PERIOD_THRESHOLD: u64 = 7;

/// Returns the number of scans that the footprint needs (task_nr_scan_windows).
fn nr_windows(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES).div_ceil(SCAN_PAGES).max(1)
}

/// Returns the shortest scan period of a task with a footprint of `bytes` bytes, ms
/// (task_scan_min).
fn scan_min(bytes: u64) -> u64 {
    (SCAN_PERIOD_MIN_MS / nr_windows(bytes)).max(SCAN_FLOOR_MS)
}

/// Returns the longest scan period of a task with a footprint of `bytes` bytes, ms (task_scan_max).
fn scan_max(bytes: u64) -> u64 {
    (SCAN_PERIOD_MAX_MS / nr_windows(bytes)).max(scan_min(bytes))
}

/// Returns the scan period with which a task begins, ms.
pub(super) fn task_scan_start(m: &Machine, task: TaskId) -> u64 {
    scan_min(m.tasks[task].footprint.bytes)
}

/// Updates the averages of a task's faults and its scan period, and chooses the node with the most
/// faults as the preferred node. Does nothing if the footprint was not completely scanned since the
/// last update.
pub(super) fn task_numa_placement(m: &mut Machine, task: TaskId) {
    let now = m.now;
    let t = &mut m.tasks[task];
    let bytes = t.footprint.bytes;
    let Some(numa) = &mut t.numa else { return };
    if numa.placed_scans == numa.scans {
        return;
    }
    numa.placed_scans = numa.scans;
    numa.scan_period_max = scan_max(bytes);
    let (mut most, mut best) = (0, NOWHERE);
    for (node, (faults, recent)) in numa.faults.iter_mut().zip(&mut numa.recent).enumerate() {
        *faults = *faults - *faults / 2 + std::mem::take(recent);
        if *faults > most {
            (most, best) = (*faults, node as u32);
        }
    }
    let before = numa.total;
    numa.total = numa.faults.iter().sum();
    if most > 0 {
        numa.preferred = best;
    }
    update_scan_period(numa, bytes, now);
    let after = numa.total;
    sched_cache::footprint_changed(m, task, before, after);
}

/// Changes the scan period according to the faults since the last change
/// (update_task_scan_period). All faults are private.
///
/// A task that had no faults on its own node is scanned less often, although its memory is remote.
/// Linux does the same, because it takes private faults that are all remote for no faults at all.
fn update_scan_period(numa: &mut NumaTask, bytes: u64, now: u64) {
    if numa.local == 0 {
        numa.scan_period = numa.scan_period_max.min(numa.scan_period * 2);
        numa.next_scan = now + numa.scan_period * NS_PER_MS;
        return;
    }
    let slot = numa.scan_period.div_ceil(PERIOD_SLOTS);
    let private = PERIOD_SLOTS;
    let longer = numa.scan_period + (private - PERIOD_THRESHOLD).max(1) * slot;
    numa.scan_period = longer.clamp(scan_min(bytes), scan_max(bytes));
    (numa.local, numa.remote) = (0, 0);
}

/// Handles the move of a task to another CPU. If the task leaves its preferred node, or was not
/// scanned completely yet, it is scanned more often from now on (update_scan_period).
pub(super) fn task_moves(m: &mut Machine, task: TaskId, from: CpuId, to: CpuId) {
    let (from, to) = (super::node_of(m, from), super::node_of(m, to));
    let start = task_scan_start(m, task);
    let Some(numa) = &mut m.tasks[task].numa else { return };
    if numa.faults.is_empty() || from == to {
        return;
    }
    let elsewhere = numa.preferred != NOWHERE && from != numa.preferred;
    if numa.placed_scans > 0 && (to == numa.preferred || elsewhere) {
        return;
    }
    numa.scan_period = start;
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn large_footprints_are_scanned_in_shorter_periods() {
        assert_eq!((scan_min(64 * MIB), scan_max(64 * MIB)), (1000, 60_000));
        assert_eq!((scan_min(256 * MIB), scan_max(256 * MIB)), (1000, 60_000));
        assert_eq!((scan_min(1024 * MIB), scan_max(1024 * MIB)), (250, 15_000));
        // At most 2560 MiB are scanned per second.
        assert_eq!((scan_min(65_536 * MIB), scan_max(65_536 * MIB)), (100, 234));
    }

    #[test]
    fn the_period_grows_by_three_tenths_after_local_faults_and_doubles_without_them() {
        let mut numa = NumaTask::new(0);
        numa.scan_period_max = 60_000;
        let mut periods = Vec::new();
        for local in [10, 10, 0, 10, 0] {
            numa.local = local;
            update_scan_period(&mut numa, 64 * MIB, 5);
            periods.push(numa.scan_period);
        }
        assert_eq!(periods, [1300, 1690, 3380, 4394, 8788]);
        assert_eq!(numa.next_scan, 8788 * NS_PER_MS + 5);
        for _ in 0..20 {
            numa.local = 1;
            update_scan_period(&mut numa, 64 * MIB, 5);
        }
        assert_eq!(numa.scan_period, 60_000);
    }
}
