// SPDX-License-Identifier: GPL-2.0-only
//! The command line that repeats a run.

use super::RunSpec;
use crate::load;
use crate::quote::quote;
use crate::scenario::Scenario;
use bpf::memory::DEFAULT_LIMIT;
use input::{duration, size};
use kernel::release::Release;

impl RunSpec {
    /// Returns the command line that repeats the run with the subcommand `command`, which runs one
    /// policy. [`Scenario::spec`] also contains the machine and the profile that were found by
    /// default, so its command line does not depend on these defaults.
    pub fn command(&self, command: &str) -> String {
        self.words(command, [self.policy.as_str()])
    }

    /// Returns the command line that repeats the runs of several policies, which
    /// [`RunSpec::scenarios`] made from this description.
    pub fn command_for(&self, command: &str, scenarios: &[Scenario], sides: &[&str]) -> String {
        let policies: Vec<String> = scenarios.iter().map(|scenario| scenario.spec.policy.clone()).collect();
        let mut whole = self.clone();
        if let Some(first) = scenarios.first() {
            whole.machine.clone_from(&first.spec.machine);
        }
        // Profiles that were found by the names of policies.
        let given = self.for_policies(&policies, sides).unwrap_or_default();
        for (index, (given, scenario)) in given.iter().zip(scenarios).enumerate() {
            for word in scenario.spec.profile.iter().filter(|_| given.profile.is_empty()) {
                let argument = match (scenarios.len(), sides.get(index)) {
                    (1, _) => word.clone(),
                    (_, Some(side)) => format!("{side}:{word}"),
                    (_, None) => format!("{}:{word}", scenario.policy.name()),
                };
                if !whole.profile.contains(&argument) {
                    whole.profile.push(argument);
                }
            }
        }
        whole.words(command, policies.iter().map(String::as_str))
    }

    fn words<'a>(&self, command: &str, policies: impl IntoIterator<Item = &'a str>) -> String {
        let mut words = vec![format!("windtunnel {command}")];
        words.extend(policies.into_iter().map(quote));
        words.extend(
            self.machine
                .iter()
                .map(|machine| format!("--machine {}", quote(machine))),
        );
        words.push(format!("--workload {}", quote(&self.workload)));
        words.extend(self.for_ns.map(|ns| format!("--for {}", duration::format(ns))));
        words.push(format!("--seed {}", self.seed));
        words.extend(self.options());
        if self.sanitize {
            words.push("--sanitize".to_owned());
        }
        // A comment, because these changes have no option.
        let mut changes = Vec::new();
        if self.no_costs {
            changes.push("without costs".to_owned());
        }
        changes.extend(self.hz.map(|hz| format!("at {hz} ticks per second")));
        let scaled = self.scaled.as_ref();
        changes.extend(scaled.map(|(name, factor)| format!("with {name} {}", factor.name())));
        if !changes.is_empty() {
            words.push(format!("# but {}", changes.join(" ")));
        }
        words.join(" ")
    }

    /// Returns the options that differ from their defaults, apart from the machine, the workload,
    /// the simulated time and the seed.
    pub fn options(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(self.phase.map(|phase| format!("--phase {phase}")));
        words.extend(self.set.iter().map(|setting| format!("--set {}", quote(setting))));
        words.extend(self.profile.iter().map(|word| format!("--profile {}", quote(word))));
        if self.profile_fit == load::Fit::Loose {
            words.push("--profile-fit loose".to_owned());
        }
        words.extend(self.sub.iter().map(|word| format!("--sub {}", quote(word))));
        words.extend(self.hotplug.iter().map(|spec| format!("--hotplug {}", quote(spec))));
        if self.memory != DEFAULT_LIMIT {
            words.push(format!("--memory {}", size::format(self.memory)));
        }
        if self.kernel != Release::default() {
            words.push(format!("--kernel {}", self.kernel));
        }
        words.extend(self.noise.map(|level| format!("--noise {level}")));
        if self.after_failure {
            words.push("--after-failure".to_owned());
        }
        words
    }
}
