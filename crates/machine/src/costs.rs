// SPDX-License-Identifier: GPL-2.0-only
//! The cost table: the time that operations of the kernel take on a machine.

use crate::message::{Channels, MessageCosts};
use crate::topology::Distance;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod constants;

pub use constants::{CONSTANTS, Constant, SPECIAL_COSTS, Slot, TASK_LINE};

/// A cost in ns that depends on the distance between two CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ByDistance {
    pub same: u32,
    pub core: u32,
    pub llc: u32,
    pub node: u32,
    pub remote: u32,
}

impl ByDistance {
    /// Names of the fields, nearest distance first.
    pub const NAMES: [&'static str; 5] = ["same", "core", "llc", "node", "remote"];

    /// Returns the cost for a distance.
    pub fn at(&self, distance: Distance) -> u64 {
        u64::from(match distance {
            Distance::Same => self.same,
            Distance::Core => self.core,
            Distance::Llc => self.llc,
            Distance::Node => self.node,
            Distance::Remote => self.remote,
        })
    }

    /// Returns the values in the order of [`ByDistance::NAMES`].
    pub fn values(&self) -> [u32; 5] {
        [self.same, self.core, self.llc, self.node, self.remote]
    }
}

/// Costs of one machine, as integers. In the machine's file, each value has a source (the
/// measurement, document or assumption from which it comes).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Costs {
    /// Execution of one BPF instruction, in picoseconds.
    pub bpf_insn_ps: u32,
    /// Call of a BPF program by the kernel (trampoline and set-up of arguments), in ns.
    pub callback_ns: u32,
    /// Call of a helper or kfunc without an entry in `kfuncs`, in ns.
    pub kfunc_ns: u32,
    /// Call of a helper or kfunc whose cost differs from `kfunc_ns`, by name, in ns.
    pub kfuncs: BTreeMap<String, u32>,
    /// switch_to and the switch of the mm, in ns.
    pub context_switch_ns: u32,
    /// A switch to the idle task until the CPU is idle, in ns; 0 if it costs `context_switch_ns`.
    pub switch_to_idle_ns: u32,
    /// A switch from the idle task, in ns, without leaving the idle state; 0 if it costs
    /// `context_switch_ns`.
    pub switch_from_idle_ns: u32,
    /// schedule() and pick_next_task without the switch, in ns.
    pub schedule_ns: u32,
    /// schedule() of an idle CPU without the switch, in ns; 0 if it costs `schedule_ns`.
    pub schedule_idle_ns: u32,
    /// try_to_wake_up without the class's select_task_rq, in ns. The CPU that queues the woken task
    /// pays half of it. The waker's CPU, which may be the same, pays the other half.
    pub wakeup_ns: u32,
    /// A scheduler tick, in ns.
    pub tick_ns: u32,
    /// A timer interrupt other than the scheduler tick, in ns: entry, expiry of one timer, programming
    /// of the next one, exit.
    pub timer_irq_ns: u32,
    /// Running a softirq after an interrupt, without the softirq's own work, in ns.
    pub softirq_ns: u32,
    /// Sending an IPI, in ns. The sender pays it.
    pub ipi_send_ns: u32,
    /// Entry and exit of the interrupt with which a busy CPU receives an IPI, in ns.
    pub ipi_receive_ns: u32,
    /// Time in ns from sending an IPI until its handler runs, by distance.
    pub ipi_latency: ByDistance,
    /// Leaving the idle state, in ns. Unused on machines with a list of idle states.
    pub idle_exit_ns: u32,
    /// fork, in ns of the calling task.
    pub fork_ns: u32,
    /// Creation of a thread, in ns of the calling task; 0 if it costs `fork_ns`.
    pub thread_ns: u32,
    /// Start of a new process until its first step, in ns of the new task: return from fork, page
    /// faults.
    pub fork_start_ns: u32,
    /// Start of a new thread until its first step, in ns of the new task: return from clone, page
    /// faults, and what the C library does before it calls the thread's function; 0 if it costs
    /// `fork_start_ns`.
    pub thread_start_ns: u32,
    /// exec, in ns of the calling task.
    pub exec_ns: u32,
    /// exit, in ns of the calling task.
    pub exit_ns: u32,
    /// Exit of a thread of a process that has other threads, in ns of the calling task; 0 if it costs
    /// `exit_ns`.
    pub thread_exit_ns: u32,
    /// A system call that neither blocks nor wakes a task, in ns.
    pub syscall_ns: u32,
    /// Costs of messages, by kind of channel.
    pub channel: Channels,
    /// Acquiring or releasing a mutex or semaphore of user space that has no waiters, without
    /// the transfer of its cache line, in ns. With futexes this needs no system call.
    pub user_lock_ns: u32,
    /// Passing one TCP segment within the host through TCP, IP and the loopback device to the
    /// reader's socket, in ns. It is added to the cost of the message.
    pub tcp_segment_ns: u32,
    /// Handing a contended lock over to a waiter, by the distance to the waiter's CPU.
    pub lock_handover: ByDistance,
    /// Acquiring an uncontended lock, by the distance to the CPU that last held it.
    pub lock_acquire: ByDistance,
    /// Transfer of a cache line, by the distance to the CPU that last accessed it.
    pub cache_line: ByDistance,
    /// Inserting a task into a DSQ, removing it or stepping to it in an iteration, in ns, without
    /// the transfers of cache lines. The CPU holds the lock of the DSQ meanwhile.
    pub dsq_op_ns: u32,
    /// Visiting one task in the tree of a DSQ that is in vtime order, in ns, without the transfer
    /// of its cache line.
    pub dsq_level_ns: u32,
    /// Balancing a scheduling domain once, in ns, without the examination of its CPUs.
    pub balance_ns: u32,
    /// Examining one CPU in load balancing, in ns, without the transfer of its cache line.
    pub balance_cpu_ns: u32,
    /// Reloading one byte of a task's footprint from the last-level cache into the private cache of
    /// a core, in picoseconds.
    pub reload_llc_ps: u32,
    /// Reloading one byte from memory of the same node, in picoseconds.
    pub reload_memory_ps: u32,
    /// Reloading one byte from memory of a node at distance 20, in picoseconds. The cost of other
    /// nodes is proportional to their distance.
    pub reload_remote_ps: u32,
    /// Bytes of its footprint that a task touches per us of work, which is a rate in MB/s. A task
    /// of a workload can have its own rate. With 0, caches and memory do not slow running tasks.
    pub touch_mbps: u32,
    /// Bytes per us that the memory of one node delivers to all CPUs together, which is a rate in
    /// MB/s; 0 means no limit.
    pub node_bandwidth_mbps: u32,
    /// Examining one page in a scan of NUMA balancing, in ns. The scan makes the page inaccessible,
    /// so that the next access to the page causes a hinting fault.
    pub numa_scan_ns: u32,
    /// Handling one hinting fault of NUMA balancing, in ns.
    pub numa_fault_ns: u32,
    /// Moving a page of 4 KiB to another node, in ns, without the copy of its bytes.
    pub numa_migrate_ns: u32,
    /// Whether the kernel ignores nodes when it allocates memory. The memory of a task is then
    /// spread over all nodes.
    pub flat_memory: bool,
    /// Whether policies represent schedulers written in C. On a machine that is older than BPF, a
    /// policy represents the scheduler of the kernel of that time. Such a policy must not pay for
    /// BPF. A callback costs as much as a call of a kernel function. A helper or kfunc costs as
    /// much as the C code that would do the same work: a task's storage is a field of task_struct,
    /// the clock is jiffies, and a DSQ is a list. Locks, cache lines and IPIs have their usual
    /// costs.
    pub native: bool,
}

