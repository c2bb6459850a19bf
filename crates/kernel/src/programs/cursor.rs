// SPDX-License-Identifier: GPL-2.0-only
//! Position of a task in its program, and the work that its current step still needs.

use crate::sched::task::State;
use crate::simulation::chance::draw;
use crate::simulation::rng::Rng;
use std::collections::BTreeMap;
use workload::{Dist, Op};

/// Latency of the block device used by [`Op::Io`]: that of a data-centre NVMe drive's write cache.
pub(super) const IO_LATENCY_NS: u64 = 80_000;

/// Throughput of that device.
pub(super) const IO_BYTES_PER_US: u64 = 2_000;

/// Bytes that [`Op::Mem`] writes per us on a CPU of capacity 1024.
pub(super) const MEM_BYTES_PER_US: u64 = 10_000;

/// Number of consecutive steps without elapsed time after which a task is ended as an endless loop.
pub(super) const ENDLESS: u32 = 1_000_000;

/// Value of `Cursor::began` if no request is in progress.
pub(super) const NEVER: u64 = u64::MAX;

/// Position of a task in its program. The most frequently used fields come first.
#[repr(C)]
pub struct Cursor {
    /// Remaining work in ns at capacity 1024, multiplied by 1024. Slower CPUs take proportionally
    /// longer.
    pub(super) work: u64,
    /// Remaining CPU time that does not depend on the CPU's speed, ns.
    pub(super) time: u64,
    /// Remaining time to reload the caches, ns. It is spent before `time` and `work`.
    pub(super) reload: u64,
    /// Time of the last wake-up; before the first one, the time of creation.
    pub(super) woken: u64,
    /// Start of the current request, or NEVER.
    pub(super) began: u64,
    /// Index of the task's program.
    pub(super) program: u32,
    /// Index of the current step in the program.
    pub(super) pc: u32,
    /// How much of the current step is done; the meaning depends on the step.
    pub(super) stage: u8,
    /// Work of the next step that is already done, in the unit of `work`: the last step ended
    /// within a nanosecond, and the rest of it belongs to the next one. Less than 1 ns of work.
    ahead: u16,
    pub(super) counters: Box<[u64]>,
    pub(super) created: u64,
    /// Timers used so far: number and last expiry.
    pub(super) timers: Vec<(u32, u64)>,
    /// Position in `Dist::Trace` for each step that has one.
    pub(super) traces: BTreeMap<u32, u64>,
}

/// The running task's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The task has work to do and keeps the CPU.
    Work,
    Yield,
    /// The task sleeps; with `State::Dead` it has exited.
    Block(State),
}

impl Cursor {
    /// Returns a cursor at the start of program `program`, whose loops use `counters` counters.
    pub fn new(program: u32, counters: u32, now: u64) -> Cursor {
        Cursor {
            program,
            pc: 0,
            stage: 0,
            ahead: 0,
            counters: vec![0; counters as usize].into(),
            work: 0,
            time: 0,
            reload: 0,
            created: now,
            began: NEVER,
            woken: now,
            timers: Vec::new(),
            traces: BTreeMap::new(),
        }
    }

    /// Subtracts `ns` of CPU time at `speed` from the remaining work. The speed is work per ns, 1024
    /// on the fastest CPU.
    pub fn consume(&mut self, ns: u64, speed: u64) {
        let reload = ns.min(self.reload);
        self.reload -= reload;
        let ns = ns - reload;
        let time = ns.min(self.time);
        self.time -= time;
        let done = (ns - time) * speed;
        if done > self.work {
            // A task that waits for its next step does nothing ahead of it.
            let ahead = done - self.work;
            self.ahead = if ahead < speed { ahead as u16 } else { 0 };
        }
        self.work = self.work.saturating_sub(done);
    }

    /// Adds work of a step, in the unit of `work`.
    #[inline]
    fn add_work(&mut self, work: u64) {
        let ahead = u64::from(self.ahead).min(work);
        self.ahead -= ahead as u16;
        self.work += work - ahead;
    }

