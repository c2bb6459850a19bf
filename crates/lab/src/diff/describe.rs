// SPDX-License-Identifier: GPL-2.0-only
//! Describes decisions in words: the decision itself, where it comes from, and the alternatives
//! between which it chose.

use super::{LocatedDecision, Side};
use input::duration;
use kernel::decision::{Decision, DecisionKind, Snapshot, Target};
use kernel::ext::Callback;
use kernel::layout::enums::{
    SCX_DSQ_BYPASS, SCX_DSQ_GLOBAL, SCX_ENQ_HEAD, SCX_ENQ_IMMED, SCX_ENQ_PREEMPT, SCX_KICK_IDLE, SCX_KICK_PREEMPT,
    SCX_KICK_WAIT,
};
use std::fmt::Write;
use trace::escape;

/// Maximum number of tasks in one queue that are listed. The remaining ones are only counted.
pub(super) const IN_QUEUE: usize = 8;

/// Returns the name of a task with its pid, for example `hog:12`.
pub(super) fn task_name(pid: u32, seen: &Snapshot) -> String {
    match seen.tasks.get(&pid) {
        _ if pid == 0 => "idle".to_owned(),
        Some(task) => format!("{}:{pid}", escape::line(&task.comm)),
        None => format!("task:{pid}"),
    }
}

fn dsq_name(id: u64) -> String {
    match id {
        SCX_DSQ_GLOBAL => "the global DSQ".to_owned(),
        SCX_DSQ_BYPASS => "the bypass DSQ".to_owned(),
        id => format!("DSQ {id:#x}"),
    }
}

/// Describes a decision in words.
pub(crate) fn describe_decision(located: &LocatedDecision, seen: &Snapshot) -> String {
    let Decision { cpu, what, .. } = located.decision;
    match what {
        DecisionKind::Cpu { pid, prev_cpu, cpu } if prev_cpu == cpu => {
            format!("{} stays on CPU {cpu}", task_name(pid, seen))
        }
        DecisionKind::Cpu { pid, prev_cpu, cpu } => {
            format!("{} moves from CPU {prev_cpu} to CPU {cpu}", task_name(pid, seen))
        }
        DecisionKind::Insert {
            pid,
            dsq: target,
            slice,
            vtime,
            flags,
        } => {
            let target = match target {
                Target::Local => "the local DSQ of its CPU".to_owned(),
                Target::LocalOn(cpu) => format!("the local DSQ of CPU {cpu}"),
                Target::Dsq(id) => dsq_name(id),
            };
            let mut text = format!(
                "{} is inserted into {target}, slice {}",
                task_name(pid, seen),
                format_slice(slice)
            );
            if let Some(vtime) = vtime {
                let _ = write!(text, ", vtime {}", vtime.cast_signed());
            }
            for (flag, word) in [
                (SCX_ENQ_HEAD, "at the head"),
                (SCX_ENQ_PREEMPT, "preempting"),
                (SCX_ENQ_IMMED, "immediate"),
            ] {
                if flags & flag != 0 {
                    let _ = write!(text, ", {word}");
                }
            }
            text
        }
        DecisionKind::Take { pid, dsq: id, cpu } => {
            format!("CPU {cpu} takes {} from {}", task_name(pid, seen), dsq_name(id))
        }
        DecisionKind::Run { pid, prev } => format!(
            "CPU {cpu} runs {} after {}",
            task_name(pid, seen),
            task_name(prev, seen)
        ),
        DecisionKind::Kick { target, flags } => {
            let named = [
                (SCX_KICK_IDLE, "if idle"),
                (SCX_KICK_PREEMPT, "preempting"),
                (SCX_KICK_WAIT, "waiting for it"),
            ];
            let words = named
                .iter()
                .filter(|(flag, _)| flags & flag != 0)
                .map(|(_, word)| *word);
            let words: Vec<&str> = words.collect();
            format!("CPU {cpu} kicks CPU {target} {}", words.join(", "))
                .trim_end()
                .to_owned()
        }
    }
}

fn format_slice(slice: u64) -> String {
    match slice {
        0 => "unchanged".to_owned(),
        u64::MAX => "infinite".to_owned(),
        ns => duration::format(ns),
    }
}

/// Names the callback that made the decision, and its source line.
pub(crate) fn describe_origin(located: &LocatedDecision) -> String {
    let Some((op, _)) = located.decision.by else {
        return match located.decision.what {
            DecisionKind::Run { .. } => "the kernel, which took the first task available to the CPU".to_owned(),
            _ => "the kernel".to_owned(),
        };
    };
    let source_line = located
        .source_line
        .as_deref()
        .unwrap_or("an instruction without line information");
    match (located.decision.what, op) {
        (DecisionKind::Cpu { .. }, Callback::SelectCpu) => {
            format!("the return value of ops.select_cpu() after {source_line}")
        }
        _ => format!("ops.{}() in {source_line}", op.name()),
    }
}

/// Lists the alternatives between which the decision chose.
pub(super) fn list_candidates(side: &Side) -> Option<String> {
    let (seen, decision) = (&side.seen, side.decision.as_ref()?.decision);
    let waiting_on = |cpu: u32| {
        let may = |pid: &&u32| {
            let allowed = seen.tasks.get(pid).and_then(|task| task.cpus.as_ref());
            allowed.is_none_or(|cpus| cpus.contains_nr(cpu))
        };
        let queued = seen
            .queues
            .iter()
            .filter(|queue| queue.cpu.is_none_or(|owner| owner == cpu));
        let waiting: Vec<u32> = queued.flat_map(|queue| &queue.tasks).filter(may).copied().collect();
        list_names(&waiting, IN_QUEUE, |&pid| task_name(pid, seen))
    };
    match decision.what {
        DecisionKind::Cpu { pid, .. } | DecisionKind::Insert { pid, .. } => {
            let allowed = seen.tasks.get(&pid).and_then(|task| task.cpus.as_ref());
            let cpus = seen.cpus.iter().zip(0..);
            let may = cpus.filter(|(cpu, number)| cpu.online && allowed.is_none_or(|cpus| cpus.contains_nr(*number)));
            let (mut all, mut idle) = (Vec::new(), Vec::new());
            for (cpu, number) in may {
                all.push(number);
                if cpu.idle {
                    idle.push(number);
                }
            }
            Some(format!("CPUs {}; idle: {}", format_ranges(&all), format_ranges(&idle)))
        }
        DecisionKind::Run { prev, .. } => {
            let text = waiting_on(decision.cpu);
            let stays = seen.tasks.contains_key(&prev) && !text.contains(&task_name(prev, seen));
            Some(if stays {
                format!("{text}; or {} keeps running", task_name(prev, seen))
            } else {
                text
            })
        }
        DecisionKind::Take { cpu, .. } => Some(waiting_on(cpu)),
        DecisionKind::Kick { .. } => None,
    }
}

/// Lists the names of the first `most` items, and the number of the remaining ones.
pub(super) fn list_names<T>(items: &[T], most: usize, name: impl Fn(&T) -> String) -> String {
    if items.is_empty() {
        return "none".to_owned();
    }
    let mut names: Vec<String> = items.iter().take(most).map(name).collect();
    if items.len() > most {
        names.push(format!("and {} more", items.len() - most));
    }
    names.join(", ")
}

/// Formats ascending numbers as ranges: `0-3, 7`.
pub(crate) fn format_ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let part = |(first, last): &(u32, u32)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    match parts.is_empty() {
        true => "none".to_owned(),
        false => parts.iter().map(part).collect::<Vec<_>>().join(", "),
    }
}
