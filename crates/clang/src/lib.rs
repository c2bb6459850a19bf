// SPDX-License-Identifier: GPL-2.0-only
//! Compiles BPF C with clang, for tests, for the crate `attack` (hostile inputs), and for the build
//! of the command.
//!
//! clang takes up to a third of a second for a policy, and the tests need several hundred objects.
//! An object is therefore kept while its inputs stay the same: the compiler, the command line, and
//! the contents of every file that clang read. These inputs are stored in a file beside the object,
//! the record.

use std::ffi::OsStr;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

const COMPILER: &str = "clang-19";
const TARGET: [&str; 5] = ["-O2", "-mcpu=v3", "-target", "bpf", "-c"];

/// Compiles `source` with `options` into `object`, unless `object` is already the result of the
/// same inputs.
///
/// The directory of `object` is created. Several processes and threads may compile the same object
/// at the same time, if their inputs are the same. A reader always finds a complete object.
///
/// # Errors
/// clang's messages, or the file that cannot be read or written.
pub fn compile(source: &Path, options: &[&str], object: &Path) -> Result<(), String> {
    compile_in(Path::new("."), source, options, object)
}

/// Runs clang in `folder`, and otherwise does the same as [`compile`]. `source` and `object` are
/// absolute paths.
///
/// clang copies source lines into the object's debug information. It reads them from the paths that
/// remain after `-fdebug-prefix-map`, so these paths must be right relative to `folder`.
///
/// # Errors
/// Those of [`compile`].
pub fn compile_in(folder: &Path, source: &Path, options: &[&str], object: &Path) -> Result<(), String> {
    let command = command(folder, source, options)?;
    let record = beside(object, "inputs");
    if object.exists() && is_current(&record, &command) {
        return Ok(());
    }
    if let Some(folder) = object.parent() {
        std::fs::create_dir_all(folder).map_err(|error| at(folder, &error))?;
    }
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let own = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let (part, rule) = (
        beside(object, &format!("{own}.part")),
        beside(object, &format!("{own}.d")),
    );
    let done = Command::new(COMPILER)
        .current_dir(folder)
        .args(TARGET)
        .args(options)
        .args(["-MD", "-MF"])
        .arg(&rule)
        .arg(source)
        .arg("-o")
        .arg(&part)
        .output()
        .map_err(|error| format!("{COMPILER}: {error}; scripts/setup.sh installs it"))?;
    if !done.status.success() {
        let _ = std::fs::remove_file(&rule);
        return Err(format!(
            "{} does not compile:\n{}",
            source.display(),
            String::from_utf8_lossy(&done.stderr)
        ));
    }
    let made = std::fs::read_to_string(&rule).map_err(|error| at(&rule, &error))?;
    let _ = std::fs::remove_file(&rule);
    let mut text = command;
    for input in inputs(&made) {
        let hash = contents(&input).map_err(|error| at(&input, &error))?;
        let _ = writeln!(text, "{hash:016x} {}", input.display());
    }
    // The old record is removed first. If this process is killed after the rename, no record then
    // describes the new object, and the object is compiled again.
    let _ = std::fs::remove_file(&record);
    std::fs::rename(&part, object).map_err(|error| at(object, &error))?;
    let part = beside(object, &format!("{own}.inputs.part"));
    std::fs::write(&part, text)
        .and_then(|()| std::fs::rename(&part, &record))
        .map_err(|error| at(&record, &error))
}

/// Returns a hash of a source text or of options, to be part of a file name.
pub fn fingerprint(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns the first line of a record, which contains the compiler, its directory and its arguments.
fn command(folder: &Path, source: &Path, options: &[&str]) -> Result<String, String> {
    let compiler = compiler().as_ref().map_err(Clone::clone)?;
    Ok(format!(
        "{compiler} {} {TARGET:?} {options:?} {}\n",
        folder.display(),
        source.display()
    ))
}

/// Returns the path, the size and the modification time of the compiler. They are different for
/// another version of the compiler.
fn compiler() -> &'static Result<String, String> {
    static COMPILER_FILE: OnceLock<Result<String, String>> = OnceLock::new();
    COMPILER_FILE.get_or_init(|| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&folders).find_map(|folder| folder.join(COMPILER).canonicalize().ok());
        let path = found.ok_or_else(|| format!("there is no {COMPILER}; scripts/setup.sh installs it"))?;
        let data = path.metadata().map_err(|error| at(&path, &error))?;
        let changed = data.modified().map_err(|error| at(&path, &error))?;
        Ok(format!("{} {} {changed:?}", path.display(), data.len()))
    })
}