    /// Returns the CPU time that the remaining work needs at `speed`, in ns.
    #[inline]
    pub fn time_left(&self, speed: u64) -> u64 {
        // Most CPUs run at full speed. The constant divisor avoids a division.
        let work = match speed {
            1024 => self.work.div_ceil(1024),
            _ => self.work.div_ceil(speed),
        };
        self.reload + self.time + work
    }

    pub fn work_done(&self) -> bool {
        self.work == 0 && self.time == 0 && self.reload == 0
    }

    /// Adds `ns` of kernel time on behalf of the task: system calls, fork, exec.
    pub(crate) fn add_time(&mut self, ns: u64) {
        self.time += ns;
    }

    /// Returns the remaining CPU time that does not depend on speed, in ns.
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    /// Sets the time of a cache reload; returns the remaining time of the previous one.
    pub(crate) fn reload(&mut self, ns: u64) -> u64 {
        std::mem::replace(&mut self.reload, ns)
    }

    pub(crate) fn reload_left(&self) -> u64 {
        self.reload
    }

    /// Records a wake-up of the task at `now`.
    pub(crate) fn wake(&mut self, now: u64) {
        self.woken = now;
        self.ahead = 0;
    }

    pub(super) fn done(&mut self) {
        self.pc += 1;
        self.stage = 0;
    }

    /// Executes a step that concerns only the task's own computation. Returns `None` if `op` is not
    /// such a step. Otherwise returns whether time has to pass before the next step.
    #[inline]
    pub(super) fn compute(&mut self, op: &Op, rng: &mut Rng, syscall: u64) -> Option<bool> {
        match *op {
            Op::Run(ref dist) => {
                let ns = self.sample(dist, rng);
                self.add_work(ns * 1024);
            }
            Op::Mem { bytes } => {
                // Whole ns at full speed, as all work is.
                self.add_work((bytes * 1000).div_ceil(MEM_BYTES_PER_US) * 1024);
            }
            Op::Runtime(ref dist) => {
                let ns = self.sample(dist, rng);
                self.time += ns;
                self.done();
                return Some(ns > 0 || self.work > 0);
            }
            Op::LoopInit { counter } => {
                self.counters[counter as usize] = 0;
                self.done();
                return Some(self.work > 0);
            }
            Op::LoopBack { counter, times, target } => {
                let again = times.is_none_or(|times| {
                    let count = &mut self.counters[counter as usize];
                    *count += 1;
                    *count < times
                });
                self.done();
                if again {
                    self.pc = target;
                }
                return Some(self.work > 0);
            }
            _ => return None,
        }
        self.done();
        if self.work == 0 {
            self.time += syscall;
        }
        Some(self.work > 0)
    }

    /// Draws a random value from a distribution of the current step.
    #[inline]
    pub(super) fn sample(&mut self, dist: &Dist, rng: &mut Rng) -> u64 {
        match dist {
            Dist::Fixed(value) => *value,
            Dist::Trace(_) => draw(dist, rng, self.traces.entry(self.pc).or_insert(0)),
            _ => draw(dist, rng, &mut 0),
        }
    }
}

/// Returns whether a step only affects the trace. Such steps are executed without waiting for
/// pending work.
pub(super) fn silent(op: &Op) -> bool {
    matches!(op, Op::Begin { .. } | Op::BeginWoken | Op::Done { .. } | Op::Phase(_))
}

/// Returns the next expiry of a timer, or `None` if it has already passed.
pub(super) fn timer_target(cursor: &mut Cursor, now: u64, timer: u32, period: u64, absolute: bool) -> Option<u64> {
    let at = match cursor.timers.iter().position(|&(id, _)| id == timer) {
        Some(at) => at,
        None => {
            cursor.timers.push((timer, now));
            cursor.timers.len() - 1
        }
    };
    let last = &mut cursor.timers[at].1;
    let target = *last + period;
    if target > now {
        *last = target;
        return Some(target);
    }
    *last = if absolute { target } else { now };
    None
}
