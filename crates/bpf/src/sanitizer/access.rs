// SPDX-License-Identifier: GPL-2.0-only
//! Checks loads and stores for the sanitizer. The object to which the pointer originally pointed
//! must be alive and contain the address. For a store, the program must be allowed to write to this
//! part of the object.

use super::access_fault::describe_access;
use super::objects::ViewKind;
use super::prov::{Origin, Prov, SCALAR};
use super::raise::{raise, split};
use super::report::finding;
use super::state::Sanitizer;
use crate::engine::context::Context;
use crate::fault::Fault;
use crate::image::{Field, FieldKind, Insn};
use crate::insn::{self, FRAME};
use crate::memory::{ARENA_SIZE, NULL_LIMIT, SHIFT};

/// A load or store of the program.
#[derive(Clone, Copy)]
pub(super) struct Access {
    /// Value of the base register. `off` is the constant offset that is added to it.
    pub base: u64,
    pub off: i64,
    pub size: u64,
    pub store: bool,
    pub pc: usize,
}

impl Access {
    #[inline(always)]
    fn unpack(base: u64, meta: u64, store: bool) -> Access {
        Access {
            base,
            off: i64::from(meta as u16 as i16),
            size: meta >> 16 & 0x7f,
            store,
            pc: (meta >> 32) as usize,
        }
    }

    #[inline(always)]
    pub(super) fn addr(&self) -> u64 {
        self.base.wrapping_add(self.off as u64)
    }

    #[inline(always)]
    pub(super) fn within(&self, start: u64, len: u64) -> bool {
        let offset = self.addr().wrapping_sub(start);
        offset < len && self.size <= len - offset
    }
}

/// Packs the index of an instruction, the size of its access, and its offset into one word.
pub(crate) fn meta(pc: usize, i: &Insn) -> u64 {
    let is_atomic = insn::class(i.op) == insn::STX && i.op & 0xe0 == insn::ATOMIC;
    let atomic = if is_atomic { ATOMIC } else { 0 };
    (pc as u64) << 32 | atomic | insn::size(i.op) << 16 | u64::from(i.off as i16 as u16)
}

/// Bit in the word of [`meta`] that marks an atomic operation.
const ATOMIC: u64 = 1 << 23;

/// Checks a load through a register with this provenance (the object to which its pointer
/// originally pointed). Returns the provenance of the loaded value.
pub(crate) unsafe extern "C" fn load(cx: *mut Context, base: u64, meta: u64, prov: u64, _: u64, _: u64) -> u64 {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe {
        let (cx, sanitizer) = split(cx);
        let access = Access::unpack(base, meta, false);
        sanitizer.counts.accesses += 1;
        if let Err(fault) = sanitizer.check_once(cx, access, Prov(prov), meta & ATOMIC != 0) {
            cx.pc = access.pc as u32;
            return raise(cx, fault);
        }
        if access.size != 8 || base < NULL_LIMIT {
            return SCALAR;
        }
        let addr = access.addr();
        let value = cx.region().host::<u64>(addr).read_unaligned();
        // A word that was loaded from the stack may be a spilled NULL pointer. Its provenance is in
        // the shadow.
        let on_stack = matches!(Prov(prov).origin(), Origin::Frame { .. });
        if !on_stack && value >> SHIFT != sanitizer.objects.tag {
            return SCALAR;
        }
        sanitizer.loaded(cx, Prov(prov), addr, value).0
    }
}

/// Checks a store of `value` through a register with this provenance.
pub(crate) unsafe extern "C" fn store(
    cx: *mut Context,
    base: u64,
    meta: u64,
    prov: u64,
    value: u64,
    value_prov: u64,
) -> u64 {
    // SAFETY: `cx` is the context of the running program, see `Entry`.
    unsafe {
        let (cx, sanitizer) = split(cx);
        let access = Access::unpack(base, meta, true);
        sanitizer.counts.accesses += 1;
        if let Err(fault) = sanitizer.check_once(cx, access, Prov(prov), meta & ATOMIC != 0) {
            cx.pc = access.pc as u32;
            return raise(cx, fault);
        }
        let offset = access.addr().wrapping_sub(sanitizer.objects.stack);
        let stack_size = sanitizer.objects.stack_end - sanitizer.objects.stack;
        if access.size == 8 && offset.is_multiple_of(8) && offset < stack_size {
            sanitizer.objects.spill(offset, value, value_prov);
        }
        0
    }
}

