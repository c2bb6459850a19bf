// SPDX-License-Identifier: GPL-2.0-only
//! The texts of `workload list` and `workload show`.

use input::duration;
use input::error::Error;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use trace::escape;
use workload::{Generator, Unit, Workload, generators};

/// Returns the names of workload files with their paths, and of generators with their descriptions.
pub fn list(folders: &[&Path]) -> Vec<(String, String)> {
    let files = workload::files(folders);
    let mut rows: Vec<(String, String)> = files
        .into_iter()
        .map(|(name, path)| (format!("{name}.json"), path.display().to_string()))
        .collect();
    rows.extend(
        generators()
            .iter()
            .map(|generator| (generator.name.to_owned(), generator.about.to_owned())),
    );
    rows.push((
        "trace:file=FILE".to_owned(),
        "replays a recording of perf, trace-cmd or 'run --trace'".to_owned(),
    ));
    rows
}

/// Describes the parameters of a generator or the tasks of a workload.
///
/// # Errors
/// The workload does not exist.
pub fn show(spec: &str, folders: &[&Path]) -> Result<String, Error> {
    if let Some(generator) = generators().iter().find(|generator| generator.name == spec) {
        return Ok(parameters(generator));
    }
    Ok(contents(&workload::load(spec, folders)?))
}

fn parameters(generator: &Generator) -> String {
    let mut text = format!("{}: {}\n\n", generator.name, generator.about);
    for parameter in generator.parameters {
        let range = match parameter.unit {
            Unit::Choice(words) => words.join("|"),
            _ => format!("{}..{}", parameter.range.0, parameter.range.1),
        };
        let default = if parameter.default.is_empty() {
            "none"
        } else {
            parameter.default
        };
        let _ = writeln!(
            text,
            "  {:14} {range}, default {default}\n      {}",
            parameter.name, parameter.meaning
        );
    }
    let _ = writeln!(text, "\nexample: --workload {}:{}", generator.name, example(generator));
    text
}

fn example(generator: &Generator) -> String {
    let given = generator
        .parameters
        .iter()
        .filter(|parameter| !parameter.default.is_empty())
        .take(2);
    given
        .map(|parameter| format!("{}={}", parameter.name, parameter.default))
        .collect::<Vec<_>>()
        .join(",")
}

fn contents(workload: &Workload) -> String {
    let length = workload
        .duration_ns
        .map_or_else(|| "until all tasks have exited".into(), duration::format);
    let mut text = format!(
        "{}: {} tasks, {} resources, {length}, unit of work: {}\n\n",
        escape::line(&workload.name),
        workload.tasks.iter().filter(|task| task.spawn).count(),
        workload.resources.len(),
        workload.unit
    );
    let mut kinds: BTreeMap<(String, String), usize> = BTreeMap::new();
    for task in &workload.tasks {
        // The instances of a task have the names name-0, name-1 and so on. They are listed together
        // as `name`.
        let name = task
            .comm
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .trim_end_matches('-');
        *kinds
            .entry((escape::line(name).into_owned(), format!("{:?}", task.policy)))
            .or_default() += 1;
    }
    for ((name, policy), count) in kinds {
        let _ = writeln!(text, "  {count:5} x {name:16} {policy}");
    }
    text
}
