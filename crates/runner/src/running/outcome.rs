// SPDX-License-Identifier: GPL-2.0-only
//! The outcome of a run: its result, its warnings, and the profile that was recorded.

use super::Running;
use crate::destination;
use crate::hotspots::hotspots;
use crate::results;
use crate::scenario::{Outcome, callback_names};
use crate::subs;
use input::error::Error;
use kernel::Ended;
use kernel::layout::enums::SCX_OPS_SWITCH_PARTIAL;
use kernel::release::Release;
use report::{ArenaFault, Run, SubResult};
use std::path::Path;

impl Running<'_> {
    /// Returns the outcome of a run after [`Running::end`].
    ///
    /// # Errors
    /// The trace file or the recorded profile cannot be written.
    pub fn outcome(mut self) -> Result<Outcome, Error> {
        // This ends the program, if the policy is one.
        self.machine.native = None;
        if let Some(report) = &self.program {
            self.warnings.append(&mut report.borrow_mut().warnings);
            if let Some(path) = &self.scenario.spec.record_profile {
                write_profile(path, report.borrow_mut().recorded.take())?;
            }
        }
        let profile = std::mem::take(&mut self.profile);
        let counters = self.counters.take();
        let counters = counters.map(|counters| counters.finish(&self.machine, self.machine.now));
        let (machine, scenario) = (&self.machine, self.scenario);
        let completed = self.ended == Some(Ended::AllExited);
        let run = Run {
            policy: scenario.policy.name().to_owned(),
            machine: scenario.machine.name.clone(),
            workload: scenario.workload.name.clone(),
            settings: scenario
                .settings
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
            profile,
            kernel: match scenario.spec.kernel == Release::default() {
                true => String::new(),
                false => scenario.spec.kernel.to_string(),
            },
            seed: scenario.spec.seed,
            simulated_ns: machine.now,
            wall_ns: u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            idle_while_waiting_ns: machine.idle_while_waiting_ns(),
            trace_hash: self.sinks.hash.value(),
            status: self.status(),
            exit: self.exit().map(results::exit_record),
            failed_forks: machine.failed_forks.len() as u64,
            waiting: results::waiting(machine),
            deadlock: self.deadlock(),
            unit: scenario.workload.unit.clone(),
            score: scenario.workload.score,
            completed,
            callbacks: results::callbacks(&machine.ext().called),
            lock_waits: results::lock_waits(machine),
            reload_ns: machine.reload_ns(),
            line_transfers: machine.line_transfers().count,
            line_transfer_ns: machine.line_transfers().ns,
            numa_faults: machine.numa().faults,
            numa_faults_local: machine.numa().local_faults,
            numa_pages_migrated: machine.numa().migrated,
            idle_states: machine
                .idle_times()
                .into_iter()
                .map(|time| (time.name, time.ns))
                .collect(),
            frequencies: machine
                .busy_frequencies()
                .into_iter()
                .map(|cpu| (cpu.busy_ns, cpu.mean))
                .collect(),
            kicks: results::kicks(machine),
            counters: counters.unwrap_or_default(),
            ops: callback_names(),
            locks: machine.locks().map(|(id, _)| machine.lock_name(id)).collect(),
        };
        let without_tasks = self.without_tasks();
        self.warnings.extend(without_tasks);
        self.warnings.extend(failed_forks(&machine.failed_forks));
        self.warnings.extend(machine.ended_tasks.iter().cloned());
        self.warnings.extend(machine.cgroups().refused.iter().cloned());
        if self.reloads > 0 {
            self.warnings.push(format!(
                "CPU hotplug ended the policy, which does not handle it; the policy was reloaded {} times",
                self.reloads
            ));
        }
        let sub_costs = machine.ext().sub_costs();
        let mut sub_schedulers = subs::results(&scenario.subs, machine, &sub_costs);
        for refused in std::mem::take(&mut self.refused_subs) {
            let same = |known: &&mut SubResult| known.cgroup == refused.cgroup && known.policy == refused.policy;
            if let Some(known) = sub_schedulers.iter_mut().find(same) {
                *known = refused;
            }
        }
        self.warnings
            .extend(sub_schedulers.iter().filter_map(SubResult::failure));
        let checked = results::checked(machine, &sub_costs);
        let arena_faults = results::arena_faults(machine, &self.subs, &sub_costs);
        self.warnings.extend(arena_faults.iter().map(ArenaFault::sentence));
        let uncalled = results::uncalled(machine);
        let hotspots = hotspots(machine, self.image.as_ref(), &self.subs);
        let mut outcome = self.sinks.finish(run, self.warnings)?;
        outcome.uncalled = uncalled;
        outcome.result.checked = checked;
        outcome.result.arena_faults = arena_faults;
        outcome.result.hotspots = hotspots;
        outcome.result.sub_schedulers = sub_schedulers;
        outcome.result.interrupted = self.interrupted;
        Ok(outcome)
    }

    /// Returns a warning if the policy was loaded but never scheduled a task.
    fn without_tasks(&self) -> Option<String> {
        let core = self.machine.ext();
        if self.program.is_some() && core.enable_seq == 0 {
            return Some("the program attached no policy; the fair class scheduled all tasks".to_owned());
        }
        if self.image.is_none() || core.nr_enabled > 0 || self.machine.tasks().is_empty() {
            return None;
        }
        let why = match core.ops().flags & SCX_OPS_SWITCH_PARTIAL {
            0 => "",
            _ => ": it sets SCX_OPS_SWITCH_PARTIAL, but no task of the workload has the policy SCHED_EXT",
        };
        Some(format!(
            "the policy scheduled no task{why}; the fair class scheduled all of them"
        ))
    }
}

/// Writes a recorded profile, and the object that it belongs to beside it, with the ending `.bpf.o`.
fn write_profile(path: &Path, recorded: Option<Result<exec::RecordedProfile, Error>>) -> Result<(), Error> {
    let Some(recorded) = recorded else {
        let error = "--record-profile: the run ended before the program had attached its scheduler and waited";
        return Err(Error::new(error).hint("--for gives the run more time"));
    };
    let recorded = recorded.map_err(|error| Error::new(format!("--record-profile: {error}")))?;
    destination::write(path, recorded.profile.as_bytes())?;
    destination::write(&path.with_extension("bpf.o"), &recorded.object)
}

/// Error number of a fork that failed because of the memory limit.
const EAGAIN: i32 = 11;

/// Returns a warning about tasks that could not be created.
fn failed_forks(forks: &[(String, i32)]) -> Option<String> {
    let (comm, errno) = forks.first()?;
    let number = forks.len();
    if *errno == -EAGAIN {
        return Some(format!(
            "{number} tasks were not created, the first was '{comm}': the memory limit is reached (--memory); the \
             workload continued without them"
        ));
    }
    Some(format!(
        "{number} forks failed, the first for '{comm}': ops.init_task() returned {errno}; the workload continued \
         without them"
    ))
}
