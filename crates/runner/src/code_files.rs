// SPDX-License-Identifier: GPL-2.0-only
//! Keeps the compiled code of policies in files of the user's cache directory, so that later
//! commands need not compile the policies again.
//!
//! The files contain machine code, which the simulator executes. A file is used only if
//! - this user owns the file, and nobody else can write to the file or to its folder,
//! - its checksum is right,
//! - its key, a hash of everything that the compiled code depends on, is the expected one.
//!
//! Otherwise the policy is compiled, and the file is written again. Failures of the cache are not
//! reported, because they only cost time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use bpf::engine::code_cache::{Store, set_store};

/// Maximum size of one file in bytes.
const MAX_FILE: u64 = 64 << 20;

/// Maximum size of all files together, in bytes. Beyond this size, the files that were used longest
/// ago are removed.
const MAX_FILES: u64 = 256 << 20;

/// Minimum time between two updates of the modification time of a file. The modification time
/// records when the file was used last.
const RECORD_USE: Duration = Duration::from_secs(3600);

/// Returns whether the environment variable WINDTUNNEL_NO_CACHE switches the cache off. Every value
/// except `0` and the empty text does so.
pub fn switched_off() -> bool {
    std::env::var_os("WINDTUNNEL_NO_CACHE").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Lets this process write compiled code to files, and read the files of earlier processes.
pub fn enable() {
    let store = Store {
        load: |key| load(folder()?, key).ok(),
        save: |key, bytes| {
            if let Some(folder) = folder() {
                // If the file cannot be written, the next command compiles the policy again.
                let _ = save(folder, key, bytes, MAX_FILES);
            }
        },
    };
    // SAFETY: `load` returns only the contents of files that this user owns and nobody else can
    // write. The name of a file is the key under which `save` wrote it.
    unsafe { set_store(store) };
}

/// Returns the folder of the files, or `None` if there is no folder that only this user can write.
fn folder() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let cache = shipped::cache();
        let folder = cache.join("code");
        // A user who can write to the outer folder could replace the inner one, so only this user
        // may write to either of them.
        shipped::create_private(&cache).ok()?;
        shipped::create_private(&folder).ok()?;
        Some(folder)
    };
    FOLDER.get_or_init(find).as_deref()
}

fn file(folder: &Path, key: &[u8; 32]) -> PathBuf {
    folder.join(key.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Reads the file of a key.
///
/// # Errors
/// There is no such file, or another user may have written it.
fn load(folder: &Path, key: &[u8; 32]) -> io::Result<Vec<u8>> {
    // O_NOFOLLOW refuses a symbolic link. With O_NONBLOCK, opening a pipe does not wait for a
    // writer.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(file(folder, key))?;
    let found = opened.metadata()?;
    if !found.is_file() || !shipped::is_private(&found) || found.len() > MAX_FILE {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut bytes = Vec::new();
    (&opened).take(MAX_FILE).read_to_end(&mut bytes)?;
    record_use(&opened, &found);
    Ok(bytes)
}

/// Sets the modification time of a file, so that files in use are not removed.
fn record_use(opened: &File, found: &fs::Metadata) {
    let now = SystemTime::now();
    let used = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    if now.duration_since(used).is_ok_and(|unused| unused > RECORD_USE) {
        let _ = opened.set_modified(now);
    }
}

/// Writes the file for a key. If all files together then have more than `max` bytes, removes old
/// ones.
///
/// # Errors
/// The file cannot be written.
fn save(folder: &Path, key: &[u8; 32], bytes: &[u8], max: u64) -> io::Result<()> {
    if bytes.len() as u64 > MAX_FILE.min(max) {
        return Ok(());
    }
    // The code is written to a temporary file, which is then renamed. Another process therefore
    // never sees an incomplete file.
    let mut part = tempfile::Builder::new().prefix("part-").tempfile_in(folder)?;
    part.write_all(bytes)?;
    part.persist(file(folder, key))?;
    trim(folder, max)
}

/// Removes the files that were used longest ago, until the remaining files have at most `max`
/// bytes.
fn trim(folder: &Path, max: u64) -> io::Result<()> {
    let mut files = Vec::new();
    let mut size = 0;
    for entry in fs::read_dir(folder)?.flatten() {
        let found = entry.metadata()?;
        if found.is_file() {
            size += found.len();
            files.push((found.modified()?, entry.path(), found.len()));
        }
    }
    files.sort();
    for (_, path, bytes) in files {
        if size <= max {
            break;
        }
        // An error is ignored, because another process may have removed the file.
        let _ = fs::remove_file(path);
        size -= bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const KEY: [u8; 32] = [0xab; 32];

    fn folder_with_file() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        save(folder.path(), &KEY, b"code", MAX_FILES).expect("the folder is writable");
        folder
    }

    #[test]
    fn a_saved_file_is_private_and_is_loaded() {
        let folder = folder_with_file();
        assert_eq!(load(folder.path(), &KEY).expect("the file is there"), b"code");
        let mode = file(folder.path(), &KEY)
            .metadata()
            .expect("the file is there")
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        load(folder.path(), &[0; 32]).expect_err("another key has no file");
    }

    #[test]
    fn a_file_that_others_can_write_is_not_used() {
        for mode in [0o620, 0o602, 0o666] {
            let folder = folder_with_file();
            let path = file(folder.path(), &KEY);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("the permissions can be set");
            load(folder.path(), &KEY).expect_err("others can write to the file");
        }
    }

    #[test]
    fn only_a_regular_file_is_used() {
        let folder = folder_with_file();
        let (path, other) = (file(folder.path(), &KEY), folder.path().join("other"));
        fs::rename(&path, &other).expect("the file can be renamed");
        symlink(&other, &path).expect("the link can be created");
        load(folder.path(), &KEY).expect_err("a link may lead to a file of another user");
        fs::remove_file(&path).expect("the link can be removed");
        fs::create_dir(&path).expect("the folder can be created");
        load(folder.path(), &KEY).expect_err("a folder");
        fs::remove_dir(&path).expect("the folder can be removed");
        let name = std::ffi::CString::new(path.to_str().expect("UTF-8")).expect("the path contains no zero byte");
        // SAFETY: the name is a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        load(folder.path(), &KEY).expect_err("a pipe is not opened");
    }

    #[test]
    fn the_files_that_were_used_longest_ago_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = |number: u8| [number; 32];
        for number in 1..=4 {
            save(folder.path(), &key(number), &[0; 100], 1000).expect("the folder is writable");
            let old = SystemTime::now() - Duration::from_secs(100_000 - 10_000 * u64::from(number));
            let file = File::open(file(folder.path(), &key(number))).expect("the file is there");
            file.set_modified(old).expect("the time can be set");
        }
        // Loading file 1 makes it the file that was used last.
        load(folder.path(), &key(1)).expect("the file is there");
        save(folder.path(), &key(5), &[0; 100], 300).expect("the folder is writable");
        let left: Vec<u8> = (1..=5)
            .filter(|&number| load(folder.path(), &key(number)).is_ok())
            .collect();
        assert_eq!(left, [1, 4, 5]);
        save(folder.path(), &key(6), &[0; 400], 300).expect("a file that is too large is skipped without an error");
        load(folder.path(), &key(6)).expect_err("a file that is too large is not written");
    }
}
