// SPDX-License-Identifier: GPL-2.0-only
//! CPU hotplug: CPUs that go offline and come back (sched_cpu_deactivate, sched_cpu_activate).

use crate::layout::enums::SCX_CPU_PREEMPT_RT;
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::state::task::State;
use crate::sched::{deadline, ext, fair, rt};
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, Server, TaskId};
use crate::watch::state::observed::Transition;
use crate::watch::state::stepped::Mover;
use trace::MigrateReason;

impl Machine {
    /// Handles a request to take `cpu` offline or to bring it online. Such requests are served one after the
    /// other. A CPU goes offline only when none of its tasks must stay there (sched_cpu_wait_empty). Linux
    /// moves its other tasks away before this wait, and here they move after it.
    pub(crate) fn request_hotplug(&mut self, cpu: CpuId, online: bool) {
        self.hotplug_requests.push_back((cpu, online));
        if self.hotplug_requests.len() == 1 {
            self.serve_hotplug_requests();
        }
    }

    /// Serves the requests until one has to wait. It is tried again after a tick period.
    pub(crate) fn serve_hotplug_requests(&mut self) {
        while let Some(&(cpu, online)) = self.hotplug_requests.front() {
            if !online && self.online_cpus.contains(cpu) && self.has_pinned_tasks(cpu) {
                self.events.push(self.now + self.tick_ns(), Event::HotplugWait);
                return;
            }
            self.hotplug_requests.pop_front();
            self.hotplug(cpu, online);
        }
    }

    /// Returns whether a task must not migrate from `cpu` (rq_has_pinned_tasks).
    pub(crate) fn has_pinned_tasks(&self, cpu: CpuId) -> bool {
        self.tasks.ids().any(|task| {
            let t = &self.tasks[task];
            t.cpu() == cpu && t.migration_disabled() > 0 && t.state() != State::Dead
        })
    }

    /// Takes `cpu` offline or brings it online.
    ///
    /// When a CPU goes offline, its tasks move to other CPUs in their affinity. If no CPU in a
    /// task's affinity is online, the task may use any CPU. A request to take the last online CPU
    /// offline is ignored. Linux returns EBUSY in this case.
    pub(crate) fn hotplug(&mut self, cpu: CpuId, online: bool) {
        let only = self.online_cpus.weight() == 1;
        if self.online_cpus.contains(cpu) == online || (!online && only) {
            return;
        }
        self.cpus_write_locked = true;
        if online {
            self.bring_up(cpu);
        } else {
            self.tear_down(cpu);
        }
        self.cpus_write_locked = false;
        // A policy that ends has waited for this.
        ext::resume_ending(self);
    }

    /// Brings `cpu` online (bringup_cpu, sched_cpu_activate).
    fn bring_up(&mut self, cpu: CpuId) {
        let scripted = self.stepped.is_some();
        // On x86, all CPUs stop while a new one sets up its caching (cache_ap_online).
        self.stop_machine(|_| ());
        self.settle_interrupts(cpu);
        self.enter(cpu);
        self.rqs[cpu].online = true;
        if scripted {
            let rq = &mut self.rqs[cpu];
            rq.coarse_timers = true;
            rq.tick_armed = false;
            rq.tick_generation = rq.tick_generation.wrapping_add(1);
            // The thread that does the work on the CPU starts. It is a real-time task in scripts.
            self.run_hotplug_thread(cpu, |m| rt::update_average(m, cpu, false));
            self.begin_hotplug_thread(cpu);
        }
        self.reset_idle(cpu);
        self.online_cpus.insert(cpu);
        self.observe(Transition::Online { cpu });
        self.mirror_online();
        let waited = self.update_numa(cpu);
        self.rebuild_domains(cpu);
        if !scripted {
            self.idle_cpus.insert(cpu);
            fair::nohz_enter_idle(self, cpu);
        }
        ext::cpu_online(self, cpu);
        if scripted {
            // The thread has woken others of the CPU (add_nr_running), which have run already if it had to wait.
            // When it sleeps, the CPU looks for tasks.
            self.domains.overloaded |= !waited;
            self.end_stopper(cpu);
        }
    }

    /// Takes `cpu` offline (sched_cpu_deactivate, sched_cpu_wait_empty, takedown_cpu).
    ///
    /// A thread does this on the CPU itself. Scripts follow it each time it runs or sleeps, because the CPU
    /// then looks for tasks and the policy sees that. Other runs follow it only while the CPU has tasks.
    fn tear_down(&mut self, cpu: CpuId) {
        let scripted = self.stepped.is_some();
        self.enter(cpu);
        self.sched_ttwu_pending(cpu);
        let interrupts = scripted || self.rqs[cpu].nr_running > 0;
        if interrupts {
            self.begin_hotplug_thread(cpu);
        }
        if scripted {
            // The thread is a real-time task, so the CPU pushes others away.
            rt::push_tasks(self, cpu);
        }
        self.domains.nohz.exit_idle(cpu);
        self.online_cpus.remove(cpu);
        // The thread waits for a grace period of RCU.
        if scripted {
            self.wait_for_grace_period(cpu);
        } else if interrupts {
            self.end_stopper(cpu);
            self.balance_push(cpu);
        }
        self.update_rq_clock(cpu);
        fair::update_sysctl(self);
        fair::offline(self, cpu);
        ext::rq_offline(self, cpu);
        ext::cpu_offline(self, cpu);
        self.update_numa(cpu);
        self.rebuild_domains(cpu);
        // The thread waits until the CPU is empty.
        if scripted {
            self.end_stopper(cpu);
        } else if self.rqs[cpu].nr_running > 0 {
            self.run_hotplug_thread(cpu, |_| ());
        }
        if self.balance_push(cpu) && scripted {
            self.run_hotplug_thread(cpu, |_| ());
        }
        self.settle_interrupts(cpu);
        if scripted {
            // The thread parks.
            self.run_hotplug_thread(cpu, |_| ());
        }
        // BPF programs see cpu_online_mask. Linux clears the CPU's bit only now (take_cpu_down, cpu_disable_common).
        self.stop_machine(|m| {
            m.mirror_online();
            m.migrate_timers(cpu);
        });
        self.die(cpu);
    }

