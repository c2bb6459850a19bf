// SPDX-License-Identifier: GPL-2.0-only
//! Rebuilds a stall from the debug dump of a real kernel: a machine with as many CPUs, and tasks
//! with the affinities and nice values of the dump. An exploration then searches for a run in which
//! the same task stalls.
//!
//! A dump does not contain what the tasks did before. Each run therefore draws the times that they
//! compute and sleep, and adds one or two disturbances.

pub mod dump;

use crate::explore::case::Space;
use crate::explore::observe::STALL_NS;
use crate::explore::part::{Part, PartKind};
use dump::{Dump, DumpTask, KIND_STALL};
use input::Error;
use kernel::task::PRIO_TO_WEIGHT;
use std::fmt::Write;
use trace::escape;

/// Largest number of groups of equal tasks. The tasks of further groups join earlier ones.
const MAX_PARTS: usize = 48;
/// Largest number of tasks of a group.
const MAX_INSTANCES: u32 = 64;
/// Slice of a task, ns (SCX_SLICE_DFL).
const SLICE_NS: u64 = 20_000_000;

/// The search that belongs to a dump.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// Machine, workload and limits of each run.
    pub space: Space,
    /// Name of the task that must stall.
    pub task: String,
}

/// Returns the machine and the tasks of a dump.
///
/// # Errors
/// The policy did not end because of a stall, or the dump has no waiting task.
pub fn rebuild(dump: &Dump) -> Result<Rebuilt, Error> {
    if let Some(kind) = dump.kind.filter(|&kind| kind != KIND_STALL) {
        return Err(Error::new(format!(
            "the policy of this dump did not stall: exit kind {kind} ({})",
            escape::line(&dump.reason)
        ))
        .hint("search for other errors with `windtunnel explore`"));
    }
    let Some(stalled) = dump.stalled() else {
        return Err(Error::new("the dump contains no task that waits"));
    };
    let task = escape::line(&stalled.comm).into_owned();
    // The stalled task comes first, so that shrinking keeps it.
    let mut parts = vec![part(stalled, &task, dump)];
    for other in dump.tasks.iter().filter(|other| *other != stalled) {
        add(&mut parts, part(other, &escape::line(&other.comm), dump));
    }
    for cpu in &dump.cpus {
        if matches!(cpu.class.as_str(), "rt_sched_class" | "dl_sched_class") && cpu.cpu < 2 {
            parts.push(Part {
                kind: PartKind::Fifo,
                cpu: cpu.cpu,
                ..Part::default()
            });
        }
    }
    let nr: u64 = parts.iter().map(|part| u64::from(part.tasks)).sum();
    // All tasks may need the same CPU. Each of them may then use two slices before the task runs.
    let stall_ns = STALL_NS.max(2 * SLICE_NS * nr);
    Ok(Rebuilt {
        space: Space {
            // Some disturbances use CPUs 0 and 1.
            machine: Some(format!("core:{} pu:1", dump.nr_cpus.max(2))),
            parts,
            for_ns: 3 * stall_ns,
            stall_ns,
            ..Space::default()
        },
        task,
    })
}

/// Returns a part with one task of the dump.
fn part(task: &DumpTask, name: &str, dump: &Dump) -> Part {
    let all = task.cpus.len() == dump.nr_cpus as usize;
    Part {
        // A task that must not migrate may use other CPUs later.
        kind: match (task.migration_disabled, task.runs) {
            (true, _) => PartKind::Stayers,
            (_, true) => PartKind::Hogs,
            (_, false) => PartKind::Sleepers,
        },
        tasks: 1,
        name: name.to_owned(),
        cpus: match all || task.migration_disabled {
            true => Vec::new(),
            false => task.cpus.clone(),
        },
        nice: nice(task.weight),
        ..Part::default()
    }
}

/// Adds a task to a group of equal ones, or as a group of its own.
fn add(parts: &mut Vec<Part>, part: Part) {
    let is_full = parts.len() >= MAX_PARTS;
    let fits = |other: &&mut Part| {
        let is_like = (other.kind, &other.cpus) == (part.kind, &part.cpus);
        is_like && (is_full || (other.nice == part.nice && other.name == part.name))
    };
    // The stalled task keeps a group of its own.
    match parts.iter_mut().skip(1).find(fits) {
        Some(other) => other.tasks = (other.tasks + 1).min(MAX_INSTANCES),
        None if !is_full => parts.push(part),
        None => {}
    }
}

/// Returns the nice value whose weight is nearest to a weight of sched_ext, which is 100 for nice 0.
fn nice(weight: u32) -> i32 {
    let scaled = |nice: i32| PRIO_TO_WEIGHT[usize::try_from(nice + 20).unwrap_or(0)] * 100 / 1024;
    (-20..20)
        .min_by_key(|&nice: &i32| (scaled(nice).abs_diff(weight), nice.abs()))
        .unwrap_or(0)
}

