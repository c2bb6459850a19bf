// SPDX-License-Identifier: GPL-2.0-only
//! Records the first reason why a policy ends (scx_vexit). The module `enable` then disables the
//! policy step by step.

use crate::layout::callbacks::Callback;
use crate::layout::enums::{SCX_DSQ_FLAG_BUILTIN, SCX_ECODE_ACT_RESTART, SCX_EXIT_MSG_LEN};
use crate::machine::Machine;
use crate::sched::ext::state::core::{EnableState, Ending};
use crate::sched::ext::state::exit_info::*;
use crate::sched::ext::state::scheds::SchedId;
use crate::sched::ext::sub;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, TaskId};
use bpf::errno::EPROTO;
use bpf::fault::{Fault, FaultKind};

/// Ends the policy, unless it is already ending. The policy is disabled at the end of the current
/// event handler. Returns whether this call was the first reason to end the policy.
pub(crate) fn exit(m: &mut Machine, kind: ExitKind, code: i64, message: impl Into<String>) -> bool {
    let cpu = m.this_cpu.nr() as i32;
    exit_on(m, kind, code, cpu, message)
}

/// Ends the policy like [`exit`]. `cpu` is the CPU on which the reason occurred, or -1.
pub(crate) fn exit_on(m: &mut Machine, kind: ExitKind, code: i64, cpu: i32, message: impl Into<String>) -> bool {
    if m.ext.state == EnableState::Disabled || m.ext.exit.is_some() {
        return false;
    }
    let mut message = message.into();
    truncate(&mut message, SCX_EXIT_MSG_LEN as usize - 1);
    let backtrace = if kind.is_error() { backtrace(m) } else { Vec::new() };
    m.ext.exit = Some(Exit {
        policy: m.ext.ops().name().to_string(),
        kind,
        code,
        cpu,
        flags: m.ext.exit_flags,
        reason: kind.reason(),
        message,
        backtrace,
        notes: Vec::new(),
        dump: String::new(),
        at_ns: m.now,
    });
    let restarts = kind == ExitKind::UnregKern && code & SCX_ECODE_ACT_RESTART as i64 != 0;
    let current = m.ext.current_sched();
    // The run continues without a sub-scheduler that has failed.
    if current == SchedId::ROOT && m.ext.state == EnableState::Enabled && !restarts {
        m.policy_ended();
    }
    schedule_disable(m);
    if m.ext.has_subs() && kind != ExitKind::Parent {
        for child in m.ext.descendants(current) {
            sub::in_sched(m, child, |m| exit_on(m, ExitKind::Parent, 0, -1, ""));
        }
    }
    true
}

/// Ends the policy with a runtime error (scx_error).
#[cold]
pub(crate) fn error(m: &mut Machine, message: impl Into<String>) {
    exit(m, ExitKind::Error, 0, message);
}

/// Ends the policy because of a runtime error in an insertion.
///
/// An insertion may be performed later than the policy requests it: at the next move between DSQs,
/// or after the callback has returned. The error is attributed to the instruction that inserted
/// `task`.
#[cold]
pub(crate) fn insertion_error(m: &mut Machine, message: String, task: Option<TaskId>) {
    let by = task.and_then(|task| m.tasks[task].ext.inserted_by);
    if !exit(m, ExitKind::Error, 0, message) {
        return;
    }
    let Some((op, pc)) = by else {
        return;
    };
    let place = m.ext.vm().code().describe(pc as usize);
    if let Some(exit) = &mut m.ext.exit {
        exit.backtrace = vec![place, format!("ops.{}()", op.name())];
    }
}

/// Ends the policy because it used a DSQ that does not exist. Adds a note that lists the existing
/// DSQs.
#[cold]
pub(crate) fn no_such_dsq(m: &mut Machine, message: &str, task: Option<TaskId>) {
    const NAMED: usize = 8;
    // Only the first reason for an exit is recorded. A policy may repeat its error many times, so
    // this test saves the work of building the message again.
    if m.ext.exit.is_some() {
        return;
    }
    let dsqs = &m.ext.dsqs;
    let own = dsqs
        .all()
        .map(|dsq| dsqs.id(dsq))
        .filter(|id| id & SCX_DSQ_FLAG_BUILTIN == 0);
    let mut own: Vec<u64> = own.collect();
    own.sort_unstable();
    let shown: Vec<String> = own.iter().take(NAMED).map(|id| format!("0x{id:x}")).collect();
    let note = match own.len() {
        0 => "the policy has created no DSQ".to_owned(),
        1 => format!("the policy's only DSQ is {}", shown[0]),
        n if n > NAMED => format!("the policy's {n} DSQs are {}, ...", shown.join(", ")),
        n => format!("the policy's {n} DSQs are {}", shown.join(", ")),
    };
    insertion_error(m, message.to_owned(), task);
    if let Some(exit) = &mut m.ext.exit {
        exit.notes.push(note);
    }
}

/// Attributes an error to a callback that has already returned.
#[cold]
pub(crate) fn blame_callback(m: &mut Machine, op: Callback) {
    let function = m.ext.ops().function(op);
    let code = m.ext.vm().code();
    let start = function.and_then(|function| Some(code.functions.get(function)?.start));
    let place = start.map(|pc| code.describe(pc));
    if let Some(exit) = m.ext.exit.as_mut().filter(|exit| exit.backtrace.is_empty()) {
        exit.backtrace = place.into_iter().chain([format!("ops.{}()", op.name())]).collect();
    }
}

