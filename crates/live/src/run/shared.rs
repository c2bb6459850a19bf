// SPDX-License-Identifier: GPL-2.0-only
//! Memory that all processes of a workload share, also across exec.
//!
//! It contains the locks and channels that the tasks wait for, the log of their operations, the
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

/// Capacity of the log; memory is allocated as entries are written. Operations beyond it are
/// counted, but have no response times.
const ENTRIES: usize = 4 << 20;
/// Number of most recent wake-ups whose latency is kept.
const WAKEUPS: usize = 8 << 20;
/// Low bits of a sample that hold the latency. The bits above hold the thread id, which the kernel
/// keeps below 2^22.
const LATENCY_BITS: u32 = 42;

/// Kind of a log entry; the comments say what `a` and `b` mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `a` operations were finished with response time `b` ns.
    Done = 1,
    /// Phase `a` began.
    Phase,
    /// The task began; it was created `a` ns after the start.
    New,
    /// The task exited after `a` ns of CPU time. `b` counts its context switches: involuntary ones
    /// in the upper 32 bits, voluntary ones in the lower.
    Exit,
    /// Precedes `Exit`. The task was runnable without a CPU for `a` ns. `b` counts its waits in the
    /// upper 32 bits and its migrations in the lower.
    Waited,
    /// The task executes the program that its operation `a` names.
    Exec,
    /// Counters like `Exit`, taken when the workload started. They are subtracted because the
    /// kernel counts from the thread's creation.
    Before,
    BeforeWaited,
}

/// A task, identified by its index in the workload and its thread id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskId {
    pub task: u32,
    pub tid: u32,
}

#[repr(C)]
pub struct Entry {
    kind: AtomicU32,
    /// Index into the workload's tasks.
    pub task: u32,
    pub tid: u32,
    /// Time since the start, ns.
    pub time: u64,
    pub a: u64,
    pub b: u64,
}

#[repr(C)]
struct Head {
    /// Start time, ns of CLOCK_MONOTONIC.
    begun: AtomicU64,
    /// Number of tasks that wait at the gate.
    ready: AtomicU32,
    /// Futex: 1 if the gate is open.
    gate: AtomicU32,
    entries: AtomicU64,
    wakeups: AtomicU64,
    /// Number of tasks created so far.
    births: AtomicU64,
    /// Number of operations that did not fit into the log.
    lost: AtomicU64,
    refusals: Refusals,
}

/// Pointers into the shared memory. Forked processes share it.
pub struct Shared {
    /// Descriptor of the memory, which a program uses after exec.
    pub fd: i32,
    head: *mut Head,
    pub objects: Objects,
    entries: *mut Entry,
    wakeups: *mut AtomicU64,
}

// SAFETY: the memory behind the pointers holds only atomics and pthread objects, and stays mapped
// until the process ends.
unsafe impl Send for Shared {}
unsafe impl std::marker::Sync for Shared {}

