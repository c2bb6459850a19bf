// SPDX-License-Identifier: GPL-2.0-only
//! CPU masks: bitmaps with one bit per CPU id of the machine. The number of bits is rounded up to a
//! multiple of 64. The masks that a policy creates are objects of this size. The reference counts
//! of these objects are stored outside of program memory.

use crate::engine::func::Func;
use crate::engine::world::World;
use crate::errno::long::*;
use crate::fault::Fault;
use crate::memory::Use;
use crate::rows::*;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    crate::kfuncs! {
        "struct bpf_cpumask *bpf_cpumask_create(void)"
        { releases: V6_12.., contexts: ANY, rules: does(CpumaskCreate).ret_null(), native: CALL, run: create }
        "struct bpf_cpumask *bpf_cpumask_acquire(struct bpf_cpumask *cpumask)"
        { releases: V6_12.., contexts: ANY, rules: does(Acquire), native: CALL, run: acquire }
        "void bpf_cpumask_release(struct bpf_cpumask *cpumask)"
        { releases: V6_12.., contexts: ANY, rules: does(Release), native: CALL, run: release }
        "u32 bpf_cpumask_first(const struct cpumask *cpumask)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: 6,
          run: |w: &mut W, mask: u64| find(w, 0, |w, i| word(w, mask, i)) }
        "u32 bpf_cpumask_first_zero(const struct cpumask *cpumask)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, mask: u64| find(w, 0, |w, i| Ok(!word(w, mask, i)?)) }
        "u32 bpf_cpumask_first_and(const struct cpumask *src1, const struct cpumask *src2)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, a: u64, b: u64| find(w, 0, |w, i| Ok(word(w, a, i)? & word(w, b, i)?)) }
        "void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *cpumask)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, c: u32, m: u64| change(w, c, m, |old, bit| old | bit).map(|_| ()) }
        "void bpf_cpumask_clear_cpu(u32 cpu, struct bpf_cpumask *cpumask)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, c: u32, m: u64| change(w, c, m, |old, bit| old & !bit).map(|_| ()) }
        "bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *cpumask)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: 2, run: |w: &mut W, c: u32, m: u64| test(w, c, m) }
        "bool bpf_cpumask_test_and_set_cpu(u32 cpu, struct bpf_cpumask *cpumask)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, c: u32, m: u64| change(w, c, m, |old, bit| old | bit) }
        "bool bpf_cpumask_test_and_clear_cpu(u32 cpu, struct bpf_cpumask *cpumask)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, c: u32, m: u64| change(w, c, m, |old, bit| old & !bit) }
        "void bpf_cpumask_setall(struct bpf_cpumask *cpumask)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, mask: u64| fill(w, mask, |_, _| Ok(u64::MAX)).map(|_| ()) }
        "void bpf_cpumask_clear(struct bpf_cpumask *cpumask)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, mask: u64| fill(w, mask, |_, _| Ok(0)).map(|_| ()) }
        "bool bpf_cpumask_and(struct bpf_cpumask *dst, const struct cpumask *src1, const struct cpumask *src2)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: 4,
          run: |w: &mut W, to: u64, a: u64, b: u64| fill(w, to, |w, i| Ok(word(w, a, i)? & word(w, b, i)?)) }
        "void bpf_cpumask_or(struct bpf_cpumask *dst, const struct cpumask *src1, const struct cpumask *src2)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, to: u64, a: u64, b: u64|
              fill(w, to, |w, i| Ok(word(w, a, i)? | word(w, b, i)?)).map(|_| ()) }
        "void bpf_cpumask_xor(struct bpf_cpumask *dst, const struct cpumask *src1, const struct cpumask *src2)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, to: u64, a: u64, b: u64|
              fill(w, to, |w, i| Ok(word(w, a, i)? ^ word(w, b, i)?)).map(|_| ()) }
        "void bpf_cpumask_copy(struct bpf_cpumask *dst, const struct cpumask *src)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, to: u64, from: u64| fill(w, to, |w, i| word(w, from, i)).map(|_| ()) }
        "bool bpf_cpumask_equal(const struct cpumask *src1, const struct cpumask *src2)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, a: u64, b: u64| all(w, |w, i| Ok(word(w, a, i)? == word(w, b, i)?)) }
        "bool bpf_cpumask_intersects(const struct cpumask *src1, const struct cpumask *src2)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, a: u64, b: u64| all(w, |w, i| Ok(word(w, a, i)? & word(w, b, i)? == 0)).map(|apart| !apart) }
        "bool bpf_cpumask_subset(const struct cpumask *src1, const struct cpumask *src2)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, a: u64, b: u64| all(w, |w, i| Ok(word(w, a, i)? & !word(w, b, i)? == 0)) }
        "bool bpf_cpumask_empty(const struct cpumask *cpumask)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, mask: u64| all(w, |w, i| Ok(word(w, mask, i)? == 0)) }
        "bool bpf_cpumask_full(const struct cpumask *cpumask)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, mask: u64| all(w, |w, i| Ok(word(w, mask, i)? == valid(w, i))) }
        "u32 bpf_cpumask_any_distribute(const struct cpumask *cpumask)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL,
          run: |w: &mut W, mask: u64| distribute(w, mask, mask) }
        "u32 bpf_cpumask_any_and_distribute(const struct cpumask *src1, const struct cpumask *src2)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL, run: distribute }
        "u32 bpf_cpumask_weight(const struct cpumask *cpumask)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL, run: weight }
        "int bpf_cpumask_populate(struct bpf_cpumask *cpumask, void *src, size_t src__sz)"
        { releases: V6_15.., contexts: ANY, rules: PLAIN, native: CALL, run: populate }
    }
}

