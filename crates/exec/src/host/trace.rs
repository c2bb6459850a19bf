// SPDX-License-Identifier: GPL-2.0-only
//! Continues one thread of the program at a time, up to its next system call.
//!
//! With PTRACE_SYSEMU, the host stops a thread at the entry of each system call and does not execute
//! it. A call that the host is to execute is repeated by setting the instruction pointer back.

use super::start::Started;
use super::watchdog::{LIMIT, Watchdog};
use std::os::fd::{AsRawFd, OwnedFd};

pub(crate) use libc::user_regs_struct as Registers;

/// The instruction `syscall`, and its length.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
const SYSCALL_LEN: u64 = 2;

/// A system call that a thread makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub nr: i64,
    pub args: [u64; 6],
}

/// Why a thread has stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It makes a system call.
    Call(Call),
    /// It reads the time-stamp counter (`rdtsc`, or `rdtscp` if `true`).
    Counter(bool),
    /// It cannot continue, for this reason.
    Fault(String),
}

/// The process of the program.
pub(crate) struct Host {
    pub pid: i32,
    pub memory: super::memory::Memory,
    pub shared: OwnedFd,
    watchdog: Watchdog,
}

impl Host {
    pub fn new(started: Started) -> Host {
        let Started { pid, memory, shared } = started;
        Host {
            pid,
            memory,
            shared,
            watchdog: Watchdog::new(pid),
        }
    }

    /// Returns the number of bytes of shared memory in use.
    pub fn shared_bytes(&self) -> u64 {
        // SAFETY: all bytes of the struct may be zero, and the descriptor is open.
        let (stat, result) = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            let result = libc::fstat(self.shared.as_raw_fd(), &raw mut stat);
            (stat, result)
        };
        if result == 0 {
            stat.st_blocks.unsigned_abs() * 512
        } else {
            0
        }
    }

    /// Lets a thread continue until its next system call.
    pub fn resume(&self, tid: i32) -> Stop {
        let mut signal = 0;
        loop {
            let status = match self.go(libc::PTRACE_SYSEMU, tid, signal) {
                Ok(status) => status,
                Err(message) => return Stop::Fault(message),
            };
            let stopped = libc::WSTOPSIG(status);
            if stopped == libc::SIGTRAP | 0x80 {
                return match registers(tid) {
                    Ok(registers) => Stop::Call(call_of(&registers)),
                    Err(message) => Stop::Fault(message),
                };
            }
            match stopped {
                libc::SIGTRAP | libc::SIGSTOP | libc::SIGCONT | libc::SIGCHLD | libc::SIGWINCH => signal = 0,
                libc::SIGSEGV => return self.segmentation_fault(tid),
                other => return Stop::Fault(format!("it received the signal {other}")),
            }
        }
    }

    /// Returns whether the thread faulted because it read the time-stamp counter.
    fn segmentation_fault(&self, tid: i32) -> Stop {
        let Ok(registers) = registers(tid) else {
            return Stop::Fault("its registers cannot be read".into());
        };
        let code = self.memory.read(registers.rip, 3).unwrap_or_default();
        match code.as_slice() {
            [0x0f, 0x31, _] => Stop::Counter(false),
            [0x0f, 0x01, 0xf9] => Stop::Counter(true),
            _ => Stop::Fault(format!("segmentation fault at {:#x}", registers.rip)),
        }
    }

    /// Completes `rdtsc` or `rdtscp` with the value `counter`.
    pub fn set_counter(&self, tid: i32, counter: u64, with_cpu: bool, cpu: u32) -> Result<(), String> {
        let mut registers = registers(tid)?;
        registers.rax = counter & 0xffff_ffff;
        registers.rdx = counter >> 32;
        registers.rip += 2;
        if with_cpu {
            registers.rip += 1;
            registers.rcx = cpu.into();
        }
        set_registers(tid, &registers)
    }

    /// Sets the result of the system call in which a thread is stopped.
    pub fn set_result(&self, tid: i32, result: i64) -> Result<(), String> {
        let mut registers = registers(tid)?;
        registers.rax = result.cast_unsigned();
        registers.orig_rax = u64::MAX;
        set_registers(tid, &registers)
    }

    /// Lets the host execute a system call in a thread that is stopped in a system call. Returns the
    /// result. Afterwards the thread is as before, except for the result.
    pub fn execute(&self, tid: i32, call: Call) -> Result<i64, String> {
        let before = registers(tid)?;
        self.enter(tid, before, call)?;
        // The first step may only leave the call that was not executed.
        let mut now = self.step(tid)?;
        if now.rip == before.rip - SYSCALL_LEN {
            now = self.step(tid)?;
        }
        let result = now.rax.cast_signed();
        let after = Registers {
            rax: result.cast_unsigned(),
            orig_rax: u64::MAX,
            // arch_prctl(2) changes these.
            fs_base: now.fs_base,
            gs_base: now.gs_base,
            ..before
        };
        set_registers(tid, &after)?;
        Ok(result)
    }

    /// Executes one instruction of a thread, or leaves the system call in which it is stopped. Returns
    /// the registers.
    fn step(&self, tid: i32) -> Result<Registers, String> {
        let status = self.go(libc::PTRACE_SINGLESTEP, tid, 0)?;
        match libc::WSTOPSIG(status) {
            libc::SIGTRAP => registers(tid),
            signal => Err(format!("it received the signal {signal}")),
        }
    }

    /// Returns an address below the red zone of a stopped thread's stack, where a text of 4 KiB can
    /// be written.
    pub fn scratch(&self, tid: i32) -> Result<u64, String> {
        Ok((registers(tid)?.rsp - 8192) & !15)
    }

    /// Sets the registers of a thread for the system call `call`.
    fn enter(&self, tid: i32, before: Registers, call: Call) -> Result<(), String> {
        // The instruction `int 0x80` is as long, but numbers calls differently.
        if self
            .memory
            .read(before.rip - SYSCALL_LEN, SYSCALL_LEN as usize)
            .as_deref()
            != Some(&SYSCALL)
        {
            return Err("it makes a system call of 32-bit programs".into());
        }
        let [rdi, rsi, rdx, r10, r8, r9] = call.args;
        let registers = Registers {
            rip: before.rip - SYSCALL_LEN,
            rax: call.nr.cast_unsigned(),
            orig_rax: u64::MAX,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..before
        };
        set_registers(tid, &registers)
    }

    /// Lets the host create the thread that `call` (clone) asks for. Returns its id on the host, or
    /// the error number of the call.
    pub fn clone_thread(&mut self, tid: i32, call: Call) -> Result<Result<i32, i64>, String> {
        let before = registers(tid)?;
        self.enter(tid, before, call)?;
        // Leave the call that was not executed, then enter it again.
        self.step(tid)?;
        self.go(libc::PTRACE_SYSCALL, tid, 0)?;
        let status = self.go(libc::PTRACE_SYSCALL, tid, 0)?;
        let cloned = status >> 8 == libc::SIGTRAP | libc::PTRACE_EVENT_CLONE << 8;
        if !cloned {
            return Ok(Err(registers(tid)?.rax.cast_signed()));
        }
        let mut new: libc::c_ulong = 0;
        // SAFETY: the thread is stopped, and the variable is valid during the call.
        unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut new) };
        let new = new as i32;
        self.go(libc::PTRACE_SYSCALL, tid, 0)?;
        // The new thread begins stopped.
        wait_for(new)?;
        self.watchdog.add(new);
        Ok(Ok(new))
    }

    /// Lets a thread exit on the host.
    pub fn exit_thread(&mut self, tid: i32, call: Call) -> Result<(), String> {
        let before = registers(tid)?;
        self.enter(tid, before, call)?;
        self.watchdog.remove(tid);
        // SAFETY: the thread is stopped and traced by this thread.
        unsafe { libc::ptrace(libc::PTRACE_CONT, tid, 0, 0) };
        wait_for(tid)?;
        Ok(())
    }

    /// Continues a thread and waits until it stops again.
    fn go(&self, request: libc::c_uint, tid: i32, signal: i32) -> Result<i32, String> {
        self.watchdog.continues(tid);
        // SAFETY: the thread is stopped and traced by this thread.
        let done = unsafe { libc::ptrace(request, tid, 0, libc::c_long::from(signal)) };
        let status = if done == 0 {
            wait_for(tid)
        } else {
            Err("it is gone".into())
        };
        if !self.watchdog.stops() {
            return Err(format!("it computed for {} s without a system call", LIMIT.as_secs()));
        }
        let status = status?;
        match libc::WIFSTOPPED(status) {
            true => Ok(status),
            false if libc::WIFSIGNALED(status) => Err(format!("the signal {} ended it", libc::WTERMSIG(status))),
            false => Err("it ended".into()),
        }
    }
}

