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

mod answer;
mod bpf;
mod files;
mod host;
mod io;
mod memory;
mod program;
mod record;
mod report;
mod threads;
mod wait;

pub use program::{Settings, start};

/// Returns the files of the host that a program may read: its own file, and the files that its
/// command line names.
///
/// # Errors
/// There is no such program.
pub fn files(command: &[String]) -> Result<Vec<std::path::PathBuf>, String> {
    let program = command.first().map(String::as_str).unwrap_or_default();
    let mut files = vec![files::paths::find_program(program)?];
    files.extend(files::paths::named_files(command));
    Ok(files)
}
pub use record::RecordedProfile;
pub use report::Report;
