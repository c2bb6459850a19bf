// SPDX-License-Identifier: GPL-2.0-only
//! A task's program, step by step, by a thread of this kernel's. Two steps differ from what they say: Exec gives the task its
//! new name but no new image, and cgroups are left alone.

use super::shared::{Kind, Shared, clock, read_clock};
use kernel::chance::draw;
use kernel::rng::Rng;
use std::collections::BTreeMap;
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;
use workload::{Dist, Op, Policy, TaskSpec, Workload};

/// Rounds of the compute loop between two looks at the CPU clock.
const ROUNDS: u64 = 2_000;

/// What all tasks know.
pub struct World {
    pub workload: Workload,
    pub shared: Shared,
    /// Rounds of the compute loop in 1024 ns of CPU time.
    pub rounds_per_1024_ns: u64,
    pub seed: u64,
}

/// Work for the CPU alone.
pub fn compute(rounds: u64) {
    let mut x = black_box(1_u64);
    for _ in 0..rounds {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// Rounds in 1024 ns, at the fastest that was seen: interruptions only make it slower.
pub fn calibrate() -> u64 {
    let rounds = 200_000;
    let fastest = (0..20).map(|_| {
        let before = read_clock(libc::CLOCK_THREAD_CPUTIME_ID);
        compute(rounds);
        (read_clock(libc::CLOCK_THREAD_CPUTIME_ID) - before).max(1)
    });
    rounds * 1024 / fastest.min().unwrap_or(1)
}

/// A task of the workload, in the thread that calls it, to its end.
pub fn run(world: &Arc<World>, index: u32) {
    let spec = &world.workload.tasks[index as usize];
    let mut task = Task {
        index,
        created: clock(),
        woken: clock(),
        began: None,
        counters: vec![0; world.workload.programs[spec.program as usize].counters as usize],
        timers: BTreeMap::new(),
        traces: BTreeMap::new(),
        rng: Rng::new(world.seed.wrapping_mul(0x9e37_79b9).wrapping_add(u64::from(index))),
        buffer: Vec::new(),
        file: None,
        processes: 0,
        threads: 0,
        exits: channel(),
        world,
    };
    task.become_as(spec);
    if spec.start_ns > 0 {
        thread::sleep(Duration::from_nanos(spec.start_ns));
        task.created = clock();
    }
    world.shared.log(Kind::New, index, 0, 0);
    task.follow(&world.workload.programs[spec.program as usize].ops);
    task.wait_children(0);
    world.shared.log(Kind::Exit, index, 0, 0);
}

struct Task<'w> {
    world: &'w Arc<World>,
    index: u32,
    created: u64,
    woken: u64,
    began: Option<u64>,
    counters: Vec<u64>,
    timers: BTreeMap<u32, u64>,
    traces: BTreeMap<u32, u64>,
    rng: Rng,
    buffer: Vec<u8>,
    file: Option<File>,
    processes: u32,
    threads: u32,
    exits: (Sender<()>, Receiver<()>),
}

impl Task<'_> {
    fn follow(&mut self, ops: &[Op]) {
        let world = Arc::clone(self.world);
        let shared = &world.shared;
        let mut pc = 0;
        while let Some(op) = ops.get(pc) {
            let here = pc as u32;
            pc += 1;
            match op {
                Op::Run(dist) => compute(self.draw(dist, here) * world.rounds_per_1024_ns / 1024),
                Op::Runtime(dist) => {
                    let end = read_clock(libc::CLOCK_THREAD_CPUTIME_ID) + self.draw(dist, here);
                    while read_clock(libc::CLOCK_THREAD_CPUTIME_ID) < end {
                        compute(ROUNDS);
                    }
                }
                Op::Sleep(dist) => {
                    let length = self.draw(dist, here);
                    self.sleep_until(clock() + length);
                }
                Op::Timer {
                    timer,
                    period,
                    absolute,
                } => self.timer(*timer, *period, *absolute),
                Op::Interval { timer, length } => {
                    let length = self.draw(length, here);
                    self.timer(*timer, length, true);
                }
                Op::Mem { bytes } => {
                    self.buffer.resize(self.buffer.len().max(*bytes as usize), 0);
                    black_box(&mut self.buffer[..*bytes as usize]).fill(1);
                }
                Op::Io { bytes } => self.write_file(*bytes as usize),
                Op::Send { channel, bytes } => shared.send(*channel, *bytes, &mut self.buffer),
                Op::Recv(channel) => {
                    shared.receive(*channel, &mut self.buffer);
                    self.woken = clock();
                }
                Op::Yield => thread::yield_now(),
                Op::Fork { task, thread } => self.fork(*task, *thread),
                Op::WaitChildren => self.wait_children(0),
                Op::WaitChild { left } => self.wait_children(*left),
                Op::Exec { comm } => rename(comm),
                Op::Exit => return,
                Op::SetAffinity(cpus) => self.asked(set_affinity(cpus.as_deref())),
                Op::SetPolicy(policy) => self.asked(set_policy(*policy)),
                Op::SetCgroup(_) => {}
                Op::Begin { arrival } => self.began = Some(if *arrival { self.created } else { clock() }),
                Op::BeginWoken => self.began = Some(self.woken),
                Op::Done { count } => {
                    let response = self.began.take().map_or(0, |began| clock().saturating_sub(began));
                    shared.log(Kind::Done, self.index, u64::from(*count), response);
                }
                Op::Phase(phase) => shared.log(Kind::Phase, self.index, u64::from(*phase), 0),
                Op::LoopInit { counter } => self.counters[*counter as usize] = 0,
                Op::LoopBack { counter, times, target } => {
                    let count = &mut self.counters[*counter as usize];
                    *count += 1;
                    if times.is_none_or(|times| *count < times) {
                        pc = *target as usize;
                    }
                }
                other => {
                    shared.synchronise(other);
                    self.woken = clock();
                }
            }
        }
    }

    fn draw(&mut self, dist: &Dist, at: u32) -> u64 {
        draw(dist, &mut self.rng, self.traces.entry(at).or_insert(0))
    }

    fn sleep_until(&mut self, at: u64) {
        let time = libc::timespec {
            tv_sec: (at / 1_000_000_000) as libc::time_t,
            tv_nsec: (at % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: a valid time.
        unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, std::ptr::null_mut()) };
        // When it was to be woken: what passed since is the wait for a CPU.
        self.woken = at;
    }

    fn timer(&mut self, timer: u32, period: u64, absolute: bool) {
        let now = clock();
        let last = self.timers.entry(timer).or_insert(now);
        let target = *last + period;
        *last = if absolute || target > now { target } else { now };
        if target > now {
            self.sleep_until(target);
        }
    }

    fn write_file(&mut self, bytes: usize) {
        if self.file.is_none() {
            let path = std::env::temp_dir().join(format!("windtunnel-live-{}", unsafe_gettid()));
            self.file = File::create(&path).ok();
            // The open file is enough.
            let _ = std::fs::remove_file(path);
        }
        self.buffer.resize(self.buffer.len().max(bytes), 0);
        let written = self
            .file
            .as_mut()
            .map(|file| file.write_all(&self.buffer[..bytes]).and_then(|()| file.sync_data()));
        self.asked(matches!(written, Some(Ok(()))));
    }

    fn fork(&mut self, task: u32, is_thread: bool) {
        let world = Arc::clone(self.world);
        if is_thread {
            let exit = self.exits.0.clone();
            let started = thread::Builder::new().stack_size(256 << 10).spawn(move || {
                run(&world, task);
                let _ = exit.send(());
            });
            match started {
                Ok(_) => self.threads += 1,
                Err(_) => self.asked(false),
            }
            return;
        }
        // SAFETY: the child uses only this thread's state and what is shared, and ends with _exit.
        match unsafe { libc::fork() } {
            0 => {
                run(&world, task);
                // SAFETY: ends the child without running the parent's exit handlers.
                unsafe { libc::_exit(0) }
            }
            -1 => self.asked(false),
            _ => self.processes += 1,
        }
    }

    fn wait_children(&mut self, left: u32) {
        while self.processes + self.threads > left {
            if self.threads > 0 && (self.processes == 0 || self.exits.1.try_recv().is_ok()) {
                if self.processes == 0 {
                    let _ = self.exits.1.recv();
                }
                self.threads -= 1;
                continue;
            }
            // This thread's children alone: others wait for theirs.
            let flags = libc::__WNOTHREAD | if self.threads > 0 { libc::WNOHANG } else { 0 };
            // SAFETY: no status is asked for.
            match unsafe { libc::waitpid(-1, std::ptr::null_mut(), flags) } {
                0 => thread::sleep(Duration::from_micros(100)),
                -1 => self.processes = 0,
                _ => self.processes -= 1,
            }
        }
    }

    fn become_as(&self, spec: &TaskSpec) {
        rename(&spec.comm);
        if spec.cpus.is_some() {
            self.asked(set_affinity(spec.cpus.as_deref()));
        }
        self.asked(set_policy(spec.policy));
    }

    fn asked(&self, granted: bool) {
        if !granted {
            self.world.shared.refused();
        }
    }
}

