// SPDX-License-Identifier: GPL-2.0-only
//! Compares the simulator with Linux 7.3: both execute the scripts in `crates/kernel/tests/scripts`,
//! and their logs must be equal. `scripts/conform.sh --update` writes the kernel's logs.

use script::Script;
use std::fs;
use std::path::{Path, PathBuf};

/// Scripts with a policy are compared by the crate windtunnel, which finds policies.
const POLICY: &str = "policy ";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/tests/scripts")
}

/// Returns the first difference between two logs: the last line of the script before it, and the
/// line of each log.
fn difference(kernel: &str, simulator: &str) -> Option<String> {
    let (mut theirs, mut ours) = (kernel.lines(), simulator.lines());
    let mut command = "the first line";
    loop {
        let (their, our) = (theirs.next(), ours.next());
        if let Some(line) = their.filter(|line| line.starts_with("> ")) {
            command = line;
        }
        if their != our {
            let show = |line: Option<&str>| line.unwrap_or("(end)").to_string();
            return Some(format!(
                "after `{command}`\n  kernel:    {}\n  simulator: {}",
                show(their),
                show(our)
            ));
        }
        their?;
    }
}

#[test]
fn the_simulator_decides_as_the_kernel_does() {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder())
        .expect("the folder with the scripts")
        .map(|entry| entry.expect("an entry of the folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "script"))
        .collect();
    paths.sort();
    let (mut wrong, mut compared, mut lines) = (Vec::new(), 0, 0);
    for path in paths {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("a script");
        if text.lines().any(|line| line.starts_with(POLICY)) {
            continue;
        }
        let script = Script::parse(&name, &text).unwrap_or_else(|error| panic!("{error}"));
        let log = script::run(&script, |_, _, _| unreachable!("the script has no policy")).expect("a log");
        let kernel = fs::read_to_string(path.with_extension("log")).expect("the kernel's log");
        compared += 1;
        lines += kernel.lines().count();
        if let Some(difference) = difference(&kernel, &log) {
            wrong.push(format!("{name}: {difference}"));
        }
    }
    assert!(compared > 30 && lines > 2000, "{compared} scripts with {lines} lines");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
