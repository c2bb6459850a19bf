// SPDX-License-Identifier: GPL-2.0-only
//! Updates kernel objects when the state of the machine changes: task_struct, rq and masks. These
//! objects are in the region, the memory that BPF programs can read.

use super::*;
use crate::machine::Machine;
use crate::sched::task::State;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use workload::Policy;

impl Machine {
    /// Returns `p->scx` of a task.
    #[inline]
    pub fn scx_entity(&self, task: TaskId) -> &sched_ext_entity {
        &self.layout.task_struct(task).scx
    }

    #[inline]
    pub(crate) fn scx_entity_mut(&mut self, task: TaskId) -> &mut sched_ext_entity {
        &mut self.layout.task_struct_mut(task).scx
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
        (self.tasks[id].state != State::Dead || self.tasks[id].on_cpu).then_some(id)
    }

    /// Returns the mask `p->cpus_ptr` of a task.
    #[inline]
    pub fn cpus_ptr(&self, task: TaskId) -> Mask {
        Mask::at(&self.region, cpus_mask(self.layout.task_addr(task)), self.nr_cpus())
    }
}

/// Initializes the task_struct of a new task and sets `Task::addr`.
pub(crate) fn mirror_task(m: &mut Machine, task: TaskId) {
    let layout = &mut m.layout;
    let addr = layout.task_addr(task);
    match layout.tasks.index(addr) {
        // SAFETY: zero is a valid value of every field.
        Some(_) => *layout.task_struct_mut(task) = unsafe { std::mem::zeroed() },
        None => assert_eq!(
            alloc(&mut layout.tasks, &m.region),
            addr,
            "the task_structs of new slots are allocated in the order of the slots"
        ),
    }
    m.tasks[task].addr = addr;
    let t = &m.tasks[task];
    let swapper = m.layout.idle_addr(CpuId::BOOT);
    let parent = m
        .find_task(t.parent)
        .map_or(swapper, |parent| m.layout.task_addr(parent));
    let leader = if t.tgid == t.pid {
        task
    } else {
        m.find_task(t.tgid).unwrap_or(task)
    };
    let now = m.now;
    let leader_addr = m.layout.task_addr(leader);
    // Kernel threads have no address space.
    let mm = match is_kthread(t.flags) {
        true => 0,
        false => m.layout.mms.addr(leader.slot().into()),
    };
    let cred = m.layout.cred as *mut cred;
    let s = m.layout.task_struct_mut(task);
    s.pid = t.pid as i32;
    s.tgid = t.tgid as i32;
    s.flags = t.flags | PF_FORKNOEXEC;
    s.cpus_ptr = cpus_mask(addr) as *mut cpumask;
    s.migration_disabled = t.migration_disabled as u16;
    s.numa_preferred_nid = -1;
    s.real_parent = parent as *mut task_struct;
    s.parent = parent as *mut task_struct;
    s.group_leader = leader_addr as *mut task_struct;
    s.mm = mm as *mut mm_struct;
    s.real_cred = cred;
    s.cred = cred;
    s.start_time = now;
    s.start_boottime = now;
    s.scx.tid = u64::from(t.pid);
    s.scx.sticky_cpu = -1;
    s.scx.holding_cpu = -1;
    s.scx.selected_cpu = -1;
    s.scx.slice = enums::SCX_SLICE_DFL;
    mirror_comm(m, task);
    mirror_params(m, task);
    mirror_cpus(m, task);
    mirror_cpu(m, task);
    mirror_cgroup(m, task);
}

/// Updates the task's name.
pub(crate) fn mirror_comm(m: &mut Machine, task: TaskId) {
    set_comm(&mut m.layout.task_struct_mut(task).comm, &m.tasks[task].comm);
}

/// Updates the task's name and flags after exec.
pub(crate) fn mirror_exec(m: &mut Machine, task: TaskId) {
    m.layout.task_struct_mut(task).flags &= !PF_FORKNOEXEC;
    mirror_comm(m, task);
}

