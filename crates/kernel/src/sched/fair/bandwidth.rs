// SPDX-License-Identifier: GPL-2.0-only
//! CFS bandwidth control (cpu.max). A group and its descendants may use `quota` ns of CPU time in
//! each period, summed over all CPUs. The limit is implemented as follows:
//! - Each group has a pool of runtime, which the period timer refills.
//! - While tasks of the group run on a CPU, the CPU's queue of the group takes slices of 5 ms from
//!   the pool.
//! - If the queue needs runtime and the pool is empty, the queue is throttled until the pool is
//!   refilled.
//! - A queue that becomes empty returns all but 1 ms of its runtime to the pool. Throttled queues
//!   get this runtime 5 ms later.
//!
//! Each task of a throttled queue is dequeued only when it is about to return to user space. The
//! task then waits in the queue's `limbo` list until the queue has runtime again, and does not count
//! in `nr_running`. The load averages of a throttled queue stand still while it is empty.
//!
//! Differences from Linux:
//! - The periods of a group begin at multiples of the period. Linux adds a random time.

use super::enqueue_task;
use super::queue::dequeue_throttled_group;
use crate::layout::PF_EXITING;
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::fair::state::entity::{CfsRqId, GROUP, NONE};
use crate::sched::fair::state::quota::*;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::timeline::LockId;
use crate::watch::state::observed::Transition;

impl Machine {
    fn bandwidth(&mut self, id: CfsRqId) -> &mut Bandwidth {
        let group = self.task_groups.group_number(id);
        &mut self.task_groups.groups[group as usize].bandwidth
    }

    fn runtime(&mut self, id: CfsRqId) -> &mut Runtime {
        &mut self.task_groups.rq_mut(id).runtime
    }

    /// Returns whether a limit (cpu.max) applies to a fair task (cfs_task_bw_constrained).
    pub(crate) fn is_bandwidth_limited(&self, task: TaskId) -> bool {
        if !self.task_groups.limited || self.class_of(task) != Class::Fair {
            return false;
        }
        let cpu = self.tasks[task].cpu();
        let mut at = self.cfs_rq_of(cpu, task);
        while at >= GROUP {
            let group = self.task_groups.group_number(at);
            if self.task_groups.groups[group as usize].bandwidth.quota.is_some() {
                return true;
            }
            at = self.cfs_rq_of(cpu, at);
        }
        false
    }

    /// Subtracts `ns` from the runtime of a group's queue. If none is left, takes more from the
    /// pool. If the pool is empty, throttles the queue. Returns whether the queue is throttled
    /// (account_cfs_rq_runtime).
    pub(super) fn account_cfs_rq_runtime(&mut self, id: CfsRqId, ns: u64) -> bool {
        if self.bandwidth(id).quota.is_none() {
            return false;
        }
        let runtime = self.runtime(id);
        runtime.remaining -= ns as i64;
        if runtime.remaining > 0 {
            return false;
        }
        runtime.throttled || self.throttle_cfs_rq(id)
    }

    /// Charges a group's queue for the time that its running entity has run, if there are limits. If that
    /// entity is a task, charges the task as well (update_curr).
    #[inline]
    pub(super) fn update_curr_of(&mut self, id: CfsRqId) {
        if id >= GROUP && self.task_groups.limited {
            self.charge_queue(id);
        }
    }

    #[inline(never)]
    fn charge_queue(&mut self, id: CfsRqId) {
        let curr = self.cfs(id).curr;
        if curr == NONE {
            return;
        }
        let cpu = self.queue_cpu(id);
        if curr < GROUP {
            self.update_curr(cpu);
            return;
        }
        self.account(cpu);
        let uncharged = self.rqs[cpu].uncharged as i64;
        let ns = uncharged + std::mem::replace(&mut self.runtime(id).behind, -uncharged);
        if ns > 0 {
            self.account_cfs_rq_runtime(id, ns as u64);
        }
    }

