// SPDX-License-Identifier: GPL-2.0-only
//! Position of a task in its program, and the work that the task has to do before the next step.

use crate::simulation::chance::draw;
use crate::simulation::rng::Rng;
use std::collections::BTreeMap;
use workload::{Dist, Op};

/// Latency of the block device that [`Op::Io`] uses. It is typical of a data-centre NVMe drive with
/// a write cache.
pub(crate) const IO_LATENCY_NS: u64 = 80_000;

/// Throughput of the same block device.
pub(crate) const IO_BYTES_PER_US: u64 = 2_000;

/// Number of bytes that [`Op::Mem`] writes per us on a CPU with capacity 1024.
pub(crate) const MEM_BYTES_PER_US: u64 = 10_000;

/// Number of consecutive steps that take no time after which a program counts as an endless loop.
/// The task is then ended.
pub(crate) const ENDLESS: u32 = 1_000_000;

/// Value of `Cursor::began` while the task is not processing a request.
pub(crate) const NEVER: u64 = u64::MAX;

/// Unit of the part of the CPU time that a reload takes.
pub(crate) const WHOLE: u64 = 1024;

/// How far a task has executed its current step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Start,
    /// The task waits or has waited. In a fork or an exit, the time for it has been added.
    Begun,
    /// The task waited for a condition variable, which was signalled. It now waits for the mutex.
    Signalled,
    /// The task exits, and has left its autogroup. It may have been preempted since.
    Exiting,
}

/// Position of a task in its program. The most frequently used fields come first.
#[repr(C)]
pub struct Cursor {
    /// Remaining work: CPU time in ns on a CPU with capacity 1024, multiplied by 1024. A slower CPU
    /// takes longer in proportion to its capacity.
    pub(crate) work: u64,
    /// Remaining CPU time of work that takes equally long on all CPUs, ns.
    pub(crate) time: u64,
    /// Remaining time of a cache reload, which loads the task's working set into caches after a
    /// switch, ns. It is spent before `time` and `work`. If `reload_share` is below [`WHOLE`], it
    /// is spent at the same time as `time` and `work`.
    reload: u64,
    /// Time of the last wake-up. Before the first wake-up, the time at which the task was created.
    pub(crate) woken: u64,
    /// Start time of the request that the task is processing, or NEVER.
    pub(crate) began: u64,
    /// Index of the task's program.
    pub(crate) program: u32,
    /// Index of the current step in the program.
    pub(crate) pc: u32,
    pub(crate) stage: Stage,
    /// Part of the next step's work that is already done, in the unit of `work`. If a step ends
    /// within a nanosecond, the rest of this nanosecond counts for the next step. The value is less
    /// than the work of 1 ns.
    ahead: u16,
    /// Part of the CPU time that is spent on the reload until it is complete, in 1/[`WHOLE`].
    reload_share: u16,
    /// Time of the reload that has passed and is not subtracted from `reload` yet, in ns/[`WHOLE`].
    reload_carry: u16,
    /// Loop counter 0. The others, which few programs have, are in `rare`.
    counter: u64,
    pub(crate) created: u64,
    /// Kernel work of this task's CPU that the next [`Op::Run`] already contains, ns. Only tasks of
    /// a replay have it.
    credit: u64,
    rare: Option<Box<Rare>>,
}

/// State that few programs need. It is allocated when it is first changed, so that all other tasks
/// take less memory.
struct Rare {
    /// Time of the post that ended the last wait for a semaphore.
    posted: u64,
    /// Number of posts that are left of an [`Op::Relay`], and the time at which it began.
    relay: (u32, u64),
    /// Loop counters from number 1 on.
    counters: Vec<u64>,
    /// Timers that the task has used so far: their numbers and their last expiry times.
    timers: Vec<(u32, u64)>,
    /// For each step with a [`Dist::Trace`], the position in its list of values.
    traces: BTreeMap<u32, u64>,
    /// Random generator of this task alone. Without it, the task uses that of the machine.
    rng: Option<Rng>,
}

impl Rare {
    /// Returns the state of a task that was created at `now`.
    fn new(now: u64) -> Rare {
        Rare {
            posted: now,
            relay: (0, now),
            counters: Vec::new(),
            timers: Vec::new(),
            traces: BTreeMap::new(),
            rng: None,
        }
    }
}

impl Cursor {
    /// Returns a cursor at the start of the program with the number `program`.
    pub fn new(program: u32, now: u64) -> Cursor {
        Cursor {
            program,
            pc: 0,
            stage: Stage::Start,
            ahead: 0,
            reload_share: WHOLE as u16,
            reload_carry: 0,
            counter: 0,
            work: 0,
            time: 0,
            reload: 0,
            created: now,
            began: NEVER,
            woken: now,
            credit: 0,
            rare: None,
        }
    }

