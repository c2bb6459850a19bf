// SPDX-License-Identifier: GPL-2.0-only
//! Loads policies into a simulated machine, and describes policies for `policy show` and `check`. A
//! policy's profile is a file that replaces its user-space part, the program that would load the
//! policy on a real machine.

use crate::parameter::Parameter;
use crate::policy::{self, Policy, command_parameters};
use crate::profiles::{self, Located};
use bpf::engine::Engine;
use bpf::link::Image;
use bpf::object::{Object, Variable};
use clap::ValueEnum;
use input::error::Error;
use kernel::ext::Exit;
use kernel::load::LoadError;
use kernel::release::Release;
use kernel::{Machine, Options};
use profile::{Profile, Properties};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::Path;
use std::str::FromStr;

/// Result of loading an object.
#[must_use]
pub enum Loaded {
    /// The policy is enabled.
    Enabled(Box<Image>),
    /// The kernel refused the policy, or the policy failed while it was being enabled.
    Refused(Box<Exit>),
}

/// Loads an object and enables its policy.
///
/// # Errors
/// User errors: the object is not a scheduler, or its profile does not match it.
pub fn enable(machine: &mut Machine, object: &Object, profile: &Profile, engine: Engine) -> Result<Loaded, Error> {
    match kernel::load::load(machine, object, profile, engine) {
        Ok(mut image) => {
            image
                .warnings
                .extend(missing_profile(object, profile, machine.nr_cpus()));
            Ok(Loaded::Enabled(Box::new(image)))
        }
        Err(LoadError::Refused(exit)) => Ok(Loaded::Refused(exit)),
        Err(LoadError::Input(error)) => Err(Error::new(error)),
    }
}

/// Loads an object and enables its policy as a sub-scheduler of the cgroup with the index `cgroup`.
///
/// # Errors
/// User errors: the object is not a scheduler, or its profile does not match it.
pub fn enable_sub(
    machine: &mut Machine,
    object: &Object,
    profile: &Profile,
    engine: Engine,
    cgroup: u32,
) -> Result<Loaded, Error> {
    match kernel::load::load_sub(machine, object, profile, engine, cgroup) {
        Ok(image) => Ok(Loaded::Enabled(Box::new(image))),
        Err(LoadError::Refused(exit)) => Ok(Loaded::Refused(exit)),
        Err(LoadError::Input(error)) => Err(Error::new(error)),
    }
}

/// Returns a warning if the object has no profile, and a constant whose name stands for the number
/// of CPUs (NAMES) has another value than the machine's number of CPUs. On a real machine, the
/// policy's user-space part would set this constant.
fn missing_profile(object: &Object, profile: &Profile, nr_cpus: u32) -> Option<String> {
    const NAMES: [&str; 6] = [
        "nr_cpus",
        "nr_cpu_ids",
        "nr_cpus_online",
        "nr_online_cpus",
        "nr_possible_cpus",
        "num_possible_cpus",
    ];
    if *profile != Profile::default() {
        return None;
    }
    let constants =
        settable_globals(object).filter(|variable| !variable.live && NAMES.contains(&variable.name.as_str()));
    let values = constants.filter_map(|variable| Some((&variable.name, object.get(&variable.name).ok()?)));
    let mut wrong = values.filter(|(_, value)| value.parse() != Ok(nr_cpus));
    wrong.next().map(|(name, value)| {
        format!("{name} = {value}, but the machine has {nr_cpus} CPUs; a profile can set it (profiles/README.md)")
    })
}

/// Opens the object of the policy `name`. Applies the profile of this policy and the `--set`
/// settings. Returns the object and the profile.
///
/// # Errors
/// The object cannot be read, or the profile or a setting does not match it.
pub fn prepare(
    name: &str,
    path: &Path,
    settings: &[(String, String)],
    facts: Properties,
) -> Result<(Object, Profile), Error> {
    let prepared = prepare_with_profile(profiles::find(name, path)?, Fit::Strict, name, path, settings, facts)?;
    Ok((prepared.object, prepared.profile))
}

