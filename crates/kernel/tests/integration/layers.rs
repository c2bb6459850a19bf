// SPDX-License-Identifier: GPL-2.0-only
//! The modules of the crate are layers: a file imports only from its own layer and from lower ones.

use std::fs;
use std::path::Path;

/// The layers, from the lowest to the highest. Modules of one layer do not import each other.
const LAYERS: [&[&str]; 6] = [
    &["simulation"],
    &["layout"],
    &["state"],
    &["cost", "hardware", "watch"],
    &["sched"],
    &["programs", "policy"],
];

/// Imports that are allowed although they go to a higher layer. A switch to a task continues the
/// program of the task, and the program of a task wakes other tasks.
const EXCEPTIONS: [(&str, &str); 1] = [("sched/schedule.rs", "programs")];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// Returns the top-level modules that the text of a file names after `crate::`, without its tests.
fn imports(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| {
        line.split("crate::").skip(1).map(|rest| {
            let end = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            &rest[..end]
        })
    })
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
        let test = name.split('/').any(|part| part == "tests" || part == "tests.rs");
        let Some((module, _)) = name.split_once('/') else {
            continue;
        };
        if test || !name.ends_with(".rs") {
            continue;
        }
        nr += 1;
        let own = layer(module).unwrap_or_else(|| panic!("{name}: add the module {module} to a layer in this test"));
        for import in imports(&fs::read_to_string(&path).unwrap()) {
            let Some(other) = layer(import) else { continue };
            let upward = other > own || (other == own && import != module);
            if upward && !EXCEPTIONS.contains(&(name, import)) {
                wrong.push(format!("{name} imports from {import}, which is not in a lower layer"));
            }
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
        "{}\nMove the data to state/, or move the function (ARCHITECTURE.md describes the layers).",
        wrong.join("\n")
    );
}

#[test]
fn imports_are_found() {
    let text = "use crate::sched::ext;\n// crate::policy\nfn f() { crate::state::x(); }\n#[cfg(test)]\nmod tests { use crate::run; }\n";
    assert_eq!(imports(text).collect::<Vec<_>>(), ["sched", "state"]);
}