impl Costs {
    /// Returns the cost of a switch to the idle task, in ns.
    pub fn switch_to_idle(&self) -> u32 {
        special(true, self.switch_to_idle_ns, self.context_switch_ns)
    }

    /// Returns the cost of schedule() without the switch, in ns.
    pub fn schedule(&self, idle: bool) -> u32 {
        special(idle, self.schedule_idle_ns, self.schedule_ns)
    }

    /// Returns the cost of a switch from the idle task, in ns, without leaving the idle state.
    pub fn switch_from_idle(&self) -> u32 {
        special(true, self.switch_from_idle_ns, self.context_switch_ns)
    }

    /// Returns the cost of creating a process or a thread, in ns.
    pub fn fork(&self, thread: bool) -> u32 {
        special(thread, self.thread_ns, self.fork_ns)
    }

    /// Returns the cost of the start of a new process or thread, in ns.
    pub fn start(&self, thread: bool) -> u32 {
        special(thread, self.thread_start_ns, self.fork_start_ns)
    }

    /// Sets the costs to 0 that the recorded computing times of a replay contain: those of the
    /// system calls of tasks.
    pub fn leave_out_recorded(&mut self) {
        self.syscall_ns = 0;
        self.user_lock_ns = 0;
        self.channel.futex = MessageCosts::default();
        (self.fork_ns, self.thread_ns, self.exec_ns) = (0, 0, 0);
        (self.fork_start_ns, self.thread_start_ns) = (0, 0);
        (self.exit_ns, self.thread_exit_ns) = (0, 0);
    }

