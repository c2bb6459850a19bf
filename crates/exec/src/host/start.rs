// SPDX-License-Identifier: GPL-2.0-only
//! Starts the program, stopped before its first instruction.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::error::HostError;
use super::memory::Memory;
use super::trace::wait_for;
use super::{HOST_FILES, MEMORY};

/// Number of the file in the program that holds the shared memory. The program cannot use it.
pub(crate) const SHARED_FD: i32 = 1000;
/// Size of the file with the shared memory. Only the pages that are used take memory.
const SHARED_BYTES: libc::off_t = 256 << 30;

/// Entries of the auxiliary vector (include/uapi/linux/auxvec.h).
const AT_NULL: u64 = 0;
const AT_IGNORE: u64 = 1;
const AT_UID: u64 = 11;
const AT_EGID: u64 = 14;
const AT_SECURE: u64 = 23;
const AT_RANDOM: u64 = 25;
const AT_SYSINFO_EHDR: u64 = 33;

/// A program that was started and has executed nothing yet.
pub(crate) struct Started {
    /// Process id on the host, which is also the thread id of the first thread.
    pub pid: i32,
    pub memory: Memory,
    /// The file without a name with the memory that the program and the simulator share.
    pub shared: OwnedFd,
}

/// Starts `program` with these arguments.
///
/// # Errors
/// The file cannot be executed, or the host does not allow tracing.
pub(crate) fn start(program: &Path, arguments: &[String], seed: u64) -> Result<Started, HostError> {
    let shared = shared_file()?;
    let fd = shared.as_raw_fd();
    let mut command = Command::new(program);
    command.args(&arguments[1..]).arg0(&arguments[0]).env_clear();
    for (name, value) in [
        ("PATH", "/usr/bin:/bin"),
        ("HOME", "/"),
        ("LANG", "C"),
        ("USER", "root"),
    ] {
        command.env(name, value);
    }
    // Keys such as Ctrl-C send signals to the process group of the command, and not to the program.
    command.process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: the function only makes system calls, which is allowed between fork and exec.
    unsafe { command.pre_exec(move || prepare(fd)) };
    let child = command.spawn();
    let child = child.map_err(|error| HostError::NotExecuted {
        program: program.into(),
        error,
    })?;
    let pid = child.id().cast_signed();
    let status = wait_for(pid)?;
    if !libc::WIFSTOPPED(status) {
        return Err(HostError::EndedAtOnce(program.into()));
    }
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
    // SAFETY: the process is stopped and traced by this thread.
    let set = unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options) };
    if set != 0 {
        return Err(HostError::NoTracing(std::io::Error::last_os_error()));
    }
    let memory = Memory::new(pid);
    let started = Started { pid, memory, shared };
    adjust_vector(&started, seed)?;
    Ok(started)
}

fn shared_file() -> Result<OwnedFd, HostError> {
    let failed = |call| HostError::SharedMemory {
        call,
        error: std::io::Error::last_os_error(),
    };
    // SAFETY: the name is a C string, and the descriptor that the call returns has no other owner.
    let fd = unsafe { libc::memfd_create(c"windtunnel".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(failed("memfd_create"));
    }
    // SAFETY: the descriptor was created just now.
    let shared = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the descriptor is open.
    match unsafe { libc::ftruncate(fd, SHARED_BYTES) } {
        0 => Ok(shared),
        _ => Err(failed("ftruncate")),
    }
}

/// Prepares the new process for the program: tracing, fixed addresses, no time-stamp counter, limits.
fn prepare(shared: i32) -> std::io::Result<()> {
    let check = |result: i32| match result {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    };
    let limit = |which, value: u64| {
        let limit = libc::rlimit {
            rlim_cur: value,
            rlim_max: value,
        };
        // SAFETY: the struct is valid during the call.
        check(unsafe { libc::setrlimit(which, &raw const limit) })
    };
    // SAFETY: these calls take numbers only.
    unsafe {
        check(libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong))?;
        check(libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV))?;
        check(libc::prctl(libc::PR_SET_DUMPABLE, 1))?;
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        check(libc::dup2(shared, SHARED_FD))?;
        check(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) as i32)?;
    }
    limit(libc::RLIMIT_NOFILE, HOST_FILES)?;
    limit(libc::RLIMIT_DATA, MEMORY)?;
    limit(libc::RLIMIT_STACK, 8 << 20)?;
    limit(libc::RLIMIT_FSIZE, 0)?;
    limit(libc::RLIMIT_CORE, 0)
}

/// Changes the auxiliary vector that the kernel has written on the stack. Without the address of the
/// vDSO, the program reads clocks by system calls. The random bytes depend on the seed only.
fn adjust_vector(started: &Started, seed: u64) -> Result<(), HostError> {
    let registers = super::trace::registers(started.pid)?;
    let memory = &started.memory;
    let word = |addr: u64| memory.read_u64(addr).ok_or(HostError::Stack("read"));
    let mut at = registers.rsp;
    let arguments = word(at)?;
    at += 8 * (arguments + 2);
    while word(at)? != 0 {
        at += 8;
    }
    at += 8;
    loop {
        let (kind, value) = (word(at)?, at + 8);
        let written = match kind {
            AT_NULL => return Ok(()),
            AT_SYSINFO_EHDR => memory.write(at, &AT_IGNORE.to_le_bytes()),
            AT_UID..=AT_EGID | AT_SECURE => memory.write(value, &0u64.to_le_bytes()),
            AT_RANDOM => {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&(seed ^ 0x9e37_79b9_7f4a_7c15).to_le_bytes());
                bytes[8..].copy_from_slice(&seed.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
                memory.write(word(value)?, &bytes)
            }
            _ => true,
        };
        if !written {
            return Err(HostError::Stack("written"));
        }
        at += 16;
    }
}
