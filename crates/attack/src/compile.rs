// SPDX-License-Identifier: GPL-2.0-only
//! Compiles C policies with clang, on all CPUs in parallel.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Compiles a C file with the macro `define` and returns the path of its object.
///
/// # Errors
/// The message of the compiler.
pub fn object(source: &Path, define: &str) -> Result<PathBuf, String> {
    let name = source.file_stem().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches(".bpf");
    let path = clang::fingerprint(source);
    let object = crate::output().join(format!("objects/{name}-{define}-{path:016x}.bpf.o"));
    let define = (!define.is_empty()).then(|| format!("-D{define}"));
    let options: Vec<_> = ["-g", "-w"].into_iter().chain(define.as_deref()).collect();
    clang::compile(source, &options, &object)?;
    Ok(object)
}

/// Compiles many files on all CPUs in parallel. Returns the paths of their objects in the order of
/// `sources`.
///
/// # Errors
/// The message of the compiler for the first file that cannot be compiled.
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
