// SPDX-License-Identifier: GPL-2.0-only
//! Starts a run: creates the machine, and loads the policy and its sub-schedulers.

use super::{LONGEST_NS, Running};
use crate::load::{self, Loaded, Prepared};
use crate::policy::{Policy, command_with};
use crate::profiles::Located;
use crate::scenario::{Scenario, Sinks};
use crate::subs::Subs;
use input::error::Error;
use kernel::Machine;
use profile::{Profile, Properties};
use report::SubResult;
use std::path::Path;
use std::time::Instant;

impl Scenario {
    /// Creates a machine and loads the policy. The run starts at time 0, or later if the policy's
    /// profile sets an uptime. If the run ends earlier, it has a warning and no policy.
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
        // Why the policy was not loaded.
        let mut too_early = None;
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
                let uptime = profile.uptime_ns;
                if uptime > 0 {
                    at = uptime.min(self.limit_ns().unwrap_or(LONGEST_NS));
                    ended = machine.advance(at, &mut sinks);
                }
                if ended.is_some() || at < uptime {
                    let end = if ended.is_some() { machine.now } else { at };
                    too_early = Some(format!(
                        "the policy was not loaded, because the run ended at {}, before the uptime of its profile, {}",
                        report::time(end),
                        report::time(uptime),
                    ));
                } else {
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
        let (sub_warnings, refused_subs) = match (&refused, &too_early) {
            (None, None) => self.attach_subs(&mut machine, &mut subs)?,
            _ => Default::default(),
        };
        machine.details = self.trace.is_some() || self.spec.hotspots;
        Ok(Running {
            scenario: self,
            profile: self.profile_word().unwrap_or_default().to_owned(),
            counters: None,
            // The report of a program has the warnings about its object.
            warnings: image
                .iter()
                .filter(|_| program.is_none())
                .flat_map(|image| image.warnings.clone())
                .chain(too_early)
                .chain(sub_warnings)
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
    pub(super) fn attach_subs(
        &self,
        machine: &mut Machine,
        subs: &mut Subs,
    ) -> Result<(Vec<String>, Vec<SubResult>), Error> {
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
    pub(super) fn open_object(&self, name: &str, path: &Path) -> Result<Prepared, Error> {
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

/// Returns the name that the first task of a program has.
fn comm(command: &[String]) -> String {
    let program = command.first().map(Path::new).and_then(Path::file_name);
    program
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}
