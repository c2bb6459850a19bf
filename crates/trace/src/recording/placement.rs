// SPDX-License-Identifier: GPL-2.0-only
//! Finds out on which CPUs woken tasks are queued, for recordings without sched_wakeup: those of
//! newer versions of `perf sched record`, of wprof and of systing. Only sched_wakeup says it itself:
//! the CPU in sched_waking is the one on which the task ran before.

use super::line::{Line, LineEvent};
use std::collections::BTreeMap;

/// The next event of a task.
#[derive(Clone, Copy)]
enum Next {
    /// The task gets this CPU.
    Runs { cpu: u32 },
    /// The task is moved. `line` is the index of the event.
    Moves { line: usize, cpu: u32, from: u32, to: u32 },
}

/// Returns for each wake-up the index of the line after which the task is queued, and its CPU, in
/// order of the lines. Returns nothing for a recording with sched_wakeup.
pub fn placements<S>(lines: &[Line<S>]) -> Vec<(usize, u32)> {
    if lines
        .iter()
        .any(|line| matches!(line.event, LineEvent::Wakeup { waking: false, .. }))
    {
        return Vec::new();
    }
    let mut placed = Vec::new();
    let mut next: BTreeMap<u32, Next> = BTreeMap::new();
    // Index of the next switch of each CPU.
    let mut switches: BTreeMap<u32, usize> = BTreeMap::new();
    for (index, line) in lines.iter().enumerate().rev() {
        let cpu = line.cpu;
        match &line.event {
            LineEvent::Switch { next: task, .. } => {
                switches.insert(cpu, index);
                next.insert(task.pid, Next::Runs { cpu });
            }
            LineEvent::Migrate { task, from, to } => {
                let (line, from, to) = (index, *from, *to);
                next.insert(task.pid, Next::Moves { line, cpu, from, to });
            }
            LineEvent::Wakeup { task, target, .. } => placed.push(match (next.get(&task.pid), target) {
                // The waker moves the task to the CPU that select_task_rq() has chosen, before its
                // CPU can switch to another task. A later move is one of the load balancer's.
                (
                    Some(Next::Moves {
                        line, cpu: mover, to, ..
                    }),
                    _,
                ) if *mover == cpu && switches.get(&cpu).is_none_or(|switch| switch > line) => (*line, *to),
                (Some(Next::Moves { from, .. }), _) => (index, *from),
                (Some(Next::Runs { cpu }), _) => (index, *cpu),
                (None, target) => (index, target.unwrap_or(cpu)),
            }),
            _ => {}
        }
    }
    placed.sort_unstable();
    placed.dedup_by_key(|placed| placed.0);
    placed
}