impl Sanitizer {
    /// Returns the provenance of `value`, an 8-byte word that was loaded from `addr` through a
    /// pointer with the provenance `from`. The value may be an address of the region.
    fn loaded(&self, cx: &Context, from: Prov, addr: u64, value: u64) -> Prov {
        let region = cx.region();
        // A kptr field that owns a reference was set by the kernel. Any other kptr field may
        // contain a value that the program has stored itself.
        let kptr = |fields: &[Field], start: u64| {
            let field = fields.iter().find(|f| start + u64::from(f.offset) == addr);
            match field.map(|field| &field.kind) {
                Some(FieldKind::Kptr { owned: true, .. }) => self.classify_kptr(cx, value).untested(),
                Some(FieldKind::Kptr { .. } | FieldKind::Uptr) => Prov::UNTRUSTED.untested(),
                _ => Prov::SCALAR,
            }
        };
        match from.origin() {
            Origin::Frame { .. } => self.objects.spilled_prov(addr.wrapping_sub(self.objects.stack), value),
            Origin::Context { .. } => self.objects.classify_argument_pointer(region, value),
            Origin::Slab { .. } => self.objects.classify_kernel_pointer(region, value),
            // The pointer lies in memory to which programs can store, so a program may have
            // written it.
            Origin::Kernel if region.in_bpf_area(addr) => Prov::UNTRUSTED,
            Origin::Kernel => self.objects.classify_kernel_pointer(region, value),
            Origin::Untrusted => Prov::UNTRUSTED,
            Origin::Value { area, element } => {
                let area = &self.objects.areas[area];
                kptr(&area.fields, area.start + element * area.stride)
            }
            Origin::View { slot, .. } => {
                let view = &self.objects.views[slot];
                match view.kind {
                    ViewKind::Kernel(_) => self.objects.classify_kernel_pointer(region, value),
                    ViewKind::Value(map) => kptr(&cx.maps[map].def().fields, view.start),
                    _ => Prov::SCALAR,
                }
            }
            Origin::Scalar | Origin::Null { .. } | Origin::Unset | Origin::Varied => Prov::SCALAR,
        }
    }

    /// Returns the provenance of a pointer that was loaded from a kptr field of a map value. The
    /// pointer is trusted only inside an RCU section, where RCU keeps the object alive even if
    /// another program removes it from the map.
    fn classify_kptr(&self, cx: &Context, value: u64) -> Prov {
        if self.held.in_rcu() {
            self.objects.classify(cx.region(), value)
        } else {
            Prov::UNTRUSTED
        }
    }

    /// Checks a load or store of the program. The address must be aligned if the access is atomic
    /// or goes to the stack.
    #[inline(always)]
    fn check_once(&self, cx: &Context, access: Access, prov: Prov, is_atomic: bool) -> Result<(), Fault> {
        self.check(cx, access, prov)?;
        if !access.addr().is_multiple_of(access.size)
            && (is_atomic && prov.origin() != Origin::Scalar || matches!(prov.origin(), Origin::Frame { .. }))
        {
            let verb = match (is_atomic, access.store) {
                (true, _) => "atomic access",
                (_, true) => "store",
                _ => "load",
            };
            let message = describe_access(verb, access.size);
            return Err(finding("misaligned", &message, Some(access.addr()), Vec::new()));
        }
        Ok(())
    }