    /// Charges the queues of all groups that contain the running fair task of a CPU (update_curr_fair).
    pub(super) fn update_curr_of_groups(&mut self, cpu: CpuId, curr: TaskId) {
        if self.task_groups.limited {
            let mut id = self.task_cfs_rq(cpu, curr);
            while id >= GROUP {
                self.update_curr_of(id);
                id = self.cfs_rq_of(cpu, id);
            }
        }
    }

    /// Charges the queue of the running task's group. The queues above it are charged later
    /// ([`Machine::update_curr_of`]), because Linux does not update all of them at the same times.
    #[inline(never)]
    pub(super) fn charge_groups(&mut self, cpu: CpuId, curr: TaskId, ns: u64) {
        let mut id = self.task_cfs_rq(cpu, curr);
        self.account_cfs_rq_runtime(id, ns);
        loop {
            id = self.cfs_rq_of(cpu, id);
            if id < GROUP {
                return;
            }
            self.runtime(id).behind += ns as i64;
        }
    }

    /// Throttles a queue that gets its first entity, if it has no runtime (check_enqueue_throttle).
    pub(super) fn check_enqueue_throttle(&mut self, id: CfsRqId) {
        if self.cfs(id).curr == NONE && !self.runtime(id).throttled {
            self.account_cfs_rq_runtime(id, 0);
        }
    }

    /// Takes runtime from the pool until the queue has `target` ns. Returns whether the queue has
    /// any runtime afterwards.
    fn assign_cfs_rq_runtime(&mut self, id: CfsRqId, target: u64) -> bool {
        self.start_cfs_bandwidth(id);
        let wanted = target as i64 - self.runtime(id).remaining;
        let pool = self.bandwidth(id);
        let amount = pool.runtime.min(wanted.max(0) as u64);
        if amount > 0 {
            pool.runtime -= amount;
            pool.idle = false;
        }
        let runtime = self.runtime(id);
        runtime.remaining += amount as i64;
        runtime.remaining > 0
    }

    /// Starts the period timer if it is not running.
    fn start_cfs_bandwidth(&mut self, id: CfsRqId) {
        let (now, cpu, group) = (self.now, self.this_cpu, self.task_groups.group_number(id));
        let pool = self.bandwidth(id);
        if pool.active {
            return;
        }
        pool.active = true;
        pool.cpu = cpu;
        // The period ends when it would have ended if the timer had not been stopped.
        if pool.expires <= now {
            pool.expires += ((now - pool.expires) / pool.period_ns + 1) * pool.period_ns;
        }
        let (at, generation) = (pool.expires, pool.generation);
        self.events.push(at, Event::CfsPeriod { group, generation });
    }

    /// Throttles a queue, unless the pool has runtime for it. Returns whether the queue is
    /// throttled.
    fn throttle_cfs_rq(&mut self, id: CfsRqId) -> bool {
        // A queue that runs takes a slice. Otherwise it takes only enough to have 1 ns, and takes a
        // slice when this runtime is used up.
        let cpu = self.queue_cpu(id);
        let curr = self.cfs(id).curr;
        let runs = curr != NONE && self.se(curr).on_rq;
        if self.assign_cfs_rq_runtime(id, if runs { SLICE_NS } else { 1 }) {
            return false;
        }
        self.bandwidth(id).throttled.push(id);
        self.for_queues_below(id, |m, queue| m.throttle_down(queue));
        self.runtime(id).throttled = true;
        if runs && let Some(curr) = self.fair_curr(cpu) {
            self.throttle_on_return(curr);
        }
        true
    }

    /// Calls a function for a group's queue and for those of the groups below it on the same CPU,
    /// children before their parents.
    fn for_queues_below(&mut self, id: CfsRqId, mut function: impl FnMut(&mut Machine, CfsRqId)) {
        let (cpu, group) = (self.queue_cpu(id), self.task_groups.group_number(id));
        for at in 0..self.task_groups.bottom_up.len() {
            let below = self.task_groups.bottom_up[at];
            if self.task_groups.is_in(below, group) {
                function(self, self.task_groups.id(below, cpu));
            }
        }
    }

