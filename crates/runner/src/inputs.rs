// SPDX-License-Identifier: GPL-2.0-only
//! The policies, machines and workloads of runs. [`Inputs`] reads each of them once, also if several
//! runs use it.

use crate::policy::Policy;
use crate::profiles::{self, Located};
use crate::scenario::Scenario;
use crate::search;
use crate::spec::RunSpec;
use crate::store::Key;
use crate::subs;
use input::duration;
use input::error::Error;
use machine::{Costs, Definition, MachineSpec};
use profile::Profile;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use workload::Workload;

/// Inputs that have been read.
#[derive(Default)]
pub struct Inputs {
    policies: Memo<WithProfile>,
    machines: Memo<Definition>,
    workloads: Memo<Workload>,
}

/// A policy with its profile.
type WithProfile = (Policy, Option<Located>);

/// The values that have been read, by the words that name them.
struct Memo<T>(Mutex<BTreeMap<Vec<String>, Arc<Input<T>>>>);

struct Input<T> {
    value: T,
    /// Digest of the contents. It is computed when it is needed first.
    key: OnceLock<Key>,
}

impl<T> Default for Memo<T> {
    fn default() -> Memo<T> {
        Memo(Mutex::default())
    }
}

impl<T> Memo<T> {
    fn get(&self, words: Vec<String>, read: impl FnOnce() -> Result<T, Error>) -> Result<Arc<Input<T>>, Error> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(input) = known.get(&words) {
            return Ok(Arc::clone(input));
        }
        let input = Arc::new(Input {
            value: read()?,
            key: OnceLock::new(),
        });
        known.insert(words, Arc::clone(&input));
        Ok(input)
    }
}

impl<T> Input<T> {
    fn key(&self, make: impl FnOnce(&T) -> Result<Key, Error>) -> Result<Key, Error> {
        if let Some(key) = self.key.get() {
            return Ok(key.clone());
        }
        let key = make(&self.value)?;
        Ok(self.key.get_or_init(|| key).clone())
    }
}

impl Inputs {
    /// Reads the inputs of a run. In the scenario's own description, the machine and the profile
    /// that were found by default have names.
    ///
    /// # Errors
    /// User errors: an input that does not exist, or an option that cannot be parsed.
    pub fn resolve(&self, spec: &RunSpec) -> Result<Scenario, Error> {
        let policy = self.policy(spec)?;
        let workload = self.read_workload(spec)?;
        let (spec, note) = complete(spec, &policy.value.1, &workload.value);
        let definition = self.definition(&spec, &workload.value)?;
        let named = definition
            .value
            .notes
            .iter()
            .map(|note| (spec.machine.clone().unwrap_or_default(), note.clone()));
        let (subs, settings) = subs::resolve(&spec, &policy.value.0, &workload.value)?;
        let machine = changed(&spec, &definition.value.spec);
        let mut workload = workload.value.clone();
        let dropped = fit_recording(&mut workload, &machine);
        let notes = note.into_iter().chain(dropped);
        Ok(Scenario {
            notes: notes.map(|note| (spec.workload.clone(), note)).chain(named).collect(),
            policy: policy.value.0.clone(),
            profile: policy.value.1.clone(),
            settings,
            subs,
            hotplug: spec
                .hotplug
                .iter()
                .map(|event| parse_hotplug(event))
                .collect::<Result<_, _>>()?,
            machine,
            workload,
            spec,
            trace: None,
            draw: None,
        })
    }

    /// Returns the description with names for the machine and the profile that are found by default.
    ///
    /// # Errors
    /// The errors of [`Inputs::resolve`] about the policy and the workload.
    pub fn complete(&self, spec: &RunSpec) -> Result<RunSpec, Error> {
        Ok(complete(spec, &self.policy(spec)?.value.1, &self.read_workload(spec)?.value).0)
    }

    /// Returns the machine of a run, with the changes that the description makes to it.
    ///
    /// # Errors
    /// The machine does not exist.
    pub fn machine(&self, spec: &RunSpec) -> Result<MachineSpec, Error> {
        let definition = match &spec.machine {
            Some(_) => self.definition(spec, &Workload::default())?,
            None => self.definition(spec, &self.read_workload(spec)?.value)?,
        };
        Ok(changed(spec, &definition.value.spec))
    }

    /// Returns the workload of a run.
    ///
    /// # Errors
    /// The workload does not exist.
    pub fn workload(&self, spec: &RunSpec) -> Result<Workload, Error> {
        Ok(self.read_workload(spec)?.value.clone())
    }

