// SPDX-License-Identifier: GPL-2.0-only
//! The exec operation, with which a workload's task replaces the program of its process.
//!
//! To do so, the process executes the command windtunnel again, and the command continues with the
//! task's next operation. This costs as much as executing a dynamically linked program of a few MB
//! and loading the workload again. If the process has other threads, exec would end them. In this
//! case the task only changes its name.

use super::execute::{Task, World};
use super::shared::Shared;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Arc;
use workload::Workload;

/// Word on the command line that precedes the serialized [`Continuation`].
pub const WORD: &str = "resume-after-exec";

/// The state of a task that is passed across exec.
#[derive(Serialize, Deserialize)]
struct Continuation {
    workload: String,
    memory: i32,
    rounds_per_1024_ns: u64,
    cpus: Vec<u32>,
    cgroups: Option<String>,
    seed: u64,
    task: u32,
    pc: usize,
    created: u64,
    woken: Option<u64>,
    began: Option<u64>,
    counters: Vec<u64>,
    timers: BTreeMap<u32, u64>,
    traces: BTreeMap<u32, u64>,
    processes: u32,
    chance: u64,
}

/// Returns whether the program can load the same workload again after exec. This is possible if a
/// generator made the workload.
pub fn can_read_again(workload: &Workload) -> bool {
    let execs = |program: &workload::Program| program.ops.iter().any(|op| matches!(op, workload::Op::Exec { .. }));
    workload.programs.iter().any(execs) && workload::load(&workload.name, &[]).is_ok_and(|again| again == *workload)
}

impl Task<'_> {
    /// Executes windtunnel again, under the name `comm`. The new program continues the task at
    /// operation `pc`. Returns only if exec fails.
    pub(super) fn exec(&mut self, comm: &str, pc: usize) {
        let world = self.world;
        let state = Continuation {
            workload: world.workload.name.clone(),
            memory: world.shared.fd,
            rounds_per_1024_ns: world.rounds_per_1024_ns,
            cpus: world.cpus.clone(),
            cgroups: world.cgroups.clone(),
            seed: world.seed,
            task: self.id.task,
            pc,
            created: self.created,
            woken: self.woken,
            began: self.began,
            counters: self.counters.clone(),
            timers: self.timers.clone(),
            traces: self.traces.clone(),
            processes: self.processes,
            chance: self.rng.next_u64(),
        };
        let text = serde_json::to_string(&state).unwrap_or_default();
        let words = [comm, WORD, &text].map(CString::new);
        let [Ok(name), Ok(word), Ok(text)] = words else { return };
        let arguments = [name.as_ptr(), word.as_ptr(), text.as_ptr(), std::ptr::null()];
        // SAFETY: the strings are NUL-terminated, the list ends with null, and the process has no
        // other thread.
        unsafe { libc::execv(c"/proc/self/exe".as_ptr(), arguments.as_ptr()) };
    }
}

/// Continues a task after exec, until the task ends.
pub fn resume(text: &str) {
    let Ok(state) = serde_json::from_str::<Continuation>(text) else {
        return;
    };
    let Ok(workload) = workload::load(&state.workload, &[]) else {
        return;
    };
    // SAFETY: the process that called exec has passed its own shared memory and the name of its
    // workload. Nobody else passes such a text, which is no option of the command.
    let Ok(shared) = (unsafe { Shared::attach(state.memory, &workload) }) else {
        return;
    };
    let world = Arc::new(World {
        workload,
        shared,
        rounds_per_1024_ns: state.rounds_per_1024_ns,
        cpus: state.cpus,
        cgroups: state.cgroups,
        seed: state.seed,
        can_exec: true,
    });
    let mut task = Task::new(&world, state.task, state.created, true);
    task.woken = state.woken;
    task.began = state.began;
    task.counters = state.counters;
    task.timers = state.timers;
    task.traces = state.traces;
    task.processes = state.processes;
    task.rng = kernel::rng::Rng::new(state.chance);
    let programs = &world.workload.programs;
    let program = world.workload.tasks[state.task as usize].program;
    task.go(&programs[program as usize].ops, state.pc);
}
