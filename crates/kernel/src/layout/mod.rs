// SPDX-License-Identifier: GPL-2.0-only
//! The types and addresses of the simulated kernel's objects in the region.
//!
//! Each struct is defined once. The definition yields a Rust type and a BTF type. With the BTF
//! type, an object that was compiled with the headers of any kernel can be relocated to these
//! structs.
//!
//! Kernel types and fields that are missing here are not modelled. A CO-RE existence check for such
//! a field is false. An access to the field is an error whose message contains the field's name.
//! The following fields are used by some policies but not modelled: `se.avg`,
//! `task_struct.sched_class`, `.signal`, `.thread_pid`, `.thread_node`, data of cpufreq and PSI, and
//! sub-schedulers.
//!
//! The state of tasks and the idle masks exist only in these objects. The simulated core can rely
//! on this state, because programs can write only the fields in [`WRITABLE`]. The core copies
//! changes of other state, such as the current task of a CPU, to these objects (functions
//! `mirror_*`).

pub use crate::layout::cgroups::*;
pub(crate) use crate::layout::mask::Mask;
pub use crate::layout::object::WRITABLE;
pub use crate::layout::ops::*;
pub use crate::layout::runqueue::*;
pub use crate::layout::scx::*;
pub use crate::layout::task::*;
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::{CpuId, TaskId};
use crate::simulation::table::Id;
use bpf::cache::Competitors;
use bpf::error::Error;
use bpf::memory::{Owned, REACH, Region, Slab};
use machine::MachineSpec;
use std::collections::{BTreeMap, BTreeSet};
use workload::{Op, Workload};

pub mod callbacks;
mod cgroups;
pub mod enums;
mod mask;
pub(crate) mod object;
mod ops;
pub mod release;
mod runqueue;
mod scx;
mod task;

/// Maximum number of tasks at a time, the same as in Linux (PID_MAX_LIMIT in
/// include/linux/threads.h). Only address space is reserved for the tasks, so it costs no memory. Miri has
/// a small area of kernel objects, so there are fewer tasks.
pub(crate) const MAX_TASKS: u64 = if cfg!(miri) { 1 << 12 } else { 1 << 22 };

/// Pid of the kernel thread that enables policies: the largest one, which no task of a workload gets.
pub(crate) const ENABLE_HELPER_PID: u32 = MAX_TASKS as u32 - 1;

/// Name of this kernel thread (scx_enable() in kernel/sched/ext/ext.c, Linux 7.3).
pub(crate) const ENABLE_HELPER_COMM: &str = "scx_enable_helper";

/// Maximum number of DSQs whose `scx_dispatch_q` a policy can see. Only address space is reserved.
const MAX_DSQS: u64 = if cfg!(miri) { 1 << 10 } else { 1 << 20 };

/// Performance level of a CPU at full speed (SCHED_CAPACITY_SCALE).
pub(crate) const SCHED_CAPACITY_SCALE: u64 = 1024;

/// Addresses of the kernel's objects, and the references that the policy holds to them.
pub struct Layout {
    nr_cpus: u32,
    /// The task_struct of each task, by TaskId. The slab's own list of free objects is not used,
    /// because the table of tasks manages the slots.
    pub(crate) tasks: Slab,
    /// The task_struct of each idle task, by CPU.
    idle: Slab,
    /// The task_struct of the kernel thread that enables policies.
    enable_helper: Slab,
    /// The `struct rq` of each CPU.
    rqs: Slab,
    /// The mm_struct of each process, by the TaskId of the process's first task. Only the addresses
    /// are used, to distinguish address spaces. After exec(), it is the other half of the object.
    mms: Slab,
    cgroups: CgroupObjects,
    cred: u64,
    /// The credentials of users other than root, by user id.
    creds: BTreeMap<u32, u64>,
    /// The scx_dispatch_q of each DSQ, by `Dsqs::slot`. `None` unless a policy reads `scx.dsq`.
    dsqs: Option<Slab>,
    /// For each CPU, a mask that contains only this CPU (cpumask_of()). Empty if no task of the
    /// workload disables migration.
    single: Vec<Mask>,
    /// The per-CPU pointers to cpufreq policies, which are all NULL.
    pub cpufreq_cpu_data: u64,
    /// Number of references that the policy holds to each task, by TaskId.
    refs: Vec<u64>,
    pub(crate) possible: Mask,
    pub(crate) online: Mask,
    /// The mask `cpu_none_mask`.
    pub(crate) none: Mask,
    /// The CPUs of each node (cpumask_of_node()).
    pub(crate) nodes: Vec<Mask>,
}

