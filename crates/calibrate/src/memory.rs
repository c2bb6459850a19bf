// SPDX-License-Identifier: GPL-2.0-only
//! Measures what it costs to transfer a cache line, to hand over a lock, and to reload a cache.

use super::host::{Cpu, Pairs, least, pin};
use super::{Constant, by_distance, cache_sizes, ps};
use input::error::Error;
use machine::Topology;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering::*};

const BATCHES: u32 = 20;
const ROUNDS: u64 = 2_000;
const LINE: usize = 64;
/// Maximum number of polls while a CPU waits for its partner. The limit is needed, because the
/// partner may not be running.
const PATIENCE: u32 = 10_000_000;
/// Maximum amount of memory that is read in order to evict all other data from the caches, in
/// bytes.
const SWEEP_MAX: usize = 256 << 20;

/// A counter that shares its cache line with no other data. The alignment of 256 bytes also keeps
/// it apart from data that the adjacent-line prefetcher would fetch with it.
#[repr(align(256))]
#[derive(Default)]
struct Alone(AtomicU64);

/// A ticket lock: waiters acquire it in the order of their arrival.
#[derive(Default)]
struct Ticket {
    next: Alone,
    serving: Alone,
}

impl Ticket {
    /// Acquires the lock and returns the ticket of the caller.
    fn lock(&self) -> u64 {
        let ticket = self.next.0.fetch_add(1, Relaxed);
        while self.serving.0.load(Acquire) != ticket {
            spin_loop();
        }
        ticket
    }

    /// Spins until another CPU waits for the lock. The caller must hold the lock and pass its own
    /// ticket.
    fn wait_for_waiter(&self, ticket: u64) {
        let mut patience = PATIENCE;
        while self.next.0.load(Relaxed) == ticket + 1 && patience > 0 {
            patience -= 1;
            spin_loop();
        }
    }

    fn unlock(&self) {
        self.serving.0.fetch_add(1, Release);
    }
}

/// Runs `body(0)` on one CPU and `body(1)` on the other at the same time, in several batches.
/// `operations` is the number of operations in one batch, of both CPUs together. Returns the time
/// per operation of the fastest batch, in ns.
fn run_together(here: Cpu, there: Cpu, operations: u64, body: impl Fn(u64) + Sync) -> Result<f64, Error> {
    // Number of the latest batch that each CPU has started.
    let begun = [Alone::default(), Alone::default()];
    let meet = |side: usize, batch: u64| {
        begun[side].0.store(batch, Release);
        while begun[1 - side].0.load(Acquire) < batch {
            spin_loop();
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let pinned = pin(there);
            for batch in 1..=u64::from(BATCHES) {
                meet(1, batch);
                if pinned.is_ok() {
                    body(1);
                }
            }
            pinned
        });
        let pinned = pin(here);
        let mut batch = 0;
        let best = std::cell::Cell::new(f64::INFINITY);
        for _ in 0..BATCHES {
            batch += 1;
            meet(0, batch);
            best.set(best.get().min(least(1, || {
                if pinned.is_ok() {
                    body(0);
                }
                operations
            })));
        }
        other.join().expect("a measuring thread does not panic")?;
        pinned?;
        Ok(best.get())
    })
}

/// Returns the time to transfer a cache line between two CPUs, in ns. The two CPUs take turns in
/// incrementing one counter.
fn transfer(here: Cpu, there: Cpu) -> Result<f64, Error> {
    let number = Alone::default();
    run_together(here, there, 2 * ROUNDS, |side| {
        for _ in 0..ROUNDS {
            let mut patience = PATIENCE;
            while number.0.load(Acquire) % 2 != side && patience > 0 {
                patience -= 1;
                spin_loop();
            }
            number.0.fetch_add(1, Release);
        }
    })
}

/// Returns the time to hand over a lock to a waiter on another CPU, in ns. The measured time
/// includes the transfer of a cache line, which the waiter needs to take a ticket. The time of this
/// transfer is subtracted.
fn hand_over(here: Cpu, there: Cpu) -> Result<f64, Error> {
    let lock = Ticket::default();
    let round = run_together(here, there, 2 * ROUNDS, |_| {
        for round in 1..=ROUNDS {
            let ticket = lock.lock();
            if round < ROUNDS {
                lock.wait_for_waiter(ticket);
            }
            lock.unlock();
        }
    })?;
    let transfer = transfer(here, there)?;
    Ok((round - transfer).max(transfer))
}

