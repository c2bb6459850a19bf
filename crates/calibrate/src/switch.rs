// SPDX-License-Identifier: GPL-2.0-only
//! Measures the costs of instructions, system calls, context switches, wake-ups, fork, threads and
//! exec.

use super::host::{self, Cpu, Pairs, failed, least, pin};
use super::{Constant, by_distance, ns, ps, shares};
use input::error::Error;
use machine::Costs;
use std::hint::black_box;

const BATCHES: u32 = 20;

/// Number of BPF instructions for which one round of the measured loop counts. The loop is native
/// code that searches an array, as many policies do.
const ROUND: u64 = 8;

pub(super) fn measure_instructions(pairs: &Pairs) -> Result<Vec<Constant>, Error> {
    pin(pairs.first)?;
    let entries: Vec<u64> = (0..4096_u64)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20)
        .collect();
    let mut sink = 0;
    let insn = least(BATCHES, || {
        let mut best = 0;
        for i in 0..100_000_usize {
            // The next index depends on the entry found, so that the CPU cannot execute two rounds
            // at the same time.
            let entry = black_box(entries[(i + input::to_usize(best)) & 4095]);
            if entry & 3 != 0 {
                best = (best ^ entry).wrapping_add(1);
            } else {
                best >>= 1;
            }
        }
        sink ^= best;
        100_000 * ROUND
    });
    black_box(sink);
    let syscall = least(BATCHES, || {
        for _ in 0..10_000 {
            // SAFETY: getppid has no arguments and changes nothing.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
        10_000
    });
    Ok(vec![
        ps(
            "bpf_insn",
            insn,
            "measured: a loop that searches an array, counted as 8 BPF instructions per round",
        ),
        ns("syscall", syscall, "measured: getppid"),
    ])
}

/// The file descriptors of a pipe, closed on drop.
struct Pipe {
    read: i32,
    write: i32,
}

impl Pipe {
    fn new() -> Result<Pipe, Error> {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for two descriptors.
        if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
            return Err(failed("pipe"));
        }
        Ok(Pipe {
            read: ends[0],
            write: ends[1],
        })
    }

    /// Writes one byte. Returns false if that fails.
    fn put(&self) -> bool {
        // SAFETY: the buffer has one byte.
        unsafe { libc::write(self.write, [0_u8].as_ptr().cast(), 1) == 1 }
    }

    /// Reads one byte. Returns false at the end of file.
    fn take(&self) -> bool {
        let mut byte = [0_u8];
        // SAFETY: `byte` has room for one byte.
        unsafe { libc::read(self.read, byte.as_mut_ptr().cast(), 1) == 1 }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // SAFETY: this object owns the descriptors, and nothing uses them afterwards.
        unsafe {
            libc::close(self.read);
            libc::close(self.write);
        }
    }
}

/// Returns the time in ns to pass one byte through a pipe to a process on another CPU. Two
/// processes, one on each of the two CPUs, pass the byte back and forth.
fn pass(here: Cpu, there: Cpu) -> Result<f64, Error> {
    let (to, from) = (Pipe::new()?, Pipe::new()?);
    pin(here)?;
    // SAFETY: the child makes only system calls and ends with _exit.
    let child = unsafe { libc::fork() };
    match child {
        -1 => return Err(failed("fork")),
        0 => {
            // SAFETY: the child closes its copy of the pipe's write end, because its reads would
            // otherwise never return end of file. It runs no destructor of the parent's objects.
            unsafe {
                libc::close(to.write);
                let pinned = pin(there).is_ok();
                while pinned && to.take() && from.put() {}
                libc::_exit(0)
            }
        }
        _ => {}
    }
    let rounds = 500;
    let mut alive = true;
    let round = least(BATCHES, || {
        (0..rounds).for_each(|_| alive &= to.put() && from.take());
        2 * rounds
    });
    // The child exits when the pipe is closed.
    drop((to, from));
    reap(child);
    match alive {
        true => Ok(round),
        false => Err(Error::new("the process at the other end of the pipe exited")),
    }
}

fn reap(child: i32) {
    // SAFETY: `child` is a child of this process, and a null status pointer is allowed.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
}

/// Returns the CPU time of the calling thread, in ns.
fn cpu_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct is valid during the call. This clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// A page that this process shares with its children.
struct SharedWord(*mut u64);

impl SharedWord {
    fn new() -> Result<SharedWord, Error> {
        let (size, protection) = (size_of::<u64>(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping at an address that the kernel chooses replaces no other one.
        let page = unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0)
        };
        match page {
            libc::MAP_FAILED => Err(failed("mmap")),
            page => Ok(SharedWord(page.cast())),
        }
    }

    fn set(&self, value: u64) {
        // SAFETY: the page is mapped as long as this value exists. Only one process accesses it at a
        // time, because the parent waits for its child.
        unsafe { self.0.write_volatile(value) };
    }

    fn get(&self) -> u64 {
        // SAFETY: as above.
        unsafe { self.0.read_volatile() }
    }
}

impl Drop for SharedWord {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and nothing uses it after the drop.
        unsafe { libc::munmap(self.0.cast(), size_of::<u64>()) };
    }
}

/// Returns the CPU time in ns that a new process has used when it begins to execute its own code. Its
/// first store to its stack is included, which copies a page.
fn fork_start() -> Result<f64, Error> {
    let least = SharedWord::new()?;
    least.set(u64::MAX);
    child(|| {
        let time = cpu_time();
        least.set(least.get().min(time));
    })?;
    Ok(least.get() as f64)
}

