// SPDX-License-Identifier: GPL-2.0-only
//! Updates kernel objects when the state of the machine changes: task_struct, rq and masks. These
//! objects are in the region, the memory that BPF programs can read.

use super::*;
use crate::machine::Machine;
use crate::sched::task::State;
use crate::simulation::id::{CpuId, IDLE, TaskId};

impl Machine {
    /// Returns `p->scx` of a task.
    #[inline]
    pub fn scx_entity(&self, task: TaskId) -> &sched_ext_entity {
        &self.tasks[task].task_struct.scx
    }

    #[inline]
    pub(crate) fn scx_entity_mut(&mut self, task: TaskId) -> &mut sched_ext_entity {
        &mut self.tasks[task].task_struct.scx
    }

    /// Returns the address of the task_struct of the CPU's current task, which may be the idle
    /// task.
    #[inline]
    pub fn curr_addr(&self, cpu: CpuId) -> u64 {
        self.addr_of_task(self.rqs[cpu].curr, cpu)
    }

    /// Returns the address of a task's task_struct. For IDLE, this is the idle task of `cpu`.
    #[inline]
    pub fn addr_of_task(&self, task: TaskId, cpu: CpuId) -> u64 {
        if task == IDLE {
            self.layout.idle_addr(cpu)
        } else {
            self.layout.task_addr(task)
        }
    }

    /// Returns the task slot at an address that a policy has passed. The task may have exited.
    #[inline]
    pub fn task_index(&self, addr: u64) -> Option<TaskId> {
        self.tasks.id(self.layout.tasks.index(addr)? as usize)
    }

    /// Returns the task at an address that a policy has passed. Returns `None` for idle tasks, dead
    /// tasks and invalid addresses.
    #[inline]
    pub fn task_from_addr(&self, addr: u64) -> Option<TaskId> {
        let id = self.task_index(addr)?;
        (self.tasks[id].state() != State::Dead || self.tasks[id].on_cpu()).then_some(id)
    }

    /// Returns the mask `p->cpus_ptr` of a task.
    #[inline]
    pub fn cpus_ptr(&self, task: TaskId) -> Mask {
        Mask::at(&self.region, cpus_mask(self.layout.task_addr(task)), self.nr_cpus())
    }
}

/// Initializes those fields of a new task's task_struct that are copies of the machine's state.
pub(crate) fn mirror_task(m: &mut Machine, task: TaskId) {
    mirror_comm(m, task);
    mirror_cpus(m, task);
    mirror_cgroup(m, task);
}

/// Updates the task's name.
pub(crate) fn mirror_comm(m: &mut Machine, task: TaskId) {
    let t = &mut m.tasks[task];
    set_comm(&mut t.task_struct.comm, &t.comm);
}

/// Updates the task's name and flags after exec.
pub(crate) fn mirror_exec(m: &mut Machine, task: TaskId) {
    m.tasks[task].task_struct.flags &= !PF_FORKNOEXEC;
    mirror_comm(m, task);
}

/// Updates the allowed CPUs.
pub(crate) fn mirror_cpus(m: &mut Machine, task: TaskId) {
    m.cpus_ptr(task).copy_from(m.tasks[task].cpus.words());
}

/// Updates the task's cgroup.
pub(crate) fn mirror_cgroup(m: &mut Machine, task: TaskId) {
    let cgroup = m.tasks[task].cgroup;
    let css_set = m.layout.css_set_addr(cgroup);
    m.tasks[task].task_struct.cgroups = css_set as *mut css_set;
}

/// Updates the `rq` of a CPU after the CPU has switched from `prev` to `next`.
#[inline]
pub(crate) fn mirror_switch(m: &mut Machine, cpu: CpuId, prev: TaskId, next: TaskId) {
    let curr = m.addr_of_task(next, cpu);
    let rq = m.layout.rq_struct_mut(cpu);
    rq.curr = curr as *mut task_struct;
    rq.advance(m.now, m.rqs[cpu].capacity, prev == IDLE);
}

/// Updates the masks of online CPUs and the cpusets after CPU hotplug.
pub(crate) fn mirror_online(m: &mut Machine) {
    m.layout.online.copy_from(m.online_cpus.words());
    for cpu in m.cpus() {
        m.layout.rq_struct_mut(cpu).online = i32::from(m.online_cpus.contains(cpu));
    }
    mirror_cpusets(m);
}

/// Makes init_task the parent of the children of a dead task.
pub(crate) fn mirror_reparent(m: &mut Machine, dead: TaskId) {
    let (dead_addr, swapper) = (m.layout.task_addr(dead), m.layout.idle_addr(CpuId::BOOT));
    let pid = m.tasks[dead].pid;
    for t in m.tasks.iter_mut().filter(|t| t.parent == pid) {
        if t.state() != State::Dead {
            let s = &mut *t.task_struct;
            for parent in [&mut s.real_parent, &mut s.parent] {
                if *parent as u64 == dead_addr {
                    *parent = swapper as *mut task_struct;
                }
            }
        }
    }
}

/// Updates the masks of all cpusets after a cpuset or the set of online CPUs has changed.
pub(crate) fn mirror_cpusets(m: &mut Machine) {
    for cgroup in (0..m.layout.nr_cgroups()).filter(|&cgroup| m.cgroups.get(cgroup).online) {
        let [allowed, effective] = m.layout.cpuset_masks(&m.region, cgroup);
        match m.cpuset_cpus(cgroup) {
            Some(cpus) => allowed.copy_from(cpus.words()),
            None => (0..allowed.words()).for_each(|index| allowed.set_word(index, 0)),
        }
        effective.copy_from(m.effective_cpus(cgroup, &m.online_cpus).words());
    }
}
