// SPDX-License-Identifier: GPL-2.0-only
//! Options that all commands which run policies have in common: machine, workload, seed,
//! parameters.

use super::complete;
use crate::duration;
use crate::errln;
use crate::error::Error;
use crate::load;
use crate::policy::Policy;
use crate::quote::quote;
use crate::scenario::{Phase, Scenario};
use crate::search;
use crate::size;
use bpf::engine::Engine;
use bpf::memory::DEFAULT_LIMIT;
use clap::{Args as ClapArgs, ValueEnum};
use kernel::release::Release;
use machine::Noise;
use std::path::{Path, PathBuf};
use workload::Workload;

/// Names of the two policies of a comparison, as in `--set A:NAME=VALUE`.
pub const SIDES: [&str; 2] = ["A", "B"];

#[derive(ClapArgs)]
pub struct Inputs {
    /// Simulated machine: a name (`machine list`), an hwloc XML file, an hwloc synthetic string, or
    /// `host` [default: numa32; for a recording, a machine with as many CPUs as recorded]
    #[arg(long, short, add = complete::machines())]
    machine: Option<String>,
    /// Workload: an rt-app JSON file, a generator such as closed:n=7,compute=250ms (`workload
    /// list`), or the file of a recording
    #[arg(long, short, default_value = "mixed.json", add = complete::workloads())]
    workload: String,
    /// Simulated time, for example 500ms [default: the workload's own length, or until its tasks
    /// exit]
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse_some)]
    pub for_ns: Option<u64>,
    /// Seed of the random generator
    #[arg(long, default_value_t = 1, value_parser = parse_seed)]
    pub seed: u64,
    /// Whether the seed also determines the times of the ticks and of the tasks' starts [default:
    /// fixed, but random in `compare`]
    #[arg(long, value_enum)]
    pub phase: Option<Phase>,
    /// Set a parameter (`policy show`): NAME=VALUE sets it in every policy that has it,
    /// POLICY:NAME=VALUE in one. `compare` and `diff` also accept A:NAME=VALUE and B:NAME=VALUE
    #[arg(long, value_name = "NAME=VALUE", add = complete::settings())]
    set: Vec<String>,
    /// Profile, which replaces a policy's user-space part (profiles/README.md): a file, a name in
    /// profiles/, or `none`. POLICY:FILE gives it to one policy [default: for a policy NAME,
    /// NAME.toml beside its object, else profiles/NAME.toml]
    #[arg(long, value_name = "FILE", add = complete::profiles())]
    profile: Vec<String>,
    /// What happens with the parts of a profile that do not fit the object
    #[arg(long, value_enum, value_name = "FIT", default_value_t)]
    profile_fit: load::Fit,
    /// Take a CPU offline or bring it back online: CPU:off@TIME or CPU:on@TIME
    #[arg(long, value_name = "CPU:off@TIME")]
    hotplug: Vec<String>,
    /// Linux release for which objects are loaded, 6.12 to 7.2. It determines which functions,
    /// callbacks and fields exist. Scheduling always behaves as in 7.2
    #[arg(long, value_name = "RELEASE", default_value_t, add = complete::releases())]
    kernel: Release,
    /// Background work of the machine's kernel, in place of that in the machine's file
    #[arg(long, value_enum, value_name = "LEVEL")]
    noise: Option<NoiseArg>,
    /// After a policy has failed, let the fair class schedule the rest of the run. The results then
    /// cover the whole run
    #[arg(long)]
    after_failure: bool,
    /// Memory that one run may use on this host, for example 512M. A policy that needs more ends
    /// with an error
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = size::parse)]
    memory: u64,
    /// How to execute the policy's code, which does not change the results
    #[arg(long, value_enum, default_value_t)]
    engine: EngineArg,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub enum EngineArg {
    /// JIT compiler if it supports this host, else the interpreter
    #[default]
    Auto,
    /// Compile to machine code
    Jit,
    /// Interpret
    Interpreter,
}

#[derive(Clone, Copy, ValueEnum)]
enum NoiseArg {
    /// No background work
    Off,
    /// A system on which nothing else runs
    Quiet,
    /// A server with block I/O and network traffic
    Server,
    /// A desktop with a display and an input device
    Desktop,
}

impl NoiseArg {
    fn noise(self) -> Option<Noise> {
        match self {
            NoiseArg::Off => None,
            NoiseArg::Quiet => Some(Noise::Quiet),
            NoiseArg::Server => Some(Noise::Server),
            NoiseArg::Desktop => Some(Noise::Desktop),
        }
    }
}

impl EngineArg {
    pub fn engine(self) -> Engine {
        match self {
            EngineArg::Auto => Engine::default(),
            EngineArg::Jit => Engine::Jit,
            EngineArg::Interpreter => Engine::Interpreter,
        }
    }
}

