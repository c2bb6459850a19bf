// SPDX-License-Identifier: GPL-2.0-only
//! Grades a submission for a lab: compiles it, loads it, executes the runs of the lab's items, and
//! gives the points of each item whose conditions hold.
//!
//! The points depend on the lab and the submission only. A submission that does not compile, is
//! refused, fails or exceeds a limit gets 0 points for the items in question, with the reason.

mod compile;
mod condition;
mod definition;
mod measure;
mod present;
mod run;

pub use definition::{Item, Lab};
pub use measure::TaskFigures;
pub use present::{json, text};

use condition::{Condition, Term, Value};
use input::Error;
use kernel::release::Release;
use run::{Runs, Stop};
use runner::load;
use runner::policy::Policy;
use runner::profiles;
use runner::spec::RunSpec;
use std::path::Path;

/// A graded submission.
#[derive(Clone, Debug)]
pub struct Graded {
    pub lab: String,
    pub title: String,
    /// Path of the submission.
    pub submission: String,
    /// The command that compiles the submission, or `None` if it is an object.
    pub compile: Option<String>,
    pub items: Vec<GradedItem>,
    /// The reason why the policy cannot run at all: it does not compile or is refused.
    pub unusable: Option<String>,
    /// The tasks of the run for the turnaround table, in the order of their creation.
    pub tasks: Vec<TaskFigures>,
    /// Workload of the turnaround table, or the reason why there is no table.
    pub turnaround: Option<Result<String, String>>,
}

/// The result of an item.
#[derive(Clone, Debug)]
pub struct GradedItem {
    pub about: String,
    pub points: u32,
    /// The highest number of points.
    pub of: u32,
    /// Why there are no points. Empty if all conditions hold.
    pub reasons: Vec<String>,
    pub hint: Option<String>,
    /// The command that repeats the run.
    pub command: Option<String>,
}

impl Graded {
    pub fn points(&self) -> u32 {
        self.items.iter().map(|item| item.points).sum()
    }

    /// Returns the highest number of points.
    pub fn of(&self) -> u32 {
        self.items.iter().map(|item| item.of).sum()
    }
}

/// Grades a submission: a source file, or an object. `progress` is called with the number of items
/// that are done. Returns `None` if the user interrupts it.
///
/// # Errors
/// The submission cannot be read, there is no compiler, or the lab has a mistake.
pub fn grade(lab: &Lab, submission: &Path, progress: &dyn Fn(u64)) -> Result<Option<Graded>, Error> {
    let folder = tempfile::tempdir().map_err(|error| Error::new(format!("a temporary directory: {error}")))?;
    let mut graded = Graded {
        lab: lab.name.clone(),
        title: lab.title.clone(),
        submission: submission.display().to_string(),
        compile: None,
        items: Vec::new(),
        unusable: None,
        tasks: Vec::new(),
        turnaround: None,
    };
    let object = match submission.to_string_lossy().ends_with(".o") {
        true => Ok(submission.to_owned()),
        false => {
            graded.compile = Some(compile::command(submission));
            compile::compile(submission, folder.path())?.map_err(|messages| format!("does not compile: {messages}"))
        }
    };
    let usable = object.and_then(|object| loads(lab, &object).map(|()| object));
    let object = match usable {
        Ok(object) => object.display().to_string(),
        Err(reason) => {
            graded.items = lab
                .items
                .iter()
                .map(|item| failed(item, vec!["the policy cannot be loaded".into()]))
                .collect();
            graded.unusable = Some(reason);
            return Ok(Some(graded));
        }
    };
    let mut runs = Runs::default();
    let mut done = || -> Result<(), Stop> {
        for (item, number) in lab.items.iter().zip(1..) {
            let item = grade_item(item, &object, &graded.submission, &mut runs)?;
            graded.items.push(item);
            progress(number);
        }
        if let Some(run) = &lab.turnaround {
            let file = Path::new(&run.workload)
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            match runs.observe(&with_policy(run, &object))? {
                Ok(observed) => {
                    graded.tasks = observed
                        .tasks
                        .iter()
                        .filter(|task| task.arrived.is_some())
                        .cloned()
                        .collect();
                    graded.turnaround = Some(Ok(file.unwrap_or_else(|| run.workload.clone())));
                }
                Err(reason) => graded.turnaround = Some(Err(reason.clone())),
            }
        }
        Ok(())
    };
    match done() {
        Ok(()) => Ok(Some(graded)),
        Err(Stop::Interrupted) => Ok(None),
        Err(Stop::Error(error)) => Err(error),
    }
}

