// SPDX-License-Identifier: GPL-2.0-only
//! Changes of cgroups while the machine runs: creating and removing them, changing settings, and
//! moving tasks between them.

pub mod state;

use crate::layout::{PF_EXITING, css_set};
use crate::machine::Machine;
use crate::sched::cgroup::state::*;
use crate::sched::class::state::flags;
use crate::sched::state::task::{State, Task};
use crate::sched::{ext, fair, tracepoint};
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::{IDLE, TaskId};
use bpf::errno::{EBUSY, EEXIST, EINVAL, ENOENT};
use workload::Action;

impl Machine {
    /// Performs a cgroup operation of the user. If it fails, adds a message with the kernel's errno
    /// to `Cgroups::refused`.
    pub(crate) fn change_cgroup(&mut self, action: &Action) {
        let result = ext::enable::run_as_user(self, |m| m.try_change(action));
        let (Err(errno), Some(cgroup)) = (result, action.cgroup()) else {
            return;
        };
        let path = &self.workload.cgroups[cgroup as usize].path;
        let wanted = match action {
            Action::Create { .. } => "mkdir".to_string(),
            Action::Remove { .. } => "rmdir".to_string(),
            Action::Weight { weight, .. } => format!("cpu.weight = {weight}"),
            Action::Idle { idle, .. } => format!("cpu.idle = {}", u8::from(*idle)),
            Action::Max { .. } => "cpu.max".to_string(),
            Action::Cpus { .. } => "cpuset.cpus".to_string(),
            Action::Attach { comm, .. } => format!("attaching '{comm}'"),
            Action::Hotplug { .. } | Action::Irq { .. } => return,
        };
        let at_us = self.now / 1000;
        self.cgroups
            .refused
            .push(format!("cgroup {path}: {wanted} at {at_us} us failed ({})", -errno));
    }

    /// Performs the operation. Returns a positive errno if the operation would fail in Linux.
    pub(crate) fn try_change(&mut self, action: &Action) -> Result<(), i32> {
        let Some(cgroup) = action.cgroup() else { return Ok(()) };
        let online = self.cgroups.get(cgroup).online;
        match *action {
            Action::Create { .. } if online => return Err(EEXIST),
            Action::Create { .. } => return self.cgroup_mkdir(cgroup),
            _ if !online => return Err(ENOENT),
            _ => {}
        }
        match action {
            Action::Remove { .. } => self.cgroup_rmdir(cgroup),
            &Action::Weight { weight, .. } => {
                // sched_group_set_shares() does not accept a weight for a group with cpu.idle.
                if self.cgroups.get(cgroup).idle {
                    return Err(EINVAL);
                }
                ext::cgroup::set_weight(self, cgroup, weight);
                self.cgroups.list[cgroup as usize].weight = weight;
                fair::set_weight(self, cgroup, weight);
                Ok(())
            }
            &Action::Idle { idle, .. } => {
                ext::cgroup::set_idle(self, cgroup, idle);
                self.cgroups.list[cgroup as usize].idle = idle;
                fair::set_idle(self, cgroup, idle);
                Ok(())
            }
            &Action::Max {
                quota_us,
                period_us,
                burst_us,
                ..
            } => {
                let quota_us = quota_us.unwrap_or(NO_QUOTA_US);
                ext::cgroup::set_bandwidth(self, cgroup, period_us, quota_us, burst_us);
                let known = &mut self.cgroups.list[cgroup as usize];
                (known.quota_us, known.period_us, known.burst_us) = (quota_us, period_us, burst_us);
                fair::set_bandwidth(self, cgroup, quota_us, period_us, burst_us);
                Ok(())
            }
            Action::Cpus { cpus, .. } => {
                self.set_cpuset(cgroup, cpus.as_deref());
                Ok(())
            }
            Action::Attach { comm, process, .. } => {
                let set = self.tasks_named(comm, *process);
                self.attach(&set, cgroup)
            }
            Action::Create { .. } | Action::Hotplug { .. } | Action::Irq { .. } => Ok(()),
        }
    }

    /// Returns the parent of a cgroup, or `None` for the root.
    pub(crate) fn parent_cgroup(&self, cgroup: u32) -> Option<u32> {
        self.layout.parent_of_cgroup(cgroup)
    }

