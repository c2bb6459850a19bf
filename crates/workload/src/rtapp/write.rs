// SPDX-License-Identifier: GPL-2.0-only
//! Writes workloads as rt-app files. Refuses workloads that the format cannot express.
//!
//! Reading the written text yields the same tasks with the same behaviour. Only the workload's
//! `unit` is lost, which says what its score counts, for example requests. The extensions of the
//! format (see the parent module) are used where they are needed.

use super::{disturbances, global::Global};
use crate::check;
use crate::program::{Op, Program, Resource, Workload};
use crate::task_specs::TaskSpec;
use input::Error;
use std::fmt::Write;

mod shape;
mod task;

use shape::Shape;
use task::Text;

/// Writes `workload` as an rt-app file.
///
/// # Errors
/// Names the first property that the format cannot express, and the task that has it.
pub fn to_rtapp_json(workload: &Workload) -> Result<String, Error> {
    check::check(workload).map_err(|f| Error::at(&workload.name, f.message).hint(f.hint))?;
    disturbances::refuse(workload)?;
    let groups = groups(workload)?;
    let implicit_done = groups.iter().all(|group| {
        let program = &workload.programs[group.spec.program as usize];
        let dones = program.ops.iter().filter(|op| matches!(op, Op::Done { .. })).count();
        Shape::find(program).is_some_and(|shape| dones == shape.implicit_dones(program))
    });
    let buffer = mem_buffer(workload, &groups);
    let mut out = String::from("{\n\t\"tasks\" : {\n");
    for (index, group) in groups.iter().enumerate() {
        let mut text = Text {
            workload,
            groups: &groups,
            implicit_done,
            buffer,
            lines: Vec::new(),
        };
        text.task(group)?;
        let body = text.lines.join(",\n");
        let comma = if index + 1 < groups.len() { "," } else { "" };
        let _ = writeln!(out, "\t\t{} : {{\n{body}\n\t\t}}{comma}", quote(&group.name));
    }
    out.push_str("\t},\n");
    out.push_str(&resources(workload)?);
    out.push_str(&global(workload, buffer)?);
    out.push_str("}\n");
    Ok(out)
}

/// Returns the error for a task with a property that the format cannot express.
fn unfit(workload: &Workload, task: &str, property: &str) -> Error {
    Error::at(&workload.name, format!("task '{task}' has {property}"))
        .hint("rt-app's format cannot express this; remove it from the workload")
}

/// Quotes a text for JSON.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Equal tasks, which become one object with a number of instances.
struct Group<'w> {
    name: String,
    spec: &'w TaskSpec,
    /// Index of the first task in `Workload::tasks`.
    first: u32,
    instances: u32,
    /// If forks create these tasks, the index of their template in `Workload::tasks`.
    template: Option<u32>,
}

/// Groups equal tasks.
fn groups(workload: &Workload) -> Result<Vec<Group<'_>>, Error> {
    let mut groups: Vec<Group> = Vec::new();
    for index in workload.created() {
        let spec = &workload.tasks[index as usize];
        if spec.start_cpu.is_some() {
            return Err(unfit(workload, &spec.comm, "a CPU on which it is created"));
        }
        if spec.start_ns != 0 {
            return Err(unfit(workload, &spec.comm, "a start time"));
        }
        let started = |spec: &TaskSpec| {
            // Each instance of a kernel thread is a process of its own.
            let mut started = spec.in_process(if spec.attributes.kthread { 0 } else { spec.process });
            started.spawn = true;
            started
        };
        let is_equal = |group: &Group| started(group.spec) == started(spec);
        // The order of the tasks that are created at the start determines their CPUs. Therefore
        // only neighbours in the list are grouped. This does not matter for tasks that are created
        // by forks.
        let known = match spec.spawn {
            true => groups.last_mut().filter(|group| is_equal(group)),
            false => groups.iter_mut().find(|group| is_equal(group)),
        };
        match known {
            Some(group) if spec.spawn => group.instances += 1,
            Some(group) if group.template.is_none() => group.template = Some(index),
            Some(_) => {}
            None => groups.push(Group {
                name: spec.comm.clone(),
                spec,
                first: index,
                instances: u32::from(spec.spawn),
                template: (!spec.spawn).then_some(index),
            }),
        }
    }
    // In a file, a fork refers to a task object by its key, which is also the name of the object's
    // tasks. No other group may therefore have the name of a forked task.
    for group in groups.iter().filter(|group| group.template.is_some()) {
        if groups.iter().filter(|other| other.name == group.name).count() > 1 {
            return Err(Error::at(
                &workload.name,
                format!("task '{}': it is forked, but several tasks have this name", group.name),
            )
            .hint("use a different name for each kind of task"));
        }
    }
    Ok(groups)
}

