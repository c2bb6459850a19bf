// SPDX-License-Identifier: GPL-2.0-only
//! Describes calls of callbacks for the log of a script. CPU 0 and tasks that are not part of the
//! script do not appear in the log.

use crate::layout::callbacks::Callback;
use crate::layout::{Mask, sched_ext_ops, scx_cmask, scx_cpu_release_args, scx_exit_info, scx_sub_attach_args};
use crate::machine::Machine;
use crate::sched::ext::state::scheds::SchedId;
use crate::simulation::id::{IDLE, TaskId};
use std::borrow::Cow;
use std::fmt::Write;
use std::mem::offset_of;

/// Kind of an argument.
#[derive(Clone, Copy)]
enum ArgumentKind {
    Task,
    Number,
    Hex,
    Bool,
    Cpus,
    /// A struct scx_cmask in the arena of the policy.
    Cids,
    Group,
    /// Arguments of ops.sub_attach() and ops.sub_detach().
    Sub,
    /// A struct scx_exit_info.
    Exit,
    /// A struct scx_cpu_release_args.
    Release,
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
        Callback::CpuAcquire | Callback::CpuOnline | Callback::CpuOffline => &[("on", Number)],
        Callback::CpuRelease => &[("on", Number), ("reason", Release)],
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
        Callback::SubAttach | Callback::SubDetach => &[("group", Sub)],
        Callback::SubCapsUpdated => &[("cids", Cids), ("caps", Hex)],
        Callback::SubEcapsUpdated => &[("on", Number), ("before", Hex), ("after", Hex)],
        Callback::Exit => &[("kind", Exit)],
        _ => &[],
    }
}

/// Returns whether the log shows the result of a callback.
fn has_result(op: Callback) -> bool {
    matches!(
        op,
        Callback::SelectCpu
            | Callback::Yield
            | Callback::InitTask
            | Callback::CgroupInit
            | Callback::CgroupPrepMove
            | Callback::SubAttach
    )
}

/// Returns the name of the callback in the struct that the policy uses.
fn name(m: &Machine, op: Callback) -> Cow<'static, str> {
    if !m.ext.uses_cids {
        return op.name().into();
    }
    match op.cid_name().strip_prefix("cgroup_") {
        // Scripts show Linux 7.3, which renamed these members of struct sched_ext_ops_cid.
        Some(rest) => format!("cpuctl_{rest}").into(),
        None => op.cid_name().into(),
    }
}

/// Returns the task at an address. It may be dead.
fn dead_task(m: &Machine, addr: u64) -> Option<TaskId> {
    m.tasks.ids().find(|&task| task != IDLE && m.tasks[task].addr() == addr)
}

/// Returns the text that names the current policy. It is empty for the root policy.
fn policy(m: &Machine) -> String {
    match m.ext.current_sched() {
        SchedId::ROOT => String::new(),
        id => format!(" sched={}", super::sub::cgroup_path_of(m, id)),
    }
}

/// Returns the numbers in the mask at an address. A mask of cids is in the arena of the policy, which
/// can free it.
fn mask_at(m: &Machine, addr: u64) -> String {
    match Mask::checked(&m.region, addr, m.nr_cpus()) {
        Ok(mask) => m.format_cpus(m.cpus().filter(|cpu| mask.contains(*cpu))),
        Err(_) => "none".into(),
    }
}

/// Returns the text of a call, or an empty text if the log does not show the call.
pub(super) fn call<const N: usize>(m: &Machine, op: Callback, args: &[u64; N]) -> String {
    let shown = arguments(op);
    let mut text = format!("call {} cpu={}{}", name(m, op), m.this_cpu, policy(m));
    for (&(label, kind), &value) in shown.iter().zip(args) {
        let kind = match kind {
            // ops.set_cmask()
            ArgumentKind::Cpus if m.ext.uses_cids => ArgumentKind::Cids,
            kind => kind,
        };
        let result = match kind {
            ArgumentKind::Task => match m.task_from_addr(value).or_else(|| dead_task(m, value)) {
                Some(task) => write!(text, " {label}={}", m.tasks[task].comm()),
                None => write!(text, " {label}=none"),
            },
            ArgumentKind::Number => write!(text, " {label}={}", value as i32),
            ArgumentKind::Hex => write!(text, " {label}={value:#x}"),
            ArgumentKind::Bool => write!(text, " {label}={}", value & 1),
            ArgumentKind::Cpus => write!(text, " {label}={}", mask_at(m, value)),
            ArgumentKind::Cids => {
                let bits = value + offset_of!(scx_cmask, bits) as u64;
                write!(text, " {label}={}", mask_at(m, bits))
            }
            ArgumentKind::Sub => {
                let table = m
                    .region
                    .load::<u64>(value + offset_of!(scx_sub_attach_args, ops) as u64);
                let id = table.and_then(|table| m.region.load(table + offset_of!(sched_ext_ops, sub_cgroup_id) as u64));
                let group = m
                    .layout
                    .cgroup_from_id(id.expect("the kernel has written the arguments"));
                let path = group.map_or("?", |group| m.group_path(group));
                write!(text, " {label}={path}")
            }
            ArgumentKind::Exit => {
                let kind = m.region.load::<u32>(value + offset_of!(scx_exit_info, kind) as u64);
                write!(text, " {label}={}", kind.expect("the kernel has written the arguments"))
            }
            ArgumentKind::Release => {
                let reason = m
                    .region
                    .load::<u32>(value + offset_of!(scx_cpu_release_args, reason) as u64);
                write!(
                    text,
                    " {label}={}",
                    reason.expect("the kernel has written the arguments")
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
    m.note_step(|m| format!("return {} cpu={}{} value={value}", name(m, op), m.this_cpu, policy(m)));
}
