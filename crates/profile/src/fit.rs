// SPDX-License-Identifier: GPL-2.0-only
//! Applies a profile to an object, and finds the parts of the profile that do not fit the object.

use crate::{Misfit, Profile, ProfileError, Properties, Run, fitting};
use bpf::object::Object;
use std::collections::BTreeSet;

/// Members of struct sched_ext_ops that a profile can set.
pub const OPS: [&str; 8] = [
    "flags",
    "timeout_ms",
    "exit_dump_len",
    "dispatch_max_batch",
    "hotplug_seq",
    "cid_shard_size",
    "rescue_bandwidth_ppt",
    "rescue_quantum_us",
];

impl Profile {
    /// Resizes arrays and sets globals in an object. Removes all parts from the profile that do not
    /// fit the object, and returns the reason for each. The object must not be linked yet.
    ///
    /// # Errors
    /// A name that the profile defines has no value.
    pub fn fit(&mut self, object: &mut Object, facts: Properties) -> Result<Vec<Misfit>, ProfileError> {
        let types = object.btf().clone();
        let facts = facts.with_types(&types);
        let names = self.names(facts)?;
        let facts = facts.with_results(&names);
        let mut misfits = Misfits::default();
        let count = |text: &str| {
            let value = facts.value(text)?;
            u32::try_from(value).map_err(|_| ProfileError::NumberOfElements {
                text: text.into(),
                value,
            })
        };
        misfits.retain(
            "resize",
            &mut self.resize,
            |(name, _)| name,
            |(name, text)| Ok(object.resize(name, count(text)?)?),
        );
        misfits.retain(
            "max_entries",
            &mut self.max_entries,
            |(name, _)| name,
            |(name, text)| Ok(object.set_max_entries(name, count(text)?)?),
        );
        misfits.retain(
            "set",
            &mut self.set,
            |setting| &setting.path,
            |setting| {
                setting.each(facts, &mut |path, value| {
                    fitting(value, |text| Ok(object.set(path, text)?))
                })
            },
        );
        let maps: BTreeSet<&str> = object.maps().map(|map| map.name.as_str()).collect();
        let has_map = |name: &str| match maps.contains(name) {
            true => Ok(()),
            false => Err(ProfileError::UnknownMap(name.into())),
        };
        misfits.retain("inner_maps", &mut self.inner_maps, |name| name, |name| has_map(name));
        misfits.retain(
            "map",
            &mut self.map,
            |setting| &setting.path,
            |setting| has_map(setting.path.split('[').next().unwrap_or_default()),
        );
        misfits.retain(
            "ops",
            &mut self.ops,
            |(member, _)| member,
            |(member, _)| match OPS.contains(&member.as_str()) {
                true => Ok(()),
                false => Err(ProfileError::NotSettable),
            },
        );
        let programs: BTreeSet<&str> = object.program_names().collect();
        let has_program = |name: &str| match programs.contains(name) {
            true => Ok(()),
            false => Err(ProfileError::UnknownProgram {
                name: name.into(),
                known: programs.iter().map(ToString::to_string).collect(),
            }),
        };
        misfits.retain("attach", &mut self.attach, |name| name, |name| has_program(name));
        misfits.retain("detach", &mut self.detach, |name| name, |name| has_program(name));
        misfits.retain_runs(&mut self.run, &has_program);
        Ok(misfits.0)
    }
}

/// The parts of a profile that do not fit.
#[derive(Default)]
struct Misfits(Vec<Misfit>);

impl Misfits {
    /// Removes the parts for which `check` fails. `key` is the key of the profile that contains the
    /// parts.
    fn retain<T>(
        &mut self,
        key: &'static str,
        parts: &mut Vec<T>,
        name: impl Fn(&T) -> &str,
        mut check: impl FnMut(&T) -> Result<(), ProfileError>,
    ) {
        parts.retain(|part| {
            let fits = check(part);
            let fit = fits.is_ok();
            self.0.extend(fits.err().map(|error| Misfit {
                key,
                name: name(part).into(),
                error,
            }));
            fit
        });
    }

    fn retain_runs(&mut self, runs: &mut Vec<Run>, has_program: &impl Fn(&str) -> Result<(), ProfileError>) {
        self.retain("run", runs, |run| &run.program, |run| has_program(&run.program));
        for run in runs {
            self.retain_runs(&mut run.then, has_program);
        }
    }
}
