// SPDX-License-Identifier: GPL-2.0-only
//! CPU hotplug: CPUs that go offline and come back (sched_cpu_deactivate, sched_cpu_activate).

use crate::layout::enums::SCX_CPU_PREEMPT_RT;
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
            self.bring_up(cpu);
        } else {
            self.tear_down(cpu);
        }
    }

    /// Brings `cpu` online (bringup_cpu, sched_cpu_activate).
    fn bring_up(&mut self, cpu: CpuId) {
        let scripted = self.stepped.is_some();
        // On x86, all CPUs stop while a new one sets up its caching (cache_ap_online).
        self.stop_machine();
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
        fair::rebuild_domains(self, cpu);
        if !scripted {
            self.idle_cpus.insert(cpu);
            fair::nohz_enter_idle(self, cpu);
        }
        ext::cpu_online(self, cpu);
        if scripted {
            // The thread has woken others of the CPU (add_nr_running). When it sleeps, the CPU looks for tasks.
            self.domains.overloaded = true;
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
        if interrupts {
            self.end_stopper(cpu);
            self.balance_push(cpu);
        }
        self.settle_interrupts(cpu);
        if scripted {
            self.begin_hotplug_thread(cpu);
        }
        self.update_rq_clock(cpu);
        fair::update_sysctl(self);
        fair::offline(self, cpu);
        ext::rq_offline(self, cpu);
        ext::cpu_offline(self, cpu);
        fair::rebuild_domains(self, cpu);
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
        self.stop_machine();
        self.die(cpu);
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
            self.step_interrupts();
            self.enter(cpu);
        }
    }

    /// Ends the work of an empty CPU (take_cpu_down, sched_cpu_dying).
    fn die(&mut self, cpu: CpuId) {
        assert_eq!(
            self.rqs[cpu].curr, IDLE,
            "CPU {cpu} must be idle before it goes offline"
        );
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
}
