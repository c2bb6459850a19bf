// SPDX-License-Identifier: GPL-2.0-only
//! Checks iterators, dynptrs and saved interrupt flags for the sanitizer. They are data of the
//! kernel, but they lie in the program's stack.
//!
//! The program must not change them: they must still contain what a kernel function last wrote to
//! them. The memory to which a dynptr refers must still exist.

use super::callee::{Callee, Effect};
use super::held::{Open, Pending};
use super::objects::{View, ViewKind};
use super::prov::{Origin, Prov};
use super::report::finding;
use super::signature::{Arg, Opaque};
use super::state::Sanitizer;
use crate::engine::context::Context;
use crate::fault::Fault;
use crate::insn::FRAME;
use crate::memory::Bytes;

fn bytes_at(cx: &Context, addr: u64, len: u64) -> Vec<u8> {
    cx.region().bytes(addr, len).map_or(Vec::new(), Bytes::into_vec)
}

impl Sanitizer {
    fn find_open(&self, addr: u64, kind: Opaque) -> Option<&Open> {
        self.held
            .open
            .iter()
            .rfind(|open| open.addr == addr && open.kind == kind)
    }

    /// Checks that a kernel function has created the iterator, dynptr or flag to which argument `n`
    /// points, and that the program has not changed it. Also checks that the memory to which a
    /// dynptr refers still exists.
    pub(super) fn check_opaque(
        &self,
        cx: &Context,
        call: &Pending,
        n: usize,
        kind: Opaque,
        callee: &Callee,
    ) -> Result<(), Fault> {
        let (arg, prov, name) = (call.args[n], Prov(call.provs[n]), callee.name);
        let Some(open) = self.find_open(arg, kind) else {
            return Err(self.wrong_argument(cx, arg, prov, kind.name(), callee));
        };
        if bytes_at(cx, arg, open.bytes.len() as u64) != open.bytes {
            let message = format!("{name} of a {} that the program has overwritten", kind.name());
            let note = ("it was created in".to_string(), Some(open.pc));
            return Err(finding("special-field", &message, Some(arg), vec![note]));
        }
        if kind.is_irq_flag()
            && let Some(last) = self.held.open.iter().rfind(|open| open.kind.is_irq_flag())
            && last.addr != arg
        {
            let message = format!("{name} of flags that were not saved last");
            let note = ("the last flags were saved in".to_string(), Some(last.pc));
            return Err(finding("unbalanced-lock", &message, Some(arg), vec![note]));
        }
        match open.data.origin() {
            Origin::View { slot, generation } => {
                let view = self.objects.view(slot, generation);
                match view.is_some_and(|view| view.alive) {
                    true => Ok(()),
                    false => Err(self.dead(
                        cx,
                        format!("{name} of a bpf_dynptr to memory that no longer exists"),
                        Some(arg),
                        view,
                    )),
                }
            }
            _ => Ok(()),
        }
    }

    /// Records the iterators, dynptrs and flags that a call has created, changed or ended.
    pub(super) fn record_opaque(&mut self, cx: &Context, call: &Pending, callee: &Callee, r0: u64) {
        for (n, &arg) in callee.args.iter().enumerate().take(5) {
            let addr = call.args[n];
            match arg {
                Arg::Make(kind, size) => self.record_created(cx, call, (addr, kind, size), callee, r0),
                Arg::Use(kind) => {
                    let Some(at) = self
                        .held
                        .open
                        .iter()
                        .rposition(|open| open.addr == addr && open.kind == kind)
                    else {
                        continue;
                    };
                    let ends = matches!(callee.rules.effect, Effect::IterDestroy | Effect::DynptrSubmit);
                    if ends || kind.is_irq_flag() {
                        let open = self.held.open.remove(at);
                        if let Some(slot) = open.element {
                            self.objects.kill(slot, "destroyed", Some(call.pc));
                        }
                        if let Origin::View { slot, .. } = open.data.origin() {
                            let (start, len) = (self.objects.views[slot].start, self.objects.views[slot].len);
                            self.objects.end_record(start, len, call.pc);
                        }
                    } else {
                        let open = &mut self.held.open[at];
                        open.bytes = bytes_at(cx, addr, open.bytes.len() as u64);
                    }
                }
                _ => {}
            }
        }
    }

