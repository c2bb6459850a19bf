// SPDX-License-Identifier: GPL-2.0-only
//! Keeps the compiled code of policies in files of the user's cache, for later commands.
//!
//! The files contain machine code, and are executed. A file is therefore used only if this user owns
//! it and nobody else can write to it or to its folder, if its checksum is right, and if the key in
//! it is that of the policy, this build and this CPU. Anything else is treated as if it did not
//! exist: the policy is compiled, and the file is written again. A cache that cannot be used costs
//! time and changes no result, so no failure is reported.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use bpf::engine::code_cache::{Store, set_store};

/// Maximum size of one file in bytes.
const MAX_FILE: u64 = 64 << 20;

/// Maximum size of all files in bytes. If there are more, those that were used longest ago are
/// removed.
const MAX_FILES: u64 = 256 << 20;

/// A use of a file is recorded in its modification time, at most once in this time.
const RECORD_USE: Duration = Duration::from_secs(3600);

/// Returns whether the environment variable WINDTUNNEL_NO_CACHE switches the files off. An empty
/// value and `0` do not.
pub fn switched_off() -> bool {
    std::env::var_os("WINDTUNNEL_NO_CACHE").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Lets this process keep compiled code in files, and use those of earlier processes.
pub fn enable() {
    set_store(Store {
        load: |key| load(folder()?, key).ok(),
        save: |key, bytes| {
            if let Some(folder) = folder() {
                // The next command will compile the policy again.
                let _ = save(folder, key, bytes, MAX_FILES);
            }
        },
    });
}

/// Returns the folder of the files, or `None` if there is no folder that only this user can write.
fn folder() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let cache = shipped::cache();
        let folder = cache.join("code");
        // Whoever can write to the outer folder can replace the inner one.
        shipped::create_private(&cache).ok()?;
        shipped::create_private(&folder).ok()?;
        Some(folder)
    };
    FOLDER.get_or_init(find).as_deref()
}

/// Returns the path of the file with the code of a key.
fn file(folder: &Path, key: &[u8; 32]) -> PathBuf {
    folder.join(key.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Reads the file of a key.
///
/// # Errors
/// There is no such file, or another user may have written it.
fn load(folder: &Path, key: &[u8; 32]) -> io::Result<Vec<u8>> {
    // Neither a symbolic link nor a pipe is opened or waited for.
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

/// Writes the file of a key, and removes old files if all together have more than `max` bytes.
///
/// # Errors
/// The file cannot be written.
fn save(folder: &Path, key: &[u8; 32], bytes: &[u8], max: u64) -> io::Result<()> {
    if bytes.len() as u64 > MAX_FILE.min(max) {
        return Ok(());
    }
    // Another process never sees an incomplete file.
    let mut part = tempfile::Builder::new().prefix("part-").tempfile_in(folder)?;
    part.write_all(bytes)?;
    part.persist(file(folder, key))?;
    trim(folder, max)
}

/// Removes the files that were used longest ago until the others have at most `max` bytes.
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
        // Another process may remove files at the same time.
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
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("our own file");
            load(folder.path(), &KEY).expect_err("others can write to it");
        }
    }

    #[test]
    fn only_a_regular_file_is_used() {
        let folder = folder_with_file();
        let (path, other) = (file(folder.path(), &KEY), folder.path().join("other"));
        fs::rename(&path, &other).expect("our own file");
        symlink(&other, &path).expect("a link");
        load(folder.path(), &KEY).expect_err("a link may lead to a file of another user");
        fs::remove_file(&path).expect("our own link");
        fs::create_dir(&path).expect("a folder");
        load(folder.path(), &KEY).expect_err("a folder");
        fs::remove_dir(&path).expect("our own folder");
        let name = std::ffi::CString::new(path.to_str().expect("UTF-8")).expect("no zero");
        // SAFETY: the name is a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        load(folder.path(), &KEY).expect_err("a pipe, which is not waited for");
    }

    #[test]
    fn the_files_that_were_used_longest_ago_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = |number: u8| [number; 32];
        for number in 1..=4 {
            save(folder.path(), &key(number), &[0; 100], 1000).expect("the folder is writable");
            let old = SystemTime::now() - Duration::from_secs(100_000 - 10_000 * u64::from(number));
            let file = File::open(file(folder.path(), &key(number))).expect("the file is there");
            file.set_modified(old).expect("our own file");
        }
        // A use makes the oldest file the newest.
        load(folder.path(), &key(1)).expect("the file is there");
        save(folder.path(), &key(5), &[0; 100], 300).expect("the folder is writable");
        let left: Vec<u8> = (1..=5)
            .filter(|&number| load(folder.path(), &key(number)).is_ok())
            .collect();
        assert_eq!(left, [1, 4, 5]);
        save(folder.path(), &key(6), &[0; 400], 300).expect("too large a file is not written");
        load(folder.path(), &key(6)).expect_err("too large a file is not written");
    }
}