/// Size in bytes of a CPU mask that is not part of another object. It is the maximum size in the
/// kernel, because policies may read the whole mask.
pub(crate) const MASK_BYTES: u64 = 1024;

impl Layout {
    /// Creates all kernel objects of a machine. The task_struct of a task is created later,
    /// together with the task.
    ///
    /// # Errors
    /// If there are too many CPUs or cgroups for the memory of the simulated kernel.
    pub(crate) fn new(region: &Region, spec: &MachineSpec, workload: &Workload) -> Result<Layout, Error> {
        let nr_cpus = spec.topology.nr_cpus();
        let task_bytes = size_of::<task_struct>() as u64 + u64::from(nr_cpus.div_ceil(64)) * 8;
        let mut masks = region.slab(&object::MASK, MASK_BYTES, 3 + spec.topology.nodes.len() as u64)?;
        let mut mask = |cpus: &CpuSet| {
            let mask = new_mask(&mut masks, region, nr_cpus);
            mask.copy_from(cpus.words());
            mask
        };
        let mut layout = Layout {
            nr_cpus,
            tasks: region.slab(&object::TASK, task_bytes, MAX_TASKS)?,
            idle: region.slab(&object::TASK, task_bytes, u64::from(nr_cpus))?,
            rqs: region.slab(&object::RQ, size_of::<rq>() as u64, u64::from(nr_cpus))?,
            mms: region.slab(&object::MM, 64, MAX_TASKS)?,
            cgroups: CgroupObjects::new(region, workload)?,
            cred: alloc(&mut region.slab(&object::CRED, 64, 1)?, region),
            creds: BTreeMap::new(),
            dsqs: None,
            enable_helper: region.slab(&object::TASK, task_bytes, 1)?,
            single: Vec::new(),
            cpufreq_cpu_data: region.zeros() - REACH,
            refs: Vec::new(),
            possible: mask(&CpuSet::all(nr_cpus)),
            online: mask(&CpuSet::all(nr_cpus)),
            none: mask(&CpuSet::empty(nr_cpus)),
            nodes: spec
                .topology
                .nodes
                .iter()
                .map(|cpus| mask(&CpuSet::from_cpus(nr_cpus, cpus)))
                .collect(),
        };
        alloc(&mut layout.enable_helper, region);
        for slab in [&mut layout.idle, &mut layout.rqs] {
            for _ in 0..nr_cpus {
                alloc(slab, region);
            }
        }
        layout.cgroups.lay_out(region, workload);
        layout.lay_out_creds(region, workload)?;
        if workload
            .programs
            .iter()
            .any(|program| program.ops.contains(&Op::MigrateDisable))
        {
            let mut masks = region.slab(&object::MASK, MASK_BYTES, nr_cpus.into())?;
            for cpu in CpuSet::all(nr_cpus).iter() {
                let mask = new_mask(&mut masks, region, nr_cpus);
                mask.insert(cpu);
                layout.single.push(mask);
            }
        }
        for cpu in CpuSet::all(nr_cpus).iter() {
            layout.lay_out_cpu(region, cpu);
        }
        layout.lay_out_enable_helper(region);
        Ok(layout)
    }

    /// Creates the credentials of the users that the workload names.
    fn lay_out_creds(&mut self, region: &Region, workload: &Workload) -> Result<(), Error> {
        let users = workload.tasks.iter().filter_map(|task| task.attributes.uid);
        let users: BTreeSet<u32> = users.filter(|&uid| uid != 0).collect();
        if users.is_empty() {
            return Ok(());
        }
        let mut slab = region.slab(&object::CRED, 64, users.len() as u64)?;
        for uid in users {
            let addr = alloc(&mut slab, region);
            // SAFETY: the object was just allocated, is large enough, and is borrowed once.
            let cred = unsafe { &mut *region.host::<cred>(addr) };
            cred.uid = kuid { val: uid };
            cred.euid = kuid { val: uid };
            cred.gid = kgid { val: uid };
            cred.egid = kgid { val: uid };
            self.creds.insert(uid, addr);
        }
        Ok(())
    }

