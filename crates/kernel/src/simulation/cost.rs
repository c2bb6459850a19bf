// SPDX-License-Identifier: GPL-2.0-only
//! Accounting of the time of CPUs, and charging CPUs for the work of the kernel and of the policy
//! (BPF scheduler).
//!
//! The simulated time does not advance while an event handler runs. The cost of the handler is
//! added to the debt of its CPU (`rq.debt`), and the CPU then spends time until the debt is 0. The
//! task that runs there makes no progress meanwhile. `rq.clock` is the time up to which the CPU's
//! time has been accounted.

use crate::machine::Machine;
use crate::policy::layout::mirror;
use crate::simulation::id::{CpuId, IDLE};
use machine::Distance;
use trace::Event;

impl Machine {
    /// Accounts the time of `cpu` since the last call. The time first reduces the debt. The rest
    /// belongs to the running task or is idle time.
    #[inline]
    pub(crate) fn account(&mut self, cpu: CpuId) {
        if self.rqs[cpu].clock != self.now {
            self.account_since(cpu);
        }
    }

    fn account_since(&mut self, cpu: CpuId) {
        let now = self.now;
        let rq = &mut self.rqs[cpu];
        let elapsed = now - rq.clock;
        rq.clock = now;
        if !rq.online {
            rq.time.offline_ns += elapsed;
            return;
        }
        let worked_off = elapsed.min(rq.debt);
        rq.debt -= worked_off;
        let kernel = if rq.spinning { elapsed } else { worked_off };
        rq.time.overhead_ns += kernel;
        let rest = elapsed - kernel;
        if rest == 0 {
            return;
        }
        if rq.curr == IDLE {
            rq.time.idle_ns += rest;
            return;
        }
        rq.time.tasks_ns += rest;
        let curr = rq.curr;
        let capacity = rq.capacity;
        let task = &mut self.tasks[curr];
        task.sum_exec_runtime += rest;
        task.program.consume(rest, capacity);
        let class = task.class;
        mirror::mirror_runtime(self, curr);
        self.class_update_curr(class, cpu, rest);
    }

    /// Emits a trace record with the overhead of `cpu` since the last such record.
    pub(crate) fn record_overhead(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu];
        let ns = rq.time.overhead_ns - rq.recorded_overhead_ns;
        rq.recorded_overhead_ns = rq.time.overhead_ns;
        if ns > 0 {
            self.trace(cpu, Event::Overhead { ns });
        }
    }

    /// Adds `ns` of scheduler overhead to the debt of `cpu`.
    pub(crate) fn charge(&mut self, cpu: CpuId, ns: u64) {
        self.rqs[cpu].debt += ns;
    }

    /// Adds `ns` of scheduler overhead to the debt of the current CPU.
    pub(crate) fn charge_here(&mut self, ns: u64) {
        self.charge(self.this_cpu, ns);
    }

    /// Charges `cpu` with the execution of `insns` BPF instructions.
    pub(crate) fn charge_insns(&mut self, cpu: CpuId, insns: u64) {
        let rq = &mut self.rqs[cpu];
        let ps = rq.carry_ps + insns * u64::from(self.spec.costs.bpf_insn_ps);
        rq.carry_ps = ps % 1000;
        rq.debt += ps / 1000;
    }

    /// Returns the time at which `cpu` will have reduced its debt to 0. In an event handler, this
    /// is the local time of the CPU: the time at which the handler's next instruction would run on
    /// a real CPU.
    pub(crate) fn local_time(&self, cpu: CpuId) -> u64 {
        let rq = &self.rqs[cpu];
        (rq.clock + rq.debt).max(self.now)
    }

    /// Converts a local time to the number of ns since the current handler began. Some trace
    /// records contain this number.
    pub(crate) fn after(&self, local: u64) -> u32 {
        local.saturating_sub(self.now).min(u64::from(u32::MAX)) as u32
    }

    pub(crate) fn distance(&self, a: CpuId, b: CpuId) -> Distance {
        self.spec.topology.distance(a.nr(), b.nr())
    }

    /// Sends a reschedule IPI and charges the sender for it. The latency of the IPI depends on the
    /// distance to the target. If the target is idle, the time to leave idle is added to the
    /// latency.
    pub(crate) fn send_ipi(&mut self, target: CpuId) {
        let from = self.this_cpu;
        self.charge(from, u64::from(self.spec.costs.ipi_send_ns));
        let mut latency = self.spec.costs.ipi_latency.at(self.distance(from, target));
        if self.rqs[target].idle() {
            latency += u64::from(self.spec.costs.idle_exit_ns);
            self.rqs[target].leaving_idle = true;
        }
        let at = self.local_time(from) + latency;
        self.trace(from, Event::Ipi { target: target.nr() });
        self.events
            .push(at, crate::simulation::event::Event::Resched { cpu: target });
    }
}