    /// Checks whether a pointer with this provenance allows the access.
    #[inline(always)]
    pub(super) fn check(&self, cx: &Context, access: Access, prov: Prov) -> Result<(), Fault> {
        let objects = &self.objects;
        if prov.is_untested() && objects.is_untested(prov) {
            return Err(self.access_fault(cx, access, prov));
        }
        let ok = match prov.origin() {
            Origin::View { slot, generation } => match objects.view(slot, generation) {
                Some(view) if view.alive && access.within(view.start, view.len) => match view.kind {
                    ViewKind::Record | ViewKind::Input | ViewKind::Copy(_) => true,
                    ViewKind::Percpu(_) => false,
                    ViewKind::Value(map) => touches_no_special_field(&cx.maps[map].def().fields, view.start, &access),
                    ViewKind::Object(id) => cx
                        .types()
                        .get(&id)
                        .is_none_or(|ty| touches_no_field(&ty.fields, view.start, &access)),
                    ViewKind::Kernel(slab) => {
                        !access.store || writable(objects.slabs[slab].ty.writable, view.start, &access)
                    }
                    ViewKind::Cpumask | ViewKind::Opaque | ViewKind::Element => !access.store,
                },
                _ => false,
            },
            Origin::Value { area, element } => {
                let area = &objects.areas[area];
                let start = area.start + element * area.stride;
                access.within(start, area.len)
                    && (area.writable || !access.store)
                    && touches_no_special_field(&area.fields, start, &access)
            }
            Origin::Slab { slab, index } => {
                let slab = &objects.slabs[slab];
                let start = slab.base + index * slab.stride;
                // The kernel's objects are larger, in particular the mask at the end of a task_struct.
                // The memory up to the next object is zero and stands for their remaining bytes.
                access.within(start, slab.stride) && (!access.store || writable(slab.ty.writable, start, &access))
            }
            Origin::Frame { top } => {
                let top = objects.stack + top;
                access.within(top - FRAME, FRAME) && top > cx.fp
            }
            Origin::Context { start, end } => !access.store && access.within(objects.stack + start, end - start),
            Origin::Kernel | Origin::Untrusted => {
                !access.store
                    && (access.base < NULL_LIMIT || cx.region().check(access.addr(), access.size, false).is_ok())
            }
            // A program may access any address in its arena.
            Origin::Scalar => {
                objects.arena != 0
                    && access.addr().wrapping_sub(objects.arena) < ARENA_SIZE
                    && cx.region().check(access.addr(), access.size, access.store).is_ok()
            }
            Origin::Null { .. } | Origin::Unset | Origin::Varied => false,
        };
        match ok {
            true => Ok(()),
            false => Err(self.access_fault(cx, access, prov)),
        }
    }
}

/// Returns whether the access touches no special field (lock, timer, kptr, ...). Also returns true
/// for a load of a whole kptr.
#[inline(always)]
pub(super) fn touches_no_special_field(fields: &[Field], start: u64, access: &Access) -> bool {
    fields.is_empty() || find_special_field(fields, start, access).is_none()
}

/// Like [`touches_no_special_field`], for an object that the program allocated. A kptr in such an
/// object may only be exchanged, so a load of the kptr is not allowed, either.
pub(super) fn touches_no_field(fields: &[Field], start: u64, access: &Access) -> bool {
    !fields.iter().any(|field| touches(field, start, access))
}

fn touches(field: &Field, start: u64, access: &Access) -> bool {
    let offset = access.addr().wrapping_sub(start);
    let (from, to) = (u64::from(field.offset), u64::from(field.offset + field.size));
    offset < to && from < offset.wrapping_add(access.size)
}

pub(super) fn find_special_field<'a>(fields: &'a [Field], start: u64, access: &Access) -> Option<&'a Field> {
    let offset = access.addr().wrapping_sub(start);
    fields.iter().find(|field| {
        let whole = offset == u64::from(field.offset) && access.size == 8;
        let allowed = match field.kind {
            FieldKind::Kptr { owned, .. } => whole && (!access.store || !owned),
            FieldKind::Uptr => whole && !access.store,
            _ => false,
        };
        touches(field, start, access) && !allowed
    })
}

fn writable(ranges: &[(u64, u64)], start: u64, access: &Access) -> bool {
    ranges.iter().any(|&(offset, size)| access.within(start + offset, size))
}