/// Returns whether a record has this command, and all its inputs still have the recorded contents.
fn is_current(record: &Path, command: &str) -> bool {
    let Ok(text) = std::fs::read_to_string(record) else {
        return false;
    };
    let Some(inputs) = text.strip_prefix(command) else {
        return false;
    };
    inputs.lines().all(|line| {
        let parts = line.split_once(' ');
        parts.is_some_and(|(hash, path)| contents(Path::new(path)).is_ok_and(|now| format!("{now:016x}") == hash))
    })
}

/// Returns the files that a make rule `OBJECT: FILE...` names. In a file name, a backslash precedes
/// each space.
fn inputs(rule: &str) -> Vec<PathBuf> {
    const SPACE: &str = "\0";
    let rule = rule.replace("\\\n", " ").replace("\\ ", SPACE);
    let (_, files) = rule.split_once(": ").unwrap_or_default();
    let files = files.split_whitespace();
    files.map(|file| PathBuf::from(file.replace(SPACE, " "))).collect()
}

fn contents(path: &Path) -> io::Result<u64> {
    std::fs::read(path).map(fingerprint)
}

/// Returns `path` with `ending` appended.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or(OsStr::new("object")).to_owned();
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

fn at(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    /// Creates a directory with two files: `value.h`, and `one.bpf.c`, which includes `value.h`.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("clang test {name} {}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("the directory can be created");
        std::fs::write(folder.join("value.h"), "#define VALUE 1\n").expect("the header can be written");
        let source = "#include \"value.h\"\nint value = VALUE;\n";
        std::fs::write(folder.join("one.bpf.c"), source).expect("the source can be written");
        folder
    }

    /// Compiles `one.bpf.c` and returns the time at which the object was written.
    fn compiled(folder: &Path, options: &[&str]) -> SystemTime {
        let object = folder.join("one.bpf.o");
        compile(&folder.join("one.bpf.c"), options, &object).expect("the source compiles");
        let data = object.metadata().expect("the object file exists");
        data.modified().expect("the file has a modification time")
    }

    #[test]
    fn an_object_is_kept_while_its_inputs_stay_the_same() {
        let folder = folder("kept");
        let first = compiled(&folder, &["-g"]);
        assert_eq!(compiled(&folder, &["-g"]), first);
        // Writing the same contents again changes only the time of the file.
        std::fs::write(folder.join("value.h"), "#define VALUE 1\n").expect("the header can be written");
        assert_eq!(compiled(&folder, &["-g"]), first);

        std::fs::write(folder.join("value.h"), "#define VALUE 2\n").expect("the header can be written");
        let header = compiled(&folder, &["-g"]);
        assert_ne!(header, first);
        let option = compiled(&folder, &["-g", "-DMORE"]);
        assert_ne!(option, header);
        std::fs::write(folder.join("one.bpf.c"), "int value;\n").expect("the source can be written");
        let source = compiled(&folder, &["-g", "-DMORE"]);
        assert_ne!(source, option);
        std::fs::remove_file(folder.join("one.bpf.o")).expect("the object file exists");
        compiled(&folder, &["-g", "-DMORE"]);

        let mut left: Vec<_> = std::fs::read_dir(&folder)
            .expect("the directory exists")
            .flatten()
            .map(|entry| entry.file_name().into_string().expect("the file name is UTF-8"))
            .collect();
        left.sort();
        assert_eq!(left, ["one.bpf.c", "one.bpf.o", "one.bpf.o.inputs", "value.h"]);
        std::fs::remove_dir_all(&folder).expect("the directory can be removed");
    }

    #[test]
    fn an_error_has_the_message_of_clang_and_no_object_is_kept() {
        let folder = folder("error");
        let (source, object) = (folder.join("one.bpf.c"), folder.join("one.bpf.o"));
        std::fs::write(&source, "int value = no_such_name;\n").expect("the source can be written");
        for _ in 0..2 {
            let error = compile(&source, &[], &object).expect_err("it does not compile");
            assert!(error.contains("undeclared identifier 'no_such_name'"), "{error}");
        }
        assert!(!object.exists());
        std::fs::remove_dir_all(&folder).expect("the directory can be removed");
    }
}