/// The work on a mask is charged only if the mask has more 64-bit words than this.
const FEW_WORDS: u32 = 8;

/// Charges the program for a function that reads or writes a whole mask.
fn charge<W: World>(w: &W) -> Result<(), Fault> {
    match words(w) {
        ..=FEW_WORDS => Ok(()),
        words => w.vm().charge(words.into()),
    }
}

/// Returns the number of 64-bit words of a mask.
fn words<W: World>(w: &W) -> u32 {
    w.nr_cpu_ids().div_ceil(64)
}

/// Returns word `i` of a mask in which the bits of all CPU ids are set.
fn valid<W: World>(w: &W, i: u32) -> u64 {
    match w.nr_cpu_ids() - i * 64 {
        nr if nr >= 64 => u64::MAX,
        nr => (1 << nr) - 1,
    }
}

/// Returns 64-bit word `i` of a mask, without the bits beyond the last CPU id.
fn word<W: World>(w: &W, mask: u64, i: u32) -> Result<u64, Fault> {
    let addr = mask.wrapping_add(u64::from(i) * 8);
    let bits = w.region().load::<u64>(addr)?;
    w.vm().load_line(w.cpu(), addr);
    Ok(bits & valid(w, i))
}

/// Finds the first set bit at or after `start`. `bits` returns a word by its index. Returns
/// nr_cpu_ids if there is no set bit.
fn find<W: World>(w: &mut W, start: u32, bits: impl Fn(&W, u32) -> Result<u64, Fault>) -> Result<u32, Fault> {
    charge(w)?;
    let nr = w.nr_cpu_ids();
    let mut at = start;
    while at < nr {
        let rest = (bits(w, at / 64)? & valid(w, at / 64)) >> (at % 64);
        if rest != 0 {
            return Ok(at + rest.trailing_zeros());
        }
        at = (at / 64 + 1) * 64;
    }
    Ok(nr)
}

