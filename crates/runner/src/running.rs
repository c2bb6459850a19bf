// SPDX-License-Identifier: GPL-2.0-only
//! A run in progress. The caller advances it step by step and can look at its state between the
//! steps.

use crate::counters::Counters;
use crate::destination;
use crate::hotspots::hotspots;
use crate::load::{self, Loaded, Prepared};
use crate::policy::{Policy, command_with};
use crate::profiles::Located;
use crate::results;
use crate::scenario::{Outcome, Scenario, Sinks, callback_names};
use crate::subs::{self, Subs};
use bpf::link::Image;
use input::error::Error;
use kernel::ext::{EnableState, Exit};
use kernel::layout::enums::{SCX_ECODE_ACT_RESTART, SCX_OPS_SWITCH_PARTIAL};
use kernel::release::Release;
use kernel::{Ended, Machine};
use profile::{Profile, Properties};
use report::{ArenaFault, Blocked, Run, RunResult, Status, SubResult};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;
use trace::{Sink, Tee};
use workload::Action;

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

impl Scenario {
    /// Creates a machine and loads the policy. The run starts at time 0, or later if the policy's
    /// profile sets an uptime.
    ///
    /// # Errors
    /// The errors of [`Scenario::run`].
    pub fn start(&self) -> Result<Running<'_>, Error> {
        let started = Instant::now();
        let mut workload = self.workload.clone();
        let threads = match &self.policy {
            Policy::Exec { command, .. } => Some(kernel::native::add_to(&mut workload, &comm(command))),
            Policy::Eevdf | Policy::Object { .. } => None,
        };
        let mut machine = self.spec.boot(self.machine.clone(), workload)?;
        for &(at, cpu, online) in &self.hotplug {
            if cpu >= machine.nr_cpus() {
                return Err(Error::new(format!(
                    "--hotplug: machine '{}' has no CPU {cpu}",
                    self.machine.name
                )));
            }
            machine.plan_hotplug(at, cpu, online);
        }
        let mut sinks = Sinks::new(self, &machine)?;
        let mut at = 0;
        let mut ended = None;
        let (mut image, mut refused, mut program) = (None, None, None);
        match &self.policy {
            Policy::Eevdf => {
                if let Some((name, _)) = self.settings.first() {
                    return Err(Error::new(format!(
                        "--set {name}: eevdf is the built-in fair class and has no parameters"
                    )));
                }
            }
            Policy::Object { name, path } => {
                let Prepared {
                    object,
                    profile,
                    left_out,
                } = self.open_object(name, path)?;
                if profile.uptime_ns > 0 {
                    at = profile.uptime_ns;
                    ended = machine.advance(at, &mut sinks);
                }
                match load::enable(&mut machine, &object, &profile, self.spec.engine.engine())? {
                    Loaded::Enabled(mut loaded) => {
                        let left_out = left_out
                            .iter()
                            .map(|misfit| format!("left out of the profile: {misfit}"));
                        loaded.warnings.splice(0..0, left_out);
                        image = Some(*loaded);
                    }
                    Loaded::Refused(exit) => refused = Some(exit),
                }
            }
            Policy::Exec { command, .. } => {
                let settings = exec::Settings {
                    command: command_with(command, &self.settings)?,
                    engine: self.spec.engine.engine(),
                    echo: self.spec.program_output,
                    record: self.spec.record_profile.is_some(),
                    index: threads.unwrap_or_default(),
                };
                let report = exec::start(&mut machine, settings)?;
                refused = report.borrow_mut().refused_policy.take();
                image = report.borrow().image.clone();
                program = Some(report);
            }
        }
        let mut subs = Subs::new(&self.subs);
        let (mut sub_warnings, mut refused_subs) = (Vec::new(), Vec::new());
        if refused.is_none() {
            (sub_warnings, refused_subs) = self.attach_subs(&mut machine, &mut subs)?;
        }
        machine.details = self.trace.is_some() || self.spec.hotspots;
        Ok(Running {
            scenario: self,
            profile: self.profile_word().unwrap_or_default().to_owned(),
            counters: None,
            warnings: image
                .iter()
                .flat_map(|image| image.warnings.clone())
                .chain(std::mem::take(&mut sub_warnings))
                .collect(),
            subs,
            refused_subs,
            sinks,
            machine,
            image,
            refused,
            started,
            at,
            // Without a time limit, the run ends when the last task has exited.
            until: self.limit_ns().unwrap_or(LONGEST_NS),
            reloads: 0,
            ended,
            interrupted: false,
            program,
        })
    }

    /// Attaches the sub-schedulers. Returns warnings of the loader, and the results of those that were
    /// refused. The run continues without them.
    fn attach_subs(&self, machine: &mut Machine, subs: &mut Subs) -> Result<(Vec<String>, Vec<SubResult>), Error> {
        let (mut warnings, mut refused) = (Vec::new(), Vec::new());
        for sub in &self.subs {
            match sub.attach(machine, &self.machine, &self.spec)? {
                Ok(image) => {
                    let found = image.warnings.iter();
                    warnings.extend(found.map(|text| format!("{}: {text}", sub.name)));
                    subs.attached(sub, image);
                }
                Err(result) => refused.push(result),
            }
        }
        Ok((warnings, refused))
    }

    /// Opens the policy's object and applies the profile and the settings.
    fn open_object(&self, name: &str, path: &Path) -> Result<Prepared, Error> {
        let profile = self.profile.as_ref();
        let profile = profile.map_or_else(|| Ok(Profile::default()), Located::read)?;
        load::prepare_with_profile(
            profile,
            self.spec.profile_fit,
            name,
            path,
            &self.settings,
            Properties::new(&self.machine, &self.spec.kernel),
        )
    }
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
            idle_while_waiting_ns: machine.checks.idle_while_waiting_ns,
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

/// Returns the name that the first task of a program has.
fn comm(command: &[String]) -> String {
    let program = command.first().map(Path::new).and_then(Path::file_name);
    program
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Returns whether the policy has ended with an exit code that asks for a reload.
fn wants_restart(machine: &Machine) -> bool {
    let restart = SCX_ECODE_ACT_RESTART.cast_signed();
    let exit = machine.ext().exit.as_ref();
    machine.ext().state == EnableState::Disabled && exit.is_some_and(|exit| exit.code & restart != 0)
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
