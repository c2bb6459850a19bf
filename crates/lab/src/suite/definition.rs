// SPDX-License-Identifier: GPL-2.0-only
//! The file format of suites. A suite contains test cases for policies. Most suites translate tests
//! that exist elsewhere, for example in the kernel. The test that a case translates is called the
//! original. An example of a suite file:
//!
//! ```toml
//! [workloads]                       # rt-app files by name
//! busy = '{ "tasks": { "t": { "instance": 8, "run": 200, "sleep": 300 } } }'
//!
//! [left_out]                        # tests that the suite does not contain, with the reason
//! total_bw = "debugfs is not modelled"
//!
//! [[case]]
//! object = "exit"                   # NAME.bpf.o in the directory of objects
//! about = "a policy can end itself in every callback"
//! weaker = "the original runs for a minute"  # how the case checks less than the original
//! machine = "core:4 pu:1"           # as in `run --machine`
//! workload = "busy"                 # or as in `run --workload`
//! kernel = "6.16"                   # likewise `phase`, `noise`, `seed` and `sanitize`
//! profile = { set = { exit_point = 2 } }  # as in profiles/
//! steps = ["load", "run 1s", "exit SCX_EXIT_UNREG_BPF code 2", "expect nr_calls > 0"]
//! ```

use super::step::Step;
use input::{Error, Source, suggest};
use kernel::release::Release;
use profile::{Profile, file};
use runner::spec::{NoiseLevel, Phase, RunSpec};
use runner::{profiles, search};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use toml::Spanned;
use workload::Workload;

/// Maximum size of a suite file in bytes.
const MAX_BYTES: u64 = 8 << 20;
/// Default machine: four cores that share a cache.
const MACHINE: &str = "pack:1 l3:1 core:4 pu:1";

/// A parsed suite.
#[derive(Debug)]
pub struct Suite {
    /// Cases in the order of the file.
    pub cases: Vec<Case>,
    /// Tests that the suite does not contain, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// A test case.
#[derive(Debug)]
pub struct Case {
    /// Name of the object: `NAME.bpf.o`.
    pub object: String,
    /// Description of what the case tests.
    pub about: String,
    /// Checks of the original test that this case lacks.
    pub weaker: Option<String>,
    /// Description of the run. Its policy and workload are empty, because a case names an object
    /// and can contain the workload.
    pub(super) spec: RunSpec,
    pub(super) workload: Workload,
    pub(super) profile: Profile,
    /// Whether the case names its own profile.
    pub(super) has_profile: bool,
    pub(super) steps: Vec<(String, Step)>,
}

/// The content of a suite file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuiteFile {
    #[serde(default)]
    workloads: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    left_out: BTreeMap<String, String>,
    case: Vec<CaseTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseTable {
    object: Spanned<String>,
    #[serde(default)]
    about: String,
    weaker: Option<String>,
    machine: Option<String>,
    workload: Option<Spanned<String>>,
    kernel: Option<Spanned<String>>,
    phase: Option<Phase>,
    noise: Option<NoiseLevel>,
    #[serde(default = "default_seed")]
    seed: u64,
    #[serde(default)]
    sanitize: bool,
    profile: Option<file::ProfileTable>,
    steps: Spanned<Vec<Spanned<String>>>,
}

fn default_seed() -> u64 {
    RunSpec::default().seed
}

impl Suite {
    /// Reads a suite. `kernel` is the release of the cases that name none.
    ///
    /// # Errors
    /// The file cannot be read, or it is not a valid suite. The error shows the position.
    pub fn read(path: &Path, kernel: Release) -> Result<Suite, Error> {
        Suite::parse(&Source::read(path, MAX_BYTES)?, kernel)
    }