    /// Records that this queue or a queue above it is throttled (tg_throttle_down).
    fn throttle_down(&mut self, id: CfsRqId) {
        let runtime = self.runtime(id);
        runtime.throttle_count += 1;
        if runtime.throttle_count == 1 {
            self.stop_pelt_clock(id);
        }
    }

    /// Stops the clock of a queue's load averages, if the queue is empty and throttled.
    pub(super) fn stop_pelt_clock(&mut self, id: CfsRqId) {
        if self.throttled_hierarchy(id) && self.cfs(id).nr_queued == 0 {
            let now = self.clock_pelt(self.queue_cpu(id));
            let runtime = self.runtime(id);
            (runtime.pelt_clock_stopped, runtime.pelt_clock_stopped_at) = (true, now);
        }
    }

    /// Lets the clock of a queue's load averages continue.
    pub(super) fn start_pelt_clock(&mut self, id: CfsRqId) {
        if self.task_groups.rq(id).runtime.pelt_clock_stopped {
            let now = self.clock_pelt(self.queue_cpu(id));
            let runtime = self.runtime(id);
            runtime.pelt_clock_lost += now - runtime.pelt_clock_stopped_at;
            runtime.pelt_clock_stopped = false;
        }
    }

    /// Records for how long the clock of an empty queue's load averages has stood still until now
    /// (update_idle_cfs_rq_clock_pelt).
    pub(super) fn update_idle_cfs_rq_clock_pelt(&mut self, id: CfsRqId) {
        let runtime = self.runtime(id);
        runtime.pelt_clock_lost_idle = runtime.pelt_clock_lost;
    }

    /// Estimates the time of the clock of a queue's load averages on an idle CPU, ns. If the queue has been
    /// throttled since it became empty, the estimate is later than the clock (migrate_se_pelt_lag).
    pub(super) fn idle_cfs_rq_clock_pelt(&self, id: CfsRqId) -> u64 {
        if id < GROUP {
            return self.clock_pelt(CpuId::from_root_queue(id));
        }
        self.clock_pelt(self.queue_cpu(id)) - self.task_groups.rq(id).runtime.pelt_clock_lost_idle
    }

    /// Returns the time of the clock of a queue's load averages, ns (cfs_rq_clock_pelt).
    pub(super) fn cfs_rq_clock_pelt(&self, id: CfsRqId) -> u64 {
        if id < GROUP {
            return self.clock_pelt(CpuId::from_root_queue(id));
        }
        let runtime = &self.task_groups.rq(id).runtime;
        let now = match runtime.pelt_clock_stopped {
            true => runtime.pelt_clock_stopped_at,
            false => self.clock_pelt(self.queue_cpu(id)),
        };
        now - runtime.pelt_clock_lost
    }

    /// Returns whether this queue or a queue above it is throttled (throttled_hierarchy).
    pub(super) fn throttled_hierarchy(&self, id: CfsRqId) -> bool {
        id >= GROUP && self.task_groups.rq(id).runtime.throttle_count > 0
    }

    /// Checks the throttling of a task when it next returns to user space
    /// (task_throttle_setup_work). A kernel thread or a task that exits never does.
    pub(super) fn throttle_on_return(&mut self, task: TaskId) {
        let t = &mut self.tasks[task];
        if t.task_struct.flags & PF_EXITING != 0 || t.is_kthread() || t.fair.throttle_work {
            return;
        }
        t.fair.throttle_work = true;
        let cpu = t.cpu();
        if t.on_cpu() && cpu != self.this_cpu {
            // The task has to enter the kernel (kick_process).
            self.interrupt_cpu(cpu, Event::Resched { cpu });
        }
    }

    /// Removes a throttled task from the list of waiting tasks, because it sleeps, or because an
    /// attribute, its group or its CPU changes (dequeue_throttled_task).
    pub(super) fn dequeue_throttled_task(&mut self, cpu: CpuId, task: TaskId, sleeps: bool, migrates: bool) {
        let id = self.task_cfs_rq(cpu, task);
        self.runtime(id).limbo.retain(|&other| other != task);
        self.rqs[cpu].nr_running += 1;
        self.observe(Transition::Queued { task });
        if sleeps {
            self.tasks[task].fair.throttled = false;
        } else if migrates {
            self.detach_cfs_rq(id, task.into());
        }
    }

