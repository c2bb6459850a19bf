// SPDX-License-Identifier: GPL-2.0-only
//! The modules of the crate are layers: a file imports only from its own layer and from lower ones.
//!
//! The state of a subject stands beside the functions that change it, in a file or directory named
//! `state`. All of these files are one layer, together with `machine.rs`, which owns the state.

use std::fs;
use std::path::Path;

/// The layers, from the lowest to the highest. Modules of one layer do not import each other.
const LAYERS: [&[&str]; 6] = [
    &["simulation"],
    &["layout"],
    &["machine"],
    &["cost", "hardware", "watch"],
    &["sched"],
    &["programs", "policy"],
];

/// Imports that are allowed although they go to a higher layer. A switch to a task continues the
/// program of the task, and the program of a task wakes other tasks.
const EXCEPTIONS: [(&str, &str); 1] = [("sched/schedule.rs", "programs")];

/// Files that have both methods of the machine and functions that take the machine.
const MIXED: [&str; 4] = [
    "sched/fair/numa/locality.rs",
    "sched/fair/numa/migrate.rs",
    "sched/fair/shares.rs",
    "sched/overlap/mod.rs",
];

/// Returns whether a file has methods of the machine, and whether it has functions that take the
/// machine as their first argument.
fn forms(text: &str) -> (bool, bool) {
    let code = text.split("#[cfg(test)]").next().unwrap_or(text);
    let is_function = |line: &str| {
        let signature = line.strip_prefix("fn ").or_else(|| {
            line.strip_prefix("pub")
                .and(line.split_once(" fn "))
                .map(|(_, rest)| rest)
        });
        signature.is_some_and(|rest| rest.contains("(m: &mut Machine") || rest.contains("(m: &Machine"))
    };
    (code.contains("\nimpl Machine {"), code.lines().any(is_function))
}

/// Returns the top-level module of a path such as `sched::fair::queue`, or `machine` if the path
/// leads to state.
fn module<'p>(path: &[&'p str]) -> &'p str {
    match path.contains(&"state") {
        true => "machine",
        false => path.first().copied().unwrap_or_default(),
    }
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// Returns the modules (see [`module`]) that the text of a file names after `crate::`, without its
/// tests.
fn imports(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join(" ");
    let named = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut found = Vec::new();
    for rest in code.split("crate::").skip(1) {
        let path = &rest[..rest.find(|c| !named(c)).unwrap_or(rest.len())];
        let path: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
        let group = rest.split_once('{').filter(|(before, _)| before.ends_with("::"));
        let group = group.map(|(_, names)| names.split('}').next().unwrap_or(names));
        match group {
            // `crate::sched::{ext, state}` names several modules.
            Some(names) => found.extend(names.split(',').map(|name| {
                let name = name.split_whitespace().next().unwrap_or_default();
                let name = name.split("::").filter(|part| *part != "self");
                module(&path.iter().copied().chain(name).collect::<Vec<_>>()).to_owned()
            })),
            None => found.push(module(&path).to_owned()),
        }
    }
    found
}

/// Adds the imports to higher layers, and to other modules of the same layer, to `wrong`.
fn visit(src: &Path, dir: &Path, wrong: &mut Vec<String>) -> usize {
    let mut nr = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            nr += visit(src, &path, wrong);
            continue;
        }
        let name = path.strip_prefix(src).unwrap().to_str().unwrap();
        let parts: Vec<&str> = name.trim_end_matches(".rs").split('/').collect();
        let outside = ["lib", "run", "stepping", "testbed"].contains(&parts[0]);
        if outside || parts.contains(&"tests") || !name.ends_with(".rs") {
            continue;
        }
        nr += 1;
        let own = module(&parts);
        let rank = layer(own).unwrap_or_else(|| panic!("{name}: add the module {own} to a layer in this test"));
        let text = fs::read_to_string(&path).unwrap();
        for import in imports(&text) {
            let Some(other) = layer(&import) else { continue };
            let upward = other > rank || (other == rank && import != own);
            if upward && !EXCEPTIONS.contains(&(name, import.as_str())) {
                wrong.push(format!("{name} imports from {import}, which is not in a lower layer"));
            }
        }
        if forms(&text) == (true, true) && !MIXED.contains(&name) {
            wrong.push(format!(
                "{name} has methods of the machine, and functions that take it: use one form"
            ));
        }
        let out_of_state = match name {
            _ if name.ends_with("/state.rs") || name.ends_with("/state/mod.rs") => "use super::",
            _ => "super::super::",
        };
        if own == "machine" && text.contains(out_of_state) {
            wrong.push(format!("{name} imports from outside of state with `{out_of_state}`"));
        }
    }
    nr
}

#[test]
fn a_file_imports_only_from_lower_layers() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    let nr = visit(&src, &src, &mut wrong);
    assert!(nr > 100, "only {nr} files were read");
    assert!(
        wrong.is_empty(),
        "{}\nMove the data to `state`, or move the function (ARCHITECTURE.md describes the layers).",
        wrong.join("\n")
    );
}

#[test]
fn the_form_of_functions_is_found() {
    assert_eq!(forms("pub(crate) fn f(m: &mut Machine, cpu: CpuId) {"), (false, true));
    assert_eq!(forms("fn f(m: &Machine) {\n}\nimpl Machine {\n"), (true, true));
    assert_eq!(
        forms("\nimpl Machine {\n    fn f(&self) {\n#[cfg(test)]\nfn g(m: &Machine) {"),
        (true, false)
    );
}

#[test]
fn imports_are_found() {
    let text = "use crate::sched::ext;\n// crate::policy\nfn f() { crate::sched::fair::state::x(); }\n\
                use crate::hardware::{smt, memory::state as memory};\nuse crate::machine::Machine;\n\
                #[cfg(test)]\nmod tests { use crate::run; }\n";
    assert_eq!(imports(text), ["sched", "machine", "hardware", "machine", "machine"]);
}
