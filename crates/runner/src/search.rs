// SPDX-License-Identifier: GPL-2.0-only
//! Finds the directories that contain policies, machines, workloads, profiles and experiments. The
//! working directory is searched first, then the directory of the executable and the repository
//! around it, and last the files that the command carries inside it.

use crate::errln;
use input::Error;
use machine::{Definition, MachineSpec};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};
use workload::Workload;

/// Returns the existing directories called `name`, for example `machines`, in the order of the
/// search.
pub fn folders(name: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from(name), PathBuf::from("target").join(name)];
    if let Ok(exe) = std::env::current_exe() {
        // The executable is target/release/windtunnel. The built policies are in a directory of
        // target, and the repository is the parent directory of target.
        for up in exe.ancestors().skip(2).take(2) {
            found.push(up.join(name));
        }
    }
    match shipped::folder() {
        Ok(folder) => found.push(folder.join(name)),
        Err(error) => {
            static WARNED: Once = Once::new();
            WARNED.call_once(|| errln!("windtunnel: warning: the built-in files cannot be used: {error}"));
        }
    }
    found.dedup();
    found.retain(|folder| folder.is_dir());
    found
}

/// Returns the machine of runs for which the user names none, as [`definition`] reads it. For a
/// recording, it has the recorded number of CPUs, and a note says where the machine comes from. A
/// recording of a real machine does not say which CPUs share caches and nodes.
pub fn default_machine(workload: &Workload) -> (String, Option<String>) {
    let Some(recorded) = &workload.recorded_on else {
        return ("numa32".to_owned(), None);
    };
    let folders = folders("machines");
    let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
    let nr_cpus = recorded.nr_cpus as usize;
    let same = machine::load(&recorded.name, &folders).is_ok_and(|machine| machine.topology.cpus.len() == nr_cpus);
    if same {
        let note = format!("recorded on machine '{}', which is used again", recorded.name);
        return (recorded.name.clone(), Some(note));
    }
    let word = format!("core:{nr_cpus} pu:1");
    let note = format!("replayed on as many CPUs as recorded, which share one last-level cache: machine '{word}'");
    (word, Some(note))
}

/// Reads the machine that a word names, with the notes about it.
///
/// # Errors
/// The errors of [`machine::define`].
pub fn definition(word: &str) -> Result<Definition, Error> {
    let folders = folders("machines");
    let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
    machine::define(word, &folders)
}

/// Reads the workload that a word names.
///
/// # Errors
/// The errors of [`workload::load`].
pub fn workload(word: &str) -> Result<Workload, Error> {
    let folders = folders("workloads");
    let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
    workload::load(word, &folders)
}

/// Reads a machine and prints the notes about it.
///
/// # Errors
/// The errors of [`definition`].
pub fn machine(word: &str) -> Result<MachineSpec, Error> {
    let definition = definition(word)?;
    definition.notes.iter().for_each(|note| print_note(word, note));
    Ok(definition.spec)
}

/// Prints a note about an input, for example about capacities that were estimated, to standard
/// error. A note that was printed before is not printed again.
pub fn print_note(input: &str, note: &str) {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let text = format!("{input}: note: {note}");
    let mut printed = PRINTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !printed.contains(&text) {
        errln!("{text}");
        printed.insert(text);
    }
}
