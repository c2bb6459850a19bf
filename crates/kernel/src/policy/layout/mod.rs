// SPDX-License-Identifier: GPL-2.0-only
//! Where the simulated kernel's objects lie in the region, and what is in them.
//!
//! Each struct is the Rust type and the BTF type at once, so a policy compiled against any kernel's headers is fitted to it.
//! A field or type of the kernel that is not here is not modelled: asking whether it exists says no, and touching it is an
//! error that names it. Among those that policies do ask for: `se.avg`,
//! `task_struct.sched_class`, `.signal`, `.thread_pid`, `.thread_node`, `.in_iowait`, cpufreq and PSI data, and sub-schedulers.
//!
//! What the core changes it writes through (`mirror_*`); what the region alone holds (`scx.slice`, `scx.dsq_vtime`, the
//! idle masks) the kernel reads from there. It can: programs store to the fields in [`WRITABLE`] alone.

mod cgroups;
pub mod enums;
mod mask;
mod object;
mod ops;
mod runqueue;
mod scx;
mod task;

pub use cgroups::*;
pub use mask::Mask;
pub use object::WRITABLE;
pub use ops::*;
pub use runqueue::*;
pub use scx::*;
pub use task::*;

use crate::machine::Machine;
use crate::sched::task::State;
use crate::simulation::id::{IDLE, TaskId};
use crate::simulation::table::Id;
use bpf::cache::Competitors;
use bpf::memory::{REACH, Region, Slab};
use machine::MachineSpec;
use workload::{Policy, Workload};

/// More tasks at a time than any run needs; only addresses are reserved.
pub(crate) const MAX_TASKS: u64 = 1 << 22;

/// Where things are.
pub struct Layout {
    nr_cpus: u32,
    /// By TaskId. The Slab's own free list is not used: slots are freed by the task table.
    tasks: Slab,
    /// By CPU: the idle tasks.
    idle: Slab,
    /// By CPU: `struct rq`.
    rqs: Slab,
    /// By TaskId of the process' first task: addresses that tell processes apart, nothing is there.
    mms: Slab,
    cgroups: CgroupObjects,
    cred: u64,
    /// Per-CPU pointers, all NULL: there is no cpufreq policy.
    pub cpufreq_cpu_data: u64,
    /// References that the policy holds, by TaskId.
    refs: Vec<u32>,
    pub possible: Mask,
    pub online: Mask,
    /// cpu_none_mask
    pub none: Mask,
    /// cpumask_of_node
    pub nodes: Vec<Mask>,
}

/// Bytes of a CPU mask that stands alone: as long as the longest the kernel knows, for policies that read all of it.
pub(crate) const MASK_BYTES: u64 = 1024;

impl Layout {
    /// # Errors
    /// If the machine or the workload's cgroups are too large for the memory of the simulated kernel.
    pub fn new(region: &Region, spec: &MachineSpec, workload: &Workload) -> Result<Layout, String> {
        let nr_cpus = spec.topology.nr_cpus();
        let task_bytes = size_of::<task_struct>() as u64 + u64::from(nr_cpus.div_ceil(64)) * 8;
        let mut masks = region.slab_of(&object::MASK, MASK_BYTES, 3 + spec.topology.nodes.len() as u64)?;
        let mut mask = |cpus: &mut dyn Iterator<Item = u32>| {
            let mask = Mask::at(region, alloc(&mut masks, region), nr_cpus);
            cpus.for_each(|cpu| mask.insert(cpu));
            mask
        };
        let mut layout = Layout {
            nr_cpus,
            tasks: region.slab_of(&object::TASK, task_bytes, MAX_TASKS)?,
            idle: region.slab_of(&object::TASK, task_bytes, u64::from(nr_cpus))?,
            rqs: region.slab_of(&object::RQ, size_of::<rq>() as u64, u64::from(nr_cpus))?,
            mms: region.slab(64, MAX_TASKS)?,
            cgroups: CgroupObjects::new(region, workload)?,
            cred: alloc(&mut region.slab(64, 1)?, region),
            cpufreq_cpu_data: region.zeros() - REACH,
            refs: Vec::new(),
            possible: mask(&mut (0..nr_cpus)),
            online: mask(&mut (0..nr_cpus)),
            none: mask(&mut std::iter::empty()),
            nodes: spec
                .topology
                .nodes
                .iter()
                .map(|cpus| mask(&mut cpus.iter().copied()))
                .collect(),
        };
        for slab in [&mut layout.idle, &mut layout.rqs] {
            for _ in 0..nr_cpus {
                alloc(slab, region);
            }
        }
        layout.cgroups.lay_out(region, workload);
        for cpu in 0..nr_cpus {
            layout.lay_out_cpu(region, cpu);
        }
        Ok(layout)
    }

