// SPDX-License-Identifier: GPL-2.0-only
//! Helpers and kfuncs that access maps.

use super::object::drop_fields;
use crate::engine::func::Func;
use crate::engine::vm::Vm;
use crate::engine::world::World;
use crate::errno::long::*;
use crate::fault::Fault;
use crate::image::{Field, FieldKind};
use crate::map::{BPF_F_LOCK, Kptrs, Map, kind};
use crate::rows::*;

const BPF_LOCAL_STORAGE_GET_F_CREATE: u64 = 1;
const BPF_F_INDEX_MASK: u64 = 0xffff_ffff;
const BPF_F_CURRENT_CPU: u64 = BPF_F_INDEX_MASK;
/// Size of a struct bpf_perf_event_value in bytes.
const PERF_EVENT_VALUE_SIZE: u32 = 24;
/// NUMA_NO_NODE
const NO_NODE: i32 = -1;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    let mut table = crate::helpers! {
        1 "bpf_map_lookup_elem"
        { args: [V, KEY], returns: PointerOrNull, rules: does(Lookup), native: 3, run: lookup }
        2 "bpf_map_update_elem"
        { args: [V, KEY, VALUE, V], returns: Number, rules: PLAIN, native: CALL, run: update }
        3 "bpf_map_delete_elem"
        { args: [V, KEY], returns: Number, rules: PLAIN, native: CALL, run: delete }
        22 "bpf_perf_event_read"
        { args: [V, V], returns: Number, rules: PLAIN, native: CALL, run: perf_event }
        25 "bpf_perf_event_output"
        { args: [V, V, V, read(5), V], returns: Number, rules: PLAIN, native: CALL, run: perf_event_output }
        55 "bpf_perf_event_read_value"
        { args: [V, V, write(4), V], returns: Number, rules: PLAIN, native: CALL, run: perf_event_read_value }
        87 "bpf_map_push_elem"
        { args: [V, VALUE, V], returns: Number, rules: PLAIN, native: CALL, run: push }
        88 "bpf_map_pop_elem"
        { args: [V, TO_VALUE], returns: Number, rules: PLAIN, native: CALL,
          run: |w: &mut W, map: u64, value: u64| pop(w, map, value, false) }
        89 "bpf_map_peek_elem"
        { args: [V, TO_VALUE], returns: Number, rules: PLAIN, native: CALL,
          run: |w: &mut W, map: u64, value: u64| pop(w, map, value, true) }
        153 "bpf_per_cpu_ptr"
        { args: [PerCpu, V], returns: PointerOrNull, rules: PLAIN, native: CALL, run: per_cpu_ptr }
        154 "bpf_this_cpu_ptr"
        { args: [PerCpu], returns: Pointer, rules: PLAIN, native: CALL,
          run: |w: &mut W, ptr: u64| per_cpu_ptr(w, ptr, w.cpu()) }
        156 "bpf_task_storage_get"
        { args: [V, object_or_null("task_struct"), VALUE, V], returns: PointerOrNull, rules: does(Lookup), native: 1,
          run: |w: &mut W, map: u64, task: u64, value: u64, flags: u64|
              storage_get(w, TASK_GET, map, task, value, flags) }
        157 "bpf_task_storage_delete"
        { args: [V, object_or_null("task_struct")], returns: Number, rules: PLAIN, native: CALL,
          run: |w: &mut W, map: u64, task: u64| storage_delete(w, TASK_DELETE, map, task) }
        164 "bpf_for_each_map_elem"
        { args: [V, V, V, V], returns: Number, rules: PLAIN.calls_back_with(4, 3, 2), native: CALL, run: for_each }
        195 "bpf_map_lookup_percpu_elem"
        { args: [V, KEY, V], returns: PointerOrNull, rules: does(Lookup), native: CALL, run: lookup_percpu_elem }
        210 "bpf_cgrp_storage_get"
        { args: [V, object_or_null("cgroup"), VALUE, V], returns: PointerOrNull, rules: does(Lookup), native: CALL,
          run: |w: &mut W, map: u64, cgrp: u64, value: u64, flags: u64|
              storage_get(w, CGRP_GET, map, cgrp, value, flags) }
        211 "bpf_cgrp_storage_delete"
        { args: [V, object_or_null("cgroup")], returns: Number, rules: PLAIN, native: CALL,
          run: |w: &mut W, map: u64, cgrp: u64| storage_delete(w, CGRP_DELETE, map, cgrp) }
    };
    table.extend(crate::kfuncs! {
        "void *bpf_arena_alloc_pages(void *p__map, void *addr__ign, u32 page_cnt, int node_id, u64 flags)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN.under_lock(), native: CALL, run: arena_alloc_pages }
        "void bpf_arena_free_pages(void *p__map, void *ptr__ign, u32 page_cnt)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN.under_lock(), native: CALL, run: arena_free_pages }
    });
    table
}

