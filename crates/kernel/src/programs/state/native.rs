// SPDX-License-Identifier: GPL-2.0-only
//! The interface between the machine and a program outside of the simulator whose threads are tasks
//! of the machine.

use crate::machine::Machine;
use crate::simulation::event::Event;

/// A program whose threads are tasks of the machine. The machine decides when a thread runs. It
/// calls the program at these times, and the program does in no time what the thread does up to its
/// next system call.
pub trait Native {
    /// Continues the thread with the pid `pid`, which runs on `m.this_cpu`. The thread has spent
    /// the time that the previous call returned.
    fn run(&mut self, m: &mut Machine, pid: u32) -> Turn;

    /// Does the work that [`post`](crate::native::post) announced. No CPU executes kernel code
    /// meanwhile. Returns the pids of the threads to wake.
    fn event(&mut self, m: &mut Machine) -> Vec<u32>;
}

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It computes for `user_ns` at the capacity 1024, and executes kernel code for `kernel_ns`.
    /// Then it continues.
    Run { user_ns: u64, kernel_ns: u64 },
    /// It sleeps until it is woken, and at the latest until this time in ns.
    Block { until_ns: Option<u64> },
    /// It gives up the CPU for now.
    Yield,
    /// It exits.
    Exit,
}

impl Machine {
    /// Announces work for [`Native::event`], which follows as an interrupt of the CPU that executes
    /// kernel code now.
    pub(crate) fn post_native(&mut self) {
        if !std::mem::replace(&mut self.native_posted, true) {
            let cpu = self.this_cpu;
            let at = self.local_time(cpu);
            self.events.push(at, Event::Native { cpu });
        }
    }
}