pub(super) fn measure_transfers(pairs: &Pairs) -> Result<Vec<Constant>, Error> {
    pin(pairs.first)?;
    let lock = Ticket::default();
    let alone = least(BATCHES, || {
        (0..ROUNDS).for_each(|_| {
            lock.lock();
            lock.unlock();
        });
        ROUNDS
    });
    let measure_pairs = |measure: fn(Cpu, Cpu) -> Result<f64, Error>, same: f64| {
        let mut first = true;
        pairs.map(|here, there| match std::mem::take(&mut first) {
            true => Ok(same),
            false => measure(here, there),
        })
    };
    let transfer = measure_pairs(transfer, 0.0)?;
    let hand_over = measure_pairs(hand_over, 0.0)?;
    let acquire = transfer.map(|time| time.map(|time| alone + time));
    Ok(vec![
        by_distance(
            "cache_line",
            transfer,
            "measured: one transfer of a cache line that two CPUs write alternately",
        ),
        by_distance(
            "lock_handover",
            hand_over,
            "measured: a ticket lock handed over to a waiting CPU",
        ),
        by_distance(
            "lock_acquire",
            acquire,
            "measured: a ticket lock acquired and released, plus one cache line transfer",
        ),
    ])
}

/// Memory that is read one cache line at a time, in scattered chunks of four cache lines. The
/// prefetcher of the CPU can predict these accesses about as well as those to a task's working set.
struct Memory {
    words: Vec<u64>,
    chunks: Vec<u32>,
}

impl Memory {
    /// Allocates the memory. The calling thread writes it first, so the kernel places it on this
    /// thread's NUMA node.
    fn new(bytes: usize) -> Memory {
        let nr = (bytes / (4 * LINE)).max(1);
        let mut chunks: Vec<u32> = (0..input::index(nr)).collect();
        let mut state = 1_u64;
        for i in (1..nr).rev() {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            chunks.swap(i, (state >> 33) as usize % (i + 1));
        }
        Memory {
            words: vec![1; nr * 4 * LINE / 8],
            chunks,
        }
    }

    fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    fn read(&self) -> u64 {
        let mut sum = 0_u64;
        for &chunk in &self.chunks {
            let at = chunk as usize * 4 * LINE / 8;
            for line in 0..4 {
                sum = sum.wrapping_add(self.words[at + line * LINE / 8]);
            }
        }
        black_box(sum)
    }
}

/// Returns the time per byte of reading `memory` just after reading `other`, in ns.
fn read_after(memory: &Memory, other: &Memory) -> f64 {
    (0..5)
        .map(|_| {
            memory.read();
            other.read();
            least(1, || {
                memory.read();
                memory.bytes()
            })
        })
        .fold(f64::INFINITY, f64::min)
}

pub(super) fn measure_reloads(pairs: &Pairs, topology: &Topology) -> Result<Vec<Constant>, Error> {
    pin(pairs.first)?;
    let (private, llc) = cache_sizes(topology, pairs.first.number);
    let memory = Memory::new((private / 2) as usize);
    let warm = least(BATCHES, || {
        memory.read();
        memory.bytes()
    });
    let beyond = |read: f64| (read - warm).max(0.001);
    let displaced = Memory::new(input::to_usize((3 * private).min(llc / 2)));
    let from_llc = beyond(read_after(&memory, &displaced));
    let sweep = Memory::new(input::to_usize(2 * llc).min(SWEEP_MAX));
    let from_memory = beyond(read_after(&memory, &sweep)).max(from_llc);
    let remote = match pairs.others[4] {
        None => None,
        Some(other) => {
            pin(other)?;
            let far = Memory::new((private / 2) as usize);
            pin(pairs.first)?;
            let distance = topology.node_distance(pairs.first.number, other.number);
            Some(beyond(read_after(&far, &sweep)) * 20.0 / f64::from(distance.max(10)))
        }
    };
    let source = |when: &str| {
        format!("measured: per byte; reading half a private cache in scattered chunks of four cache lines, {when}")
    };
    let mut constants = vec![
        ps(
            "reload_llc",
            from_llc,
            source("after reading enough other memory to evict it to the last-level cache"),
        ),
        ps(
            "reload_memory",
            from_memory,
            source("after reading twice the size of the last-level cache"),
        ),
    ];
    constants.push(match remote {
        Some(remote) => ps(
            "reload_remote",
            remote.max(from_memory),
            source("in the memory of another node, scaled to a distance of 20"),
        ),
        None => ps(
            "reload_remote",
            from_memory,
            "same as reload_memory: this machine has one node",
        ),
    });
    Ok(constants)
}
