// SPDX-License-Identifier: GPL-2.0-only
//! Parts of a run's result that are read from the machine when the run has ended.

use crate::subs::Subs;
use bpf::engine::Gap;
use bpf::image::Code;
use bpf::rows::CALL;
use kernel::Machine;
use kernel::ext::ops::{Callback, NAMES};
use kernel::ext::{Called, ExitKind, KicksBy, SubCosts};
use report::{ArenaFault, CallbackResult, CheckedResult, ExitRecord, KickingResult, KicksResult, LockResult};

/// Returns the accesses of the policy and its sub-schedulers to pages of their arenas that do not exist.
pub(crate) fn arena_faults(machine: &Machine, subs: &Subs, costs: &[SubCosts]) -> Vec<ArenaFault> {
    let fault = |sub: &str, code: &Code, pc: usize, gap: Gap| ArenaFault {
        sub: sub.to_owned(),
        access: if gap.write { "WRITE" } else { "READ" }.to_owned(),
        count: gap.count,
        address: format!("{:#x}", gap.addr),
        source: code.describe(pc),
    };
    let mut faults = Vec::new();
    if let Some(vm) = machine.ext().last_vm() {
        faults.extend(vm.gaps().into_iter().map(|(pc, gap)| fault("", vm.code(), pc, gap)));
    }
    for costs in costs {
        let label = subs.label(costs.cgroup);
        faults.extend(costs.gaps.iter().map(|&(pc, gap)| fault(&label, &costs.code, pc, gap)));
    }
    faults
}

/// Returns the number of checks that the sanitizer made, or `None` if it was off.
pub(crate) fn checked(machine: &Machine, costs: &[SubCosts]) -> Option<CheckedResult> {
    let own = machine.ext().last_vm().and_then(|vm| vm.check_counts())?;
    let all = std::iter::once(own).chain(costs.iter().filter_map(|costs| costs.checks));
    Some(all.fold(CheckedResult::default(), |sum, checks| CheckedResult {
        accesses: sum.accesses + checks.accesses,
        calls: sum.calls + checks.calls,
    }))
}

/// Returns the tasks that were waiting when the run ended and may be lost.
pub(crate) fn waiting(machine: &Machine) -> Vec<report::Waiting> {
    let waiting = machine.waiting_at_end();
    let suspicious =
        waiting.filter(|waiting| report::may_be_lost(machine.now.saturating_sub(waiting.since_ns), waiting.idle_ns));
    let described = suspicious.map(|waiting| report::Waiting {
        pid: waiting.task.pid(),
        comm: waiting.task.comm(),
        since_ns: waiting.since_ns,
        has_run: waiting.has_run,
        idle_ns: waiting.idle_ns,
        kept: waiting.kept.unwrap_or_default().to_owned(),
    });
    described.collect()
}

/// Returns how often each callback was called, and its instructions. `called` has the calls of a
/// policy by callback.
pub(crate) fn callbacks(called: &[Called]) -> Vec<CallbackResult> {
    let called = NAMES.iter().zip(called).filter(|(_, called)| called.count > 0);
    called
        .map(|(name, called)| CallbackResult::new(name, called.count, called.insns, called.insns_max))
        .collect()
}

/// Returns the names of the policy's callbacks that were not called.
pub(crate) fn uncalled(machine: &Machine) -> Vec<&'static str> {
    let ops = machine.ext().ops();
    let defined = NAMES
        .into_iter()
        .zip(&machine.ext().called)
        .filter(|(name, _)| Callback::by_name(name).is_some_and(|op| ops.defines(op)));
    let uncalled = defined.filter(|(_, called)| called.count == 0);
    uncalled.map(|(name, _)| name).collect()
}

/// Name of the programs that are no callbacks, in the list of those that kick CPUs.
const OTHER_PROGRAMS: &str = "timers and other programs";

/// Returns the kicks of the policy, or `None` if it kicked no CPU.
pub(crate) fn kicks(machine: &Machine) -> Option<KicksResult> {
    let counts = &machine.ext().kicks;
    let kicking = |(callback, kicks): (Option<&str>, KicksBy)| KickingResult {
        callback: callback.unwrap_or(OTHER_PROGRAMS).to_owned(),
        calls: kicks.calls,
        reschedules: kicks.reschedules,
        switches: kicks.switches,
    };
    let callbacks: Vec<KickingResult> = counts.by_callback().map(kicking).collect();
    let calls: u64 = callbacks.iter().map(|kicking| kicking.calls).sum();
    let call_ns = u64::from(machine.spec().costs.function_ns("scx_bpf_kick_cpu", CALL));
    (calls > 0).then(|| KicksResult {
        ipis: counts.ipis,
        ns: counts.ns + calls * call_ns,
        callbacks,
    })
}

/// Returns the waits for each lock that was taken.
pub(crate) fn lock_waits(machine: &Machine) -> Vec<LockResult> {
    let taken = machine.locks().filter(|(_, stat)| stat.acquisitions > 0);
    taken
        .map(|(id, stat)| LockResult {
            lock: machine.lock_name(id),
            acquisitions: stat.acquisitions,
            waits: stat.contended,
            wait_ns: stat.wait_ns,
            wait_max_ns: stat.wait_max_ns,
            held_ns: stat.held_ns,
        })
        .collect()
}

/// Returns how and why the policy ended.
pub(crate) fn exit_record(exit: &kernel::ext::Exit) -> ExitRecord {
    // The first line of the backtrace is the source line, and the last is the callback.
    let callback = exit.backtrace.last().filter(|_| exit.backtrace.len() > 1).cloned();
    ExitRecord {
        at_ns: exit.at_ns,
        kind: exit.kind.name().to_owned(),
        reason: exit.reason.to_owned(),
        message: exit.message.clone(),
        callback,
        source: exit.backtrace.first().cloned(),
        backtrace: match exit.kind {
            ExitKind::ErrorCheck => exit.backtrace.clone(),
            _ => Vec::new(),
        },
        notes: exit.notes.clone(),
        dump: exit.dump.clone(),
    }
}
