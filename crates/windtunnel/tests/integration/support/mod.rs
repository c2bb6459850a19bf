// SPDX-License-Identifier: GPL-2.0-only
//! Functions for tests that compile policies and run the `windtunnel` command.

pub mod page;
pub mod policy;
pub mod records;
pub mod terminal;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the root directory of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository's directory exists")
}

/// Returns the names of all policies in alphabetical order.
pub fn policies() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("policies")).expect("the directory of policies exists");
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().into_string().expect("the file name is UTF-8"));
    let mut names: Vec<String> = names
        .filter_map(|name| name.strip_suffix(".bpf.c").map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// Compiles a policy's source with clang and returns the object.
pub fn object(source: &str) -> PathBuf {
    variant(source, "", &[])
}

/// Compiles a variant of a policy, which macros select. The object is called `NAME-VARIANT.bpf.o`.
pub fn variant(source: &str, variant: &str, defines: &[&str]) -> PathBuf {
    let ending = match variant {
        "" => ".bpf.o".to_owned(),
        variant => format!("-{variant}.bpf.o"),
    };
    let source = root().join(source);
    let name = source
        .file_name()
        .and_then(|name| name.to_str())
        .expect("the path has a file name")
        .replace(".bpf.c", &ending);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policies");
    let to = folder.join(name);
    let defines: Vec<_> = defines.iter().map(|define| format!("-D{define}")).collect();
    let options: Vec<_> = ["-g"].into_iter().chain(defines.iter().map(String::as_str)).collect();
    clang::compile(&source, &options, &to).unwrap_or_else(|error| panic!("{error}"));
    to
}

/// Output and exit status of the command.
pub struct Ran {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the command in the root directory of the repository.
pub fn windtunnel(args: &[&str]) -> Ran {
    windtunnel_at(Path::new(env!("CARGO_BIN_EXE_windtunnel")), args)
}

/// Runs another build of the command in the root directory of the repository.
pub fn windtunnel_at(command: &Path, args: &[&str]) -> Ran {
    let output = Command::new(command)
        .args(args)
        .current_dir(root())
        .output()
        .expect("the command starts");
    Ran {
        status: output.status.code().expect("no signal has ended the command"),
        stdout: String::from_utf8(output.stdout).expect("the text is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("the text is UTF-8"),
    }
}

/// Returns the results that `windtunnel run` writes as JSON.
pub fn results(args: &[&str]) -> Vec<serde_json::Value> {
    results_from(Path::new(env!("CARGO_BIN_EXE_windtunnel")), args)
}

/// Returns the results that another build of `windtunnel run` writes as JSON.
pub fn results_from(command: &Path, args: &[&str]) -> Vec<serde_json::Value> {
    let ran = windtunnel_at(command, &[&["run"], args, &["--json", "-"]].concat());
    assert!(ran.status < 2, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
}
