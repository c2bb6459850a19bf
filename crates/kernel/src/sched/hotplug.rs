// SPDX-License-Identifier: GPL-2.0-only
//! CPU hotplug: CPUs that go offline and come back (sched_cpu_deactivate, sched_cpu_activate).

use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::state::task::State;
use crate::sched::{deadline, ext, fair, rt};
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, Server};
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
        if online {
            // On x86, all CPUs stop while a new one sets up its caching (cache_ap_online).
            self.stop_other_cpus(cpu);
            if self.stepped.is_some() {
                self.step_interrupts();
            }
            self.enter(cpu);
            self.rqs[cpu].online = true;
            self.begin_bringup(cpu);
            self.reset_idle(cpu);
            self.online_cpus.insert(cpu);
            self.idle_cpus.insert(cpu);
            self.observe(Transition::Online { cpu });
            self.mirror_online();
            fair::rebuild_domains(self, cpu);
            // In a script, the CPU stops its tick at the first one.
            if self.stepped.is_none() {
                fair::nohz_enter_idle(self, cpu);
            }
            ext::cpu_online(self, cpu);
            self.end_bringup(cpu);
            return;
        }
        self.enter(cpu);
        self.sched_ttwu_pending(cpu);
        self.deactivate(cpu);
        self.stop_other_cpus(cpu);
        for server in Server::ALL {
            deadline::stop(self, cpu, server);
        }
        // BPF programs see cpu_online_mask. Linux clears the CPU's bit in this mask only after all
        // tasks have left the CPU (cpu_disable_common).
        self.mirror_online();
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

    /// Lets the thread that brings a CPU online begin. In scripts it is a real-time task.
    fn begin_bringup(&mut self, cpu: CpuId) {
        if self.stepped.is_some() {
            self.rqs[cpu].coarse_timers = true;
            self.update_rq_clock(cpu);
            rt::update_average(self, cpu, false);
        }
    }

    /// Lets the thread that has brought a CPU online sleep again, so that the CPU looks for tasks. While it
    /// worked, it woke other threads of the CPU (add_nr_running).
    fn end_bringup(&mut self, cpu: CpuId) {
        if self.stepped.is_none() {
            return;
        }
        self.domains.overloaded = true;
        self.begin_stopper(cpu);
        self.end_stopper(cpu);
    }

    /// Lets a CPU become empty before it goes offline (sched_cpu_deactivate, sched_cpu_wait_empty).
    fn deactivate(&mut self, cpu: CpuId) {
        self.domains.nohz.exit_idle(cpu);
        self.online_cpus.remove(cpu);
        // The thread that takes the CPU offline waits for a grace period of RCU.
        self.balance_push(cpu);
        if self.stepped.is_some() {
            self.step_interrupts();
            self.enter(cpu);
        }
        self.update_rq_clock(cpu);
        fair::offline(self, cpu);
        ext::rq_offline(self, cpu);
        ext::cpu_offline(self, cpu);
        fair::rebuild_domains(self, cpu);
        // The thread waits until the CPU is empty.
        self.balance_push(cpu);
        if self.stepped.is_some() {
            self.step_interrupts();
            self.enter(cpu);
        }
        assert_eq!(
            self.rqs[cpu].curr, IDLE,
            "CPU {cpu} must be idle before it goes offline"
        );
    }

    /// Moves the tasks away from a CPU that goes offline. The CPU picks one after the other, and the stopper
    /// moves it to a different CPU (balance_push).
    fn balance_push(&mut self, cpu: CpuId) {
        if self.rqs[cpu].nr_running == 0 {
            return;
        }
        // The thread that takes the CPU offline interrupts the running task. In scripts it is a real-time
        // task, so the CPU pushes the others away.
        self.run_stopper(cpu, |m| {
            if m.stepped.is_some() {
                rt::push_tasks(m, cpu);
            }
        });
        self.mover = Mover::Hotplug;
        while self.rqs[cpu].curr != IDLE {
            let task = self.rqs[cpu].curr;
            let to = self.select_fallback_rq(task, cpu);
            self.migrate_running(task, to, MigrateReason::Affinity);
        }
        self.mover = Mover::None;
    }
}
