// SPDX-License-Identifier: GPL-2.0-only
//! The use of cids (topological CPU numbers) in calls between a policy and the kernel
//! (kernel/sched/ext/cid.c).
//!
//! Cids number the CPUs so that the CPUs of a core, of an LLC and of a node have consecutive
//! numbers. The kernel creates a mapping between CPU numbers and cids when it enables a policy, and
//! ops.init() may replace it. A policy that is defined with struct sched_ext_ops_cid uses cids
//! instead of CPU numbers in all its callbacks. Such a policy receives task affinities as masks of
//! cids, which are stored in its arena.

use super::{cmask, exit, sub};
use crate::layout::enums::SCX_CID_SHARD_SIZE_DFL;
use crate::layout::scx_cmask;
use crate::machine::Machine;
use crate::sched::ext::state::cids::*;
use crate::simulation::id::TaskId;
use bpf::errno::{EINVAL, ENOMEM};
use bpf::fault::Fault;
use bpf::map::kind;

/// Creates the mapping for a policy that is about to be enabled.
pub(crate) fn enable(m: &mut Machine, uses_cids: bool) {
    m.ext.cids = Cids::new(&m.spec.topology, &m.online_cpus);
    m.ext.cids.uses_cids = uses_cids;
    if m.ext.is_linux_7_3 {
        let size = match m.ext.ops().cid_shard_size {
            0 => SCX_CID_SHARD_SIZE_DFL as u32,
            size => size,
        };
        m.ext.cids.divide_into_shards(size);
    }
}

/// Allocates memory in the arena of the current policy. Returns the policy's pointer to it and its
/// address in the region, or `None` after it has ended the policy, because the arena is full.
pub(super) fn alloc_arena(m: &mut Machine, size: u64) -> Option<(u64, u64)> {
    let pages = size.div_ceil(4096) as u32;
    let region = m.region.clone();
    let arena = m.ext.vm().maps().iter().find(|map| map.def().kind == kind::ARENA);
    let found = arena.and_then(|arena| {
        let pointer = arena.alloc_pages(&region, 0, pages).ok().filter(|&addr| addr != 0)?;
        Some((pointer, arena.arena_addr(pointer)?))
    });
    if found.is_none() {
        exit::error(m, "the policy's arena has no room for the masks of ops.set_cmask()");
    }
    found
}

/// Returns the address in the region of a pointer that the current policy has passed for its arena.
pub(crate) fn arena_address(m: &Machine, pointer: u64) -> u64 {
    let mut maps = m.ext.vm().maps().iter();
    maps.find_map(|map| map.arena_addr(pointer)).unwrap_or(pointer)
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
    // Linux 7.3 also has a mask of the online CPUs.
    let masks = u64::from(nr_cpus) + u64::from(m.ext.is_linux_7_3);
    let (pointer, address) = alloc_arena(m, size * masks).ok_or(-ENOMEM)?;
    if m.ext.is_linux_7_3 {
        let offset = size * u64::from(nr_cpus);
        m.ext.cids.online = Some((pointer + offset, address + offset));
        write_online(m).map_err(|fault| {
            exit::error(m, fault.message.clone());
            -ENOMEM
        })?;
    }
    for cpu in 0..u64::from(nr_cpus) {
        let header = [0, nr_cpus, words];
        if let Err(fault) = m.region.store(address + cpu * size, header) {
            exit::error(m, fault.message.clone());
            return Err(-ENOMEM);
        }
        m.ext.cids.scratch.push((pointer + cpu * size, address + cpu * size));
    }
    Ok(())
}

/// Writes the mask of the online CPUs in the arena of the current policy.
fn write_online(m: &Machine) -> Result<(), Fault> {
    let Some((_, address)) = m.ext.cids.online else {
        return Ok(());
    };
    let cids = m.online_cpus.iter().map(|cpu| m.ext.cids.to_cid(cpu)).collect();
    cmask::write_mask(m, address, 0, m.nr_cpus(), &cids)
}

/// Updates the masks of the online CPUs in the arenas of all policies.
pub(super) fn update_online(m: &mut Machine) {
    for id in m.ext.loaded_scheds() {
        sub::in_sched(m, id, |m| {
            if let Err(fault) = write_online(m) {
                exit::fault(m, "the mask of online CPUs", &fault);
            }
        });
    }
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
    if m.ext.is_linux_7_3 {
        // The policy may have changed the header of the mask.
        let nr_cpus = m.nr_cpus();
        if let Err(fault) = m.region.store(address, [0, nr_cpus, words(nr_cpus)]) {
            exit::fault(m, "ops.set_cmask()", &fault);
            return pointer;
        }
    }
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