/// What happens with the parts of a profile that do not fit the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Fit {
    /// They are an error
    #[default]
    Strict,
    /// They are left out, and a warning names each of them
    Loose,
}

impl FromStr for Fit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Fit, Error> {
        <Fit as ValueEnum>::from_str(text, false)
            .map_err(|_| Error::new(format!("profile fit {text}: expected strict or loose")))
    }
}

/// An object that is ready to be loaded.
pub struct Prepared {
    pub object: Object,
    /// The profile without the parts that do not fit the object.
    pub profile: Profile,
    /// Descriptions of the parts that do not fit. Empty with [`Fit::Strict`].
    pub left_out: Vec<String>,
}

/// Opens an object and applies a profile and the `--set` settings.
///
/// # Errors
/// The errors of [`prepare`].
pub fn prepare_with_profile(
    mut profile: Profile,
    fit: Fit,
    name: &str,
    path: &Path,
    settings: &[(String, String)],
    facts: Properties,
) -> Result<Prepared, Error> {
    let mut object = read(path)?;
    let left_out = match fit {
        Fit::Strict => profile.apply(&mut object, facts).map(|()| Vec::new()),
        Fit::Loose => {
            let misfits = profile.fit(&mut object, facts);
            misfits.map(|misfits| misfits.iter().map(ToString::to_string).collect())
        }
    };
    let left_out = left_out.map_err(|error| {
        Error::new(format!("profile of {name}: {error}")).hint(
            "the profile may be for a different version of the policy; --profile-fit loose leaves out what does not fit",
        )
    })?;
    for (parameter, value) in settings {
        object.set(parameter, value).map_err(|error| {
            let known: Vec<&str> = settable_globals(&object)
                .map(|variable| variable.name.as_str())
                .take(12)
                .collect();
            Error::new(format!("--set {parameter}={value}: {error}")).hint(format!(
                "`windtunnel policy show {}` describes its parameters: {}",
                path.display(),
                known.join(", ")
            ))
        })?;
    }
    check_ranges(&object, settings)?;
    Ok(Prepared {
        object,
        profile,
        left_out,
    })
}

/// Checks that the values of the settings are in the ranges that the policy declares for its
/// parameters. The caller has already applied the settings to the object.
///
/// # Errors
/// A value is out of its range. The message names the parameter and the range.
pub fn check_ranges(object: &Object, settings: &[(String, String)]) -> Result<(), Error> {
    for (path, _) in settings {
        let name = path.split(['[', '.']).next().unwrap_or(path).trim();
        let variable = object.variables().iter().find(|variable| variable.name == name);
        let tags = variable.iter().flat_map(|variable| &variable.tags);
        let value: Option<i128> = object.get(path).ok().and_then(|value| value.parse().ok());
        for parameter in tags.filter_map(|tag| Parameter::parse(tag)) {
            if let Some(value) = value {
                parameter
                    .check(value)
                    .map_err(|message| Error::new(format!("--set {path}: {message}")))?;
            }
        }
    }
    Ok(())
}

/// Returns the globals that a user may set. Globals whose name begins with two underscores are left
/// out, because the loader sets them.
fn settable_globals(object: &Object) -> impl Iterator<Item = &Variable> {
    object
        .variables()
        .iter()
        .filter(|variable| !variable.name.starts_with("__"))
}

/// Returns whether the policy has the global variable that a setting changes. The setting can name
/// a part of the variable: `queue[3].len` changes `queue`.
///
/// # Errors
/// The object cannot be read.
pub fn has_parameter(policy: &Policy, name: &str) -> Result<bool, Error> {
    let path = match policy {
        Policy::Object { path, .. } => path,
        Policy::Exec { command, .. } => return Ok(command_parameters(command).iter().any(|known| known.name == name)),
        Policy::Eevdf => return Ok(false),
    };
    let variable = name.split(['[', '.']).next().unwrap_or(name).trim();
    Ok(read(path)?.variables().iter().any(|known| known.name == variable))
}

