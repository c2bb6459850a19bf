// SPDX-License-Identifier: GPL-2.0-only
//! System calls that create, name, place and end threads, and deferred work.

use kernel::Machine;
use kernel::native;

use crate::answer::{Reply, error};
use crate::host::Call;
use crate::program::{Deferred, Program, THREADS, Thread};

/// Flags without which clone(2) would create a process.
const THREAD: u64 = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u64;

impl Program {
    /// Creates a thread (clone).
    pub fn clone_thread(&mut self, m: &mut Machine, t: usize, args: [u64; 6]) -> Reply {
        let [flags, _, parent_tid, child_tid, ..] = args;
        if flags & THREAD != THREAD {
            return self.deny("fork");
        }
        if self.threads.len() >= THREADS {
            return error(libc::EAGAIN);
        }
        let (tid, parent) = (self.threads[t].tid, self.threads[t].pid);
        let Some(pid) = native::fork(m, self.settings.index, parent, self.in_run) else {
            return error(libc::EAGAIN);
        };
        if let Some(comm) = native::comm(m, parent) {
            native::rename(m, pid, &comm);
        }
        let call = self.threads[t].call;
        let new = match self.host.clone_thread(tid, call) {
            Ok(Ok(new)) => new,
            Ok(Err(errno)) => return Reply::Fail(format!("the host cannot create a thread ({errno})")),
            Err(error) => return error.into(),
        };
        for (flag, address) in [
            (libc::CLONE_PARENT_SETTID, parent_tid),
            (libc::CLONE_CHILD_SETTID, child_tid),
        ] {
            if flags & flag as u64 != 0 {
                self.host.memory.write(address, &pid.to_le_bytes());
            }
        }
        let clear = flags & libc::CLONE_CHILD_CLEARTID as u64 != 0;
        self.threads.push(Thread {
            pid,
            tid: new,
            // The thread has not begun yet. Its first turn continues it up to its first call.
            call: Call { nr: -1, args: [0; 6] },
            wait: None,
            yielded: false,
            clear_tid: if clear { child_tid } else { 0 },
            exited: false,
        });
        Reply::Result(pid.into())
    }

    /// Ends a thread (exit).
    pub fn exit_thread(&mut self, m: &mut Machine, t: usize) -> Reply {
        let (tid, call, address) = {
            let thread = &self.threads[t];
            (thread.tid, thread.call, thread.clear_tid)
        };
        if tid == self.host.pid {
            // The first thread of a process that has others remains as a zombie.
            return Reply::Exit;
        }
        if let Err(error) = self.host.exit_thread(tid, call) {
            return error.into();
        }
        self.threads[t].exited = true;
        if address != 0 {
            self.host.memory.write(address, &0u32.to_le_bytes());
            self.wake_futex(m, address, u32::MAX, u32::MAX);
        }
        Reply::Exit
    }

    /// Does the work that had to wait until no CPU executes kernel code.
    pub fn do_deferred(&mut self, m: &mut Machine) {
        while let Some(work) = self.deferred.pop_front() {
            match work {
                Deferred::Attach { link, pid } => {
                    let result = self.attach(m, link, pid);
                    self.results.insert(pid, result);
                }
                Deferred::Detach { pid } => {
                    kernel::ext::unload(m);
                    self.results.insert(pid, 0);
                }
                Deferred::Affinity { pid, cpus } => native::set_affinity(m, pid, &cpus),
                Deferred::Policy { pid, policy } => native::set_policy(m, pid, policy),
            }
        }
    }

    /// Adds deferred work.
    pub fn defer(&mut self, m: &mut Machine, work: Deferred) {
        self.deferred.push_back(work);
        if self.live {
            native::post(m);
        }
    }

    /// Returns the CPU numbers in a mask of the program.
    pub fn read_mask(&self, addr: u64, bytes: u64) -> Option<Vec<u32>> {
        let bytes = self.host.memory.read(addr, bytes.min(1024) as usize)?;
        let bits = (0..8 * bytes.len()).filter(|bit| bytes[bit / 8] >> (bit % 8) & 1 != 0);
        Some(bits.map(|bit| bit as u32).collect())
    }

    /// Answers sched_getaffinity. Returns the number of bytes of the mask.
    pub fn get_affinity(&self, m: &Machine, pid: u32, len: u64, addr: u64) -> Reply {
        let need = u64::from(m.nr_cpus()).div_ceil(64) * 8;
        if len < need || !len.is_multiple_of(8) {
            return error(libc::EINVAL);
        }
        let mut mask = vec![0u8; need as usize];
        for cpu in native::affinity(m, pid) {
            mask[(cpu / 8) as usize] |= 1 << (cpu % 8);
        }
        self.put(addr, &mask, need as i64)
    }
}
