// SPDX-License-Identifier: GPL-2.0-only
//! Output files that appear under their name only when they are complete.
//!
//! Output goes to a temporary file in the same directory, which is renamed at the end. A full disk,
//! an error or an interruption therefore leaves the previous file unchanged. Devices, pipes and `-`
//! (standard output) are written directly. Before a long run, [`check`] reports paths that cannot
//! be written.

use crate::console::Stdout;
use input::error::Error;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::{NamedTempFile, TempPath};

/// Paths of the existing temporary files. When a second signal ends the process at once, the files
/// are removed.
static TEMPORARIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// An output file that is being written. If it is dropped without [`Destination::commit`], no file
/// is left behind.
pub struct Destination {
    path: PathBuf,
    to: To,
}

enum To {
    Stdout(Stdout),
    /// A device, a pipe, or an existing file whose directory does not permit new files.
    Direct(File),
    /// A temporary file, and the path to which it will be renamed. If the output path is a symbolic
    /// link, this is the target of the link.
    Renamed(File, Temporary, PathBuf),
}

/// A temporary file that [`remove_temporaries`] can remove.
struct Temporary(Option<TempPath>);

impl Temporary {
    fn forget(path: &Path) {
        lock().retain(|known| known != path);
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            let removed = path.to_path_buf();
            // Dropping the `TempPath` removes the file. An error cannot be reported here.
            drop(path);
            Temporary::forget(&removed);
        }
    }
}

fn lock() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the temporary files of this process, which is about to exit. Afterwards, no thread can
/// create another one.
pub(crate) fn remove_temporaries() {
    let temporaries = lock();
    for path in temporaries.iter() {
        let _ = fs::remove_file(path);
    }
    std::mem::forget(temporaries);
}

/// Returns whether a path names standard output.
pub fn is_stdout(path: &Path) -> bool {
    let names = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    names.iter().any(|name| path == Path::new(name))
}

/// Checks that at most one output goes to standard output. An output is the option that requests it,
/// and its path.
///
/// # Errors
/// Two outputs go to standard output, where they would be mixed.
pub fn check_stdout<'a>(outputs: impl IntoIterator<Item = (&'a str, &'a Path)>) -> Result<(), Error> {
    let mut on_stdout = outputs.into_iter().filter(|(_, path)| is_stdout(path));
    match (on_stdout.next(), on_stdout.next()) {
        (Some((first, _)), Some((second, _))) => Err(Error::new(format!(
            "{first} and {second} both write to standard output"
        ))
        .hint(format!("write one of them to a file: {second} FILE"))),
        _ => Ok(()),
    }
}

/// Returns whether a path names standard output, a device or a pipe. Several runs may write their
/// output to such a path, one after another.
pub fn is_special(path: &Path) -> bool {
    is_stdout(path) || fs::metadata(path).is_ok_and(|known| !known.is_file() && !known.is_dir())
}

impl Destination {
    /// Starts a file. Missing parent directories are created.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(path: &Path) -> Result<Destination, Error> {
        let to = open(path).map_err(|error| path_error(path, &error))?;
        Ok(Destination {
            path: path.to_owned(),
            to,
        })
    }

    /// Completes the file: renames it to its final path.
    ///
    /// # Errors
    /// The last part of the file cannot be written, or the file cannot be renamed.
    pub fn commit(self) -> Result<(), Error> {
        let Destination { path, to } = self;
        let done = match to {
            To::Stdout(mut stdout) => stdout.flush(),
            To::Direct(mut file) => file.flush(),
            To::Renamed(mut file, temporary, target) => file.flush().and_then(|()| rename(temporary, &target)),
        };
        done.map_err(|error| path_error(&path, &error))
    }
}

