// SPDX-License-Identifier: GPL-2.0-only
//! Keeps what a policy sees up to date: task_struct, rq and masks in the region.

use super::*;
use crate::machine::Machine;
use crate::sched::task::State;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use workload::Policy;

impl Machine {
    /// What a policy sees of a task; IDLE has one per CPU, see [`Machine::idle_struct`].
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn task_struct(&self, task: TaskId) -> &mut task_struct {
        debug_assert_ne!(task, IDLE);
        // SAFETY: laid out when the slot was filled; borrows of it do not outlive a statement.
        unsafe { &mut *self.layout.task_host(task) }
    }

    /// `p->scx` of a task.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn scx_entity(&self, task: TaskId) -> &mut sched_ext_entity {
        &mut self.task_struct(task).scx
    }

    /// The idle task of a CPU.
    #[allow(clippy::mut_from_ref)]
    pub fn idle_struct(&self, cpu: CpuId) -> &mut task_struct {
        // SAFETY: laid out at boot.
        unsafe { &mut *self.layout.idle.host(cpu.into()) }
    }

    /// What a policy sees of a runqueue.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn rq_struct(&self, cpu: CpuId) -> &mut rq {
        // SAFETY: laid out at boot.
        unsafe { &mut *self.layout.rqs.host(cpu.into()) }
    }

    /// Address of the task that runs on a CPU, its idle task included.
    #[inline]
    pub fn curr_addr(&self, cpu: CpuId) -> u64 {
        self.addr_of_task(self.rqs[cpu].curr, cpu)
    }

    /// Address of a task's task_struct; of IDLE, that of `cpu`.
    #[inline]
    pub fn addr_of_task(&self, task: TaskId, cpu: CpuId) -> u64 {
        if task == IDLE {
            self.layout.idle_addr(cpu)
        } else {
            self.layout.task_addr(task)
        }
    }

    /// The task slot at an address that a policy gave, whatever lives in it.
    #[inline]
    pub fn task_index(&self, addr: u64) -> Option<TaskId> {
        self.tasks.id(self.layout.tasks.index(addr)? as usize)
    }

    /// The task whose task_struct is at an address that a policy gave; `None` for idle tasks and for anything else.
    #[inline]
    pub fn task_from_addr(&self, addr: u64) -> Option<TaskId> {
        let id = self.task_index(addr)?;
        (self.tasks[id].state != State::Dead || self.tasks[id].on_cpu).then_some(id)
    }

    /// The CPUs of `p->cpus_ptr`.
    #[inline]
    pub fn cpus_ptr(&self, task: TaskId) -> Mask {
        Mask::at(&self.region, cpus_mask(self.layout.task_addr(task)), self.nr_cpus())
    }
}

