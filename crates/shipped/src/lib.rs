// SPDX-License-Identifier: GPL-2.0-only
//! The files that are embedded in the command: policies (sources and objects), machines, workloads,
//! profiles and experiments.
//!
//! The development build embeds nothing. It reads these files from the repository and compiles the
//! policies at run time. It needs the repository at the path where it was built.
//!
//! The other crates read files by path, so that users can replace each file by one of their own.
//! The embedded files are therefore written to a folder in the user's cache directory. Each version
//! of the contents has its own folder. Before a process uses the folder, it compares the files
//! there with the embedded ones and rewrites those that differ. A damaged or altered cache can
//! therefore not change a result.

#[cfg(not(embedded))]
mod files;

use std::ffi::CString;
use std::fs::{self, DirBuilder, Metadata};
use std::io::{self, Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Name and contents of a file. A name is a path such as `machines/numa32.toml`.
pub type File = (&'static str, &'static [u8]);
/// The embedded files, and a hash of their names and contents.
type All = (&'static [File], &'static str);

/// Returns the embedded files.
///
/// # Errors
/// Only in the development build: a file of the repository cannot be read, or a policy does not
/// compile.
pub fn files() -> Result<&'static [File], &'static Error> {
    all().map(|(files, _)| *files)
}

/// Returns the embedded files and a hash of their names and contents. The build script computes the
/// hash. At run time, the computation would make every command a few milliseconds slower.
#[cfg(embedded)]
fn all() -> Result<&'static All, &'static Error> {
    static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));
    static ALL: All = (FILES, env!("SHIPPED_HASH"));
    Ok(&ALL)
}

/// Reads the files of the repository. Returns them and a hash of their names and contents.
#[cfg(not(embedded))]
fn all() -> Result<&'static All, &'static Error> {
    fn read() -> Result<All, Error> {
        let (root, out) = (
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."),
            Path::new(env!("OUT_DIR")),
        );
        let at = |path: &Path, error: Error| Error::new(error.kind(), format!("{}: {error}", path.display()));
        let root = root.canonicalize().map_err(|error| at(&root, error))?;
        let mut paths = files::sources(&root)?;
        paths.extend(files::objects(&root, out, &paths).map_err(Error::other)?);
        paths.sort();
        let mut all: Vec<File> = Vec::new();
        for (name, path) in paths {
            let contents = fs::read(&path).map_err(|error| at(&path, error))?;
            all.push((name.leak(), contents.leak()));
        }
        let hash = files::hash(all.iter().copied());
        Ok((all.leak(), hash.leak()))
    }
    static ALL: OnceLock<Result<All, Error>> = OnceLock::new();
    ALL.get_or_init(read).as_ref()
}

/// Returns the folder to which the embedded files are written. It is below the first folder of
/// [`caches`] that contains the files or to which they can be written.
///
/// # Errors
/// The files cannot be written to any of these folders. The message has the reason for each folder.
/// Also fails if [`files()`] fails.
pub fn folder() -> Result<&'static Path, &'static Error> {
    static FOLDER: OnceLock<Result<PathBuf, Error>> = OnceLock::new();
    files()?;
    FOLDER.get_or_init(|| write_into_first(&caches())).as_deref()
}

/// Returns whether a path is in the folder of the embedded files.
pub fn contains(path: &Path) -> bool {
    folder().is_ok_and(|folder| path.starts_with(folder))
}

/// Returns the folder for caches of this user: the first folder of [`caches`] that only this user
/// can write. If there is none, returns the first one, so that messages name it.
pub fn cache() -> PathBuf {
    let mut all = caches();
    let usable = all.iter().position(|folder| is_usable(folder));
    all.swap_remove(usable.unwrap_or(0))
}

/// Returns the folders that can be the cache of this user, in order of preference:
/// `$XDG_CACHE_HOME/windtunnel` or `~/.cache/windtunnel`, then folders in the directory for
/// temporary files and in the shared memory of the host. In a container or a service, the home
/// directory is often missing or read-only.
fn caches() -> Vec<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let home = home.map(|folder| folder.join("windtunnel"));
    let temporary =
        [std::env::temp_dir(), PathBuf::from("/dev/shm")].map(|folder| folder.join(format!("windtunnel-{}", user())));
    home.into_iter().chain(temporary).collect()
}

fn user() -> u32 {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() }
}

