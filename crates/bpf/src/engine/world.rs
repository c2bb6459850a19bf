// SPDX-License-Identifier: GPL-2.0-only
//! The interface through which the helpers of this crate use the simulated machine (the world) on
//! which a program runs.

use super::overlap::Access;
use super::vm::Vm;
use crate::fault::Fault;
use crate::memory::Region;

/// Services of the machine that the helpers of this crate use.
pub trait World: Sized + 'static {
    /// Returns the machine's address space.
    fn region(&self) -> &Region;
    /// Returns the loaded program.
    fn vm(&self) -> &Vm<Self>;
    /// Returns the monotonic clock in ns: `bpf_ktime_get_ns`.
    fn now_ns(&self) -> u64;
    /// Returns the monotonic clock at the last tick in ns: `bpf_ktime_get_coarse_ns`.
    fn coarse_ns(&self) -> u64;
    /// Returns `jiffies_64`.
    fn jiffies(&self) -> u64;
    /// Returns the CPU on which the program runs.
    fn cpu(&self) -> u32;
    /// Returns one more than the highest CPU id.
    fn nr_cpu_ids(&self) -> u32;
    /// Returns the CPU that the last search of this CPU for any CPU of a mask has found
    /// (distribute_cpu_mask_prev). The kernel's own searches count as well.
    fn distributed_cpu(&self) -> u32;
    /// Sets the result of this CPU's last search for any CPU of a mask. `cpu` is a valid id.
    fn set_distributed_cpu(&mut self, cpu: u32);
    /// Returns one more than the highest NUMA node.
    fn nr_node_ids(&self) -> u32;
    /// Returns whether interrupts are off in the code that called the program. If they are off, the
    /// program cannot wait until a timer's callback has ended.
    fn irqs_disabled(&self) -> bool;
    /// Returns the offset from the address of a per-CPU kernel variable to the copy of the variable
    /// for `cpu`, as `bpf_per_cpu_ptr` needs it. `cpu` must be a valid id.
    fn per_cpu_offset(&mut self, cpu: u32) -> u64;
    /// Returns the address of the running task's `task_struct`.
    fn current_task(&self) -> u64;
    /// Returns `tgid << 32 | pid` of the running task.
    fn current_pid_tgid(&self) -> u64;
    /// Returns `comm` of the running task, NUL-padded.
    fn current_comm(&self) -> [u8; 16];
    /// Returns the next number of the machine's seeded generator.
    fn prandom_u32(&mut self) -> u32;
    /// Logs one line of `bpf_printk` or of a BPF stream.
    ///
    /// # Errors
    /// The run's memory limit leaves no room for the line.
    fn log(&mut self, line: String) -> Result<(), Fault>;
    /// Releases the reference to a kernel object that a `__kptr` field of a map value held. Called
    /// when the value is removed.
    fn release_object(&mut self, object: u64);
    /// Returns whether a preallocated element of a hash map keeps its kptrs when it is deleted, and the
    /// next element in its place has them (check_and_cancel_fields, kernel/bpf/hashtab.c of Linux 7.3).
    fn keeps_kptrs(&self) -> bool {
        false
    }
    /// Called when the memory of a value of local storage is freed. A later value may get it.
    fn storage_freed(&mut self, _addr: u64, _size: u64) {}
    /// Returns whether a map of this kind (TASK_STORAGE or CGRP_STORAGE) may create a value for the
    /// task or cgroup at address `owner`. Returns false if the task is exiting or the cgroup was
    /// removed, because nothing would free the value.
    ///
    /// # Errors
    /// The object at this address is not of the type for which such a map keeps values.
    fn can_own_storage(&self, kind: u32, owner: u64) -> Result<bool, Fault>;
    /// Waits until no other call holds the `bpf_spin_lock` or `bpf_res_spin_lock` at this address, if
    /// calls overlap.
    ///
    /// # Errors
    /// The holder waits for a lock that this call holds.
    fn await_lock(&mut self, _lock: u64) -> Result<(), Fault> {
        Ok(())
    }
    /// Charges the time that the program would have waited on a real machine for the
    /// `bpf_spin_lock` or `bpf_res_spin_lock` at this address. This function is called after the
    /// program has acquired the lock.
    ///
    /// # Errors
    /// The run's memory limit leaves no room to record the lock.
    fn spin_lock(&mut self, lock: u64) -> Result<(), Fault>;
    /// Records that the program releases the lock.
    fn spin_unlock(&mut self, lock: u64);
    /// Starts the timer whose `struct bpf_timer` is at this address, or changes its time of expiry.
    /// `flags` are those of `bpf_timer_start` (BPF_F_TIMER_ABS, BPF_F_TIMER_CPU_PIN). When the
    /// timer expires, the machine calls [`Vm::run_timer`].
    ///
    /// # Errors
    /// The run's memory limit leaves no room to record the timer.
    fn timer_start(&mut self, timer: u64, ns: u64, flags: u64) -> Result<(), Fault>;
    /// Stops the timer and returns whether it was pending.
    fn timer_cancel(&mut self, timer: u64) -> bool;
    /// Called when a record was added to a ring buffer that a process shares, and a reader that
    /// waits for it must wake up.
    fn ring_posted(&mut self) {}
    /// Called before a shared access or a call, if calls overlap ([`Vm::overlap`]). The world may
    /// suspend the running call here.
    fn before_access(&mut self, _access: Access) {}
    /// Called after a shared access, if calls overlap. `value` was loaded or stored. If `derived`,
    /// the stored value was calculated from a value that was loaded from the same address.
    fn accessed(&mut self, _access: Access, _value: u64, _derived: bool) {}
    /// Called if calls overlap and a value that was loaded from `addr` influences a jump, a call, a
    /// result or a different variable.
    fn decides(&mut self, _addr: u64) {}
}