fn rename(mut temporary: Temporary, target: &Path) -> io::Result<()> {
    let Some(path) = temporary.0.take() else { return Ok(()) };
    let from = path.to_path_buf();
    let renamed = path.persist(target).map_err(|error| error.error);
    Temporary::forget(&from);
    renamed
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Stdout(stdout) => stdout.write(bytes),
            To::Direct(file) | To::Renamed(file, ..) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Stdout(stdout) => stdout.flush(),
            To::Direct(file) | To::Renamed(file, ..) => file.flush(),
        }
    }
}

fn open(path: &Path) -> io::Result<To> {
    if is_stdout(path) {
        return Ok(To::Stdout(Stdout));
    }
    // If the path is a symbolic link, the target is replaced and the link stays.
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    // A file without write permission is not replaced, even if its directory would allow a
    // replacement.
    let known = match OpenOptions::new().write(true).open(&target) {
        Ok(file) if !file.metadata()?.is_file() => return Ok(To::Direct(file)),
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let folder = match target.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    fs::create_dir_all(folder)?;
    // An existing file keeps its permissions. A new file gets mode 0666 minus the umask.
    let mode = match &known {
        Some(file) => file.metadata()?.permissions(),
        None => Permissions::from_mode(0o666),
    };
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // The list stays locked until it contains the new file, so that `remove_temporaries` does not
    // overlook the file.
    let mut temporaries = lock();
    let made = tempfile::Builder::new()
        .prefix(&format!(".{}.", name.chars().take(64).collect::<String>()))
        .suffix(".part")
        .permissions(mode.clone())
        .tempfile_in(folder);
    let (file, path) = match (made, known) {
        (Ok(made), known) => {
            if known.is_some() {
                made.as_file().set_permissions(mode)?;
            }
            NamedTempFile::into_parts(made)
        }
        // The existing file can be written, but no temporary file can be created beside it. The
        // output therefore goes directly into the existing file.
        (Err(_), Some(file)) => {
            file.set_len(0)?;
            return Ok(To::Direct(file));
        }
        (Err(error), None) => return Err(error),
    };
    temporaries.push(path.to_path_buf());
    Ok(To::Renamed(file, Temporary(Some(path)), target))
}

/// Returns an error for `path`. The crate `tempfile` adds the name of the temporary file to its
/// messages. The name is removed, because it means nothing to a user.
fn path_error(path: &Path, error: &io::Error) -> Error {
    let mut message = Error::io(path, error);
    if error.raw_os_error().is_none()
        && let Some(end) = message.message.rfind(" at path \"")
    {
        message.message.truncate(end);
    }
    message
}

/// Checks that these files can be written and that no two are the same. Writes nothing.
///
/// # Errors
/// The first file that cannot be written, or that is named twice.
pub fn check<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), Error> {
    let mut known: Vec<PathBuf> = Vec::new();
    for path in paths {
        if is_special(path) {
            // A pipe is not opened for this check. When it is closed again, its reader would assume
            // the end of the data.
            may_write(path).map_err(|error| path_error(path, &error))?;
            continue;
        }
        match open(path).map_err(|error| path_error(path, &error))? {
            To::Renamed(_, _, target) if known.contains(&target) => {
                return Err(Error::new(format!("{}: two outputs have this path", path.display()))
                    .hint("give each output a different path"));
            }
            To::Renamed(_, _, target) => known.push(target),
            To::Direct(_) | To::Stdout(_) => {}
        }
    }
    Ok(())
}

