// SPDX-License-Identifier: GPL-2.0-only
//! Time, the CPU, the running task, random numbers.

use crate::engine::func::Func;
use crate::engine::world::World;
use crate::fault::Fault;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    let now = |w: &mut W| w.now_ns();
    vec![
        Func::helper(5, "bpf_ktime_get_ns", now),
        Func::helper(7, "bpf_get_prandom_u32", |w: &mut W| w.prandom_u32()),
        Func::helper(8, "bpf_get_smp_processor_id", |w: &mut W| w.cpu()),
        Func::helper(14, "bpf_get_current_pid_tgid", |w: &mut W| w.current_pid_tgid()),
        Func::helper(15, "bpf_get_current_uid_gid", |_: &mut W| 0u64),
        Func::helper(16, "bpf_get_current_comm", current_comm),
        Func::helper(35, "bpf_get_current_task", |w: &mut W| w.current_task()),
        Func::helper(118, "bpf_jiffies64", |w: &mut W| w.jiffies()),
        Func::helper(125, "bpf_ktime_get_boot_ns", now),
        Func::helper(158, "bpf_get_current_task_btf", |w: &mut W| w.current_task()),
        Func::helper(160, "bpf_ktime_get_coarse_ns", |w: &mut W| w.coarse_ns()),
        Func::helper(208, "bpf_ktime_get_tai_ns", now),
    ]
}

fn current_comm<W: World>(w: &mut W, to: u64, size: u32) -> Result<i64, Fault> {
    let comm = w.current_comm();
    w.vm().charge_bytes(size.into())?;
    let to = w.region().bytes_mut(to, size.into())?;
    to.fill(0);
    let nr = to.len().min(16);
    to[..nr].copy_from_slice(&comm[..nr]);
    if let Some(last) = to.last_mut() {
        *last = 0;
    }
    Ok(0)
}