    /// Returns whether a throttled task that is queued on a CPU stays throttled: its queue there is
    /// throttled as well, and it is not the running task.
    pub(crate) fn stays_throttled(&self, cpu: CpuId, task: TaskId) -> bool {
        self.throttled_hierarchy(self.task_cfs_rq(cpu, task)) && self.rqs[cpu].curr != task
    }

    /// Adds a throttled task that changed to the list of waiting tasks of its queue, if that queue is
    /// throttled. Otherwise the task is no longer throttled. Returns whether it is
    /// (enqueue_throttled_task).
    pub(super) fn enqueue_throttled_task(&mut self, cpu: CpuId, task: TaskId) -> bool {
        if self.stays_throttled(cpu, task) {
            let id = self.task_cfs_rq(cpu, task);
            self.runtime(id).limbo.insert(0, task);
            self.rqs[cpu].nr_running -= 1;
            self.observe(Transition::Throttled { task });
            return true;
        }
        self.tasks[task].fair.throttled = false;
        false
    }

    /// Ends the throttling of a queue. Queues the waiting tasks of the group and its descendants
    /// whose queues on this CPU are no longer throttled (unthrottle_cfs_rq).
    fn unthrottle_cfs_rq(&mut self, id: CfsRqId) {
        let cpu = self.queue_cpu(id);
        self.update_curr_of(id);
        if self.bandwidth(id).quota.is_some() && self.runtime(id).remaining <= 0 {
            return;
        }
        self.runtime(id).throttled = false;
        self.bandwidth(id).throttled.retain(|&other| other != id);
        self.lock(LockId::Rq(cpu));
        self.for_queues_below(id, |m, queue| m.unthrottle_up(cpu, queue));
        if self.rqs[cpu].curr == IDLE && self.rqs[cpu].fair.cfs.h_nr_queued > 0 {
            self.resched_curr(cpu);
        }
        self.unlock(LockId::Rq(cpu));
    }

    /// Queues the waiting tasks of a queue, unless it is still throttled (tg_unthrottle_up).
    fn unthrottle_up(&mut self, cpu: CpuId, id: CfsRqId) {
        self.update_curr_of(id);
        let runtime = self.runtime(id);
        runtime.throttle_count -= 1;
        if runtime.throttle_count > 0 {
            return;
        }
        self.start_pelt_clock(id);
        let waiting = std::mem::take(&mut self.runtime(id).limbo);
        for (at, &task) in waiting.iter().enumerate() {
            // Another group of the hierarchy may have used up its runtime meanwhile.
            if self.throttled_hierarchy(id) {
                let limbo = &mut self.runtime(id).limbo;
                limbo.splice(0..0, waiting[at..].iter().copied());
                return;
            }
            self.tasks[task].fair.throttled = false;
            self.rqs[cpu].nr_running += 1;
            self.observe(Transition::Queued { task });
            self.update_curr(cpu);
            enqueue_task(self, cpu, task, flags::WAKEUP);
        }
    }

    /// Distributes the runtime in the pool to throttled queues until the pool is empty. Each queue
    /// gets its deficit plus 1 ns (distribute_cfs_runtime).
    fn distribute_cfs_runtime(&mut self, group: u32) {
        let mut own = Vec::new();
        for id in self.task_groups.groups[group as usize].bandwidth.throttled.clone() {
            self.update_curr_of(id);
            let wanted = 1 - self.runtime(id).remaining;
            let pool = self.bandwidth(id);
            let amount = (pool.runtime as i64).min(wanted);
            pool.runtime -= amount as u64;
            let runtime = self.runtime(id);
            runtime.remaining += amount;
            if runtime.remaining > 0 {
                match self.stepped.is_some() {
                    true => own.extend(self.unthrottle_async(id)),
                    false => self.unthrottle_cfs_rq(id),
                }
            }
        }
        for id in own {
            self.unthrottle_cfs_rq(id);
        }
    }

