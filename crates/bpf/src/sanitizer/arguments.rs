// SPDX-License-Identifier: GPL-2.0-only
//! Checks the arguments that a helper or kfunc receives. This is a part of the sanitizer, which
//! checks at run time the rules that the kernel's verifier enforces.

use super::access::Access;
use super::callee::{Callee, Effect};
use super::held::Pending;
use super::objects::{View, ViewKind};
use super::prov::{Origin, Prov};
use super::registers::unset;
use super::report::finding;
use super::signature::{Arg, Len, Special};
use super::state::Sanitizer;
use crate::engine::context::Context;
use crate::fault::Fault;
use crate::image::{Field, FieldKind};
use crate::map::Map;

/// Size of a cpumask in bytes in a kernel for 8192 CPUs. Distributions configure their kernels for
/// this number.
const MASK: u64 = 1024;

impl Sanitizer {
    /// Checks that each argument of a call is of the kind that the function requires.
    pub(super) fn check_argument_kinds(&self, cx: &Context, call: &Pending, callee: &Callee) -> Result<(), Fault> {
        for (n, &arg) in callee.args.iter().enumerate().take(5) {
            match arg {
                Arg::Value | Arg::Ignored => {}
                Arg::MapMemory(len) => {
                    self.check_in_map(cx, call, n, callee)?;
                    self.check_memory(cx, call, n, len, true)?;
                }
                Arg::Kernel { tag, or_null } => {
                    if !(or_null && call.args[n] == 0 || self.is_kernel(call, n, tag)) {
                        return Err(self.wrong_argument(cx, call.args[n], Prov(call.provs[n]), tag, callee));
                    }
                }
                Arg::Mask if self.is_kernel(call, n, "cpumask") => {}
                Arg::Mask => self.check_mask(cx, call, n, MASK, false, callee)?,
                Arg::Read(len) => self.check_memory(cx, call, n, len, false)?,
                Arg::Write(len) => self.check_memory(cx, call, n, len, true)?,
                Arg::OwnMask(size) => self.check_mask(cx, call, n, size, true, callee)?,
                Arg::Field(special) => self.check_field(cx, call, n, special, callee)?,
                Arg::Make(_, size) => {
                    self.check_on_stack(cx, call, n, callee)?;
                    self.check_memory(cx, call, n, Len::Bytes(size), true)?;
                }
                Arg::Use(kind) => self.check_opaque(cx, call, n, kind, callee)?,
                Arg::PerCpu => self.check_per_cpu(cx, call, n, callee)?,
            }
        }
        Ok(())
    }

    /// Checks memory that the function reads or writes on behalf of the program.
    fn check_memory(&self, cx: &Context, call: &Pending, n: usize, len: Len, write: bool) -> Result<(), Fault> {
        let (base, prov) = (call.args[n], Prov(call.provs[n]));
        let map = || cx.maps.iter().find(|map| map.addr() == call.args[0]).map(Map::def);
        let size = match len {
            Len::Bytes(size) => size,
            Len::Key => map().map_or(0, |def| u64::from(def.key_size)),
            Len::Value => map().map_or(0, |def| u64::from(def.value_size)),
            Len::Arg(n) => call.args[n - 1],
        };
        if size == 0 || base == 0 {
            return Ok(());
        }
        let access = Access {
            base,
            off: 0,
            size,
            store: write,
            pc: call.pc,
        };
        self.check(cx, access, prov)
    }

    /// Returns whether an argument points to a kernel object of type `tag`, or to a part of a
    /// kernel object if the part has this type.
    fn is_kernel(&self, call: &Pending, n: usize, tag: &str) -> bool {
        let (slab, start) = match Prov(call.provs[n]).origin() {
            Origin::Slab { slab, index } => {
                let slab = &self.objects.slabs[slab];
                (slab, slab.base + index * slab.stride)
            }
            Origin::View { slot, generation } => match self.objects.view(slot, generation) {
                Some(&View {
                    kind: ViewKind::Kernel(slab),
                    start,
                    ..
                }) => (&self.objects.slabs[slab], start),
                _ => return false,
            },
            _ => return false,
        };
        let offset = call.args[n].wrapping_sub(start);
        offset == 0 && slab.ty.name == tag || slab.ty.parts.contains(&(offset, tag))
    }