fn lookup<W: World>(w: &mut W, map: u64, key: u64) -> Result<u64, Fault> {
    lookup_in(w, w.vm().map(map)?, key, w.cpu())
}

fn lookup_percpu_elem<W: World>(w: &mut W, map: u64, key: u64, cpu: u32) -> Result<u64, Fault> {
    let map = w.vm().map(map)?;
    match map.def().kind {
        kind::PERCPU_ARRAY | kind::PERCPU_HASH | kind::LRU_PERCPU_HASH => lookup_in(w, map, key, cpu),
        kind => Err(cannot_pass(kind, "bpf_map_lookup_percpu_elem#195")),
    }
}

fn lookup_in<W: World>(w: &W, map: &Map, key: u64, cpu: u32) -> Result<u64, Fault> {
    let key = w.region().bytes(key, map.def().key_size.into())?;
    let value = map.lookup(w.region(), &key, cpu)?;
    charge(w, map)?;
    Ok(value)
}

/// If a map operation took longer than usual, charges the program for the additional work. The
/// charge is subtracted from the number of instructions that the program may still execute.
#[inline]
fn charge<W: World>(w: &W, map: &Map) -> Result<(), Fault> {
    match map.take_work() {
        0 => Ok(()),
        work => w.vm().charge(work),
    }
}

fn update<W: World>(w: &mut W, map: u64, key: u64, value: u64, flags: u64) -> Result<i64, Fault> {
    let map = w.vm().map(map)?;
    reject_map_of_maps(map, "bpf_map_update_elem#2")?;
    w.vm().charge_bytes(map.def().value_size.into())?;
    let key = w.region().bytes(key, map.def().key_size.into())?;
    let value = w.region().bytes(value, map.def().value_size.into())?;
    let fields = &map.def().fields;
    if fields.iter().any(|field| is_ended_by_update(map, field))
        || (map.def().kind == kind::LRU_HASH && !fields.is_empty())
    {
        return update_references(w, map.addr(), key.to_vec(), value.to_vec(), flags);
    }
    let done = map.update(w.region(), &key, &value, flags, w.cpu())?;
    charge(w, map)?;
    Ok(done)
}

/// Returns whether an update of an element ends what this field of the old value holds: a timer, a
/// work item or a reference. All maps cancel timers and work items (bpf_obj_cancel_fields).
/// References are released only by maps that replace the whole element. Arrays and per-CPU maps
/// keep the references.
fn is_ended_by_update(map: &Map, field: &Field) -> bool {
    match field.kind {
        FieldKind::Timer | FieldKind::Workqueue => true,
        FieldKind::Kptr { .. } => matches!(map.def().kind, kind::HASH | kind::LRU_HASH),
        _ => false,
    }
}

/// Updates an element. Ends the timers, work items and references of the old value for which
/// [`is_ended_by_update`] is true. If the update evicts another element, everything that the
/// special fields of the evicted value own is released (bpf_obj_free_fields).
fn update_references<W: World>(
    w: &mut W,
    map_addr: u64,
    key: Vec<u8>,
    value: Vec<u8>,
    flags: u64,
) -> Result<i64, Fault> {
    let map = w.vm().map(map_addr)?;
    let ending = map.def().fields.iter().filter(|field| is_ended_by_update(map, field));
    let ending: Vec<_> = ending.cloned().collect();
    let old = map.lookup(w.region(), &key, w.cpu())?;
    let victim = map.victim(w.region(), &key, flags);
    if victim != 0 {
        let fields = map.def().fields.clone();
        drop_fields(w, &fields, victim);
    }
    let map = w.vm().map(map_addr)?;
    let done = map.update(w.region(), &key, &value, flags, w.cpu())?;
    charge(w, map)?;
    // With BPF_F_LOCK the value is changed in place, so its fields keep their references.
    if done == 0 && old != 0 && flags & BPF_F_LOCK == 0 {
        drop_fields(w, &ending, old);
    }
    Ok(done)
}

