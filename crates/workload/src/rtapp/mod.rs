// SPDX-License-Identifier: GPL-2.0-only
//! Workloads as rt-app files, with the grammar of rt-app's master branch of May 2026.
//! `workloads/README.md` compares the grammars key by key.
//!
//! Files have the same meaning as in rt-app:
//!
//! - All tasks are threads of one process.
//! - A task executes its phases as often as its `loop` says, and each phase its events as often as
//!   the `loop` of the phase says. A task without a `loop` is endless.
//! - `run` is an amount of work, and `runtime` an amount of time.
//! - A timer counts from the start of its task.
//! - A key may be repeated or have a suffix (`run0`). All its occurrences are used, as with
//!   workgen.
//! - A `resume` is lost if no task waits for it.
//!
//! The tables in `global` list options that have no effect in a simulation. Options that would have
//! an effect but are not modelled are errors: SCHED_DEADLINE, utilisation clamps, memory binding,
//! the event `memrun`, and timers that several tasks share.
//!
//! Extensions of rt-app's format:
//!
//! - resources of type `pipe` and `socket` (with a `capacity` in bytes), and the events `send`
//!   ({"ref", "bytes"}) and `recv`;
//! - resources of type `semaphore` (with a start `value`), and the events `sem_post` and
//!   `sem_wait`;
//! - the events `begin` ("" or "arrival") and `done` (a number of operations), which mark the
//!   beginning and the end of a request;
//! - the `footprint` of a task in bytes, which defaults to the bytes that its `mem` events write;
//! - the rate `touch` in MB/s at which a task touches its footprint, which defaults to the rate of
//!   the machine;
//! - the `process`, `parent`, `uid`, `kthread` and timer `slack` of a task;
//! - the events `migrate_disable` and `migrate_enable`;
//! - `disturbances` at the top level, which change the machine during the run.
//!
//! If a file has no `done`, each round of a task's loop or of an endless phase counts as one
//! operation.

mod build;
mod disturbances;
mod event;
mod file;
mod global;
mod json;
mod resources;
mod sched;
mod task;
mod write;

pub use write::to_rtapp_json;

use crate::program::Workload;
use file::File;
use input::Error;

/// Reads the text of an rt-app file. `file` is its path, which is used in errors and for the name
/// of the workload.
///
/// # Errors
/// Returns the first error with line and column, what was expected, and a hint.
pub fn read(text: &str, file: &str) -> Result<Workload, Error> {
    let root = file::root(json::parse(text, file)?);
    let file = File { name: file };
    let fields = file.fields(&root, &["tasks", "global", "resources", "disturbances"])?;
    let global = match fields.get("global") {
        Some(section) => global::read(file, section)?,
        None => global::Global::default(),
    };
    let mut resources = resources::Resources::new(global.pi_enabled);
    if let Some(section) = fields.get("resources") {
        resources.declare(file, section)?;
    }
    let tasks = task::read(file, fields.need(file, &root, "tasks")?)?;
    build::build(file, &global, resources, &tasks, fields.get("disturbances"))
}

#[cfg(test)]
mod tests;
