// SPDX-License-Identifier: GPL-2.0-only
//! Helpers that return the time, the CPU, the running task and random numbers.

use crate::engine::func::Func;
use crate::engine::world::World;
use crate::fault::Fault;
use crate::rows::*;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    let now = |w: &mut W| w.now_ns();
    crate::helpers! {
        5 "bpf_ktime_get_ns"
        { args: [], returns: Number, rules: PLAIN, native: 2, run: now }
        7 "bpf_get_prandom_u32"
        { args: [], returns: Number, rules: PLAIN, native: CALL, run: |w: &mut W| w.prandom_u32() }
        8 "bpf_get_smp_processor_id"
        { args: [], returns: Number, rules: PLAIN, native: 1, run: |w: &mut W| w.cpu() }
        14 "bpf_get_current_pid_tgid"
        { args: [], returns: Number, rules: PLAIN, native: CALL, run: |w: &mut W| w.current_pid_tgid() }
        15 "bpf_get_current_uid_gid"
        { args: [], returns: Number, rules: PLAIN, native: CALL, run: |_: &mut W| 0u64 }
        16 "bpf_get_current_comm"
        { args: [write(2), V], returns: Number, rules: PLAIN, native: CALL, run: current_comm }
        35 "bpf_get_current_task"
        { args: [], returns: Number, rules: PLAIN, native: CALL, run: |w: &mut W| w.current_task() }
        118 "bpf_jiffies64"
        { args: [], returns: Number, rules: PLAIN, native: CALL, run: |w: &mut W| w.jiffies() }
        125 "bpf_ktime_get_boot_ns"
        { args: [], returns: Number, rules: PLAIN, native: CALL, run: now }
        158 "bpf_get_current_task_btf"
        { args: [], returns: Pointer, rules: PLAIN, native: 1, run: |w: &mut W| w.current_task() }
        160 "bpf_ktime_get_coarse_ns"
        { args: [], returns: Number, rules: PLAIN, native: CALL, run: |w: &mut W| w.coarse_ns() }
        208 "bpf_ktime_get_tai_ns"
        { args: [], returns: Number, rules: PLAIN, native: CALL, run: now }
    }
}

fn current_comm<W: World>(w: &mut W, to: u64, size: u32) -> Result<i64, Fault> {
    let comm = w.current_comm();
    w.vm().charge_bytes(size.into())?;
    let mut name = comm[..comm.len().min(size as usize)].to_vec();
    // The last byte of the buffer is NUL even if the name is longer.
    if name.len() == size as usize
        && let Some(last) = name.last_mut()
    {
        *last = 0;
    }
    w.region().fill(to, size.into(), 0)?;
    w.region().write(to, &name)?;
    Ok(0)
}