    fn parse(source: &Source, kernel: Release) -> Result<Suite, Error> {
        let written: SuiteFile = source.toml()?;
        let mut workloads = BTreeMap::new();
        for (name, json) in &written.workloads {
            let workload = workload::rtapp::read(json.get_ref(), &format!("workload {name}"));
            let workload = workload.map_err(|error| source.error(json.span().start, error.to_string()))?;
            workloads.insert(name.as_str(), workload);
        }
        let cases = written.case.into_iter();
        let cases = cases.map(|case| case.parse(source, &workloads, kernel));
        Ok(Suite {
            cases: cases.collect::<Result<_, _>>()?,
            left_out: written.left_out.into_iter().collect(),
        })
    }
}

impl CaseTable {
    fn parse(self, source: &Source, workloads: &BTreeMap<&str, Workload>, kernel: Release) -> Result<Case, Error> {
        let workload = match self.workload {
            Some(name) => {
                let word = name.get_ref().as_str();
                let known = workloads.get(word).cloned().map_or_else(|| search::workload(word), Ok);
                known.map_err(|error| {
                    let names = workloads.keys().copied();
                    let hint = suggest::nearest(word, names).map(|near| format!("did you mean '{near}'?"));
                    Error {
                        hint: hint.or(error.hint),
                        ..source.error(name.span().start, format!("workload '{word}': {}", error.message))
                    }
                })?
            }
            None => Workload::default(),
        };
        let has_profile = self.profile.is_some();
        let profile = match self.profile {
            Some(written) => written.profile(source, &mut profiles::by_name)?,
            None => Profile::default(),
        };
        if self.object.get_ref().is_empty() || self.steps.get_ref().is_empty() {
            return Err(source.error(self.object.span().start, "a case needs an object and steps"));
        }
        let step = |text: Spanned<String>| {
            let step = Step::parse(text.get_ref());
            let step_error =
                |error: Error| source.error(text.span().start, format!("step '{}': {error}", text.get_ref()));
            Ok((text.get_ref().clone(), step.map_err(step_error)?))
        };
        let kernel = match &self.kernel {
            Some(release) => release.get_ref().parse().map_err(|error| {
                let message = format!("kernel {}: {error}", release.get_ref());
                source.error(release.span().start, message)
            })?,
            None => kernel,
        };
        let spec = RunSpec {
            seed: self.seed,
            phase: self.phase,
            kernel,
            noise: self.noise,
            sanitize: self.sanitize,
            // Steps can load a policy again after it has failed.
            after_failure: true,
            ..RunSpec::new("", self.machine.as_deref().unwrap_or(MACHINE), "")
        };
        Ok(Case {
            object: self.object.into_inner(),
            about: self.about,
            weaker: self.weaker,
            spec,
            workload,
            profile,
            has_profile,
            steps: self
                .steps
                .into_inner()
                .into_iter()
                .map(step)
                .collect::<Result<_, Error>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_in_a_suite_have_a_position() {
        let good = "[workloads]\nbusy = '{\"tasks\": {\"t\": {\"run\": 100, \"sleep\": 100}}}'\n\
                    [[case]]\nobject = 'a'\nworkload = 'busy'\nsteps = ['load', 'run 1s']\n";
        let read = |text: &str| Suite::parse(&Source::new("x.toml", text), Release::default());
        let suite = read(good).expect("the suite is valid");
        assert_eq!(suite.cases[0].workload.tasks.len(), 1);
        assert_eq!(suite.cases[0].steps.len(), 2);
        let notes = "[left_out]\nb = 'no debugfs'\n[[case]]\nweaker = 'shorter'\n";
        let suite = read(&good.replace("[[case]]\n", notes)).expect("the suite is valid");
        assert_eq!(suite.left_out, [("b".to_owned(), "no debugfs".to_owned())]);
        assert_eq!(suite.cases[0].weaker.as_deref(), Some("shorter"));
        let generated = read(&good.replace("= 'busy'", "= 'closed:n=3'")).expect("the suite is valid");
        assert_eq!(generated.cases[0].workload.tasks.len(), 3);
        for (from, to, expected) in [
            ("'load'", "'laod'", "x.toml:6:10: step 'laod': unknown"),
            (
                "'busy'\n",
                "'bussy'\n",
                "x.toml:5:12: workload 'bussy': there is no file and no generator with this name\n  hint: did you mean 'busy'?",
            ),
            (
                "object",
                "objekt",
                "x.toml:4:1: unknown key 'objekt'\n  hint: did you mean 'object'?",
            ),
            ("\"tasks\"", "\"task\"", "x.toml:2:8: workload busy:1:2: unknown key"),
            ("steps", "kernel = '5.4'\nsteps", "x.toml:6:10: kernel 5.4: "),
            (
                "steps",
                "phase = 'randm'\nsteps",
                "x.toml:6:9: phase randm: expected fixed or random",
            ),
            ("'a'", "''", "x.toml:4:10: a case needs an object and steps"),
            (
                "workload = ",
                "profile = { sett = 1 } #",
                "x.toml:5:13: unknown key 'sett'",
            ),
        ] {
            let error = read(&good.replace(from, to)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
