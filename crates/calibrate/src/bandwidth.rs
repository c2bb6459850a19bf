// SPDX-License-Identifier: GPL-2.0-only
//! Measures the bandwidth of a node's memory, and how much two tasks that stream slow each other.

use super::host::{Cpu, Pairs, failed, pin};
use super::{Constant, cache_sizes, whole};
use input::error::Error;
use machine::Topology;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

/// Number of CPUs that stream at most. More need much memory and are hardly faster together.
const MAX_CPUS: usize = 16;
/// Maximum size of the array that one CPU reads, in bytes.
const ARRAY_MAX: u64 = 256 << 20;
/// Number of bytes that a thread reads between two updates of its counter.
const PART: usize = 64 << 10;
/// Number of windows in which the rates are measured, and the length of each.
const WINDOWS: u32 = 200;
const WINDOW: Duration = Duration::from_millis(2);
/// A window counts if each thread had its CPU for this part of it, in percent.
const UNDISTURBED: u64 = 90;

/// A thread that reads its array all the time.
struct Reader {
    /// Number of bytes that it has read.
    bytes: AtomicU64,
    /// The clock of its CPU time. It is valid once `started` is set.
    clock: AtomicI32,
    /// Whether the thread reads, or could not be pinned to its CPU.
    started: AtomicBool,
}

/// Rates of one measurement, in bytes per ns.
struct Rates {
    /// Rate of the first CPU in each window, in ascending order.
    first: Vec<f64>,
    /// Highest rate of all CPUs together.
    together: f64,
}

impl Rates {
    fn median(&self) -> f64 {
        self.first[self.first.len() / 2]
    }

    /// Returns the rate that a quarter of the windows do not reach, and the one that a quarter
    /// exceeds.
    fn quartiles(&self) -> (f64, f64) {
        (self.first[self.first.len() / 4], self.first[self.first.len() * 3 / 4])
    }
}

/// Returns the constant `node_bandwidth`. Returns `None` if other load disturbed all measurements.
///
/// # Errors
/// A thread cannot be pinned to its CPU.
pub(super) fn measure_bandwidth(pairs: &Pairs, topology: &Topology) -> Result<Option<Constant>, Error> {
    let (_, llc) = cache_sizes(topology, pairs.first.number);
    let bytes = input::to_usize((2 * llc).min(ARRAY_MAX));
    let cpus = &pairs.node[..pairs.node.len().min(MAX_CPUS)];
    let Some(alone) = stream(&cpus[..1], bytes)? else {
        return Ok(None);
    };
    let Some(all) = stream(cpus, bytes)? else {
        return Ok(None);
    };
    let mut source = format!(
        "measured: {} of the node read arrays of {} MiB in order, most in {} ms; one alone reads {} MB/s",
        counted(cpus.len()),
        bytes >> 20,
        WINDOW.as_millis(),
        mbps(alone.median()),
    );
    if all.together > 0.9 * alone.median() * cpus.len() as f64 {
        source.push_str("; the memory may deliver more, because the CPUs hardly slow each other");
    }
    if let [first, second, ..] = cpus[..]
        && let Some(two) = stream(&[first, second], bytes)?
    {
        let (slow, fast) = two.quartiles();
        source.push_str(&format!(
            "; beside a second one it needs {:.2} times as long (median; quartiles {:.2} to {:.2})",
            alone.median() / two.median(),
            alone.median() / fast,
            alone.median() / slow,
        ));
    }
    Ok(Some(Constant {
        name: "node_bandwidth",
        value: format!("mb_per_s = {}", mbps(all.together.max(alone.together))),
        source,
    }))
}

/// Converts bytes per ns to MB/s.
fn mbps(rate: f64) -> u64 {
    whole(rate * 1000.0)
}

fn counted(cpus: usize) -> String {
    match cpus {
        1 => "one CPU".to_owned(),
        cpus => format!("{cpus} CPUs"),
    }
}

