// SPDX-License-Identifier: GPL-2.0-only
//! The memory that all processes of a workload share, also after exec: what its tasks wait for, the log of what they did, the
//! latencies of their wake-ups, and the gate at which they start together.

use super::refusal::{Refusals, Request};
use super::sync::{Object, Objects};
use report::TaskCounters;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use windtunnel::error::Error;
use workload::Workload;

/// Entries of the log; memory is used as they are written. Operations beyond them are counted, their response times are not.
const ENTRIES: usize = 4 << 20;
/// Wake-ups whose latency is kept: the last so many.
const WAKEUPS: usize = 8 << 20;
/// Bits of a latency; those above are the task's id, which the kernel keeps below 2^22.
const LATENCY_BITS: u32 = 42;

/// What an entry of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `a` operations, response time `b`.
    Done = 1,
    /// Phase `a`.
    Phase,
    /// The task began, created `a` ns after the start.
    New,
    /// It used `a` ns of CPU time; left a CPU `b` times, of which the lower half as it had to wait.
    Exit,
    /// Before that: runnable without a CPU for `a` ns; so many waits, and as many migrations as the lower half of `b` says.
    Waited,
    /// It executes another program: that of its step `a`.
    Exec,
    /// What it had of both when the workload started: `Exit` and `Waited` count from when its thread did.
    Before,
    BeforeWaited,
}

/// A task, by its index in the workload and the kernel's id of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    pub task: u32,
    pub tid: u32,
}

#[repr(C)]
pub struct Entry {
    kind: AtomicU32,
    /// Index into the workload's tasks.
    pub task: u32,
    pub tid: u32,
    /// ns since the start.
    pub time: u64,
    pub a: u64,
    pub b: u64,
}

#[repr(C)]
struct Head {
    /// CLOCK_MONOTONIC when the gate opened.
    begun: AtomicU64,
    /// Tasks at the gate.
    ready: AtomicU32,
    /// A futex: 1 when it is open.
    gate: AtomicU32,
    entries: AtomicU64,
    wakeups: AtomicU64,
    /// Tasks that came into being so far.
    births: AtomicU64,
    /// Operations that the log has no room for.
    lost: AtomicU64,
    refusals: Refusals,
}

/// All of it. Processes forked off share it.
pub struct Shared {
    /// Of the memory, for a program that is executed.
    pub fd: i32,
    head: *mut Head,
    pub objects: Objects,
    entries: *mut Entry,
    wakeups: *mut AtomicU64,
}

// SAFETY: what the pointers lead to is atomic or pthread's, and stays until the process ends.
unsafe impl Send for Shared {}
unsafe impl std::marker::Sync for Shared {}

