// SPDX-License-Identifier: GPL-2.0-only
//! The constants of the cost table: their names, fields and the sources of their default values.

use super::{ByDistance, Costs};

/// Function that returns one constant of the table. There is a variant for each type of constant.
#[derive(Clone, Copy)]
pub enum Slot {
    /// A constant in picoseconds.
    Ps(fn(&mut Costs) -> &mut u32),
    /// A constant in nanoseconds.
    Ns(fn(&mut Costs) -> &mut u32),
    /// A constant in nanoseconds for each distance.
    ByDistance(fn(&mut Costs) -> &mut ByDistance),
    /// A rate in MB/s, which is bytes per microsecond. It is not the cost of an operation.
    MbPerS(fn(&mut Costs) -> &mut u32),
}

/// Declaration of one constant: its name in machine files and in `machine show`, its accessor, and
/// the source of its default value.
pub struct Constant {
    pub name: &'static str,
    pub slot: Slot,
    pub default_source: &'static str,
}

/// Constants that are 0 by default. Another constant then applies to their operations, too, or, as for
/// the start of processes, nothing is charged.
pub const SPECIAL_COSTS: [&str; 7] = [
    "switch_to_idle",
    "switch_from_idle",
    "schedule_idle",
    "thread",
    "fork_start",
    "thread_start",
    "thread_exit",
];

/// Name of the cost `line` of the section `[task_struct]`: the transfer of a cache line of a
/// task_struct. Only machines with [`crate::TaskSets`] have it.
pub const TASK_LINE: &str = "task_struct.line";

/// Makes the table of constants. A row has the name, the field of [`Costs`] with its type, and the
/// source of the default value.
macro_rules! constants {
    ($($name:literal: $slot:ident($field:ident), $source:literal;)*) => {
        [$(Constant {
            name: $name,
            slot: Slot::$slot(|costs| &mut costs.$field),
            default_source: $source,
        }),*]
    };
}

