// SPDX-License-Identifier: GPL-2.0-only
//! The children of a task: creates processes and threads, and waits for their exits.

use super::execute::{Task, World};
use super::refusal::Request;
use super::shared::{EntryKind, TaskId, clock, read_clock};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Result of [`reap`].
pub enum Reaped {
    /// No child has ended.
    None,
    NoChildren,
    Process {
        pid: u32,
        /// CPU time of the process in ns, including its exit.
        cpu_ns: u64,
    },
}

/// Reaps a child process that has ended. Waits for one, unless `flags` contains WNOHANG.
pub fn reap(flags: i32) -> Reaped {
    // SAFETY: `info` may be all zeros, and its pid then means that no child has ended. The
    // process that has ended is a child of this process. A null pointer means that no status is
    // requested.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let peek = flags | libc::WEXITED | libc::WNOWAIT;
        if libc::waitid(libc::P_ALL, 0, &mut info, peek) != 0 {
            return Reaped::NoChildren;
        }
        let pid = info.si_pid();
        if pid == 0 {
            return Reaped::None;
        }
        // The clock of the CPU time of a process (make_process_cpuclock in Linux). The process
        // still has it until it is reaped.
        let cpu_ns = read_clock(!pid << 3 | 2);
        libc::waitpid(pid, std::ptr::null_mut(), flags);
        Reaped::Process {
            pid: pid.cast_unsigned(),
            cpu_ns,
        }
    }
}

/// Executes a task that another task created.
fn forked(world: &Arc<World>, index: u32, created: u64, alone: bool) {
    let spec = &world.workload.tasks[index as usize];
    let mut task = Task::new(world, index, created + spec.start_ns, alone);
    task.apply_attributes(spec);
    if spec.start_cpu.is_some() && spec.cpus.is_none() {
        task.allow(None);
    }
    task.begin(spec);
}

/// The threads that a task has created and that have not ended.
#[derive(Default)]
pub(super) struct Threads {
    counts: Mutex<ThreadCounts>,
    /// Signalled when `alive` falls to `wanted`.
    few: Condvar,
}

#[derive(Default)]
struct ThreadCounts {
    alive: u32,
    /// Number of threads that may be left when the waiting creator continues. `None` if it does not
    /// wait.
    wanted: Option<u32>,
}

impl Threads {
    pub(super) fn alive(&self) -> u32 {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).alive
    }

    fn add(&self) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).alive += 1;
    }

    /// Counts a thread that has ended. Wakes the creator only if few enough threads are left, as in
    /// the simulator. One wake-up for each thread would add context switches.
    fn ended(&self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.alive -= 1;
        if counts.wanted == Some(counts.alive) {
            self.few.notify_one();
        }
    }

    /// Waits until at most `left` threads are alive.
    fn wait(&self, left: u32) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.wanted = Some(left);
        while counts.alive > left {
            counts = self.few.wait(counts).unwrap_or_else(PoisonError::into_inner);
        }
        counts.wanted = None;
    }
}

impl Task<'_> {
    pub(super) fn fork(&mut self, task: u32, is_thread: bool) {
        let world = Arc::clone(self.world);
        let created = clock();
        if is_thread {
            self.threads.add();
            let threads = Arc::clone(&self.threads);
            let started = thread::Builder::new().stack_size(256 << 10).spawn(move || {
                forked(&world, task, created, false);
                threads.ended();
            });
            if started.is_err() {
                self.threads.ended();
                self.world.shared.refused(Request::Thread);
            }
            return;
        }
        // SAFETY: the child uses only the state of this thread and shared memory, and ends with
        // _exit.
        match unsafe { libc::fork() } {
            0 => {
                forked(&world, task, created, true);
                // SAFETY: this ends the child without running the parent's exit handlers.
                unsafe { libc::_exit(0) }
            }
            -1 => self.world.shared.refused(Request::Process),
            _ => self.processes += 1,
        }
    }

    pub(super) fn wait_children(&mut self, left: u32) {
        loop {
            let threads = self.threads.alive();
            if self.processes + threads <= left {
                return;
            }
            if self.processes == 0 {
                return self.threads.wait(left);
            }
            // The flag restricts the wait to children of this thread. Other threads wait for their
            // own children.
            let flags = libc::__WNOTHREAD | if threads > 0 { libc::WNOHANG } else { 0 };
            match reap(flags) {
                Reaped::None => thread::sleep(Duration::from_micros(100)),
                Reaped::NoChildren => self.processes = 0,
                Reaped::Process { pid, cpu_ns } => {
                    let child = TaskId {
                        task: self.id.task,
                        tid: pid,
                    };
                    self.world.shared.log(EntryKind::Reaped, child, cpu_ns, 0);
                    self.processes -= 1;
                }
            }
        }
    }
}
