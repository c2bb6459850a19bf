// SPDX-License-Identifier: GPL-2.0-only
//! kfuncs that identify CPUs by cid. A cid is a topological CPU number: the CPUs of a core, of an
//! LLC and of a node have consecutive cids.

use super::cpu::{self, nr_cpu_ids, scx_bpf_cpuperf_set};
use super::{Kfunc, any_task};
use crate::layout::callbacks::kf;
use crate::layout::enums::{SCX_CAP_PERF, SCX_CID_SHARD_MAX_CPUS, SCX_CPUPERF_ONE};
use crate::machine::Machine;
use crate::sched::ext::cid::{self as sched_cid, valid};
use crate::sched::ext::state::scheds::SchedId;
use crate::sched::ext::{caps, exit, kick};
use crate::simulation::id::CpuId;
use bpf::errno::{EACCES, EINVAL};
use bpf::fault::Fault;
use bpf::rows::*;

pub(super) fn table() -> Vec<Kfunc> {
    bpf::kfuncs! {
        "u32 scx_bpf_nr_cids(void)"
        { releases: V7_2.., contexts: ANY, rules: PLAIN, native: CALL, run: nr_cpu_ids }
        "u32 scx_bpf_nr_online_cids(void)"
        { releases: V7_2.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_nr_online_cids }
        "s32 scx_bpf_this_cid(void)"
        { releases: V7_2.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_this_cid }
        "s32 scx_bpf_task_cid(const struct task_struct *p)"
        { releases: V7_2.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_task_cid }
        "s32 scx_bpf_cid_to_cpu(s32 cid)"
        { releases: V7_2.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_cid_to_cpu }
        "s32 scx_bpf_cpu_to_cid(s32 cpu)"
        { releases: V7_2.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_cpu_to_cid }
        "void scx_bpf_cid_topo(s32 cid, struct scx_cid_topo *out__uninit, size_t out__sz)"
        { releases: V7_2.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_cid_topo }
        "struct task_struct *scx_bpf_cid_curr(s32 cid)"
        { releases: V7_2.., contexts: ANY, rules: PLAIN.rcu_protected(), native: CALL, run: scx_bpf_cid_curr }
        "void scx_bpf_kick_cid(s32 cid, u64 flags)"
        { releases: V7_2.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_kick_cid }
        "u32 scx_bpf_cidperf_cap(s32 cid)"
        { releases: V7_2.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_cidperf_cap }
        "u32 scx_bpf_cidperf_cur(s32 cid)"
        { releases: V7_2.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_cidperf_cur }
        "void scx_bpf_cidperf_set(s32 cid, u32 perf)"
        { releases: V7_2..V7_3, contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_cidperf_set }
        "s32 scx_bpf_cidperf_set(s32 cid, u32 perf)"
        { releases: V7_3.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_cidperf_set_if_held }
        "void scx_bpf_cid_override(const s32 *cpu_to_cid, u32 cpu_to_cid__sz)"
        { releases: V7_2..V7_3, contexts: kf::INIT, rules: PLAIN.sleepable(), native: CALL, run: scx_bpf_cid_override }
        "void scx_bpf_cid_override(const s32 *cpu_to_cid__arena, u32 cpu_to_cid_cnt, const s32 *shard_start__arena, \
         u32 shard_start_cnt)"
        { releases: V7_3.., contexts: kf::INIT_CIDS, rules: PLAIN.sleepable(), native: CALL, run: override_with_shards }
        "const void *scx_bpf_online_cmask(void)"
        { releases: V7_3.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_online_cmask }
    }
}

fn scx_bpf_nr_online_cids(m: &mut Machine) -> u32 {
    m.ext.charge_mask(m.layout.online.words());
    m.online_cpus.weight()
}

fn scx_bpf_this_cid(m: &mut Machine) -> i32 {
    m.ext.cids.to_cid(m.this_cpu) as i32
}

