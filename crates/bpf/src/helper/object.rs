// SPDX-License-Identifier: GPL-2.0-only
//! Helpers and kfuncs for objects that BPF code allocates, and for kernel pointers that are stored
//! in maps.

use super::{collection, cpumask, timer};
use crate::engine::func::Func;
use crate::engine::world::World;
use crate::fault::{Fault, FaultKind};
use crate::image::{Field, FieldKind};
use crate::memory::Use;
use crate::rows::*;

/// Charge for allocating or freeing an object, in BPF instructions.
pub(super) const ALLOCATION: u64 = 16;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    let same = |_: &mut W, object: u64| object;
    let mut table = crate::helpers! {
        194 "bpf_kptr_xchg"
        { args: [KPTR, V], returns: PointerOrNull, rules: does(Exchange).under_lock(), native: CALL, run: kptr_xchg }
    };
    table.extend(crate::kfuncs! {
        "void *bpf_obj_new_impl(u64 local_type_id__k, void *meta__ign)"
        { releases: V6_12.., contexts: ANY, rules: does(ObjNew).ret_null(), native: CALL, run: obj_new }
        "void *bpf_obj_new(u64 local_type_id__k)"
        { releases: V7_1.., contexts: ANY, rules: does(ObjNew).ret_null(), native: CALL, run: obj_new }
        "void bpf_obj_drop_impl(void *p__alloc, void *meta__ign)"
        { releases: V6_12.., contexts: ANY, rules: does(Release), native: CALL, run: obj_drop }
        "void bpf_obj_drop(void *p__alloc)"
        { releases: V7_1.., contexts: ANY, rules: does(Release), native: CALL, run: obj_drop }
        "void *bpf_refcount_acquire_impl(void *p__refcounted_kptr, void *meta__ign)"
        { releases: V6_12.., contexts: ANY, rules: does(GraphTake).under_lock(), native: CALL, run: refcount_acquire }
        "void *bpf_refcount_acquire(void *p__refcounted_kptr)"
        { releases: V7_1.., contexts: ANY, rules: does(GraphTake).under_lock(), native: CALL, run: refcount_acquire }
        "void *bpf_percpu_obj_new_impl(u64 local_type_id__k, void *meta__ign)"
        { releases: V6_12.., contexts: ANY, rules: does(PercpuNew).ret_null(), native: CALL, run: percpu_obj_new }
        "void *bpf_percpu_obj_new(u64 local_type_id__k)"
        { releases: V7_1.., contexts: ANY, rules: does(PercpuNew).ret_null(), native: CALL, run: percpu_obj_new }
        "void bpf_percpu_obj_drop_impl(void *p__alloc, void *meta__ign)"
        { releases: V6_12.., contexts: ANY, rules: does(Release), native: CALL, run: percpu_obj_drop }
        "void bpf_percpu_obj_drop(void *p__alloc)"
        { releases: V7_1.., contexts: ANY, rules: does(Release), native: CALL, run: percpu_obj_drop }
        "void *bpf_cast_to_kern_ctx(void *obj)"
        { releases: V6_12.., contexts: ANY, rules: does(Cast), native: CALL, run: same }
        "void *bpf_rdonly_cast(const void *obj__ign, u32 btf_id__k)"
        { releases: V6_12.., contexts: ANY, rules: does(Cast), native: CALL, run: same }
        "void bpf_throw(u64 cookie)"
        { releases: V6_12.., contexts: ANY, rules: does(Throw), native: CALL, run: throw }
    });
    table
}

fn kptr_xchg<W: World>(w: &mut W, slot: u64, new: u64) -> Result<u64, Fault> {
    let old = w.region().load(slot)?;
    w.region().store(slot, new)?;
    Ok(old)
}

fn obj_new<W: World>(w: &mut W, id: u64) -> Result<u64, Fault> {
    let Some(local) = w.vm().types().get(&(id as u32)) else {
        return Err(Fault::new(
            FaultKind::Trap,
            format!("bpf_obj_new of the type with BTF id {id}, which the object does not declare"),
        ));
    };
    w.vm().charge(ALLOCATION)?;
    w.vm().charge_bytes(local.size.into())?;
    let Some(addr) = w.region().alloc(u64::from(local.size)) else {
        return w.region().memory().refused(0);
    };
    w.region().memory().charge_record(Use::Records)?;
    if let Some(offset) = refcount(&local.fields) {
        w.region().store(addr + offset, 1u32)?;
    }
    w.vm().state().borrow_mut().objects.insert(addr, id as u32);
    Ok(addr)
}

fn refcount(fields: &[Field]) -> Option<u64> {
    fields
        .iter()
        .find(|field| field.kind == FieldKind::Refcount)
        .map(|field| u64::from(field.offset))
}

fn object_type<W: World>(w: &W, object: u64) -> Result<u32, Fault> {
    let id = w.vm().state().borrow().objects.get(&object).copied();
    id.ok_or_else(|| {
        Fault::func(format!(
            "{object:#x} is not an allocated object: was it used after it was dropped?"
        ))
    })
}

fn obj_drop<W: World>(w: &mut W, object: u64) -> Result<(), Fault> {
    object_type(w, object)?;
    drop_all(w, vec![Drop::Reference(object)]);
    Ok(())
}

/// Drops a reference to a reference-counted object. Does nothing if there is no such object at the
/// address.
pub(super) fn drop_counted_reference<W: World>(w: &mut W, object: u64) {
    let counts = object_type(w, object).is_ok_and(|id| refcount(&w.vm().types()[&id].fields).is_some());
    if counts {
        drop_all(w, vec![Drop::Reference(object)]);
    }
}

