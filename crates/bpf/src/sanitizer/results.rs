// SPDX-License-Identifier: GPL-2.0-only
//! Determines the provenance (the object pointed to) of the values that helpers and kfuncs return,
//! for the sanitizer. A program must release an object if its view is marked as a reference.

use super::callee::{Callee, Effect};
use super::held::Pending;
use super::objects::{Until, View, ViewKind};
use super::prov::{Origin, Prov};
use super::signature::Arg;
use super::state::Sanitizer;
use crate::engine::context::Context;
use crate::map::kind;

impl Sanitizer {
    /// Returns the provenance of the result `r0` of a call. `r0` is a pointer and is not NULL.
    pub(super) fn result(&mut self, cx: &Context, call: &Pending, callee: &Callee, r0: u64) -> Prov {
        let (pc, region) = (call.pc, cx.region());
        let program = self.held.program();
        let reference = |view: View| View {
            reference: true,
            program,
            ..view
        };
        match callee.rules.effect {
            Effect::Lookup => {
                let index = cx.maps.iter().position(|map| map.addr() == call.args[0]);
                match index.filter(|&index| cx.maps[index].array_layout().is_none()) {
                    Some(index) if !matches!(cx.maps[index].def().kind, kind::HASH_OF_MAPS) => {
                        let len = u64::from(cx.maps[index].def().value_size);
                        self.objects.add_allocated(r0, len, ViewKind::Value(index), pc)
                    }
                    _ => self.objects.classify(region, r0),
                }
            }
            Effect::ObjNew => {
                let (id, len) = match cx.types().get(&(call.args[0] as u32)) {
                    Some(local) => (call.args[0] as u32, u64::from(local.size)),
                    None => (0, 0),
                };
                self.objects.add_allocated(r0, len, ViewKind::Object(id), pc);
                self.objects
                    .add_temporary(reference(View::new(r0, len, ViewKind::Object(id), pc)))
            }
            Effect::PercpuNew => {
                let len = region.allocation_at(r0).map_or(8, |(_, size)| size);
                let kind = ViewKind::Percpu(call.args[0] as u32);
                self.objects.add_allocated(r0, len, kind, pc);
                self.objects.add_temporary(reference(View::new(r0, len, kind, pc)))
            }
            Effect::CpumaskCreate => {
                let len = region.allocation_at(r0).map_or(8, |(_, size)| size);
                self.objects.add_allocated(r0, len, ViewKind::Cpumask, pc);
                self.objects
                    .add_temporary(reference(View::new(r0, len, ViewKind::Cpumask, pc)))
            }
            Effect::Reserve => {
                let len = call.args[1];
                self.objects
                    .add_temporary(reference(View::new(r0, len, ViewKind::Record, pc)))
            }
            Effect::Acquire | Effect::Exchange | Effect::GraphTake => {
                let view = self.view_at(cx, r0, pc);
                self.objects.add_temporary(reference(view))
            }
            Effect::GraphPeek => {
                let view = self.view_at(cx, r0, pc);
                self.objects.add_temporary(View {
                    until: Until::Unlock,
                    ..view
                })
            }
            Effect::Slice(n) => self
                .objects
                .add_temporary(View::new(r0, call.args[n - 1], ViewKind::Record, pc)),
            Effect::Cast => Prov::UNTRUSTED,
            Effect::IterNext if (self.objects.stack..self.objects.stack_end).contains(&r0) => {
                self.element_prov(call, r0)
            }
            _ => {
                let prov = self.objects.classify(region, r0);
                if callee.args.first() == Some(&Arg::PerCpu) {
                    let Some(id) = self.percpu_type(Prov(call.provs[0])) else {
                        // The argument is a per-CPU variable of the kernel, so the result is one
                        // CPU's copy of the variable. It lies in kernel memory.
                        return self.objects.classify_kernel_pointer(region, r0);
                    };
                    let len = cx.types().get(&id).map_or(0, |local| u64::from(local.size));
                    return self.objects.add_temporary(View::new(r0, len, ViewKind::Copy(id), pc));
                }
                if callee.rules.rcu_protected && self.held.may_sleep() && matches!(prov.origin(), Origin::Slab { .. }) {
                    let view = self.view_at(cx, r0, pc);
                    return self.objects.add_temporary(View {
                        until: Until::RcuUnlock,
                        ..view
                    });
                }
                prov
            }
        }
    }

    /// If `prov` is that of a pointer to the program's own per-CPU objects, returns the BTF id of
    /// their type.
    fn percpu_type(&self, prov: Prov) -> Option<u32> {
        match prov.origin() {
            Origin::View { slot, .. } => match self.objects.views[slot].kind {
                ViewKind::Percpu(id) => Some(id),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns a view of the object at an address. The view is not marked as a reference.
    fn view_at(&self, cx: &Context, addr: u64, pc: usize) -> View {
        let prov = self.objects.classify(cx.region(), addr);
        let (start, len) = self.objects.bounds(prov).unwrap_or((addr, 0));
        let kind = match prov.origin() {
            Origin::View { slot, .. } => self.objects.views[slot].kind,
            Origin::Slab { slab, .. } => ViewKind::Kernel(slab),
            _ => ViewKind::Opaque,
        };
        View::new(start, len, kind, pc)
    }
}