fn scx_bpf_task_cid(m: &mut Machine, p: u64) -> Result<i32, Fault> {
    any_task(m, p).map(|(_, cpu)| m.ext.cids.to_cid(cpu) as i32)
}

/// Returns the CPU with a cid that a policy has passed. If the cid is invalid, reports a policy
/// error and returns `None`.
fn to_cpu(m: &mut Machine, cid: i32) -> Option<CpuId> {
    valid(m, cid).map(|cid| m.ext.cids.to_cpu(cid))
}

fn scx_bpf_cid_to_cpu(m: &mut Machine, cid: i32) -> i32 {
    to_cpu(m, cid).map_or(-EINVAL, |cpu| cpu.nr() as i32)
}

fn scx_bpf_cpu_to_cid(m: &mut Machine, cpu: i32) -> i32 {
    cpu::valid(m, cpu).map_or(-EINVAL, |cpu| m.ext.cids.to_cid(cpu) as i32)
}

/// Copies the position of a cid in the topology into the policy's struct. If the struct is too
/// small, only the part that fits is copied. Members that the kernel does not know are set to -1.
fn scx_bpf_cid_topo(m: &mut Machine, cid: i32, out: u64, out_size: u64) -> Result<(), Fault> {
    m.ext.vm().charge_bytes(out_size)?;
    m.region.fill(out, out_size, 0xff)?;
    let Some(cid) = valid(m, cid) else { return Ok(()) };
    let shard = m.ext.is_linux_7_3.then(|| m.ext.cids.shard_position(cid));
    let words = m.ext.cids.place(cid).into_iter().chain(shard.into_iter().flatten());
    let bytes: Vec<u8> = words.flat_map(i32::to_le_bytes).collect();
    let len = bytes.len().min(out_size as usize);
    m.region.write(out, &bytes[..len])
}

fn scx_bpf_cid_curr(m: &mut Machine, cid: i32) -> u64 {
    to_cpu(m, cid).map_or(0, |cpu| m.curr_addr(cpu))
}

fn scx_bpf_kick_cid(m: &mut Machine, cid: i32, flags: u64) {
    if let Some(cpu) = to_cpu(m, cid) {
        kick::policy_kicks(m, cpu, flags);
    }
}

fn scx_bpf_cidperf_cap(m: &mut Machine, cid: i32) -> u32 {
    to_cpu(m, cid).map_or(SCX_CPUPERF_ONE as u32, |cpu| m.spec.topology.cpus[cpu.index()].capacity)
}

fn scx_bpf_cidperf_cur(m: &mut Machine, cid: i32) -> u32 {
    to_cpu(m, cid).map_or(SCX_CPUPERF_ONE as u32, |cpu| m.perf_level(cpu) as u32)
}

fn scx_bpf_cidperf_set(m: &mut Machine, cid: i32, perf: u32) {
    if let Some(cpu) = to_cpu(m, cid) {
        scx_bpf_cpuperf_set(m, cpu.nr() as i32, perf);
    }
}

/// Sets the performance target of a CPU (Linux 7.3). A sub-scheduler needs SCX_CAP_PERF. Returns 0 or a
/// negative errno.
fn scx_bpf_cidperf_set_if_held(m: &mut Machine, cid: i32, perf: u32) -> i32 {
    let Some(cpu) = to_cpu(m, cid) else { return -EINVAL };
    if caps::missing(m, m.ext.current_sched(), cpu, SCX_CAP_PERF) != 0 {
        m.ext.stats.sub_cidperf_denied += 1;
        return -EACCES;
    }
    scx_bpf_cpuperf_set(m, cpu.nr() as i32, perf);
    0
}

/// Returns a pointer into the policy's arena to the mask of the online CPUs, or 0.
fn scx_bpf_online_cmask(m: &mut Machine) -> u64 {
    m.ext.cids.online.map_or(0, |(pointer, _)| pointer)
}