    /// Asks the CPU of a queue to unthrottle it (unthrottle_cfs_rq_async). Returns the queue if this CPU
    /// has to do so itself. Machines that do not execute scripts save the IPI.
    fn unthrottle_async(&mut self, id: CfsRqId) -> Option<CfsRqId> {
        let cpu = self.queue_cpu(id);
        if cpu == self.this_cpu {
            return Some(id);
        }
        let stepped = self.stepped.as_deref_mut().expect("only scripts need the IPI");
        let is_sent = stepped.unthrottled.iter().any(|&(to, _)| to == cpu);
        stepped.unthrottled.push((cpu, id));
        if !is_sent {
            self.interrupt_cpu(cpu, Event::CfsUnthrottle { cpu });
        }
        None
    }

    /// Returns unused runtime of an empty queue to the pool (return_cfs_rq_runtime).
    pub(super) fn return_cfs_rq_runtime(&mut self, id: CfsRqId) {
        if self.bandwidth(id).quota.is_none() {
            return;
        }
        let runtime = self.runtime(id);
        let slack = runtime.remaining - KEPT_NS;
        if slack <= 0 {
            return;
        }
        runtime.remaining = KEPT_NS;
        let (now, group) = (self.now, self.task_groups.group_number(id));
        let pool = self.bandwidth(id);
        pool.runtime += slack as u64;
        let period_ends = pool.active && pool.expires < now + SLACK_PERIOD_NS + SLACK_MARGIN_NS;
        if pool.runtime > SLICE_NS && !pool.throttled.is_empty() && !period_ends && !pool.slack_pending {
            pool.slack_pending = true;
            let generation = pool.generation;
            self.events
                .push(now + SLACK_PERIOD_NS, Event::CfsSlack { group, generation });
        }
    }

    /// Begins the handling of a timer interrupt of a group. The interrupt is handled on the CPU
    /// that started the timer. If that CPU is offline, it is handled on the first online CPU.
    fn enter_timer(&mut self, group: u32) {
        let cpu = self.task_groups.groups[group as usize].bandwidth.cpu;
        let cpu = if self.online_cpus.contains(cpu) {
            cpu
        } else {
            self.online_cpus.first().expect("one CPU always stays online")
        };
        self.enter_timer_irq(cpu);
    }
}

/// Dequeues the running task, which returns to user space, if its group is throttled. The task waits
/// until there is runtime (throttle_cfs_rq_work).
pub(crate) fn throttle_work(m: &mut Machine, cpu: CpuId) {
    let task = m.rqs[cpu].curr;
    m.tasks[task].fair.throttle_work = false;
    let exits = m.tasks[task].task_struct.flags & PF_EXITING != 0;
    if exits || m.class_of(task) != Class::Fair || !m.tasks[task].on_rq() {
        return;
    }
    let id = m.task_cfs_rq(cpu, task);
    if !m.throttled_hierarchy(id) {
        return;
    }
    m.update_curr(cpu);
    dequeue_throttled_group(m, cpu, task);
    m.tasks[task].fair.throttled = true;
    m.runtime(id).limbo.insert(0, task);
    m.rqs[cpu].nr_running -= 1;
    m.resched_curr(cpu);
}

/// Handles the IPI that asks a CPU to unthrottle its queues (__cfsb_csd_unthrottle).
pub(crate) fn unthrottle_ipi(m: &mut Machine, cpu: CpuId) {
    m.enter_irq(cpu, u64::from(m.spec.costs.ipi_receive_ns));
    let Some(stepped) = m.stepped.as_deref_mut() else {
        return;
    };
    let queues: Vec<CfsRqId> = stepped
        .unthrottled
        .extract_if(.., |(to, _)| *to == cpu)
        .map(|(_, id)| id)
        .collect();
    for id in queues {
        if m.runtime(id).throttled {
            m.unthrottle_cfs_rq(id);
        }
    }
}

