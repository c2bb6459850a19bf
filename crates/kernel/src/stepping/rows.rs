// SPDX-License-Identifier: GPL-2.0-only
//! The state of CPUs, queues and tasks as rows of text (docs/scripts.md). A row shows the values that
//! the machine has stored, without updating them.

use crate::layout::SCHED_RR;
use crate::layout::callbacks::Callback;
use crate::layout::enums::{
    SCX_DSQ_BYPASS, SCX_DSQ_FLAG_BUILTIN, SCX_DSQ_GLOBAL, SCX_DSQ_LOCAL, SCX_DSQ_REJECT, SCX_DSQ_RESCUE,
};
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::ext::state::dsq::{DsqRef, Dsqs, NO_DSQ};
use crate::sched::ext::state::scheds::SchedId;
use crate::sched::fair::state::entity::{CfsRqId, Entity, FIRST_VRUNTIME};
use crate::sched::fair::state::pelt::Avg;
use crate::sched::state::task::State;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use std::fmt::Write;

/// A row: its key, which names the object, and the fields.
pub type Row = (String, String);

/// Adds text to a row.
macro_rules! add {
    ($row:expr, $($text:tt)*) => {
        write!($row, $($text)*).expect("writing to a String succeeds")
    };
}

impl Machine {
    /// Returns the rows of the CPUs, of the queues of groups and of the DSQs. CPU 0 has no rows.
    pub fn state_rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let cpus: Vec<CpuId> = self.cpus().skip(1).filter(|&cpu| self.rqs[cpu].online).collect();
        for &cpu in &cpus {
            rows.push(self.cpu_row(cpu));
            rows.push(self.queue_row(cpu, 0, cpu.nr()));
        }
        for group in 1..self.task_groups.groups.len() as u32 {
            if !self.cgroups.get(group).online {
                continue;
            }
            rows.push(self.group_row(group));
            rows.extend(
                cpus.iter()
                    .map(|&cpu| self.queue_row(cpu, group, self.task_groups.id(group, cpu))),
            );
        }
        if self.ext.policy.is_some() {
            self.add_dsq_rows(&cpus, &mut rows);
        }
        rows
    }

    fn name_of(&self, task: TaskId) -> String {
        if task == IDLE {
            "idle".to_string()
        } else {
            self.tasks[task].comm()
        }
    }

    fn cpu_row(&self, cpu: CpuId) -> Row {
        let rq = &self.rqs[cpu];
        let mut row = format!(
            " curr={} nr_running={} capacity={}",
            self.name_of(rq.curr),
            rq.nr_running,
            self.capacity_of(cpu)
        );
        if rq.fair.misfit_task_load > 0 {
            add!(row, " misfit={}", rq.fair.misfit_task_load);
        }
        (format!("cpu {cpu}"), row)
    }

    fn queue_row(&self, cpu: CpuId, group: u32, id: CfsRqId) -> Row {
        let cfs = self.cfs(id);
        let eevdf = &self.rqs[cpu].fair.eevdf;
        // EEVDF picks from one queue with the tasks of all groups, so the groups have no virtual time.
        let zero_vruntime = if group == 0 {
            eevdf.zero_vruntime
        } else {
            FIRST_VRUNTIME
        };
        let mut row = format!(
            " nr_queued={} h_nr_queued={} h_nr_runnable={} h_nr_idle={} weight={} zero_vruntime={zero_vruntime}",
            cfs.nr_queued, cfs.h_nr_queued, cfs.h_nr_runnable, cfs.h_nr_idle, cfs.load
        );
        add_averages(&mut row, &cfs.avg);
        if group > 0 {
            let (se, queue) = (self.se(id), self.task_groups.rq(id));
            add!(
                row,
                " shares={} tg_load_avg_contrib={}",
                se.load,
                queue.tg_load_avg_contrib
            );
            add_entity(&mut row, se, se.slice);
            if self.task_groups.groups[group as usize].bandwidth.quota.is_some() {
                let runtime = &queue.runtime;
                add!(
                    row,
                    " throttled={} throttle_count={} runtime_remaining={}",
                    u32::from(runtime.throttled),
                    runtime.throttle_count,
                    runtime.remaining
                );
            }
        } else {
            if eevdf.curr != IDLE {
                add!(row, " curr={}", self.name_of(eevdf.curr));
            }
            for (index, task) in eevdf.timeline.iter().enumerate() {
                let before = if index == 0 { " queue=" } else { "," };
                add!(row, "{before}{}", self.name_of(task));
            }
        }
        (format!("cfs {cpu} {}", self.group_path(group)), row)
    }

    fn group_row(&self, group: u32) -> Row {
        let known = &self.task_groups.groups[group as usize];
        let mut row = format!(" shares={} load_avg={}", known.shares, known.load_avg);
        let pool = &known.bandwidth;
        if let Some(quota) = pool.quota {
            let (period, burst, runtime) = (pool.period_ns, pool.burst_ns, pool.runtime);
            add!(row, " quota={quota} period={period} burst={burst} runtime={runtime}");
        }
        (format!("group {}", self.group_path(group)), row)
    }

    fn add_dsq_rows(&self, cpus: &[CpuId], rows: &mut Vec<Row>) {
        let dsqs = &self.ext.dsqs;
        for &cpu in cpus {
            rows.push((format!("dsq local {cpu}"), self.dsq_fields(dsqs.local(cpu))));
        }
        let has_subs = self.ext.has_subs();
        if has_subs {
            let diverted = [
                ("reject", Dsqs::reject as fn(&Dsqs, CpuId) -> DsqRef),
                ("rescue", Dsqs::rescue),
            ];
            for (name, get) in diverted {
                for &cpu in cpus {
                    rows.push((format!("dsq {name} {cpu}"), self.dsq_fields(get(dsqs, cpu))));
                }
            }
        }
        for id in self.ext.loaded_scheds() {
            let names = self.ext.names_of(id);
            let of = match id {
                SchedId::ROOT => String::new(),
                _ => format!(" {}", self.group_path(self.ext.sched(id).cgroup)),
            };
            for node in 0..self.spec.topology.nodes.len() as u32 {
                let dsq = dsqs.global_in(names, node);
                rows.push((format!("dsq{of} global {node}"), self.dsq_fields(dsq)));
            }
            for (id, dsq) in names.created() {
                rows.push((format!("dsq{of} {}", self.created_dsq_name(id)), self.dsq_fields(dsq)));
            }
            for &cpu in cpus.iter().filter(|_| has_subs) {
                let dsq = names.bypass(cpu);
                rows.push((format!("dsq{of} bypass {cpu}"), self.dsq_fields(dsq)));
            }
        }
    }

    fn dsq_fields(&self, dsq: DsqRef) -> String {
        let dsqs = &self.ext.dsqs;
        let mut row = format!(" nr={}", dsqs.nr(dsq));
        let mut at = dsqs.first(dsq);
        let mut before = " queue=";
        while let Some(task) = at {
            add!(row, "{before}{}", self.tasks[task].comm());
            before = ",";
            at = dsqs.next(task);
        }
        row
    }

    /// Returns the row of a task.
    pub(super) fn task_row(&self, task: TaskId) -> Row {
        let t = &self.tasks[task];
        let class = match t.class {
            Class::Rt => "rt",
            Class::Fair => "fair",
            Class::Ext => "ext",
            Class::Idle => "idle",
        };
        let state = match t.state() {
            State::Dead => "dead",
            _ if t.on_cpu() => "running",
            _ if t.fair.delayed => "delayed",
            _ if t.fair.throttled => "throttled",
            _ if t.on_rq() => "queued",
            State::Waking => "waking",
            State::Running => "new",
            State::Interruptible | State::Uninterruptible => "blocked",
        };
        let mut row = format!(" state={state} cpu={} class={class}", t.cpu());
        let key = format!("task {}", t.comm());
        if t.state() == State::Dead {
            return (key, row);
        }
        let cpus = match self.has_narrowed_mask(task) {
            true => t.cpu().to_string(),
            false => self.format_cpus(t.cpus.iter()),
        };
        add!(row, " prio={} cpus={cpus}", t.prio() - 100);
        if t.migration_disabled() > 0 {
            add!(row, " migration_disabled={}", t.migration_disabled());
        }
        if t.cgroup() > 0 {
            add!(row, " group={}", self.group_path(t.cgroup()));
        }
        match t.class {
            Class::Fair => {
                add_entity(&mut row, &t.fair, t.fair.slice(self.domains.base_slice));
                add_averages(&mut row, &t.fair.avg);
                add!(row, " util_est={}", t.fair.util_est);
            }
            Class::Ext => {
                let scx = &t.task_struct.scx;
                let dsq = self.dsq_name(self.ext.dsqs.current(task));
                add!(
                    row,
                    " dsq={dsq} slice={} vtime={} weight={}",
                    scx.slice,
                    scx.dsq_vtime,
                    scx.weight
                );
                if t.ext.sched != SchedId::ROOT {
                    add!(row, " sched={}", self.group_path(self.ext.sched(t.ext.sched).cgroup));
                }
            }
            _ if t.policy() == SCHED_RR => add!(row, " time_slice={}", t.rt.time_slice),
            _ => {}
        }
        add!(row, " sum_exec={}", t.sum_exec_runtime());
        (key, row)
    }

    fn dsq_name(&self, dsq: DsqRef) -> String {
        if dsq == NO_DSQ {
            return "none".to_string();
        }
        match self.ext.dsqs.id(dsq) {
            SCX_DSQ_LOCAL => "local".to_string(),
            SCX_DSQ_GLOBAL => "global".to_string(),
            SCX_DSQ_BYPASS => "bypass".to_string(),
            SCX_DSQ_REJECT => "reject".to_string(),
            SCX_DSQ_RESCUE => "rescue".to_string(),
            id if id & SCX_DSQ_FLAG_BUILTIN != 0 => format!("builtin:{id:#x}"),
            id => self.created_dsq_name(id),
        }
    }

    /// Returns the id of a queue that the policy has created. A policy with ops.cgroup_init() may use the
    /// ids of cgroups, which differ from boot to boot, so the path of the cgroup is returned instead.
    fn created_dsq_name(&self, id: u64) -> String {
        let uses_cgroups = self.ext.ops().defines(Callback::CgroupInit);
        match self.layout.cgroup_from_id(id).filter(|_| uses_cgroups) {
            Some(group) if group > 0 => self.group_path(group).to_string(),
            _ => format!("{id:#x}"),
        }
    }
}

fn add_averages(row: &mut String, avg: &Avg) {
    let (load, runnable, util) = (avg.load_avg, avg.runnable_avg, avg.util_avg);
    add!(row, " load_avg={load} runnable_avg={runnable} util_avg={util}");
}

/// Adds those fields of a fair entity that mean something in its state.
fn add_entity(row: &mut String, se: &Entity, slice: u64) {
    if se.on_rq {
        add!(row, " vruntime={} deadline={}", se.vruntime, se.deadline);
        if se.delayed {
            add!(row, " vlag={}", se.vlag);
        }
    } else {
        add!(row, " vlag={}", se.vlag);
        if se.rel_deadline {
            add!(row, " rel_deadline={}", se.deadline);
        }
    }
    add!(row, " slice={slice}");
}
