// SPDX-License-Identifier: GPL-2.0-only
//! Creation of tasks and exec() (copy_process, sched_fork, wake_up_new_task, sched_exec).

use crate::hardware::footprint::state::Footprint;
use crate::layout;
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::ext::state::entity::Entity as ExtEntity;
use crate::sched::fair::state::entity::Entity as FairEntity;
use crate::sched::fair::state::slices::custom_slice;
use crate::sched::rt::state::queue::Entity as RtEntity;
use crate::sched::state::task::{State, Task};
use crate::sched::tracepoint::state::Hook;
use crate::sched::{ext, fair, rt, tracepoint};
use crate::simulation::cpuset::{ALL_CPUS, CpuSet};
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::table::Id;
use crate::simulation::timeline::LockId;
use bpf::errno::EAGAIN;
use bpf::memory::{RECORD, Use};
use trace::MigrateReason;

/// Shortens a task's name to 15 bytes. TASK_COMM_LEN is 16, including the terminating zero.
fn truncate_comm(comm: &mut String) {
    let mut end = comm.len().min(15);
    while !comm.is_char_boundary(end) {
        end -= 1;
    }
    comm.truncate(end);
}

impl Machine {
    /// Creates the task that is described by `workload.tasks[index as usize]`. `parent` is the task
    /// that forks, or IDLE if the workload itself starts the task. With `thread`, the new task is a
    /// thread of the parent's process.
    pub(crate) fn spawn(&mut self, index: u32, parent: TaskId, thread: bool) {
        self.sync.pending_spawns -= 1;
        let nr_cpus = self.nr_cpus();
        let spec = &self.workload.tasks[index as usize];
        let (start_cpu, cgroup) = (spec.start_cpu, spec.cgroup);
        let asked = spec.cpus.as_ref().map(|cpus| CpuSet::from_cpus(nr_cpus, cpus));
        let allowed = self.initial_cpus(cgroup, asked);
        let cpu = match start_cpu {
            Some(cpu) => self.named_cpu(cpu),
            None if parent != IDLE => self.tasks[parent].cpu(),
            None => {
                let weight = allowed.as_ref().map_or(nr_cpus, CpuSet::weight);
                let nth = self.sync.next_start % weight.max(1);
                self.sync.next_start += 1;
                match &allowed {
                    Some(cpus) => cpus.nth(nth).unwrap_or(CpuId::BOOT),
                    None => CpuId::new(nth as usize),
                }
            }
        };
        let cpu = if self.online_cpus.contains(cpu) {
            cpu
        } else {
            self.online_cpus.first().unwrap_or(CpuId::BOOT)
        };
        // The kernel work of creating a task without a parent is done on the new task's CPU.
        let from = if parent == IDLE { cpu } else { self.tasks[parent].cpu() };
        if parent == IDLE {
            self.enter(from);
        }
        let forced = start_cpu.is_some();
        // If the fork fails, the parent continues without a child.
        self.ext.launching = parent == IDLE;
        let created = self.new_task(index, parent, thread, allowed, cpu);
        self.ext.launching = false;
        if let Some(task) = created {
            if parent != IDLE {
                self.tasks[task].program.time += u64::from(self.spec.costs.start(thread));
            }
            if self.stepped.is_some() && self.preempt_program(parent, Hook::SchedProcessFork, Some(task)) {
                return;
            }
            self.wake_up_new_task(task, forced);
        }
    }

    /// Performs fork() or clone() for the running task. If the workload specifies a start delay for
    /// the child, the delay begins now.
    pub(crate) fn fork(&mut self, index: u32, parent: TaskId, thread: bool) {
        self.sync.pending_spawns += 1;
        match self.workload.tasks[index as usize].start_ns {
            0 => self.spawn(index, parent, thread),
            delay => self
                .events
                .push(self.now + delay, Event::Spawn { index, parent, thread }),
        }
    }

