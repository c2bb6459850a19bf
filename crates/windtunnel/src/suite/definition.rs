// SPDX-License-Identifier: GPL-2.0-only
//! A suite's file.
//!
//! ```toml
//! [workloads]                       # rt-app files by name
//! busy = '{ "tasks": { "t": { "instance": 8, "run": 200, "sleep": 300 } } }'
//!
//! [left_out]                        # tests that the suite does not have, and why
//! total_bw = "debugfs is not modelled"
//!
//! [[case]]
//! object = "exit"                   # NAME.bpf.o in the folder of objects
//! about = "a policy can end itself anywhere"
//! weaker = "the original runs for a minute"  # what the original test asks for and the case does not
//! machine = "core:4 pu:1"           # as `run --machine`; this is the default
//! workload = "busy"
//! profile = { set = { exit_point = 2 } }  # as in profiles/
//! steps = ["load", "run 1s", "exit SCX_EXIT_UNREG_BPF code 2", "expect uei.kind == SCX_EXIT_UNREG_BPF"]
//! ```

use super::step::Step;
use crate::error::Error;
use crate::profile;
use kernel::profile::Profile;
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Table, Value};
use workload::Workload;

/// Four cores that share a cache.
const MACHINE: &str = "pack:1 l3:1 core:4 pu:1";

/// Cases in the order of the file.
#[derive(Debug)]
pub struct Suite {
    pub cases: Vec<Case>,
    /// Tests that the suite does not have, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// One test.
#[derive(Debug)]
pub struct Case {
    /// Name of the object: `NAME.bpf.o`.
    pub object: String,
    /// What it shows, in a sentence.
    pub about: String,
    /// What the test that the case stands for asks for and the case does not.
    pub weaker: Option<String>,
    pub(super) machine: String,
    pub(super) workload: Workload,
    pub(super) profile: Profile,
    pub(super) steps: Vec<(String, Step)>,
}

impl Suite {
    /// # Errors
    /// If the file cannot be read or is no suite; the place in it.
    pub fn read(path: &Path) -> Result<Suite, Error> {
        let place = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| Error::new(format!("{place}: {error}")))?;
        Suite::parse(&text, &place).map_err(|message| Error::new(format!("{place}: {message}")))
    }

    fn parse(text: &str, place: &str) -> Result<Suite, String> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let mut workloads = BTreeMap::new();
        for (name, json) in section(&table, "workloads")? {
            let json = string(name, json)?;
            let workload = workload::rtapp::read(json, &format!("{place}, workload {name}"));
            workloads.insert(name.as_str(), workload.map_err(|error| error.to_string())?);
        }
        let mut left_out = Vec::new();
        for (test, why) in section(&table, "left_out")? {
            left_out.push((test.clone(), string(test, why)?.to_owned()));
        }
        let known = ["workloads", "left_out", "case"];
        if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!(
                "unknown key '{key}': expected [workloads], [left_out] or [[case]]"
            ));
        }
        let cases = table
            .get("case")
            .and_then(Value::as_array)
            .ok_or("there is no [[case]]")?;
        let cases = cases.iter().enumerate().map(|(index, value)| {
            let table = value.as_table().ok_or("case: expected [[case]] tables")?;
            case(table, &workloads).map_err(|message| {
                let object = table.get("object").and_then(Value::as_str).unwrap_or("without object");
                format!("case {} ({object}): {message}", index + 1)
            })
        });
        Ok(Suite {
            cases: cases.collect::<Result<_, _>>()?,
            left_out,
        })
    }
}

fn case(table: &Table, workloads: &BTreeMap<&str, Workload>) -> Result<Case, String> {
    let mut case = Case {
        object: String::new(),
        about: String::new(),
        weaker: None,
        machine: MACHINE.to_owned(),
        workload: Workload::default(),
        profile: Profile::default(),
        steps: Vec::new(),
    };
    for (key, value) in table {
        match key.as_str() {
            "object" => case.object = string(key, value)?.to_owned(),
            "about" => case.about = string(key, value)?.to_owned(),
            "weaker" => case.weaker = Some(string(key, value)?.to_owned()),
            "machine" => case.machine = string(key, value)?.to_owned(),
            "workload" => {
                let name = string(key, value)?;
                let known = workloads.get(name);
                case.workload = known.ok_or_else(|| format!("there is no workload '{name}'"))?.clone();
            }
            "profile" => {
                let table = value.as_table().ok_or("profile: expected a table")?;
                case.profile = profile::from_table(table, &mut profile::by_name)
                    .map_err(|message| format!("profile: {message}"))?;
            }
            "steps" => {
                for step in value.as_array().ok_or("steps: expected a list of texts")? {
                    let text = string(key, step)?;
                    let step = Step::parse(text).map_err(|message| format!("step '{text}': {message}"))?;
                    case.steps.push((text.to_owned(), step));
                }
            }
            _ => {
                return Err(format!(
                    "unknown key '{key}': expected object, about, weaker, machine, workload, profile or steps"
                ));
            }
        }
    }
    if case.object.is_empty() || case.steps.is_empty() {
        return Err("it needs an object and steps".into());
    }
    Ok(case)
}

fn section<'a>(table: &'a Table, name: &str) -> Result<impl Iterator<Item = (&'a String, &'a Value)>, String> {
    let section = match table.get(name) {
        Some(value) => Some(value.as_table().ok_or_else(|| format!("[{name}]: expected a table"))?),
        None => None,
    };
    Ok(section.into_iter().flatten())
}

fn string<'a>(key: &str, value: &'a Value) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| format!("{key}: expected a text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_is_read_and_what_is_wrong_has_its_place() {
        let good = "[workloads]\nbusy = '{\"tasks\": {\"t\": {\"run\": 100, \"sleep\": 100}}}'\n\
                    [[case]]\nobject = 'a'\nworkload = 'busy'\nsteps = ['load', 'run 1s']\n";
        let suite = Suite::parse(good, "x").expect("a suite");
        assert_eq!(suite.cases[0].workload.tasks.len(), 1);
        assert_eq!(suite.cases[0].steps.len(), 2);
        let notes = "[left_out]\nb = 'no debugfs'\n[[case]]\nweaker = 'shorter'\n";
        let suite = Suite::parse(&good.replace("[[case]]\n", notes), "x").expect("a suite");
        assert_eq!(suite.left_out, [("b".to_owned(), "no debugfs".to_owned())]);
        assert_eq!(suite.cases[0].weaker.as_deref(), Some("shorter"));
        let message = |from: &str, to: &str| Suite::parse(&good.replace(from, to), "x").unwrap_err();
        assert_eq!(
            message("'load'", "'laod'")
                .lines()
                .next()
                .unwrap_or_default()
                .split(": unknown")
                .next(),
            Some("case 1 (a): step 'laod'")
        );
        assert!(message("'busy'\n", "'lazy'\n").contains("there is no workload 'lazy'"));
        assert!(message("object", "objekt").contains("unknown key 'objekt'"));
        assert!(message("\"tasks\"", "\"task\"").contains("workload busy"));
    }
}
