// SPDX-License-Identifier: GPL-2.0-only
//! What is run, but for the policies: the arguments that all commands which run something share.

use bpf::engine::Engine;
use bpf::memory::DEFAULT_LIMIT;
use clap::{Args as ClapArgs, ValueEnum};
use kernel::release::Release;
use std::path::{Path, PathBuf};
use trace::escape;
use windtunnel::duration;
use windtunnel::error::Error;
use windtunnel::load;
use windtunnel::policy::Policy;
use windtunnel::scenario::Scenario;
use windtunnel::search;
use windtunnel::size;

/// The sides of a comparison, as `--set` names them.
pub const SIDES: [&str; 2] = ["A", "B"];

#[derive(ClapArgs)]
pub struct Inputs {
    /// A name (`machine list`), an hwloc XML file, an hwloc synthetic string, or `host`
    #[arg(long, short, default_value = "numa32")]
    machine: String,
    /// An rt-app JSON file, a generator (`workload list`), for example closed:n=7,compute=250ms, or a recording's file
    #[arg(long, short, default_value = "mixed.json")]
    workload: String,
    /// Simulated time, for example 500ms [default: what the workload asks for, or until its tasks have exited]
    #[arg(long = "for", value_parser = duration::parse_some)]
    pub for_ns: Option<u64>,
    /// Where chance starts from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// A policy's parameter: NAME=VALUE, or POLICY:NAME=VALUE for one of several (`policy show`); where two are compared, A:NAME=VALUE and
    /// B:NAME=VALUE name the sides
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// What the policy's user-space half sets up (profiles/README.md) [default: profiles/NAME.toml, by the policy's name]
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Take a CPU offline or bring it back: CPU:off@TIME or CPU:on@TIME
    #[arg(long, value_name = "CPU:off@TIME")]
    hotplug: Vec<String>,
    /// The release of Linux whose functions, callbacks and fields objects find: 6.12 to 7.2; it behaves like 7.2 in any case
    #[arg(long, value_name = "RELEASE", default_value_t)]
    kernel: Release,
    /// After a policy has ended, go on under the fair class; figures are then those of both
    #[arg(long)]
    after_failure: bool,
    /// Limit of the memory that one run uses on this host, for example 512M; a policy that needs more ends with an error
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = size::parse)]
    memory: u64,
    /// What executes the policy; both give the same bytes
    #[arg(long, value_enum, default_value_t)]
    engine: EngineArg,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum EngineArg {
    /// Machine code where there is a compiler for this host, else interpreted
    #[default]
    Auto,
    Jit,
    Interpreter,
}

impl EngineArg {
    fn engine(self) -> Engine {
        match self {
            EngineArg::Auto => Engine::default(),
            EngineArg::Jit => Engine::Jit,
            EngineArg::Interpreter => Engine::Interpreter,
        }
    }
}

impl Inputs {
    /// A run of each policy; `sides` are names of the policies by their place.
    pub fn scenarios(&self, policies: &[Policy], sides: &[&str]) -> Result<Vec<Scenario>, Error> {
        let machine = machine::load(&self.machine, &paths(&search::folders("machines")))?;
        let workload = workload::load(&self.workload, &paths(&search::folders("workloads")))?;
        let settings = self.settings(policies, sides)?;
        let hotplug = self
            .hotplug
            .iter()
            .map(|spec| parse_hotplug(spec))
            .collect::<Result<Vec<_>, _>>()?;
        let scenario = |(policy, settings): (&Policy, Vec<(String, String)>)| Scenario {
            policy: policy.clone(),
            profile: self.profile.clone(),
            settings,
            engine: self.engine.engine(),
            checked: false,
            machine: machine.clone(),
            workload: workload.clone(),
            seed: self.seed,
            for_ns: self.for_ns,
            kernel: self.kernel,
            after_failure: self.after_failure,
            hotplug: hotplug.clone(),
            memory: self.memory,
            trace: None,
            draw: None,
        };
        Ok(policies.iter().zip(settings).map(scenario).collect())
    }

    /// The command that runs the same, with defaults spelled out.
    pub fn command(&self, command: &str, policies: &[String]) -> String {
        let mut words = vec![format!("windtunnel {command}")];
        words.extend(policies.iter().map(|policy| quote(policy)));
        words.push(format!(
            "--machine {} --workload {}",
            quote(&self.machine),
            quote(&self.workload)
        ));
        if let Some(ns) = self.for_ns {
            words.push(format!("--for {}", duration::format(ns)));
        }
        words.push(format!("--seed {}", self.seed));
        words.extend(self.set.iter().map(|setting| format!("--set {}", quote(setting))));
        words.extend(
            self.profile
                .iter()
                .map(|file| format!("--profile {}", quote(&file.display().to_string()))),
        );
        words.extend(self.hotplug.iter().map(|spec| format!("--hotplug {}", quote(spec))));
        if self.memory != DEFAULT_LIMIT {
            words.push(format!("--memory {}", size::format(self.memory)));
        }
        if self.kernel != Release::default() {
            words.push(format!("--kernel {}", self.kernel));
        }
        if self.after_failure {
            words.push("--after-failure".to_owned());
        }
        words.join(" ")
    }

    /// The command that runs one policy the same, up to the end of a window, and draws that.
    pub fn window_command(&self, policy: &str, settings: &[(String, String)], from: u64, to: u64) -> String {
        let inputs = Inputs {
            machine: self.machine.clone(),
            workload: self.workload.clone(),
            for_ns: Some(to),
            set: settings.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            hotplug: self.hotplug.clone(),
            profile: self.profile.clone(),
            ..*self
        };
        let window = format!("{}-{}", duration::format(from), duration::format(to));
        format!("{} --draw {window}", inputs.command("run", &[policy.to_owned()]))
    }

    /// The settings of each policy. A name without a policy goes to all that have such a parameter.
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
                    // One policy is told what it lacks; of several, those that have it take it.
                    None => policies.len() == 1 || load::has_parameter(known, name)?,
                };
                if chosen {
                    settings[index].push((name.to_owned(), value.to_owned()));
                    found = true;
                }
            }
            if !found {
                return Err(Error::new(format!(
                    "--set {setting}: none of the policies of this run takes it"
                )));
            }
        }
        Ok(settings)
    }
}

/// The policies of these names.
pub fn find(specs: &[String]) -> Result<Vec<Policy>, Error> {
    specs.iter().map(|spec| Policy::find(spec)).collect()
}

fn paths(folders: &[PathBuf]) -> Vec<&Path> {
    folders.iter().map(PathBuf::as_path).collect()
}

/// Quotes a word for a shell. Characters that a terminal executes become bash's and zsh's `$'...'`.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else if escape::line(word) == word {
        format!("'{}'", word.replace('\'', r"'\''"))
    } else {
        let byte = |byte: u8| match byte {
            b'\'' | b'\\' => format!("\\{}", char::from(byte)),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        };
        format!("$'{}'", word.bytes().map(byte).collect::<String>())
    }
}

fn parse_hotplug(spec: &str) -> Result<(u64, u32, bool), Error> {
    let bad = || {
        Error::new(format!(
            "--hotplug {spec}: expected CPU:off@TIME or CPU:on@TIME, for example 3:off@500ms"
        ))
    };
    let (cpu, rest) = spec.split_once(':').ok_or_else(bad)?;
    let (state, at) = rest.split_once('@').ok_or_else(bad)?;
    let online = match state {
        "on" => true,
        "off" => false,
        _ => return Err(bad()),
    };
    Ok((
        duration::parse(at).map_err(|_| bad())?,
        cpu.parse().map_err(|_| bad())?,
        online,
    ))
}
