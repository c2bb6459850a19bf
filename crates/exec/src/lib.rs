// SPDX-License-Identifier: GPL-2.0-only
//! Runs the user-space program of a scheduler, unmodified, on the simulated machine.
//!
//! The program is a child process that is stopped at each of its system calls (ptrace). Every call
//! is answered here, from the state of the simulated machine; only calls about the program's own
//! memory, and the opening of libraries, are executed by the host. Each thread of the program is a
//! task of the machine ([`kernel::native`]). The machine decides when a thread runs, and one thread
//! runs on the host at a time, so the result of a run depends on nothing but its inputs.
//!
//! | module | content |
//! |---|---|
//! | `host` | the process on the host: ptrace, registers, memory |
//! | `program` | the threads of the program, and the time that they take |
//! | `answer` | answers each system call, or passes it to the subject that it belongs to |
//! | `threads` | calls that create, name, place and end threads |
//! | `wait` | calls that wait: sleeps, futexes, epoll, poll |
//! | `files` | file descriptors, /sys and /proc, pipes, timers |
//! | `io` | calls that use files |
//! | `memory` | calls about memory, and the memory that the program shares with BPF programs |
//! | `bpf` | the system call bpf(2): maps, programs, links |
//! | `record` | records the settings of the program as a profile |
//! | `report`, `settings` | the result and the description of a run |
//! | `unsupported` | in place of the others on hosts other than x86-64, whose system calls and registers these modules know |

mod report;
mod settings;

#[cfg(target_arch = "x86_64")]
mod answer;
#[cfg(target_arch = "x86_64")]
mod bpf;
#[cfg(target_arch = "x86_64")]
mod files;
#[cfg(target_arch = "x86_64")]
mod host;
#[cfg(target_arch = "x86_64")]
mod io;
#[cfg(target_arch = "x86_64")]
mod memory;
#[cfg(target_arch = "x86_64")]
mod program;
#[cfg(target_arch = "x86_64")]
mod record;
#[cfg(target_arch = "x86_64")]
mod threads;
#[cfg(target_arch = "x86_64")]
mod wait;

#[cfg(not(target_arch = "x86_64"))]
mod unsupported;

#[cfg(target_arch = "x86_64")]
pub use {files::paths::files, program::start};

#[cfg(not(target_arch = "x86_64"))]
pub use unsupported::{files, start};

pub use report::{RecordedProfile, Report};
pub use settings::Settings;