fn unsafe_gettid() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

fn rename(comm: &str) {
    let mut name = [0_u8; 16];
    let length = comm.len().min(15);
    name[..length].copy_from_slice(&comm.as_bytes()[..length]);
    // SAFETY: a NUL-terminated name.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

fn set_affinity(cpus: Option<&[u32]>) -> bool {
    // SAFETY: a set of CPUs is plain data; CPU_SET ignores what is beyond it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        match cpus {
            Some(cpus) => cpus.iter().for_each(|&cpu| libc::CPU_SET(cpu as usize, &mut set)),
            None => (0..libc::CPU_SETSIZE as usize).for_each(|cpu| libc::CPU_SET(cpu, &mut set)),
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
    }
}

fn set_policy(policy: Policy) -> bool {
    /// From include/uapi/linux/sched.h.
    const SCHED_EXT: i32 = 7;
    let (class, nice, priority) = match policy {
        Policy::Normal { nice } => (libc::SCHED_OTHER, nice, 0),
        Policy::Batch { nice } => (libc::SCHED_BATCH, nice, 0),
        Policy::Idle => (libc::SCHED_IDLE, 0, 0),
        Policy::Ext { nice } => (SCHED_EXT, nice, 0),
        Policy::Fifo { rt_priority } => (libc::SCHED_FIFO, 0, rt_priority),
        Policy::RoundRobin { rt_priority } => (libc::SCHED_RR, 0, rt_priority),
    };
    let parameters = libc::sched_param {
        sched_priority: priority as i32,
    };
    // SAFETY: valid parameters, for the calling thread.
    unsafe {
        libc::sched_setscheduler(0, class, &parameters) == 0
            && (priority > 0 || libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as u32, nice) == 0)
    }
}