    fn lay_out_cpu(&self, region: &Region, cpu: u32) {
        let idle_addr = self.idle.addr(cpu.into());
        // SAFETY: both were allocated just now, and each is borrowed once.
        let (idle, rq) = unsafe {
            (
                region.at::<task_struct>(idle_addr),
                region.at::<rq>(self.rqs.addr(cpu.into())),
            )
        };
        let swapper = self.idle.addr(0) as *mut task_struct;
        idle.thread_info.cpu = cpu;
        idle.flags = PF_IDLE | PF_KTHREAD;
        idle.on_cpu = 1;
        idle.on_rq = 1;
        idle.nr_cpus_allowed = 1;
        idle.prio = 120;
        idle.static_prio = 120;
        idle.normal_prio = 120;
        idle.se.load.weight = 1024 << 10;
        idle.numa_preferred_nid = -1;
        idle.real_parent = swapper;
        idle.parent = swapper;
        idle.group_leader = idle_addr as *mut task_struct;
        idle.cgroups = self.css_set_addr(0) as *mut css_set;
        idle.real_cred = self.cred as *mut cred;
        idle.cred = self.cred as *mut cred;
        idle.recent_used_cpu = cpu as i32;
        idle.wake_cpu = cpu as i32;
        set_comm(&mut idle.comm, &format!("swapper/{cpu}"));
        idle.cpus_ptr = cpus_mask(idle_addr) as *mut cpumask;
        rq.curr = idle_addr as *mut task_struct;
        rq.idle = idle_addr as *mut task_struct;
        rq.cpu = cpu as i32;
        rq.online = 1;
        rq.scx.cpuperf_target = enums::SCX_CPUPERF_ONE as u32;
        Mask::at(region, cpus_mask(idle_addr), self.nr_cpus).insert(cpu);
    }

    /// The lines of task_structs that the scheduler works on.
    pub fn hot_lines(&self) -> Competitors {
        Competitors {
            base: self.first_task_addr(),
            stride: self.task_stride(),
            count: MAX_TASKS,
            lines: 2,
        }
    }

    /// Address of the first task slot.
    pub fn first_task_addr(&self) -> u64 {
        self.tasks.addr(0)
    }

    /// Bytes from one task slot to the next.
    pub fn task_stride(&self) -> u64 {
        self.tasks.addr(1) - self.tasks.addr(0)
    }

    /// Where a task_struct is in the host's memory.
    #[inline]
    pub(crate) fn task_host(&self, task: TaskId) -> *mut task_struct {
        self.tasks.host(task.slot().into())
    }

    pub fn task_addr(&self, task: TaskId) -> u64 {
        self.tasks.addr(task.slot().into())
    }

    /// The policy takes a reference to a task: its slot is not used again before it is given back.
    pub fn get_task(&mut self, task: TaskId) {
        let needed = task.slot() as usize + 1;
        if self.refs.len() < needed {
            self.refs.resize(needed.next_power_of_two(), 0);
        }
        self.refs[task.slot() as usize] += 1;
    }

    /// It gives one back. `false`: it has none.
    #[must_use]
    pub fn put_task(&mut self, task: TaskId) -> bool {
        let refs = self.refs.get_mut(task.slot() as usize).filter(|refs| **refs > 0);
        refs.map(|refs| *refs -= 1).is_some()
    }

