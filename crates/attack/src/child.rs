// SPDX-License-Identifier: GPL-2.0-only
//! The process that runs inputs: limited in CPU time and memory, it reports one line for each input on stdout.

use crate::kind::Kind;
use std::io::Write;
use std::ops::Range;

/// Bytes of writable memory that a child may map. A machine reserves 16 GiB of it for cache lines and uses a
/// small part.
pub const MAX_DATA: u64 = 20 << 30;
/// Exit status of a child that used more than [`Limits::resident`](crate::kind::Limits).
pub const EXIT_MEMORY: i32 = 120;

/// Runs a range of inputs. Each line is the input's number, a tab and how it ended.
pub fn run(kind: Kind, seed: u64, range: Range<u64>) {
    let limits = kind.limits();
    limit_memory();
    let stdout = std::io::stdout();
    for index in range {
        let input = kind.make(seed, index);
        arm_timer(limits.cpu_seconds);
        let end = kind.run(&input);
        let end = end.replace(char::is_control, " ");
        let mut out = stdout.lock();
        // If this fails, the parent is gone and there is no reader for a report.
        let _ = writeln!(out, "{index}\t{end}").and_then(|()| out.flush());
        if resident() > limits.resident {
            std::process::exit(EXIT_MEMORY);
        }
    }
}

/// Runs one input from a file, under the same limits.
pub fn repeat(kind: Kind, input: &[u8]) -> String {
    let limits = kind.limits();
    limit_memory();
    arm_timer(limits.cpu_seconds);
    let end = kind.run(input);
    if resident() > limits.resident {
        eprintln!("{} MiB of memory were used", resident() >> 20);
        std::process::exit(EXIT_MEMORY);
    }
    end
}

/// Writable mappings are limited, reservations are not: each machine reserves 64 GiB of addresses.
fn limit_memory() {
    let limit = libc::rlimit {
        rlim_cur: MAX_DATA,
        rlim_max: MAX_DATA,
    };
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structs live for the calls.
    unsafe {
        libc::setrlimit(libc::RLIMIT_DATA, &limit);
        libc::setrlimit(libc::RLIMIT_CORE, &none);
    }
}

/// SIGPROF ends the process after so much CPU time from now on.
fn arm_timer(cpu_seconds: u64) {
    let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let timer = libc::itimerval {
        it_interval: never,
        it_value: libc::timeval {
            tv_sec: cpu_seconds as libc::time_t,
            tv_usec: 0,
        },
    };
    // SAFETY: the struct lives for the call.
    unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut()) };
}

/// Returns the most memory that this process has used so far, in bytes.
fn resident() -> u64 {
    // SAFETY: all zeros is a value of this struct, which lives for the call.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage.ru_maxrss as u64 * 1024
    }
}
