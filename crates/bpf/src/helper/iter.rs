// SPDX-License-Identifier: GPL-2.0-only
//! Helpers and kfuncs for loops: bpf_loop, and the iterators over numbers and bits.

use super::read::may_be_kernel;
use crate::engine::func::Func;
use crate::engine::vm::Vm;
use crate::engine::world::World;
use crate::errno::long::*;
use crate::fault::Fault;
use crate::insn::MAX_LOOPS;
use crate::memory::Use;
use crate::rows::*;
use bytemuck::{Pod, Zeroable};

/// Maximum number of words of a bit iterator: BITS_ITER_NR_WORDS_MAX.
const MAX_WORDS: u32 = 511;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    let mut table = crate::helpers! {
        181 "bpf_loop"
        { args: [V, V, V, V], returns: Number, rules: PLAIN.calls_back_with(2, 1, 2), native: CALL, run: bpf_loop }
    };
    table.extend(crate::kfuncs! {
        "int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end)"
        { releases: V6_12.., contexts: ANY, rules: does(IterNew).under_lock(), native: 1, run: num_new }
        "int *bpf_iter_num_next(struct bpf_iter_num *it)"
        { releases: V6_12.., contexts: ANY, rules: does(IterNext).ret_null().under_lock(), native: 2, run: num_next }
        "void bpf_iter_num_destroy(struct bpf_iter_num *it)"
        { releases: V6_12.., contexts: ANY, rules: does(IterDestroy).under_lock(), native: 0, run: num_destroy }
        "int bpf_iter_bits_new(struct bpf_iter_bits *it, const u64 *unsafe_ptr__ign, u32 nr_words)"
        { releases: V6_12.., contexts: ANY, rules: does(IterNew), native: CALL, run: bits_new }
        "int *bpf_iter_bits_next(struct bpf_iter_bits *it)"
        { releases: V6_12.., contexts: ANY, rules: does(IterNext).ret_null(), native: CALL, run: bits_next }
        "void bpf_iter_bits_destroy(struct bpf_iter_bits *it)"
        { releases: V6_12.., contexts: ANY, rules: does(IterDestroy), native: CALL, run: bits_destroy }
    });
    table
}

/// Calls `callback(i, ctx)` for each i below `nr` until the callback returns nonzero. Returns the
/// number of calls.
fn bpf_loop<W: World>(w: &mut W, nr: u32, callback: u64, ctx: u64, flags: u64) -> Result<i64, Fault> {
    if flags != 0 {
        return Ok(-EINVAL);
    }
    if nr > MAX_LOOPS {
        return Ok(-E2BIG);
    }
    for i in 0..nr {
        if Vm::call_address(w, callback, [u64::from(i), ctx, 0, 0, 0])? != 0 {
            return Ok(i64::from(i) + 1);
        }
    }
    Ok(i64::from(nr))
}

/// Initialises an iterator over numbers. It consists of two ints: the current value and the end.
fn num_new<W: World>(w: &mut W, it: u64, start: i32, end: i32) -> Result<i64, Fault> {
    let error = if start > end {
        EINVAL
    } else if i64::from(end) - i64::from(start) > i64::from(MAX_LOOPS) {
        E2BIG
    } else {
        w.region().store(it, [start.wrapping_sub(1), end])?;
        return Ok(0);
    };
    w.region().store(it, [0i32, 0])?;
    Ok(-error)
}

fn num_next<W: World>(w: &mut W, it: u64) -> Result<u64, Fault> {
    let [current, end] = w.region().load::<[i32; 2]>(it)?;
    let next = current.wrapping_add(1);
    if next >= end {
        w.region().store(it, [0i32, 0])?;
        return Ok(0);
    }
    w.region().store(it, next)?;
    Ok(it)
}

fn num_destroy<W: World>(w: &mut W, it: u64) -> Result<(), Fault> {
    w.region().store(it, [0i32, 0])
}

/// A `struct bpf_iter_bits`. `bits` contains the bits themselves, or the address of a copy of them
/// if there are more than 64.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Bits {
    bits: u64,
    nr: u32,
    bit: i32,
}

fn bits_new<W: World>(w: &mut W, it: u64, bits: u64, words: u32) -> Result<i64, Fault> {
    w.region().store(
        it,
        Bits {
            bits: 0,
            nr: 0,
            bit: -1,
        },
    )?;
    if bits == 0 || words == 0 {
        return Ok(-EINVAL);
    }
    if words > MAX_WORDS {
        return Ok(-E2BIG);
    }
    w.vm().charge_bytes(u64::from(words) * 8)?;
    let Ok(source) = w.region().bytes(bits, u64::from(words) * 8) else {
        let no_kernel_memory = words > 1 && !may_be_kernel(w.region(), bits);
        return Ok(if no_kernel_memory { -ERANGE } else { -EFAULT });
    };
    let bits = if words == 1 {
        w.region().load(bits)?
    } else {
        let Some(copy) = w.region().alloc(u64::from(words) * 8) else {
            return w.region().memory().refused(-ENOMEM);
        };
        w.region().memory().charge_record(Use::Records)?;
        w.region().write(copy, &source)?;
        w.vm().state().borrow_mut().bits.insert(copy);
        copy
    };
    w.region().store(
        it,
        Bits {
            bits,
            nr: words * 64,
            bit: -1,
        },
    )?;
    Ok(0)
}

fn bits_next<W: World>(w: &mut W, it: u64) -> Result<u64, Fault> {
    let mut state = w.region().load::<Bits>(it)?;
    let mut bit = state.bit.wrapping_add(1) as u32;
    while bit < state.nr {
        let word = match state.nr {
            64 => state.bits,
            _ => w
                .region()
                .load::<u64>(state.bits.wrapping_add(u64::from(bit / 64) * 8))?,
        };
        let rest = word >> (bit % 64);
        if rest != 0 {
            state.bit = (bit + rest.trailing_zeros()) as i32;
            w.region().store(it, state)?;
            return Ok(it + std::mem::offset_of!(Bits, bit) as u64);
        }
        bit = (bit / 64 + 1).saturating_mul(64);
        w.vm().charge(1)?;
    }
    state.bit = state.nr as i32;
    w.region().store(it, state)?;
    Ok(0)
}

fn bits_destroy<W: World>(w: &mut W, it: u64) -> Result<(), Fault> {
    let state = w.region().load::<Bits>(it)?;
    // The iterator lies in the program's memory, so its contents cannot be trusted.
    if w.vm().state().borrow_mut().bits.remove(&state.bits) {
        w.region().memory().uncharge_records(Use::Records, 1);
        w.region().free(state.bits);
    }
    w.region().store(
        it,
        Bits {
            bits: 0,
            nr: 0,
            bit: -1,
        },
    )
}
