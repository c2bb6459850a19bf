// SPDX-License-Identifier: GPL-2.0-only
//! Helpers that compile policies and run the command.

pub mod page;
pub mod policy;
pub mod records;
pub mod terminal;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Returns the repository's root directory.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository")
}

/// Returns the names of all policies in alphabetical order.
pub fn policies() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("policies")).expect("policies");
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().into_string().expect("a name"));
    let mut names: Vec<String> = names
        .filter_map(|name| name.strip_suffix(".bpf.c").map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// Compiles a policy's source with clang, once per process, and returns the path of the object.
pub fn object(source: &str) -> PathBuf {
    variant(source, "", &[])
}

/// Compiles a variant of a policy's source, chosen by macros, as `NAME-VARIANT.bpf.o`.
pub fn variant(source: &str, variant: &str, defines: &[&str]) -> PathBuf {
    static COMPILED: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    // A test that panicked while compiling reports the failure itself, so the poisoned lock is
    // ignored.
    let mut compiled = COMPILED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    compiled
        .entry(format!("{source} {variant}"))
        .or_insert_with(|| compile(source, variant, defines))
        .clone()
}

fn compile(source: &str, variant: &str, defines: &[&str]) -> PathBuf {
    let ending = match variant {
        "" => ".bpf.o".to_owned(),
        variant => format!("-{variant}.bpf.o"),
    };
    let source = root().join(source);
    let name = source
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a file name")
        .replace(".bpf.c", &ending);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policies");
    std::fs::create_dir_all(&folder).expect("a folder for objects");
    let to = folder.join(name);
    // Tests run in parallel: each thread writes its own file and renames it.
    let own = to.with_extension(format!("{:?}", std::thread::current().id()).replace(['(', ')'], ""));
    let status = Command::new("clang-19")
        .args(["-g", "-O2", "-mcpu=v3", "-target", "bpf", "-c"])
        .args(defines.iter().map(|define| format!("-D{define}")))
        .arg(&source)
        .arg("-o")
        .arg(&own)
        .status()
        .expect("clang-19 (scripts/setup.sh installs it)");
    assert!(status.success(), "{} does not compile", source.display());
    std::fs::rename(&own, &to).expect("the object");
    to
}

/// Output and exit status of one run of the command.
pub struct Ran {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the command in the repository's root directory.
pub fn windtunnel(args: &[&str]) -> Ran {
    windtunnel_at(Path::new(env!("CARGO_BIN_EXE_windtunnel")), args)
}

/// Runs another build of the command in the repository's root directory.
pub fn windtunnel_at(command: &Path, args: &[&str]) -> Ran {
    let output = Command::new(command)
        .args(args)
        .current_dir(root())
        .output()
        .expect("the command");
    Ran {
        status: output.status.code().expect("an exit status"),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Returns the JSON results of `windtunnel run`.
pub fn results(args: &[&str]) -> Vec<serde_json::Value> {
    results_from(Path::new(env!("CARGO_BIN_EXE_windtunnel")), args)
}

/// Returns the JSON results of `run` with another build of the command.
pub fn results_from(command: &Path, args: &[&str]) -> Vec<serde_json::Value> {
    let ran = windtunnel_at(command, &[&["run"], args, &["--json", "-"]].concat());
    assert!(ran.status < 2, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
}
