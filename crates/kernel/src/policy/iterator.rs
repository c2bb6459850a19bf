// SPDX-License-Identifier: GPL-2.0-only
//! Iterator programs for tasks (`SEC("iter/task")`). Such a program runs when user space reads the
//! file of its link.
//!
//! The program is called once for each task in ascending order of pids, then once with NULL
//! (bpf_iter_run_prog()). If a call returns 0, its output is kept. If a call returns 1, the kernel
//! drops its output and repeats the call with the same task. Here the output is dropped, but the
//! call is not repeated, because a second call would write the same output. Other kinds of
//! iterators are not modelled.

use crate::layout::callbacks::kf;
use crate::machine::Machine;
use crate::sched::ext::ops;
use crate::sched::tracepoint::{self, ProgramError};
use crate::simulation::id::IDLE;
use bpf::engine::Vm;
use bpf::object::{Program, ProgramKind};

/// The value that is passed as pointer to the seq_file. Programs cannot access this struct.
const SEQ: u64 = 1;

/// Runs an iterator program. Returns its output.
///
/// # Errors
/// If the program is not a task iterator, if no policy was loaded, if the program faults, or if it
/// returns a value other than 0 and 1.
pub fn read(m: &mut Machine, program: &Program) -> Result<Vec<u8>, ProgramError> {
    if program.kind != ProgramKind::Iter || program.attach_to != "task" {
        return Err(ProgramError::NotTaskIterator(program.name.clone()));
    }
    tracepoint::with_programs(m, program, |m| run(m, program))
}

fn run(m: &mut Machine, program: &Program) -> Result<Vec<u8>, ProgramError> {
    let tasks: Vec<u64> = m
        .pids
        .iter()
        .filter(|&&task| task != IDLE)
        .map(|&task| m.layout.task_addr(task))
        .collect();
    let mut output = Vec::new();
    for (number, task) in tasks.into_iter().chain([0]).enumerate() {
        match call(m, program, number as u64, task)? {
            0 => output.extend(m.ext.vm().take_seq()),
            1 => drop(m.ext.vm().take_seq()),
            value => {
                return Err(ProgramError::IteratorResult {
                    program: program.name.clone(),
                    value,
                });
            }
        }
    }
    Ok(output)
}

/// Calls the program with a struct bpf_iter__task. This struct contains pointers to a struct
/// bpf_iter_meta and to the task.
fn call(m: &mut Machine, program: &Program, number: u64, task: u64) -> Result<u64, ProgramError> {
    let function = program.function;
    let bytes = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    let (result, _) = ops::run(m, kf::TRACING, |m| {
        Vm::with_stack(m, &bytes(&[SEQ, 1, number]), |m, meta| {
            Vm::with_stack(m, &bytes(&[meta, task]), |m, context| {
                Vm::call(m, function, [context, 0, 0, 0, 0])
            })
        })
    });
    result.map_err(|fault| ProgramError::fault(program, m.ext.vm().code(), &fault))
}
