// SPDX-License-Identifier: GPL-2.0-only
//! Continues one thread of the program at a time, up to its next system call.
//!
//! With PTRACE_SYSEMU, the host stops a thread at the entry of each system call and does not execute
//! it. A call that the host is to execute is repeated by setting the instruction pointer back.

use super::error::HostError;
use super::start::Started;
use super::watchdog::Watchdog;
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
    pub fn resume(&self, tid: i32) -> Result<Stop, HostError> {
        loop {
            let status = self.go(libc::PTRACE_SYSEMU, tid)?;
            let stopped = libc::WSTOPSIG(status);
            if stopped == libc::SIGTRAP | 0x80 {
                return Ok(Stop::Call(call_of(&registers(tid)?)));
            }
            match stopped {
                // The signal has no effect on the program.
                libc::SIGTRAP | libc::SIGSTOP | libc::SIGCONT | libc::SIGCHLD | libc::SIGWINCH => {}
                libc::SIGSEGV => return self.counter_read(tid),
                other => return Err(HostError::Signal(other)),
            }
        }
    }

    /// Returns the reason of a segmentation fault if the thread has read the time-stamp counter.
    ///
    /// # Errors
    /// Any other segmentation fault.
    fn counter_read(&self, tid: i32) -> Result<Stop, HostError> {
        let registers = registers(tid)?;
        let code = self.memory.read(registers.rip, 3).unwrap_or_default();
        match code.as_slice() {
            [0x0f, 0x31, _] => Ok(Stop::Counter(false)),
            [0x0f, 0x01, 0xf9] => Ok(Stop::Counter(true)),
            _ => Err(HostError::SegmentationFault(registers.rip)),
        }
    }

    /// Completes `rdtsc` or `rdtscp` with the value `counter`.
    pub fn set_counter(&self, tid: i32, counter: u64, with_cpu: bool, cpu: u32) -> Result<(), HostError> {
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
    pub fn set_result(&self, tid: i32, result: i64) -> Result<(), HostError> {
        let mut registers = registers(tid)?;
        registers.rax = result.cast_unsigned();
        registers.orig_rax = u64::MAX;
        set_registers(tid, &registers)
    }

    /// Lets the host execute a system call in a thread that is stopped in a system call. Returns the
    /// result. Afterwards the thread is as before, except for the result.
    pub fn execute(&self, tid: i32, call: Call) -> Result<i64, HostError> {
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
    fn step(&self, tid: i32) -> Result<Registers, HostError> {
        let status = self.go(libc::PTRACE_SINGLESTEP, tid)?;
        match libc::WSTOPSIG(status) {
            libc::SIGTRAP => registers(tid),
            signal => Err(HostError::Signal(signal)),
        }
    }

    /// Returns an address below the red zone of a stopped thread's stack, where a text of 4 KiB can
    /// be written.
    pub fn scratch(&self, tid: i32) -> Result<u64, HostError> {
        Ok((registers(tid)?.rsp - 8192) & !15)
    }

    /// Sets the registers of a thread for the system call `call`.
    fn enter(&self, tid: i32, before: Registers, call: Call) -> Result<(), HostError> {
        // The instruction `int 0x80` is as long, but numbers calls differently.
        if self
            .memory
            .read(before.rip - SYSCALL_LEN, SYSCALL_LEN as usize)
            .as_deref()
            != Some(&SYSCALL)
        {
            return Err(HostError::ThirtyTwoBit);
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
    pub fn clone_thread(&mut self, tid: i32, call: Call) -> Result<Result<i32, i64>, HostError> {
        let before = registers(tid)?;
        self.enter(tid, before, call)?;
        // Leave the call that was not executed, then enter it again.
        self.step(tid)?;
        self.go(libc::PTRACE_SYSCALL, tid)?;
        let status = self.go(libc::PTRACE_SYSCALL, tid)?;
        let cloned = status >> 8 == libc::SIGTRAP | libc::PTRACE_EVENT_CLONE << 8;
        if !cloned {
            return Ok(Err(registers(tid)?.rax.cast_signed()));
        }
        let mut new: libc::c_ulong = 0;
        // SAFETY: the thread is stopped, and the variable is valid during the call.
        unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut new) };
        let new = new as i32;
        self.go(libc::PTRACE_SYSCALL, tid)?;
        // The new thread begins stopped.
        wait_for(new)?;
        self.watchdog.add(new);
        Ok(Ok(new))
    }

    /// Lets a thread exit on the host.
    pub fn exit_thread(&mut self, tid: i32, call: Call) -> Result<(), HostError> {
        let before = registers(tid)?;
        self.enter(tid, before, call)?;
        self.watchdog.remove(tid);
        // SAFETY: the thread is stopped and traced by this thread.
        unsafe { libc::ptrace(libc::PTRACE_CONT, tid, 0, 0) };
        wait_for(tid)?;
        Ok(())
    }

    /// Continues a thread without a signal, and waits until it stops again.
    fn go(&self, request: libc::c_uint, tid: i32) -> Result<i32, HostError> {
        self.watchdog.continues(tid);
        // SAFETY: the thread is stopped and traced by this thread.
        let done = unsafe { libc::ptrace(request, tid, 0, 0) };
        let status = if done == 0 {
            wait_for(tid)
        } else {
            Err(HostError::Gone(None))
        };
        if !self.watchdog.stops() {
            return Err(HostError::Hung);
        }
        let status = status?;
        match libc::WIFSTOPPED(status) {
            true => Ok(status),
            false if libc::WIFSIGNALED(status) => Err(HostError::Killed(libc::WTERMSIG(status))),
            false => Err(HostError::Ended),
        }
    }
}

impl Drop for Host {
    /// Ends the program.
    fn drop(&mut self) {
        // SAFETY: the process is a child that was not waited for, so its number belongs to no other
        // process.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        for &tid in self.watchdog.threads().iter().rev() {
            while let Ok(status) = wait_for(tid)
                && libc::WIFSTOPPED(status)
            {}
        }
    }
}

/// Waits until a thread stops or ends, and returns its status.
pub(super) fn wait_for(tid: i32) -> Result<i32, HostError> {
    let mut status = 0;
    loop {
        // SAFETY: the variable is valid during the call.
        let got = unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL) };
        if got == tid {
            return Ok(status);
        }
        let error = std::io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(HostError::Gone(Some(error)));
        }
    }
}

/// Returns the registers of a stopped thread.
pub(super) fn registers(tid: i32) -> Result<Registers, HostError> {
    // SAFETY: all bytes of the struct may be zero, and it is valid during the call.
    let (registers, result) = unsafe {
        let mut registers: Registers = std::mem::zeroed();
        let result = libc::ptrace(libc::PTRACE_GETREGS, tid, 0, &raw mut registers);
        (registers, result)
    };
    match result {
        0 => Ok(registers),
        _ => Err(HostError::Registers {
            what: "read",
            error: std::io::Error::last_os_error(),
        }),
    }
}

fn set_registers(tid: i32, registers: &Registers) -> Result<(), HostError> {
    // SAFETY: the thread is stopped, and the struct is valid during the call.
    match unsafe { libc::ptrace(libc::PTRACE_SETREGS, tid, 0, std::ptr::from_ref(registers)) } {
        0 => Ok(()),
        _ => Err(HostError::Registers {
            what: "set",
            error: std::io::Error::last_os_error(),
        }),
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
