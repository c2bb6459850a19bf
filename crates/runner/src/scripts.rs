// SPDX-License-Identifier: GPL-2.0-only
//! Executes scripts (crate `script`) with the policies that the command knows by name, and converts runs
//! into scripts.

use crate::load::{self, Loaded};
use crate::policy::Policy;
use crate::scenario::Scenario;
use bpf::engine::Engine;
use input::Source;
use input::error::Error;
use kernel::Machine;
use profile::Properties;
pub use script::Converted;
use script::{Script, Source as Run};
use std::path::Path;

/// Largest script that is read, bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Reads and executes a script. Returns its log. If `policies` is a directory with the object of a
/// policy, this object is used.
///
/// # Errors
/// The script cannot be read or is wrong, or its policy cannot be loaded.
pub fn run(path: &Path, policies: Option<&Path>) -> Result<String, Error> {
    let place = path.display().to_string();
    let source = Source::read(path, MAX_BYTES)?;
    let script = Script::parse(&place, &source.text)?;
    script::run(&script, |machine, policy, cgroup| {
        let object = policies.map(|folder| folder.join(format!("{}.bpf.o", policy.name)));
        let named = object.filter(|object| object.is_file());
        let named = named.map_or_else(|| policy.name.clone(), |object| object.display().to_string());
        load_policy(&place, machine, policy, &named, cgroup)
    })
}

/// Converts a run into a script, which ends after `for_ns`, or when a task has waited for a CPU for
/// `stall_ns`. The script names the policy by its object's name.
///
/// # Errors
/// A script cannot express the run, or the policy cannot be loaded.
pub fn convert(scenario: &Scenario, for_ns: u64, stall_ns: u64) -> Result<Converted, Error> {
    let cannot = |what: &str| Error::new(format!("a script cannot express {what}"));
    let (policy, object) = match &scenario.policy {
        Policy::Eevdf => (None, String::new()),
        Policy::Object { name, path } => {
            let settings = scenario.settings.iter().map(|(name, value)| format!(" {name}={value}"));
            let policy = format!("{name}{}", settings.collect::<String>());
            (Some(policy), path.display().to_string())
        }
        Policy::Exec { .. } => return Err(cannot("the program of a scheduler")),
    };
    if !scenario.subs.is_empty() || !scenario.hotplug.is_empty() {
        return Err(cannot("the options --sub and --hotplug"));
    }
    let run = Run {
        machine: &scenario.machine,
        policy,
        workload: &scenario.workload,
        for_ns,
        stall_ns,
    };
    script::convert(&run, |machine, policy, cgroup| {
        load_policy("the script", machine, policy, &object, cgroup)
    })
}

/// Loads the policy of a script, or attaches one to a cgroup, as `run` would.
fn load_policy(
    place: &str,
    machine: &mut Machine,
    policy: &script::Policy,
    named: &str,
    cgroup: Option<u32>,
) -> Result<script::Loaded, Error> {
    let here = |error: Error| Error::new(format!("{place}:{}: {error}", policy.line));
    let Policy::Object { name, path } = Policy::find(named).map_err(here)? else {
        return match cgroup {
            None => Ok(script::Loaded::Enabled),
            Some(_) => Err(here(Error::new(
                "the fair class and programs cannot be attached to a group",
            ))),
        };
    };
    let facts = Properties::new(machine.spec(), &script::RELEASE);
    let (object, profile) = load::prepare(&name, &path, &policy.parameters, facts).map_err(here)?;
    let engine = Engine::default();
    let loaded = match cgroup {
        None => load::enable(machine, &object, &profile, engine),
        Some(cgroup) => load::enable_sub(machine, &object, &profile, engine, cgroup),
    };
    match loaded.map_err(here)? {
        Loaded::Enabled(_) => Ok(script::Loaded::Enabled),
        Loaded::Refused(_) if cgroup.is_some() => Ok(script::Loaded::Refused),
        Loaded::Refused(exit) => Err(here(Error::new(format!("the policy was refused: {exit}")))),
    }
}
