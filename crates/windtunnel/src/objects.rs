// SPDX-License-Identifier: GPL-2.0-only
//! A cache of parsed object files, which all runs of a process share.
//!
//! An object file may change between two runs. It is therefore read for each run, but it is parsed
//! only if its bytes have changed.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bpf::object::Object;
use bpf::object::error::Error;

/// Maximum size of all files in the cache together, in bytes.
const MAX_BYTES: usize = 64 << 20;

struct Entry {
    path: PathBuf,
    bytes: Vec<u8>,
    object: Object,
}

/// The cached objects. The object that was used last is at the end.
static OBJECTS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// Reads the object file at a path.
///
/// # Errors
/// The errors of [`Object::open`].
pub(crate) fn read(path: &Path) -> Result<Object, Error> {
    let bytes = Object::read(path)?;
    let lock = || OBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
    {
        let mut objects = lock();
        if let Some(found) = objects.iter().position(|entry| entry.path == path) {
            let entry = objects.remove(found);
            if entry.bytes == bytes {
                let object = entry.object.clone();
                objects.push(entry);
                return Ok(object);
            }
        }
    }
    let object = Object::parse(&bytes, &path.display().to_string())?;
    let mut objects = lock();
    let path = path.to_owned();
    // Another thread may have added the file at the same time.
    objects.retain(|entry| entry.path != path);
    objects.push(Entry {
        path,
        bytes,
        object: object.clone(),
    });
    let mut size: usize = objects.iter().map(|entry| entry.bytes.len()).sum();
    while size > MAX_BYTES {
        size -= objects.remove(0).bytes.len();
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_has_changed_is_parsed_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("policy.bpf.o");
        let policy = |name: &str| {
            let mut shipped = shipped::files().expect("the shipped files").iter();
            let name = format!("policies/{name}.bpf.o");
            shipped.find(|(known, _)| *known == name).expect("a shipped policy").1
        };
        let names = |object: &Object| object.variables().iter().map(|v| v.name.clone()).collect::<Vec<_>>();
        std::fs::write(&path, policy("vtime")).expect("the folder is writable");
        let first = read(&path).expect("an object");
        assert_eq!(names(&read(&path).expect("an object")), names(&first));
        std::fs::write(&path, policy("steal")).expect("the folder is writable");
        assert_ne!(names(&read(&path).expect("an object")), names(&first));
        std::fs::write(&path, "no object").expect("the folder is writable");
        read(&path).expect_err("not an object");
    }

    #[test]
    fn values_set_in_one_copy_do_not_change_the_cached_object() {
        let folder = shipped::folder().expect("the shipped files").join("policies/steal.bpf.o");
        let mut object = read(&folder).expect("an object");
        let numbers = object.variables().iter().filter(|v| v.size == 8 && v.type_name.contains("64"));
        let name = numbers.map(|v| v.name.clone()).next().expect("a number");
        let before = object.get(&name).expect("a value");
        object.set(&name, "4711").expect("a number");
        assert_eq!(object.get(&name).expect("a value"), "4711");
        assert_eq!(read(&folder).expect("an object").get(&name).expect("a value"), before);
    }
}