    /// Returns the address of a user's credentials. The workload contains the user, or it is root.
    pub(crate) fn cred_addr(&self, uid: u32) -> u64 {
        self.creds.get(&uid).copied().unwrap_or(self.cred)
    }

    /// Returns the mask that contains only `cpu`, or `None` if no task disables migration.
    pub(crate) fn cpumask_of(&self, cpu: CpuId) -> Option<Mask> {
        self.single.get(cpu.index()).copied()
    }

    /// Initializes the idle task and the `rq` of a CPU.
    fn lay_out_cpu(&mut self, region: &Region, cpu: CpuId) {
        let idle_addr = self.idle.addr(cpu.into());
        // SAFETY: both objects were just allocated, and `self`, which owns them, is borrowed
        // exclusively.
        let (idle, rq) = unsafe {
            (
                &mut *self.idle.host::<task_struct>(cpu.into()),
                &mut *self.rqs.host::<rq>(cpu.into()),
            )
        };
        self.lay_out_kernel_task(idle, idle_addr, cpu);
        idle.flags |= PF_IDLE;
        idle.on_cpu = 1;
        idle.nr_cpus_allowed = 1;
        idle.prio = 120;
        idle.static_prio = 120;
        idle.normal_prio = 120;
        set_comm(&mut idle.comm, &format!("swapper/{cpu}"));
        rq.curr = idle_addr as *mut task_struct;
        rq.idle = idle_addr as *mut task_struct;
        rq.cpu = cpu.nr() as i32;
        rq.online = 1;
        rq.scx.cpuperf_target = enums::SCX_CPUPERF_ONE as u32;
        // SAFETY: the task_struct ends with a mask for all CPUs, and `idle` is not used any more.
        unsafe { Mask::at(region, cpus_mask(idle_addr), self.nr_cpus) }.insert(cpu);
    }

    /// Sets the fields that are equal in all tasks of the kernel itself.
    fn lay_out_kernel_task(&self, task: &mut task_struct, addr: u64, cpu: CpuId) {
        let swapper = self.idle.addr(0) as *mut task_struct;
        task.thread_info.cpu = cpu.nr();
        task.flags = PF_KTHREAD;
        task.on_rq = 1;
        task.se.load.weight = 1024 << 10;
        task.numa_preferred_nid = -1;
        task.real_parent = swapper;
        task.parent = swapper;
        task.group_leader = addr as *mut task_struct;
        task.cgroups = self.css_set_addr(0) as *mut css_set;
        task.real_cred = self.cred as *mut cred;
        task.cred = self.cred as *mut cred;
        task.recent_used_cpu = cpu.nr() as i32;
        task.wake_cpu = cpu.nr() as i32;
        task.cpus_ptr = cpus_mask(addr) as *mut cpumask;
    }

    /// Initializes the task_struct of the kernel thread that enables policies: a SCHED_FIFO task with
    /// priority 50 (sched_set_fifo()) in the root cgroup, which may use all CPUs.
    ///
    /// It exists for policies that look up the current task while they are enabled. The simulator
    /// does not schedule it, and calls no ops.init_task() for it.
    fn lay_out_enable_helper(&mut self, region: &Region) {
        let addr = self.enable_helper_addr();
        // SAFETY: the object was just allocated, and `self`, which owns it, is borrowed exclusively.
        let task = unsafe { &mut *self.enable_helper.host::<task_struct>(0) };
        self.lay_out_kernel_task(task, addr, CpuId::BOOT);
        task.pid = ENABLE_HELPER_PID as i32;
        task.tgid = ENABLE_HELPER_PID as i32;
        task.nr_cpus_allowed = self.nr_cpus as i32;
        task.policy = SCHED_FIFO;
        task.prio = 49;
        task.static_prio = 120;
        task.normal_prio = 49;
        task.rt_priority = 50;
        set_comm(&mut task.comm, ENABLE_HELPER_COMM);
        // SAFETY: as in `lay_out_cpu`.
        let mask = unsafe { Mask::at(region, cpus_mask(addr), self.nr_cpus) };
        mask.copy_from(CpuSet::all(self.nr_cpus).words());
    }

    /// Returns the address of the task_struct of the kernel thread that enables policies.
    pub(crate) fn enable_helper_addr(&self) -> u64 {
        self.enable_helper.addr(0)
    }

    /// Returns the cache lines of task_structs that the scheduler uses most: the first two of each
    /// task_struct.
    pub fn hot_lines(&self) -> Competitors {
        Competitors {
            base: self.first_task_addr(),
            stride: self.task_stride(),
            count: MAX_TASKS,
            lines: 2,
        }
    }