/// Ends the policy because BPF code caused a fault. `program` is the name of the program, for
/// example "ops.enqueue()".
#[cold]
pub(crate) fn fault(m: &mut Machine, program: &str, fault: &Fault) {
    let place = fault.pc.map(|pc| m.ext.vm().code().describe(pc));
    let message = match &place {
        Some(place) => format!("{program}: {} in {place}", fault.message),
        None => format!("{program}: {}", fault.message),
    };
    // If the sanitizer is on, faults are reported as its findings. The exceptions are calls of
    // functions that are not modelled and programs that run for too long.
    let kind = match fault.kind {
        FaultKind::Trap | FaultKind::Budget => ExitKind::Error,
        _ if m.options.sanitizer => ExitKind::ErrorCheck,
        _ => ExitKind::Error,
    };
    let (notes, callers) = describe_finding(m, fault);
    if !exit(m, kind, 0, message.as_str()) {
        // The policy is already ending for another reason, so the message of the fault is only
        // written to the trace.
        m.trace_text(m.this_cpu, trace::Event::Printk { text: message });
    } else if let Some(exit) = &mut m.ext.exit {
        // The VM has already left the program, so the position is taken from the fault.
        exit.backtrace = place.into_iter().chain(callers).chain([program.to_string()]).collect();
        exit.notes = notes;
    }
}

/// Returns notes that explain a fault which the sanitizer has found, and a list of the active
/// function calls, innermost first.
fn describe_finding(m: &Machine, fault: &Fault) -> (Vec<String>, Vec<String>) {
    let Some(report) = &fault.report else {
        return (Vec::new(), Vec::new());
    };
    let code = m.ext.vm().code();
    let mut notes: Vec<String> = report
        .notes
        .iter()
        .map(|(text, pc)| match pc {
            Some(pc) => format!("{text} in {}", code.describe(*pc)),
            None => text.clone(),
        })
        .collect();
    if let Some(task) = report.addr.and_then(|addr| task_at(m, addr)) {
        notes.push(task);
    }
    (notes, report.callers.iter().map(|&pc| code.describe(pc)).collect())
}

/// Returns a description of the task if the address is in a task_struct.
fn task_at(m: &Machine, addr: u64) -> Option<String> {
    let first = m.layout.first_task_addr();
    let stride = m.layout.task_stride();
    let index = addr.checked_sub(first)? / stride;
    let task = m.tasks.get(index as usize)?;
    let offset = addr - first - index * stride;
    let (addr, comm, pid) = (format!("{addr:#x}"), task.comm(), task.pid());
    Some(format!("{addr} is byte {offset} of the task_struct of {comm}[{pid}]"))
}

fn backtrace(m: &Machine) -> Vec<String> {
    match m.ext.frame.op {
        Some(op) => {
            let vm = m.ext.vm();
            vec![vm.code().describe(vm.pc()), format!("ops.{}()", op.name())]
        }
        None => Vec::new(),
    }
}

/// Returns `value`, which a callback returned, if it is 0 or a negative errno (ops_sanitize_err).
/// Any other value ends the policy with an error, and the result is -EPROTO.
pub(super) fn sanitize(m: &mut Machine, op: &str, value: i32) -> i32 {
    const MAX_ERRNO: i32 = 4095;
    if value == 0 || (-MAX_ERRNO..0).contains(&value) {
        return value;
    }
    error(m, format!("ops.{op}() returned an invalid errno {value}"));
    -EPROTO
}

/// Returns the CPU with the number `cpu`, which a policy used (ops_cpu_valid).
///
/// If the machine does not have this CPU, ends the policy with an error and returns `None`. `place`
/// is the part of the error message that describes where the policy used the number.
pub(crate) fn cpu_valid(m: &mut Machine, cpu: i32, place: &str) -> Option<CpuId> {
    let valid = m.cpu_id(cpu);
    if valid.is_some() {
        return valid;
    }
    let space = if place.is_empty() { "" } else { " " };
    error(m, format!("invalid CPU {cpu}{space}{place}"));
    None
}

/// Schedules the first step of disabling the policy for the end of the current event handler.
fn schedule_disable(m: &mut Machine) {
    // A thread does this. In a script, it runs on CPU 0.
    let cpu = if m.stepped.is_some() { CpuId::BOOT } else { m.this_cpu };
    let at = m.local_time(m.this_cpu);
    m.ext.ending = Ending::Bypass { at };
    m.events.push(at, Event::ExtDeferred { cpu });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: ExitKind) -> Exit {
        Exit {
            policy: "simple".into(),
            kind,
            code: 0,
            cpu: 1,
            flags: 0,
            reason: kind.reason(),
            message: "non-existent DSQ 0x7".into(),
            backtrace: vec!["simple_enqueue (simple.bpf.c:3: x)".into()],
            notes: Vec::new(),
            dump: String::new(),
            at_ns: 5,
        }
    }

    #[test]
    fn errors_are_logged_with_message_and_position() {
        assert_eq!(
            record(ExitKind::Error).to_string(),
            "sched_ext: BPF scheduler \"simple\" disabled (runtime error)\n\
             sched_ext: simple: non-existent DSQ 0x7\n  simple_enqueue (simple.bpf.c:3: x)"
        );
    }

    #[test]
    fn exits_without_error_are_logged_in_one_line() {
        assert_eq!(
            record(ExitKind::Unreg).to_string(),
            "sched_ext: BPF scheduler \"simple\" disabled (unregistered from user space)"
        );
    }

    #[test]
    fn messages_are_cut_between_characters() {
        let mut text = "aé".to_string();
        truncate(&mut text, 2);
        assert_eq!(text, "a");
    }
}