    /// Creates a task that is not runnable yet (copy_process, sched_fork). It may use the CPUs in
    /// `cpus`, where `None` stands for all CPUs.
    ///
    /// Returns `None` if the task limit or the run's memory limit is reached, or if the BPF
    /// scheduler's ops.init_task() fails.
    pub(crate) fn new_task(
        &mut self,
        index: u32,
        parent: TaskId,
        thread: bool,
        cpus: Option<CpuSet>,
        cpu: CpuId,
    ) -> Option<TaskId> {
        let spec = self.workload.tasks[index as usize].clone();
        if self.free_tasks.is_empty() && !self.charge_new_task() {
            self.failed_forks.push((spec.comm.clone(), -EAGAIN));
            self.noise.nr_tasks -= u32::from(self.noise.contains(index));
            return None;
        }
        let pid = self.pids.len() as u32;
        let attributes = &spec.attributes;
        let (process, tgid) = if attributes.kthread && parent != IDLE {
            (self.sync.new_process(), pid)
        } else if parent == IDLE {
            (spec.process, self.sync.process_leader(spec.process, pid))
        } else if thread {
            (self.tasks[parent].process, self.tasks[parent].tgid())
        } else {
            (self.sync.new_process(), pid)
        };
        let reused = self.free_tasks.pop();
        let id = reused.unwrap_or_else(|| TaskId::new(self.tasks.len()));
        let wake_generation = reused.map_or(0, |id| self.tasks[id].wake_generation.wrapping_add(1));
        let leader = if tgid == pid {
            id
        } else {
            self.find_task(tgid).unwrap_or(id)
        };
        // A task that is created at the start can name its parent.
        let named_parent = attributes
            .parent
            .and_then(|index| self.sync.created.get(&index).copied());
        let named_parent = named_parent.and_then(|pid| self.find_task(pid));
        let above = if parent == IDLE { named_parent } else { Some(parent) };
        // SAFETY: the slot is new or free. A slot is free only after its task is dead, and the new
        // task replaces the dead one below, before any code reads the dead one.
        let mut task_struct = unsafe { self.layout.new_task_struct(&self.region, id, leader, above) };
        task_struct.pid = pid as i32;
        task_struct.tgid = tgid as i32;
        task_struct.flags = self.noise.flags(index, &spec.comm) | layout::PF_FORKNOEXEC;
        if attributes.kthread {
            task_struct.flags |= layout::PF_KTHREAD;
        }
        if task_struct.flags & layout::PF_KTHREAD != 0 {
            // Kernel threads have no address space.
            task_struct.mm = std::ptr::null_mut();
        } else if thread && parent != IDLE {
            task_struct.mm = self.tasks[parent].task_struct.mm;
        }
        if thread && parent != IDLE && !attributes.kthread {
            // All threads of a process have the same parent (CLONE_THREAD).
            task_struct.real_parent = self.tasks[parent].task_struct.real_parent;
            task_struct.parent = task_struct.real_parent;
        }
        if let Some(cred) = attributes.uid.map(|uid| self.layout.cred_addr(uid)) {
            task_struct.cred = cred as *mut layout::cred;
            task_struct.real_cred = task_struct.cred;
        } else if let Some(above) = above {
            task_struct.cred = self.tasks[above].task_struct.cred;
            task_struct.real_cred = task_struct.cred;
        }
        let inherited = above.map_or(0, |above| self.tasks[above].rare.timer_slack);
        let timer_slack = attributes.timer_slack_ns.unwrap_or(inherited);
        let inherited = above.map_or(0, |above| self.tasks[above].fair.slice);
        let slice = attributes.slice_ns.map_or(inherited, custom_slice);
        self.task_groups.custom_slices |= slice != 0;
        task_struct.start_time = self.now;
        task_struct.start_boottime = self.now;
        task_struct.scx.tid = u64::from(pid);
        task_struct.cgroups = self.layout.css_set_addr(spec.cgroup) as *mut layout::css_set;
        let (affinity, cpus) = match cpus {
            Some(cpus) => self.checks.group(cpus),
            None => self.checks.all_cpus(),
        };
        let all = affinity == ALL_CPUS;
        task_struct.nr_cpus_allowed = if all { self.nr_cpus() } else { cpus.weight() } as i32;
        self.cpus_mask(id).copy_from(cpus.words());
        let mut comm = spec.comm.clone();
        truncate_comm(&mut comm);
        layout::set_comm(&mut task_struct.comm, &comm);
        // A child inherits its parent's record of woken tasks, and the end of its parent's protection.
        let like = (parent != IDLE).then(|| &self.tasks[parent]);
        let (last_wakee, wakee_flips, wakee_flip_decay) =
            like.map_or((IDLE, 0, 0), |t| (t.last_wakee, t.wakee_flips, t.wakee_flip_decay));
        let vprot = like.map_or(0, |t| t.fair.vprot);
        let mut task = Task {
            task_struct,
            off_cpu_at: 0,
            class: Class::Fair,
            cpus,
            affinity,
            waiting_group: affinity,
            process,
            waiting_since: self.now,
            idle_before_wait: 0,
            last_wakee,
            wakee_flips,
            wakee_flip_decay,
            wake_generation,
            noise: self.noise.contains(index),
            children: 0,
            creator: above.unwrap_or(IDLE),
            is_parent: false,
            footprint: Footprint::new(spec.footprint_bytes, spec.touch_mbps),
            numa: None,
            cache_process: 0,
            preferred_llc: None,
            cache_work: false,
            on_preferred_llc: false,
            program: crate::programs::state::cursor::Cursor::new(spec.program, self.now),
            rt: RtEntity::default(),
            fair: FairEntity {
                slice,
                vprot,
                ..FairEntity::for_task(spec.cgroup)
            },
            ext: ExtEntity::default(),
            rare: Default::default(),
        };
        if timer_slack != 0 {
            task.rare.timer_slack = timer_slack;
        }
        if let Some(rng) = self.noise.rng(index) {
            task.program.set_rng(rng);
        }
        task.set_cpu(cpu);
        task.replace_recent_used_cpu(cpu);
        if let Some(parent) = like {
            // A child with a policy that has no nice value keeps the one of its parent.
            task.task_struct.static_prio = parent.task_struct.static_prio;
        }
        task.set_params(spec.policy);
        task.class = ext::class_for(self, &task);
        let prio = task.prio();
        match reused {
            Some(id) => self.tasks[id] = task,
            None => assert_eq!(self.tasks.push(task), id),
        }
        self.pids.push(id);
        self.threads.insert(self.tasks[id].sort_key());
        let asked = spec.cpus.as_ref().map(|cpus| CpuSet::from_cpus(self.nr_cpus(), cpus));
        self.record_user_cpus(id, asked);
        self.nr_alive += 1;
        if let Some(above) = above {
            self.tasks[above].children += 1;
        }
        if let Some(parent) = self.task_from_addr(self.tasks[id].task_struct.real_parent as u64) {
            self.tasks[parent].is_parent = true;
        }
        if parent == IDLE {
            self.sync.note_created(index, pid);
        }
        self.fork_footprint(parent, id);
        fair::numa::init_task(self, id);
        fair::sched_cache::init_task(self, id);
        ext::task_created(self, id);
        rt::init_task(self, id);
        fair::init_entity_runnable_average(self, id);
        self.class_task_fork(id);
        if let Err(errno) = ext::post_fork(self, id) {
            self.cancel_fork(id, above.unwrap_or(IDLE), errno);
            return None;
        }
        let parent_pid = match self.tasks[id].noise {
            true => trace::KTHREADD,
            false => self.pid_of(above.unwrap_or(IDLE)),
        };
        self.trace_text(
            self.this_cpu,
            trace::Event::TaskNew {
                pid,
                tgid,
                parent: parent_pid,
                prio,
                comm,
            },
        );
        // The tracepoint comes last: kernel_clone() calls it after copy_process(), and
        // copy_process() calls sched_post_fork().
        tracepoint::sched_process_fork(self, parent, id);
        Some(id)
    }

