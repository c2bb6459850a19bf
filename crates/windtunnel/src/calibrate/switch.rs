// SPDX-License-Identifier: GPL-2.0-only
//! What computing, system calls, switches and wake-ups take.

use super::host::{self, Cpu, Pairs, failed, least, pin};
use super::{Constant, by_distance, ns, ps, shares};
use crate::error::Error;
use machine::Costs;
use std::hint::black_box;

const BATCHES: u32 = 20;

/// A loop as policies have them: entries looked through, compared, counted. Instructions of BPF it takes a round.
const ROUND: u64 = 8;

pub(super) fn instructions(pairs: &Pairs) -> Result<Vec<Constant>, Error> {
    pin(pairs.first)?;
    let entries: Vec<u64> = (0..4096_u64)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20)
        .collect();
    let mut sink = 0;
    let insn = least(BATCHES, || {
        let mut best = 0;
        for i in 0..100_000_usize {
            // The next place depends on what was found, so that rounds do not overlap at will.
            let entry = black_box(entries[(i + best as usize) & 4095]);
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
    // SAFETY: no arguments, no effect.
    let syscall = least(BATCHES, || {
        (0..10_000).for_each(|_| unsafe {
            libc::syscall(libc::SYS_getppid);
        });
        10_000
    });
    Ok(vec![
        ps(
            "bpf_insn",
            insn,
            "measured: a loop over entries, 8 instructions of BPF a round",
        ),
        ns("syscall", syscall, "measured: getppid"),
    ])
}

/// A pipe's two ends, closed when it goes.
struct Pipe {
    read: i32,
    write: i32,
}

impl Pipe {
    fn new() -> Result<Pipe, Error> {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
            return Err(failed("pipe"));
        }
        Ok(Pipe {
            read: ends[0],
            write: ends[1],
        })
    }

    /// Writes a byte, or reads one; false at the end.
    fn put(&self) -> bool {
        // SAFETY: one byte of ours.
        unsafe { libc::write(self.write, [0_u8].as_ptr().cast(), 1) == 1 }
    }

    fn take(&self) -> bool {
        let mut byte = [0_u8];
        // SAFETY: room for one byte.
        unsafe { libc::read(self.read, byte.as_mut_ptr().cast(), 1) == 1 }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // SAFETY: our descriptors, used no more.
        unsafe {
            libc::close(self.read);
            libc::close(self.write);
        }
    }
}

/// One way of a byte that two processes, on these CPUs, pass to and fro through pipes, ns.
fn pass(here: Cpu, there: Cpu) -> Result<f64, Error> {
    let (to, from) = (Pipe::new()?, Pipe::new()?);
    pin(here)?;
    // SAFETY: the child makes system calls only, and ends by _exit.
    let child = unsafe { libc::fork() };
    match child {
        -1 => return Err(failed("fork")),
        0 => {
            // SAFETY: closes the end that would keep its own reads waiting for ever; nothing of ours is dropped.
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
    // Closing the pipe ends the child.
    drop((to, from));
    reap(child);
    match alive {
        true => Ok(round),
        false => Err(Error::new("the process at the other end of a pipe has died")),
    }
}

fn reap(child: i32) {
    // SAFETY: a child of ours; its status is not asked for.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
}

/// A child that does `body` and exits: until fork has returned, and until it is reaped, ns.
fn child(body: impl Fn()) -> Result<(f64, f64), Error> {
    let mut forked = f64::INFINITY;
    let mut failure = None;
    let all = least(BATCHES * 2, || {
        let mut pid = 0;
        let fork = least(1, || {
            // SAFETY: the child makes system calls only.
            pid = unsafe { libc::fork() };
            if pid == 0 {
                body();
                // SAFETY: ends the child without running anything of ours.
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

pub(super) fn switches(pairs: &Pairs) -> Result<Vec<Constant>, Error> {
    host::pin(pairs.first)?;
    let pipe = Pipe::new()?;
    let message = least(BATCHES, || {
        (0..2_000).for_each(|_| {
            pipe.put();
            pipe.take();
        });
        4_000
    });
    let ways = pairs.map(pass)?;
    let same = ways[0].expect("a CPU is as far from itself as itself");
    let switch = (same - 2.0 * message).max(0.0);
    let (wakeup, schedule, context_switch) = shares();
    let part = "measured: a byte passed between two processes on one CPU, without the pipe's part, divided as in the default table";

    let send = f64::from(Costs::default().ipi_send_ns);
    let beyond = ways.map(|way| way.map(|way| (way - 2.0 * message - switch - send).max(0.0)));
    let nearest = beyond[1..].iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let idle_exit = nearest / 2.0;
    let mut latency = beyond.map(|way| way.map(|way| (way - idle_exit).max(0.0)));
    latency[0] = Some(0.0);

    let (fork, whole) = child(|| ())?;
    let program = c"/bin/true";
    let (_, with_exec) = child(|| {
        let arguments = [program.as_ptr(), std::ptr::null()];
        // SAFETY: a terminated list of terminated strings.
        unsafe { libc::execv(program.as_ptr(), arguments.as_ptr()) };
    })?;
    let mut constants = vec![
        ns("context_switch", switch * context_switch, part),
        ns("schedule", switch * schedule, part),
        ns("wakeup", switch * wakeup, part),
        ns(
            "message",
            message,
            "measured: a byte written to a pipe and read, half of it",
        ),
        ns("fork", fork, "measured: fork of this process"),
        ns("exit", whole - fork, "measured: fork, exit and wait, without fork"),
        ns(
            "exec",
            with_exec - whole,
            "measured: with /bin/true, without fork and exit",
        ),
    ];
    if nearest.is_finite() {
        let source =
            "measured: a byte passed between CPUs that idle meanwhile, beyond the same on one CPU; half of the nearest";
        constants.push(ns("idle_exit", idle_exit, source));
        let source = "measured: the rest of that";
        constants.push(by_distance("ipi_latency", latency, source));
    }
    Ok(constants)
}