    /// Gives a new task of background work a random generator of its own, and starts its timer 0.
    /// The expiry times of an [`Op::Interval`] of this timer then do not depend on when the task
    /// first runs. Timers of other tasks start at their first use.
    pub fn set_rng(&mut self, rng: Rng) {
        let created = self.created;
        let rare = self.rare();
        rare.rng = Some(rng);
        rare.timers.push((0, created));
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_with(|| Box::new(Rare::new(self.created)))
    }

    /// Returns the loop counter with a number. It is 0 before its first use.
    #[inline]
    fn counter(&mut self, number: u32) -> &mut u64 {
        match number {
            0 => &mut self.counter,
            _ => self.rare_counter(number as usize - 1),
        }
    }

    fn rare_counter(&mut self, at: usize) -> &mut u64 {
        let counters = &mut self.rare().counters;
        if counters.len() <= at {
            counters.resize(at + 1, 0);
        }
        &mut counters[at]
    }

    /// Returns the time of the post that ended the last wait for a semaphore.
    pub(crate) fn posted(&self) -> u64 {
        self.rare.as_ref().map_or(self.created, |rare| rare.posted)
    }

    pub(crate) fn set_posted(&mut self, at: u64) {
        self.rare().posted = at;
    }

    /// Returns the number of posts that are left of an [`Op::Relay`], and the time at which it
    /// began.
    pub(crate) fn relay(&self) -> (u32, u64) {
        self.rare.as_ref().map_or((0, self.created), |rare| rare.relay)
    }

    pub(crate) fn set_relay(&mut self, left: u32, began: u64) {
        self.rare().relay = (left, began);
    }

    /// Subtracts `ns` of CPU time at `speed` from the remaining work. The speed is work per ns,
    /// 1024 on the fastest CPU.
    #[inline]
    pub fn consume(&mut self, ns: u64, speed: u64) {
        match self.reload {
            0 => self.consume_work(ns, speed),
            _ => self.consume_reload_and_work(ns, speed),
        }
    }

    #[cold]
    #[inline(never)]
    fn consume_reload_and_work(&mut self, ns: u64, speed: u64) {
        let ns = self.consume_reload(ns);
        self.consume_work(ns, speed);
    }

    #[inline(always)]
    fn consume_work(&mut self, ns: u64, speed: u64) {
        let time = ns.min(self.time);
        self.time -= time;
        let done = (ns - time) * speed;
        if done > self.work {
            // If the excess is 1 ns or more, the task had nothing to do for a while. It cannot have
            // worked ahead then, so nothing is carried over to the next step.
            let ahead = done - self.work;
            self.ahead = if ahead < speed { ahead as u16 } else { 0 };
        }
        self.work = self.work.saturating_sub(done);
    }

    /// Returns how the next `ns` of CPU time at `speed` will be used: the part that the reload of
    /// caches takes, and the part in which work is done that depends on the speed of the CPU.
    pub(crate) fn split(&self, ns: u64, speed: u64) -> (u64, u64) {
        let reload = match self.reload {
            0 => 0,
            _ => self.reload_in(ns),
        };
        let work = (ns - reload).saturating_sub(self.time);
        (reload, work.min(self.work.div_ceil(speed.max(1))))
    }