    fn record_created(
        &mut self,
        cx: &Context,
        call: &Pending,
        (addr, kind, size): (u64, Opaque, u64),
        callee: &Callee,
        r0: u64,
    ) {
        // If the lock was not acquired, the function has saved no flag.
        if kind.is_irq_flag() && callee.rules.effect == Effect::Lock && r0 != 0 {
            return;
        }
        let reserves = callee.rules.effect == Effect::DynptrReserve;
        let data = match (kind, callee.args.first()) {
            (Opaque::Dynptr, _) if r0 != 0 => Prov::SCALAR,
            (Opaque::Dynptr, _) if reserves => {
                let start = cx.region().load::<u64>(addr).unwrap_or(0);
                let record = View::new(start, u64::from(call.args[1] as u32), ViewKind::Record, call.pc);
                self.objects.add_temporary(record)
            }
            (Opaque::Dynptr, Some(Arg::Use(Opaque::Dynptr))) => {
                let from = self.find_open(call.args[0], Opaque::Dynptr);
                from.map_or(Prov::SCALAR, |open| open.data)
            }
            (Opaque::Dynptr, _) => Prov(call.provs[0]),
            _ => Prov::SCALAR,
        };
        let overlaps = |open: &Open| open.addr < addr + size && addr < open.addr + open.bytes.len() as u64;
        self.held.open.retain(|open| open.must_end || !overlaps(open));
        self.held.open.push(Open {
            addr,
            kind,
            pc: call.pc,
            program: self.held.program(),
            must_end: reserves || matches!(kind, Opaque::Iterator(_)),
            bytes: bytes_at(cx, addr, size),
            data,
            element: None,
        });
    }

    /// Returns the provenance of an element that an iterator returned. The program may read the
    /// element until the iterator ends.
    pub(super) fn element_prov(&mut self, call: &Pending, addr: u64) -> Prov {
        let Some(at) = self.held.open.iter().rposition(|open| open.addr == call.args[0]) else {
            return Prov::KERNEL;
        };
        if let Some(slot) = self.held.open[at].element
            && self.objects.views[slot].start == addr
        {
            return self.objects.prov(slot);
        }
        let prov = self
            .objects
            .add_temporary(View::new(addr, 4, ViewKind::Element, call.pc));
        if let Origin::View { slot, .. } = prov.origin() {
            self.held.open[at].element = Some(slot);
        }
        prov
    }

    /// Records the dynptr to a sample (a record from user space) that bpf_user_ringbuf_drain passes
    /// to its callback.
    pub(super) fn record_sample(&mut self, cx: &Context, addr: u64) {
        let start = cx.region().load::<u64>(addr).unwrap_or(0);
        let len = cx.region().load::<u32>(addr.wrapping_add(8)).unwrap_or(0);
        let pc = cx.pc as usize;
        let sample = View::new(start, len.into(), ViewKind::Record, pc);
        let data = self.objects.add_temporary(sample);
        self.held.open.push(Open {
            addr,
            kind: Opaque::Dynptr,
            pc,
            program: self.held.program(),
            must_end: false,
            bytes: bytes_at(cx, addr, Opaque::DYNPTR_SIZE),
            data,
            element: None,
        });
    }

    /// Forgets iterators, dynptrs and flags in the frames of functions that have returned, unless
    /// the program must still end them.
    pub(super) fn forget_opaque(&mut self) {
        if self.held.open.is_empty() {
            return;
        }
        let lowest = self.objects.frames.last().map_or(u64::MAX, |frame| frame.top - FRAME);
        self.held.open.retain(|open| open.must_end || open.addr >= lowest);
    }
}
