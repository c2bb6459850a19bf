// SPDX-License-Identifier: GPL-2.0-only
//! Compiles a submission. A hostile source can make the compiler read files, loop or use much
//! memory, so the compiler has limits.

use input::Error;
use runner::quote::quote;
use runner::search;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const COMPILER: &str = "clang-19";
/// Largest source that is compiled, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Limits of the compiler: CPU time in s, address space in KiB, and size of each file that it
/// writes, in blocks of 512 bytes.
const LIMITS: &str = "ulimit -t 20 && ulimit -v 4000000 && ulimit -f 65536 && exec \"$@\"";
/// Real time after which the compiler is ended, for example if it waits for a pipe.
const MAX_TIME: Duration = Duration::from_secs(60);
/// Number of lines of the compiler's messages that are passed on.
const MAX_LINES: usize = 12;

/// Returns the command that compiles `source` into the current directory, for example for the runs
/// that the grades name.
pub fn command(source: &Path) -> String {
    let headers = search::folders("policies").into_iter();
    let headers = headers.map(|folder| format!(" -I {}", quote(&folder.display().to_string())));
    let headers = headers.take(1).collect::<String>();
    let (source, object) = (quote(&source.display().to_string()), quote(&object_name(source)));
    format!("{COMPILER} -g -O2 -mcpu=v3 -target bpf{headers} -c {source} -o {object}")
}

fn object_name(source: &Path) -> String {
    let name = source.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    format!("{}.bpf.o", name.trim_end_matches(".c").trim_end_matches(".bpf"))
}

/// Compiles `source` into the directory `folder` and returns the object.
///
/// # Errors
/// The outer error: the source cannot be read, or there is no compiler. The inner error: the source
/// does not compile within the limits. It contains the compiler's messages.
pub fn compile(source: &Path, folder: &Path) -> Result<Result<PathBuf, String>, Error> {
    let file = std::fs::metadata(source).map_err(|error| Error::io(source, &error))?;
    if !file.is_file() {
        return Err(Error::at(source.display().to_string(), "this is not a file"));
    }
    if file.len() > MAX_BYTES {
        return Ok(Err(format!(
            "the source has {} bytes, more than {MAX_BYTES}",
            file.len()
        )));
    }
    let object = folder.join(object_name(source));
    let messages = folder.join("messages");
    let output = File::create(&messages).map_err(|error| Error::io(&messages, &error))?;
    let mut command = Command::new("sh");
    command.args(["-c", LIMITS, "sh", COMPILER]);
    command.args([
        "-g",
        "-O2",
        "-mcpu=v3",
        "-target",
        "bpf",
        "-ferror-limit=5",
        "-fno-caret-diagnostics",
    ]);
    for headers in search::folders("policies") {
        command.arg("-I").arg(headers);
    }
    command.arg("-c").arg(source).arg("-o").arg(&object);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
    let failed = |error: &std::io::Error| {
        Error::new(format!("{COMPILER} cannot be started: {error}"))
            .hint("install clang 19, for example the package clang-19")
    };
    let mut child = command.spawn().map_err(|error| failed(&error))?;
    let started = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| failed(&error))? {
            Some(status) => break status,
            None if started.elapsed() > MAX_TIME => {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(Err("the compiler does not end".to_owned()));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    if status.success() {
        return Ok(Ok(object));
    }
    // The shell's statuses for a program that does not exist or cannot be executed.
    if matches!(status.code(), Some(126 | 127)) {
        return Err(failed(&std::io::ErrorKind::NotFound.into()));
    }
    let text = std::fs::read(&messages).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[..text.len().min(1 << 16)]).into_owned();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.ends_with("generated."))
        .take(MAX_LINES)
        .collect();
    Ok(Err(match (status.code(), lines.is_empty()) {
        (Some(1), false) => lines.join("\n"),
        _ => "the compiler needs more than its limits of CPU time, memory or file size".to_owned(),
    }))
}