    /// Counts the memory for one more task against the memory limit of the run. Returns false if
    /// the task would exceed this limit or the maximum number of tasks.
    fn charge_new_task(&mut self) -> bool {
        let bytes = (size_of::<Task>() + size_of::<layout::task_struct>()) as u64 + RECORD;
        (self.tasks.len() as u64) < layout::MAX_TASKS && self.region.memory().charge(Use::Tasks, bytes).is_ok()
    }

    /// Undoes a fork because ops.init_task() failed (sched_cancel_fork).
    fn cancel_fork(&mut self, task: TaskId, parent: TaskId, errno: i32) {
        if parent != IDLE {
            self.tasks[parent].children -= 1;
        }
        let t = &mut self.tasks[task];
        t.set_state(State::Dead);
        self.failed_forks.push((t.comm(), errno));
        self.release_task(task);
    }

    /// Chooses a CPU for a new task and queues the task there. If `forced` is set, the task is
    /// queued on the CPU in its field `cpu` instead.
    pub(crate) fn wake_up_new_task(&mut self, task: TaskId, forced: bool) {
        tracepoint::wake_up_new_task(self, task);
        let prev_cpu = self.tasks[task].cpu();
        let cpu = if forced {
            prev_cpu
        } else {
            self.select_task_rq(task, prev_cpu, flags::WF_FORK)
        };
        if self.stepped.is_some() {
            fair::leave_elsewhere(self, task);
        }
        self.set_task_cpu(task, cpu, MigrateReason::Fork);
        self.lock(LockId::Rq(cpu));
        if self.class_of(task) != Class::Fair {
            fair::begin_average_elsewhere(self, task);
        }
        self.activate_task(cpu, task, flags::INITIAL | flags::NOCLOCK);
        let pid = self.tasks[task].pid();
        self.trace(
            self.this_cpu,
            trace::Event::Wakeup {
                pid,
                target: cpu.nr(),
                new: true,
            },
        );
        tracepoint::sched_wakeup(self, task, true);
        self.wakeup_preempt(cpu, task, flags::WF_FORK);
        self.class_task_woken(cpu, task);
        self.unlock(LockId::Rq(cpu));
    }