/// A step of dropping an object. An object may own other objects, which are dropped with it. The
/// steps that remain to be done are kept in a list, because a recursion could become arbitrarily
/// deep.
enum Drop {
    /// Drop a reference to an object.
    Reference(u64),
    /// Free an object after everything that it owned has been dropped.
    Memory(u64),
}

fn drop_all<W: World>(w: &mut W, mut left: Vec<Drop>) {
    while let Some(next) = left.pop() {
        let object = match next {
            Drop::Reference(object) => object,
            Drop::Memory(object) => {
                w.region().free(object);
                continue;
            }
        };
        // The drop cannot stop halfway, so the error of the charge is ignored. If the instruction
        // budget is used up, the program ends at its next test of the budget.
        let _ = w.vm().charge(ALLOCATION);
        // If the object no longer exists, the error was reported when the object was released.
        let Ok(id) = object_type(w, object) else { continue };
        let fields = w.vm().types()[&id].fields.clone();
        if let Some(offset) = refcount(&fields) {
            let addr = object + offset;
            let references = w.region().load::<u32>(addr).unwrap_or(0).saturating_sub(1);
            if references > 0 && w.region().store(addr, references).is_ok() {
                continue;
            }
        }
        w.vm().state().borrow_mut().objects.remove(&object);
        w.region().memory().uncharge_records(Use::Records, 1);
        left.push(Drop::Memory(object));
        let owned = left.len();
        release_fields(w, &fields, object, &mut left);
        left[owned..].reverse();
    }
}

fn refcount_acquire<W: World>(w: &mut W, object: u64) -> Result<u64, Fault> {
    let id = object_type(w, object)?;
    let Some(offset) = refcount(&w.vm().types()[&id].fields) else {
        return Err(Fault::func("bpf_refcount_acquire of an object without bpf_refcount"));
    };
    let count = w.region().load::<u32>(object + offset)?;
    w.region().store(object + offset, count.saturating_add(1))?;
    Ok(object)
}

/// Maximum size of a per-CPU object in bytes: BPF_GLOBAL_PERCPU_MA_MAX_SIZE.
const PERCPU_MAX: u32 = 512;

fn percpu_obj_new<W: World>(w: &mut W, id: u64) -> Result<u64, Fault> {
    let refuse = |message: String| {
        Err(Fault::func(format!(
            "bpf_percpu_obj_new of the type with BTF id {id}{message}"
        )))
    };
    let size = match w.vm().types().get(&(id as u32)) {
        None => return refuse(", which the object does not declare".into()),
        Some(local) if local.size > PERCPU_MAX => {
            return refuse(format!(": type size ({}) is greater than {PERCPU_MAX}", local.size));
        }
        Some(local) if !local.fields.is_empty() => return refuse(" must be a struct of scalars".into()),
        Some(local) => u64::from(local.size),
    };
    // The copies for different CPUs lie in different cache lines, because in the kernel they lie in
    // different pages.
    let stride = size.next_multiple_of(64);
    w.vm().charge(ALLOCATION)?;
    w.vm().charge_bytes(stride * u64::from(w.nr_cpu_ids()))?;
    let Some(addr) = w.region().alloc(stride * u64::from(w.nr_cpu_ids())) else {
        return w.region().memory().refused(0);
    };
    w.region().memory().charge_record(Use::Records)?;
    w.vm().state().borrow_mut().percpu.insert(addr, stride);
    Ok(addr)
}

fn percpu_obj_drop<W: World>(w: &mut W, object: u64) -> Result<(), Fault> {
    if w.vm().state().borrow_mut().percpu.remove(&object).is_none() {
        return Err(Fault::func(format!("{object:#x} is not a per-CPU object")));
    }
    w.region().free(object);
    w.region().memory().uncharge_records(Use::Records, 1);
    Ok(())
}

fn throw<W: World>(_: &mut W, cookie: u64) -> Result<(), Fault> {
    Err(Fault::new(FaultKind::Throw(cookie), format!("bpf_throw({cookie})")))
}

/// Drops everything that the special fields of a value own (for example kptrs, lists and timers).
/// Called when the value is about to be removed.
pub(crate) fn drop_fields<W: World>(w: &mut W, fields: &[Field], value: u64) {
    let mut left = Vec::new();
    release_fields(w, fields, value, &mut left);
    left.reverse();
    drop_all(w, left);
}

/// Clears the special fields of a value and appends the objects that they owned to `left`.
fn release_fields<W: World>(w: &mut W, fields: &[Field], value: u64, left: &mut Vec<Drop>) {
    for field in fields {
        let addr = value + u64::from(field.offset);
        match field.kind {
            FieldKind::Timer | FieldKind::Workqueue => timer::forget(w, addr),
            FieldKind::Kptr { owned: true, .. } => {
                let Ok(object) = w.region().load::<u64>(addr) else {
                    continue;
                };
                let (is_object, is_cpumask) = {
                    let state = w.vm().state().borrow();
                    (
                        state.objects.contains_key(&object),
                        state.cpumasks.contains_key(&object),
                    )
                };
                if is_object {
                    left.push(Drop::Reference(object));
                } else if is_cpumask {
                    // The only possible error is that the mask no longer exists. This error was
                    // reported when the mask was released.
                    let _ = cpumask::release(w, object);
                } else if percpu_obj_drop(w, object).is_err() && object != 0 {
                    w.release_object(object);
                }
                let _ = w.region().store(addr, 0u64);
            }
            FieldKind::ListHead(ref contains) | FieldKind::RbRoot(ref contains) => {
                let nodes = collection::clear(w, addr).into_iter();
                left.extend(nodes.map(|node| Drop::Reference(node.wrapping_sub(u64::from(contains.node)))));
            }
            _ => {}
        }
    }
}
