// SPDX-License-Identifier: GPL-2.0-only
//! The machine that programs run on, as the helpers of this crate see it.

use super::vm::Vm;
use crate::fault::Fault;
use crate::memory::Region;

/// What the helpers of this crate need to know of the machine they run on.
pub trait World: Sized + 'static {
    /// The machine's address space.
    fn region(&self) -> &Region;
    /// The loaded program.
    fn vm(&self) -> &Vm<Self>;
    /// Monotonic clock: `bpf_ktime_get_ns`.
    fn now_ns(&self) -> u64;
    /// The same at the last tick: `bpf_ktime_get_coarse_ns`.
    fn coarse_ns(&self) -> u64;
    /// `jiffies_64`.
    fn jiffies(&self) -> u64;
    /// The CPU the program runs on.
    fn cpu(&self) -> u32;
    /// CPU ids are below this.
    fn nr_cpu_ids(&self) -> u32;
    /// NUMA nodes are numbered below this.
    fn nr_node_ids(&self) -> u32;
    /// Are interrupts off where the program runs? Then no timer can be waited for.
    fn irqs_disabled(&self) -> bool;
    /// What to add to the address of a per-CPU kernel variable for this CPU's copy: `bpf_per_cpu_ptr`. `cpu` is valid.
    fn per_cpu_offset(&self, cpu: u32) -> u64;
    /// Address of the running task's `task_struct`.
    fn current_task(&self) -> u64;
    /// `tgid << 32 | pid` of the running task.
    fn current_pid_tgid(&self) -> u64;
    /// `comm` of the running task, NUL-padded.
    fn current_comm(&self) -> [u8; 16];
    /// The next number of the machine's seeded generator.
    fn prandom_u32(&mut self) -> u32;
    /// A line of `bpf_printk` or of a stream.
    ///
    /// # Errors
    /// If the run has no memory left for it.
    fn log(&mut self, line: String) -> Result<(), Fault>;
    /// A map value that held a reference to a kernel object (`__kptr`) is gone: gives the reference back.
    fn release_object(&mut self, object: u64);
    /// Can a map of this kind (TASK_STORAGE, CGRP_STORAGE) be given a value for the object at this address? Not if that is gone, or
    /// going: nothing would free the value.
    ///
    /// # Errors
    /// It is not an object that such a map keeps values for.
    fn can_own_storage(&self, kind: u32, owner: u64) -> Result<bool, Fault>;
    /// A `bpf_spin_lock` or `bpf_res_spin_lock` at this address is taken: charge the wait.
    ///
    /// # Errors
    /// If the run has no memory left to note the lock.
    fn spin_lock(&mut self, lock: u64) -> Result<(), Fault>;
    /// It is released.
    fn spin_unlock(&mut self, lock: u64);
    /// Start (or move) the timer whose `struct bpf_timer` is at this address; `flags` as for `bpf_timer_start`
    /// (BPF_F_TIMER_ABS, BPF_F_TIMER_CPU_PIN). On expiry call [`Vm::run_timer`].
    ///
    /// # Errors
    /// If the run has no memory left to note it.
    fn timer_start(&mut self, timer: u64, ns: u64, flags: u64) -> Result<(), Fault>;
    /// Stop the timer; was it pending?
    fn timer_cancel(&mut self, timer: u64) -> bool;
}
