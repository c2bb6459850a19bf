// SPDX-License-Identifier: GPL-2.0-only
//! A run in progress. The caller advances it step by step and can look at its state between the
//! steps.

use crate::counters::Counters;
use crate::load::{self, Loaded, Prepared};
use crate::policy::Policy;
use crate::results;
use crate::scenario::{Scenario, Sinks};
use crate::subs::Subs;
use bpf::link::Image;
use input::error::Error;
use kernel::ext::{EnableState, Exit};
use kernel::layout::enums::SCX_ECODE_ACT_RESTART;
use kernel::{Ended, Machine};
use report::{Blocked, RunResult, Status, SubResult};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;
use trace::{Sink, Tee};
use workload::Action;

mod outcome;
mod start;

/// Time limit in ns of a workload that defines no length and ends when all its tasks have exited.
pub(crate) const LONGEST_NS: u64 = 3_600_000_000_000;
/// If a hotplug event ends the policy, the policy is loaded again after this number of ticks. Four
/// ticks after the event, the kernel has disabled the policy. The remaining six ticks stand for the
/// work of the policy's user-space part, which loads the policy again.
const RELOAD_TICKS: u64 = 10;

/// A machine with its policy and workload, and the sinks (consumers) of its records.
pub struct Running<'a> {
    scenario: &'a Scenario,
    pub machine: Machine,
    image: Option<Image>,
    /// The kernel's reason for refusing the policy, or `None` if the policy was not refused.
    refused: Option<Box<Exit>>,
    warnings: Vec<String>,
    /// The argument of `--profile` that selects the policy's profile. Empty if it has none.
    profile: String,
    subs: Subs,
    /// Sub-schedulers that were refused.
    refused_subs: Vec<SubResult>,
    /// The counters of the policy, if they are read during the run.
    pub counters: Option<Counters>,
    sinks: Sinks,
    started: Instant,
    /// Simulated time up to which the run has been executed, in ns.
    at: u64,
    /// Time at which the run ends at the latest, in ns.
    until: u64,
    /// Number of times that the policy was reloaded after a hotplug event.
    reloads: u32,
    ended: Option<Ended>,
    interrupted: bool,
    /// The report of the scheduler's program, if the policy is one.
    program: Option<Rc<RefCell<exec::Report>>>,
}

