// SPDX-License-Identifier: GPL-2.0-only
//! Profiles: what a policy's user-space half would set up, read from `profiles/NAME.toml`. profiles/README.md tells what can be said.

use crate::duration;
use crate::error::Error;
use crate::search;
use kernel::profile::{Arg, Group, Profile, Run, Setting};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Profiles may include each other this deep.
const DEEPEST: usize = 8;

/// The profile of a policy by its name; an empty one if there is none.
///
/// # Errors
/// If its file is not a profile.
pub fn find(name: &str) -> Result<Profile, Error> {
    match file(name) {
        Some(path) => read(&path),
        None => Ok(Profile::default()),
    }
}

/// The profile of this name, which another one includes.
pub(crate) fn by_name(name: &str) -> Result<Profile, String> {
    let found = file(name).ok_or_else(|| format!("include: there is no profile {name}"))?;
    read(&found).map_err(|error| error.to_string())
}

fn file(name: &str) -> Option<PathBuf> {
    let folders = search::folders("profiles").into_iter();
    let mut paths = folders.map(|folder| folder.join(format!("{name}.toml")));
    paths.find(|path| path.is_file())
}

/// The profile in a file.
///
/// # Errors
/// If there is none.
pub fn read(path: &Path) -> Result<Profile, Error> {
    read_deep(path, 0)
}

fn read_deep(path: &Path, depth: usize) -> Result<Profile, Error> {
    let place = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| Error::new(format!("{place}: {error}")))?;
    // Those it includes are beside it, or where profiles are.
    let include = &mut |name: &str| {
        if depth == DEEPEST {
            return Err(format!("include: {name}: profiles include each other"));
        }
        let beside = path.with_file_name(format!("{name}.toml"));
        let found = Some(beside).filter(|path| path.is_file()).or_else(|| file(name));
        let found = found.ok_or_else(|| format!("include: there is no profile {name}"))?;
        read_deep(&found, depth + 1).map_err(|error| error.to_string())
    };
    let table: Result<Table, toml::de::Error> = text.parse();
    let profile = table
        .map_err(|error| error.to_string())
        .and_then(|table| from_table(&table, include));
    profile
        .map_err(|message| Error::new(format!("{place}: {message}")).hint("profiles/README.md tells what can be said"))
}

const KEYS: &str = "absent, include, uptime, names, set, resize, max_entries, inner_maps, map, ops, without, struct_ops, attach, detach or [[run]]";

/// A profile from the table that its file would be. `include` reads another one by name.
///
/// # Errors
/// A key or value that a profile does not have.
pub(crate) fn from_table(
    table: &Table,
    include: &mut dyn FnMut(&str) -> Result<Profile, String>,
) -> Result<Profile, String> {
    let mut profile = Profile::default();
    if let Some(names) = table.get("include") {
        for name in texts("include", names)? {
            join(&mut profile, include(&name)?);
        }
    }
    let mut own = Profile::default();
    for (key, value) in table {
        match key.as_str() {
            "include" => {}
            "absent" => own.absent = text(key, value)?,
            "uptime" => own.uptime_ns = duration::parse(&text(key, value)?)?,
            "names" => own.names = pairs(key, value)?,
            "set" => own.set = settings(key, value)?,
            "resize" => own.resize = pairs(key, value)?,
            "max_entries" => own.max_entries = pairs(key, value)?,
            "inner_maps" => own.inner_maps = texts(key, value)?,
            "map" => own.map = settings(key, value)?,
            "ops" => own.ops = pairs(key, value)?,
            "without" => own.without = texts(key, value)?,
            "struct_ops" => own.struct_ops = text(key, value)?,
            "attach" => own.attach = texts(key, value)?,
            "detach" => own.detach = texts(key, value)?,
            "run" => own.run = runs(key, value)?,
            _ => return Err(format!("unknown key '{key}': expected {KEYS}")),
        }
    }
    join(&mut profile, own);
    Ok(profile)
}

/// Does what the second says after what the first says.
fn join(first: &mut Profile, second: Profile) {
    let Profile {
        absent,
        uptime_ns,
        names,
        set,
        resize,
        max_entries,
        inner_maps,
        map,
        ops,
        without,
        struct_ops,
        attach,
        detach,
        run,
    } = second;
    for (to, from) in [(&mut first.absent, absent), (&mut first.struct_ops, struct_ops)] {
        if !from.is_empty() {
            *to = from;
        }
    }
    first.uptime_ns = first.uptime_ns.max(uptime_ns);
    first.names.extend(names);
    first.set.extend(set);
    first.resize.extend(resize);
    first.max_entries.extend(max_entries);
    first.inner_maps.extend(inner_maps);
    first.map.extend(map);
    first.ops.extend(ops);
    first.without.extend(without);
    first.attach.extend(attach);
    first.detach.extend(detach);
    first.run.extend(run);
}

fn runs(key: &str, value: &Value) -> Result<Vec<Run>, String> {
    let runs = value
        .as_array()
        .ok_or_else(|| format!("{key}: expected [[{key}]] tables"))?;
    runs.iter().map(|value| run(key, value)).collect()
}