/// Returns whether this user, and nobody else, can write to a folder. Creates the folder if it does
/// not exist.
fn is_usable(folder: &Path) -> bool {
    let Ok(name) = CString::new(folder.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: `name` is a C string.
    create_private(folder).is_ok() && unsafe { libc::access(name.as_ptr(), libc::W_OK | libc::X_OK) } == 0
}

/// Writes the embedded files into a folder below the first of these caches to which they can be
/// written.
///
/// # Errors
/// The files cannot be written to any of these folders.
fn write_into_first(caches: &[PathBuf]) -> Result<PathBuf, Error> {
    let mut reasons = Vec::new();
    for cache in caches {
        match write_into(cache) {
            Ok(folder) => return Ok(folder),
            Err(error) => reasons.push(format!("{}: {error}", cache.display())),
        }
    }
    Err(Error::other(format!(
        "{}; set XDG_CACHE_HOME to a directory that you can write to",
        reasons.join("; ")
    )))
}

/// Writes the embedded files into a folder below `cache` and returns the folder. A file that
/// already exists with the same contents is not written.
fn write_into(cache: &Path) -> Result<PathBuf, Error> {
    let (files, hash) = all().map_err(|error| Error::new(error.kind(), error.to_string()))?;
    create_private(cache)?;
    let folder = cache.join(format!("files-{hash}"));
    for (name, contents) in *files {
        let path = folder.join(name);
        if fs::read(&path).is_ok_and(|found| found == *contents) {
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        // Other processes may write or read the same file now. The file is renamed when it is
        // complete, so they never find an incomplete one.
        let part = path.with_extension(format!("part-{}", std::process::id()));
        fs::write(&part, contents)
            .and_then(|()| fs::rename(&part, &path))
            .inspect_err(|_| {
                let _ = fs::remove_file(&part);
            })?;
    }
    Ok(folder)
}

/// Creates a folder to which no other user can write, and the folders above it.
///
/// # Errors
/// The folder cannot be created, or it exists and another user owns it or can write to it.
pub fn create_private(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(folder)?;
    if found.is_dir() && is_private(&found) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::PermissionDenied,
        "another user owns this folder or can write to it",
    ))
}

/// Returns whether this user owns a file or folder, and no other user can write to it.
pub fn is_private(found: &Metadata) -> bool {
    found.uid() == user() && found.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_files_of_each_folder_are_there() {
        let files = files().expect("the files can be read");
        for name in [
            "policies/fifo.bpf.o",
            "policies/fifo.bpf.c",
            "policies/include/scx.h",
            "machines/numa32.toml",
            "workloads/mixed.json",
            "profiles/linux26.toml",
            "experiments/theory/experiment.toml",
        ] {
            assert!(files.iter().any(|(known, _)| *known == name), "{name}");
        }
        assert!(!files.iter().any(|(name, _)| name.ends_with("README.md")));
    }

    /// Paths of the host in an object would make it different on each host.
    #[test]
    fn objects_name_their_sources_relative_to_the_repository() {
        let mut files = files().expect("the files can be read").iter();
        let (_, object) = files
            .find(|(name, _)| *name == "policies/fifo.bpf.o")
            .expect("the policy is compiled");
        let contains = |text: &str| object.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(contains("policies/fifo.bpf.c") && contains("policies/include"));
        assert!(!contains("/policies/fifo.bpf.c"), "the object has an absolute path");
        // Messages about a policy show this line of its source.
        assert!(
            contains("scx_bpf_dsq_move_to_local(QUEUE);"),
            "the object has no source lines"
        );
    }

    #[test]
    fn a_changed_file_is_repaired() {
        let cache = tempfile::tempdir().expect("the folder can be created");
        let cache = cache.path().join("windtunnel");
        let folder = write_into(&cache).expect("the folder can be created");
        let machine = folder.join("machines/numa32.toml");
        let original = fs::read(&machine).expect("the file can be read");
        fs::write(&machine, "hz = 1\n").expect("the file can be written");
        fs::remove_file(folder.join("policies/fifo.bpf.o")).expect("the object exists");
        assert_eq!(write_into(&cache).expect("the folder can be created"), folder);
        assert_eq!(fs::read(&machine).expect("the file can be read"), original);
        assert!(folder.join("policies/fifo.bpf.o").is_file());
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let cache = tempfile::tempdir().expect("the folder can be created");
        fs::set_permissions(cache.path(), fs::Permissions::from_mode(0o777)).expect("the permissions can be changed");
        let error = write_into(cache.path()).expect_err("a folder with write permission for all is refused");
        assert!(error.to_string().contains("can write to it"), "{error}");
        // A symbolic link may lead to a folder to which others can write, so it is refused as well.
        let outer = tempfile::tempdir().expect("the folder can be created");
        let link = outer.path().join("windtunnel");
        std::os::unix::fs::symlink(cache.path(), &link).expect("the link can be created");
        write_into(&link).expect_err("a symbolic link is refused");
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_passed_over() {
        let good = tempfile::tempdir().expect("the folder can be created");
        let good = good.path().join("windtunnel");
        // Not even root can create files in these folders.
        let bad = ["/dev/null/windtunnel", "/proc/windtunnel"].map(PathBuf::from);
        let all = [bad.as_slice(), std::slice::from_ref(&good)].concat();
        let folder = write_into_first(&all).expect("the last folder can be written");
        assert!(folder.starts_with(&good) && folder.join("machines/numa32.toml").is_file());
        assert!(is_usable(&good) && !is_usable(&bad[0]));
        let error = write_into_first(&bad)
            .expect_err("no folder can be written")
            .to_string();
        assert!(
            error.contains("/dev/null/windtunnel: ") && error.contains("/proc/windtunnel: "),
            "{error}"
        );
        assert!(error.contains("set XDG_CACHE_HOME"), "{error}");
    }
}
