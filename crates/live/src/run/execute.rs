// SPDX-License-Identifier: GPL-2.0-only
//! Executes the program of a task, operation by operation, in a thread of this process.

use super::attributes::{rename, set_affinity, set_policy, set_slice};
use super::cgroup;
use super::children::Threads;
use super::counts;
use super::refusal::Request;
use super::shared::{EntryKind, Reserved, Shared, TaskId, clock, gettid, read_clock};
use kernel::chance::draw;
use kernel::rng::Rng;
use std::collections::BTreeMap;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;
use workload::{Dist, Op, Score, TaskSpec, Workload};

/// Number of iterations of the compute loop between two readings of the CPU clock.
const ROUNDS: u64 = 2_000;

/// Shortest CPU time in ns of a forked task that reads its counters from /proc when it exits. Reading
/// them takes about 50 us of CPU time, which is part of the workload's time if other tasks wait.
const LONG_RUN: u64 = 20_000_000;

/// Size of the buffer that a task reads and writes, in bytes. This is rt-app's default
/// (`mem_buffer_size`). The buffer cannot be as large as the workload's accesses, because these may
/// be larger than the host's memory.
pub const BUFFER_BYTES: usize = 4 << 20;

/// Splits an access of `bytes` bytes into accesses of at most [`BUFFER_BYTES`].
fn pieces(bytes: u64) -> impl Iterator<Item = usize> {
    let buffer = BUFFER_BYTES as u64;
    let sizes = (0..bytes / buffer).map(|_| BUFFER_BYTES);
    sizes.chain([(bytes % buffer) as usize]).filter(|&size| size > 0)
}

/// Data that all tasks of the workload share.
pub struct World {
    pub workload: Workload,
    pub shared: Shared,
    /// Number of iterations of the compute loop in 1024 ns of CPU time.
    pub rounds_per_1024_ns: u64,
    /// CPUs of this machine that are used as the workload's CPUs, in the order of the workload's
    /// CPUs.
    pub cpus: Vec<u32>,
    /// Directory of the cgroup that represents the workload's root cgroup.
    pub cgroups: Option<String>,
    pub seed: u64,
    /// Whether the workload can be loaded again after exec.
    pub can_exec: bool,
}

impl World {
    /// Returns the CPUs of this machine for a set of the workload's CPUs. Returns `None` if this
    /// machine has no CPU for one of them.
    fn allowed(&self, cpus: Option<&[u32]>) -> Option<Vec<u32>> {
        match cpus {
            Some(cpus) => cpus.iter().map(|&cpu| self.cpus.get(cpu as usize).copied()).collect(),
            None => Some(self.cpus.clone()),
        }
    }
}

