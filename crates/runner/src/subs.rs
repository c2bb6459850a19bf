// SPDX-License-Identifier: GPL-2.0-only
//! Sub-schedulers of a run (`--sub CGROUP=POLICY`): policies that schedule the tasks of a cgroup on
//! behalf of the run's policy.

use crate::load::{self, Loaded};
use crate::policy::Policy;
use crate::profiles::{self, Located};
use crate::results::{callbacks, exit_record};
use crate::spec::{RunSpec, split_setting};
use crate::store::Key;
use bpf::link::Image;
use bpf::object::Object;
use input::error::Error;
use kernel::Machine;
use kernel::ext::SubCosts;
use machine::MachineSpec;
use profile::{Profile, Properties};
use report::{Status, SubResult};
use std::collections::BTreeMap;
use std::path::PathBuf;
use workload::Workload;

/// Names and values of the settings of a policy.
type Settings = Vec<(String, String)>;

/// A sub-scheduler that is ready to be attached.
#[derive(Clone, Debug)]
pub struct Sub {
    /// Path of the cgroup.
    pub cgroup: String,
    /// Index of the cgroup in the workload.
    index: u32,
    /// Name of the policy.
    pub name: String,
    path: PathBuf,
    profile: Option<Located>,
    settings: Settings,
}

/// The sub-schedulers of a run in progress, and the linked objects of those that were attached.
#[derive(Default)]
pub(crate) struct Subs {
    names: BTreeMap<u32, String>,
    images: BTreeMap<u32, Image>,
}

impl Subs {
    pub(crate) fn new(subs: &[Sub]) -> Subs {
        let name = |sub: &Sub| (sub.index, SubResult::label(&sub.name, &sub.cgroup));
        Subs {
            names: subs.iter().map(name).collect(),
            images: BTreeMap::new(),
        }
    }

    /// Keeps the linked object of a sub-scheduler that has been attached.
    pub(crate) fn attached(&mut self, sub: &Sub, image: Image) {
        self.images.insert(sub.index, image);
    }

    /// Returns the name of the sub-scheduler of a cgroup in lists. `cgroup` is the index of the cgroup
    /// in the workload.
    pub(crate) fn label(&self, cgroup: u32) -> String {
        self.names.get(&cgroup).cloned().unwrap_or_default()
    }

    pub(crate) fn image(&self, cgroup: u32) -> Option<&Image> {
        self.images.get(&cgroup)
    }
}

/// Finds the cgroup and the object that an argument of `--sub` names.
fn find(word: &str) -> Result<(&str, String, PathBuf), Error> {
    let malformed = || {
        Error::new(format!(
            "--sub {word}: expected CGROUP=POLICY, for example /app=child.bpf.o"
        ))
    };
    let (cgroup, policy) = word.split_once('=').ok_or_else(malformed)?;
    match Policy::find(policy).map_err(|error| Error::new(format!("--sub {word}: {error}")))? {
        Policy::Object { name, path } => Ok((cgroup, name, path)),
        Policy::Eevdf | Policy::Exec { .. } => {
            let error = Error::new(format!("--sub {word}: a sub-scheduler must be an object"));
            Err(error.hint("the fair class and programs (exec:) cannot be attached to a cgroup"))
        }
    }
}