/// Checks the permission to write a device or pipe without opening it.
fn may_write(path: &Path) -> io::Result<()> {
    if is_stdout(path) {
        return Ok(());
    }
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: access only reads the string, which ends with 0.
    match unsafe { libc::access(name.as_ptr(), libc::W_OK) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Writes a whole file.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut destination = Destination::open(path)?;
    destination.write_all(bytes).map_err(|error| path_error(path, &error))?;
    destination.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary directory can be created")
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("the directory exists").flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_only_when_it_is_complete() {
        let folder = folder();
        let path = folder.path().join("new/out.json");
        let mut begun = Destination::open(&path).expect("the temporary file can be created");
        begun.write_all(b"half").expect("the file can be written");
        assert!(!path.exists());
        begun.commit().expect("the file can be renamed");
        assert_eq!(fs::read(&path).expect("the file exists"), b"half");
        assert_eq!(names(&folder.path().join("new")), ["out.json"]);
    }

    #[test]
    fn the_previous_file_stays_until_the_new_one_is_complete() {
        let folder = folder();
        let path = folder.path().join("out");
        fs::write(&path, "old").expect("the file can be written");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("the permissions can be set");
        let mut begun = Destination::open(&path).expect("the temporary file can be created");
        begun.write_all(b"new").expect("the file can be written");
        drop(begun);
        assert_eq!(fs::read(&path).expect("the file exists"), b"old");
        check([path.as_path()]).expect("the file can be written");
        assert_eq!(names(folder.path()), ["out"]);
        write(&path, b"new").expect("the file can be written");
        assert_eq!(fs::read(&path).expect("the file exists"), b"new");
        assert_eq!(
            fs::metadata(&path).expect("the file exists").permissions().mode() & 0o777,
            0o640
        );
    }

    #[test]
    fn a_symbolic_link_is_kept_and_its_target_replaced() {
        let folder = folder();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").expect("the file can be written");
        std::os::unix::fs::symlink(&file, &link).expect("the link can be created");
        write(&link, b"new").expect("the file can be written");
        assert!(fs::symlink_metadata(&link).expect("the link exists").is_symlink());
        assert_eq!(fs::read(&file).expect("the file exists"), b"new");
    }

    #[test]
    fn devices_are_written_directly_and_report_errors() {
        write(Path::new("/dev/null"), b"gone").expect("the file can be written");
        assert!(is_special(Path::new("/dev/null")) && is_special(Path::new("-")));
        let error = write(Path::new("/dev/full"), b"too much").expect_err("no room");
        let text = error.to_string();
        assert!(
            text.starts_with("/dev/full: No space left on device (os error 28)\n"),
            "{text}"
        );
        assert_eq!(
            names(Path::new("/dev"))
                .iter()
                .filter(|name| name.contains(".part"))
                .count(),
            0
        );
    }

    #[test]
    fn only_one_output_goes_to_standard_output() {
        let [stdout, device, file] = ["-", "/dev/stdout", "out.json"].map(Path::new);
        check_stdout([("--json", stdout), ("--html", file)]).expect("one output");
        check_stdout([("--json", file), ("--html", file)]).expect("no output");
        for pair in [[stdout, stdout], [stdout, device], [device, device]] {
            let error = check_stdout([("--json", pair[0]), ("--trace", file), ("--details", pair[1])]);
            assert_eq!(
                error.expect_err("two outputs").to_string(),
                "--json and --details both write to standard output\n  hint: write one of them to a file: --details FILE"
            );
        }
    }

    #[test]
    fn paths_that_cannot_be_written_are_reported_before_the_run() {
        let folder = folder();
        let path = folder.path();
        let (file, below) = (path.join("file"), path.join("file/below"));
        fs::write(&file, "old").expect("the file can be written");
        let error = check([below.as_path()]).expect_err("a file cannot contain a file");
        assert!(error.message.ends_with("Not a directory (os error 20)"), "{error}");
        let error = check([path]).expect_err("a folder");
        assert!(error.message.ends_with("Is a directory (os error 21)"), "{error}");
        let error = check([file.as_path(), file.as_path()]).expect_err("twice");
        assert!(error.message.ends_with("two outputs have this path"), "{error}");
        check([Path::new("/dev/null"), Path::new("/dev/null")]).expect("devices may be named twice");
        let error = check([Path::new("/proc/out.json")]).expect_err("no file can be created in /proc");
        assert_eq!(
            error.to_string(),
            "/proc/out.json: No such file or directory (os error 2)"
        );
    }
}
