// SPDX-License-Identifier: GPL-2.0-only
//! The runs of a sweep.

use super::definition::{SET, Sweep};
use input::error::Error;
use runner::inputs::Inputs;
use runner::load;
use runner::policy::Policy;
use runner::search;
use runner::spec::RunSpec;
use std::collections::{BTreeMap, HashSet};

/// The runs of a sweep, with their inputs.
pub struct Plan {
    /// The runs, with inputs named as in the sweep file.
    pub runs: Vec<RunSpec>,
    /// Names of all parameters, in alphabetical order.
    pub parameters: Vec<String>,
    /// Whether the sweep sets the background work.
    pub has_noise: bool,
    pub inputs: Inputs,
}

impl Plan {
    /// Finds the inputs of a sweep, and lists its runs.
    ///
    /// # Errors
    /// A policy, machine or workload does not exist, or no policy has one of the parameters.
    pub fn new(sweep: &Sweep) -> Result<Plan, Error> {
        let parameters: Vec<&str> = sweep
            .grid
            .axes
            .iter()
            .filter_map(|axis| axis.name.strip_prefix(SET))
            .collect();
        let mut known: BTreeMap<&str, HashSet<&str>> = BTreeMap::new();
        for word in sweep.grid.values("policies") {
            let policy = Policy::find(word)?;
            let names = known.entry(word).or_default();
            for &name in &parameters {
                if load::has_parameter(&policy, name)? {
                    names.insert(name);
                }
            }
        }
        let is_known = |name: &str| known.values().any(|names| names.contains(name));
        if let Some(name) = parameters.iter().find(|name| !is_known(name)) {
            return Err(
                Error::new(format!("set.{name}: no policy of the sweep has this parameter"))
                    .hint("`windtunnel policy show POLICY` lists a policy's parameters"),
            );
        }
        for machine in sweep.grid.values("machines") {
            search::machine(machine)?;
        }
        let runs = runs(sweep, &known);
        let inputs = Inputs::default();
        for run in &runs {
            inputs.complete(run)?;
        }
        Ok(Plan {
            runs,
            parameters: parameters.into_iter().map(str::to_owned).collect(),
            has_noise: !sweep.grid.values("noise").is_empty(),
            inputs,
        })
    }

    /// Returns a run with the name of the profile that was found for its policy.
    pub fn complete(&self, run: &RunSpec) -> RunSpec {
        self.inputs.complete(run).unwrap_or_else(|_| run.clone())
    }

    /// Returns the command that repeats a run.
    pub fn command(&self, run: &RunSpec) -> String {
        self.complete(run).command("run")
    }
}

/// Lists the runs of a sweep. `known` contains the names of each policy's parameters. A policy that
/// does not have a parameter is run once, not once for each value of the parameter.
fn runs(sweep: &Sweep, known: &BTreeMap<&str, HashSet<&str>>) -> Vec<RunSpec> {
    let points = sweep.grid.points(|point, axis| {
        let names = point.get("policies").and_then(|policy| known.get(policy));
        axis.strip_prefix(SET)
            .is_none_or(|name| names.is_some_and(|names| names.contains(name)))
    });
    let mut runs = Vec::new();
    let mut seen = HashSet::new();
    for point in points.into_iter().filter(|point| seen.insert(point.clone())) {
        let mut run = sweep.common.clone();
        for (axis, value) in point.iter() {
            // The definition has checked the texts of kernels, levels and seeds.
            match axis {
                "policies" => value.clone_into(&mut run.policy),
                "machines" => run.machine = Some(value.to_owned()),
                "workloads" => value.clone_into(&mut run.workload),
                "kernels" => run.kernel = value.parse().unwrap_or_default(),
                "noise" => run.noise = value.parse().ok(),
                "seeds" => run.seed = value.parse().unwrap_or_default(),
                other => run.set.push(format!("{}={value}", other.trim_start_matches(SET))),
            }
        }
        runs.push(run);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use input::Source;
    use machine::Noise;

    /// Returns the runs of a sweep of the policies `a` and `b`, of which `a` has the parameter `p`.
    fn listed(text: &str) -> Vec<String> {
        let source = Source::new("sweep.toml", format!("policies = ['a', 'b']\n{text}"));
        let sweep = Sweep::parse(&source).expect("a valid sweep");
        let known = BTreeMap::from([("a", HashSet::from(["p"])), ("b", HashSet::new())]);
        let describe = |run: &RunSpec| {
            let machine = run.machine.as_deref().unwrap_or_default();
            let value = run.parameter("p").map(|value| format!(" {value}")).unwrap_or_default();
            let noise = run.noise.map(|level| format!(" {level}")).unwrap_or_default();
            format!("{}{machine}{} {}{value}{noise}", run.policy, run.workload, run.seed)
        };
        runs(&sweep, &known).iter().map(describe).collect()
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
            .runs
            .iter()
            .map(|run| plan.inputs.machine(run).expect("the machine exists").noise);
        assert_eq!(noise.collect::<Vec<_>>(), [None, Some(Noise::Server)]);
        let keys: Vec<_> = plan
            .runs
            .iter()
            .map(|run| plan.inputs.key(run).expect("the inputs exist"))
            .collect();
        assert_ne!(keys[0], keys[1]);
        assert!(plan.command(&plan.runs[1]).ends_with(" --noise server"));
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