fn resources(workload: &Workload) -> Result<String, Error> {
    let mut lines = Vec::new();
    for resource in &workload.resources {
        let value = match resource {
            Resource::Channel { capacity, kind, .. } => {
                let kind = kind.name();
                format!("{{ \"type\" : \"{kind}\", \"capacity\" : {capacity} }}")
            }
            Resource::Semaphore { value, .. } => {
                format!("{{ \"type\" : \"semaphore\", \"value\" : {value} }}")
            }
            // The reader creates these resources at their first use.
            Resource::Mutex { .. } | Resource::Cond { .. } => continue,
            Resource::Barrier { name, participants } => {
                let users = barrier_users(workload, name);
                if users != u64::from(*participants) {
                    let message = format!("barrier '{name}' has {participants} participants, but {users} tasks use it");
                    return Err(Error::at(&workload.name, message)
                        .hint("make them equal, because rt-app counts the uses of a barrier in the file"));
                }
                continue;
            }
            Resource::Suspend { name } => {
                let message = format!("resource '{name}' remembers a resume");
                return Err(Error::at(&workload.name, message)
                    .hint("rt-app loses a resume if no task waits for it; use a semaphore"));
            }
        };
        lines.push(format!("\t\t{} : {value}", quote(resource.name())));
    }
    if lines.is_empty() {
        return Ok(String::new());
    }
    Ok(format!("\t\"resources\" : {{\n{}\n\t}},\n", lines.join(",\n")))
}

/// Returns the number of a barrier's users as rt-app counts them: each event of each instance.
fn barrier_users(workload: &Workload, name: &str) -> u64 {
    let uses = |program: &Program| {
        let is_use = |op: &&Op| matches!(op, Op::Barrier(id) if workload.resources[*id as usize].name() == name);
        program.ops.iter().filter(is_use).count() as u64
    };
    let started = workload.tasks.iter().filter(|task| task.spawn);
    started
        .map(|task| uses(&workload.programs[task.program as usize]))
        .sum()
}

fn global(workload: &Workload, buffer: u64) -> Result<String, Error> {
    let mut text = String::from("\t\"global\" : {\n");
    let seconds = match workload.duration_ns {
        None => -1,
        Some(ns) if ns > 0 && ns % 1_000_000_000 == 0 && ns / 1_000_000_000 <= i32::MAX as u64 => {
            ns.cast_signed() / 1_000_000_000
        }
        Some(ns) => {
            return Err(
                Error::at(&workload.name, format!("a duration of {ns} ns")).hint("use whole seconds, as rt-app does")
            );
        }
    };
    let _ = write!(text, "\t\t\"duration\" : {seconds}");
    let mut inherit = workload.resources.iter().filter_map(|resource| match resource {
        Resource::Mutex {
            priority_inheritance, ..
        } => Some(*priority_inheritance),
        _ => None,
    });
    let first = inherit.next().unwrap_or(false);
    if inherit.any(|other| other != first) {
        return Err(
            Error::at(&workload.name, "some mutexes inherit priorities and some do not")
                .hint("make them equal, because rt-app has one setting for all mutexes"),
        );
    }
    if first {
        text.push_str(",\n\t\t\"pi_enabled\" : true");
    }
    if buffer != Global::default().mem_buffer_size {
        let _ = write!(text, ",\n\t\t\"mem_buffer_size\" : {buffer}");
    }
    text.push_str("\n\t}\n");
    Ok(text)
}

/// Returns the size of the `mem` buffer, which is the same for all tasks. If a task writes more
/// bytes than its footprint, the size of the buffer limited its footprint, so its footprint is that
/// size.
fn mem_buffer(workload: &Workload, groups: &[Group]) -> u64 {
    let cut = |group: &&Group| group.spec.footprint_bytes < written(workload, group);
    let cut = groups.iter().find(cut).map(|group| group.spec.footprint_bytes);
    cut.filter(|&bytes| bytes > 0)
        .unwrap_or(Global::default().mem_buffer_size)
}

/// Returns the largest number of bytes that a task writes with one `mem`.
fn written(workload: &Workload, group: &Group) -> u64 {
    let ops = workload.programs[group.spec.program as usize].ops.iter();
    let bytes = ops.map(|op| if let Op::Mem { bytes } = op { *bytes } else { 0 });
    bytes.max().unwrap_or(0)
}