    /// Performs exec() for the running task: gives the task the name `comm`, and may move it to a
    /// better CPU (sched_exec).
    pub(crate) fn exec(&mut self, task: TaskId, mut comm: String) {
        truncate_comm(&mut comm);
        let cpu = self.tasks[task].cpu();
        self.exec_footprint(cpu, task);
        fair::numa::exec(self, task);
        fair::sched_cache::exec(self, task);
        let target = self.select_task_rq_for_exec(task, cpu);
        tracepoint::task_rename(self, task, &comm);
        let t = &mut self.tasks[task];
        t.task_struct.flags &= !layout::PF_FORKNOEXEC;
        layout::set_comm(&mut t.task_struct.comm, &comm);
        if !t.task_struct.mm.is_null() {
            t.task_struct.mm = layout::Layout::next_mm(t.task_struct.mm);
        }
        let pid = t.pid();
        self.trace_text(cpu, trace::Event::TaskRename { pid, comm });
        tracepoint::sched_process_exec(self, task);
        if target == cpu {
            if self.stepped.is_some() {
                self.preempt_program(task, Hook::SchedProcessExec, None);
            }
            return;
        }
        if self.tasks[task].migration_disabled() > 0 {
            // The stopper interrupts the task in vain.
            self.run_stopper(cpu, |_| ());
        } else {
            self.migrate_running(task, target, MigrateReason::Exec);
        }
    }

    /// Returns the CPU for a task that calls exec(). The class chooses it even if the task cannot move
    /// (sched_exec).
    fn select_task_rq_for_exec(&mut self, task: TaskId, cpu: CpuId) -> CpuId {
        if self.may_choose_cpu(task) {
            return self.select_task_rq(task, cpu, flags::WF_EXEC);
        }
        let target = self.class_select_task_rq(task, cpu, flags::WF_EXEC);
        let chosen = self.tasks[task].has_affinity_to(target) && !self.has_narrowed_mask(task);
        if chosen { target } else { cpu }
    }
}
