// SPDX-License-Identifier: GPL-2.0-only
//! The cost table: what the operations of a kernel take on one machine.

use crate::topology::Distance;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A cost that depends on how far apart two CPUs are, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
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

impl ByDistance {
    /// The fields by name, nearest first.
    pub const NAMES: [&'static str; 5] = ["same", "core", "llc", "node", "remote"];

    /// The values in the order of [`ByDistance::NAMES`].
    pub fn values(&self) -> [u32; 5] {
        [self.same, self.core, self.llc, self.node, self.remote]
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
    /// Writing or reading one small message of a pipe or socket, without blocking or waking, ns.
    pub message_ns: u32,
    /// A segment of TCP within the host, besides the message, ns: through TCP, IP and the loopback device to the reader's socket.
    pub tcp_segment_ns: u32,
    /// Hand-over of a contended lock to a waiter by distance, ns.
    pub lock_handover: ByDistance,
    /// Uncontended acquisition when the lock's line was last held by distance, ns.
    pub lock_acquire: ByDistance,
    /// Transfer of a cache line last touched by distance, ns.
    pub cache_line: ByDistance,
    /// Reloading a byte of a task's footprint into a core's private cache from the last-level cache, in picoseconds.
    pub reload_llc_ps: u32,
    /// The same from memory of the own node.
    pub reload_memory_ps: u32,
    /// The same from memory of a node at distance 20; farther ones in proportion.
    pub reload_remote_ps: u32,
    /// The kernel does not place memory: a task's is on any node, wherever it runs.
    pub flat_memory: bool,
    /// Policies stand for schedulers in C. On a machine older than BPF a policy says what the kernel of that time decided, not
    /// what deciding would have cost as BPF: a callback is a function of the kernel, and what a policy calls is what C code has
    /// in its place. A task's storage is a field of its task_struct, the clock is jiffies, a DSQ is a list. Locks, cache lines
    /// and IPIs cost what they cost everywhere.
    pub native: bool,
}

impl Costs {
    /// Time of a call of a helper or kfunc, ns. A scheduler in C executes `native` instructions in its place, if it calls nothing.
    pub fn function_ns(&self, name: &str, native: Option<u32>) -> u32 {
        if let Some(&ns) = self.kfuncs.get(name) {
            return ns;
        }
        match native {
            Some(instructions) if self.native => instructions * self.bpf_insn_ps / 1000,
            _ => self.kfunc_ns,
        }
    }
}

impl Default for Costs {
    /// A current x86 server at about 3 GHz; machines override what they know better.
    fn default() -> Costs {
        let line = ByDistance {
            same: 0,
            core: 5,
            llc: 25,
            node: 60,
            remote: 120,
        };
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
            ipi_latency: ByDistance {
                same: 0,
                core: 400,
                llc: 500,
                node: 600,
                remote: 1_000,
            },
            idle_exit_ns: 1_000,
            fork_ns: 60_000,
            exec_ns: 250_000,
            exit_ns: 40_000,
            syscall_ns: 100,
            message_ns: 450,
            tcp_segment_ns: 3000,
            lock_handover: line,
            lock_acquire: ByDistance {
                same: 10,
                core: 15,
                llc: 35,
                node: 70,
                remote: 130,
            },
            cache_line: line,
            reload_llc_ps: 60,
            reload_memory_ps: 110,
            reload_remote_ps: 180,
            flat_memory: false,
            native: false,
        }
    }
}

/// Where one constant of the table lives.
#[derive(Clone, Copy)]
pub enum Slot {
    /// Picoseconds.
    Ps(fn(&mut Costs) -> &mut u32),
    /// Nanoseconds.
    Ns(fn(&mut Costs) -> &mut u32),
    /// Nanoseconds by distance.
    ByDistance(fn(&mut Costs) -> &mut ByDistance),
}

/// One line of the cost table: its name in machine files and in `machine show`, and the source
/// of its value in [`Costs::default`].
pub struct Constant {
    pub name: &'static str,
    pub slot: Slot,
    pub default_source: &'static str,
}

/// Name of what a line of a task_struct costs, which only machines have whose task_structs compete ([`crate::TaskSets`]).
pub const TASK_LINE: &str = "task_struct.line";

/// Every constant but those of single kfuncs and [`TASK_LINE`], in the order they are shown in.
pub const CONSTANTS: [Constant; 22] = [
    Constant {
        name: "bpf_insn",
        slot: Slot::Ps(|c| &mut c.bpf_insn_ps),
        default_source: "estimate: one instruction a cycle at 3 GHz, branchy kernel code",
    },
    Constant {
        name: "callback",
        slot: Slot::Ns(|c| &mut c.callback_ns),
        default_source: "estimate: BPF trampoline and rcu section, 25 cycles",
    },
    Constant {
        name: "kfunc",
        slot: Slot::Ns(|c| &mut c.kfunc_ns),
        default_source: "estimate: a call and a few loads in cache, 20 cycles",
    },
    Constant {
        name: "context_switch",
        slot: Slot::Ns(|c| &mut c.context_switch_ns),
        default_source: "estimate: lat_ctx 2p/0K on current servers gives 1-2 us with the wake-up",
    },
    Constant {
        name: "schedule",
        slot: Slot::Ns(|c| &mut c.schedule_ns),
        default_source: "estimate: __schedule and pick without the switch, 750 cycles",
    },
    Constant {
        name: "wakeup",
        slot: Slot::Ns(|c| &mut c.wakeup_ns),
        default_source: "estimate: try_to_wake_up with its two atomics, 900 cycles",
    },
    Constant {
        name: "tick",
        slot: Slot::Ns(|c| &mut c.tick_ns),
        default_source: "estimate: timer interrupt, timekeeping, sched_tick: about 1 us",
    },
    Constant {
        name: "ipi_send",
        slot: Slot::Ns(|c| &mut c.ipi_send_ns),
        default_source: "estimate: one x2APIC ICR write",
    },
    Constant {
        name: "ipi_latency",
        slot: Slot::ByDistance(|c| &mut c.ipi_latency),
        default_source: "estimate: APIC message and interrupt entry, 0.4-1 us on current x86",
    },
    Constant {
        name: "idle_exit",
        slot: Slot::Ns(|c| &mut c.idle_exit_ns),
        default_source: "estimate: C1 exit latency 1-2 us in intel_idle's tables",
    },
    Constant {
        name: "fork",
        slot: Slot::Ns(|c| &mut c.fork_ns),
        default_source: "estimate: lmbench fork+exit is about 100 us for a small process",
    },
    Constant {
        name: "exec",
        slot: Slot::Ns(|c| &mut c.exec_ns),
        default_source: "estimate: lmbench fork+exec is about 350 us for a small process",
    },
    Constant {
        name: "exit",
        slot: Slot::Ns(|c| &mut c.exit_ns),
        default_source: "estimate: lmbench fork+exit is about 100 us for a small process",
    },
    Constant {
        name: "syscall",
        slot: Slot::Ns(|c| &mut c.syscall_ns),
        default_source: "estimate: lmbench null call is 50-150 ns with mitigations",
    },
    Constant {
        name: "message",
        slot: Slot::Ns(|c| &mut c.message_ns),
        default_source: "estimate: lmbench lat_pipe is 3-4 us for two writes, two reads and two switches",
    },
    Constant {
        name: "tcp_segment",
        slot: Slot::Ns(|c| &mut c.tcp_segment_ns),
        default_source: "estimate: lmbench lat_tcp less lat_pipe there and back on current servers is 8-12 us, acknowledgements with data",
    },
    Constant {
        name: "lock_handover",
        slot: Slot::ByDistance(|c| &mut c.lock_handover),
        default_source: "estimate: one dirty-line transfer",
    },
    Constant {
        name: "lock_acquire",
        slot: Slot::ByDistance(|c| &mut c.lock_acquire),
        default_source: "estimate: a locked instruction and one line transfer",
    },
    Constant {
        name: "cache_line",
        slot: Slot::ByDistance(|c| &mut c.cache_line),
        default_source: "estimate: published core-to-core latencies of two-socket x86 servers",
    },
    Constant {
        name: "reload_llc",
        slot: Slot::Ps(|c| &mut c.reload_llc_ps),
        default_source: "estimate: per byte; one core reads 15-20 GB/s out of the L3 of current servers",
    },
    Constant {
        name: "reload_memory",
        slot: Slot::Ps(|c| &mut c.reload_memory_ps),
        default_source: "estimate: per byte; one core reads 8-12 GB/s of local memory with some misses on the way at a time",
    },
    Constant {
        name: "reload_remote",
        slot: Slot::Ps(|c| &mut c.reload_remote_ps),
        default_source: "estimate: per byte; remote latency is about 1.6 times the local one on two sockets",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_costs_what_stands_in_its_place() {
        let mut costs = Costs {
            bpf_insn_ps: 1500,
            kfunc_ns: 40,
            ..Costs::default()
        };
        costs.kfuncs.insert("scx_bpf_now".into(), 9);
        assert_eq!(costs.function_ns("scx_bpf_dsq_insert", Some(12)), 40);
        costs.native = true;
        assert_eq!(costs.function_ns("scx_bpf_dsq_insert", Some(12)), 18);
        assert_eq!(
            costs.function_ns("scx_bpf_now", Some(2)),
            9,
            "the machine's own entry comes first"
        );
        assert_eq!(costs.function_ns("scx_bpf_kick_cpu", None), 40);
    }
}
