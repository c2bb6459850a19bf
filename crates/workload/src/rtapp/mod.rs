// SPDX-License-Identifier: GPL-2.0-only
//! Workloads as rt-app files (rt-app 1.0; `fork`, `taskgroup` and `instance: 0` as in later versions).
//!
//! The meaning is rt-app's: all tasks are threads of one process; a task goes `loop` times through its phases,
//! each phase `loop` times through its events, for ever without a `loop` at the task; `run` is an amount of work and
//! `runtime` an amount of time; a timer counts from the start of its task; a key may be repeated or carry
//! a suffix (`run0`), and all of them count, as with workgen; a `resume` that nobody waits for is lost.
//! The tables in `global` say which options change nothing here. What would change something but is not
//! modelled is an error: SCHED_DEADLINE, utilisation clamps, memory binding, a timer that several tasks share.
//!
//! Beyond rt-app: resources of type `pipe` and `socket` (with a `capacity` in bytes) and the events
//! `send` ({"ref", "bytes"}) and `recv`; resources of type `semaphore` (with a start `value`) and the events `sem_post`
//! and `sem_wait`; `begin` ("" or "arrival") and `done` (a count), which mark requests; `footprint` of a task, the bytes it
//! works on, which otherwise are those that its `mem` events write. Without a `done` in the
//! file each round of a task's loop, or of a phase's that never ends, counts as one operation. `disturbances` at the top level say
//! what happens to the machine meanwhile.

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

/// Reads the text of an rt-app file. `file` names it in errors, and its stem the workload.
///
/// # Errors
/// The first thing that is wrong, with its line and column, what was expected and a hint.
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
