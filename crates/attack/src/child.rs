// SPDX-License-Identifier: GPL-2.0-only
//! The child process of a campaign. It runs inputs with limits on CPU time and memory, and prints
//! one line to standard output for each input.

use crate::kind::InputKind;
use std::io::Write;
use std::ops::Range;

/// Maximum size of writable mappings, in bytes. A simulated machine reserves 16 GiB for its model
/// of cache lines, and uses only a small part of that.
pub const MAX_DATA: u64 = 20 << 30;
/// Exit status of a child that exceeded [`Limits::resident`](crate::kind::Limits).
pub const EXIT_MEMORY: i32 = 120;

/// Runs a range of inputs. For each input, prints its number, a tab, and how the run ended. After
/// an input that has used too much memory, exits with [`EXIT_MEMORY`].
pub fn run(kind: InputKind, seed: u64, range: Range<u64>) {
    let limits = kind.limits();
    limit_memory();
    let stdout = std::io::stdout();
    for index in range {
        let input = kind.make(seed, index);
        arm_timer(limits.cpu_seconds);
        let end = kind.run(&input);
        let end = end.replace(char::is_control, " ");
        let mut out = stdout.lock();
        // Printing fails only if the parent has exited. Nobody reads the line then.
        let _ = writeln!(out, "{index}\t{end}").and_then(|()| out.flush());
        if resident() > limits.resident {
            std::process::exit(EXIT_MEMORY);
        }
    }
}

/// Runs one input with the limits of its kind.
pub fn repeat(kind: InputKind, input: &[u8]) -> String {
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

/// Limits the size of writable mappings. The address space is not limited, because each simulated
/// machine reserves 128 GiB of it for the memory of BPF programs.
fn limit_memory() {
    let limit = libc::rlimit {
        rlim_cur: MAX_DATA,
        rlim_max: MAX_DATA,
    };
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structs live until the calls return.
    unsafe {
        libc::setrlimit(libc::RLIMIT_DATA, &limit);
        libc::setrlimit(libc::RLIMIT_CORE, &none);
    }
}

/// Makes SIGPROF end the process after it has used `cpu_seconds` more seconds of CPU time.
fn arm_timer(cpu_seconds: u64) {
    let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let timer = libc::itimerval {
        it_interval: never,
        it_value: libc::timeval {
            tv_sec: cpu_seconds as libc::time_t,
            tv_usec: 0,
        },
    };
    // SAFETY: the struct lives until the call returns.
    unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut()) };
}

/// Returns the maximum resident size that this process has had, in bytes.
fn resident() -> u64 {
    // SAFETY: all zeros is a valid value of this struct. The struct lives until the call returns.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage.ru_maxrss as u64 * 1024
    }
}
