// SPDX-License-Identifier: GPL-2.0-only
//! Helpers and kfuncs for ring buffers and dynptrs. A dynptr is a pointer with a size. It refers to
//! one of three things: the program's own memory, a ring buffer record that the program is writing,
//! or a sample (a record) of a user ring buffer.

use crate::engine::func::Func;
use crate::engine::vm::Vm;
use crate::engine::world::World;
use crate::errno::long::*;
use crate::fault::Fault;
use crate::rows::*;
use bytemuck::{Pod, Zeroable};

/// A `struct bpf_dynptr`: the address of some memory (0 for a NULL dynptr), and size and offset of
/// the part of this memory to which the dynptr refers. The struct lies in the program's memory, so
/// its contents cannot be trusted. Accesses through a dynptr are therefore checked like all others.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Dynptr {
    data: u64,
    size: u32,
    offset: u32,
}

const NULL: Dynptr = Dynptr {
    data: 0,
    size: 0,
    offset: 0,
};
/// Maximum size of a dynptr's memory in bytes: DYNPTR_MAX_SIZE.
const MAX_SIZE: u64 = (1 << 24) - 1;
/// BPF_RB_NO_WAKEUP and BPF_RB_FORCE_WAKEUP.
const WAKEUP_FLAGS: u64 = 3;
/// Maximum number of samples that one call of bpf_user_ringbuf_drain handles.
const MAX_SAMPLES: u64 = 128 * 1024;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    let mut table = crate::helpers! {
        130 "bpf_ringbuf_output"
        { args: [V, read(3), V, V], returns: Number, rules: PLAIN, native: CALL, run: output }
        131 "bpf_ringbuf_reserve"
        { args: [V, V, V], returns: PointerOrNull, rules: does(Reserve), native: CALL, run: reserve }
        132 "bpf_ringbuf_submit"
        { args: [V, V], returns: Nothing, rules: does(Release), native: CALL,
          run: |w: &mut W, addr: u64, flags: u64| commit(w, addr, false, flags) }
        133 "bpf_ringbuf_discard"
        { args: [V, V], returns: Nothing, rules: does(Release), native: CALL,
          run: |w: &mut W, addr: u64, flags: u64| commit(w, addr, true, flags) }
        134 "bpf_ringbuf_query"
        { args: [V, V], returns: Number, rules: PLAIN, native: CALL, run: query }
        197 "bpf_dynptr_from_mem"
        { args: [MapMemory(Len::Arg(2)), V, V, MAKE_DYNPTR], returns: Number, rules: PLAIN, native: CALL,
          run: from_mem }
        198 "bpf_ringbuf_reserve_dynptr"
        { args: [V, V, V, MAKE_DYNPTR], returns: Number, rules: does(DynptrReserve), native: CALL, run: reserve_dynptr }
        199 "bpf_ringbuf_submit_dynptr"
        { args: [DYNPTR, V], returns: Nothing, rules: does(DynptrSubmit), native: CALL,
          run: |w: &mut W, dynptr: u64, flags: u64| commit_dynptr(w, dynptr, false, flags) }
        200 "bpf_ringbuf_discard_dynptr"
        { args: [DYNPTR, V], returns: Nothing, rules: does(DynptrSubmit), native: CALL,
          run: |w: &mut W, dynptr: u64, flags: u64| commit_dynptr(w, dynptr, true, flags) }
        201 "bpf_dynptr_read"
        { args: [write(2), V, DYNPTR, V, V], returns: Number, rules: PLAIN, native: CALL, run: dynptr_read }
        202 "bpf_dynptr_write"
        { args: [DYNPTR, V, read(4), V, V], returns: Number, rules: PLAIN, native: CALL, run: dynptr_write }
        203 "bpf_dynptr_data"
        { args: [DYNPTR, V, V], returns: PointerOrNull, rules: does(Slice(3)), native: CALL, run: data }
        209 "bpf_user_ringbuf_drain"
        { args: [V, V, V, V], returns: Number, rules: PLAIN.calls_back_with(2, 1, 2), native: CALL,
          run: user_ringbuf_drain }
    };
    table.extend(crate::kfuncs! {
        "void *bpf_dynptr_slice(const struct bpf_dynptr *p, u64 offset, void *buffer__nullable, u64 buffer__szk)"
        { releases: V6_12.., contexts: ANY, rules: does(Slice(4)).ret_null(), native: CALL,
          run: |w: &mut W, p: u64, offset: u64, _buffer: u64, len: u64| data(w, p, offset, len) }
        "void *bpf_dynptr_slice_rdwr(const struct bpf_dynptr *p, u64 offset, void *buffer__nullable, u64 buffer__szk)"
        { releases: V6_12.., contexts: ANY, rules: does(Slice(4)).ret_null(), native: CALL,
          run: |w: &mut W, p: u64, offset: u64, _buffer: u64, len: u64| data(w, p, offset, len) }
        "int bpf_dynptr_adjust(struct bpf_dynptr *p, u64 start, u64 end)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL, run: adjust }
        "bool bpf_dynptr_is_null(const struct bpf_dynptr *p)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, p: u64| Ok::<bool, Fault>(w.region().load::<Dynptr>(p)?.data == 0) }
        // The simulator creates no read-only dynptrs.
        "bool bpf_dynptr_is_rdonly(const struct bpf_dynptr *p)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL, run: |_: &mut W, _: u64| false }
        "u64 bpf_dynptr_size(const struct bpf_dynptr *p)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL, run: size }
        "int bpf_dynptr_clone(const struct bpf_dynptr *p, struct bpf_dynptr *clone__uninit)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL, run: clone }
        "int bpf_dynptr_copy(const struct bpf_dynptr *dst_ptr, u64 dst_off, const struct bpf_dynptr *src_ptr, \
         u64 src_off, u64 size)"
        { releases: V6_15.., contexts: ANY, rules: PLAIN, native: CALL, run: copy }
        "int bpf_dynptr_memset(const struct bpf_dynptr *p, u64 offset, u64 size, u8 val)"
        { releases: V6_17.., contexts: ANY, rules: PLAIN, native: CALL, run: memset }
    });
    table
}

