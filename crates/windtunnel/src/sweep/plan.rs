// SPDX-License-Identifier: GPL-2.0-only
//! The runs of a sweep: the product of its axes.

use super::definition::{Filter, NOISE, SET, Sweep};
use crate::error::Error;
use crate::load;
use crate::policy::Policy;
use crate::quote::quote;
use crate::scenario::{Phase, Scenario};
use crate::{profiles, search};
use bpf::engine::Engine;
use kernel::release::Release;
use machine::{MachineSpec, Noise};
use profile::Profile;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use workload::Workload;

/// Version of the simulator: a hash of its source code. It is part of the keys of results, because
/// another version may have other results.
const VERSION: &str = env!("WINDTUNNEL_SIMULATION");

/// The runs of a sweep, with their inputs.
pub struct Plan {
    pub cases: Vec<Case>,
    /// Names of all parameters, in alphabetical order.
    pub parameters: Vec<String>,
    /// Whether the sweep sets the background work.
    pub has_noise: bool,
    policies: Vec<Input<Policy>>,
    /// For each policy, the argument of `--profile` that selects its profile.
    profiles: Vec<Option<String>>,
    machines: Vec<Input<MachineSpec>>,
    workloads: Vec<Input<Workload>>,
    phase: Phase,
    for_ns: Option<u64>,
    memory: u64,
}

/// An input that several runs share.
struct Input<T> {
    /// Name of the input in the sweep file.
    name: String,
    value: T,
    /// Hash of the input's contents.
    hash: u128,
}

/// A run of a sweep: its inputs, its seed and its settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    policy: usize,
    machine: usize,
    workload: usize,
    pub kernel: Release,
    /// Level of background work or "off". `None` means that of the machine.
    pub noise: Option<String>,
    pub seed: u64,
    /// Values of the parameters that the policy has.
    pub set: BTreeMap<String, String>,
}

impl Plan {
    /// Finds the inputs of a sweep, and lists its runs.
    ///
    /// # Errors
    /// A policy, machine or workload does not exist, or no policy has one of the parameters.
    pub fn new(sweep: &Sweep) -> Result<Plan, Error> {
        let (mut policies, mut profiles) = (Vec::new(), Vec::new());
        for name in &sweep.policies {
            let policy = Policy::find(name)?;
            let (mut located, mut hash) = (None, hash(&0));
            if let Policy::Object { name, path } = &policy {
                located = profiles::locate(None, name, path)?;
                let object = std::fs::read(path).map_err(|error| Error::io(path, &error))?;
                let profile = located
                    .as_ref()
                    .map_or_else(|| Ok(Profile::default()), profiles::Located::read)?;
                hash = self::hash(&(object, format!("{profile:?}")));
            }
            policies.push(Input::new(name, policy, hash));
            profiles.push(located.map(|located| located.word));
        }
        let machines = sweep.machines.iter().map(|name| {
            let machine = search::machine(name)?;
            let hash = hash(&format!("{machine:?}"));
            Ok(Input::new(name, machine, hash))
        });
        let machines = machines.collect::<Result<_, Error>>()?;
        let folders = search::folders("workloads");
        let workloads = sweep.workloads.iter().map(|name| {
            let workload = workload::load(name, &paths(&folders))?;
            let hash = hash(&format!("{workload:?}"));
            Ok(Input::new(name, workload, hash))
        });
        let workloads = workloads.collect::<Result<_, Error>>()?;
        let mut known: Vec<HashSet<&str>> = Vec::new();
        for policy in &policies {
            let mut names = HashSet::new();
            for name in sweep.set.keys() {
                if load::has_parameter(&policy.value, name)? {
                    names.insert(name.as_str());
                }
            }
            known.push(names);
        }
        if let Some(name) = sweep
            .set
            .keys()
            .find(|name| known.iter().all(|names| !names.contains(name.as_str())))
        {
            return Err(
                Error::new(format!("set.{name}: no policy of the sweep has this parameter"))
                    .hint("`windtunnel policy show POLICY` lists a policy's parameters"),
            );
        }
        Ok(Plan {
            cases: cases(sweep, &known),
            parameters: sweep.set.keys().cloned().collect(),
            has_noise: !sweep.noise.is_empty(),
            policies,
            profiles,
            machines,
            workloads,
            phase: sweep.phase,
            for_ns: sweep.for_ns,
            memory: sweep.memory,
        })
    }

    /// Returns the policy, machine and workload of a case as the sweep file names them.
    pub fn names(&self, case: &Case) -> [&str; 3] {
        [
            &self.policies[case.policy].name,
            &self.machines[case.machine].name,
            &self.workloads[case.workload].name,
        ]
    }

    /// Returns the argument of `--profile` that selects the profile of a case's policy.
    pub fn profile(&self, case: &Case) -> Option<&str> {
        self.profiles[case.policy].as_deref()
    }

