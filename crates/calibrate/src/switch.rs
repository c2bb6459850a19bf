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

/// Creates threads that do nothing. Returns the time in ns to create one thread, and the time until it
/// has started, exited and been joined, which includes a context switch.
fn thread() -> Result<(f64, f64), Error> {
    let (mut create, mut end) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..BATCHES / 2 {
        let mut threads = Vec::new();
        let created = least(1, || {
            let new = || std::thread::Builder::new().stack_size(THREAD_STACK).spawn(|| ());
            threads.extend((0..THREADS).map(|_| new()));
            u64::from(THREADS)
        });
        let mut complete = true;
        let ended = least(1, || {
            for thread in threads.drain(..) {
                complete &= thread.is_ok_and(|thread| thread.join().is_ok());
            }
            u64::from(THREADS)
        });
        if !complete {
            return Err(failed("pthread_create"));
        }
        (create, end) = (create.min(created), end.min(ended));
    }
    Ok((create, end))
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
    let (thread, thread_end) = thread()?;
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
            thread,
            "measured: pthread_create of 16 threads with new stacks",
        ),
        ns("exit", whole - fork, "measured: fork, exit and wait, minus fork"),
        ns(
            "thread_exit",
            thread_end - switch * (schedule + context_switch),
            "measured: start, exit and pthread_join of a thread, minus schedule and context_switch",
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
