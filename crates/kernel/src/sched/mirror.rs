// SPDX-License-Identifier: GPL-2.0-only
//! Access to kernel objects in the region, the memory that BPF programs can read. The functions
//! `mirror_*` copy changes of the machine's state to `rq` and to masks.

use crate::layout::*;
use crate::machine::Machine;
use crate::sched::ext;
use crate::sched::state::task::State;
use crate::simulation::id::{CpuId, IDLE, TaskId};

impl Machine {
    /// Returns `p->scx` of a task.
    #[inline]
    pub(crate) fn scx_entity(&self, task: TaskId) -> &sched_ext_entity {
        &self.tasks[task].task_struct.scx
    }

    #[inline]
    pub(crate) fn scx_entity_mut(&mut self, task: TaskId) -> &mut sched_ext_entity {
        &mut self.tasks[task].task_struct.scx
    }

    /// Returns the address of the task_struct of the CPU's current task, which may be the idle
    /// task.
    #[inline]
    pub(crate) fn curr_addr(&self, cpu: CpuId) -> u64 {
        self.addr_of_task(self.rqs[cpu].curr, cpu)
    }

    /// Returns the address of a task's task_struct. For IDLE, this is the idle task of `cpu`.
    #[inline]
    pub(crate) fn addr_of_task(&self, task: TaskId, cpu: CpuId) -> u64 {
        if task == IDLE {
            self.layout.idle_addr(cpu)
        } else {
            self.layout.task_addr(task)
        }
    }

    /// Returns the task slot at an address that a policy has passed. The task may have exited.
    #[inline]
    pub(crate) fn task_index(&self, addr: u64) -> Option<TaskId> {
        self.tasks.id(self.layout.tasks.index(addr)? as usize)
    }

    /// Returns the task at an address that a policy has passed. Returns `None` for idle tasks, dead
    /// tasks and invalid addresses.
    #[inline]
    pub(crate) fn task_from_addr(&self, addr: u64) -> Option<TaskId> {
        let id = self.task_index(addr)?;
        (self.tasks[id].state() != State::Dead || self.tasks[id].on_cpu()).then_some(id)
    }

    /// Returns the mask `p->cpus_mask` of a task, which contains its affinity.
    #[inline]
    pub(crate) fn cpus_mask(&self, task: TaskId) -> Mask {
        let addr = cpus_mask(self.layout.task_addr(task));
        // SAFETY: the slot of a task has a task_struct, which ends with a mask for all CPUs.
        unsafe { Mask::at(&self.region, addr, self.nr_cpus()) }
    }

    /// Returns the mask to which `p->cpus_ptr` of a task points. It is the affinity, or only the
    /// task's CPU after a task with migration disabled was switched out.
    #[inline]
    pub(crate) fn cpus_ptr(&self, task: TaskId) -> Mask {
        let addr = self.tasks[task].task_struct.cpus_ptr as u64;
        // SAFETY: policies cannot write the pointer, which points to the mask in the task_struct or
        // to one of the masks of `Layout::cpumask_of`.
        unsafe { Mask::at(&self.region, addr, self.nr_cpus()) }
    }

    /// Updates the `rq` of a CPU after the CPU has switched from `prev` to `next`.
    #[inline]
    pub(crate) fn mirror_switch(&mut self, cpu: CpuId, prev: TaskId, next: TaskId) {
        let curr = self.addr_of_task(next, cpu);
        let rq = self.layout.rq_struct_mut(cpu);
        rq.curr = curr as *mut task_struct;
        rq.advance(self.now, self.rqs[cpu].known_capacity, prev == IDLE);
    }

    /// Updates cpu_online_mask and the threads of each core when a CPU has come online or has died.
    pub(crate) fn mirror_online(&mut self) {
        self.layout.online.copy_from(self.online_cpus.words());
        ext::idle::update_cores(self);
        self.mirror_active();
    }

    /// Updates the runqueues that are in a root domain, and the cpusets, when a CPU has come online or begins to
    /// go offline.
    pub(crate) fn mirror_active(&mut self) {
        for cpu in self.cpus() {
            self.layout.rq_struct_mut(cpu).online = i32::from(self.online_cpus.contains(cpu));
        }
        self.mirror_cpusets();
    }

    /// Gives the children of an exiting task to another thread of its process, or else to init_task
    /// (forget_original_parent).
    pub(crate) fn reparent_children(&mut self, exiting: TaskId) {
        let t = &self.tasks[exiting];
        if t.children == 0 && !t.is_parent {
            return;
        }
        let (tgid, addr) = (t.tgid(), t.addr());
        let mut threads = self.threads.range(u64::from(tgid) << 32..u64::from(tgid + 1) << 32);
        let reaper = threads.find_map(|&key| {
            let thread = self.find_task(key as u32)?;
            (self.tasks[thread].task_struct.flags & PF_EXITING == 0).then_some(thread)
        });
        let swapper = self.layout.idle_addr(CpuId::BOOT);
        let reaper_addr = reaper.map_or(swapper, |thread| {
            self.tasks[thread].is_parent = true;
            self.tasks[thread].addr()
        });
        for t in &mut self.tasks {
            if t.creator == exiting {
                t.creator = IDLE;
            }
            if t.task_struct.real_parent as u64 == addr {
                // A workload can name a thread of the same process as the parent, which is not so in Linux.
                let reaper = if t.tgid() == tgid { swapper } else { reaper_addr };
                t.task_struct.real_parent = reaper as *mut task_struct;
                t.task_struct.parent = t.task_struct.real_parent;
            }
        }
    }

    /// Updates the masks of all cpusets after a cpuset or the set of online CPUs has changed.
    pub(crate) fn mirror_cpusets(&mut self) {
        for cgroup in (0..self.layout.nr_cgroups()).filter(|&cgroup| self.cgroups.get(cgroup).online) {
            let [allowed, effective] = self.layout.cpuset_masks(&self.region, cgroup);
            match self.cpuset_cpus(cgroup) {
                Some(cpus) => allowed.copy_from(cpus.words()),
                None => (0..allowed.words()).for_each(|index| allowed.set_word(index, 0)),
            }
            effective.copy_from(self.effective_cpus(cgroup, &self.online_cpus).words());
        }
    }
}