/// Returns the parameters of a policy, with the meanings that the policy declares.
///
/// # Errors
/// The object cannot be read.
pub fn parameter_names(policy: &Policy) -> Result<Vec<(String, String)>, Error> {
    let path = match policy {
        Policy::Object { path, .. } => path,
        Policy::Exec { command, .. } => {
            let parameters = command_parameters(command).into_iter();
            return Ok(parameters.map(|known| (known.name, String::new())).collect());
        }
        Policy::Eevdf => return Ok(Vec::new()),
    };
    let object = read(path)?;
    let name = |variable: &Variable| {
        let declared = variable.tags.iter().find_map(|tag| Parameter::parse(tag));
        (
            variable.name.clone(),
            declared.map(|declared| declared.meaning).unwrap_or_default(),
        )
    };
    Ok(settable_globals(&object).map(name).collect())
}

/// Returns the parameters of a policy as JSON: for each its name, type, value in the object, value
/// in the profile, whether it can change while the policy runs, and the unit, range and meaning
/// that the policy declares.
///
/// # Errors
/// The object or the profile cannot be read.
pub fn parameters(policy: &Policy) -> Result<serde_json::Value, Error> {
    let (name, path) = match policy {
        Policy::Object { name, path } => (name, path),
        Policy::Exec { command, .. } => {
            let parameters = command_parameters(command).into_iter();
            let parameters = parameters.map(|known| {
                serde_json::json!({
                    "name": known.name,
                    "type": "text",
                    "value": known.default,
                    "profile": null,
                    "live": false,
                    "unit": null,
                    "low": null,
                    "high": null,
                    "meaning": null,
                })
            });
            return Ok(parameters.collect());
        }
        Policy::Eevdf => return Ok(serde_json::json!([])),
    };
    let object = read(path)?;
    let profile = profiles::find(name, path)?;
    let parameters = settable_globals(&object).map(|variable| {
        let declared = variable.tags.iter().find_map(|tag| Parameter::parse(tag));
        let range = declared.as_ref().and_then(|declared| declared.range);
        // JSON has no integers of 128 bits.
        let bound = |bound: i128| i64::try_from(bound).ok();
        serde_json::json!({
            "name": variable.name,
            "type": variable.type_name,
            "value": object.get(&variable.name).ok(),
            "profile": profile.value_of(&variable.name),
            "live": variable.live,
            "unit": declared.as_ref().map(|declared| declared.unit.as_str()),
            "low": range.and_then(|(low, _)| bound(low)),
            "high": range.and_then(|(_, high)| bound(high)),
            "meaning": declared.as_ref().map(|declared| declared.meaning.as_str()),
        })
    });
    Ok(parameters.collect())
}

fn read(path: &Path) -> Result<Object, Error> {
    Object::open(path).map_err(Error::new)
}

/// Result of [`check`].
#[derive(Debug, Default)]
pub struct Checked {
    /// Fields and functions that are not modelled, and programs that never run.
    pub warnings: Vec<String>,
    /// Reasons why the kernel refuses the policy.
    pub refused: Vec<String>,
}

/// Checks that an object can be loaded: links it against the simulated kernel of a Linux release,
/// compiles it and analyses its code. Does not enable the policy.
///
/// # Errors
/// The object cannot be read, or its profile does not fit it.
pub fn check(policy: &Policy, release: Release) -> Result<Checked, Error> {
    let profile = match policy {
        Policy::Object { name, path } => profiles::locate(None, name, path)?,
        Policy::Eevdf | Policy::Exec { .. } => None,
    };
    check_with(policy, profile.as_ref(), &[], release)
}