fn reserve<W: World>(w: &mut W, map: u64, size: u64, flags: u64) -> Result<u64, Fault> {
    let ring = w.vm().map(map)?.ringbuf()?;
    match flags {
        0 => ring.borrow_mut().reserve(w.region(), size),
        _ => Ok(0),
    }
}

fn output<W: World>(w: &mut W, map: u64, data: u64, size: u64, flags: u64) -> Result<i64, Fault> {
    let ring = w.vm().map(map)?.ringbuf()?;
    if flags & !WAKEUP_FLAGS != 0 {
        return Ok(-EINVAL);
    }
    w.vm().charge_bytes(size)?;
    let data = w.region().bytes(data, size)?;
    let fits = ring.borrow_mut().produce(w.region(), &data, flags);
    let wakes = ring.borrow_mut().take_wake();
    if wakes {
        w.ring_posted();
    }
    if fits {
        Ok(0)
    } else {
        w.region().memory().refused(-EAGAIN)
    }
}

fn commit<W: World>(w: &mut W, addr: u64, discard: bool, flags: u64) -> Result<(), Fault> {
    for map in w.vm().maps() {
        if let Ok(ring) = map.ringbuf()
            && ring.borrow().contains(addr)
            && ring.borrow_mut().commit(w.region(), addr, discard, flags)
        {
            let wakes = ring.borrow_mut().take_wake();
            if wakes {
                w.ring_posted();
            }
            return Ok(());
        }
    }
    Err(Fault::func(format!(
        "{addr:#x} is not a reserved record of a ring buffer"
    )))
}

fn query<W: World>(w: &mut W, map: u64, property: u64) -> Result<u64, Fault> {
    Ok(w.vm().map(map)?.ringbuf()?.borrow().query(property))
}

