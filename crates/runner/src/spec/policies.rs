// SPDX-License-Identifier: GPL-2.0-only
//! Runs of several policies: divides one description, as a command with several policies parses it,
//! into one for each policy.

use super::{RunSpec, split_setting};
use crate::inputs::Inputs;
use crate::load;
use crate::policy::Policy;
use crate::scenario::Scenario;
use crate::subs;
use input::error::Error;

impl RunSpec {
    /// Returns the description of each policy's run. A `set` or `profile` option applies to the
    /// policy that it names, by the policy's name or by its entry in `sides`. A setting that names
    /// no policy applies to all policies that have the parameter.
    ///
    /// # Errors
    /// A policy does not exist, or a setting applies to none.
    pub fn for_policies(&self, policies: &[String], sides: &[&str]) -> Result<Vec<RunSpec>, Error> {
        let found: Vec<Policy> = policies
            .iter()
            .map(|word| Policy::find(word))
            .collect::<Result<_, _>>()?;
        let is_owner = |index: usize, owner: &str| found[index].name() == owner || sides.get(index) == Some(&owner);
        let mut specs: Vec<RunSpec> = policies
            .iter()
            .map(|policy| RunSpec {
                policy: policy.clone(),
                set: Vec::new(),
                profile: Vec::new(),
                ..self.clone()
            })
            .collect();
        for profile in &self.profile {
            let owner = profile.split_once(':');
            let owner = owner.filter(|(owner, _)| (0..found.len()).any(|index| is_owner(index, owner)));
            for (index, spec) in specs.iter_mut().enumerate() {
                match owner {
                    None => spec.profile = vec![profile.clone()],
                    Some((owner, file)) if is_owner(index, owner) => spec.profile = vec![file.to_owned()],
                    Some(_) => {}
                }
            }
        }
        for setting in &self.set {
            let (name, value) = split_setting(setting)?;
            let (owner, name) = match name.split_once(':') {
                Some((owner, name)) => (Some(owner), name),
                None => (None, name),
            };
            let mut applies = false;
            for (index, spec) in specs.iter_mut().enumerate() {
                if let Some(owner) = owner
                    && !is_owner(index, owner)
                    && subs::owns(&spec.sub, owner)?
                {
                    spec.set.push(setting.clone());
                    applies = true;
                    continue;
                }
                let chosen = match owner {
                    Some(owner) => is_owner(index, owner),
                    // If there is only one policy, an unknown parameter is reported later, by an
                    // error that also lists the known ones.
                    None => found.len() == 1 || load::has_parameter(&found[index], name)?,
                };
                if chosen {
                    spec.set.push(format!("{name}={value}"));
                    applies = true;
                }
            }
            if !applies {
                let missing = match owner {
                    Some(owner) => format!("no policy of this run is named '{owner}'"),
                    None => format!("no policy of this run has a parameter '{name}'"),
                };
                return Err(Error::new(format!("--set {setting}: {missing}"))
                    .hint("`windtunnel policy show POLICY` lists a policy's parameters"));
            }
        }
        Ok(specs)
    }

    /// Returns the scenario of each policy's run, and prints the notes about their inputs.
    ///
    /// # Errors
    /// The errors of [`RunSpec::for_policies`] and [`RunSpec::resolve`].
    pub fn scenarios(&self, policies: &[String], sides: &[&str]) -> Result<Vec<Scenario>, Error> {
        let inputs = Inputs::default();
        let specs = self.for_policies(policies, sides)?;
        let scenarios: Vec<Scenario> = specs
            .iter()
            .map(|spec| inputs.resolve(spec))
            .collect::<Result<_, _>>()?;
        scenarios.iter().for_each(Scenario::print_notes);
        Ok(scenarios)
    }
}