    /// Adds the work of a step, in the unit of `work`, minus the part that is already done.
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
        self.beside_reload(self.time + work)
    }

    /// Returns the CPU time until the task can begin the work of its next step, in ns.
    pub(crate) fn time_before_work(&self) -> u64 {
        self.beside_reload(self.time)
    }

    /// Returns the CPU time that the task needs for `ns` of its own work, in ns. A reload that is in
    /// progress takes a share of the CPU time.
    #[inline]
    fn beside_reload(&self, ns: u64) -> u64 {
        match self.reload {
            0 => ns,
            _ => self.time_beside_reload(ns),
        }
    }

    pub fn work_done(&self) -> bool {
        self.work == 0 && self.time == 0 && (self.reload == 0 || u64::from(self.reload_share) < WHOLE)
    }

    /// Returns how much of the next `ns` of CPU time the reload takes.
    fn reload_in(&self, ns: u64) -> u64 {
        let passed = u128::from(self.reload_carry) + u128::from(ns) * u128::from(self.reload_share);
        self.reload.min((passed / u128::from(WHOLE)) as u64)
    }

    /// Subtracts the reload's part of `ns` of CPU time from the reload. Returns the part that is
    /// left for work.
    #[cold]
    fn consume_reload(&mut self, ns: u64) -> u64 {
        let reload = self.reload_in(ns);
        let passed = u128::from(self.reload_carry) + u128::from(ns) * u128::from(self.reload_share);
        self.reload_carry = (passed % u128::from(WHOLE)) as u16;
        self.reload -= reload;
        ns - reload
    }

    /// Returns the CPU time in which `work` ns of work are done while a reload is in progress.
    #[cold]
    fn time_beside_reload(&self, work: u64) -> u64 {
        let share = u64::from(self.reload_share);
        let after = self.reload + work;
        if share >= WHOLE || self.reload_in(after) == self.reload {
            return after;
        }
        // The smallest time t with t - (carry + t * share) / WHOLE >= work.
        match work {
            0 => 0,
            _ => (u64::from(self.reload_carry) + (work - 1) * WHOLE) / (WHOLE - share) + 1,
        }
    }

    /// Returns the part of the next `ns` of CPU time that is left for work beside the reload.
    #[cfg(test)]
    pub(crate) fn work_in(&self, ns: u64) -> u64 {
        ns - self.reload_in(ns)
    }

    /// Adds `ns` of time that the kernel needs for the task, for example for system calls, fork or
    /// exec.
    pub(crate) fn add_time(&mut self, ns: u64) {
        self.time += ns;
    }

    /// Notes `ns` of kernel work on the task's CPU, which the recorded computing time of the task
    /// contains. The next step computes for a shorter time.
    pub(crate) fn credit(&mut self, ns: u64) {
        self.credit += ns;
    }

    /// Returns the remaining CPU time of work that takes equally long on all CPUs, in ns.
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    /// Sets the time that a cache reload takes, and the part of the CPU time that is spent on it,
    /// in 1/[`WHOLE`]. Returns what was left of the previous reload.
    pub(crate) fn reload(&mut self, ns: u64, share: u64) -> u64 {
        (self.reload_share, self.reload_carry) = (share as u16, 0);
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

    /// Lets the task exit now, instead of executing the rest of its program. `end` is the number of
    /// steps in the program.
    pub(crate) fn exit(&mut self, end: u32) {
        (self.pc, self.stage) = (end, Stage::Begun);
        (self.work, self.time) = (0, 0);
    }

    pub(crate) fn done(&mut self) {
        self.pc += 1;
        self.stage = Stage::Start;
    }

    /// Executes a step that consists only of computation by the task itself. Returns `None` if `op`
    /// is another kind of step. Otherwise returns whether time has to pass before the next step.
    #[inline(always)]
    pub(crate) fn compute(&mut self, op: &Op, rng: &mut Rng, syscall: u64) -> Option<bool> {
        let computes = matches!(
            op,
            Op::Run(_) | Op::Mem { .. } | Op::Runtime(_) | Op::LoopInit { .. } | Op::LoopBack { .. }
        );
        match computes {
            true => self.execute_computation(op, rng, syscall),
            false => None,
        }
    }

    /// Does the work of [`Cursor::compute`] for the steps that compute.
    fn execute_computation(&mut self, op: &Op, rng: &mut Rng, syscall: u64) -> Option<bool> {
        match *op {
            Op::Run(ref dist) => {
                let ns = self.sample(dist, rng);
                let credit = self.credit.min(ns);
                self.credit -= credit;
                self.add_work((ns - credit) * 1024);
            }
            Op::Mem { bytes } => {
                // Rounded up to whole ns at full speed, like the work of all other steps.
                self.add_work((bytes * 1000).div_ceil(MEM_BYTES_PER_US) * 1024);
            }
            Op::Runtime(ref dist) => {
                let ns = self.sample(dist, rng);
                self.time += ns;
                self.done();
                return Some(ns > 0 || self.work > 0);
            }
            Op::LoopInit { counter } => {
                *self.counter(counter) = 0;
                self.done();
                return Some(self.work > 0);
            }
            Op::LoopBack { counter, times, target } => {
                let again = times.is_none_or(|times| {
                    let count = self.counter(counter);
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
    pub(crate) fn sample(&mut self, dist: &Dist, rng: &mut Rng) -> u64 {
        match dist {
            Dist::Fixed(value) => *value,
            _ => self.draw(dist, rng),
        }
    }

    fn draw(&mut self, dist: &Dist, rng: &mut Rng) -> u64 {
        let pc = self.pc;
        if let Dist::Trace(_) = dist {
            let rare = self.rare();
            let position = rare.traces.entry(pc).or_insert(0);
            return draw(dist, rare.rng.as_mut().unwrap_or(rng), position);
        }
        let own = self.rare.as_mut().and_then(|rare| rare.rng.as_mut());
        draw(dist, own.unwrap_or(rng), &mut 0)
    }
}

/// Returns whether a step affects nothing but the trace. Such a step is executed even if the task
/// has work to do.
pub(crate) fn silent(op: &Op) -> bool {
    matches!(
        op,
        Op::Begin { .. } | Op::BeginWoken | Op::BeginPosted | Op::Done { .. } | Op::Phase(_)
    )
}

/// Returns the next expiry time of a timer, or `None` if this time has already passed. After a
/// missed expiry, the next period starts at the missed time if `absolute` is set, otherwise now.
pub(crate) fn timer_target(cursor: &mut Cursor, now: u64, timer: u32, period: u64, absolute: bool) -> Option<u64> {
    let timers = &mut cursor.rare().timers;
    let at = match timers.iter().position(|&(id, _)| id == timer) {
        Some(at) => at,
        None => {
            timers.push((timer, now));
            timers.len() - 1
        }
    };
    let last = &mut timers[at].1;
    let target = *last + period;
    if target > now {
        *last = target;
        return Some(target);
    }
    *last = if absolute { target } else { now };
    None
}