/// A task slot was filled: lays out its task_struct. Sets `Task::addr`.
pub(crate) fn mirror_task(m: &mut Machine, task: TaskId) {
    let layout = &mut m.layout;
    let addr = layout.task_addr(task);
    match layout.tasks.index(addr) {
        // SAFETY: an object of the slab; nobody borrows it now.
        Some(_) => unsafe { std::ptr::write_bytes(layout.task_host(task), 0, 1) },
        None => assert_eq!(
            alloc(&mut layout.tasks, &m.region),
            addr,
            "task slots are filled in order"
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
    let (layout, now) = (&m.layout, m.now);
    let s = m.task_struct(task);
    s.pid = t.pid as i32;
    s.tgid = t.tgid as i32;
    s.flags = t.flags | PF_FORKNOEXEC;
    s.cpus_ptr = cpus_mask(addr) as *mut cpumask;
    s.migration_disabled = t.migration_disabled as u16;
    s.numa_preferred_nid = -1;
    s.real_parent = parent as *mut task_struct;
    s.parent = parent as *mut task_struct;
    s.group_leader = layout.task_addr(leader) as *mut task_struct;
    s.mm = layout.mms.addr(leader.slot().into()) as *mut mm_struct;
    s.real_cred = layout.cred as *mut cred;
    s.cred = layout.cred as *mut cred;
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

/// The task has a new name.
pub(crate) fn mirror_comm(m: &Machine, task: TaskId) {
    set_comm(&mut m.task_struct(task).comm, &m.tasks[task].comm);
}

/// The task became another program: its name, and it has exec'ed.
pub(crate) fn mirror_exec(m: &Machine, task: TaskId) {
    m.task_struct(task).flags &= !PF_FORKNOEXEC;
    mirror_comm(m, task);
}

/// Policy, nice or rt_priority changed.
pub(crate) fn mirror_params(m: &Machine, task: TaskId) {
    let t = &m.tasks[task];
    let s = m.task_struct(task);
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

/// The allowed CPUs changed.
pub(crate) fn mirror_cpus(m: &Machine, task: TaskId) {
    m.cpus_ptr(task).copy_from(m.tasks[task].cpus.words());
    m.task_struct(task).nr_cpus_allowed = m.tasks[task].nr_cpus_allowed as i32;
}

/// The task is on another CPU now.
pub(crate) fn mirror_cpu(m: &Machine, task: TaskId) {
    let cpu = m.tasks[task].cpu;
    let s = m.task_struct(task);
    s.recent_used_cpu = s.thread_info.cpu as i32;
    s.thread_info.cpu = cpu.nr();
    s.wake_cpu = cpu.nr() as i32;
}

/// The task is in another cgroup now.
pub(crate) fn mirror_cgroup(m: &Machine, task: TaskId) {
    let cgroup = m.tasks[task].cgroup;
    m.task_struct(task).cgroups = m.layout.css_set_addr(cgroup) as *mut css_set;
}

/// CPU time was attributed to the task.
#[inline]
pub(crate) fn mirror_runtime(m: &Machine, task: TaskId) {
    let s = m.task_struct(task);
    s.se.sum_exec_runtime = m.tasks[task].sum_exec_runtime;
    s.utime = s.se.sum_exec_runtime;
}

/// PF_* were changed in `Task::flags`.
pub(crate) fn mirror_flags(m: &Machine, task: TaskId) {
    let s = m.task_struct(task);
    s.flags = m.tasks[task].flags | s.flags & PF_FORKNOEXEC;
}

/// `__state` and `on_rq` of a task: a wake-up, or going to sleep.
#[inline]
pub(crate) fn mirror_state(m: &Machine, task: TaskId) {
    let t = &m.tasks[task];
    let s = m.task_struct(task);
    s.__state = task_state(t.state);
    s.on_rq = i32::from(t.on_rq);
    // sched_info_enqueue: it waits for a CPU from now on.
    if t.on_rq && s.on_cpu == 0 && s.sched_info.last_queued == 0 {
        s.sched_info.last_queued = m.now;
    }
}

/// The CPU has switched from `prev` to `next`.
#[inline]
pub(crate) fn mirror_switch(m: &Machine, cpu: CpuId, prev: TaskId, next: TaskId) {
    let rq = m.rq_struct(cpu);
    rq.curr = m.addr_of_task(next, cpu) as *mut task_struct;
    rq.advance(m.now, m.rqs[cpu].capacity, prev == IDLE);
    if prev != IDLE {
        let s = m.task_struct(prev);
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
        let s = m.task_struct(next);
        s.on_cpu = 1;
        s.on_rq = 1;
        s.__state = 0;
        let info = &mut s.sched_info;
        if info.last_queued != 0 {
            // A policy may have written here.
            info.run_delay = info.run_delay.wrapping_add(m.now.wrapping_sub(info.last_queued));
            info.last_queued = 0;
        }
        info.pcount = info.pcount.wrapping_add(1);
    }
}

/// CPUs went online or offline.
pub(crate) fn mirror_online(m: &Machine) {
    m.layout.online.copy_from(m.online_cpus.words());
    for cpu in m.cpus() {
        m.rq_struct(cpu).online = i32::from(m.online_cpus.contains(cpu));
    }
    mirror_cpusets(m);
}

/// A task has gone: its children belong to the init task now.
pub(crate) fn mirror_reparent(m: &Machine, dead: TaskId) {
    let (dead_addr, swapper) = (m.layout.task_addr(dead), m.layout.idle_addr(CpuId::BOOT));
    for (child, t) in m.tasks.numbered().filter(|(_, t)| t.parent == m.tasks[dead].pid) {
        if t.state != State::Dead {
            let s = m.task_struct(child);
            for parent in [&mut s.real_parent, &mut s.parent] {
                if *parent as u64 == dead_addr {
                    *parent = swapper as *mut task_struct;
                }
            }
        }
    }
}

/// The cpuset of some cgroup, or what is online, has changed.
pub(crate) fn mirror_cpusets(m: &Machine) {
    for cgroup in (0..m.layout.nr_cgroups()).filter(|&cgroup| m.cgroups.get(cgroup).online) {
        let [allowed, effective] = m.layout.cpuset_masks(&m.region, cgroup);
        match m.cpus_of_cpuset(cgroup) {
            Some(cpus) => allowed.copy_from(cpus.words()),
            None => (0..allowed.words()).for_each(|index| allowed.set_word(index, 0)),
        }
        effective.copy_from(m.effective_cpus(cgroup, &m.online_cpus).words());
    }
}