fn delete<W: World>(w: &mut W, map: u64, key: u64) -> Result<i64, Fault> {
    let index = w.vm().map_index(map)?;
    reject_map_of_maps(&w.vm().maps()[index], "bpf_map_delete_elem#3")?;
    let key_size = w.vm().maps()[index].def().key_size;
    let key = w.region().bytes(key, key_size.into())?.to_vec();
    let mut fields = w.vm().maps()[index].def().fields.clone();
    let mut kptrs = None;
    if !fields.is_empty() {
        let value = w.vm().maps()[index].lookup(w.region(), &key, 0)?;
        if value != 0 {
            if w.keeps_kptrs() && w.vm().maps()[index].is_preallocated() {
                kptrs = Some(kptrs_of(w, &fields, value)?);
                fields.retain(|field| !matches!(field.kind, FieldKind::Kptr { .. }));
            }
            drop_fields(w, &fields, value);
        }
    }
    let map = &w.vm().maps()[index];
    let done = match kptrs {
        Some(kptrs) => map.delete_with_kptrs(w.region(), &key, w.cpu(), kptrs)?,
        None => map.delete(w.region(), &key)?,
    };
    charge(w, map)?;
    Ok(done)
}

/// Returns the kptrs in a value.
fn kptrs_of<W: World>(w: &W, fields: &[Field], value: u64) -> Result<Kptrs, Fault> {
    let kptrs = fields
        .iter()
        .filter(|field| matches!(field.kind, FieldKind::Kptr { .. }));
    kptrs
        .map(|field| Ok((field.offset, w.region().load(value + u64::from(field.offset))?)))
        .collect()
}

/// Rejects maps of maps, because programs may only look up their elements
/// (check_map_func_compatibility).
fn reject_map_of_maps(map: &Map, func: &str) -> Result<(), Fault> {
    match map.def().kind {
        kind @ (kind::ARRAY_OF_MAPS | kind::HASH_OF_MAPS) => Err(cannot_pass(kind, func)),
        _ => Ok(()),
    }
}

fn push<W: World>(w: &mut W, map: u64, value: u64, flags: u64) -> Result<i64, Fault> {
    let map = w.vm().map(map)?;
    w.vm().charge_bytes(map.def().value_size.into())?;
    map.push(
        w.region(),
        &w.region().bytes(value, map.def().value_size.into())?,
        flags,
    )
}

fn pop<W: World>(w: &mut W, map: u64, value: u64, peek: bool) -> Result<i64, Fault> {
    let map = w.vm().map(map)?;
    w.vm().charge_bytes(map.def().value_size.into())?;
    map.pop(w.region(), value, peek)
}

/// Returns the error of an access to a perf event. Which error it is depends only on the index,
/// because the simulator never opens a perf event.
fn perf_event<W: World>(w: &mut W, map: u64, flags: u64) -> Result<i64, Fault> {
    let entries = u64::from(w.vm().map(map)?.def().max_entries);
    if flags & !BPF_F_INDEX_MASK != 0 {
        return Ok(-EINVAL);
    }
    let index = match flags {
        BPF_F_CURRENT_CPU => u64::from(w.cpu()),
        index => index,
    };
    Ok(if index >= entries { -E2BIG } else { -ENOENT })
}

fn perf_event_read_value<W: World>(w: &mut W, map: u64, flags: u64, buf: u64, size: u32) -> Result<i64, Fault> {
    w.vm().charge_bytes(size.into())?;
    w.region().fill(buf, size.into(), 0)?;
    match size {
        PERF_EVENT_VALUE_SIZE => perf_event(w, map, flags),
        _ => Ok(-EINVAL),
    }
}

fn perf_event_output<W: World>(w: &mut W, _ctx: u64, map: u64, flags: u64, data: u64, size: u64) -> Result<i64, Fault> {
    w.vm().charge_bytes(size)?;
    w.region().check(data, size, false)?;
    perf_event(w, map, flags)
}

fn per_cpu_ptr<W: World>(w: &mut W, ptr: u64, cpu: u32) -> u64 {
    if ptr == 0 || cpu >= w.nr_cpu_ids() {
        return 0;
    }
    let allocated = w.vm().state().borrow().percpu.get(&ptr).copied();
    let offset = allocated.map_or_else(|| w.per_cpu_offset(cpu), |stride| stride * u64::from(cpu));
    ptr.wrapping_add(offset)
}