    /// Returns the address of the first task slot.
    pub fn first_task_addr(&self) -> u64 {
        self.tasks.addr(0)
    }

    /// Returns the distance between two consecutive task slots in bytes.
    pub fn task_stride(&self) -> u64 {
        self.tasks.addr(1) - self.tasks.addr(0)
    }

    /// Creates the task_struct of a new task, and sets all fields that do not depend on the state
    /// of the task. `leader` is the first task of the task's process. `parent` is `None` if the
    /// workload itself starts the task.
    ///
    /// # Safety
    /// `region` is the machine's region and outlives the owner. The slot `task` is new, or its
    /// previous task is dead and its owner is not used any more.
    pub(crate) unsafe fn new_task_struct(
        &mut self,
        region: &Region,
        task: TaskId,
        leader: TaskId,
        parent: Option<TaskId>,
    ) -> Owned<task_struct> {
        let addr = self.task_addr(task);
        if self.tasks.index(addr).is_none() {
            let new = alloc(&mut self.tasks, region);
            assert_eq!(new, addr, "the task_structs of new slots are allocated in their order");
        }
        // SAFETY: the memory was allocated when the slot was first used, and zero is a valid value
        // of every field. The caller guarantees that the object has no other owner that is used.
        let mut s = unsafe {
            region.host::<task_struct>(addr).write_bytes(0, 1);
            Owned::<task_struct>::new(region, addr)
        };
        let parent = parent.map_or(self.idle_addr(CpuId::BOOT), |parent| self.task_addr(parent));
        s.cpus_ptr = cpus_mask(addr) as *mut cpumask;
        s.static_prio = 120;
        s.se.load.weight = 1024 << 10;
        s.numa_preferred_nid = -1;
        s.real_parent = parent as *mut task_struct;
        s.parent = parent as *mut task_struct;
        s.group_leader = self.task_addr(leader) as *mut task_struct;
        s.mm = self.mms.addr(leader.slot().into()) as *mut mm_struct;
        s.real_cred = self.cred as *mut cred;
        s.cred = self.cred as *mut cred;
        s.scx.sticky_cpu = -1;
        s.scx.holding_cpu = -1;
        s.scx.selected_cpu = -1;
        s.scx.slice = enums::SCX_SLICE_DFL;
        s
    }

    /// Returns the address space that replaces `mm` when a task calls exec() (bprm_mm_init).
    pub(crate) fn next_mm(mm: *mut mm_struct) -> *mut mm_struct {
        (mm as u64 ^ 32) as *mut mm_struct
    }

    /// Returns the task_struct of a CPU's idle task.
    pub(crate) fn idle_struct(&self, cpu: CpuId) -> &task_struct {
        // SAFETY: the task_struct was initialized when the machine was created. Writes need
        // exclusive access to `self`.
        unsafe { &*self.idle.host(cpu.into()) }
    }

    #[inline]
    pub(crate) fn rq_struct(&self, cpu: CpuId) -> &rq {
        // SAFETY: as in `idle_struct`.
        unsafe { &*self.rqs.host(cpu.into()) }
    }

    #[inline]
    pub(crate) fn rq_struct_mut(&mut self, cpu: CpuId) -> &mut rq {
        // SAFETY: as in `rq_struct`, and `self` is borrowed exclusively.
        unsafe { &mut *self.rqs.host(cpu.into()) }
    }

    #[inline]
    pub(crate) fn task_addr(&self, task: TaskId) -> u64 {
        self.tasks.addr(task.slot().into())
    }

    /// Returns the address of the task_struct of slot 0, and the distance between two of them in bytes.
    #[inline]
    pub(crate) fn task_spacing(&self) -> (u64, u64) {
        (self.tasks.addr(0), self.tasks.stride())
    }

    /// Acquires a reference to a task for the policy. While there are references, the slot is not
    /// reused.
    pub(crate) fn get_task(&mut self, task: TaskId) {
        let needed = task.slot() as usize + 1;
        if self.refs.len() < needed {
            self.refs.resize(needed.next_power_of_two(), 0);
        }
        self.refs[task.slot() as usize] += 1;
    }

