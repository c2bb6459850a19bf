// SPDX-License-Identifier: GPL-2.0-only
//! Ring buffers, and the dynptrs through which a program sees the samples of a user ring buffer.

use crate::func::{Fault, Func, World};
use crate::map::errno::*;
use crate::vm::Vm;

/// `struct bpf_dynptr` as the kernel fills it: data, then size.
const DYNPTR: usize = 16;
/// bpf_user_ringbuf_drain handles at most this many samples in one call.
const MAX_SAMPLES: u64 = 128 * 1024;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    vec![
        Func::helper(130, "bpf_ringbuf_output", output),
        Func::helper(131, "bpf_ringbuf_reserve", reserve),
        Func::helper(132, "bpf_ringbuf_submit", |w: &mut W, addr: u64, _flags: u64| {
            commit(w, addr, false)
        }),
        Func::helper(133, "bpf_ringbuf_discard", |w: &mut W, addr: u64, _flags: u64| {
            commit(w, addr, true)
        }),
        Func::helper(134, "bpf_ringbuf_query", query),
        Func::helper(201, "bpf_dynptr_read", dynptr_read),
        Func::helper(203, "bpf_dynptr_data", dynptr_data),
        Func::helper(209, "bpf_user_ringbuf_drain", user_ringbuf_drain),
    ]
}

fn reserve<W: World>(w: &mut W, map: u64, size: u64, flags: u64) -> Result<u64, Fault> {
    let ring = w.vm().map(map)?.ringbuf()?;
    Ok(if flags != 0 { 0 } else { ring.borrow_mut().reserve(size) })
}

fn output<W: World>(w: &mut W, map: u64, data: u64, size: u64, _flags: u64) -> Result<i64, Fault> {
    let ring = w.vm().map(map)?.ringbuf()?;
    let data = w.region().bytes(data, size)?;
    let fits = ring.borrow_mut().produce(w.region(), data);
    Ok(if fits { 0 } else { -EAGAIN })
}

fn commit<W: World>(w: &mut W, addr: u64, discard: bool) -> Result<(), Fault> {
    for map in w.vm().maps() {
        if let Ok(ring) = map.ringbuf()
            && ring.borrow().contains(addr)
            && ring.borrow_mut().commit(addr, discard)
        {
            return Ok(());
        }
    }
    Err(Fault::func(format!(
        "{addr:#x} is not a reserved record of a ring buffer"
    )))
}

fn query<W: World>(w: &mut W, map: u64, what: u64) -> Result<u64, Fault> {
    Ok(w.vm().map(map)?.ringbuf()?.borrow().query(what))
}

/// Calls `callback(dynptr, ctx)` for each sample until it returns 1; the number of samples.
fn user_ringbuf_drain<W: World>(w: &mut W, map: u64, callback: u64, ctx: u64, _flags: u64) -> Result<i64, Fault> {
    let mut nr = 0;
    while nr < MAX_SAMPLES {
        let sample = w.vm().map(map)?.ringbuf()?.borrow_mut().consume();
        let Some((addr, len)) = sample else { break };
        nr += 1;
        let mut dynptr = [0; DYNPTR];
        dynptr[..8].copy_from_slice(&addr.to_le_bytes());
        dynptr[8..].copy_from_slice(&len.to_le_bytes());
        if Vm::with_stack(w, &dynptr, |w, dynptr| {
            Vm::call_address(w, callback, [dynptr, ctx, 0, 0, 0])
        })? != 0
        {
            break;
        }
    }
    Ok(nr as i64)
}

/// Address of `len` bytes at `offset`, 0 when they are not inside.
fn dynptr_data<W: World>(w: &mut W, dynptr: u64, offset: u32, len: u32) -> Result<u64, Fault> {
    let (data, size) = (w.region().load::<u64>(dynptr)?, w.region().load::<u64>(dynptr + 8)?);
    let end = u64::from(offset) + u64::from(len);
    Ok(if data == 0 || end > size {
        0
    } else {
        data + u64::from(offset)
    })
}

fn dynptr_read<W: World>(w: &mut W, to: u64, len: u32, dynptr: u64, offset: u32, _flags: u64) -> Result<i64, Fault> {
    let from = dynptr_data(w, dynptr, offset, len)?;
    if from == 0 {
        return Ok(-E2BIG);
    }
    w.region().check(from, len.into(), false)?;
    w.region().check(to, len.into(), true)?;
    // SAFETY: both were checked just now; they may overlap.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, len as usize) };
    Ok(0)
}