/// Handles the end of a period (do_sched_cfs_period_timer). Returns whether a CPU was interrupted.
pub(crate) fn period_timer(m: &mut Machine, group: u32, generation: u32) -> bool {
    let pool = &mut m.task_groups.groups[group as usize].bandwidth;
    if pool.generation != generation {
        return false;
    }
    pool.refill();
    // Also a timer that stops gets the time at which it would have expired next (hrtimer_forward_now).
    pool.expires += pool.period_ns;
    let at = pool.expires;
    if pool.throttled.is_empty() {
        if pool.idle || pool.quota.is_none() {
            pool.active = false;
            if m.stepped.is_some() {
                // The interrupt comes, although it has nothing to do.
                m.enter_timer(group);
            }
            return m.stepped.is_some();
        }
        pool.idle = true;
    } else {
        pool.idle = false;
    }
    m.events.push(at, Event::CfsPeriod { group, generation });
    m.enter_timer(group);
    m.distribute_cfs_runtime(group);
    true
}

/// Distributes runtime that was returned to the pool (do_sched_cfs_slack_timer).
/// Returns whether a CPU was interrupted.
pub(crate) fn slack_timer(m: &mut Machine, group: u32, generation: u32) -> bool {
    let pool = &mut m.task_groups.groups[group as usize].bandwidth;
    if pool.generation != generation {
        return false;
    }
    pool.slack_pending = false;
    let enough = pool.runtime > SLICE_NS;
    let interrupts = enough || m.stepped.is_some();
    if interrupts {
        m.enter_timer(group);
    }
    if enough {
        m.distribute_cfs_runtime(group);
    }
    interrupts
}

/// Sets cpu.max and cpu.max.burst of a cgroup (tg_set_cfs_bandwidth). All values are in us. A quota
/// of `u64::MAX` means that there is no limit.
pub(crate) fn set_bandwidth(m: &mut Machine, cgroup: u32, quota_us: u64, period_us: u64, burst_us: u64) {
    if cgroup == 0 {
        return;
    }
    let pool = &mut m.task_groups.groups[cgroup as usize].bandwidth;
    pool.quota = (quota_us != u64::MAX).then(|| quota_us.saturating_mul(1000));
    pool.period_ns = period_us.saturating_mul(1000);
    pool.burst_ns = burst_us.saturating_mul(1000);
    pool.refill();
    if pool.quota.is_some() {
        m.task_groups.limited = true;
        let first = m.task_groups.id(cgroup, m.this_cpu);
        m.start_cfs_bandwidth(first);
    }
    for cpu in m.cpus().filter(|&cpu| m.online_cpus.contains(cpu)).collect::<Vec<_>>() {
        let id = m.task_groups.id(cgroup, cpu);
        m.runtime(id).remaining = 1;
        if m.runtime(id).throttled {
            m.unthrottle_cfs_rq(id);
        }
    }
}

/// Unthrottles the queues of a CPU that goes offline, after all tasks have been moved away from it
/// (unthrottle_offline_cfs_rqs), and removes their contributions to the loads of the groups.
pub(crate) fn offline(m: &mut Machine, cpu: CpuId) {
    for at in 0..m.task_groups.bottom_up.len() {
        let id = m.task_groups.id(m.task_groups.bottom_up[at], cpu);
        if m.runtime(id).throttled {
            m.runtime(id).remaining = 1;
            m.unthrottle_cfs_rq(id);
        }
    }
    m.clear_tg_load_avg(cpu);
}

/// Takes over the throttling of the groups above a new group (sync_throttle).
pub(super) fn sync_throttle(m: &mut Machine, cpu: CpuId, id: CfsRqId) {
    let above = m.cfs_rq_of(cpu, id);
    if above >= GROUP && m.throttled_hierarchy(above) {
        m.runtime(id).throttle_count = m.task_groups.rq(above).runtime.throttle_count;
        m.stop_pelt_clock(id);
    }
}