    /// Returns the run of a case.
    pub fn scenario(&self, case: &Case, engine: Engine) -> Scenario {
        let mut machine = self.machines[case.machine].value.clone();
        if let Some(level) = &case.noise {
            machine.noise = Noise::named(level);
        }
        Scenario {
            policy: self.policies[case.policy].value.clone(),
            profile: None,
            profile_fit: load::Fit::Strict,
            settings: case.set.clone().into_iter().collect(),
            engine,
            sanitizer: false,
            machine,
            workload: self.workloads[case.workload].value.clone(),
            seed: case.seed,
            phase: self.phase,
            for_ns: self.for_ns,
            kernel: case.kernel,
            after_failure: false,
            hotplug: Vec::new(),
            memory: self.memory,
            trace: None,
            draw: None,
        }
    }

    /// Returns the key of a case in a store: a hash of everything that its result depends on.
    pub fn key(&self, case: &Case) -> u128 {
        hash(&(
            VERSION,
            self.policies[case.policy].hash,
            self.policies[case.policy].value.name(),
            self.machines[case.machine].hash,
            self.workloads[case.workload].hash,
            (case.kernel.to_string(), &case.noise),
            (case.seed, self.phase, &case.set, self.for_ns, self.memory),
        ))
    }

    /// Returns the command that repeats a case.
    pub fn command(&self, case: &Case) -> String {
        let [policy, machine, workload] = self.names(case);
        let mut words = vec![format!(
            "windtunnel run {} --machine {} --workload {}",
            quote(policy),
            quote(machine),
            quote(workload)
        )];
        words.extend(self.for_ns.map(|ns| format!("--for {}", crate::duration::format(ns))));
        words.push(format!("--seed {}", case.seed));
        if self.phase != Phase::default() {
            words.push(format!("--phase {}", self.phase.name()));
        }
        words.extend(self.profile(case).map(|word| format!("--profile {}", quote(word))));
        words.extend(
            case.set
                .iter()
                .map(|(name, value)| format!("--set {}", quote(&format!("{name}={value}")))),
        );
        if case.kernel != Release::default() {
            words.push(format!("--kernel {}", case.kernel));
        }
        words.extend(case.noise.iter().map(|level| format!("--noise {level}")));
        words.join(" ")
    }
}

impl<T> Input<T> {
    fn new(name: &str, value: T, hash: u128) -> Input<T> {
        Input {
            name: name.to_owned(),
            value,
            hash,
        }
    }
}

/// Lists the runs of a sweep. `known` contains the names of each policy's parameters.
///
/// A policy that does not have a parameter is run once, not once for each value of the parameter.
fn cases(sweep: &Sweep, known: &[HashSet<&str>]) -> Vec<Case> {
    let axes = sweep.axes();
    // An axis that advances with another one takes its index from the first axis of their group.
    let leader = |name: &str| {
        let group = sweep.zip.iter().find(|group| group.iter().any(|other| other == name));
        let first = |group: &Vec<String>| axes.iter().position(|(axis, _)| group.contains(axis));
        group.and_then(first)
    };
    let leaders: Vec<usize> = axes
        .iter()
        .enumerate()
        .map(|(index, (name, _))| leader(name).unwrap_or(index))
        .collect();
    let mut cases = Vec::new();
    let mut seen = HashSet::new();
    let mut at = vec![0; axes.len()];
    loop {
        let index = |axis: usize| at[leaders[axis]];
        let mut set = BTreeMap::new();
        let mut noise = None;
        for (axis, (name, _)) in axes.iter().enumerate() {
            if name == NOISE {
                noise = Some(sweep.noise[index(axis)].clone());
            }
            if let Some(name) = name.strip_prefix(SET)
                && known[index(0)].contains(name)
            {
                set.insert(name.to_owned(), sweep.set[name][index(axis)].clone());
            }
        }
        let case = Case {
            policy: index(0),
            machine: index(1),
            workload: index(2),
            kernel: sweep.kernels[index(3)],
            noise,
            seed: sweep.seeds[index(axes.len() - 1)],
            set,
        };
        let matches = |filter: &Filter| filter.matches(sweep, &case);
        let wanted = sweep.only.is_empty() || sweep.only.iter().any(matches);
        if wanted && !sweep.skip.iter().any(matches) && seen.insert(case.clone()) {
            cases.push(case);
        }
        // The last axis advances fastest.
        let mut axis = axes.len();
        loop {
            if axis == 0 {
                return cases;
            }
            axis -= 1;
            if leaders[axis] == axis {
                at[axis] += 1;
                if at[axis] < axes[axis].1 {
                    break;
                }
                at[axis] = 0;
            }
        }
    }
}