/// All constants except those of single kfuncs and [`TASK_LINE`], in the order in which they are
/// printed.
pub const CONSTANTS: [Constant; 41] = constants! {
    "bpf_insn": Ps(bpf_insn_ps),
        "assumption: 1.05 cycles at 3 GHz; clang compiles one BPF instruction to 1.05 x86-64 instructions (counted over dss, o1, mqs and pmqs), and branchy kernel code executes about one per cycle";
    "callback": Ns(callback_ns),
        "assumption: 25 cycles at 3 GHz for a BPF trampoline and its rcu section";
    "kfunc": Ns(kfunc_ns),
        "assumption: 18 cycles at 3 GHz for a call and a few loads in cache";
    "context_switch": Ns(context_switch_ns),
        "assumption: 1800 cycles at 3 GHz for switch_to and the switch of the address space; a wake-up, schedule() and a switch then take 1.15 us together";
    "switch_to_idle": Ns(switch_to_idle_ns),
        "assumption: as context_switch";
    "switch_from_idle": Ns(switch_from_idle_ns),
        "assumption: as context_switch";
    "schedule": Ns(schedule_ns),
        "assumption: 750 cycles at 3 GHz for __schedule and pick_next_task without the switch";
    "schedule_idle": Ns(schedule_idle_ns),
        "assumption: as schedule";
    "wakeup": Ns(wakeup_ns),
        "assumption: 900 cycles at 3 GHz for try_to_wake_up with its two atomic instructions";
    "tick": Ns(tick_ns),
        "assumption: 3000 cycles at 3 GHz for a timer interrupt, timekeeping and sched_tick";
    "timer_irq": Ns(timer_irq_ns),
        "assumption: 1800 cycles at 3 GHz for a tick without timekeeping and sched_tick";
    "softirq": Ns(softirq_ns),
        "assumption: 450 cycles at 3 GHz for __do_softirq with its loop over pending softirqs";
    "ipi_send": Ns(ipi_send_ns),
        "assumption: 150 ns for one write to the ICR of the x2APIC";
    "ipi_receive": Ns(ipi_receive_ns),
        "assumption: 900 cycles at 3 GHz for interrupt entry, end-of-interrupt and exit";
    "ipi_latency": ByDistance(ipi_latency),
        "assumption, for the message of the APIC and the interrupt entry: 400 ns to another thread of the core, 500 in the LLC, 600 in the node, 1000 to another node";
    "idle_exit": Ns(idle_exit_ns),
        "assumption: 1 us; drivers/idle/intel_idle.c has exit latencies of 1 or 2 us for C1";
    "fork": Ns(fork_ns),
        "assumption: fork and exit of a small process take 100 us together, of which fork is three fifths";
    "thread": Ns(thread_ns),
        "assumption: as fork";
    "fork_start": Ns(fork_start_ns),
        "assumption: a new process starts with its first step";
    "thread_start": Ns(thread_start_ns),
        "assumption: as fork_start";
    "exec": Ns(exec_ns),
        "assumption: fork, exec and exit of a small process take 350 us together; without fork and exit these are 250 us";
    "exit": Ns(exit_ns),
        "assumption: fork and exit of a small process take 100 us together, of which exit is two fifths";
    "thread_exit": Ns(thread_exit_ns),
        "assumption: as exit";
    "syscall": Ns(syscall_ns),
        "assumption: 100 ns for a call that does nothing, as lat_syscall null of lmbench makes, with the mitigations of a current CPU";
    "user_lock": Ns(user_lock_ns),
        "assumption: 25 cycles at 3 GHz for a locked instruction and a call of the C library";
    "tcp_segment": Ns(tcp_segment_ns),
        "assumption: a round trip of lat_tcp of lmbench takes 6 us more than one of lat_pipe; it is two segments, whose acknowledgements travel with the answers";
    "lock_handover": ByDistance(lock_handover),
        "estimate: three transfers of the lock's cache line, see cache_line: the holder's release takes the line from the waiter that reads it, the waiter reads it again, and the waiter's first store beside the lock takes it from the next waiter (queued_spin_lock_slowpath, kernel/locking/qspinlock.c)";
    "lock_acquire": ByDistance(lock_acquire),
        "assumption: 30 cycles at 3 GHz for a locked instruction, plus the transfer of the cache line if another CPU had it, see cache_line";
    "cache_line": ByDistance(cache_line),
        "assumption: 5 ns between the threads of a core, 25 ns in an LLC, 60 ns in a node, 120 ns between nodes";
    "dsq_op": Ns(dsq_op_ns),
        "assumption: 60 cycles at 3 GHz for the list, the counters, the sequence number and the link of the DSQ (dispatch_enqueue, task_unlink_from_dsq)";
    "dsq_level": Ns(dsq_level_ns),
        "assumption: 20 cycles at 3 GHz for a load that depends on the previous one and hits the L2, and a branch that is mispredicted half of the time (rb_add)";
    "balance": Ns(balance_ns),
        "assumption: 800 cycles at 3 GHz for sched_balance_rq, find_src_group and sched_balance_update_blocked_averages without their loops";
    "balance_cpu": Ns(balance_cpu_ns),
        "assumption: 100 cycles at 3 GHz for one pass of the loop in update_sg_lb_stats";
    "reload_llc": Ps(reload_llc_ps),
        "assumption: 60 ps per byte, so one core reads 16.7 GB/s from the L3";
    "reload_memory": Ps(reload_memory_ps),
        "assumption: 110 ps per byte, so one core reads 9.1 GB/s from memory, which is 7 ns per cache line of 64 bytes with overlapping misses";
    "reload_remote": Ps(reload_remote_ps),
        "assumption: 1.64 times reload_memory, as the latency of remote memory is higher by this factor";
    "touch": MbPerS(touch_mbps),
        "assumption: 10 accesses per 1000 instructions miss the first-level cache, each for 64 bytes, at one instruction per cycle and 3 GHz; programs differ by a factor of ten in both directions";
    "node_bandwidth": MbPerS(node_bandwidth_mbps),
        "estimate: eight channels of DDR4-3200 have 204.8 GB/s at peak; 80 % of it, because refresh and turnarounds of the bus take the rest";
    "numa_scan": Ns(numa_scan_ns),
        "assumption: 45 cycles at 3 GHz to read a page table entry, find its page and make the entry inaccessible (change_prot_numa)";
    "numa_fault": Ns(numa_fault_ns),
        "assumption: 3000 cycles at 3 GHz for the exception with its mitigations, the search for the mapping and the page, and task_numa_fault";
    "numa_migrate": Ns(numa_migrate_ns),
        "assumption: 7500 cycles at 3 GHz to isolate a page of 4 KiB, allocate another one, flush the TLB entry and map the new page; the copy of the bytes is added at the speed of reload_remote";
};
