// SPDX-License-Identifier: GPL-2.0-only
//! The watchdog, which ends a policy that does not run a runnable task for too long.

use super::exit::{self};
use super::sub;
use crate::machine::Machine;
use crate::sched::ext::state::core::EnableState;
use crate::sched::ext::state::exit_info::ExitKind;
use crate::simulation::event::Event;
use crate::simulation::id::TaskId;

/// Starts the watchdog. Its interval is half of the shortest timeout of a policy.
pub(super) fn start(m: &mut Machine) {
    let (now, interval) = (m.now, interval(m));
    m.ext.watchdog_due = now + interval;
    m.events.push(now + interval, Event::Watchdog);
}

fn interval(m: &Machine) -> u64 {
    let shortest = match m.ext.has_subs() {
        true => m.ext.loaded_scheds().into_iter().map(|id| m.ext.timeout_of(id)).min(),
        false => None,
    };
    (shortest.unwrap_or(m.ext.watchdog_timeout) / 2).max(m.tick_ns())
}

/// Ends the policy if a task has waited longer than the timeout (scx_watchdog_workfn).
pub(super) fn run(m: &mut Machine) {
    // An event with another time belongs to the watchdog of an earlier policy.
    if m.ext.state == EnableState::Disabled || m.now != m.ext.watchdog_due {
        return;
    }
    let (jiffies, tick_ns) = (m.jiffies(), m.tick_ns());
    let timeout = |m: &Machine, task: TaskId| m.ext.timeout_of(m.tasks[task].ext.sched) / tick_ns;
    'cpus: for (cpu, waiting) in m.cpus().zip(m.runnable_lists()) {
        if !m.online_cpus.contains(cpu) {
            continue;
        }
        let stalled = waiting
            .into_iter()
            .find(|&task| jiffies > m.scx_entity(task).runnable_at + timeout(m, task));
        if let Some(task) = stalled {
            let waited_ms = (jiffies - m.scx_entity(task).runnable_at) * tick_ns / 1_000_000;
            let t = &m.tasks[task];
            let message = format!(
                "{}[{}] failed to run for {}.{:03}s",
                t.comm(),
                t.pid(),
                waited_ms / 1000,
                waited_ms % 1000
            );
            let kept = format!("{} waits {}", t.comm(), m.describe_queue(task));
            sub::in_sched_of(m, task, |m| {
                exit::exit_on(m, ExitKind::ErrorStall, 0, cpu.nr() as i32, message);
                if let Some(exit) = &mut m.ext.exit {
                    exit.notes.push(kept);
                }
            });
            break 'cpus;
        }
    }
    start(m);
}
