// SPDX-License-Identifier: GPL-2.0-only
//! What cache lines, locks and reloading caches take.

use super::host::{Cpu, Pairs, least, pin};
use super::{Constant, by_distance, cache_sizes, ps};
use crate::error::Error;
use machine::Topology;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering::*};

const BATCHES: u32 = 20;
const ROUNDS: u64 = 2_000;
const LINE: usize = 64;
/// Looks after which the other CPU is not waited for any more: it could not be used after all.
const PATIENCE: u32 = 10_000_000;
/// Other memory that is read to empty caches is at most this much.
const SWEEP_MAX: usize = 256 << 20;

/// On cache lines of its own, and on none of what the prefetcher takes along.
#[repr(align(256))]
#[derive(Default)]
struct Alone(AtomicU64);

/// A lock that serves in the order of arrival.
#[derive(Default)]
struct Ticket {
    next: Alone,
    serving: Alone,
}

impl Ticket {
    /// Returns the ticket.
    fn lock(&self) -> u64 {
        let ticket = self.next.0.fetch_add(1, Relaxed);
        while self.serving.0.load(Acquire) != ticket {
            spin_loop();
        }
        ticket
    }

    /// Waits until somebody waits for the lock, which the caller holds by this ticket.
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

/// Runs `body(0)` and `body(1)` on two CPUs at a time, again and again; ns per operation of both together.
fn together(here: Cpu, there: Cpu, operations: u64, body: impl Fn(u64) + Sync) -> Result<f64, Error> {
    // Batches begun on either side.
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
        let both_here = std::cell::Cell::new(f64::INFINITY);
        for _ in 0..BATCHES {
            batch += 1;
            meet(0, batch);
            both_here.set(both_here.get().min(least(1, || {
                if pinned.is_ok() {
                    body(0);
                }
                operations
            })));
        }
        other.join().expect("a measuring thread does not panic")?;
        pinned?;
        Ok(both_here.get())
    })
}

/// A line's way from one CPU to the other, ns: a number that both count up in turn.
fn line(here: Cpu, there: Cpu) -> Result<f64, Error> {
    let number = Alone::default();
    together(here, there, 2 * ROUNDS, |side| {
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

/// A lock's hand-over to a waiter on another CPU, ns: without the line's way that getting in line takes.
fn hand_over(here: Cpu, there: Cpu) -> Result<f64, Error> {
    let lock = Ticket::default();
    let round = together(here, there, 2 * ROUNDS, |_| {
        for round in 1..=ROUNDS {
            let ticket = lock.lock();
            if round < ROUNDS {
                lock.wait_for_waiter(ticket);
            }
            lock.unlock();
        }
    })?;
    let line = line(here, there)?;
    Ok((round - line).max(line))
}

pub(super) fn lines(pairs: &Pairs) -> Result<Vec<Constant>, Error> {
    pin(pairs.first)?;
    let lock = Ticket::default();
    let alone = least(BATCHES, || {
        (0..ROUNDS).for_each(|_| {
            lock.lock();
            lock.unlock();
        });
        ROUNDS
    });
    let apart = |measure: fn(Cpu, Cpu) -> Result<f64, Error>, same: f64| {
        let mut first = true;
        pairs.map(|here, there| match std::mem::take(&mut first) {
            true => Ok(same),
            false => measure(here, there),
        })
    };
    let line = apart(line, 0.0)?;
    let hand_over = apart(hand_over, 0.0)?;
    let acquire = line.map(|line| line.map(|line| alone + line));
    Ok(vec![
        by_distance(
            "cache_line",
            line,
            "measured: a line that two CPUs write to in turn, one way",
        ),
        by_distance(
            "lock_handover",
            hand_over,
            "measured: a ticket lock handed over to a waiting CPU",
        ),
        by_distance(
            "lock_acquire",
            acquire,
            "measured: a ticket lock taken and released, and a cache line's way",
        ),
    ])
}

/// Memory that is read a line at a time, chunks of four lines in scattered order: what a task's working set looks like to a
/// prefetcher.
struct Memory {
    words: Vec<u64>,
    chunks: Vec<u32>,
}

impl Memory {
    /// Touched first by the calling thread.
    fn new(bytes: usize) -> Memory {
        let nr = (bytes / (4 * LINE)).max(1);
        let mut chunks: Vec<u32> = (0..nr as u32).collect();
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

/// ns a byte of reading `memory` after `other` was read.
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

pub(super) fn reloads(pairs: &Pairs, topology: &Topology) -> Result<Vec<Constant>, Error> {
    pin(pairs.first)?;
    let (private, llc) = cache_sizes(topology, pairs.first.number);
    let memory = Memory::new((private / 2) as usize);
    let warm = least(BATCHES, || {
        memory.read();
        memory.bytes()
    });
    let beyond = |read: f64| (read - warm).max(0.001);
    let displaced = Memory::new((3 * private).min(llc / 2) as usize);
    let from_llc = beyond(read_after(&memory, &displaced));
    let sweep = Memory::new(((2 * llc) as usize).min(SWEEP_MAX));
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
    let source =
        |what: &str| format!("measured: per byte; half a private cache in scattered chunks of four lines, {what}");
    let mut constants = vec![
        ps(
            "reload_llc",
            from_llc,
            source("after as much was read as displaces it there"),
        ),
        ps(
            "reload_memory",
            from_memory,
            source("after twice the last-level cache was read"),
        ),
    ];
    constants.push(match remote {
        Some(remote) => ps(
            "reload_remote",
            remote.max(from_memory),
            source("of another node, for a distance of 20"),
        ),
        None => ps("reload_remote", from_memory, "as reload_memory: one node"),
    });
    Ok(constants)
}
