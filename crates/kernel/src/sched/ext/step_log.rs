// SPDX-License-Identifier: GPL-2.0-only
//! Describes calls of callbacks for the log of a script. CPU 0 and tasks that are not part of the
//! script do not appear in the log.

use crate::layout::Mask;
use crate::layout::callbacks::Callback;
use crate::machine::Machine;
use std::fmt::Write;

/// Kind of an argument.
#[derive(Clone, Copy)]
enum ArgumentKind {
    Task,
    Number,
    Hex,
    Bool,
    Cpus,
    Group,
}

/// Returns the names and kinds of a callback's arguments that the log shows.
fn arguments(op: Callback) -> &'static [(&'static str, ArgumentKind)] {
    use ArgumentKind::*;
    match op {
        Callback::SelectCpu => &[("task", Task), ("prev", Number), ("wake_flags", Hex)],
        Callback::Enqueue | Callback::Runnable => &[("task", Task), ("enq_flags", Hex)],
        Callback::Dequeue | Callback::Quiescent => &[("task", Task), ("deq_flags", Hex)],
        Callback::Dispatch => &[("on", Number), ("prev", Task)],
        Callback::Tick
        | Callback::Running
        | Callback::InitTask
        | Callback::ExitTask
        | Callback::Enable
        | Callback::Disable => &[("task", Task)],
        Callback::Stopping => &[("task", Task), ("runnable", Bool)],
        Callback::Yield => &[("task", Task), ("to", Task)],
        Callback::SetWeight => &[("task", Task), ("weight", Number)],
        Callback::SetCpumask => &[("task", Task), ("cpus", Cpus)],
        Callback::UpdateIdle => &[("on", Number), ("idle", Bool)],
        Callback::CpuAcquire | Callback::CpuRelease | Callback::CpuOnline | Callback::CpuOffline => &[("on", Number)],
        Callback::CgroupInit | Callback::CgroupExit => &[("group", Group)],
        Callback::CgroupPrepMove | Callback::CgroupMove | Callback::CgroupCancelMove => {
            &[("task", Task), ("from", Group), ("to", Group)]
        }
        Callback::CgroupSetWeight => &[("group", Group), ("weight", Number)],
        Callback::CgroupSetBandwidth => &[
            ("group", Group),
            ("period_us", Hex),
            ("quota_us", Hex),
            ("burst_us", Hex),
        ],
        Callback::CgroupSetIdle => &[("group", Group), ("idle", Bool)],
        _ => &[],
    }
}

/// Returns whether the log shows the result of a callback.
fn has_result(op: Callback) -> bool {
    matches!(
        op,
        Callback::SelectCpu | Callback::Yield | Callback::InitTask | Callback::CgroupInit | Callback::CgroupPrepMove
    )
}

/// Returns the name of the callback in the struct that the policy uses.
fn name(m: &Machine, op: Callback) -> &'static str {
    if m.ext.uses_cids { op.cid_name() } else { op.name() }
}

/// Returns the text of a call, or an empty text if the log does not show the call.
pub(super) fn call<const N: usize>(m: &Machine, op: Callback, args: &[u64; N]) -> String {
    let shown = arguments(op);
    let mut text = format!("call {} cpu={}", name(m, op), m.this_cpu);
    for (&(label, kind), &value) in shown.iter().zip(args) {
        let result = match kind {
            ArgumentKind::Task => match m.task_from_addr(value) {
                Some(task) => write!(text, " {label}={}", m.tasks[task].comm()),
                None => write!(text, " {label}=none"),
            },
            ArgumentKind::Number => write!(text, " {label}={}", value as i32),
            ArgumentKind::Hex => write!(text, " {label}={value:#x}"),
            ArgumentKind::Bool => write!(text, " {label}={}", value & 1),
            ArgumentKind::Cpus => {
                let mask = Mask::at(&m.region, value, m.nr_cpus());
                write!(
                    text,
                    " {label}={}",
                    m.format_cpus(m.cpus().filter(|cpu| mask.contains(*cpu)))
                )
            }
            ArgumentKind::Group => match m.layout.cgroup_from_addr(value) {
                Some((group, _)) => write!(text, " {label}={}", m.group_path(group)),
                None => write!(text, " {label}=none"),
            },
        };
        result.expect("writing to a String succeeds");
    }
    let housekeeping = matches!(shown.first(), Some((_, ArgumentKind::Number))) && args[0] == 0;
    if shown.is_empty() || housekeeping {
        text.clear();
    }
    text
}

/// Adds the result of a call to the log.
pub(super) fn note_result(m: &mut Machine, op: Callback, result: u64) {
    if !has_result(op) {
        return;
    }
    let value = if op == Callback::Yield {
        (result & 1) as i32
    } else {
        result as i32
    };
    m.note_step(|m| format!("return {} cpu={} value={value}", name(m, op), m.this_cpu));
}