    /// Drops a reference of the policy to a task. Returns `false` if the policy holds no reference.
    #[must_use]
    pub(crate) fn put_task(&mut self, task: TaskId) -> bool {
        let refs = self.refs.get_mut(task.slot() as usize).filter(|refs| **refs > 0);
        refs.map(|refs| *refs -= 1).is_some()
    }

    /// Drops all references of the policy, because it has been unloaded. Returns the tasks to which
    /// it held references.
    pub(crate) fn drop_all_references(&mut self) -> Vec<TaskId> {
        self.drop_all_cgroup_references();
        let refs = std::mem::take(&mut self.refs).into_iter().enumerate();
        refs.filter(|&(_, refs)| refs > 0)
            .map(|(slot, _)| TaskId::new(slot))
            .collect()
    }

    /// Returns whether the policy holds a reference to a task.
    pub(crate) fn is_task_referenced(&self, task: TaskId) -> bool {
        self.refs.get(task.slot() as usize).is_some_and(|&refs| refs > 0)
    }

    /// Returns whether the policy holds a reference to the task with this address.
    pub fn is_referenced(&self, addr: u64) -> bool {
        let slot = self.tasks.index(addr);
        slot.is_some_and(|slot| self.refs.get(slot as usize).is_some_and(|&refs| refs > 0))
    }

    /// Returns the address of a CPU's idle task.
    pub(crate) fn idle_addr(&self, cpu: CpuId) -> u64 {
        self.idle.addr(cpu.into())
    }

    /// Writes the id and length of the DSQ with this `Dsqs::slot` into its scx_dispatch_q. Creates
    /// the object if necessary. Returns its address.
    ///
    /// # Errors
    /// The memory of the simulated kernel has no room for it.
    pub(crate) fn show_dispatch_q(&mut self, region: &Region, slot: u32, id: u64, nr: u32) -> Result<u64, Error> {
        let slab = match &mut self.dsqs {
            Some(slab) => slab,
            none => none.insert(region.slab(&object::DSQ, size_of::<scx_dispatch_q>() as u64, MAX_DSQS)?),
        };
        let index = u64::from(slot);
        while slab.index(slab.addr(index)).is_none() {
            slab.alloc(region)
                .ok_or("there are too many DSQs for the memory of the simulated kernel")?;
        }
        // SAFETY: the object is allocated, and no other reference to it exists. The fields are
        // written one by one, so that the padding, which programs can read, keeps its value.
        unsafe {
            let dsq = &mut *slab.host::<scx_dispatch_q>(index);
            (dsq.id, dsq.nr) = (id, nr);
        }
        Ok(slab.addr(index))
    }

    pub(crate) fn rq_addr(&self, cpu: CpuId) -> u64 {
        self.rqs.addr(cpu.into())
    }

    /// Returns the distance between the `rq`s of two consecutive CPUs, in bytes.
    pub fn rq_stride(&self) -> u64 {
        self.rqs.addr(1) - self.rqs.addr(0)
    }

    /// Returns the CPU whose idle task has this address. The kernel thread that enables policies
    /// counts as an idle task of the first CPU: it always exists, and no policy schedules it.
    pub(crate) fn idle_from_addr(&self, addr: u64) -> Option<CpuId> {
        // The slab contains one idle task for each CPU, in order.
        let cpu = self.idle.index(addr).map(|cpu| CpuId::new(cpu as usize));
        cpu.or_else(|| self.enable_helper.index(addr).map(|_| CpuId::BOOT))
    }
}

pub(crate) fn cpus_mask(task: u64) -> u64 {
    task + std::mem::offset_of!(task_struct, cpus_mask) as u64
}

/// Sets the name of a task.
pub(crate) fn set_comm(to: &mut [i8; 16], comm: &str) {
    *to = [0; 16];
    for (to, byte) in to.iter_mut().zip(comm.bytes().take(15)) {
        *to = byte as i8;
    }
}

/// Allocates a mask without CPUs in a slab of `Layout::new`, whose objects have [`MASK_BYTES`].
fn new_mask(slab: &mut Slab, region: &Region, nr_cpus: u32) -> Mask {
    let addr = alloc(slab, region);
    // SAFETY: the object was just allocated, and is never freed. The machine, which uses the mask,
    // keeps the region alive.
    unsafe { Mask::at(region, addr, nr_cpus) }
}

fn alloc(slab: &mut Slab, region: &Region) -> u64 {
    slab.alloc(region).expect("the kernel's own slabs are large enough")
}

#[cfg(test)]
mod tests;