    /// Checks a pointer to a bpf_cpumask that the function reads or writes. The mask may also lie
    /// on the stack, in a map's value or in globals, because it consists only of numbers
    /// (KF_ARG_PTR_TO_MEM in kernel/bpf/verifier.c).
    fn check_mask(
        &self,
        cx: &Context,
        call: &Pending,
        n: usize,
        size: u64,
        write: bool,
        callee: &Callee,
    ) -> Result<(), Fault> {
        let (arg, prov) = (call.args[n], Prov(call.provs[n]));
        match prov.origin() {
            Origin::View { slot, generation } => match self.objects.view(slot, generation) {
                Some(view) if view.kind == ViewKind::Cpumask && view.start == arg => return Ok(()),
                Some(View {
                    kind: ViewKind::Value(_),
                    ..
                }) => return self.check_memory(cx, call, n, Len::Bytes(size), write),
                _ => {}
            },
            Origin::Value { .. } | Origin::Frame { .. } => {
                return self.check_memory(cx, call, n, Len::Bytes(size), write);
            }
            _ => {}
        }
        let wanted = if write { "bpf_cpumask" } else { "cpumask" };
        Err(self.wrong_argument(cx, arg, prov, wanted, callee))
    }

    /// Checks that an argument points to a lock, timer, list, tree, node or kptr. The type of the
    /// object must declare such a field at this address.
    fn check_field(
        &self,
        cx: &Context,
        call: &Pending,
        n: usize,
        special: Special,
        callee: &Callee,
    ) -> Result<(), Fault> {
        match self.field_at(cx, call, n, special) {
            Some(_) => Ok(()),
            None => Err(self.wrong_argument(cx, call.args[n], Prov(call.provs[n]), special.name(), callee)),
        }
    }

    /// Returns the special field of kind `special` to which an argument points, or `None` if the
    /// object's type declares no such field at this address.
    fn field_at<'a>(&'a self, cx: &'a Context, call: &Pending, n: usize, special: Special) -> Option<&'a Field> {
        let (arg, prov) = (call.args[n], Prov(call.provs[n]));
        let (start, fields): (u64, &[Field]) = match prov.origin() {
            Origin::View { slot, generation } => {
                let view = self.objects.view(slot, generation)?;
                match view.kind {
                    ViewKind::Value(map) => (view.start, &cx.maps[map].def().fields),
                    ViewKind::Object(id) => (view.start, &cx.types().get(&id)?.fields),
                    _ => return None,
                }
            }
            Origin::Value { area, element } => {
                let area = &self.objects.areas[area];
                (area.start + element * area.stride, &area.fields)
            }
            _ => return None,
        };
        let is_there = |field: &&Field| start + u64::from(field.offset) == arg && special.is(&field.kind);
        fields.iter().find(is_there)
    }

    /// Checks a pointer that is stored into a kptr. The pointer must be a reference to a whole
    /// object, and the object must have the type that the kptr declares (map_kptr_match_type).
    pub(super) fn check_kptr_type(&self, cx: &Context, call: &Pending, callee: &Callee) -> Result<(), Fault> {
        let field = self.field_at(cx, call, 0, Special::Kptr).map(|field| &field.kind);
        let Some(FieldKind::Kptr { to, id, percpu, .. }) = field else {
            return Ok(());
        };
        let (arg, prov) = (call.args[1], Prov(call.provs[1]));
        let given = match prov.origin() {
            Origin::View { slot, generation } => self.objects.view(slot, generation).map(|view| view.kind),
            _ => None,
        };
        let fits = match given {
            Some(ViewKind::Object(given)) => given == *id && !percpu,
            Some(ViewKind::Percpu(given)) => given == *id && *percpu,
            Some(ViewKind::Cpumask) => to == "bpf_cpumask" && !percpu,
            Some(ViewKind::Kernel(slab)) => to == self.objects.slabs[slab].ty.name && !percpu,
            _ => false,
        };
        if fits {
            return Ok(());
        }
        let wanted = if *percpu { format!("per-CPU {to}") } else { to.clone() };
        Err(self.wrong_argument(cx, arg, prov, &wanted, callee))
    }

    /// Checks that the argument points into the stack. Iterators and similar objects must lie
    /// there: the program owns their memory, but only kernel functions may write to it.
    fn check_on_stack(&self, cx: &Context, call: &Pending, n: usize, callee: &Callee) -> Result<(), Fault> {
        let (arg, prov) = (call.args[n], Prov(call.provs[n]));
        match prov.origin() {
            Origin::Frame { .. } => Ok(()),
            _ => Err(self.wrong_argument(cx, arg, prov, "pointer to the stack", callee)),
        }
    }

    /// Checks that the memory of a new dynptr lies in a map's value (bpf_dynptr_from_mem in
    /// kernel/bpf/verifier.c). Globals count as the value of a map.
    fn check_in_map(&self, cx: &Context, call: &Pending, n: usize, callee: &Callee) -> Result<(), Fault> {
        let (arg, prov) = (call.args[n], Prov(call.provs[n]));
        let ok = match prov.origin() {
            Origin::Value { .. } => true,
            Origin::View { slot, generation } => {
                let view = self.objects.view(slot, generation);
                view.is_some_and(|view| matches!(view.kind, ViewKind::Value(_)))
            }
            _ => false,
        };
        match ok {
            true => Ok(()),
            false => Err(self.wrong_argument(cx, arg, prov, "pointer to a map's value", callee)),
        }
    }