/// A helper for local storage: the type of map that it accepts, and the name of the helper in the
/// kernel's messages (check_map_func_compatibility).
type StorageFunction = (u32, &'static str);
const TASK_GET: StorageFunction = (kind::TASK_STORAGE, "bpf_task_storage_get#156");
const TASK_DELETE: StorageFunction = (kind::TASK_STORAGE, "bpf_task_storage_delete#157");
const CGRP_GET: StorageFunction = (kind::CGRP_STORAGE, "bpf_cgrp_storage_get#210");
const CGRP_DELETE: StorageFunction = (kind::CGRP_STORAGE, "bpf_cgrp_storage_delete#211");

#[inline]
fn check_storage_map(map: &Map, (kind, func): StorageFunction) -> Result<(), Fault> {
    match map.def().kind == kind {
        true => Ok(()),
        false => Err(cannot_pass(map.def().kind, func)),
    }
}

#[cold]
fn cannot_pass(kind: u32, func: &str) -> Fault {
    Fault::func(format!("cannot pass map_type {kind} into func {func}"))
}

fn storage_get<W: World>(
    w: &mut W,
    func: StorageFunction,
    map: u64,
    owner: u64,
    value: u64,
    flags: u64,
) -> Result<u64, Fault> {
    let map = w.vm().map(map)?;
    check_storage_map(map, func)?;
    if flags & !BPF_LOCAL_STORAGE_GET_F_CREATE != 0 || owner == 0 {
        return Ok(0);
    }
    let create = flags & BPF_LOCAL_STORAGE_GET_F_CREATE != 0;
    let init = match value {
        0 => None,
        _ => Some(w.region().bytes(value, map.def().value_size.into())?),
    };
    let found = map.storage_get(w.region(), owner, None, false)?;
    if found != 0 || !create || !w.can_own_storage(func.0, owner)? {
        return Ok(found);
    }
    w.vm().charge_bytes(map.def().value_size.into())?;
    map.storage_get(w.region(), owner, init.as_deref(), true)
}

fn storage_delete<W: World>(w: &mut W, func: StorageFunction, map: u64, owner: u64) -> Result<i64, Fault> {
    let index = w.vm().map_index(map)?;
    check_storage_map(&w.vm().maps()[index], func)?;
    if owner == 0 {
        return Ok(-EINVAL);
    }
    Vm::drop_storage(w, index, owner)
}

/// Calls `callback(map, key, value, ctx)` for each element until the callback returns nonzero.
/// Returns the number of calls.
fn for_each<W: World>(w: &mut W, map: u64, callback: u64, ctx: u64, flags: u64) -> Result<i64, Fault> {
    if flags != 0 {
        return Ok(-EINVAL);
    }
    let index = w.vm().map_index(map)?;
    let (mut cursor, mut calls) = (0, 0);
    while let Some((next, key, value)) = w.vm().maps()[index].next(w.region(), cursor, w.cpu())? {
        cursor = next;
        calls += 1;
        charge(w, &w.vm().maps()[index])?;
        let stop = Vm::with_stack(w, &key, |w, key| {
            Vm::call_address(w, callback, [map, key, value, ctx, 0])
        })?;
        if stop != 0 {
            break;
        }
    }
    Ok(calls)
}

fn arena_alloc_pages<W: World>(
    w: &mut W,
    map: u64,
    addr: u64,
    pages: u32,
    node: i32,
    flags: u64,
) -> Result<u64, Fault> {
    let no_such_node = node != NO_NODE && u32::try_from(node).map_or(true, |node| node >= w.nr_node_ids());
    if flags != 0 || no_such_node {
        return Ok(0);
    }
    let map = w.vm().map(map)?;
    let allocated = map.alloc_pages(w.region(), addr, pages)?;
    charge(w, map)?;
    Ok(allocated)
}

fn arena_free_pages<W: World>(w: &mut W, map: u64, addr: u64, pages: u32) -> Result<(), Fault> {
    if addr == 0 {
        return Ok(());
    }
    let map = w.vm().map(map)?;
    map.free_pages(w.region(), addr, pages)?;
    charge(w, map)
}
