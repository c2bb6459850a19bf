// SPDX-License-Identifier: GPL-2.0-only
//! The cost table: what the operations of a kernel take on one machine.

use crate::topology::Distance;
use std::collections::BTreeMap;

/// A cost that depends on how far apart two CPUs are, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByDistance {
    pub same: u32,
    pub core: u32,
    pub llc: u32,
    pub node: u32,
    pub remote: u32,
}

impl ByDistance {
    pub fn at(&self, distance: Distance) -> u64 {
        u64::from(match distance {
            Distance::Same => self.same,
            Distance::Core => self.core,
            Distance::Llc => self.llc,
            Distance::Node => self.node,
            Distance::Remote => self.remote,
        })
    }
}

/// Costs of one machine. Integers only; each value's source stands beside it in the machine's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// One executed BPF instruction, in picoseconds.
    pub bpf_insn_ps: u32,
    /// A call of a BPF program from the kernel (trampoline, argument set-up), ns.
    pub callback_ns: u32,
    /// A helper or kfunc without an entry in `kfuncs`, ns.
    pub kfunc_ns: u32,
    /// Helpers and kfuncs by name, ns.
    pub kfuncs: BTreeMap<String, u32>,
    /// switch_to and the mm switch, ns.
    pub context_switch_ns: u32,
    /// schedule() and pick_next_task without the switch, ns.
    pub schedule_ns: u32,
    /// try_to_wake_up without select_task_rq callbacks, ns, paid by the waker.
    pub wakeup_ns: u32,
    /// One scheduler tick, ns.
    pub tick_ns: u32,
    /// Sending an IPI, ns, paid by the sender.
    pub ipi_send_ns: u32,
    /// From sending an IPI to its handler running, by distance, ns.
    pub ipi_latency: ByDistance,
    /// Leaving the idle state, ns.
    pub idle_exit_ns: u32,
    /// fork, exec and exit, ns of the calling task.
    pub fork_ns: u32,
    pub exec_ns: u32,
    pub exit_ns: u32,
    /// A system call that neither blocks nor wakes, ns.
    pub syscall_ns: u32,
    /// Hand-over of a contended lock to a waiter by distance, ns.
    pub lock_handover: ByDistance,
    /// Uncontended acquisition when the lock's line was last held by distance, ns.
    pub lock_acquire: ByDistance,
    /// Transfer of a cache line last touched by distance, ns.
    pub cache_line: ByDistance,
}

impl Default for Costs {
    /// A current x86 server at about 3 GHz; machines override what they know better.
    fn default() -> Costs {
        let line = ByDistance { same: 0, core: 5, llc: 25, node: 60, remote: 120 };
        Costs {
            bpf_insn_ps: 350,
            callback_ns: 8,
            kfunc_ns: 6,
            kfuncs: BTreeMap::new(),
            context_switch_ns: 600,
            schedule_ns: 250,
            wakeup_ns: 300,
            tick_ns: 1_000,
            ipi_send_ns: 150,
            ipi_latency: ByDistance { same: 0, core: 400, llc: 500, node: 600, remote: 1_000 },
            idle_exit_ns: 1_000,
            fork_ns: 60_000,
            exec_ns: 250_000,
            exit_ns: 40_000,
            syscall_ns: 100,
            lock_handover: line,
            lock_acquire: ByDistance { same: 10, core: 15, llc: 35, node: 70, remote: 130 },
            cache_line: line,
        }
    }
}