/// Describes a dump in a few lines.
pub fn describe(dump: &Dump) -> String {
    let waiting = dump.tasks.iter().filter(|task| !task.runs).count();
    let mut text = match dump.reason.as_str() {
        "" => "the dump has no reason".to_owned(),
        reason => reason.to_owned(),
    };
    let _ = write!(
        text,
        "\n  {} CPUs; {} tasks run, and {waiting} wait",
        dump.nr_cpus,
        dump.tasks.len() - waiting
    );
    if dump.truncated {
        text.push_str("; the dump is truncated, so it lacks tasks");
    }
    text.push('\n');
    if let Some(task) = dump.stalled() {
        let cpus = match task.cpus.len() == dump.nr_cpus as usize {
            true => "all CPUs".to_owned(),
            false => format!("CPUs {}", input::cpu_list::format(&task.cpus)),
        };
        let _ = writeln!(
            text,
            "  {}[{}] waits {} ms on CPU {}; it may use {cpus}{}",
            task.comm,
            task.pid,
            task.waited_ms,
            task.cpu,
            if task.migration_disabled {
                ", and must not migrate"
            } else {
                ""
            }
        );
        let _ = writeln!(text, "  {}", queue(task));
    }
    escape::text(&text).into_owned()
}

/// Says where a task waits.
fn queue(task: &DumpTask) -> String {
    // SCX_DSQ_FLAG_BUILTIN and SCX_DSQ_FLAG_LOCAL_ON of the kernel's own DSQs.
    match task.dsq {
        None if task.is_queued => "the policy has received it (ops.enqueue) and put it into no DSQ".to_owned(),
        None => "it is in no DSQ".to_owned(),
        Some(0x8000_0000_0000_0001) => "it is in the global DSQ".to_owned(),
        Some(0x8000_0000_0000_0002) => format!("it is in the local DSQ of CPU {}", task.cpu),
        Some(dsq) => format!("it is in DSQ {dsq:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dump::DumpCpu;

    fn task(comm: &str, pid: u32, cpus: &[u32]) -> DumpTask {
        DumpTask {
            comm: comm.to_owned(),
            pid,
            weight: 100,
            cpus: cpus.to_vec(),
            ..DumpTask::default()
        }
    }

    fn dump() -> Dump {
        let cpu = DumpCpu {
            cpu: 1,
            runs: "audio".to_owned(),
            class: "rt_sched_class".to_owned(),
        };
        let mut stalled = task("kworker/1:0", 5, &[1]);
        stalled.waited_ms = 6000;
        let mut eager = task("eager", 6, &[0, 1]);
        eager.weight = 335;
        Dump {
            kind: Some(KIND_STALL),
            reason: "runnable task stall (kworker/1:0[5] failed to run for 6.0s)".to_owned(),
            nr_cpus: 2,
            cpus: vec![cpu],
            tasks: vec![eager, stalled, task("cc1", 7, &[0, 1]), task("cc1", 8, &[0, 1])],
            truncated: false,
        }
    }

    #[test]
    fn a_dump_becomes_a_machine_and_groups_of_tasks() {
        let rebuilt = rebuild(&dump()).expect("a stall");
        assert_eq!(rebuilt.task, "kworker/1:0");
        let parts = &rebuilt.space.parts;
        let shown: Vec<_> = parts
            .iter()
            .map(|part| (part.name.as_str(), part.tasks, part.nice))
            .collect();
        assert_eq!(
            shown,
            [("kworker/1:0", 1, 0), ("eager", 1, -5), ("cc1", 2, 0), ("", 0, 0)]
        );
        assert_eq!((parts[0].cpus.as_slice(), parts[1].cpus.len()), (&[1][..], 0));
        assert_eq!(parts[3].kind, PartKind::Fifo);
        for number in 0..20 {
            let case = rebuilt.space.case(1, number);
            assert_eq!(case.machine, "core:2 pu:1");
            let workload = case.workload().expect("a valid workload").expect("a generated one");
            assert!(workload.tasks.len() >= 4);
        }
    }

    #[test]
    fn a_description_names_the_task_its_cpus_and_its_queue() {
        let text = describe(&dump());
        assert!(
            text.contains("kworker/1:0[5] waits 6000 ms on CPU 0; it may use CPUs 1\n"),
            "{text}"
        );
        assert!(text.contains("2 CPUs; 0 tasks run, and 4 wait"), "{text}");
        let mut queued = task("a", 1, &[0]);
        queued.is_queued = true;
        assert!(queue(&queued).contains("ops.enqueue"));
        queued.dsq = Some(0x8000_0000_0000_0002);
        assert_eq!(queue(&queued), "it is in the local DSQ of CPU 0");
    }

    #[test]
    fn dumps_of_other_errors_are_refused() {
        let error = Dump {
            kind: Some(1025),
            ..dump()
        };
        assert!(rebuild(&error).is_err_and(|error| error.to_string().contains("did not stall")));
        let empty = Dump {
            tasks: Vec::new(),
            ..dump()
        };
        assert!(rebuild(&empty).is_err_and(|error| error.to_string().contains("no task that waits")));
    }

    #[test]
    fn many_different_tasks_share_groups() {
        let mut dump = dump();
        dump.tasks
            .extend((0..500).map(|nr| task(&format!("t{nr}"), 100 + nr, &[0, 1])));
        let rebuilt = rebuild(&dump).expect("a stall");
        assert!(rebuilt.space.parts.len() <= MAX_PARTS + 1);
    }

    #[test]
    fn weights_have_nice_values() {
        assert_eq!([100, 1, 10_000, 335, 0].map(nice), [0, 18, -20, -5, 18]);
    }
}