impl Filter {
    fn matches(&self, sweep: &Sweep, case: &Case) -> bool {
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        is(&self.policy, &sweep.policies[case.policy])
            && is(&self.machine, &sweep.machines[case.machine])
            && is(&self.workload, &sweep.workloads[case.workload])
            && is(&self.kernel, &case.kernel.to_string())
            && (self.noise.is_none() || self.noise == case.noise)
            && self.seed.is_none_or(|seed| seed == case.seed)
            && self
                .set
                .iter()
                .all(|(name, value)| case.set.get(name) == Some(&value.text()))
    }
}

/// Returns a hash of 128 bits that is the same in each process of one build.
fn hash(value: &impl Hash) -> u128 {
    let half = |salt: u8| {
        let mut hasher = std::hash::DefaultHasher::new();
        salt.hash(&mut hasher);
        value.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

fn paths(folders: &[PathBuf]) -> Vec<&Path> {
    folders.iter().map(PathBuf::as_path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use input::Source;

    /// Returns the runs of a sweep of the policies `a` and `b`, of which `a` has the parameter `p`.
    fn listed(text: &str) -> Vec<String> {
        let source = Source::new("sweep.toml", format!("policies = ['a', 'b']\n{text}"));
        let sweep = Sweep::parse(&source).expect("a valid sweep");
        let known = [HashSet::from(["p"]), HashSet::new()];
        let describe = |case: &Case| {
            let names = [
                &sweep.policies[case.policy],
                &sweep.machines[case.machine],
                &sweep.workloads[case.workload],
            ];
            let set: String = case.set.values().map(|value| format!(" {value}")).collect();
            let noise: String = case.noise.iter().map(|level| format!(" {level}")).collect();
            format!("{}{}{} {}{set}{noise}", names[0], names[1], names[2], case.seed)
        };
        cases(&sweep, &known).iter().map(describe).collect()
    }

    #[test]
    fn the_last_axis_advances_fastest() {
        let found = listed("machines = ['m', 'n']\nworkloads = ['w']\nseeds = 2");
        assert_eq!(
            found,
            ["amw 1", "amw 2", "anw 1", "anw 2", "bmw 1", "bmw 2", "bnw 1", "bnw 2"]
        );
    }

    #[test]
    fn a_policy_without_a_parameter_runs_once_for_all_its_values() {
        let found = listed("machines = ['m']\nworkloads = ['w']\n[set]\np = [10, 20]");
        assert_eq!(found, ["amw 1 10", "amw 1 20", "bmw 1"]);
    }

    #[test]
    fn background_work_is_an_axis() {
        let axes = "machines = ['m']\nworkloads = ['w']\nnoise = ['off', 'server']\n";
        assert_eq!(listed(axes), ["amw 1 off", "amw 1 server", "bmw 1 off", "bmw 1 server"]);
        let skip = format!("{axes}[[skip]]\nnoise = 'off'\npolicy = 'b'");
        assert_eq!(listed(&skip), ["amw 1 off", "amw 1 server", "bmw 1 server"]);
        let zip = format!("{axes}zip = [['policies', 'noise']]");
        assert_eq!(listed(&zip), ["amw 1 off", "bmw 1 server"]);
    }

    #[test]
    fn the_level_of_background_work_is_part_of_a_run() {
        let text = "policies = ['eevdf']\nmachines = ['smp4']\nworkloads = ['closed:n=1']\nnoise = ['off', 'server']";
        let sweep = Sweep::parse(&Source::new("sweep.toml", text.to_owned())).expect("a valid sweep");
        let plan = Plan::new(&sweep).expect("all inputs exist");
        let noise = plan
            .cases
            .iter()
            .map(|case| plan.scenario(case, Engine::default()).machine.noise);
        assert_eq!(noise.collect::<Vec<_>>(), [None, Some(Noise::Server)]);
        assert_ne!(plan.key(&plan.cases[0]), plan.key(&plan.cases[1]));
        assert!(plan.command(&plan.cases[1]).ends_with(" --noise server"));
    }

    #[test]
    fn zipped_axes_advance_together() {
        let found = listed("machines = ['m', 'n']\nworkloads = ['v', 'w']\nzip = [['workloads', 'machines']]");
        assert_eq!(found, ["amv 1", "anw 1", "bmv 1", "bnw 1"]);
    }

    #[test]
    fn combinations_are_skipped() {
        let found = listed(
            "machines = ['m', 'n']\nworkloads = ['w']\n[set]\np = [10, 20]\n\
             [[skip]]\npolicy = 'b'\nmachine = 'n'\n[[skip]]\nset = { p = 20 }",
        );
        assert_eq!(found, ["amw 1 10", "anw 1 10", "bmw 1"]);
    }

    #[test]
    fn only_selected_combinations_run() {
        let found = listed(
            "machines = ['m', 'n']\nworkloads = ['w']\nseeds = 2\n\
             [[only]]\npolicy = 'b'\nmachine = 'n'\n[[only]]\nseed = 2\n[[skip]]\npolicy = 'a'\nmachine = 'm'",
        );
        assert_eq!(found, ["anw 2", "bmw 2", "bnw 1", "bnw 2"]);
    }
}