/// Calls `callback(dynptr, ctx)` for each sample until the callback returns nonzero. Returns the
/// number of samples. Returns -EBUSY if the same ring buffer is already being drained, which means
/// that the callback of this drain makes the call.
fn user_ringbuf_drain<W: World>(w: &mut W, map: u64, callback: u64, ctx: u64, flags: u64) -> Result<i64, Fault> {
    let ring = w.vm().map(map)?.ringbuf()?;
    if flags & !WAKEUP_FLAGS != 0 {
        return Ok(-EINVAL);
    }
    if !ring.borrow_mut().begin_drain() {
        return Ok(-EBUSY);
    }
    let result = drain(w, map, callback, ctx);
    w.vm().map(map)?.ringbuf()?.borrow_mut().end_drain();
    result
}

fn drain<W: World>(w: &mut W, map: u64, callback: u64, ctx: u64) -> Result<i64, Fault> {
    let mut nr = 0;
    while nr < MAX_SAMPLES {
        let sample = w.vm().map(map)?.ringbuf()?.borrow_mut().consume(w.region());
        let Some((addr, len)) = sample else { break };
        nr += 1;
        let mut dynptr = [0; size_of::<Dynptr>()];
        dynptr[..8].copy_from_slice(&addr.to_le_bytes());
        dynptr[8..12].copy_from_slice(&(len as u32).to_le_bytes());
        if Vm::with_stack(w, &dynptr, |w, dynptr| {
            Vm::call_address(w, callback, [dynptr, ctx, 0, 0, 0])
        })? != 0
        {
            break;
        }
    }
    Ok(nr as i64)
}

/// Returns the address of the `len` bytes at `offset` in the memory of a dynptr. Returns `None` if
/// the dynptr is NULL or the bytes reach beyond its end.
fn range_address(dynptr: Dynptr, offset: u64, len: u64) -> Option<u64> {
    let fits = u64::from(dynptr.size)
        .checked_sub(len)
        .is_some_and(|most| offset <= most);
    (dynptr.data != 0 && fits).then(|| dynptr.data.wrapping_add(u64::from(dynptr.offset)).wrapping_add(offset))
}

/// Implements bpf_dynptr_data and the slices. Returns the address of the bytes, or 0 if they reach
/// beyond the end of the dynptr.
fn data<W: World>(w: &mut W, dynptr: u64, offset: u64, len: u64) -> Result<u64, Fault> {
    let dynptr = w.region().load::<Dynptr>(dynptr)?;
    Ok(range_address(dynptr, offset, len).unwrap_or(0))
}

fn from_mem<W: World>(w: &mut W, data: u64, size: u64, flags: u64, dynptr: u64) -> Result<i64, Fault> {
    let (made, result) = if size > MAX_SIZE {
        (NULL, -E2BIG)
    } else if flags != 0 {
        (NULL, -EINVAL)
    } else {
        w.vm().charge_bytes(size)?;
        w.region().check_writable(data, size)?;
        let size = size as u32;
        (Dynptr { data, size, offset: 0 }, 0)
    };
    w.region().store(dynptr, made)?;
    Ok(result)
}

fn reserve_dynptr<W: World>(w: &mut W, map: u64, size: u32, flags: u64, dynptr: u64) -> Result<i64, Fault> {
    w.region().store(dynptr, NULL)?;
    if flags != 0 {
        return Ok(-EINVAL);
    }
    if u64::from(size) > MAX_SIZE {
        return Ok(-E2BIG);
    }
    match reserve(w, map, size.into(), 0)? {
        0 => Ok(-EINVAL),
        data => {
            w.region().store(dynptr, Dynptr { data, size, offset: 0 })?;
            Ok(0)
        }
    }
}

fn commit_dynptr<W: World>(w: &mut W, dynptr: u64, discard: bool, flags: u64) -> Result<i64, Fault> {
    let record = w.region().load::<Dynptr>(dynptr)?.data;
    if record != 0 {
        commit(w, record, discard, flags)?;
        w.region().store(dynptr, NULL)?;
    }
    Ok(0)
}