    /// Returns the key of a run's result in a store: a digest of the simulator's version, of the
    /// contents of the run's inputs, and of all options that can change the result.
    ///
    /// # Errors
    /// An input does not exist or cannot be read.
    pub fn key(&self, spec: &RunSpec) -> Result<Key, Error> {
        let policy = self.policy(spec)?;
        let workload = self.read_workload(spec)?;
        let machine = self.definition(spec, &workload.value)?;
        // The digests stand for the names, because the result does not depend on the paths of
        // files. It does depend on the names of the policy, the machine and the workload.
        let options = RunSpec {
            policy: policy.value.0.name().to_owned(),
            machine: None,
            workload: String::new(),
            phase: Some(spec.phase.unwrap_or_default()),
            profile: Vec::new(),
            engine: crate::spec::EngineChoice::default(),
            sub: Vec::new(),
            ..spec.clone()
        };
        Key::of(&(
            VERSION,
            options,
            policy.key(|(policy, profile)| policy_key(policy, profile.as_ref()))?,
            machine.key(|definition| Key::of(&definition.spec))?,
            workload.key(Key::of)?,
            subs::keys(spec)?,
        ))
    }

    fn policy(&self, spec: &RunSpec) -> Result<Arc<Input<WithProfile>>, Error> {
        let given = spec.profile.last();
        let words = std::iter::once(&spec.policy).chain(given).cloned().collect();
        self.policies.get(words, || {
            let policy = Policy::find(&spec.policy)?;
            let profile = match &policy {
                Policy::Object { name, path } => profiles::locate(given.map(Path::new), name, path)?,
                Policy::Eevdf | Policy::Exec { .. } => None,
            };
            Ok((policy, profile))
        })
    }

    fn definition(&self, spec: &RunSpec, workload: &Workload) -> Result<Arc<Input<Definition>>, Error> {
        let word = spec
            .machine
            .clone()
            .unwrap_or_else(|| search::default_machine(workload).0);
        self.machines.get(vec![word.clone()], || search::definition(&word))
    }

    fn read_workload(&self, spec: &RunSpec) -> Result<Arc<Input<Workload>>, Error> {
        let word = &spec.workload;
        self.workloads.get(vec![word.clone()], || search::workload(word))
    }
}

/// Version of the simulator: a digest of its source code. Another version may have other results.
pub const VERSION: &str = env!("WINDTUNNEL_SIMULATION");

/// Adds the names of the machine and the profile that are found by default. Also returns a note, if
/// the workload determines the machine.
fn complete(spec: &RunSpec, profile: &Option<Located>, workload: &Workload) -> (RunSpec, Option<String>) {
    let mut spec = spec.clone();
    let mut note = None;
    if spec.machine.is_none() {
        let (word, why) = search::default_machine(workload);
        (spec.machine, note) = (Some(word), why);
    }
    if spec.profile.is_empty() {
        spec.profile.extend(profile.iter().map(|located| located.word.clone()));
    }
    (spec, note)
}

/// Drops the recorded affinities if the machine has another number of CPUs than the recorded one,
/// because they mean nothing there. Returns a note if there were any.
fn fit_recording(workload: &mut Workload, machine: &MachineSpec) -> Option<String> {
    let recorded = workload.recorded_on.as_ref()?.nr_cpus;
    if recorded as usize == machine.topology.cpus.len() {
        return None;
    }
    let pinned = workload.tasks.iter_mut().filter(|task| task.cpus.is_some());
    let dropped = pinned.map(|task| task.cpus = None).count();
    (dropped > 0).then(|| {
        format!("the affinities of {dropped} tasks are left out, because the recorded machine has {recorded} CPUs")
    })
}

/// Returns the machine with the changes that a description makes to it.
fn changed(spec: &RunSpec, machine: &MachineSpec) -> MachineSpec {
    let mut machine = machine.clone();
    if spec.no_costs {
        machine.costs = Costs::none();
    }
    machine.hz = spec.hz.unwrap_or(machine.hz);
    if let Some(level) = spec.noise {
        machine.noise = level.noise();
    }
    if let Some((name, factor)) = &spec.scaled {
        machine.scale(name, *factor);
    }
    machine
}

fn policy_key(policy: &Policy, profile: Option<&Located>) -> Result<Key, Error> {
    let object = match policy {
        Policy::Eevdf => None,
        Policy::Object { path, .. } => {
            let bytes = std::fs::read(path).map_err(|error| Error::io(path, &error))?;
            Some(Key::of_bytes(&bytes))
        }
        Policy::Exec { command, .. } => return exec_key(command),
    };
    let contents = profile.map_or_else(|| Ok(Profile::default()), Located::read)?;
    // The result contains the word that selects the profile.
    Key::of(&(object, contents, profile.map(|located| &located.word)))
}