impl Running<'_> {
    /// Returns the simulated time up to which the run has been executed, in ns.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Returns the time before which no further event can happen, in ns. While the run is in
    /// progress, and after its policy has failed, this is the time reached so far. After any other
    /// end, it is `u64::MAX`.
    pub fn clock(&self) -> u64 {
        match self.ended {
            None | Some(Ended::Policy) => self.at,
            Some(Ended::Time | Ended::AllExited | Ended::Deadlock { .. }) => u64::MAX,
        }
    }

    /// Returns whether the run is over because the policy was refused or failed.
    pub fn failed(&self) -> bool {
        self.refused.is_some() || self.ended == Some(Ended::Policy)
    }

    /// Returns the time at which the run ends at the latest, in ns.
    pub fn until(&self) -> u64 {
        self.until
    }

    /// Returns whether the run is over.
    pub fn ended(&self) -> bool {
        self.refused.is_some() || self.ended.is_some() || self.at >= self.until
    }

    /// Returns the kernel's reason for refusing the policy. The run of a refused policy executes
    /// nothing. Returns `None` if the policy was not refused.
    pub fn refused(&self) -> Option<&Exit> {
        self.refused.as_deref()
    }

    /// Describes how the policy failed. Returns `None` if it did not fail. For example: `ended at
    /// 1.20 s: runtime error: non-existent DSQ 0x7`.
    pub fn failure(&self) -> Option<String> {
        let result = RunResult {
            status: self.status(),
            simulated_ns: self.machine.now,
            exit: self.exit().map(results::exit_record),
            deadlock: self.deadlock(),
            ..RunResult::default()
        };
        result.failure()
    }

    /// Returns the exit record of a policy that was refused or has ended.
    pub fn exit(&self) -> Option<&Exit> {
        self.refused().or(self.machine.ext().exit.as_ref())
    }

    /// Returns the linked object of the policy. After a reload, it is the reloaded one.
    pub fn image(&self) -> Option<&Image> {
        self.image.as_ref()
    }

    /// Takes the linked object of the policy out of a run that has ended.
    pub fn take_image(&mut self) -> Option<Image> {
        self.image.take()
    }

    /// Executes all events up to and including the time `to` (ns), unless the run ends before. The
    /// records are passed to `sink` and to the scenario's own sinks.
    ///
    /// # Errors
    /// The policy must be reloaded after a hotplug event, but cannot be.
    pub fn advance(&mut self, to: u64, sink: &mut dyn Sink) -> Result<(), Error> {
        let to = to.min(self.until);
        while !self.ended() && self.at < to {
            let after = RELOAD_TICKS * 1_000_000_000 / u64::from(self.scenario.machine.hz);
            let plan = self.scenario.hotplug.iter().map(|&(time, ..)| time);
            let named = self.scenario.workload.disturbances.iter();
            let named = named.filter(|disturbance| matches!(disturbance.action, Action::Hotplug { .. }));
            let plan = plan.chain(named.map(|disturbance| disturbance.at_ns));
            let reload = plan.map(|time| time.saturating_add(after));
            let reload = reload.filter(|&time| time > self.at).min();
            let sample = self.counters.as_ref().map_or(u64::MAX, Counters::next);
            self.at = to.min(reload.unwrap_or(to)).min(sample);
            self.ended = self
                .machine
                .advance(self.at, &mut Tee::new().with(&mut self.sinks).with(sink));
            if self.ended == Some(Ended::Policy) {
                self.at = self.machine.now;
            }
            self.check_program()?;
            if let Some(counters) = self
                .counters
                .as_mut()
                .filter(|_| self.at == sample && self.ended.is_none())
            {
                counters.sample(&self.machine, self.at);
            }
            if let Policy::Object { name, path } = &self.scenario.policy
                && self.ended.is_none()
                && Some(self.at) == reload
                && wants_restart(&self.machine)
            {
                let Prepared { object, profile, .. } = self.scenario.open_object(name, path)?;
                match load::enable(&mut self.machine, &object, &profile, self.scenario.spec.engine.engine())? {
                    Loaded::Enabled(image) => {
                        if let Some(counters) = &mut self.counters {
                            counters.reloaded(&self.machine, &image);
                        }
                        self.image = Some(*image);
                        let (_, refused) = self.scenario.attach_subs(&mut self.machine, &mut self.subs)?;
                        self.refused_subs.extend(refused);
                    }
                    // The results up to this time are valid. The run ends with the exit record of
                    // the failed reload.
                    Loaded::Refused(exit) => {
                        self.machine.set_exit(*exit);
                        if !self.scenario.spec.after_failure {
                            self.ended = Some(Ended::Policy);
                        }
                    }
                }
                self.reloads += 1;
            }
        }
        Ok(())
    }

    /// Returns the error of a program that could not continue.
    fn check_program(&self) -> Result<(), Error> {
        let Some(report) = &self.program else {
            return Ok(());
        };
        match report.borrow().message(self.scenario.policy.name()) {
            Some(message) => Err(Error::new(message)),
            None => Ok(()),
        }
    }

    /// Ends the run early at the user's request. The trace file is incomplete and is therefore
    /// discarded.
    pub fn interrupt(&mut self) {
        self.interrupted = true;
        self.sinks.discard_trace();
    }

    /// Ends the run at the current time. Completes the statistics and emits the last records.
    pub fn end(&mut self, sink: &mut dyn Sink) {
        if self.refused.is_some() {
            self.machine.pass_printed_lines(sink);
            return;
        }
        let ended = self.ended.get_or_insert(Ended::Time);
        self.machine
            .finish(ended, self.at, &mut Tee::new().with(&mut self.sinks).with(sink));
    }

    fn status(&self) -> Status {
        match (&self.refused, &self.machine.ext().exit, &self.ended) {
            (Some(_), _, _) => Status::Refused,
            (None, Some(_), _) => Status::Ejected,
            (None, None, Some(Ended::Deadlock { .. })) => Status::Deadlock,
            (None, None, _) => Status::Ran,
        }
    }

    /// Returns the tasks of the deadlock in which the run ended.
    fn deadlock(&self) -> Vec<Blocked> {
        let blocked = match &self.ended {
            Some(Ended::Deadlock { blocked }) => blocked.as_slice(),
            _ => &[],
        };
        let blocked = blocked.iter().map(|task| Blocked {
            pid: task.pid,
            comm: task.comm.clone(),
            waits_for: task.waits_for.clone(),
        });
        blocked.collect()
    }
}

/// Returns whether the policy has ended with an exit code that asks for a reload.
fn wants_restart(machine: &Machine) -> bool {
    let restart = SCX_ECODE_ACT_RESTART.cast_signed();
    let exit = machine.ext().exit.as_ref();
    machine.ext().state == EnableState::Disabled && exit.is_some_and(|exit| exit.code & restart != 0)
}
