// SPDX-License-Identifier: GPL-2.0-only
//! The memory that all processes of a workload share. It is kept across exec.
//!
//! It contains the locks and channels for which the tasks wait, the log of their operations, the
//! latencies of their wake-ups, and a gate. Tasks wait at the gate until all of them are ready, so
//! that they start together.

use super::refusal::{Refusals, Request};
use super::sync::{Object, Objects};
use input::error::Error;
use report::TaskCounters;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use workload::Workload;

/// Maximum number of log entries. Memory is allocated only when entries are written. Further
/// operations are counted, but their response times are unknown.
const ENTRIES: usize = 4 << 20;
/// Size of a page of memory in bytes.
const PAGE: usize = 4096;
/// Number of wake-ups whose latency is kept. Later wake-ups replace the oldest.
const WAKEUPS: usize = 8 << 20;
/// Number of low bits of a sample that contain the latency. The higher bits contain the thread id,
/// which is below 2^22 in Linux.
const LATENCY_BITS: u32 = 42;

/// Largest number of entries that a task reserves at once for its finished operations. They fill
/// about ten pages. If tasks took single entries instead, each process would have a page fault on
/// nearly every page of the log.
const RESERVED_MAX: usize = 1020;

/// Entries of the log that a task has reserved for its finished operations.
#[derive(Default)]
pub struct Reserved {
    next: usize,
    end: usize,
    /// Size of the last reservation. Each one is twice as large as the one before, so that tasks
    /// with few operations reserve little.
    size: usize,
    /// Number of operations that can be added to the last entry.
    room: u32,
}

/// Number of operations in one entry, if their times do not matter ([`Shared::count_done`]).
const OPERATIONS: u32 = 64;

/// Kind of a log entry. The comments describe the entry's values `a` and `b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// `a` operations were finished with response time `b` ns.
    Done = 1,
    /// Phase `a` began.
    Phase,
    /// The task began to run. `a` is the time of its creation, in ns after the start of the
    /// workload. `b` is the id of its process.
    New,
    /// The task exited and had used `a` ns of CPU time. `b` contains two counters: involuntary
    /// context switches in the upper 32 bits, voluntary ones in the lower.
    Exit,
    /// Precedes `Exit`. The task waited for a CPU for `a` ns in total. `b` contains two counters:
    /// these waits in the upper 32 bits, migrations in the lower.
    Waited,
    /// The task executes the program that is named by its operation number `a`.
    Exec,
    /// Values of the counters of `Exit` at the start of the workload. The kernel counts from the
    /// creation of the thread, so these values are subtracted from the values at the exit.
    Before,
    BeforeWaited,
    /// The process with the id `tid` was reaped. `a` is the CPU time of the process in ns, including
    /// its exit.
    Reaped,
}

/// A task, identified by its index in the workload and its thread id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskId {
    pub task: u32,
    pub tid: u32,
}

/// A log entry in the shared memory. It is complete once `kind` is set.
#[repr(C)]
struct Slot {
    kind: AtomicU32,
    task: AtomicU32,
    tid: AtomicU32,
    time: AtomicU64,
    a: AtomicU64,
    b: AtomicU64,
}

/// A complete entry of the log.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Index into the workload's tasks.
    pub task: u32,
    pub tid: u32,
    /// Time since the start of the workload, in ns.
    pub time: u64,
    pub a: u64,
    pub b: u64,
}

#[repr(C)]
struct Head {
    /// Time of the start of the workload, in ns of CLOCK_MONOTONIC.
    begun: AtomicU64,
    /// Number of tasks that wait at the gate.
    ready: AtomicU32,
    /// A futex. It is 1 if the gate is open.
    gate: AtomicU32,
    entries: AtomicU64,
    wakeups: AtomicU64,
    /// Number of tasks that have been created.
    births: AtomicU64,
    /// Number of operations that were not logged because the log was full.
    lost: AtomicU64,
    refusals: Refusals,
}