/// Reads an array of `bytes` bytes on each CPU at the same time. Returns `None` if no window was
/// undisturbed.
fn stream(cpus: &[Cpu], bytes: usize) -> Result<Option<Rates>, Error> {
    let readers: Vec<Reader> = cpus
        .iter()
        .map(|_| Reader {
            bytes: AtomicU64::new(0),
            clock: AtomicI32::new(0),
            started: AtomicBool::new(false),
        })
        .collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = cpus
            .iter()
            .zip(&readers)
            .map(|(&cpu, reader)| {
                let over = &over;
                scope.spawn(move || {
                    let pinned = pin(cpu);
                    if pinned.is_ok() {
                        read_until(over, reader, bytes);
                    }
                    reader.started.store(true, Release);
                    pinned
                })
            })
            .collect();
        while readers.iter().any(|reader| !reader.started.load(Acquire)) {
            std::thread::sleep(WINDOW);
        }
        let windows = (0..WINDOWS).map(|_| window(&readers)).collect::<Result<Vec<_>, _>>();
        over.store(true, Release);
        for thread in threads {
            thread.join().expect("a reading thread does not panic")?;
        }
        let windows: Vec<Vec<f64>> = windows?.into_iter().flatten().collect();
        let mut first: Vec<f64> = windows.iter().map(|rates| rates[0]).collect();
        first.sort_by(f64::total_cmp);
        let together = windows.iter().map(|rates| rates.iter().sum::<f64>());
        let together = together.fold(0.0, f64::max);
        Ok((!first.is_empty()).then_some(Rates { first, together }))
    })
}

/// Reads an array in order again and again.
fn read_until(over: &AtomicBool, reader: &Reader, bytes: usize) {
    let words = vec![1_u64; bytes / size_of::<u64>()];
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the thread exists, and the call writes one clock id.
    unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) };
    reader.clock.store(clock, Relaxed);
    reader.started.store(true, Release);
    while !over.load(Acquire) {
        for part in words.chunks(PART / size_of::<u64>()) {
            black_box(part.iter().fold(0, |sum: u64, word| sum.wrapping_add(*word)));
            reader.bytes.fetch_add(size_of_val(part) as u64, Relaxed);
        }
    }
}

/// Returns the rate of each reader in one window, or `None` if other threads used a CPU meanwhile.
fn window(readers: &[Reader]) -> Result<Option<Vec<f64>>, Error> {
    let read = || {
        readers
            .iter()
            .map(|reader| Ok((cpu_time(reader)?, reader.bytes.load(Relaxed))))
    };
    let started = Instant::now();
    let before: Vec<(u64, u64)> = read().collect::<Result<_, Error>>()?;
    std::thread::sleep(WINDOW);
    let elapsed = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let after: Vec<(u64, u64)> = read().collect::<Result<_, Error>>()?;
    let pairs = || before.iter().zip(&after);
    let undisturbed = pairs().all(|(before, after)| (after.0 - before.0) * 100 >= elapsed * UNDISTURBED);
    let rates = pairs().map(|(before, after)| (after.1 - before.1) as f64 / (after.0 - before.0).max(1) as f64);
    Ok(undisturbed.then(|| rates.collect()))
}

/// Returns the CPU time of a reader, ns.
fn cpu_time(reader: &Reader) -> Result<u64, Error> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec. If the clock's thread has ended, it fails.
    match unsafe { libc::clock_gettime(reader.clock.load(Relaxed), &mut time) } {
        0 => Ok(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()),
        _ => Err(failed("clock_gettime")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_in_ascending_order() {
        let host = machine::define("host", &[]).expect("the host can be described as a machine");
        let pairs = Pairs::find(&host.spec.topology).expect("the host has CPUs");
        // A busy host may disturb all windows.
        let Some(alone) = stream(&pairs.node[..1], 1 << 20).expect("a thread can be pinned") else {
            return;
        };
        assert!(alone.first.windows(2).all(|two| two[0] <= two[1]));
        let (slow, fast) = alone.quartiles();
        assert!(0.0 < slow && slow <= alone.median() && alone.median() <= fast && fast <= alone.together);
    }
}
