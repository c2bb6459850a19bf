// SPDX-License-Identifier: GPL-2.0-only
//! The faults of loads and stores that are not allowed. They name the failed check, the object to
//! which the pointer points, and the location of the access in the object.

use super::access::{Access, find_special_field, touches_no_field, touches_no_special_field};
use super::objects::{View, ViewKind};
use super::prov::{Origin, Prov};
use super::report::finding;
use super::state::Sanitizer;
use crate::engine::context::Context;
use crate::fault::Fault;
use crate::image::{Field, FieldKind};
use crate::insn::FRAME;
use crate::memory::{ARENA_SIZE, NULL_LIMIT, PAGE};

impl Sanitizer {
    /// Returns the fault of an access that is not allowed.
    #[cold]
    pub(super) fn access_fault(&self, cx: &Context, access: Access, prov: Prov) -> Fault {
        let (verb, size, addr) = (if access.store { "store" } else { "load" }, access.size, access.addr());
        let objects = &self.objects;
        let mut notes = Vec::new();
        let is_null = matches!(prov.origin(), Origin::Null { .. });
        if objects.is_untested(prov) && !is_null {
            return self.untested(cx, describe_access(verb, size), Some(addr), prov);
        }
        let check = match prov.origin() {
            Origin::View { slot, generation } => match objects.view(slot, generation) {
                Some(view) if view.alive => {
                    notes.push((format!("{} was acquired", self.view_name(cx, view)), Some(view.born)));
                    self.name_failed_check(cx, &access, (view.start, view.len), view.kind)
                }
                view => return self.dead(cx, describe_access(verb, size), Some(addr), view),
            },
            Origin::Value { area, element } => {
                let known = &objects.areas[area];
                let start = known.start + element * known.stride;
                if !access.within(start, known.len) {
                    notes.push((
                        self.describe_location(start, known.len, addr, &self.origin_name(cx, prov)),
                        None,
                    ));
                    "out-of-bounds"
                } else if access.store && !known.writable {
                    notes.push((format!("{} is read-only", self.origin_name(cx, prov)), None));
                    "read-only"
                } else {
                    notes.push((
                        describe_special_field(&known.fields, start, &access, &self.origin_name(cx, prov)),
                        None,
                    ));
                    "special-field"
                }
            }
            Origin::Slab { slab, index } => {
                let known = &objects.slabs[slab];
                let start = known.base + index * known.stride;
                let name = known.ty.name;
                notes.push((self.describe_location(start, known.object_size, addr, name), None));
                if access.within(start, known.object_size) {
                    notes.push((format!("a program may not store to this part of {name}"), None));
                    "read-only"
                } else {
                    "out-of-bounds"
                }
            }
            Origin::Frame { top } => {
                let r10 = objects.stack + top;
                let off = addr.wrapping_sub(r10) as i64;
                if access.within(r10 - FRAME, FRAME) {
                    notes.push((format!("r10{off:+} of a function that has returned"), None));
                    "use-after-return"
                } else {
                    notes.push((format!("r10{off:+}: a frame is r10-512 to r10-1"), None));
                    "stack-out-of-bounds"
                }
            }
            Origin::Context { start, end } => {
                let start_at = objects.stack + start;
                notes.push((
                    self.describe_location(start_at, end - start, addr, "the arguments"),
                    None,
                ));
                if access.store { "read-only" } else { "out-of-bounds" }
            }
            Origin::Kernel | Origin::Untrusted => {
                notes.push(("a pointer read from kernel memory".to_string(), None));
                if access.store { "read-only" } else { "bad-pointer" }
            }
            Origin::Null { pc } => {
                let why = match objects.is_untested(prov) {
                    true => "the pointer may be NULL and the program has not tested it; it was returned",
                    false => "it was returned",
                };
                notes.push((why.to_string(), Some(pc)));
                "null-dereference"
            }
            Origin::Varied => {
                let note =
                    "the offset in a kernel object must be a constant, but the offset comes from memory or a function";
                notes.push((note.to_string(), None));
                "variable-offset"
            }
            Origin::Unset => "uninitialised",
            Origin::Scalar if access.base < NULL_LIMIT => "null-dereference",
            Origin::Scalar => {
                let arena = addr.wrapping_sub(objects.arena);
                if objects.arena != 0 && arena < ARENA_SIZE {
                    let page = arena / PAGE;
                    notes.push((format!("page {page} of the arena is not allocated"), None));
                    "arena-unallocated"
                } else {
                    let at = objects.classify(cx.region(), addr);
                    if at != Prov::SCALAR {
                        notes.push((format!("the address belongs to {}", self.origin_name(cx, at)), None));
                    }
                    notes.push((
                        "the program computed this address as a number instead of from a pointer".to_string(),
                        None,
                    ));
                    "bad-pointer"
                }
            }
        };
        finding(check, &describe_access(verb, size), Some(addr), notes)
    }