/// Checks an object as [`check`] does, with a profile and settings.
///
/// # Errors
/// The errors of [`check`], or a setting does not match the object.
pub fn check_with(
    policy: &Policy,
    profile: Option<&Located>,
    settings: &[(String, String)],
    release: Release,
) -> Result<Checked, Error> {
    let Policy::Object { name, path } = policy else {
        return Ok(Checked::default());
    };
    let spec = machine::load("numa32", &[])?;
    let options = Options {
        release,
        ..Options::default()
    };
    let machine = Machine::new(spec, workload::Workload::default(), options).map_err(Error::new)?;
    let profile = profile.map_or_else(|| Ok(Profile::default()), Located::read)?;
    let facts = Properties::new(machine.spec(), &release);
    let Prepared { object, profile, .. } = prepare_with_profile(profile, Fit::Strict, name, path, settings, facts)?;
    match kernel::load::check(&machine, &object, &profile, Engine::default()) {
        Ok(checked) => Ok(Checked {
            warnings: checked.warnings,
            refused: checked.findings,
        }),
        Err(LoadError::Refused(exit)) => Ok(Checked {
            refused: std::iter::once(exit.message).chain(exit.notes).collect(),
            ..Checked::default()
        }),
        Err(LoadError::Input(error)) => Err(Error::new(error)),
    }
}

/// Returns the text of `policy show`: the purpose of the policy, its parameters and maps, and the
/// fields and functions that are not modelled. Also returns the reasons why Linux `release` refuses
/// the policy.
///
/// # Errors
/// The object cannot be read, or its profile does not fit it.
pub fn show(policy: &Policy, release: Release) -> Result<(String, Vec<String>), Error> {
    if let Policy::Exec { name, command } = policy {
        let mut text = format!("{name}: a scheduler's program. Its own --help describes its options.\n");
        let parameters = command_parameters(command);
        if !parameters.is_empty() {
            text += "\nParameters (--set):\n";
        }
        for known in parameters {
            let _ = writeln!(text, "  {} = {}", known.name, known.default);
        }
        return Ok((text, Vec::new()));
    }
    let Policy::Object { name, path } = policy else {
        let text = "eevdf: built in, the kernel's fair class. It has no parameters.\n";
        return Ok((text.into(), Vec::new()));
    };
    let object = read(path)?;
    let profile = profiles::find(name, path)?;
    let mut text = policy::header(name).map_or_else(|| format!("{name}: {}\n", path.display()), |header| header + "\n");
    let parameters = |live: bool| settable_globals(&object).filter(move |variable| variable.live == live);
    for (live, title) in [
        (false, "Parameters at load time (--set)"),
        (true, "Globals that can change while the policy runs"),
    ] {
        if parameters(live).next().is_some() {
            let _ = write!(text, "\n{title}:\n");
        }
        for variable in parameters(live) {
            let value = object.get(&variable.name).unwrap_or_else(|_| "?".into());
            let value = if value.len() > 40 {
                format!("{}...", value.chars().take(37).collect::<String>())
            } else {
                value
            };
            let _ = write!(text, "  {} ({}) = {value}", variable.name, variable.type_name);
            for tag in &variable.tags {
                let _ = write!(text, "\n      {}", tag.strip_prefix("param: ").unwrap_or(tag));
            }
            if let Some(value) = profile.value_of(&variable.name) {
                let _ = write!(text, "\n      set by the profile: {value}");
            }
            text.push('\n');
        }
    }
    let maps: Vec<&str> = object.maps().map(|map| map.name.as_str()).collect();
    if !maps.is_empty() {
        let _ = write!(text, "\nMaps: {}\n", maps.join(", "));
    }
    let Checked { warnings, refused } = check(policy, release)?;
    if !warnings.is_empty() {
        text.push_str("\nNot modelled, or never run by the simulator:\n");
        for warning in warnings {
            let _ = writeln!(text, "  {warning}");
        }
    }
    Ok((text, refused))
}