/// Executes this number of iterations of the compute loop.
///
/// The function is not inlined. Otherwise, the compiler makes a copy in [`calibrate`] with fewer
/// instructions per iteration than the copy that executes the workload, and the workload takes
/// longer than intended. Under QEMU with one nanosecond per instruction, the difference was 17 %.
#[inline(never)]
pub fn compute(rounds: u64) {
    let mut x = black_box(1_u64);
    for _ in 0..rounds {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// Returns the number of iterations of the compute loop in 1024 ns of CPU time. Interruptions can
/// only slow the loop down, so the fastest of 20 attempts is used.
pub fn calibrate() -> u64 {
    let rounds = 200_000;
    let fastest = (0..20).map(|_| {
        let before = read_clock(libc::CLOCK_THREAD_CPUTIME_ID);
        compute(rounds);
        (read_clock(libc::CLOCK_THREAD_CPUTIME_ID) - before).max(1)
    });
    rounds * 1024 / fastest.min().unwrap_or(1)
}

/// Executes a task that exists from the start of the workload. The calling thread executes the task
/// until the task ends.
///
/// `alone` says whether the thread is the only one of its process.
pub fn start(world: &Arc<World>, index: u32, alone: bool) {
    let spec = &world.workload.tasks[index as usize];
    let mut task = Task::new(world, index, 0, alone);
    task.apply_attributes(spec);
    world.shared.log_before(task.id, &counts::own_all());
    task.created = world.shared.wait_at_gate() + spec.start_ns;
    if spec.start_cpu.is_some() && spec.cpus.is_none() {
        task.allow(None);
    }
    task.begin(spec);
}

pub(super) struct Task<'w> {
    pub world: &'w Arc<World>,
    pub id: TaskId,
    /// Time of creation in ns of CLOCK_MONOTONIC. All times in this struct use this clock.
    pub created: u64,
    /// Time of the last wake-up, or `None` if the last operation did not wait.
    pub woken: Option<u64>,
    pub began: Option<u64>,
    pub counters: Vec<u64>,
    pub timers: BTreeMap<u32, u64>,
    pub traces: BTreeMap<u32, u64>,
    pub rng: Rng,
    /// Number of child processes for which the task has not waited yet.
    pub processes: u32,
    pub(super) threads: Arc<Threads>,
    alone: bool,
    buffer: Vec<u8>,
    file: Option<File>,
    reserved: Reserved,
}

impl<'w> Task<'w> {
    pub fn new(world: &'w Arc<World>, index: u32, created: u64, alone: bool) -> Task<'w> {
        let program = world.workload.tasks[index as usize].program;
        let spawned = world.workload.tasks[index as usize].spawn;
        // Tasks that exist from the start draw the same random numbers in every run.
        let stream = if spawned {
            u64::from(index)
        } else {
            1 << 32 | world.shared.birth()
        };
        Task {
            world,
            id: TaskId {
                task: index,
                tid: gettid(),
            },
            created,
            woken: Some(created),
            began: None,
            counters: vec![0; world.workload.programs[program as usize].counters as usize],
            timers: BTreeMap::new(),
            traces: BTreeMap::new(),
            rng: Rng::new(world.seed.wrapping_mul(0x9e37_79b9).wrapping_add(stream)),
            processes: 0,
            threads: Arc::default(),
            alone,
            buffer: Vec::new(),
            file: None,
            reserved: Reserved::default(),
        }
    }

    pub(super) fn begin(&mut self, spec: &TaskSpec) {
        if self.created > clock() {
            self.sleep_until(self.created);
        }
        self.woken = Some(self.created);
        let shared = &self.world.shared;
        let process = u64::from(std::process::id());
        shared.log(EntryKind::New, self.id, shared.since_start(self.created), process);
        let world = Arc::clone(self.world);
        self.go(&world.workload.programs[spec.program as usize].ops, 0);
    }

    /// Executes the program from operation `pc` to its end. Then waits for the children and logs
    /// the exit.
    pub fn go(&mut self, ops: &[Op], pc: usize) {
        self.follow(ops, pc);
        self.wait_children(0);
        let spawned = self.world.workload.tasks[self.id.task as usize].spawn;
        let counts = match spawned || read_clock(libc::CLOCK_THREAD_CPUTIME_ID) >= LONG_RUN {
            true => counts::own_all(),
            false => counts::own(),
        };
        self.world.shared.log_exit(self.id, &counts);
    }

    fn follow(&mut self, ops: &[Op], mut pc: usize) {
        let world = Arc::clone(self.world);
        let shared = &world.shared;
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
                    for piece in pieces(*bytes) {
                        self.buffer.resize(self.buffer.len().max(piece), 0);
                        black_box(&mut self.buffer[..piece]).fill(1);
                    }
                }
                Op::Io { bytes } => self.write_file(*bytes),
                Op::Send { channel, bytes } => shared.objects().send(*channel, *bytes, &mut self.buffer),
                Op::Recv(channel) => {
                    let woken = shared.objects().receive(*channel, &mut self.buffer);
                    self.waited(woken);
                }
                Op::Poll(channel) => {
                    let woken = shared.objects().poll(*channel);
                    self.waited(woken);
                }
                Op::Yield => thread::yield_now(),
                Op::Fork { task, thread } => self.fork(*task, *thread),
                Op::WaitChildren => self.wait_children(0),
                Op::WaitChild { left } => self.wait_children(*left),
                Op::Exec { comm } => {
                    shared.log(EntryKind::Exec, self.id, u64::from(here), 0);
                    if world.can_exec && self.alone && self.threads.alive() == 0 {
                        self.exec(comm, pc);
                    }
                    shared.refused(Request::Exec);
                    rename(comm);
                }
                Op::Exit => return,
                Op::SetAffinity(cpus) => self.allow(cpus.as_deref()),
                Op::SetPolicy(policy) => self.note_refusal(set_policy(*policy)),
                Op::SetSlice(ns) => self.note_refusal(set_slice(*ns)),
                Op::SetCgroup(cgroup) => self.enter(*cgroup),
                Op::MigrateDisable => shared.refused(Request::KernelOnly),
                Op::MigrateEnable => {}
                Op::Begin { arrival } => self.began = Some(if *arrival { self.created } else { clock() }),
                // A semaphore of the C library has no time of its last post. If the task waited, the
                // post woke it.
                Op::BeginWoken | Op::BeginPosted => self.began = Some(self.woken.unwrap_or_else(clock)),
                Op::Done { count } => match self.began.take() {
                    None if world.workload.score == Score::CompletionTime => {
                        shared.count_done(&mut self.reserved, self.id, u64::from(*count));
                    }
                    began => {
                        let response = began.map_or(0, |began| clock().saturating_sub(began));
                        shared.log_done(&mut self.reserved, self.id, u64::from(*count), response);
                    }
                },
                Op::Phase(phase) => shared.log(EntryKind::Phase, self.id, u64::from(*phase), 0),
                Op::LoopInit { counter } => self.counters[*counter as usize] = 0,
                Op::LoopBack { counter, times, target } => {
                    let count = &mut self.counters[*counter as usize];
                    *count += 1;
                    if times.is_none_or(|times| *count < times) {
                        pc = *target as usize;
                    }
                }
                other => {
                    let woken = shared.objects().step(other);
                    self.waited(woken);
                }
            }
        }
    }

    fn draw(&mut self, dist: &Dist, at: u32) -> u64 {
        draw(dist, &mut self.rng, self.traces.entry(at).or_insert(0))
    }

    /// Records that the task runs again after an operation. If the task had to wait, `woken` is the
    /// time of its wake-up.
    fn waited(&mut self, woken: Option<u64>) {
        // The clock is read only if it is needed, because this takes half a microsecond in a guest.
        self.woken = woken;
        if let Some(at) = woken {
            self.world.shared.woken(self.id, clock().saturating_sub(at));
        }
    }

    fn sleep_until(&mut self, at: u64) {
        let waits = at > clock();
        let time = libc::timespec {
            tv_sec: (at / 1_000_000_000) as libc::time_t,
            tv_nsec: (at % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: `time` contains a valid time.
        unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, std::ptr::null_mut()) };
        self.waited(waits.then_some(at));
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

    /// Writes this number of bytes to the task's file and waits until they are on the device. Each
    /// piece overwrites the previous one, so the file stays small however much the workload writes.
    fn write_file(&mut self, bytes: u64) {
        if self.file.is_none() {
            // The file has no name, and can only be used through its descriptor.
            self.file = tempfile::tempfile().ok();
        }
        for piece in pieces(bytes) {
            self.buffer.resize(self.buffer.len().max(piece), 0);
            let written = self.file.as_ref().map(|file| {
                file.write_all_at(&self.buffer[..piece], 0)
                    .and_then(|()| file.sync_data())
            });
            if !matches!(written, Some(Ok(()))) {
                self.world.shared.refused(Request::File);
                return;
            }
        }
    }

    pub(super) fn apply_attributes(&self, spec: &TaskSpec) {
        rename(&spec.comm);
        if self.world.workload.cgroups.len() > 1 {
            self.enter(spec.cgroup);
        }
        let first = spec.start_cpu.map(|cpu| vec![cpu]);
        self.allow(spec.cpus.as_deref().or(first.as_deref()));
        self.note_refusal(set_policy(spec.policy));
        if let Some(ns) = spec.attributes.slice_ns {
            self.note_refusal(set_slice(ns));
        }
        if spec.attributes.kthread {
            self.world.shared.refused(Request::KernelOnly);
        }
        if let Some(ns) = spec.attributes.timer_slack_ns {
            // A slack of 0 would set the default. The smallest slack is 1 ns.
            // SAFETY: this call changes only the calling thread.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns.max(1)) };
        }
        if let Some(uid) = spec.attributes.uid {
            let uid = libc::c_long::from(uid);
            // The wrapper of the C library would change all threads of the process.
            // SAFETY: this call changes only the calling thread.
            if unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, -1) } != 0 {
                self.world.shared.refused(Request::User);
            }
        }
    }

    pub(super) fn allow(&self, cpus: Option<&[u32]>) {
        // If the workload names a CPU that this machine does not have, the set is empty. The kernel
        // then refuses the request.
        let allowed = self.world.allowed(cpus).unwrap_or_default();
        if !set_affinity(0, &allowed) {
            self.world.shared.refused(Request::Affinity);
        }
    }

    fn enter(&self, index: u32) {
        if let Some(folder) = &self.world.cgroups {
            let path = &self.world.workload.cgroups[index as usize].path;
            if cgroup::enter(folder, path, self.id.tid).is_err() {
                self.world.shared.refused(Request::Cgroup);
            }
        }
    }

    fn note_refusal(&self, result: Result<(), Request>) {
        if let Err(request) = result {
            self.world.shared.refused(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_accesses_are_split_into_pieces_of_the_buffer() {
        let sizes = |bytes| pieces(bytes).collect::<Vec<_>>();
        let two = 2 * BUFFER_BYTES as u64;
        assert_eq!(sizes(0), [0; 0]);
        assert_eq!(sizes(1), [1]);
        assert_eq!(sizes(two), [BUFFER_BYTES; 2]);
        assert_eq!(sizes(two + 7), [BUFFER_BYTES, BUFFER_BYTES, 7]);
        // The iterator computes a piece only when it is needed. An access of 16 EiB therefore needs
        // no list of its pieces.
        assert_eq!(pieces(u64::MAX).take(3).collect::<Vec<_>>(), [BUFFER_BYTES; 3]);
    }
}