fn dynptr_read<W: World>(w: &mut W, to: u64, len: u64, dynptr: u64, offset: u64, flags: u64) -> Result<i64, Fault> {
    let dynptr = w.region().load::<Dynptr>(dynptr)?;
    if dynptr.data == 0 || flags != 0 {
        return Ok(-EINVAL);
    }
    w.vm().charge_bytes(len)?;
    match range_address(dynptr, offset, len) {
        Some(from) => w.region().copy(to, from, len).map(|()| 0),
        None => Ok(-E2BIG),
    }
}

fn dynptr_write<W: World>(w: &mut W, dynptr: u64, offset: u64, from: u64, len: u64, flags: u64) -> Result<i64, Fault> {
    let dynptr = w.region().load::<Dynptr>(dynptr)?;
    w.vm().charge_bytes(len)?;
    match range_address(dynptr, offset, len) {
        _ if dynptr.data == 0 => Ok(-EINVAL),
        None => Ok(-E2BIG),
        Some(_) if flags != 0 => Ok(-EINVAL),
        Some(to) => w.region().copy(to, from, len).map(|()| 0),
    }
}

fn adjust<W: World>(w: &mut W, addr: u64, start: u64, end: u64) -> Result<i64, Fault> {
    let dynptr = w.region().load::<Dynptr>(addr)?;
    if dynptr.data == 0 || start > end {
        return Ok(-EINVAL);
    }
    if end > u64::from(dynptr.size) {
        return Ok(-ERANGE);
    }
    let adjusted = Dynptr {
        size: (end - start) as u32,
        offset: dynptr.offset.wrapping_add(start as u32),
        ..dynptr
    };
    w.region().store(addr, adjusted)?;
    Ok(0)
}

fn size<W: World>(w: &mut W, dynptr: u64) -> Result<i64, Fault> {
    let dynptr = w.region().load::<Dynptr>(dynptr)?;
    Ok(if dynptr.data == 0 { -EINVAL } else { dynptr.size.into() })
}

fn clone<W: World>(w: &mut W, dynptr: u64, to: u64) -> Result<i64, Fault> {
    let dynptr = w.region().load::<Dynptr>(dynptr)?;
    w.region().store(to, if dynptr.data == 0 { NULL } else { dynptr })?;
    Ok(if dynptr.data == 0 { -EINVAL } else { 0 })
}

/// Returns whether a range of bytes ends beyond the end of a dynptr. A NULL dynptr has size 0 here.
fn beyond(dynptr: Dynptr, offset: u64, len: u64) -> bool {
    u64::from(dynptr.size).checked_sub(len).is_none_or(|most| offset > most)
}

fn copy<W: World>(w: &mut W, dst: u64, dst_off: u64, src: u64, src_off: u64, len: u64) -> Result<i64, Fault> {
    let (dst, src) = (w.region().load::<Dynptr>(dst)?, w.region().load::<Dynptr>(src)?);
    w.vm().charge_bytes(len)?;
    match (range_address(dst, dst_off, len), range_address(src, src_off, len)) {
        (Some(to), Some(from)) => w.region().copy(to, from, len).map(|()| 0),
        (Some(_), None) if src.data == 0 => Ok(-EINVAL),
        (None, Some(_)) if dst.data == 0 => Ok(-EINVAL),
        (None, None) if !beyond(dst, dst_off, len) && !beyond(src, src_off, len) => Ok(0),
        _ => Ok(-E2BIG),
    }
}

fn memset<W: World>(w: &mut W, dynptr: u64, offset: u64, len: u64, value: u32) -> Result<i64, Fault> {
    let dynptr = w.region().load::<Dynptr>(dynptr)?;
    w.vm().charge_bytes(len)?;
    match range_address(dynptr, offset, len) {
        Some(at) => {
            w.region().fill(at, len, value as u8)?;
            Ok(0)
        }
        None if beyond(dynptr, offset, len) => Ok(-E2BIG),
        None => Ok(0),
    }
}