fn run(name: &str, value: &Value) -> Result<Run, String> {
    let table = value
        .as_table()
        .ok_or_else(|| format!("{name}: expected [[{name}]] tables"))?;
    let truth = |key: &str, value: &Value| value.as_bool().ok_or_else(|| format!("{key}: expected true or false"));
    let mut run = Run::default();
    for (key, value) in table {
        match key.as_str() {
            "program" => run.program = text(key, value)?,
            "each" => {
                let group = text(key, value)?;
                let known = Group::by_name(&group);
                run.each =
                    Some(known.ok_or_else(|| format!("each = \"{group}\": expected cpu, core, llc, node or package"))?);
            }
            "when" => run.when = text(key, value)?,
            "on" => run.on = text(key, value)?,
            "after" => run.after = truth(key, value)?,
            "args" => run.args = args(key, value)?,
            "result" => run.result = texts(key, value)?,
            "memory" => run.memory = settings(key, value)?,
            "then" => run.then = runs(key, value)?,
            _ => {
                return Err(format!(
                    "unknown key '{key}' in [[{name}]]: expected program, each, when, on, after, args, result, memory or then"
                ));
            }
        }
    }
    if run.program.is_empty() {
        return Err(format!("[[{name}]] names no program"));
    }
    if name == "then" && (run.each.is_some() || run.after) {
        return Err("[[run.then]] runs for what [[run]] does and when it does: each and after belong there".into());
    }
    Ok(run)
}

/// Values, or `{ value = "...", times = 3 }`.
fn args(key: &str, value: &Value) -> Result<Vec<Arg>, String> {
    let values = value.as_array().ok_or_else(|| format!("{key}: expected a list"))?;
    let one = |value: &Value| {
        let Some(parts) = value.as_table() else {
            return Ok(Arg::from(text(key, value)?.as_str()));
        };
        let times = parts.get("times").and_then(Value::as_integer);
        match (parts.get("value"), times.and_then(|times| u32::try_from(times).ok())) {
            (Some(value), Some(times)) if parts.len() == 2 => Ok(Arg {
                value: text(key, value)?,
                times,
            }),
            _ => Err(format!("{key}: expected a value or {{ value = \"...\", times = 3 }}")),
        }
    };
    values.iter().map(one).collect()
}

/// Paths and their values, or `{ value = "...", when = "..." }`.
fn settings(key: &str, value: &Value) -> Result<Vec<Setting>, String> {
    let table = value
        .as_table()
        .ok_or_else(|| format!("{key}: expected {{ name = \"value\" }}"))?;
    let one = |(path, value): (&String, &Value)| {
        let Some(parts) = value.as_table() else {
            return Ok(Setting::new(path, text(path, value)?));
        };
        let mut setting = Setting::new(path, "");
        for (key, value) in parts {
            match key.as_str() {
                "value" => setting.value = text(path, value)?,
                "when" => setting.when = text(path, value)?,
                _ => return Err(format!("{path}: unknown key '{key}': expected value or when")),
            }
        }
        Ok(setting)
    };
    table.iter().map(one).collect()
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

    fn parse(text: &str) -> Result<Profile, String> {
        let table: Table = text.parse().expect("TOML");
        from_table(&table, &mut |name| match name {
            "first" => parse("absent = 'all'\nset = { z = 1 }\n[[run]]\nprogram = 'init'"),
            _ => Err("there is none".into()),
        })
    }

    #[test]
    fn all_keys_are_read() {
        let profile = parse(
            "uptime = '30ms'\ninclude = ['first']\nset = { a = 'nr_cpus', 'b[cpu]' = { value = 3, when = 'smt' } }\nresize = { c = 'nr_llcs' }\n\
             map = { 'm[cpu]' = 'node' }\nattach = ['p']\ndetach = ['o']\nwithout = ['tick']\nops = { flags = 2 }\n\
             [[run]]\nprogram = 'q'\neach = 'cpu'\nargs = ['cpu', 1, { value = 'i', times = 2 }]\nresult = ['x']\nmemory = { 'x + 8 * word' = 'cpus' }\n\
             after = true\non = 'cpu'\n[[run.then]]\nprogram = 'r'\nargs = ['x:u64']",
        )
        .expect("a profile");
        let b = Setting {
            when: "smt".into(),
            ..Setting::new("b[cpu]", "3")
        };
        assert_eq!(profile.set, [Setting::new("z", "1"), Setting::new("a", "nr_cpus"), b]);
        assert_eq!((profile.absent.as_str(), profile.without[0].as_str()), ("all", "tick"));
        assert_eq!(profile.uptime_ns, 30_000_000);
        assert_eq!(profile.map, [Setting::new("m[cpu]", "node")]);
        let [init, run] = &profile.run[..] else {
            panic!("two programs: {:?}", profile.run);
        };
        assert_eq!((init.program.as_str(), init.each, init.after), ("init", None, false));
        assert_eq!((run.each, run.after, run.on.as_str()), (Some(Group::Cpu), true, "cpu"));
        let twice = Arg {
            value: "i".into(),
            times: 2,
        };
        assert_eq!(run.args, ["cpu".into(), "1".into(), twice]);
        assert_eq!(run.result, ["x"]);
        assert_eq!(run.then[0].args, [Arg::from("x:u64")]);
    }

    #[test]
    fn what_is_no_profile_is_told() {
        for (text, expect) in [
            (
                "sett = {}",
                "unknown key 'sett': expected absent, include, uptime, names, set",
            ),
            ("[[run]]\nwhen = 'smt'", "names no program"),
            (
                "[[run]]\nprogram = 'x'\nargs = [{ times = 2 }]",
                "expected a value or {",
            ),
            (
                "[[run]]\nprogram = 'x'\neach = 'socket'",
                "expected cpu, core, llc, node or package",
            ),
            (
                "[[run]]\nprogram = 'x'\n[[run.then]]\nprogram = 'y'\neach = 'cpu'",
                "each and after belong there",
            ),
            ("set = { a = { value = 1, if = 2 } }", "unknown key 'if'"),
            ("set = { a = 1.5 }", "expected a text or a number"),
            ("include = ['second']", "there is none"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(expect), "{text}: {error}");
        }
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