/// Reads an array of `count` numbers from the policy's arena.
fn read_arena(m: &Machine, pointer: u64, count: u32) -> Result<Vec<i32>, Fault> {
    m.ext.vm().charge(u64::from(count))?;
    let address = sched_cid::arena_address(m, pointer);
    (0..u64::from(count))
        .map(|index| m.region.load::<i32>(address + index * 4))
        .collect()
}

/// Installs a mapping and the first cid of each shard (scx_bpf_cid_override of Linux 7.3).
fn override_with_shards(
    m: &mut Machine,
    cpu_to_cid: u64,
    cpu_to_cid_count: u32,
    shard_start: u64,
    nr_shards: u32,
) -> Result<(), Fault> {
    let nr_cpus = m.nr_cpus();
    let refuse = |m: &mut Machine, message: String| {
        exit::error(m, format!("scx_bpf_cid_override: {message}"));
        Ok(())
    };
    if cpu_to_cid_count != nr_cpus {
        let message = format!("cpu_to_cid expected {nr_cpus} entries, got {cpu_to_cid_count}");
        return refuse(m, message);
    }
    if nr_shards == 0 || nr_shards > nr_cpus {
        return refuse(m, format!("invalid shard_start count {nr_shards}"));
    }
    let cid_of = read_arena(m, cpu_to_cid, nr_cpus)?;
    let starts = read_arena(m, shard_start, nr_shards)?;
    if starts[0] != 0 {
        return refuse(m, format!("shard_start[0] must be 0, got {}", starts[0]));
    }
    let max = SCX_CID_SHARD_MAX_CPUS as i32;
    for at in 1..starts.len() {
        let span = starts[at].wrapping_sub(starts[at - 1]);
        if starts[at] <= starts[at - 1] {
            return refuse(m, format!("shard_start not increasing at [{at}]"));
        }
        if starts[at] >= nr_cpus as i32 {
            return refuse(m, format!("shard_start[{at}]={} >= {nr_cpus}", starts[at]));
        }
        if span > max {
            return refuse(m, format!("shard[{}] span {span} exceeds max {max}", at - 1));
        }
    }
    let last = nr_cpus as i32 - starts[starts.len() - 1];
    if last > max {
        return refuse(m, format!("shard[{}] span {last} exceeds max {max}", nr_shards - 1));
    }
    m.ext.vm().charge(u64::from(nr_cpus))?;
    let mut seen = vec![false; nr_cpus as usize];
    let mut mapping = Vec::new();
    for cid in cid_of {
        let Some(cid) = valid(m, cid) else { return Ok(()) };
        if std::mem::replace(&mut seen[cid as usize], true) {
            exit::error(m, format!("cid {cid} assigned to multiple cpus"));
            return Ok(());
        }
        mapping.push(cid);
    }
    m.ext.cids.replace(&mapping);
    m.ext.cids.set_shards(&starts);
    Ok(())
}

fn scx_bpf_cid_override(m: &mut Machine, cpu_to_cid: u64, size: u32) -> Result<(), Fault> {
    if m.ext.current_sched() != SchedId::ROOT {
        exit::error(m, "scx_bpf_cid_override() only allowed from root sched");
        return Ok(());
    }
    let nr_cpus = m.nr_cpus();
    if u64::from(size) != u64::from(nr_cpus) * 4 {
        let message = format!("scx_bpf_cid_override: expected {} bytes, got {size}", nr_cpus * 4);
        exit::error(m, message);
        return Ok(());
    }
    m.ext.vm().charge(u64::from(nr_cpus) * u64::from(nr_cpus) / 2)?;
    let mut cid_of = Vec::new();
    for cpu in 0..nr_cpus {
        let cid = m.region.load::<i32>(cpu_to_cid + u64::from(cpu) * 4)?;
        let Some(cid) = valid(m, cid) else { return Ok(()) };
        if cid_of.contains(&cid) {
            exit::error(m, format!("cid {cid} assigned to multiple cpus"));
            return Ok(());
        }
        cid_of.push(cid);
    }
    m.ext.cids.replace(&cid_of);
    Ok(())
}