/// Checks that the kernel would load an object.
fn loads(lab: &Lab, object: &Path) -> Result<(), String> {
    let path = object.display().to_string();
    let policy = Policy::find(&path).map_err(|error| error.to_string())?;
    let word = lab
        .items
        .iter()
        .filter_map(|item| item.run.as_ref()?.profile.last())
        .next();
    let word = Path::new(word.map_or(profiles::NONE, String::as_str));
    let profile = profiles::locate(Some(word), policy.name(), object);
    let profile = profile.map_err(|error| error.to_string())?;
    let checked = load::check_with(&policy, profile.as_ref(), &[], Release::default());
    match checked.map_err(|error| error.to_string())?.refused.as_slice() {
        [] => Ok(()),
        reasons => Err(format!("the kernel refuses it: {}", reasons.join("\n"))),
    }
}

fn with_policy(run: &RunSpec, policy: &str) -> RunSpec {
    RunSpec {
        policy: policy.to_owned(),
        ..run.clone()
    }
}

fn failed(item: &Item, reasons: Vec<String>) -> GradedItem {
    GradedItem {
        about: item.about.clone(),
        points: if reasons.is_empty() { item.points } else { 0 },
        of: item.points,
        hint: item.hint.clone().filter(|_| !reasons.is_empty()),
        reasons,
        command: None,
    }
}

fn grade_item(item: &Item, object: &str, submission: &str, runs: &mut Runs) -> Result<GradedItem, Stop> {
    let Some(run) = &item.run else {
        return Ok(failed(item, Vec::new()));
    };
    let mut reasons = Vec::new();
    match runs.observe(&with_policy(run, object))? {
        Err(reason) => reasons.push(reason.clone()),
        Ok(_) => {
            for condition in &item.conditions {
                reasons.extend(unmet(condition, run, object, runs)?);
            }
        }
    }
    let shown = submission
        .strip_suffix(".c")
        .map_or(submission.to_owned(), |path| format!("{path}.o"));
    Ok(GradedItem {
        command: Some(with_policy(run, &shown).command("run")),
        ..failed(item, reasons)
    })
}

/// Returns the reason why a condition does not hold, or `None` if it holds.
fn unmet(condition: &Condition, run: &RunSpec, object: &str, runs: &mut Runs) -> Result<Option<String>, Stop> {
    let mut term = |term: &Term| -> Result<Result<f64, String>, Stop> {
        let (policy, measure) = match &term.value {
            Value::Number(number) => return Ok(Ok(term.factor * number)),
            Value::Measure { policy, measure } => (policy, measure),
        };
        let spec = match policy {
            None => with_policy(run, object),
            Some(policy) => RunSpec {
                profile: Vec::new(),
                ..with_policy(run, policy)
            },
        };
        let value = match runs.observe(&spec)? {
            Ok(observed) => observed.value(measure),
            Err(reason) => {
                let name = policy.as_deref().unwrap_or_default();
                return Err(Error::new(format!("{name}, with which the lab compares: {reason}")).into());
            }
        };
        Ok(value.map(|value| term.factor * value))
    };
    let (left, right) = match (term(&condition.left)?, term(&condition.right)?) {
        (Ok(left), Ok(right)) => (left, right),
        (Err(reason), _) | (_, Err(reason)) => return Ok(Some(format!("{}: {reason}", condition.text))),
    };
    if condition.relation.holds(left, right) {
        return Ok(None);
    }
    let Value::Measure { measure, .. } = &condition.left.value else {
        return Ok(Some(condition.text.clone()));
    };
    let unit = measure.unit();
    let shown = |value: f64| measure::format(value, unit);
    let origin = match &condition.right.value {
        Value::Measure { .. } => {
            let (_, text) = condition.text.split_at(condition.text.find(['<', '>']).unwrap_or(0));
            format!(" ({})", text.trim_start_matches(['<', '>', '=', ' ']))
        }
        Value::Number(_) => String::new(),
    };
    let times = match condition.left.factor {
        1.0 => String::new(),
        factor => format!("{factor} * "),
    };
    Ok(Some(format!(
        "{times}{} is {}, but must be {} {}{origin}",
        measure.text(),
        shown(left),
        condition.relation.words(),
        shown(right)
    )))
}