    /// Checks that the map in r2 contains the timer to which r1 points.
    pub(super) fn check_timer_map(&self, cx: &Context, call: &Pending, callee: &Callee) -> Result<(), Fault> {
        let actual = match Prov(call.provs[0]).origin() {
            Origin::View { slot, generation } => match self.objects.view(slot, generation).map(|view| view.kind) {
                Some(ViewKind::Value(map)) => Some(cx.maps[map].addr()),
                _ => None,
            },
            Origin::Value { area, .. } => self.objects.areas[area].map,
            _ => None,
        };
        let name = |addr: u64| cx.maps.iter().find(|map| map.addr() == addr).map(Map::name);
        match actual.and_then(name) {
            Some(own) if actual != Some(call.args[1]) => {
                let other = name(call.args[1]).unwrap_or("that does not exist");
                let message = format!("{} of a timer in map {own} names map {other}", callee.name);
                Err(finding("bad-pointer", &message, Some(call.args[0]), Vec::new()))
            }
            _ => Ok(()),
        }
    }

    /// Checks that each argument has a value, and that the program has compared a pointer with NULL
    /// before it passes the pointer to a parameter that must not be NULL.
    pub(super) fn check_argument_values(&self, cx: &Context, call: &Pending, callee: &Callee) -> Result<(), Fault> {
        for (n, &arg) in callee.args.iter().enumerate().take(callee.used_args.min(5)) {
            let prov = Prov(call.provs[n]);
            if prov == Prov::UNSET && arg != Arg::Ignored {
                return Err(unset(n as u8 + 1));
            }
            let needs_object = match arg {
                Arg::Kernel { or_null, .. } => !or_null,
                Arg::Mask | Arg::OwnMask(_) | Arg::Field(_) | Arg::PerCpu => true,
                _ => match callee.rules.effect {
                    Effect::Release => n == 0,
                    Effect::GraphAdd => n == 1,
                    _ => false,
                },
            };
            if needs_object && call.args[n] != 0 && prov.is_untested() && self.objects.is_untested(prov) {
                return Err(self.untested(cx, format!("passed to {}", callee.name), Some(call.args[n]), prov));
            }
        }
        Ok(())
    }

    /// Checks a pointer to a per-CPU object of the program, or to a per-CPU variable of the kernel.
    fn check_per_cpu(&self, cx: &Context, call: &Pending, n: usize, callee: &Callee) -> Result<(), Fault> {
        let (arg, prov) = (call.args[n], Prov(call.provs[n]));
        let ok = match prov.origin() {
            Origin::View { slot, generation } => self
                .objects
                .view(slot, generation)
                .is_some_and(|view| matches!(view.kind, ViewKind::Percpu(_)) && view.start == arg),
            Origin::Kernel | Origin::Slab { .. } | Origin::Untrusted => true,
            _ => false,
        };
        match ok {
            true => Ok(()),
            false => Err(self.wrong_argument(cx, arg, prov, "per-CPU object", callee)),
        }
    }

    /// Returns the fault for an argument that is not the object `wanted`.
    #[cold]
    pub(super) fn wrong_argument(&self, cx: &Context, arg: u64, prov: Prov, wanted: &str, callee: &Callee) -> Fault {
        let (name, object) = (callee.name, self.origin_name(cx, prov));
        match prov.origin() {
            Origin::Null { pc } => {
                let note = (
                    "the program has not tested it for NULL; it was returned".to_string(),
                    Some(pc),
                );
                finding("null-dereference", &format!("NULL passed to {name}"), None, vec![note])
            }
            Origin::Scalar if arg == 0 => {
                finding("null-dereference", &format!("NULL passed to {name}"), None, Vec::new())
            }
            _ => {
                let given = match (prov.origin(), self.objects.bounds(prov)) {
                    (Origin::Scalar, _) => "a number".to_string(),
                    (Origin::Frame { .. }, _) | (_, None) => format!("a pointer to {object}"),
                    (_, Some((start, _))) if start == arg => format!("a pointer to {object}"),
                    (_, Some((start, _))) => {
                        format!("a pointer {} bytes into {object}", arg.wrapping_sub(start) as i64)
                    }
                };
                let message = format!("{name} expects a {wanted}, but the argument is {given}");
                finding("bad-pointer", &message, Some(arg), Vec::new())
            }
        }
    }
}