    fn name_failed_check(
        &self,
        cx: &Context,
        access: &Access,
        (start, len): (u64, u64),
        kind: ViewKind,
    ) -> &'static str {
        let is_special = match kind {
            ViewKind::Value(map) => !touches_no_special_field(&cx.maps[map].def().fields, start, access),
            ViewKind::Object(id) => cx
                .types()
                .get(&id)
                .is_some_and(|ty| !touches_no_field(&ty.fields, start, access)),
            ViewKind::Percpu(_) => true,
            _ => false,
        };
        match access.within(start, len) {
            false => "out-of-bounds",
            true if is_special => "special-field",
            true => "read-only",
        }
    }

    /// Returns the fault for the use of a pointer that may be NULL, if the program has not compared
    /// the pointer with NULL.
    #[cold]
    pub(super) fn untested(&self, cx: &Context, message: String, addr: Option<u64>, prov: Prov) -> Fault {
        let got = match prov.origin() {
            Origin::View { slot, generation } => self.objects.view(slot, generation).map(|view| view.born),
            Origin::Null { pc } => Some(pc),
            _ => None,
        };
        let mut notes = vec![(
            "the pointer may be NULL and the program has not tested it".to_string(),
            None,
        )];
        notes.extend(got.map(|pc| (format!("{} was acquired", self.origin_name(cx, prov)), Some(pc))));
        finding("untested", &message, addr, notes)
    }

    /// Returns the fault for the use of a pointer to an object that no longer exists.
    #[cold]
    pub(super) fn dead(&self, cx: &Context, message: String, addr: Option<u64>, view: Option<&View>) -> Fault {
        let Some(view) = view else {
            return finding(
                "use-after-free",
                &message,
                addr,
                vec![("the object was freed a long time ago".to_string(), None)],
            );
        };
        let name = self.view_name(cx, view);
        let (verb, at) = view.died.unwrap_or(("freed", None));
        let kind = match verb {
            "released" => "use-after-release",
            "unlocked" => "use-after-unlock",
            "out of its RCU section" => "rcu",
            _ => "use-after-free",
        };
        let notes = vec![
            (format!("{name} was acquired"), Some(view.born)),
            (format!("and {verb}"), at),
        ];
        finding(kind, &message, addr, notes)
    }

    fn describe_location(&self, start: u64, len: u64, addr: u64, name: &str) -> String {
        let (off, end) = (addr.wrapping_sub(start) as i64, start + len);
        if addr >= end {
            format!("{} bytes after the end of {name}, which has {len} bytes", addr - end)
        } else if off < 0 {
            format!("{} bytes before {name}", -off)
        } else {
            format!("byte {off} of the {len} bytes of {name}")
        }
    }

    /// Returns the name of the object to which a pointer with this provenance points.
    pub(super) fn origin_name(&self, cx: &Context, prov: Prov) -> String {
        match prov.origin() {
            Origin::View { slot, generation } => match self.objects.view(slot, generation) {
                Some(view) => self.view_name(cx, view),
                None => "a freed object".to_string(),
            },
            Origin::Value { area, element } => {
                let area = &self.objects.areas[area];
                match area.end - area.start > area.stride {
                    true => format!("{} at index {element}", area.name),
                    false => area.name.clone(),
                }
            }
            Origin::Slab { slab, .. } => format!("a {}", self.objects.slabs[slab].ty.name),
            Origin::Frame { .. } => "the stack".to_string(),
            Origin::Context { .. } => "the arguments".to_string(),
            Origin::Kernel => "kernel memory".to_string(),
            Origin::Untrusted => "kernel memory that nothing keeps alive".to_string(),
            Origin::Scalar => "no object".to_string(),
            Origin::Null { .. } => "NULL".to_string(),
            Origin::Unset => "no value".to_string(),
            Origin::Varied => "a kernel object at a variable offset".to_string(),
        }
    }

    pub(super) fn view_name(&self, cx: &Context, view: &View) -> String {
        let bytes = view.len;
        match view.kind {
            ViewKind::Value(map) => format!("a value of map {} ({bytes} bytes)", cx.maps[map].name()),
            ViewKind::Object(id) => format!("a struct {} ({bytes} bytes)", type_name(cx, id)),
            ViewKind::Percpu(id) => format!("per-CPU objects of struct {}", type_name(cx, id)),
            ViewKind::Copy(id) => format!("a CPU's struct {} ({bytes} bytes)", type_name(cx, id)),
            ViewKind::Cpumask => "a bpf_cpumask".to_string(),
            ViewKind::Record => format!("a ring buffer's record ({bytes} bytes)"),
            ViewKind::Kernel(slab) => format!("a reference to a {}", self.objects.slabs[slab].ty.name),
            ViewKind::Input => "the program's context".to_string(),
            ViewKind::Opaque => "a reference".to_string(),
            ViewKind::Element => format!("an iterator's element ({bytes} bytes)"),
        }
    }
}

fn type_name(cx: &Context, id: u32) -> &str {
    cx.types().get(&id).map_or("object", |ty| ty.name.as_str())
}

pub(super) fn describe_access(verb: &str, size: u64) -> String {
    format!("{verb} of {size} bytes")
}

fn describe_special_field(fields: &[Field], start: u64, access: &Access, name: &str) -> String {
    let kind = find_special_field(fields, start, access).map(|field| &field.kind);
    let field = match kind {
        Some(FieldKind::SpinLock) => "bpf_spin_lock",
        Some(FieldKind::ResSpinLock) => "bpf_res_spin_lock",
        Some(FieldKind::Timer) => "bpf_timer",
        Some(FieldKind::Refcount) => "bpf_refcount",
        Some(FieldKind::ListNode) => "bpf_list_node",
        Some(FieldKind::RbNode) => "bpf_rb_node",
        Some(FieldKind::ListHead(_)) => "bpf_list_head",
        Some(FieldKind::RbRoot(_)) => "bpf_rb_root",
        Some(FieldKind::Kptr { .. }) => "kptr",
        _ => "kernel field",
    };
    format!("only helpers and kfuncs may access the {field} in {name}")
}