impl Inputs {
    /// Returns one scenario for each policy. A `--set` option can name a policy by its own name or
    /// by its entry in `sides`.
    pub fn scenarios(&self, policies: &[Policy], sides: &[&str]) -> Result<Vec<Scenario>, Error> {
        let workload = workload::load(&self.workload, &paths(&search::folders("workloads")))?;
        if self.machine.is_none()
            && let (_, Some(note)) = search::default_machine(&workload)
        {
            errln!("{}: note: {note}", self.workload);
        }
        let mut machine = search::machine(&self.machine_word(&workload))?;
        if let Some(noise) = self.noise {
            machine.noise = noise.noise();
        }
        let settings = self.settings(policies, sides)?;
        let profiles = self.profiles(policies, sides);
        let hotplug = self
            .hotplug
            .iter()
            .map(|spec| parse_hotplug(spec))
            .collect::<Result<Vec<_>, _>>()?;
        let scenario = |policy: &Policy, settings, profile| Scenario {
            policy: policy.clone(),
            profile,
            profile_fit: self.profile_fit,
            settings,
            engine: self.engine.engine(),
            sanitizer: false,
            machine: machine.clone(),
            workload: workload.clone(),
            seed: self.seed,
            phase: self.phase.unwrap_or_default(),
            for_ns: self.for_ns,
            kernel: self.kernel,
            after_failure: self.after_failure,
            hotplug: hotplug.clone(),
            memory: self.memory,
            trace: None,
            draw: None,
        };
        let sides = policies.iter().zip(settings).zip(profiles);
        Ok(sides
            .map(|((policy, settings), profile)| scenario(policy, settings, profile))
            .collect())
    }

    /// Returns the machine as `--machine` names it.
    fn machine_word(&self, workload: &Workload) -> String {
        self.machine
            .clone()
            .unwrap_or_else(|| search::default_machine(workload).0)
    }

    /// Returns the command line that repeats the runs of these scenarios. `policies` has their
    /// arguments. The command line contains the most important defaults explicitly, also the
    /// profiles that were found by the names of policies.
    pub fn command(&self, command: &str, policies: &[String], sides: &[&str], scenarios: &[Scenario]) -> String {
        let mut words = vec![format!("windtunnel {command}")];
        words.extend(policies.iter().map(|policy| quote(policy)));
        words.push(format!(
            "--machine {} --workload {}",
            quote(&self.machine_word(&scenarios[0].workload)),
            quote(&self.workload)
        ));
        if let Some(ns) = self.for_ns {
            words.push(format!("--for {}", duration::format(ns)));
        }
        words.push(format!("--seed {}", self.seed));
        words.extend(self.phase.map(|phase| format!("--phase {}", phase.name())));
        words.extend(self.set.iter().map(|setting| format!("--set {}", quote(setting))));
        let profiles = self.profile.iter().cloned().chain(found_profiles(scenarios, sides));
        words.extend(profiles.map(|profile| format!("--profile {}", quote(&profile))));
        if self.profile_fit == load::Fit::Loose {
            words.push("--profile-fit loose".to_owned());
        }
        words.extend(self.hotplug.iter().map(|spec| format!("--hotplug {}", quote(spec))));
        if self.memory != DEFAULT_LIMIT {
            words.push(format!("--memory {}", size::format(self.memory)));
        }
        if self.kernel != Release::default() {
            words.push(format!("--kernel {}", self.kernel));
        }
        if let Some(noise) = self.noise {
            words.push(format!("--noise {}", noise.noise().map_or("off", Noise::name)));
        }
        if self.after_failure {
            words.push("--after-failure".to_owned());
        }
        words.join(" ")
    }

    /// Returns the command line that runs one policy up to time `to` and draws the schedule from
    /// `from` to `to` (in ns).
    pub fn window_command(&self, policy: &str, scenario: &Scenario, from: u64, to: u64) -> String {
        let set = scenario.settings.iter().map(|(name, value)| format!("{name}={value}"));
        let profile = scenario.profile.iter().map(|path| path.display().to_string());
        let inputs = Inputs {
            machine: self.machine.clone(),
            workload: self.workload.clone(),
            for_ns: Some(to),
            set: set.collect(),
            hotplug: self.hotplug.clone(),
            profile: profile.collect(),
            ..*self
        };
        let window = format!("{}-{}", duration::format(from), duration::format(to));
        let (policies, scenarios) = ([policy.to_owned()], std::slice::from_ref(scenario));
        format!("{} --draw {window}", inputs.command("run", &policies, &[], scenarios))
    }

    /// Returns the argument of `--profile` for each policy. Of several that apply to a policy, the
    /// last one wins.
    fn profiles(&self, policies: &[Policy], sides: &[&str]) -> Vec<Option<PathBuf>> {
        let mut profiles = vec![None; policies.len()];
        for given in &self.profile {
            let owner = given.split_once(':').filter(|(owner, _)| {
                let named = |index: usize| policies[index].name() == *owner || sides.get(index) == Some(owner);
                (0..policies.len()).any(named)
            });
            for (index, policy) in policies.iter().enumerate() {
                match owner {
                    None => profiles[index] = Some(given.into()),
                    Some((owner, file)) if policy.name() == owner || sides.get(index) == Some(&owner) => {
                        profiles[index] = Some(file.into());
                    }
                    Some(_) => {}
                }
            }
        }
        profiles
    }