/// Returns ns of CLOCK_MONOTONIC.
pub fn clock() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// Returns ns of the clock `id`.
pub fn read_clock(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing.
    unsafe { libc::clock_gettime(id, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub fn gettid() -> u32 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::gettid() as u32 }
}

impl Shared {
    /// Creates the memory and the workload's locks and channels in it.
    ///
    /// # Errors
    /// If the kernel refuses a resource that the workload needs.
    pub fn new(workload: &Workload) -> Result<Shared, Error> {
        super::channel::allow_files(workload);
        // SAFETY: the name is NUL-terminated.
        let fd = unsafe { libc::memfd_create(c"windtunnel".as_ptr(), 0) };
        let shared = Shared::attach(fd, workload)?;
        shared.objects.init(workload).map_err(Error::new)?;
        Ok(shared)
    }

    /// Maps the memory behind a descriptor.
    ///
    /// # Errors
    /// If the memory cannot be mapped.
    pub fn attach(fd: i32, workload: &Workload) -> Result<Shared, Error> {
        let objects = size_of::<Head>().next_multiple_of(64);
        let entries = (objects + workload.resources.len() * size_of::<Object>()).next_multiple_of(4096);
        let wakeups = entries + ENTRIES * size_of::<Entry>();
        let length = wakeups + WAKEUPS * size_of::<AtomicU64>();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: creates a new mapping of a file that ftruncate makes long enough. New bytes read
        // as zero.
        let memory = unsafe {
            if libc::ftruncate(fd, length as i64) != 0 {
                return Err(Error::new(format!(
                    "shared memory cannot be created: {}",
                    io::Error::last_os_error()
                )));
            }
            libc::mmap(std::ptr::null_mut(), length, access, flags, fd, 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(Error::new(format!(
                "shared memory cannot be created: {}",
                io::Error::last_os_error()
            )));
        }
        let memory: *mut u8 = memory.cast();
        // SAFETY: the offsets are inside the mapping and aligned for their types.
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
        // SAFETY: mapped in `attach`; all fields are atomics.
        unsafe { &*self.head }
    }

    /// Returns ns since the start, or 0 before it.
    pub fn now(&self) -> u64 {
        self.since_start(clock())
    }

    /// Returns the start time, ns of CLOCK_MONOTONIC, or 0 before it.
    pub fn begun(&self) -> u64 {
        self.head().begun.load(Ordering::Acquire)
    }

    /// Converts a time of CLOCK_MONOTONIC to ns since the start; 0 before it.
    pub fn since_start(&self, time: u64) -> u64 {
        match self.begun() {
            0 => 0,
            begun => time.saturating_sub(begun),
        }
    }

    /// Waits until all tasks are ready and the gate is opened. Returns the start time.
    pub fn wait_at_gate(&self) -> u64 {
        let head = self.head();
        head.ready.fetch_add(1, Ordering::AcqRel);
        let gate = &raw const head.gate;
        while head.gate.load(Ordering::Acquire) == 0 {
            // SAFETY: the futex is in memory that stays mapped.
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

    /// Waits until `tasks` tasks are ready or `alive` returns false, then starts the workload.
    pub fn open_gate(&self, tasks: u32, mut alive: impl FnMut() -> bool) {
        let head = self.head();
        while head.ready.load(Ordering::Acquire) < tasks && alive() {
            thread::sleep(Duration::from_millis(1));
        }
        head.begun.store(clock(), Ordering::Release);
        head.gate.store(1, Ordering::Release);
        // SAFETY: the futex is in memory that stays mapped.
        unsafe { libc::syscall(libc::SYS_futex, &raw const head.gate, libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Counts a task as ready although it could not be started, so that the gate opens.
    pub fn missing_at_gate(&self) {
        self.head().ready.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a new task and returns how many were created before.
    pub fn birth(&self) -> u64 {
        self.head().births.fetch_add(1, Ordering::Relaxed)
    }

    pub fn log(&self, kind: Kind, id: TaskId, a: u64, b: u64) {
        let index = self.head().entries.fetch_add(1, Ordering::Relaxed) as usize;
        if index >= ENTRIES {
            if kind == Kind::Done {
                self.head().lost.fetch_add(a, Ordering::Relaxed);
            }
            return;
        }
        // SAFETY: no other thread has this index, and readers wait until `kind` is stored.
        unsafe {
            let entry = self.entries.add(index);
            (*entry).task = id.task;
            (*entry).tid = id.tid;
            (*entry).time = self.now();
            (*entry).a = a;
            (*entry).b = b;
            (*entry).kind.store(kind as u32, Ordering::Release);
        }
    }

    /// Logs a task's exit with its total counters.
    pub fn log_exit(&self, id: TaskId, counts: &TaskCounters) {
        self.log_counts(id, counts, Kind::Waited, Kind::Exit);
    }

    /// Logs the counters that a task has before the workload starts.
    pub fn log_before(&self, id: TaskId, counts: &TaskCounters) {
        self.log_counts(id, counts, Kind::BeforeWaited, Kind::Before);
    }

    fn log_counts(&self, id: TaskId, counts: &TaskCounters, waited: Kind, used: Kind) {
        if counts.waits > 0 {
            self.log(waited, id, counts.wait_ns, counts.waits << 32 | counts.migrations);
        }
        self.log(used, id, counts.cpu_ns, counts.involuntary << 32 | counts.voluntary);
    }

    /// Records that a task runs again `latency_ns` after it was woken.
    pub fn woken(&self, id: TaskId, latency_ns: u64) {
        let index = self.head().wakeups.fetch_add(1, Ordering::Relaxed) as usize;
        let sample = u64::from(id.tid) << LATENCY_BITS | latency_ns.min((1 << LATENCY_BITS) - 1);
        // SAFETY: the index is inside the mapping. When the buffer wraps around, a sample is
        // overwritten as a whole.
        unsafe { (*self.wakeups.add(index % WAKEUPS)).store(sample, Ordering::Relaxed) };
    }

    pub fn refused(&self, request: Request) {
        self.head().refusals.add(request);
    }

    /// Returns one line for each kind of refusal and for lost operations.
    pub fn complaints(&self) -> Vec<String> {
        let mut lines = self.head().refusals.messages();
        let lost = self.head().lost.load(Ordering::Relaxed);
        if lost > 0 {
            lines.push(format!(
                "the log was full, so {lost} operations are missing in the throughput; run for a shorter time (--for)"
            ));
        }
        lines
    }

    /// Returns the log entries from an index on, without entries that a killed process left
    /// incomplete.
    pub fn entries(&self, from: usize) -> impl Iterator<Item = (Kind, &Entry)> {
        (from..self.logged()).filter_map(|index| {
            // SAFETY: the index is below the mapping's end.
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

    /// Returns the number of entries that were begun.
    pub fn logged(&self) -> usize {
        (self.head().entries.load(Ordering::Acquire) as usize).min(ENTRIES)
    }

    /// Returns the wake-up latencies in ns, each with the woken task's thread id.
    pub fn wakeups(&self) -> impl Iterator<Item = (u32, u64)> {
        let count = (self.head().wakeups.load(Ordering::Acquire) as usize).min(WAKEUPS);
        (0..count).map(|index| {
            // SAFETY: the index is below the mapping's end.
            let sample = unsafe { (*self.wakeups.add(index)).load(Ordering::Relaxed) };
            ((sample >> LATENCY_BITS) as u32, sample & ((1 << LATENCY_BITS) - 1))
        })
    }
}
