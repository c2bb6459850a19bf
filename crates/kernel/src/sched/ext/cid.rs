// SPDX-License-Identifier: GPL-2.0-only
//! The use of cids (topological CPU numbers) in calls between a policy and the kernel
//! (kernel/sched/ext/cid.c).
//!
//! Cids number the CPUs so that the CPUs of a core, of an LLC and of a node have consecutive
//! numbers. The kernel creates a mapping between CPU numbers and cids when it enables a policy, and
//! ops.init() may replace it. A policy that is defined with struct sched_ext_ops_cid uses cids
//! instead of CPU numbers in all its callbacks. Such a policy receives task affinities as masks of
//! cids, which are stored in its arena.

use super::exit;
use crate::layout::scx_cmask;
use crate::machine::Machine;
use crate::sched::ext::state::cids::*;
use crate::simulation::id::TaskId;
use bpf::errno::{EINVAL, ENOMEM};
use bpf::map::kind;

/// Creates the mapping for a policy that is about to be enabled.
pub(crate) fn enable(m: &mut Machine, uses_cids: bool) {
    m.ext.cids = Cids::new(&m.spec.topology, &m.online_cpus);
    m.ext.cids.uses_cids = uses_cids;
}

/// Allocates one mask for each CPU in the policy's arena. ops.set_cmask() receives these masks.
/// Called after ops.init().
///
/// # Errors
/// A negative errno if the arena is full.
pub(crate) fn alloc_masks(m: &mut Machine) -> Result<(), i32> {
    if !m.ext.cids.uses_cids {
        return Ok(());
    }
    let nr_cpus = m.nr_cpus();
    let words = words(nr_cpus);
    let size = size_of::<scx_cmask>() as u64 + u64::from(words) * 8;
    let pages = (size * u64::from(nr_cpus)).div_ceil(4096) as u32;
    let region = m.region.clone();
    let arena = m.ext.vm().maps().iter().find(|map| map.def().kind == kind::ARENA);
    let pointer = arena.and_then(|arena| {
        let pointer = arena.alloc_pages(&region, 0, pages).ok().filter(|&addr| addr != 0)?;
        Some((pointer, arena.arena_addr(pointer)?))
    });
    let Some((pointer, address)) = pointer else {
        exit::error(m, "the policy's arena has no room for the masks of ops.set_cmask()");
        return Err(-ENOMEM);
    };
    for cpu in 0..u64::from(nr_cpus) {
        let header = [0, nr_cpus, words];
        if let Err(fault) = region.store(address + cpu * size, header) {
            exit::error(m, fault.message.clone());
            return Err(-ENOMEM);
        }
        m.ext.cids.scratch.push((pointer + cpu * size, address + cpu * size));
    }
    Ok(())
}

/// Converts a CPU identifier from the policy to a CPU number (scx_cpu_ret). The identifier is the
/// result of a callback or part of a DSQ id. Negative values are returned unchanged.
#[inline]
pub(crate) fn cpu_ret(m: &mut Machine, cpu: i32) -> i32 {
    if !m.ext.cids.uses_cids || cpu < 0 {
        return cpu;
    }
    valid(m, cpu).map_or(-EINVAL, |cid| m.ext.cids.to_cpu(cid).nr() as i32)
}

/// Returns a cid that a policy passed, if it is valid. Otherwise ends the policy with an error and
/// returns `None`.
pub(crate) fn valid(m: &mut Machine, cid: i32) -> Option<u32> {
    if (0..m.nr_cpus() as i32).contains(&cid) {
        return Some(cid as u32);
    }
    exit::error(m, format!("invalid cid {cid}"));
    None
}

/// Returns the address of the mask that ops.set_cpumask() receives for a task. Normally this is the
/// task's cpumask. For a policy that uses cids, writes the task's affinity to the current CPU's
/// mask in the arena and returns the address of that mask.
pub(crate) fn mask_arg(m: &mut Machine, task: TaskId) -> u64 {
    if !m.ext.cids.uses_cids {
        return m.cpus_ptr(task).addr();
    }
    let (pointer, address) = m.ext.cids.scratch[m.this_cpu.index()];
    let mut bits = vec![0u64; m.nr_cpus().div_ceil(64) as usize];
    let cpus = m.cpus_ptr(task);
    for cpu in m.cpus().filter(|&cpu| cpus.contains(cpu)) {
        let cid = m.ext.cids.to_cid(cpu);
        bits[cid as usize / 64] |= 1 << (cid % 64);
    }
    for (at, word) in (address + size_of::<scx_cmask>() as u64..).step_by(8).zip(bits) {
        // The store fails if the policy has freed the pages of its arena. The fault ends the
        // policy.
        if let Err(fault) = m.region.store(at, word) {
            exit::fault(m, "ops.set_cmask()", &fault);
            break;
        }
    }
    pointer
}