    /// Determines which policies each `--set` applies to. A parameter without a policy's name is
    /// set in all policies that have it.
    fn settings(&self, policies: &[Policy], sides: &[&str]) -> Result<Vec<Vec<(String, String)>>, Error> {
        let mut settings = vec![Vec::new(); policies.len()];
        for setting in &self.set {
            let Some((name, value)) = setting.split_once('=') else {
                return Err(Error::new(format!("--set {setting}: expected NAME=VALUE")));
            };
            let (policy, name) = match name.split_once(':') {
                Some((policy, name)) => (Some(policy), name),
                None => (None, name),
            };
            let mut found = false;
            for (index, known) in policies.iter().enumerate() {
                let chosen = match policy {
                    Some(policy) => known.name() == policy || sides.get(index) == Some(&policy),
                    // If there is only one policy, an unknown parameter is reported later, by an
                    // error that also lists the known ones.
                    None => policies.len() == 1 || load::has_parameter(known, name)?,
                };
                if chosen {
                    settings[index].push((name.to_owned(), value.to_owned()));
                    found = true;
                }
            }
            if !found {
                let missing = match policy {
                    Some(policy) => format!("no policy of this run is named '{policy}'"),
                    None => format!("no policy of this run has a parameter '{name}'"),
                };
                return Err(Error::new(format!("--set {setting}: {missing}"))
                    .hint("`windtunnel policy show POLICY` lists a policy's parameters"));
            }
        }
        Ok(settings)
    }
}

/// Returns the arguments of `--profile` that select the profiles which were found by the names of the
/// scenarios' policies. With several scenarios, an argument names its policy or its side.
fn found_profiles(scenarios: &[Scenario], sides: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (index, scenario) in scenarios
        .iter()
        .enumerate()
        .filter(|(_, scenario)| scenario.profile.is_none())
    {
        // The runs have already read the profile. If it has vanished since, it has no name.
        let Ok(Some(word)) = scenario.profile_word() else {
            continue;
        };
        let argument = match (scenarios.len(), sides.get(index)) {
            (1, _) => word,
            (_, Some(side)) => format!("{side}:{word}"),
            (_, None) => format!("{}:{word}", scenario.policy.name()),
        };
        if !found.contains(&argument) {
            found.push(argument);
        }
    }
    found
}

/// Returns a line for each scenario whose policy has a profile, for example `steal: profile
/// steal.toml`. In comparisons, the side precedes the line instead of the policy.
pub fn profile_notes(scenarios: &[Scenario], sides: &[&str]) -> Vec<String> {
    let note = |(index, scenario): (usize, &Scenario)| {
        let word = scenario.profile_word().ok()??;
        let owner = sides.get(index).copied().unwrap_or(scenario.policy.name());
        Some(format!("{owner}: profile {word}"))
    };
    let mut notes: Vec<String> = scenarios.iter().enumerate().filter_map(note).collect();
    notes.dedup();
    notes
}

/// Returns the profiles of the two sides of a comparison as JSON.
///
/// # Errors
/// The profile that `--profile` names does not exist.
pub fn profiles_json([a, b]: &[Scenario; 2]) -> Result<serde_json::Value, Error> {
    Ok(serde_json::json!({ "a": a.profile_word()?, "b": b.profile_word()? }))
}

/// Finds a policy for each object file or name.
pub fn find(specs: &[String]) -> Result<Vec<Policy>, Error> {
    specs.iter().map(|spec| Policy::find(spec)).collect()
}

fn paths(folders: &[PathBuf]) -> Vec<&Path> {
    folders.iter().map(PathBuf::as_path).collect()
}

fn parse_seed(text: &str) -> Result<u64, String> {
    let range = format!("expected a whole number from 0 to {}, for example 7", u64::MAX);
    text.parse().map_err(|_| range)
}

fn parse_hotplug(spec: &str) -> Result<(u64, u32, bool), Error> {
    let malformed = || {
        Error::new(format!(
            "--hotplug {spec}: expected CPU:off@TIME or CPU:on@TIME, for example 3:off@500ms"
        ))
    };
    let (cpu, rest) = spec.split_once(':').ok_or_else(malformed)?;
    let (state, at) = rest.split_once('@').ok_or_else(malformed)?;
    let online = match state {
        "on" => true,
        "off" => false,
        _ => return Err(malformed()),
    };
    Ok((
        duration::parse(at).map_err(|message| Error::new(format!("--hotplug {spec}: {message}")))?,
        cpu.parse().map_err(|_| malformed())?,
        online,
    ))
}
