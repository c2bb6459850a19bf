// SPDX-License-Identifier: GPL-2.0-only
//! Operations on caches: loading the footprints of tasks at task switches, fork and exec, and
//! accesses of CPUs to cache lines of kernel data. `state` describes the model.

pub mod state;

use crate::hardware::footprint::state::*;
use crate::machine::Machine;
use crate::programs::state::cursor::WHOLE;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use bpf::cache::{self};

impl Machine {
    /// Updates the caches after `cpu` has switched from `prev` to `next`. Loading the missing bytes
    /// of the footprint of `next` delays that task.
    #[inline]
    pub(crate) fn switch_footprints(&mut self, cpu: CpuId, prev: TaskId, next: TaskId) {
        if !self.caches.active {
            return;
        }
        if prev != IDLE {
            self.leave_caches(cpu, prev);
        }
        if next != IDLE {
            self.enter_caches(cpu, next);
        }
    }

    /// Brings the footprint of `task` into the caches of `cpu`. This starts the task's reload,
    /// which takes time if bytes are missing.
    fn enter_caches(&mut self, cpu: CpuId, task: TaskId) {
        let t = &mut self.tasks[task];
        let f = &mut t.footprint;
        if f.bytes == 0 {
            return;
        }
        let cpu_info = &self.spec.topology.cpus[cpu.index()];
        let memory_ps = match f.home {
            NOWHERE => 0,
            _ => self.caches.memory_ps_of(cpu_info.node as usize, f),
        };
        let private = &mut self.caches.private[cpu_info.core as usize];
        let llc = &mut self.caches.llcs[cpu_info.llc as usize];
        f.into_private = f.bytes.min(private.size) - private.remains(cpu_info.core, &f.private).min(f.bytes);
        f.into_llc = f.bytes.min(llc.size) - llc.remains(cpu_info.llc, &f.llc).min(f.bytes);
        private.brought += f.into_private;
        llc.brought += f.into_llc;
        if f.home == NOWHERE {
            f.switched_at = self.now;
            return;
        }
        let llc_ps = u64::from(self.spec.costs.reload_llc_ps);
        let from_llc = f.into_private.saturating_sub(f.into_llc);
        f.reload_ns = (f.into_llc * memory_ps + from_llc * llc_ps) / 1000;
        let share = match f.bytes > private.size {
            true => self.memory.reload_share(f, memory_ps),
            false => WHOLE,
        };
        t.program.reload(f.reload_ns, share);
    }

    /// Sets the footprint of a new child. The child uses its parent's memory, which is shared or
    /// copied on write. This memory is in the caches of the CPU on which the parent runs.
    pub(crate) fn fork_footprint(&mut self, parent: TaskId, child: TaskId) {
        if !self.caches.active || parent == IDLE || !self.tasks[parent].on_cpu() {
            return;
        }
        let from = &self.tasks[parent];
        let (home, cpu, bytes) = (from.footprint.home, from.cpu(), from.footprint.bytes);
        let cpu_info = &self.spec.topology.cpus[cpu.index()];
        let home = if home == NOWHERE { cpu_info.node } else { home };
        let left = |cache: &Cache, number: u32, bytes: u64| Left {
            cache: number,
            bytes: bytes.min(cache.size),
            at: cache.brought,
        };
        let f = &mut self.tasks[child].footprint;
        let bytes = f.bytes.min(bytes);
        if bytes > 0 {
            f.home = home;
            f.private = left(&self.caches.private[cpu_info.core as usize], cpu_info.core, bytes);
            f.llc = left(&self.caches.llcs[cpu_info.llc as usize], cpu_info.llc, bytes);
        }
    }

    /// Replaces the footprint of the running task at exec. The memory of the new program has not
    /// been accessed yet.
    pub(crate) fn exec_footprint(&mut self, cpu: CpuId, task: TaskId) {
        if self.caches.active {
            self.leave_caches(cpu, task);
            let f = &mut self.tasks[task].footprint;
            *f = Footprint::new(f.bytes, f.touch_mbps);
            self.enter_caches(cpu, task);
            self.update_memory(cpu);
        }
    }

    /// Records how much of its footprint `task` leaves in the caches of `cpu` when it stops
    /// running. The part of its reload that was not completed does not count.
    fn leave_caches(&mut self, cpu: CpuId, task: TaskId) {
        let t = &mut self.tasks[task];
        let f = &mut t.footprint;
        if f.bytes == 0 {
            return;
        }
        let cpu_info = &self.spec.topology.cpus[cpu.index()];
        let private = &mut self.caches.private[cpu_info.core as usize];
        let llc = &mut self.caches.llcs[cpu_info.llc as usize];
        if f.home == NOWHERE && f.switched_at == self.now {
            // The task was moved before it ran, for example by load balancing at exec. It has not
            // accessed any memory.
            private.leave(cpu_info.core, 0, f.into_private);
            llc.leave(cpu_info.llc, 0, f.into_llc);
            return;
        }
        if f.home == NOWHERE {
            f.home = cpu_info.node;
        }
        let not_done = t.program.reload(0, WHOLE);
        self.caches.reload_ns += f.reload_ns - not_done;
        // Uses u128, because the product of a large footprint and a long reload in ns may not fit
        // into u64.
        let part = |bytes: u64| match f.reload_ns {
            0 => 0,
            ns => (u128::from(bytes) * u128::from(not_done) / u128::from(ns)) as u64,
        };
        let (undone_private, undone_llc) = (part(f.into_private), part(f.into_llc));
        f.private = private.leave(cpu_info.core, f.bytes.min(private.size), undone_private);
        f.llc = llc.leave(cpu_info.llc, f.bytes.min(llc.size), undone_llc);
        f.reload_ns = 0;
    }

    /// Returns the total time that tasks have spent on reloading caches, in ns. This includes the
    /// elapsed part of reloads that are in progress.
    pub fn reload_ns(&self) -> u64 {
        let running = self.rqs.iter().filter(|rq| rq.curr != IDLE).map(|rq| {
            let t = &self.tasks[rq.curr];
            t.footprint.reload_ns.saturating_sub(t.program.reload_left())
        });
        self.caches.reload_ns + running.sum::<u64>()
    }

    /// Returns the number and the cost of transfers of cache lines with kernel and policy data
    /// between CPUs.
    pub fn line_transfers(&self) -> cache::Transfers {
        self.region.lines().transfers()
    }

    /// Charges the current CPU for reading the cache line at the address `addr`.
    #[inline]
    pub(crate) fn read_line(&mut self, addr: u64) {
        // SAFETY: callers pass addresses of kernel objects, which lie in the machine's region.
        let ns = unsafe { self.region.lines().load(self.this_cpu.nr(), addr) };
        if ns > 0 {
            self.charge_here(ns);
        }
    }

    /// Charges the current CPU for writing to the cache line at the address `addr`.
    #[inline]
    pub(crate) fn write_line(&mut self, addr: u64) {
        // SAFETY: as in `read_line`.
        let ns = unsafe { self.region.lines().store(self.this_cpu.nr(), addr) };
        if ns > 0 {
            self.charge_here(ns);
        }
    }

    /// Charges the current CPU for writing a task's scheduling state. This state is in the first
    /// two cache lines of its task_struct.
    #[inline(always)]
    pub(crate) fn write_task(&mut self, task: TaskId) {
        let addr = self.tasks[task].addr();
        // SAFETY: the task_struct lies in the region and is larger than two cache lines.
        let ns = unsafe { self.region.lines().store_two(self.this_cpu.nr(), addr) };
        if ns > 0 {
            self.charge_here(ns);
        }
    }
}
