// SPDX-License-Identifier: GPL-2.0-only
//! Measures how much the hardware threads of a core slow each other down.

use super::host::{Cpu, Pairs, pin};
use input::error::Error;
use machine::Topology;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::Instant;

const BATCHES: u32 = 20;
/// Number of entries of the array on which a thread works. It takes 16 KiB, so the arrays of two
/// threads fit into an L1 cache of 32 KiB.
const ENTRIES: usize = 2048;

pub(super) const SOURCE: &str = "measured: one thread searches and sorts 16 KiB of integers in turn while this many threads \
                                 of its core do the same, least times; other code differs";

/// Returns the speed of a thread when 1, 2, ... threads of its core are busy. Returns `None` if
/// each core has one thread, or if this process may not use all threads of a core.
pub(super) fn measure_threads(pairs: &Pairs, topology: &Topology) -> Result<Option<Vec<f64>>, Error> {
    let most = topology.cores.iter().map(Vec::len).max().unwrap_or(1);
    if most == 1 || pairs.core.len() != most {
        return Ok(None);
    }
    speeds(&pairs.core).map(Some)
}

/// Returns the speeds of the first CPU while 1, 2, ... of `cpus` are busy, relative to its speed
/// while no other CPU is busy. A measured speed may by chance be higher than the speed with
/// fewer busy CPUs. It is then lowered to that speed.
fn speeds(cpus: &[Cpu]) -> Result<Vec<f64>, Error> {
    let mut times = Vec::new();
    for busy in 1..=cpus.len() {
        times.push(time_beside(cpus[0], &cpus[1..busy])?);
    }
    let mut last = 1.0;
    let relative = times.iter().map(|time| {
        last = (times[0] / time).clamp(0.01, last);
        last
    });
    Ok(relative.collect())
}

/// Returns the time of the fastest batch on `cpu` while all CPUs of `others` execute the same work,
/// in ns.
fn time_beside(cpu: Cpu, others: &[Cpu]) -> Result<f64, Error> {
    let (begun, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let helpers: Vec<_> = others
            .iter()
            .map(|&other| {
                let (begun, over) = (&begun, &over);
                scope.spawn(move || {
                    let pinned = pin(other);
                    let mut work = Work::new();
                    begun.fetch_add(1, Release);
                    while pinned.is_ok() && !over.load(Acquire) {
                        work.batch();
                    }
                    pinned
                })
            })
            .collect();
        let pinned = pin(cpu);
        while begun.load(Acquire) < others.len() {
            spin_loop();
        }
        let mut work = Work::new();
        work.batch();
        let once = |_| {
            let started = Instant::now();
            work.batch();
            started.elapsed().as_nanos() as f64
        };
        let least = (0..BATCHES).map(once).fold(f64::INFINITY, f64::min);
        over.store(true, Release);
        pinned?;
        for helper in helpers {
            helper.join().expect("the helper does not panic")?;
        }
        Ok(least)
    })
}

/// The measured work: first a search, then a sort. The search follows each entry to the next one,
/// and its branches depend on the data. The sort has many independent instructions. Real programs
/// lie between these two.
struct Work {
    entries: Vec<u64>,
    sorted: Vec<u64>,
}

impl Work {
    fn new() -> Work {
        let entry = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let entries: Vec<u64> = (0..ENTRIES).map(entry).collect();
        Work {
            sorted: entries.clone(),
            entries,
        }
    }

    fn batch(&mut self) {
        for _ in 0..4 {
            let mut best = 0_u64;
            for i in 0..5 * ENTRIES {
                let entry = self.entries[(i + input::to_usize(best)) % ENTRIES];
                if entry & 3 != 0 {
                    best = (best ^ entry).wrapping_add(1);
                } else {
                    best >>= 1;
                }
            }
            black_box(best);
            self.sorted.copy_from_slice(&self.entries);
            self.sorted.sort_unstable();
            black_box(&self.sorted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_begin_at_1_and_never_rise() {
        let host = machine::define("host", &[]).expect("the host can be described as a machine");
        let pairs = Pairs::find(&host.spec.topology).expect("the host has CPUs");
        // The speeds of three threads on the same CPU are measured. The threads divide its time.
        let speeds = speeds(&[pairs.first; 3]).expect("threads can be pinned to CPUs");
        assert_eq!((speeds.len(), speeds[0]), (3, 1.0));
        assert!(speeds.windows(2).all(|two| two[0] >= two[1]), "{speeds:?}");
        assert!(speeds[2] >= 0.01);
    }
}