    /// Returns the online child cgroups of `cgroup`.
    fn online_children(&self, cgroup: u32) -> impl Iterator<Item = u32> + '_ {
        let all = 0..self.cgroups.list.len() as u32;
        all.filter(move |&other| self.parent_cgroup(other) == Some(cgroup) && self.cgroups.get(other).online)
    }

    /// Creates a cgroup (cgroup_mkdir, cpu_cgroup_css_online). Fails if the parent does not exist
    /// or if ops.cgroup_init() fails.
    fn cgroup_mkdir(&mut self, cgroup: u32) -> Result<(), i32> {
        if self
            .parent_cgroup(cgroup)
            .is_some_and(|above| !self.cgroups.get(above).online)
        {
            return Err(ENOENT);
        }
        let known = &mut self.cgroups.list[cgroup as usize];
        *known = Cgroup::new(100, true);
        self.layout.make_cgroup(&self.region, cgroup);
        self.mirror_cpusets();
        fair::online_group(self, cgroup, 100);
        if let Err(errno) = ext::cgroup::online(self, cgroup) {
            self.cgroups.list[cgroup as usize].online = false;
            self.layout.kill_cgroup(&self.region, cgroup);
            ext::cgroup::release(self, cgroup);
            return Err(errno);
        }
        tracepoint::cgroup_mkdir(self, cgroup);
        Ok(())
    }

    /// Removes an empty cgroup (cgroup_rmdir).
    ///
    /// In Linux, ops.cgroup_exit() is called later, when the kernel drops its last reference to the
    /// cgroup. Here it is called immediately.
    fn cgroup_rmdir(&mut self, cgroup: u32) -> Result<(), i32> {
        let alive = |t: &Task| t.cgroup() == cgroup && t.state() != State::Dead;
        if self.tasks.iter().any(alive) || self.online_children(cgroup).next().is_some() {
            return Err(EBUSY);
        }
        self.cgroups.list[cgroup as usize].online = false;
        fair::offline_group(self, cgroup);
        tracepoint::cgroup_rmdir(self, cgroup);
        self.layout.kill_cgroup(&self.region, cgroup);
        ext::cgroup::offline(self, cgroup);
        ext::cgroup::release(self, cgroup);
        Ok(())
    }

    /// Returns the live tasks with the name `comm`, in ascending order of pid. Tasks that exit are not
    /// among them, because they stay in their cgroup (cgroup_migrate_add_task). With `process`,
    /// returns all such threads of the processes of these tasks, also if only a dead leader has the
    /// name.
    fn tasks_named(&self, comm: &str, process: bool) -> Vec<TaskId> {
        let stays = |task: TaskId| task == IDLE || self.tasks[task].flags() & PF_EXITING != 0;
        let live = || self.pids.iter().copied().filter(|&task| !stays(task));
        let named: Vec<TaskId> = live().filter(|&task| self.tasks[task].comm() == comm).collect();
        if !process {
            return named;
        }
        let leaders = self.tasks.ids().filter(|&task| {
            let t = &self.tasks[task];
            t.pid() == t.tgid() && t.comm() == comm
        });
        let tgids: Vec<u32> = named
            .into_iter()
            .chain(leaders)
            .map(|task| self.tasks[task].tgid())
            .collect();
        live()
            .filter(|&task| tgids.contains(&self.tasks[task].tgid()))
            .collect()
    }

    /// Moves a set of tasks to a cgroup (cgroup_migrate). Either all tasks move or none does.
    pub(crate) fn attach(&mut self, set: &[TaskId], to: u32) -> Result<(), i32> {
        if !self.cgroups.get(to).online {
            return Err(ENOENT);
        }
        ext::cgroup::can_attach(self, set, to)?;
        let pids: Vec<u32> = set.iter().map(|&task| self.tasks[task].pid()).collect();
        for (&task, pid) in set.iter().zip(pids) {
            self.await_task(task);
            // A task may have exited while this call waited.
            if self.tasks[task].cgroup() == to || self.find_task(pid) != Some(task) {
                continue;
            }
            // This part corresponds to sched_move_task().
            self.change_queued(task, flags::MOVE, |m| {
                m.tasks[task].task_struct.cgroups = m.layout.css_set_addr(to) as *mut css_set;
                fair::change_group(m, task, to);
                ext::cgroup::moved(m, task, to);
            });
            ext::handover::moved(self, task);
            let (t, cpu) = (&self.tasks[task], self.tasks[task].cpu());
            if t.on_cpu() {
                // The new group may be throttled or have a smaller share, so another task may have
                // to run now.
                self.resched_curr(cpu);
            } else if t.on_rq() || t.fair.delayed {
                self.wakeup_preempt(cpu, task, 0);
            }
            if self.cgroups.cpusets {
                self.update_cpus(task);
            }
            tracepoint::cgroup_attach_task(self, task, to);
        }
        Ok(())
    }

    /// Writes cpuset.cpus. Updates the affinity of all tasks in this cgroup and its descendants.
    fn set_cpuset(&mut self, cgroup: u32, cpus: Option<&[u32]>) {
        tracepoint::cpuset_write_resmask(self);
        let nr_cpus = self.nr_cpus();
        self.cgroups.list[cgroup as usize].cpus = cpus.map(|cpus| CpuSet::from_cpus(nr_cpus, cpus));
        self.mirror_cpusets();
        // This part corresponds to update_tasks_cpumask().
        let tasks: Vec<TaskId> = self.pids.iter().copied().filter(|&task| task != IDLE).collect();
        for task in tasks {
            let mut at = Some(self.tasks[task].cgroup());
            while let Some(above) = at.filter(|&above| above != cgroup) {
                at = self.parent_cgroup(above);
            }
            if at.is_some() {
                self.update_cpus(task);
            }
        }
        tracepoint::cpuset_written(self);
    }

    /// Returns the CPUs in a cgroup's cpuset.cpus, or `None` if it is empty. For the root, returns
    /// all CPUs.
    pub(crate) fn cpuset_cpus(&self, cgroup: u32) -> Option<CpuSet> {
        match &self.cgroups.get(cgroup).cpus {
            Some(cpus) => Some(cpus.clone()),
            None if cgroup == 0 => Some(CpuSet::all(self.nr_cpus())),
            None => None,
        }
    }

    /// Returns those CPUs in the set `of` that a cgroup may use (cpuset.cpus.effective).
    ///
    /// If a cgroup's cpuset.cpus and the effective set of its parent have no CPU in common, the
    /// cgroup uses its parent's effective set.
    pub(crate) fn effective_cpus(&self, cgroup: u32, of: &CpuSet) -> CpuSet {
        let above = match self.parent_cgroup(cgroup) {
            Some(above) => self.effective_cpus(above, of),
            None => of.clone(),
        };
        match &self.cgroups.get(cgroup).cpus {
            Some(cpus) => intersection(cpus, &above).unwrap_or(above),
            None => above,
        }
    }

    /// Returns the CPUs that a task may use in `cgroup` (set_cpus_allowed_ptr with user_cpus_ptr).
    /// These are the CPUs that the task requested and that the cpuset allows. If there is no such
    /// CPU, these are all CPUs that the cpuset allows.
    fn allowed_cpus(&self, task: TaskId, cgroup: u32) -> CpuSet {
        let effective = self.effective_cpus(cgroup, &CpuSet::all(self.nr_cpus()));
        let user = self.cgroups.user_cpus.get(&task);
        user.and_then(|user| intersection(user, &effective))
            .unwrap_or(effective)
    }

    /// Sets a task's affinity according to the cpuset of its cgroup and its own request.
    fn update_cpus(&mut self, task: TaskId) {
        let cpus = self.allowed_cpus(task, self.tasks[task].cgroup());
        if cpus != *self.tasks[task].cpus {
            self.set_cpus_allowed(task, cpus);
        }
    }

    /// Records the CPUs that a task requests with sched_setaffinity(). Returns the requested CPUs
    /// that the cpuset of `cgroup` allows.
    ///
    /// If the cpuset allows none of the CPUs, records nothing and returns `None`. The system call
    /// then fails with EINVAL.
    pub(crate) fn request_cpus(&mut self, task: TaskId, cgroup: u32, cpus: CpuSet) -> Option<CpuSet> {
        if !self.cgroups.cpusets {
            return Some(cpus);
        }
        let left = intersection(&cpus, &self.effective_cpus(cgroup, &CpuSet::all(self.nr_cpus())));
        if left.is_some() {
            self.cgroups.user_cpus.insert(task, cpus);
        }
        left
    }

    /// Returns the initial affinity of a new task that is created in `cgroup` with the affinity
    /// `cpus`. In both, `None` stands for all CPUs.
    pub(crate) fn initial_cpus(&self, cgroup: u32, cpus: Option<CpuSet>) -> Option<CpuSet> {
        if !self.cgroups.cpusets {
            return cpus;
        }
        let effective = self.effective_cpus(cgroup, &CpuSet::all(self.nr_cpus()));
        let both = cpus.and_then(|cpus| intersection(&cpus, &effective));
        Some(both.unwrap_or(effective))
    }

    /// Records the CPUs that a new task requests. They replace the CPUs that the dead task with the
    /// same slot requested.
    pub(crate) fn record_user_cpus(&mut self, task: TaskId, asked: Option<CpuSet>) {
        if self.cgroups.cpusets {
            self.cgroups.user_cpus.remove(&task);
            self.cgroups.user_cpus.extend(asked.map(|cpus| (task, cpus)));
        }
    }
}
