// SPDX-License-Identifier: GPL-2.0-only
//! CPUs by cid: numbers in which the CPUs of a core, an LLC and a node are neighbours (kernel/sched/ext/cid.c).
//!
//! The mapping is made anew when a policy is enabled, of the CPUs online then; those offline follow without a place in the
//! topology. ops.init() may replace it. A policy whose callbacks are a struct sched_ext_ops_cid gets and gives cids where others
//! use CPU ids, and affinities as masks of cids in its arena.

use super::cids::*;
use super::exit;
use crate::machine::Machine;
use crate::policy::layout::scx_cmask;
use crate::simulation::id::TaskId;
use bpf::errno::{EINVAL, ENOMEM};
use bpf::map::kind;

/// Makes the mapping for a policy that is about to be enabled.
pub(crate) fn enable(m: &mut Machine, form: bool) {
    m.ext.cids = Cids::new(&m.spec.topology, &m.online_cpus);
    m.ext.cids.form = form;
}

/// Takes masks for ops.set_cmask() from the policy's arena, one a CPU; after ops.init().
///
/// # Errors
/// The errno, if the arena has no room.
pub(crate) fn alloc_masks(m: &mut Machine) -> Result<(), i32> {
    if !m.ext.cids.form {
        return Ok(());
    }
    let nr_cpus = m.nr_cpus();
    let words = words(nr_cpus);
    let size = size_of::<scx_cmask>() as u64 + u64::from(words) * 8;
    let pages = (size * u64::from(nr_cpus)).div_ceil(4096) as u32;
    let region = m.region.clone();
    let arena = m.ext.vm().maps().iter().find(|map| map.def().kind == kind::ARENA);
    let seen = arena.and_then(|arena| {
        let seen = arena.alloc_pages(&region, 0, pages).ok().filter(|&addr| addr != 0)?;
        Some((seen, arena.arena_addr(seen)?))
    });
    let Some((seen, lies)) = seen else {
        exit::error(m, "the arena has no room for the masks of ops.set_cmask()");
        return Err(-ENOMEM);
    };
    for cpu in 0..u64::from(nr_cpus) {
        let header = [0, nr_cpus, words];
        if let Err(fault) = region.store(lies + cpu * size, header) {
            exit::error(m, fault.message.clone());
            return Err(-ENOMEM);
        }
        m.ext.cids.scratch.push((seen + cpu * size, lies + cpu * size));
    }
    Ok(())
}

/// A CPU that a callback returned or a DSQ id names, as a CPU id (scx_cpu_ret). Below 0 is left to the caller.
#[inline]
pub(crate) fn cpu_ret(m: &mut Machine, cpu: i32) -> i32 {
    if !m.ext.cids.form || cpu < 0 {
        return cpu;
    }
    valid(m, cpu).map_or(-EINVAL, |cid| m.ext.cids.to_cpu(cid).nr() as i32)
}

/// A cid from a policy; `None` if it is invalid, which is the policy's error.
pub(crate) fn valid(m: &mut Machine, cid: i32) -> Option<u32> {
    if (0..m.nr_cpus() as i32).contains(&cid) {
        return Some(cid as u32);
    }
    exit::error(m, format!("invalid cid {cid}"));
    None
}

/// What ops.set_cpumask() is called with for a task: its cpumask, or the running CPU's mask of cids.
pub(crate) fn mask_arg(m: &mut Machine, task: TaskId) -> u64 {
    if !m.ext.cids.form {
        return m.cpus_ptr(task).addr();
    }
    let (seen, lies) = m.ext.cids.scratch[m.this_cpu.index()];
    let mut bits = vec![0u64; m.nr_cpus().div_ceil(64) as usize];
    for cpu in m.tasks[task].cpus.iter() {
        let cid = m.ext.cids.of_cpu(cpu);
        bits[cid as usize / 64] |= 1 << (cid % 64);
    }
    for (at, word) in (lies + size_of::<scx_cmask>() as u64..).step_by(8).zip(bits) {
        // The policy may have freed the pages; then it has no mask.
        if let Err(fault) = m.region.store(at, word) {
            exit::fault(m, "ops.set_cmask()", &fault);
            break;
        }
    }
    seen
}