/// Pointers to the shared memory. Forked processes share it.
pub struct Shared {
    /// File descriptor of the memory. After exec, a program maps the memory again with it.
    pub fd: i32,
    head: *mut Head,
    objects: Objects,
    entries: *mut Slot,
    wakeups: *mut AtomicU64,
}

// SAFETY: the memory behind the pointers contains atomics and pthread objects, which other
// processes use at the same time, and the descriptors of channels (`Ends`). `Objects::init` writes
// these descriptors before `new` returns, and nothing changes them afterwards. The memory is mapped
// until the process ends.
unsafe impl Send for Shared {}
// SAFETY: as for `Send`.
unsafe impl std::marker::Sync for Shared {}

/// Returns the time of CLOCK_MONOTONIC in ns.
pub fn clock() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// Returns the time of the clock `id` in ns.
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
    /// Creates the shared memory and, in it, the locks and channels of the workload.
    ///
    /// # Errors
    /// The kernel refuses a resource that the workload needs.
    pub fn new(workload: &Workload) -> Result<Shared, Error> {
        super::channel::allow_files(workload);
        // SAFETY: the name is NUL-terminated.
        let fd = unsafe { libc::memfd_create(c"windtunnel".as_ptr(), 0) };
        // SAFETY: the memory is new, and `init` creates the objects of the workload in it.
        let shared = unsafe { Shared::attach(fd, workload) }?;
        // SAFETY: the new memory is zeroed, and only this thread knows it.
        unsafe { shared.objects.init(workload) }?;
        Ok(shared)
    }

    /// Maps the shared memory to which a file descriptor refers.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    ///
    /// # Safety
    /// `fd` is memory that [`Shared::new`] has created for the same workload. Any other file could
    /// have bytes that are no locks in the place of the locks.
    pub unsafe fn attach(fd: i32, workload: &Workload) -> Result<Shared, Error> {
        let objects = size_of::<Head>().next_multiple_of(64);
        let entries = (objects + workload.resources.len() * size_of::<Object>()).next_multiple_of(4096);
        let wakeups = entries + ENTRIES * size_of::<Slot>();
        let length = wakeups + WAKEUPS * size_of::<AtomicU64>();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: this creates a new mapping of a file, which ftruncate has made long enough. New
        // bytes are 0.
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
        // SAFETY: the offsets are inside the mapping and aligned for their types. The mapping is
        // never removed. It contains the objects of this workload, or `new` creates them.
        unsafe {
            Ok(Shared {
                fd,
                head: memory.cast(),
                objects: Objects::at(memory.add(objects).cast(), workload),
                entries: memory.add(entries).cast(),
                wakeups: memory.add(wakeups).cast(),
            })
        }
    }

    /// Returns the locks and channels for which the tasks wait.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    fn head(&self) -> &Head {
        // SAFETY: `attach` has mapped the memory, and all fields are atomics.
        unsafe { &*self.head }
    }

    /// Returns the time since the start of the workload in ns, or 0 before the start.
    pub fn now(&self) -> u64 {
        self.since_start(clock())
    }

    /// Returns the time of the start of the workload in ns of CLOCK_MONOTONIC, or 0 before the
    /// start.
    pub fn begun(&self) -> u64 {
        self.head().begun.load(Ordering::Acquire)
    }

    /// Converts a time of CLOCK_MONOTONIC to ns since the start of the workload. Before the start,
    /// returns 0.
    pub fn since_start(&self, time: u64) -> u64 {
        match self.begun() {
            0 => 0,
            begun => time.saturating_sub(begun),
        }
    }

    /// Waits at the gate until all tasks are ready and the gate opens. Returns the time of the
    /// start.
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

    /// Waits until `tasks` tasks are at the gate, or until `alive` returns false. Then opens the
    /// gate, which starts the workload.
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

    /// Counts a task that could not be started as ready. Otherwise the gate would never open.
    pub fn missing_at_gate(&self) {
        self.head().ready.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a new task. Returns the number of tasks that were created before it.
    pub fn birth(&self) -> u64 {
        self.head().births.fetch_add(1, Ordering::Relaxed)
    }

    pub fn log(&self, kind: EntryKind, id: TaskId, a: u64, b: u64) {
        let index = self.head().entries.fetch_add(1, Ordering::Relaxed) as usize;
        self.write(index, kind, id, (a, b));
    }

    /// Logs `count` finished operations in an entry that the task has reserved. Reserves more
    /// entries if none is left.
    pub fn log_done(&self, reserved: &mut Reserved, id: TaskId, count: u64, response_ns: u64) {
        reserved.room = 0;
        if reserved.next == reserved.end {
            reserved.size = (reserved.size * 2).clamp(4, RESERVED_MAX);
            let first = self.head().entries.fetch_add(reserved.size as u64, Ordering::Relaxed) as usize;
            (reserved.next, reserved.end) = (first, first + reserved.size);
            self.populate(first, reserved.size);
        }
        let index = reserved.next;
        reserved.next += 1;
        if index >= ENTRIES {
            self.head().lost.fetch_add(count, Ordering::Relaxed);
            return;
        }
        self.write(index, EntryKind::Done, id, (count, response_ns));
    }

    /// Logs `count` finished operations without a response time. Adds them to the task's last entry, if
    /// it has room, and does not read the clock then. Per message, reading the clock and writing an
    /// entry would take a tenth of the time that the kernel needs, and would slow receivers down.
    pub fn count_done(&self, reserved: &mut Reserved, id: TaskId, count: u64) {
        if reserved.room == 0 {
            self.log_done(reserved, id, count, 0);
            reserved.room = OPERATIONS - 1;
            return;
        }
        reserved.room -= 1;
        match reserved.next.checked_sub(1).filter(|&index| index < ENTRIES) {
            // SAFETY: the index is inside the mapping, and all fields are atomics.
            Some(index) => unsafe { (*self.entries.add(index)).a.fetch_add(count, Ordering::Relaxed) },
            None => self.head().lost.fetch_add(count, Ordering::Relaxed),
        };
    }

    /// Maps the pages of reserved entries with one system call. Otherwise, the first write to each
    /// page is a page fault, which delays a task that the writer has just woken.
    fn populate(&self, first: usize, size: usize) {
        if first + size > ENTRIES {
            return;
        }
        // SAFETY: the entries are inside the log.
        let (begin, end) = unsafe { (self.entries.add(first).addr(), self.entries.add(first + size).addr()) };
        let begin = begin / PAGE * PAGE;
        // SAFETY: the pages are in memory that stays mapped. Populating them does not change their
        // contents. Kernels before 5.14 refuse the request, which does no harm.
        unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_POPULATE_WRITE) };
    }

    /// Writes an entry of the log, unless the log is full.
    fn write(&self, index: usize, kind: EntryKind, id: TaskId, (a, b): (u64, u64)) {
        if index >= ENTRIES {
            return;
        }
        // SAFETY: the index is inside the mapping, and all fields are atomics.
        let slot = unsafe { &*self.entries.add(index) };
        slot.task.store(id.task, Ordering::Relaxed);
        slot.tid.store(id.tid, Ordering::Relaxed);
        slot.time.store(self.now(), Ordering::Relaxed);
        slot.a.store(a, Ordering::Relaxed);
        slot.b.store(b, Ordering::Relaxed);
        // Readers ignore the entry until its kind is set.
        slot.kind.store(kind as u32, Ordering::Release);
    }

    /// Logs the exit of a task, with the final values of its counters.
    pub fn log_exit(&self, id: TaskId, counts: &TaskCounters) {
        self.log_counts(id, counts, EntryKind::Waited, EntryKind::Exit);
    }

    /// Logs the values that a task's counters have before the workload starts.
    pub fn log_before(&self, id: TaskId, counts: &TaskCounters) {
        self.log_counts(id, counts, EntryKind::BeforeWaited, EntryKind::Before);
    }

    fn log_counts(&self, id: TaskId, counts: &TaskCounters, waited: EntryKind, used: EntryKind) {
        if counts.waits > 0 {
            self.log(waited, id, counts.wait_ns, counts.waits << 32 | counts.migrations);
        }
        self.log(used, id, counts.cpu_ns, counts.involuntary << 32 | counts.voluntary);
    }

    /// Records a wake-up latency: the task runs again `latency_ns` after it was woken.
    pub fn woken(&self, id: TaskId, latency_ns: u64) {
        let index = self.head().wakeups.fetch_add(1, Ordering::Relaxed) as usize;
        let sample = u64::from(id.tid) << LATENCY_BITS | latency_ns.min((1 << LATENCY_BITS) - 1);
        // SAFETY: the index is inside the mapping. A later wake-up overwrites the sample as a
        // whole.
        unsafe { (*self.wakeups.add(index % WAKEUPS)).store(sample, Ordering::Relaxed) };
    }

    pub fn refused(&self, request: Request) {
        self.head().refusals.add(request);
    }

    /// Returns one line for each kind of refused request, and one for operations that were not
    /// logged.
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

    /// Returns the log entries from the index `from` on. Entries are left out if they are reserved
    /// but not used, or if a process was killed while writing them.
    pub fn entries(&self, from: usize) -> impl Iterator<Item = (EntryKind, Entry)> {
        (from..self.logged()).filter_map(|index| {
            // SAFETY: the index is inside the mapping, and all fields are atomics.
            let slot = unsafe { &*self.entries.add(index) };
            let kind = match slot.kind.load(Ordering::Acquire) {
                1 => EntryKind::Done,
                2 => EntryKind::Phase,
                3 => EntryKind::New,
                4 => EntryKind::Exit,
                5 => EntryKind::Waited,
                6 => EntryKind::Exec,
                7 => EntryKind::Before,
                8 => EntryKind::BeforeWaited,
                9 => EntryKind::Reaped,
                _ => return None,
            };
            let entry = Entry {
                task: slot.task.load(Ordering::Relaxed),
                tid: slot.tid.load(Ordering::Relaxed),
                time: slot.time.load(Ordering::Relaxed),
                a: slot.a.load(Ordering::Relaxed),
                b: slot.b.load(Ordering::Relaxed),
            };
            Some((kind, entry))
        })
    }

    /// Returns the number of log entries, including those that are not completely written.
    pub fn logged(&self) -> usize {
        (self.head().entries.load(Ordering::Acquire) as usize).min(ENTRIES)
    }

    /// Returns wake-up latencies in ns, with the thread id of the woken task.
    pub fn wakeups(&self) -> impl Iterator<Item = (u32, u64)> {
        let count = (self.head().wakeups.load(Ordering::Acquire) as usize).min(WAKEUPS);
        (0..count).map(|index| {
            // SAFETY: the index is inside the mapping.
            let sample = unsafe { (*self.wakeups.add(index)).load(Ordering::Relaxed) };
            ((sample >> LATENCY_BITS) as u32, sample & ((1 << LATENCY_BITS) - 1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_whose_times_do_not_matter_share_entries() {
        let shared = Shared::new(&Workload::default()).expect("the memory can be created");
        let id = TaskId { task: 0, tid: 7 };
        let done = || -> Vec<u64> {
            let entries = shared.entries(0).filter(|(kind, _)| *kind == EntryKind::Done);
            entries.map(|(_, entry)| entry.a).collect()
        };
        let mut reserved = Reserved::default();
        for _ in 0..OPERATIONS + 2 {
            shared.count_done(&mut reserved, id, 1);
        }
        assert_eq!(done(), [u64::from(OPERATIONS), 2]);
        // An operation with a response time has an entry of its own.
        shared.log_done(&mut reserved, id, 1, 99);
        shared.count_done(&mut reserved, id, 1);
        assert_eq!(done(), [u64::from(OPERATIONS), 2, 1, 1]);
    }
}