    /// Returns the cost of the exit of a process or of one of its threads, in ns.
    pub fn exit(&self, thread: bool) -> u32 {
        special(thread, self.thread_exit_ns, self.exit_ns)
    }

    /// Returns the cost of calling a helper or kfunc, in ns. `native` is the number of instructions
    /// that a scheduler in C executes instead of the call, or `None` if it is unknown.
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

/// Returns `cost` if it `applies` and the machine defines it, or `usual`.
fn special(applies: bool, cost: u32, usual: u32) -> u32 {
    if applies && cost != 0 { cost } else { usual }
}

impl Default for Costs {
    /// Returns the costs of a current x86 server at about 3 GHz. A machine file overrides the
    /// values for which it has a better source.
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
            switch_to_idle_ns: 0,
            switch_from_idle_ns: 0,
            schedule_ns: 250,
            schedule_idle_ns: 0,
            wakeup_ns: 300,
            tick_ns: 1_000,
            timer_irq_ns: 600,
            softirq_ns: 150,
            ipi_send_ns: 150,
            ipi_receive_ns: 300,
            ipi_latency: ByDistance {
                same: 0,
                core: 400,
                llc: 500,
                node: 600,
                remote: 1_000,
            },
            idle_exit_ns: 1_000,
            fork_ns: 60_000,
            thread_ns: 0,
            fork_start_ns: 0,
            thread_start_ns: 0,
            exec_ns: 250_000,
            exit_ns: 40_000,
            thread_exit_ns: 0,
            syscall_ns: 100,
            channel: Channels::default(),
            user_lock_ns: 8,
            tcp_segment_ns: 3000,
            lock_handover: ByDistance {
                same: 0,
                core: 15,
                llc: 75,
                node: 180,
                remote: 360,
            },
            lock_acquire: ByDistance {
                same: 10,
                core: 15,
                llc: 35,
                node: 70,
                remote: 130,
            },
            cache_line: line,
            dsq_op_ns: 20,
            dsq_level_ns: 7,
            balance_ns: 270,
            balance_cpu_ns: 35,
            reload_llc_ps: 60,
            reload_memory_ps: 110,
            reload_remote_ps: 180,
            touch_mbps: 1_900,
            node_bandwidth_mbps: 160_000,
            numa_scan_ns: 15,
            numa_fault_ns: 1_000,
            numa_migrate_ns: 2_500,
            flat_memory: false,
            native: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_costs_as_much_as_the_native_code_in_its_place() {
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
            "the machine's own entry has precedence"
        );
        assert_eq!(costs.function_ns("scx_bpf_kick_cpu", None), 40);
    }
}