/// Updates a task's scheduling policy, nice value, rt_priority and weight.
pub(crate) fn mirror_params(m: &mut Machine, task: TaskId) {
    let t = &m.tasks[task];
    let s = m.layout.task_struct_mut(task);
    s.prio = t.prio();
    s.normal_prio = t.prio();
    s.static_prio = t.static_prio;
    s.rt_priority = match t.policy {
        Policy::Deadline => 0,
        _ => t.rt_priority,
    };
    s.policy = match t.policy {
        Policy::Normal { .. } => 0,
        Policy::Fifo { .. } => 1,
        Policy::Deadline => 6,
        Policy::RoundRobin { .. } => 2,
        Policy::Batch { .. } => 3,
        Policy::Idle => 5,
        Policy::Ext { .. } => 7,
    };
    s.se.load.weight = u64::from(t.weight) << 10;
}

/// Updates the allowed CPUs.
pub(crate) fn mirror_cpus(m: &mut Machine, task: TaskId) {
    m.cpus_ptr(task).copy_from(m.tasks[task].cpus.words());
    m.layout.task_struct_mut(task).nr_cpus_allowed = m.tasks[task].nr_cpus_allowed as i32;
}

/// Updates the task's CPU.
pub(crate) fn mirror_cpu(m: &mut Machine, task: TaskId) {
    let cpu = m.tasks[task].cpu;
    let s = m.layout.task_struct_mut(task);
    s.recent_used_cpu = s.thread_info.cpu as i32;
    s.thread_info.cpu = cpu.nr();
    s.wake_cpu = cpu.nr() as i32;
}

/// Updates the task's cgroup.
pub(crate) fn mirror_cgroup(m: &mut Machine, task: TaskId) {
    let cgroup = m.tasks[task].cgroup;
    let css_set = m.layout.css_set_addr(cgroup);
    m.layout.task_struct_mut(task).cgroups = css_set as *mut css_set;
}

/// Updates the task's CPU time.
#[inline]
pub(crate) fn mirror_runtime(m: &mut Machine, task: TaskId) {
    let s = m.layout.task_struct_mut(task);
    s.se.sum_exec_runtime = m.tasks[task].sum_exec_runtime;
    s.utime = s.se.sum_exec_runtime;
}

/// Updates the PF_* flags after a change of `Task::flags`.
pub(crate) fn mirror_flags(m: &mut Machine, task: TaskId) {
    let s = m.layout.task_struct_mut(task);
    s.flags = m.tasks[task].flags | s.flags & PF_FORKNOEXEC;
}

/// Updates `__state` and `on_rq` after a task was woken or went to sleep.
#[inline]
pub(crate) fn mirror_state(m: &mut Machine, task: TaskId) {
    let t = &m.tasks[task];
    let s = m.layout.task_struct_mut(task);
    s.__state = task_state(t.state);
    s.on_rq = i32::from(t.on_rq);
    // The task begins to wait for a CPU (sched_info_enqueue()).
    if t.on_rq && s.on_cpu == 0 && s.sched_info.last_queued == 0 {
        s.sched_info.last_queued = m.now;
    }
}

/// Updates the current task and the statistics after `cpu` has switched from `prev` to `next`.
#[inline]
pub(crate) fn mirror_switch(m: &mut Machine, cpu: CpuId, prev: TaskId, next: TaskId) {
    let curr = m.addr_of_task(next, cpu);
    let rq = m.layout.rq_struct_mut(cpu);
    rq.curr = curr as *mut task_struct;
    rq.advance(m.now, m.rqs[cpu].capacity, prev == IDLE);
    if prev != IDLE {
        let s = m.layout.task_struct_mut(prev);
        s.on_cpu = 0;
        let counter = if m.tasks[prev].runnable() {
            &mut s.nivcsw
        } else {
            &mut s.nvcsw
        };
        *counter = counter.wrapping_add(1);
        mirror_state(m, prev);
    }
    if next != IDLE {
        let s = m.layout.task_struct_mut(next);
        s.on_cpu = 1;
        s.on_rq = 1;
        s.__state = 0;
        let info = &mut s.sched_info;
        if info.last_queued != 0 {
            // The calculation wraps around. The policy may have written any value to these fields,
            // and no value may cause a panic.
            info.run_delay = info.run_delay.wrapping_add(m.now.wrapping_sub(info.last_queued));
            info.last_queued = 0;
        }
        info.pcount = info.pcount.wrapping_add(1);
    }
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
    for (child, t) in m.tasks.numbered().filter(|(_, t)| t.parent == pid) {
        if t.state != State::Dead {
            let s = m.layout.task_struct_mut(child);
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