    /// It is gone, and its references with it: to which tasks it had some.
    pub fn forget_references(&mut self) -> Vec<TaskId> {
        self.forget_cgroup_references();
        let refs = std::mem::take(&mut self.refs).into_iter().enumerate();
        refs.filter(|&(_, refs)| refs > 0)
            .map(|(slot, _)| TaskId::new(slot))
            .collect()
    }

    /// Does the policy hold references to a task?
    pub fn task_held(&self, task: TaskId) -> bool {
        self.refs.get(task.slot() as usize).is_some_and(|&refs| refs > 0)
    }

    /// The idle task of a CPU.
    pub fn idle_addr(&self, cpu: u32) -> u64 {
        self.idle.addr(cpu.into())
    }

    pub fn rq_addr(&self, cpu: u32) -> u64 {
        self.rqs.addr(cpu.into())
    }

    /// Bytes from one CPU's `rq` to the next one's.
    pub fn rq_stride(&self) -> u64 {
        self.rqs.addr(1) - self.rqs.addr(0)
    }

    /// Bytes of a CPU mask that stands alone.
    pub(crate) fn mask_bytes(&self) -> usize {
        MASK_BYTES as usize
    }

    /// The CPU whose idle task is at this address.
    pub fn idle_from_addr(&self, addr: u64) -> Option<u32> {
        self.idle.index(addr).map(|cpu| cpu as u32)
    }
}

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
    pub fn idle_struct(&self, cpu: u32) -> &mut task_struct {
        // SAFETY: laid out at boot.
        unsafe { &mut *self.layout.idle.host(cpu.into()) }
    }

    /// What a policy sees of a runqueue.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn rq_struct(&self, cpu: u32) -> &mut rq {
        // SAFETY: laid out at boot.
        unsafe { &mut *self.layout.rqs.host(cpu.into()) }
    }

    /// Address of the task that runs on a CPU, its idle task included.
    #[inline]
    pub fn curr_addr(&self, cpu: u32) -> u64 {
        self.addr_of_task(self.rqs[cpu as usize].curr, cpu)
    }

    /// Address of a task's task_struct; of IDLE, that of `cpu`.
    #[inline]
    pub fn addr_of_task(&self, task: TaskId, cpu: u32) -> u64 {
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
    let swapper = m.layout.idle_addr(0);
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
    s.thread_info.cpu = cpu;
    s.wake_cpu = cpu as i32;
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

/// TASK_* as policies see them.
pub(crate) fn task_state(state: State) -> u32 {
    match state {
        State::Running => 0x0,
        State::Interruptible => 0x1,
        State::Uninterruptible => 0x2,
        State::Dead => 0x80,
    }
}

/// The CPU has switched from `prev` to `next`.
#[inline]
pub(crate) fn mirror_switch(m: &Machine, cpu: u32, prev: TaskId, next: TaskId) {
    let rq = m.rq_struct(cpu);
    rq.curr = m.addr_of_task(next, cpu) as *mut task_struct;
    rq.advance(m.now, m.rqs[cpu as usize].capacity, prev == IDLE);
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
    for cpu in 0..m.nr_cpus() {
        m.rq_struct(cpu).online = i32::from(m.online_cpus.contains(cpu));
    }
    mirror_cpusets(m);
}

/// A task has gone: its children belong to the init task now.
pub(crate) fn mirror_reparent(m: &Machine, dead: TaskId) {
    let (dead_addr, swapper) = (m.layout.task_addr(dead), m.layout.idle_addr(0));
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

fn cpus_mask(task: u64) -> u64 {
    task + std::mem::offset_of!(task_struct, cpus_mask) as u64
}

fn set_comm(to: &mut [i8; 16], comm: &str) {
    *to = [0; 16];
    for (to, byte) in to.iter_mut().zip(comm.bytes().take(15)) {
        *to = byte as i8;
    }
}

fn alloc(slab: &mut Slab, region: &Region) -> u64 {
    slab.alloc(region).expect("the kernel's own slabs are large enough")
}

#[cfg(test)]
mod tests;