/// Returns whether a setting NAME=VALUE is a sub-scheduler's, because its name begins with the name of
/// the sub-scheduler and a colon.
///
/// # Errors
/// A sub-scheduler does not exist.
pub(crate) fn owns(subs: &[String], owner: &str) -> Result<bool, Error> {
    for word in subs {
        if find(word)?.1 == owner {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the sub-schedulers of a run, and the settings of the run's own policy.
///
/// # Errors
/// User errors: a cgroup or an object that does not exist.
pub(crate) fn resolve(spec: &RunSpec, policy: &Policy, workload: &Workload) -> Result<(Vec<Sub>, Settings), Error> {
    let mut own = Vec::new();
    let mut given = Vec::new();
    for setting in &spec.set {
        let (name, value) = split_setting(setting)?;
        match name.split_once(':') {
            Some((owner, name)) if owns(&spec.sub, owner)? => given.push((owner, name.to_owned(), value.to_owned())),
            _ => own.push((name.to_owned(), value.to_owned())),
        }
    }
    let mut subs = Vec::new();
    for word in &spec.sub {
        if !matches!(policy, Policy::Object { .. }) {
            let error = Error::new(format!("--sub {word}: {} accepts no sub-schedulers", policy.name()));
            return Err(error.hint("the policy of the run must be an object with ops.sub_attach()"));
        }
        let (cgroup, name, path) = find(word)?;
        let known = || workload.cgroups.iter().map(|known| known.path.as_str());
        let Some(index) = known().position(|known| known == cgroup) else {
            let paths: Vec<&str> = known().filter(|path| *path != "/").collect();
            let error = Error::new(format!("--sub {word}: the workload has no cgroup {cgroup}"));
            return Err(error.hint(match paths.is_empty() {
                true => "the workload has no cgroups; the key taskgroup of a task defines one".to_owned(),
                false => format!("its cgroups are {}", paths.join(", ")),
            }));
        };
        let settings = given.iter().filter(|(owner, ..)| *owner == name);
        subs.push(Sub {
            cgroup: cgroup.to_owned(),
            index: input::index(index),
            profile: profiles::locate(None, &name, &path)?,
            settings: settings.map(|(_, name, value)| (name.clone(), value.clone())).collect(),
            name,
            path,
        });
    }
    Ok((subs, own))
}

/// Returns a digest of the contents of the sub-schedulers' objects and profiles.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn keys(spec: &RunSpec) -> Result<Vec<Key>, Error> {
    let key = |word: &String| {
        let (cgroup, name, path) = find(word)?;
        let bytes = std::fs::read(&path).map_err(|error| Error::io(&path, &error))?;
        let profile = profiles::locate(None, &name, &path)?;
        let profile = profile.as_ref().map_or_else(|| Ok(Profile::default()), Located::read)?;
        Key::of(&(cgroup, name, Key::of_bytes(&bytes), profile))
    };
    spec.sub.iter().map(key).collect()
}

impl Sub {
    /// Attaches the sub-scheduler. Returns its linked object, or the result of a sub-scheduler that was
    /// refused.
    ///
    /// # Errors
    /// User errors: the profile or a setting does not fit the object.
    pub(crate) fn attach(
        &self,
        machine: &mut Machine,
        described: &MachineSpec,
        spec: &RunSpec,
    ) -> Result<Result<Image, SubResult>, Error> {
        let (object, profile) = self.open(described, spec)?;
        let engine = spec.engine.engine();
        Ok(
            match load::enable_sub(machine, &object, &profile, engine, self.index)? {
                Loaded::Enabled(image) => Ok(*image),
                Loaded::Refused(exit) => Err(SubResult {
                    cgroup: self.cgroup.clone(),
                    policy: self.name.clone(),
                    status: Status::Refused,
                    exit: Some(exit_record(&exit)),
                    callbacks: Vec::new(),
                }),
            },
        )
    }

    fn open(&self, described: &MachineSpec, spec: &RunSpec) -> Result<(Object, Profile), Error> {
        let profile = self.profile.as_ref();
        let profile = profile.map_or_else(|| Ok(Profile::default()), Located::read)?;
        let facts = Properties::new(described, &spec.kernel);
        let prepared =
            load::prepare_with_profile(profile, spec.profile_fit, &self.name, &self.path, &self.settings, facts)?;
        Ok((prepared.object, prepared.profile))
    }
}

/// Returns the results of the sub-schedulers that have been attached. Those that ended together with
/// the run's policy have no exit record. `costs` are the costs of
/// all sub-schedulers of the run.
pub(crate) fn results(subs: &[Sub], machine: &Machine, costs: &[SubCosts]) -> Vec<SubResult> {
    let failed = |sub: &&Sub| {
        let exits = machine.ext().sub_exits.iter();
        let mut own = exits.filter(|(cgroup, exit)| *cgroup == sub.index && !exit.kind.is_orderly());
        own.next().map(|(_, exit)| exit_record(exit))
    };
    let result = |sub: &Sub| {
        let exit = failed(&sub);
        SubResult {
            cgroup: sub.cgroup.clone(),
            policy: sub.name.clone(),
            status: if exit.is_some() { Status::Ejected } else { Status::Ran },
            exit,
            callbacks: costs
                .iter()
                .rfind(|costs| costs.cgroup == sub.index)
                .map_or_else(Vec::new, |costs| callbacks(&costs.called)),
        }
    };
    subs.iter().map(result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::Inputs;
    use std::path::Path;

    /// Compiles the test policy of the kernel crate that can be a parent or a child.
    fn object(name: &str, defines: &[&str]) -> String {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/tests/policies/sub.bpf.c");
        let folder = format!(
            "windtunnel-subs-{}-{:x}",
            std::process::id(),
            clang::fingerprint(defines)
        );
        let folder = std::env::temp_dir().join(folder);
        let path = folder.join(format!("{name}.bpf.o"));
        let name = format!("-DNAME=\"{name}\"");
        let defines = defines.iter().map(|define| format!("-D{define}"));
        let options: Vec<String> = ["-g".to_owned(), name].into_iter().chain(defines).collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        clang::compile(&source, &options, &path).unwrap_or_else(|error| panic!("{error}"));
        path.display().to_string()
    }

    fn spec(policy: &str, subs: &[String]) -> RunSpec {
        RunSpec {
            for_ns: Some(200_000_000),
            sub: subs.to_vec(),
            ..RunSpec::new(policy, "smp4", "tenants.json")
        }
    }

    fn results_of(spec: &RunSpec) -> (Vec<SubResult>, Vec<String>, String) {
        let scenario = spec.resolve().expect("the inputs exist");
        let outcome = scenario.run(&mut |_| {}).expect("the run ends");
        (
            outcome.result.sub_schedulers,
            outcome.warnings,
            outcome.result.trace_hash,
        )
    }

    #[test]
    fn a_run_has_the_results_of_its_sub_schedulers() {
        let root = object("parent", &["SUBS_FIRST", "REFUSE"]);
        let (bad, refused) = (object("bad", &["BAD_DSQ"]), object("refused", &[]));
        let child = object("child", &[]);
        let run = spec(&root, &[format!("/small={child}")]);
        let (found, warnings, hash) = results_of(&run);
        assert_eq!((found.len(), found[0].status), (1, Status::Ran));
        assert_eq!(
            (found[0].cgroup.as_str(), found[0].policy.as_str()),
            ("/small", "child")
        );
        assert_eq!((found[0].failure(), warnings), (None, Vec::new()));
        assert_eq!(results_of(&run).2, hash, "the run is deterministic");
        assert_ne!(results_of(&spec(&root, &[])).2, hash);

        let (found, warnings, _) = results_of(&spec(&root, &[format!("/small={bad}"), format!("/large={refused}")]));
        assert_eq!(
            (found[0].status, found[1].status),
            (Status::Ejected, Status::Refused),
            "{found:?} {warnings:?}"
        );
        assert!(
            warnings[0].starts_with("sub-scheduler bad of cgroup /small ended at "),
            "{warnings:?}"
        );
        assert!(warnings[0].ends_with(": non-existent DSQ 0x4d"), "{warnings:?}");
        assert_eq!(
            warnings[1],
            "sub-scheduler refused of cgroup /large was refused: parent rejected (-13)"
        );
    }

    #[test]
    fn settings_of_a_sub_scheduler_begin_with_its_name() {
        let (root, child) = (object("parent", &[]), object("child", &[]));
        let given = RunSpec {
            set: vec!["child:nr_own=7".into(), "parent:nr_own=5".into()],
            ..spec("", &[format!("/small={child}")])
        };
        let found = given.for_policies(&[root], &[]).expect("the policies exist").remove(0);
        assert_eq!(found.set, ["child:nr_own=7", "nr_own=5"]);
        let scenario = found.resolve().expect("the inputs exist");
        assert_eq!(scenario.settings, [("nr_own".to_owned(), "5".to_owned())]);
        assert_eq!(scenario.subs[0].settings, [("nr_own".to_owned(), "7".to_owned())]);
        let command = found.command("run");
        assert!(command.contains(&format!(" --sub /small={child}")), "{command}");
        assert!(command.contains(" --set child:nr_own=7 "), "{command}");
        let other = spec(&found.policy, &[format!("/large={child}")]);
        let key = |spec: &RunSpec| Inputs::default().key(spec).expect("the inputs exist");
        assert_ne!(key(&other), key(&spec(&found.policy, &[format!("/small={child}")])));
    }

    #[test]
    fn wrong_sub_schedulers_are_user_errors() {
        let (root, child) = (object("parent", &[]), object("child", &[]));
        for (policy, word, message) in [
            (
                root.as_str(),
                "x".to_owned(),
                "--sub x: expected CGROUP=POLICY, for example /app=child.bpf.o",
            ),
            (&root, format!("/huge={child}"), "the workload has no cgroup /huge"),
            (&root, "/small=eevdf".to_owned(), "a sub-scheduler must be an object"),
            ("eevdf", format!("/small={child}"), "eevdf accepts no sub-schedulers"),
        ] {
            let error = spec(policy, &[word]).resolve().expect_err(message).to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
