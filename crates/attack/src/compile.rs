// SPDX-License-Identifier: GPL-2.0-only
//! Compiles C policies and caches the objects by content, because clang takes a fifth of a second
//! for each.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

const FLAGS: [&str; 7] = ["-g", "-O2", "-mcpu=v3", "-target", "bpf", "-w", "-c"];

/// Returns the object of a C file compiled with `define`, from the cache if the file and its
/// headers have not changed.
///
/// # Errors
/// The compiler's message.
pub fn object(source: &Path, define: &str) -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    (FLAGS, define).hash(&mut hasher);
    for file in inputs(source)? {
        let text = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        text.hash(&mut hasher);
    }
    let folder = crate::output().join("objects");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let name = source.file_stem().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches(".bpf");
    let out = folder.join(format!("{name}-{define}-{:016x}.bpf.o", hasher.finish()));
    if out.exists() {
        return Ok(out);
    }
    // Another process may compile the same file, so the object is renamed when it is complete.
    let part = folder.join(format!("{name}-{define}.{}.part", std::process::id()));
    let mut command = Command::new("clang-19");
    command.args(FLAGS).arg(source).arg("-o").arg(&part);
    if !define.is_empty() {
        command.arg(format!("-D{define}"));
    }
    let done = command.output().map_err(|error| format!("clang-19: {error}"))?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    std::fs::rename(&part, &out).map_err(|error| format!("{}: {error}", out.display()))?;
    Ok(out)
}

/// Returns a C file and the headers that it may include, in a fixed order.
fn inputs(source: &Path) -> Result<Vec<PathBuf>, String> {
    let folders = [
        source.parent().unwrap_or(Path::new(".")).to_owned(),
        crate::root().join("policies/include"),
    ];
    let mut files = vec![source.to_owned()];
    for folder in folders {
        let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let paths = entries.flatten().map(|entry| entry.path());
        files.extend(paths.filter(|path| path.extension().is_some_and(|extension| extension == "h")));
    }
    files.sort();
    Ok(files)
}

/// Compiles many files on all CPUs; returns their objects in the order of `sources`.
///
/// # Errors
/// The first compiler message.
pub fn objects(sources: &[(PathBuf, String)]) -> Result<Vec<PathBuf>, String> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let compile = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((source, define)) = sources.get(index) else {
                return done;
            };
            done.push((index, object(source, define)));
        }
    };
    let mut all: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(compile)).collect();
        handles
            .into_iter()
            .flat_map(|handle| handle.join().expect("compiling does not panic"))
            .collect()
    });
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, object)| object).collect()
}