/// Returns the key of a program: its command line, and the contents of all files that it names.
fn exec_key(command: &[String]) -> Result<Key, Error> {
    let mut files = Vec::new();
    for path in exec::files(command)? {
        let bytes = std::fs::read(&path).map_err(|error| Error::io(&path, &error))?;
        files.push(Key::of_bytes(&bytes));
    }
    Key::of(&("exec", command, files))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Fit;
    use crate::spec::{EngineChoice, NoiseLevel, Phase};
    use machine::scale::Factor;

    fn spec() -> RunSpec {
        RunSpec::new("eevdf", "smp4", "closed:n=3")
    }

    #[test]
    fn the_key_of_a_result_depends_on_everything_that_can_change_the_result() {
        let inputs = Inputs::default();
        let key = |run: &RunSpec| inputs.key(run).expect("the inputs exist");
        let folder = tempfile::tempdir().expect("the directory can be created");
        let object = |bytes: &str| {
            let path = folder.path().join("mine.bpf.o");
            std::fs::write(&path, bytes).expect("the file can be written");
            let spec = RunSpec::new(&path.display().to_string(), "smp4", "closed:n=3");
            Inputs::default().key(&spec).expect("the inputs exist")
        };
        let change = |change: fn(&mut RunSpec)| {
            let mut run = spec();
            change(&mut run);
            key(&run)
        };
        let keys = [
            key(&spec()),
            change(|run| run.machine = Some("smp8".into())),
            change(|run| run.workload = "closed:n=4".into()),
            change(|run| run.for_ns = Some(1)),
            change(|run| run.seed = 2),
            change(|run| run.phase = Some(Phase::Random)),
            change(|run| run.set = vec!["a=1".into()]),
            change(|run| run.profile_fit = Fit::Loose),
            change(|run| run.hotplug = vec!["3:off@1ms".into()]),
            change(|run| run.kernel = "6.12".parse().expect("the release is known")),
            change(|run| run.noise = Some(NoiseLevel::Server)),
            change(|run| run.after_failure = true),
            change(|run| run.memory = 1 << 20),
            change(|run| run.sanitize = true),
            change(|run| run.no_costs = true),
            change(|run| run.hz = Some(100)),
            change(|run| run.scaled = Some(("cache_line".into(), Factor::Half))),
            object("one"),
            object("two"),
        ];
        let distinct: std::collections::BTreeSet<&Key> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len(), "{keys:?}");
        assert_eq!(key(&spec()), Inputs::default().key(&spec()).expect("the inputs exist"));
        assert_eq!(change(|run| run.engine = EngineChoice::Interpreter), keys[0]);
        assert_eq!(change(|run| run.phase = Some(Phase::Fixed)), keys[0]);
    }

    #[test]
    fn a_resolved_run_names_the_machine_that_was_found_by_default() {
        let spec = RunSpec {
            machine: None,
            ..spec()
        };
        let scenario = spec.resolve().expect("the inputs exist");
        assert_eq!(scenario.spec, RunSpec::new("eevdf", "numa32", "closed:n=3"));
        assert_eq!(scenario.machine.name, "numa32");
    }

    #[test]
    fn recorded_affinities_are_left_out_on_a_machine_with_other_cpus() {
        let mut workload = Inputs::default().workload(&spec()).expect("the workload exists");
        workload.tasks[0].cpus = Some(vec![1]);
        let on = |workload: &Workload, cpus| {
            let mut workload = workload.clone();
            let note = fit_recording(&mut workload, &MachineSpec::smp(cpus));
            (workload.tasks[0].cpus.clone(), note.is_some())
        };
        assert_eq!(on(&workload, 4), (Some(vec![1]), false));
        workload.recorded_on = Some(workload::RecordedMachine {
            nr_cpus: 2,
            ..workload::RecordedMachine::default()
        });
        assert_eq!(on(&workload, 2), (Some(vec![1]), false));
        assert_eq!(on(&workload, 4), (None, true));
    }

    #[test]
    fn the_description_changes_the_machine() {
        let spec = RunSpec {
            hz: Some(100),
            no_costs: true,
            noise: Some(NoiseLevel::Server),
            ..spec()
        };
        let machine = Inputs::default().machine(&spec).expect("the machine exists");
        assert_eq!(
            (machine.hz, machine.noise.map(|noise| noise.name())),
            (100, Some("server"))
        );
        assert_eq!(machine.costs.context_switch_ns, 0);
    }
}