/// Forks a child that runs `body` and exits. Returns the time until fork returns and the time until
/// the child has been reaped, in ns.
fn child(body: impl Fn()) -> Result<(f64, f64), Error> {
    let mut forked = f64::INFINITY;
    let mut failure = None;
    let all = least(BATCHES * 2, || {
        let mut pid = 0;
        let fork = least(1, || {
            // SAFETY: the child makes only system calls.
            pid = unsafe { libc::fork() };
            if pid == 0 {
                body();
                // SAFETY: _exit ends the child without running its destructors.
                unsafe { libc::_exit(0) };
            }
            1
        });
        forked = forked.min(fork);
        if pid < 0 {
            failure.get_or_insert(failed("fork"));
        } else {
            reap(pid);
        }
        1
    });
    failure.map_or(Ok((forked, all)), Err)
}

/// Number of threads that exist at the same time when their creation is measured.
const THREADS: u32 = 16;
/// Size of the stacks of these threads, in bytes. The C library keeps smaller stacks for the next
/// thread, whose creation then takes much less time.
const THREAD_STACK: usize = 64 << 20;

/// Times of a thread that does nothing, in ns.
struct ThreadTimes {
    create: f64,
    /// Its CPU time when it calls its function. This is the median of the first threads, because the C
    /// library prepares memory (arenas) for them that later threads use again.
    start: f64,
    /// From the call of its function until it has exited and been joined, which includes a context
    /// switch.
    end: f64,
}

/// Creates threads that do nothing.
fn thread() -> Result<ThreadTimes, Error> {
    let (mut create, mut end, mut start) = (f64::INFINITY, f64::INFINITY, None);
    for _ in 0..BATCHES / 2 {
        let mut threads = Vec::new();
        let created = least(1, || {
            let new = || std::thread::Builder::new().stack_size(THREAD_STACK).spawn(cpu_time);
            threads.extend((0..THREADS).map(|_| new()));
            u64::from(THREADS)
        });
        let mut starts = Vec::with_capacity(threads.len());
        let ended = least(1, || {
            starts.extend(threads.drain(..).map(|thread| thread.ok()?.join().ok()));
            u64::from(THREADS)
        });
        let starts: Option<Vec<u64>> = starts.into_iter().collect();
        let mut starts = starts.ok_or_else(|| failed("pthread_create"))?;
        starts.sort_unstable();
        let median = starts[starts.len() / 2] as f64;
        start.get_or_insert(median);
        (create, end) = (create.min(created), end.min(ended - median));
    }
    Ok(ThreadTimes {
        create,
        start: start.unwrap_or_default(),
        end,
    })
}

/// Measures context switches, wake-ups, fork and exec. `pipe_ns` is the time to write a byte to a
/// pipe and to read it, in ns.
pub(super) fn measure_switches(pairs: &Pairs, pipe_ns: f64) -> Result<Vec<Constant>, Error> {
    host::pin(pairs.first)?;
    let times = pairs.map(pass)?;
    let same = times[0].expect("the first CPU is its own partner at distance 0");
    let switch = (same - pipe_ns).max(0.0);
    let (wakeup, schedule, context_switch) = shares();
    let part = "measured: a byte passed between two processes on one CPU, minus the cost of the pipe, divided as in \
                the default table";

    let send = f64::from(Costs::default().ipi_send_ns);
    let beyond = times.map(|time| time.map(|time| (time - pipe_ns - switch - send).max(0.0)));
    let nearest = beyond[1..].iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let idle_exit = nearest / 2.0;
    let mut latency = beyond.map(|time| time.map(|time| (time - idle_exit).max(0.0)));
    latency[0] = Some(0.0);

    let (fork, whole) = child(|| ())?;
    // The clock of a task's CPU time begins when the scheduler picks the task, before the context
    // switch.
    let picked = switch * context_switch;
    let fork_start = (fork_start()? - picked).max(0.0);
    let thread = thread()?;
    let program = c"/bin/true";
    let (_, with_exec) = child(|| {
        let arguments = [program.as_ptr(), std::ptr::null()];
        // SAFETY: a null pointer ends the list, and a 0 ends each string.
        unsafe { libc::execv(program.as_ptr(), arguments.as_ptr()) };
    })?;
    let mut constants = vec![
        ns("context_switch", switch * context_switch, part),
        ns("schedule", switch * schedule, part),
        ns("wakeup", switch * wakeup, part),
        ns("fork", fork, "measured: fork of this process"),
        ns(
            "thread",
            thread.create,
            "measured: pthread_create of 16 threads with new stacks",
        ),
        ns(
            "fork_start",
            fork_start,
            "measured: CPU time of a forked process when it begins to execute its own code, minus context_switch",
        ),
        ns(
            "thread_start",
            (thread.start - picked).max(0.0),
            "measured: CPU time of a thread when it calls its function, median of 16 threads, minus context_switch",
        ),
        ns(
            "exit",
            (whole - fork - fork_start).max(0.0),
            "measured: fork, exit and wait, minus fork and fork_start",
        ),
        ns(
            "thread_exit",
            (thread.end - switch * schedule).max(0.0),
            "measured: start, exit and pthread_join of a thread, minus its CPU time until it calls its function, and \
             schedule",
        ),
        ns(
            "exec",
            with_exec - whole,
            "measured: fork, exec of /bin/true, exit and wait, minus the same without exec",
        ),
    ];
    if nearest.is_finite() {
        let source = "measured: half of the extra time of passing a byte between idle CPUs, for the nearest pair";
        constants.push(ns("idle_exit", idle_exit, source));
        let source = "measured: the extra time of passing a byte between idle CPUs, minus idle_exit";
        constants.push(by_distance("ipi_latency", latency, source));
    }
    Ok(constants)
}
