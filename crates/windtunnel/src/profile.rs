// SPDX-License-Identifier: GPL-2.0-only
//! Profiles: what a policy's user-space half would set up, read from `profiles/NAME.toml`.
//!
//! ```toml
//! policy = "scx_central"             # matches the object's name
//! set = { nr_cpu_ids = "nr_cpus" }   # globals: facts of the machine, enumerators, numbers
//! resize = { cpu_gimme_task = "nr_cpus" }
//! max_entries = { some_map = "nr_cpus" }
//! inner_maps = ["queues"]            # maps of maps: an inner map, as declared, for each entry
//! ops = { flags = "SCX_OPS_ENQ_LAST" }
//! struct_ops = "other_ops"           # which callback table, where the object has several
//! attach = ["optional_program"]
//! [[run]]
//! program = "enable_sibling_cpu"     # of type syscall, before the policy is enabled
//! each_cpu = true
//! when = "smt"
//! args = ["0", "cpu", "sibling"]
//! ```

use crate::error::Error;
use crate::search;
use kernel::profile::{Profile, Run};
use std::path::Path;
use toml::{Table, Value};

/// The profile of a policy by its name; an empty one if there is none.
///
/// # Errors
/// If its file is not a profile.
pub fn find(name: &str) -> Result<Profile, Error> {
    for folder in search::folders("profiles") {
        let path = folder.join(format!("{name}.toml"));
        if path.is_file() {
            return read(&path);
        }
    }
    Ok(Profile::default())
}

fn read(path: &Path) -> Result<Profile, Error> {
    let place = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| Error::new(format!("{place}: {error}")))?;
    parse(&text).map_err(|message| Error::new(format!("{place}: {message}")))
}

fn parse(text: &str) -> Result<Profile, String> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    from_table(&table)
}

/// A profile from the table that its file would be.
///
/// # Errors
/// A key or value that a profile does not have.
pub(crate) fn from_table(table: &Table) -> Result<Profile, String> {
    let mut profile = Profile::default();
    for (key, value) in table {
        match key.as_str() {
            "policy" => {}
            "set" => profile.set = pairs(key, value)?,
            "resize" => profile.resize = pairs(key, value)?,
            "max_entries" => profile.max_entries = pairs(key, value)?,
            "inner_maps" => profile.inner_maps = texts(key, value)?,
            "ops" => profile.ops = pairs(key, value)?,
            "struct_ops" => profile.struct_ops = self::text(key, value)?,
            "attach" => profile.attach = texts(key, value)?,
            "run" => {
                let runs = value.as_array().ok_or("run: expected [[run]] tables")?;
                profile.run = runs.iter().map(run).collect::<Result<_, _>>()?;
            }
            _ => {
                return Err(format!(
                    "unknown key '{key}': expected policy, set, resize, max_entries, inner_maps, ops, struct_ops, attach or [[run]]"
                ));
            }
        }
    }
    Ok(profile)
}

fn run(value: &Value) -> Result<Run, String> {
    let table = value.as_table().ok_or("run: expected [[run]] tables")?;
    let mut run = Run::default();
    for (key, value) in table {
        match key.as_str() {
            "program" => run.program = text(key, value)?,
            "each_cpu" => run.each_cpu = value.as_bool().ok_or("each_cpu: expected true or false")?,
            "when" => run.when = text(key, value)?,
            "args" => run.args = texts(key, value)?,
            _ => {
                return Err(format!(
                    "unknown key '{key}' in [[run]]: expected program, each_cpu, when or args"
                ));
            }
        }
    }
    if run.program.is_empty() {
        return Err("[[run]] names no program".into());
    }
    Ok(run)
}

fn pairs(key: &str, value: &Value) -> Result<Vec<(String, String)>, String> {
    let table = value
        .as_table()
        .ok_or_else(|| format!("{key}: expected {{ name = \"value\" }}"))?;
    table
        .iter()
        .map(|(name, value)| Ok((name.clone(), text(name, value)?)))
        .collect()
}

fn texts(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let values = value.as_array().ok_or_else(|| format!("{key}: expected a list"))?;
    values.iter().map(|value| text(key, value)).collect()
}

fn text(key: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Boolean(truth) => Ok(truth.to_string()),
        _ => Err(format!("{key}: expected a text or a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_are_read_and_unknown_ones_refused() {
        let profile = parse(
            "policy = 'x'\nset = { a = 'nr_cpus', 'b[cpu]' = 3 }\nresize = { c = 'nr_llcs' }\nattach = ['p']\n\
             ops = { flags = 2 }\n[[run]]\nprogram = 'q'\neach_cpu = true\nargs = ['cpu', 1]",
        )
        .expect("a profile");
        assert_eq!(
            profile.set,
            [("a".into(), "nr_cpus".into()), ("b[cpu]".into(), "3".into())]
        );
        assert_eq!(profile.run[0].args, ["cpu", "1"]);
        assert!(parse("sett = {}").unwrap_err().contains("unknown key 'sett'"));
        assert!(parse("[[run]]\nwhen = 'smt'").unwrap_err().contains("names no program"));
    }

    #[test]
    fn the_profiles_of_the_repository_are_profiles() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles");
        let files = std::fs::read_dir(folder)
            .expect("profiles")
            .flatten()
            .map(|entry| entry.path());
        let profiles: Vec<_> = files
            .filter(|path| path.extension().is_some_and(|e| e == "toml"))
            .collect();
        assert!(!profiles.is_empty());
        for path in profiles {
            read(&path).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
