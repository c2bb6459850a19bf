// SPDX-License-Identifier: GPL-2.0-only
//! Describes calls of callbacks for the log of a script. CPU 0 and tasks that are not part of the
//! script do not appear in the log.

use crate::layout::Mask;
use crate::layout::callbacks::Op;
use crate::machine::Machine;
use std::fmt::Write;

/// Kind of an argument.
#[derive(Clone, Copy)]
enum Kind {
    Task,
    Number,
    Hex,
    Bool,
    Cpus,
    Group,
}

/// Returns the names and kinds of a callback's arguments that the log shows.
fn arguments(op: Op) -> &'static [(&'static str, Kind)] {
    use Kind::*;
    match op {
        Op::SelectCpu => &[("task", Task), ("prev", Number), ("wake_flags", Hex)],
        Op::Enqueue | Op::Runnable => &[("task", Task), ("enq_flags", Hex)],
        Op::Dequeue | Op::Quiescent => &[("task", Task), ("deq_flags", Hex)],
        Op::Dispatch => &[("on", Number), ("prev", Task)],
        Op::Tick | Op::Running | Op::InitTask | Op::ExitTask | Op::Enable | Op::Disable => &[("task", Task)],
        Op::Stopping => &[("task", Task), ("runnable", Bool)],
        Op::Yield => &[("task", Task), ("to", Task)],
        Op::SetWeight => &[("task", Task), ("weight", Number)],
        Op::SetCpumask => &[("task", Task), ("cpus", Cpus)],
        Op::UpdateIdle => &[("on", Number), ("idle", Bool)],
        Op::CpuAcquire | Op::CpuRelease | Op::CpuOnline | Op::CpuOffline => &[("on", Number)],
        Op::CgroupInit | Op::CgroupExit => &[("group", Group)],
        Op::CgroupPrepMove | Op::CgroupMove | Op::CgroupCancelMove => &[("task", Task), ("from", Group), ("to", Group)],
        Op::CgroupSetWeight => &[("group", Group), ("weight", Number)],
        Op::CgroupSetBandwidth => &[
            ("group", Group),
            ("period_us", Hex),
            ("quota_us", Hex),
            ("burst_us", Hex),
        ],
        Op::CgroupSetIdle => &[("group", Group), ("idle", Bool)],
        _ => &[],
    }
}

/// Returns whether the log shows the result of a callback.
fn has_result(op: Op) -> bool {
    matches!(
        op,
        Op::SelectCpu | Op::Yield | Op::InitTask | Op::CgroupInit | Op::CgroupPrepMove
    )
}

/// Returns the name of the callback in the struct that the policy uses.
fn name(m: &Machine, op: Op) -> &'static str {
    if m.ext.uses_cids { op.cid_name() } else { op.name() }
}

/// Returns the text of a call, or an empty text if the log does not show the call.
pub(super) fn call<const N: usize>(m: &Machine, op: Op, args: &[u64; N]) -> String {
    let shown = arguments(op);
    let mut text = format!("call {} cpu={}", name(m, op), m.this_cpu);
    for (&(label, kind), &value) in shown.iter().zip(args) {
        let result = match kind {
            Kind::Task => match m.task_from_addr(value) {
                Some(task) => write!(text, " {label}={}", m.tasks[task].comm()),
                None => write!(text, " {label}=none"),
            },
            Kind::Number => write!(text, " {label}={}", value as i32),
            Kind::Hex => write!(text, " {label}={value:#x}"),
            Kind::Bool => write!(text, " {label}={}", value & 1),
            Kind::Cpus => {
                let mask = Mask::at(&m.region, value, m.nr_cpus());
                write!(
                    text,
                    " {label}={}",
                    m.format_cpus(m.cpus().filter(|cpu| mask.contains(*cpu)))
                )
            }
            Kind::Group => match m.layout.cgroup_from_addr(value) {
                Some((group, _)) => write!(text, " {label}={}", m.group_path(group)),
                None => write!(text, " {label}=none"),
            },
        };
        result.expect("writing to a String succeeds");
    }
    let housekeeping = matches!(shown.first(), Some((_, Kind::Number))) && args[0] == 0;
    if shown.is_empty() || housekeeping {
        text.clear();
    }
    text
}

/// Adds the result of a call to the log.
pub(super) fn note_result(m: &mut Machine, op: Op, result: u64) {
    if !has_result(op) {
        return;
    }
    let value = if op == Op::Yield {
        (result & 1) as i32
    } else {
        result as i32
    };
    m.note_step(|m| format!("return {} cpu={} value={value}", name(m, op), m.this_cpu));
}
