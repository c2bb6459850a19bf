// SPDX-License-Identifier: GPL-2.0-only
//! kfuncs that identify CPUs by cid. A cid is a topological CPU number: the CPUs of a core, of an
//! LLC and of a node have consecutive cids.

use super::cpu::{self, nr_cpu_ids, scx_bpf_cpuperf_set};
use super::{Kfunc, any_task};
use crate::layout::callbacks::kf;
use crate::layout::enums::SCX_CPUPERF_ONE;
use crate::machine::Machine;
use crate::sched::ext::cid::valid;
use crate::sched::ext::state::scheds::SchedId;
use crate::sched::ext::{exit, kick};
use crate::simulation::id::CpuId;
use bpf::errno::EINVAL;
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
        { releases: V7_2.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_cidperf_set }
        "void scx_bpf_cid_override(const s32 *cpu_to_cid, u32 cpu_to_cid__sz)"
        { releases: V7_2.., contexts: kf::INIT, rules: PLAIN.sleepable(), native: CALL, run: scx_bpf_cid_override }
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
    let bytes: Vec<u8> = m
        .ext
        .cids
        .place(cid)
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
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
