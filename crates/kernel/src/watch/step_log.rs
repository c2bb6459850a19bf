// SPDX-License-Identifier: GPL-2.0-only
//! Adds events to the log of a script that trace records do not describe.

use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::simulation::id::{CpuId, TaskId};
use crate::watch::state::stepped::Mover;
use trace::MigrateReason;

impl Machine {
    /// Adds an event to the log, if a script is being executed.
    pub(crate) fn note_step(&mut self, text: impl FnOnce(&Machine) -> String) {
        if self.stepped.is_none() {
            return;
        }
        let (at, text) = (self.records.len(), text(self));
        if let Some(stepped) = &mut self.stepped {
            stepped.events.push((at, text));
        }
    }

    /// Adds the reason for which a task moves.
    #[cold]
    pub(crate) fn note_migration(&mut self, task: TaskId, reason: MigrateReason) {
        let t = &self.tasks[task];
        let reason = match (reason, self.mover) {
            (MigrateReason::Fork, _) => return,
            (MigrateReason::Wakeup, _) => "wake".to_string(),
            (_, Mover::Balance { cpu, level, idle }) => {
                let nohz = if cpu == self.this_cpu { "" } else { " nohz" };
                let name = self.domains.domain_span(cpu, level).name;
                format!("balance domain={name} idle={idle}{nohz}")
            }
            (_, Mover::ActiveBalance) => "active_balance".to_string(),
            (_, Mover::RtPush) => "rt_push".to_string(),
            (_, Mover::RtPull) => "rt_pull".to_string(),
            (_, Mover::Hotplug) => "hotplug".to_string(),
            (MigrateReason::Exec, _) | (MigrateReason::Affinity, Mover::Stopper) => "stopper".to_string(),
            (MigrateReason::Affinity, _) => "affinity".to_string(),
            (MigrateReason::Balance, _) if t.class == Class::Ext => "dispatch".to_string(),
            (MigrateReason::Balance, _) => "other".to_string(),
        };
        self.note_step(|_| reason);
    }
}

impl Machine {
    /// Returns the path of a cgroup.
    pub(crate) fn group_path(&self, group: u32) -> &str {
        let named = self.workload.cgroups.get(group as usize);
        named.map_or("/", |cgroup| &cgroup.path)
    }

    /// Formats a set of CPUs as in `1-3,5`.
    pub(crate) fn format_cpus(&self, cpus: impl Iterator<Item = CpuId>) -> String {
        let mut text = String::new();
        let mut range: Option<(u32, u32)> = None;
        let mut add = |(first, last): (u32, u32)| {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(&match first == last {
                true => first.to_string(),
                false => format!("{first}-{last}"),
            });
        };
        for cpu in cpus.map(CpuId::nr) {
            match &mut range {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => {
                    range.take().map(&mut add);
                    range = Some((cpu, cpu));
                }
            }
        }
        range.map(&mut add);
        text
    }
}
