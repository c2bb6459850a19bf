// SPDX-License-Identifier: GPL-2.0-only
//! Points at which a handler may be suspended, and the accesses that the race detector sees there.

use super::MAX_HOLD_NS;
use super::detector::state::{Seen, Stored, SyncId};
use super::state::Step;
use crate::machine::Machine;
use crate::sched::ext::ops;
use bpf::engine::{Access, AccessKind};

/// Reaches a point: the running handler is suspended here if the plan holds it, or if other events
/// come first.
pub(crate) fn point(m: &mut Machine, access: Access) {
    let Some(overlap) = m.overlap.as_mut() else {
        return;
    };
    overlap.held_ns = 0;
    let Some(slot) = overlap.running else { return };
    overlap.points += 1;
    overlap.slots[slot].point = overlap.points;
    let mut held = 0;
    while let Some(hold) = overlap.holds.front().filter(|hold| hold.point <= overlap.points) {
        if hold.point == overlap.points {
            held = hold.ns.min(MAX_HOLD_NS);
        }
        overlap.holds.pop_front();
    }
    if overlap.priorities.is_some() {
        held = held.max(overlap.rank(slot));
    }
    ops::settle(m);
    let local = m.local_time(m.this_cpu);
    if held > 0 {
        if let Some(overlap) = &mut m.overlap {
            overlap.nr_held += 1;
        }
        m.suspend_handler(local + held);
    } else if local > m.now && m.overlap.as_ref().is_some_and(|overlap| overlap.next.is_none()) {
        let Some(next) = m.events.pop(local - 1) else {
            return synchronize(m, access);
        };
        if let Some(overlap) = &mut m.overlap {
            overlap.next = Some(next);
            overlap.nr_suspended += 1;
        }
        m.suspend_handler(local);
    }
    if let Some(overlap) = &mut m.overlap {
        debug_assert_eq!(overlap.running, Some(slot));
        overlap.held_ns = held;
    }
    synchronize(m, access);
}

/// Orders accesses through the maps and objects that a helper or kfunc operates on.
fn synchronize(m: &mut Machine, access: Access) {
    if access.kind != AccessKind::Call {
        return;
    }
    let cpu = m.this_cpu;
    let object = match m.ext.vm().callee(access.pc) {
        Some(
            "bpf_map_lookup_elem"
            | "bpf_map_update_elem"
            | "bpf_map_delete_elem"
            | "bpf_map_push_elem"
            | "bpf_map_pop_elem"
            | "bpf_map_peek_elem"
            | "bpf_kptr_xchg",
        ) => SyncId::Address(access.addr),
        Some(name) if name.starts_with("bpf_obj_new") || name.starts_with("bpf_obj_drop") => SyncId::Allocator,
        _ => return record(m, access, 0),
    };
    if let Some(overlap) = &mut m.overlap {
        overlap.detector.acquire(cpu, object);
        if m.ext.vm().callee(access.pc) != Some("bpf_map_lookup_elem") {
            overlap.detector.release(cpu, object);
        }
    }
    record(m, access, 0);
}

fn record(m: &mut Machine, access: Access, value: u64) {
    if !m.overlap.as_ref().is_some_and(|overlap| overlap.record) {
        return;
    }
    let Access { pc, kind, addr, size } = access;
    let (time, cpu, op) = (m.local_time(m.this_cpu), m.this_cpu, m.ext.frame.op);
    let callee = m.ext.vm().callee(pc).filter(|_| kind == AccessKind::Call);
    if let Some(overlap) = &mut m.overlap {
        let held_ns = std::mem::take(&mut overlap.held_ns);
        overlap.steps.push(Step {
            time,
            cpu,
            op,
            callback: overlap.detector.callbacks[cpu.index()],
            pc,
            kind,
            addr,
            size,
            value,
            callee,
            held_ns,
        });
    }
}

/// Passes a shared access to the race detector. A stored value is `derived` if it was calculated from
/// the variable's old value.
pub(crate) fn accessed(m: &mut Machine, access: Access, value: u64, derived: bool) {
    record(m, access, value);
    let Access { pc, kind, addr, size } = access;
    let seen = Seen {
        pc,
        cpu: m.this_cpu,
        op: m.ext.frame.op,
        value,
        time: m.local_time(m.this_cpu),
        point: m
            .overlap
            .as_ref()
            .and_then(|o| Some(o.slots[o.running?].point))
            .unwrap_or(0),
    };
    let Some(overlap) = m.overlap.as_mut() else {
        return;
    };
    let (detector, object) = (&mut overlap.detector, SyncId::Address(addr));
    match kind {
        AccessKind::Load => detector.load(addr, seen),
        AccessKind::Store => {
            let how = if derived { Stored::Derived } else { Stored::Plain };
            detector.store(addr, size, seen, how);
        }
        AccessKind::AtomicUnordered => detector.store(addr, size, seen, Stored::Modified),
        AccessKind::Acquire => detector.acquire(seen.cpu, object),
        AccessKind::Release => {
            detector.release(seen.cpu, object);
            detector.store(addr, size, seen, Stored::Released);
        }
        AccessKind::Atomic => {
            detector.acquire(seen.cpu, object);
            detector.store(addr, size, seen, Stored::Modified);
            detector.release(seen.cpu, object);
        }
        AccessKind::Call => {}
    }
}