    /// In a script, lets the thread of `cpu` wait for a grace period. Tasks leave a CPU that goes offline. The CPUs
    /// then handle the interrupts that others have sent, after which a policy can still let `cpu` run a task.
    fn wait_for_grace_period(&mut self, cpu: CpuId) {
        self.end_stopper(cpu);
        let leaves = !self.online_cpus.contains(cpu);
        if leaves {
            self.balance_push(cpu);
        }
        self.settle_interrupts(cpu);
        while leaves && self.balance_push(cpu) {
            self.settle_interrupts(cpu);
        }
        self.begin_hotplug_thread(cpu);
    }

    /// Waits for a grace period if the first CPU of a node comes online, or if the last one goes offline
    /// (sched_update_numa, sched_reset_numa). Returns whether it has waited.
    fn update_numa(&mut self, cpu: CpuId) -> bool {
        let node = self.spec.topology.cpus[cpu.index()].node;
        let mut others = self
            .cpus()
            .filter(|&other| other != cpu && self.layout.online.contains(other));
        let alone = others.all(|other| self.spec.topology.cpus[other.index()].node != node);
        let waits = self.stepped.is_some() && alone;
        if waits {
            self.wait_for_grace_period(cpu);
        }
        waits
    }

    /// Rebuilds the scheduling domains without a CPU that goes offline, or with one that comes online.
    fn rebuild_domains(&mut self, changed: CpuId) {
        fair::rebuild_domains(self, changed);
        ext::idle::rebuild_domains(self);
        self.mirror_active();
    }

    /// Lets the thread that brings a CPU online or takes it offline interrupt the running task.
    fn begin_hotplug_thread(&mut self, cpu: CpuId) {
        self.begin_thread(cpu, SCX_CPU_PREEMPT_RT);
    }

    /// Lets this thread do `work`.
    fn run_hotplug_thread(&mut self, cpu: CpuId, work: impl FnOnce(&mut Machine)) {
        self.begin_hotplug_thread(cpu);
        work(self);
        self.end_stopper(cpu);
    }

    /// Moves the tasks away from a CPU that goes offline. The CPU picks one after the other, and the stopper
    /// moves it to a different CPU. Returns whether there was a task (balance_push).
    fn balance_push(&mut self, cpu: CpuId) -> bool {
        let pushes = self.rqs[cpu].curr != IDLE;
        self.mover = Mover::Hotplug;
        while self.rqs[cpu].curr != IDLE {
            let task = self.rqs[cpu].curr;
            let to = |m: &mut Machine| m.select_fallback_rq(task, cpu);
            self.stop_and_migrate(task, to, MigrateReason::Affinity);
        }
        self.mover = Mover::None;
        pushes
    }

    /// In a script, lets the CPUs handle the interrupts that others have sent, and continues on `cpu`.
    fn settle_interrupts(&mut self, cpu: CpuId) {
        if self.stepped.is_some() {
            ext::irq_work(self);
            self.step_interrupts();
            self.enter(cpu);
        }
    }

    /// Moves the timers of a dying CPU to the first active CPU. They stay there when the CPU comes back
    /// (hrtimers_cpu_dying).
    fn migrate_timers(&mut self, cpu: CpuId) {
        let to = self.online_or_first(cpu);
        let sleeps = |task: &TaskId| matches!(self.tasks[*task].state(), State::Interruptible | State::Uninterruptible);
        let sleepers = self.tasks.ids().filter(|&task| self.wake_cpu(task) == cpu);
        for task in sleepers.filter(sleeps).collect::<Vec<_>>() {
            self.tasks[task].rare.timer_cpu = Some(to);
        }
        let soft = self.soft_timers.iter_mut().filter(|timer| timer.cpu == cpu);
        soft.for_each(|timer| timer.cpu = to);
        if let Some(stepped) = self.stepped.as_deref_mut() {
            stepped.hrtimers.migrate(cpu, to);
        }
        ext::migrate_timers(self, cpu, to);
        let groups = self.task_groups.groups.iter_mut();
        let pools = groups.map(|group| &mut group.bandwidth).filter(|pool| pool.cpu == cpu);
        pools.for_each(|pool| pool.cpu = to);
    }

    /// Ends the work of an empty CPU (sched_cpu_dying).
    fn die(&mut self, cpu: CpuId) {
        assert_eq!(
            self.rqs[cpu].curr, IDLE,
            "CPU {cpu} must be idle before it goes offline"
        );
        for server in Server::ALL {
            deadline::stop(self, cpu, server);
        }
        let rq = &mut self.rqs[cpu];
        rq.online = false;
        rq.need_resched = false;
        rq.need_resched_lazy = false;
        rq.resched_deferred = false;
        // `next_class` may be the class of a task that was moved away.
        rq.next_class = Class::Idle;
        self.reset_idle(cpu);
        let rq = &mut self.rqs[cpu];
        // Drops the kernel work for which the CPU has not spent time yet.
        rq.set_debt(0);
        rq.charged = 0;
        self.idle_cpus.remove(cpu);
        self.domains.nohz.exit_idle(cpu);
        self.observe(Transition::Offline { cpu });
        self.this_cpu = self.online_cpus.first().expect("one CPU always stays online");
        self.update_curr(self.this_cpu);
    }
}