/// Returns whether `is` returns true for the index of every word of a mask.
fn all<W: World>(w: &mut W, is: impl Fn(&W, u32) -> Result<bool, Fault>) -> Result<bool, Fault> {
    charge(w)?;
    for i in 0..words(w) {
        if !is(w, i)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sets all words of a mask to the values that `bits` returns. Returns whether any bit is then set.
fn fill<W: World>(w: &mut W, mask: u64, bits: impl Fn(&W, u32) -> Result<u64, Fault>) -> Result<bool, Fault> {
    charge(w)?;
    let mut any = 0;
    for i in 0..words(w) {
        let word = bits(w, i)? & valid(w, i);
        let addr = mask.wrapping_add(u64::from(i) * 8);
        w.region().store(addr, word)?;
        w.vm().store_line(w.cpu(), addr);
        any |= word;
    }
    Ok(any != 0)
}

/// Changes the bit of a CPU and returns the old bit. Invalid CPU ids are ignored, as in the kernel.
fn change<W: World>(w: &mut W, cpu: u32, mask: u64, new: impl Fn(u64, u64) -> u64) -> Result<bool, Fault> {
    if cpu >= w.nr_cpu_ids() {
        return Ok(false);
    }
    let addr = mask.wrapping_add(u64::from(cpu / 64) * 8);
    let (old, bit) = (w.region().load::<u64>(addr)?, 1 << (cpu % 64));
    w.region().store(addr, new(old, bit))?;
    w.vm().store_line(w.cpu(), addr);
    Ok(old & bit != 0)
}

fn test<W: World>(w: &mut W, cpu: u32, mask: u64) -> Result<bool, Fault> {
    Ok(cpu < w.nr_cpu_ids() && word(w, mask, cpu / 64)? >> (cpu % 64) & 1 != 0)
}

fn weight<W: World>(w: &mut W, mask: u64) -> Result<u32, Fault> {
    charge(w)?;
    (0..words(w)).map(|i| word(w, mask, i).map(u64::count_ones)).sum()
}

/// Returns a CPU that is in both masks. If several CPUs are in both masks, successive calls on one
/// CPU return them in turn.
fn distribute<W: World>(w: &mut W, a: u64, b: u64) -> Result<u32, Fault> {
    let common = |w: &W, i| Ok(word(w, a, i)? & word(w, b, i)?);
    let mut cpu = find(w, w.distributed_cpu() + 1, common)?;
    if cpu >= w.nr_cpu_ids() {
        cpu = find(w, 0, common)?;
    }
    if cpu < w.nr_cpu_ids() {
        w.set_distributed_cpu(cpu);
    }
    Ok(cpu)
}

fn populate<W: World>(w: &mut W, mask: u64, from: u64, size: u64) -> Result<i64, Fault> {
    if size < u64::from(words(w)) * 8 {
        return Ok(-EACCES);
    }
    fill(w, mask, |w, i| word(w, from, i))?;
    Ok(0)
}

/// Allocates an empty mask with one reference. Returns NULL if the host cannot provide the memory.
///
/// # Errors
/// The run's memory limit is reached. The error is the fault that ends the policy.
pub fn create<W: World>(w: &mut W) -> Result<u64, Fault> {
    let Some(mask) = w.region().alloc(u64::from(words(w)) * 8) else {
        return w.region().memory().refused(0);
    };
    w.region().memory().charge_record(Use::Records)?;
    w.vm().state().borrow_mut().cpumasks.insert(mask, 1);
    Ok(mask)
}

fn acquire<W: World>(w: &mut W, mask: u64) -> Result<u64, Fault> {
    match w.vm().state().borrow_mut().cpumasks.get_mut(&mask) {
        Some(references) => *references += 1,
        None => return Err(Fault::func(format!("{mask:#x} is not a bpf_cpumask"))),
    }
    Ok(mask)
}

/// Drops a reference to a mask. Frees the mask if this was its last reference.
pub(crate) fn release<W: World>(w: &mut W, mask: u64) -> Result<(), Fault> {
    {
        let mut state = w.vm().state().borrow_mut();
        let Some(references) = state.cpumasks.get_mut(&mask) else {
            return Err(Fault::func(format!(
                "{mask:#x} is not a bpf_cpumask: was it released twice?"
            )));
        };
        *references -= 1;
        if *references > 0 {
            return Ok(());
        }
        state.cpumasks.remove(&mask);
    }
    w.region().memory().uncharge_records(Use::Records, 1);
    w.region().free(mask);
    Ok(())
}