impl Drop for Host {
    /// Ends the program.
    fn drop(&mut self) {
        // SAFETY: the process is a child that nobody has waited for.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        for &tid in self.watchdog.threads().iter().rev() {
            while let Ok(status) = wait_for(tid)
                && libc::WIFSTOPPED(status)
            {}
        }
    }
}

/// Waits until a thread stops or ends, and returns its status.
pub(super) fn wait_for(tid: i32) -> Result<i32, String> {
    let mut status = 0;
    loop {
        // SAFETY: the variable is valid during the call.
        let got = unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL) };
        if got == tid {
            return Ok(status);
        }
        let error = std::io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(format!("it is gone: {error}"));
        }
    }
}

/// Returns the registers of a stopped thread.
pub(super) fn registers(tid: i32) -> Result<Registers, String> {
    // SAFETY: all bytes of the struct may be zero, and it is valid during the call.
    let (registers, result) = unsafe {
        let mut registers: Registers = std::mem::zeroed();
        let result = libc::ptrace(libc::PTRACE_GETREGS, tid, 0, &raw mut registers);
        (registers, result)
    };
    match result {
        0 => Ok(registers),
        _ => Err(format!(
            "its registers cannot be read: {}",
            std::io::Error::last_os_error()
        )),
    }
}

fn set_registers(tid: i32, registers: &Registers) -> Result<(), String> {
    // SAFETY: the thread is stopped, and the struct is valid during the call.
    match unsafe { libc::ptrace(libc::PTRACE_SETREGS, tid, 0, std::ptr::from_ref(registers)) } {
        0 => Ok(()),
        _ => Err(format!(
            "its registers cannot be set: {}",
            std::io::Error::last_os_error()
        )),
    }
}

fn call_of(registers: &Registers) -> Call {
    Call {
        nr: registers.orig_rax.cast_signed(),
        args: [
            registers.rdi,
            registers.rsi,
            registers.rdx,
            registers.r10,
            registers.r8,
            registers.r9,
        ],
    }
}