/// ns of CLOCK_MONOTONIC.
pub fn clock() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// ns of the clock.
pub fn read_clock(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place to write to.
    unsafe { libc::clock_gettime(id, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub fn gettid() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() as u32 }
}

impl Shared {
    /// # Errors
    /// If the kernel does not give what the workload needs.
    pub fn new(workload: &Workload) -> Result<Shared, Error> {
        super::channel::allow_files(workload);
        // SAFETY: a NUL-terminated name.
        let fd = unsafe { libc::memfd_create(c"windtunnel".as_ptr(), 0) };
        let shared = Shared::attach(fd, workload)?;
        shared.objects.init(workload).map_err(Error::new)?;
        Ok(shared)
    }

    /// The memory behind a descriptor.
    ///
    /// # Errors
    /// If it cannot be mapped.
    pub fn attach(fd: i32, workload: &Workload) -> Result<Shared, Error> {
        let objects = size_of::<Head>().next_multiple_of(64);
        let entries = (objects + workload.resources.len() * size_of::<Object>()).next_multiple_of(4096);
        let wakeups = entries + ENTRIES * size_of::<Entry>();
        let length = wakeups + WAKEUPS * size_of::<AtomicU64>();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, of a file that is made as long as that; what is new of it reads as zero.
        let memory = unsafe {
            if libc::ftruncate(fd, length as i64) != 0 {
                return Err(Error::new(format!("no shared memory: {}", io::Error::last_os_error())));
            }
            libc::mmap(std::ptr::null_mut(), length, access, flags, fd, 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(Error::new(format!("no shared memory: {}", io::Error::last_os_error())));
        }
        let memory: *mut u8 = memory.cast();
        // SAFETY: offsets within the mapping, as aligned as their types are.
        unsafe {
            Ok(Shared {
                fd,
                head: memory.cast(),
                objects: Objects::at(memory.add(objects).cast()),
                entries: memory.add(entries).cast(),
                wakeups: memory.add(wakeups).cast(),
            })
        }
    }

    fn head(&self) -> &Head {
        // SAFETY: mapped in `attach`, atomics throughout.
        unsafe { &*self.head }
    }

    /// ns since the start; 0 before it.
    pub fn now(&self) -> u64 {
        self.since_start(clock())
    }

    /// The start, ns of CLOCK_MONOTONIC; 0 before it.
    pub fn begun(&self) -> u64 {
        self.head().begun.load(Ordering::Acquire)
    }

    /// The same of a time of the clock.
    pub fn since_start(&self, time: u64) -> u64 {
        match self.begun() {
            0 => 0,
            begun => time.saturating_sub(begun),
        }
    }

    /// Waits until all are ready and the gate is opened. Tells when that was.
    pub fn wait_at_gate(&self) -> u64 {
        let head = self.head();
        head.ready.fetch_add(1, Ordering::AcqRel);
        let gate = &raw const head.gate;
        while head.gate.load(Ordering::Acquire) == 0 {
            // SAFETY: a futex in memory that stays.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    gate,
                    libc::FUTEX_WAIT,
                    0,
                    std::ptr::null::<libc::timespec>(),
                )
            };
        }
        self.begun()
    }

    /// Waits until so many tasks are ready, as long as `alive` says that they may come, and lets them start.
    pub fn open_gate(&self, tasks: u32, mut alive: impl FnMut() -> bool) {
        let head = self.head();
        while head.ready.load(Ordering::Acquire) < tasks && alive() {
            thread::sleep(Duration::from_millis(1));
        }
        head.begun.store(clock(), Ordering::Release);
        head.gate.store(1, Ordering::Release);
        // SAFETY: a futex in memory that stays.
        unsafe { libc::syscall(libc::SYS_futex, &raw const head.gate, libc::FUTEX_WAKE, i32::MAX) };
    }

    /// One that will not come to the gate.
    pub fn missing_at_gate(&self) {
        self.head().ready.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a task that comes into being; tells how many did before.
    pub fn birth(&self) -> u64 {
        self.head().births.fetch_add(1, Ordering::Relaxed)
    }

    pub fn log(&self, kind: Kind, who: Who, a: u64, b: u64) {
        let index = self.head().entries.fetch_add(1, Ordering::Relaxed) as usize;
        if index >= ENTRIES {
            if kind == Kind::Done {
                self.head().lost.fetch_add(a, Ordering::Relaxed);
            }
            return;
        }
        // SAFETY: this index is this caller's alone, until `kind` says that it is written.
        unsafe {
            let entry = self.entries.add(index);
            (*entry).task = who.task;
            (*entry).tid = who.tid;
            (*entry).time = self.now();
            (*entry).a = a;
            (*entry).b = b;
            (*entry).kind.store(kind as u32, Ordering::Release);
        }
    }

    /// A task exits, having used so much in all.
    pub fn log_exit(&self, who: Who, counts: &TaskCounters) {
        self.log_counts(who, counts, Kind::Waited, Kind::Exit);
    }

    /// What a task has used before the workload starts.
    pub fn log_before(&self, who: Who, counts: &TaskCounters) {
        self.log_counts(who, counts, Kind::BeforeWaited, Kind::Before);
    }

    fn log_counts(&self, who: Who, counts: &TaskCounters, waited: Kind, used: Kind) {
        if counts.waits > 0 {
            self.log(waited, who, counts.wait_ns, counts.waits << 32 | counts.migrations);
        }
        self.log(used, who, counts.cpu_ns, counts.involuntary << 32 | counts.voluntary);
    }

    /// A task runs again, so long after it was woken.
    pub fn woken(&self, who: Who, latency_ns: u64) {
        let index = self.head().wakeups.fetch_add(1, Ordering::Relaxed) as usize;
        let sample = u64::from(who.tid) << LATENCY_BITS | latency_ns.min((1 << LATENCY_BITS) - 1);
        // SAFETY: within the mapping. One who comes around may overwrite a sample, never tear it.
        unsafe { (*self.wakeups.add(index % WAKEUPS)).store(sample, Ordering::Relaxed) };
    }

    pub fn refused(&self, request: Request) {
        self.head().refusals.add(request);
    }

    /// What went wrong, a line each.
    pub fn complaints(&self) -> Vec<String> {
        let mut lines = self.head().refusals.told();
        let lost = self.head().lost.load(Ordering::Relaxed);
        if lost > 0 {
            lines.push(format!(
                "{lost} operations came after the log was full: throughput leaves them out; run shorter (--for)"
            ));
        }
        lines
    }

    /// What was logged, from an index on. An entry that a killed process had not finished is left out.
    pub fn entries(&self, from: usize) -> impl Iterator<Item = (Kind, &Entry)> {
        (from..self.logged()).filter_map(|index| {
            // SAFETY: below the mapping's end.
            let entry = unsafe { &*self.entries.add(index) };
            let kind = match entry.kind.load(Ordering::Acquire) {
                1 => Kind::Done,
                2 => Kind::Phase,
                3 => Kind::New,
                4 => Kind::Exit,
                5 => Kind::Waited,
                6 => Kind::Exec,
                7 => Kind::Before,
                8 => Kind::BeforeWaited,
                _ => return None,
            };
            Some((kind, entry))
        })
    }

    /// Entries begun so far.
    pub fn logged(&self) -> usize {
        (self.head().entries.load(Ordering::Acquire) as usize).min(ENTRIES)
    }

    /// Latencies of wake-ups with the ids of who was woken.
    pub fn wakeups(&self) -> impl Iterator<Item = (u32, u64)> {
        let count = (self.head().wakeups.load(Ordering::Acquire) as usize).min(WAKEUPS);
        (0..count).map(|index| {
            // SAFETY: below the mapping's end.
            let sample = unsafe { (*self.wakeups.add(index)).load(Ordering::Relaxed) };
            ((sample >> LATENCY_BITS) as u32, sample & ((1 << LATENCY_BITS) - 1))
        })
    }
}
