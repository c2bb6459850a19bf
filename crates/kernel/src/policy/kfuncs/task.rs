// SPDX-License-Identifier: GPL-2.0-only
//! kfuncs for tasks: finding tasks, acquiring references, changing tasks and iterating over tasks.

use super::{Kfunc, any_task};
use crate::layout::ENABLE_HELPER_PID;
use crate::layout::callbacks::kf;
use crate::layout::enums::SCX_OPS_TID_TO_TASK;
use crate::machine::Machine;
use crate::sched::ext::state::entity::TaskState;
use crate::sched::ext::{exit, turn};
use crate::sched::state::task::State;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use bpf::errno::EINVAL;
use bpf::fault::Fault;
use bpf::rows::*;

pub(super) fn table() -> Vec<Kfunc> {
    let mut table = bpf::helpers! {
        42 "bpf_get_numa_node_id"
        { args: [], returns: Number, rules: PLAIN, native: CALL, run: bpf_get_numa_node_id }
        120 "bpf_get_ns_current_pid_tgid"
        { args: [V, V, write(4), V], returns: Number, rules: PLAIN, native: CALL, run: bpf_get_ns_current_pid_tgid }
    };
    table.extend(bpf::kfuncs! {
        "bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice)"
        { releases: V6_19.., contexts: ANY, rules: PLAIN, native: 1, run: scx_bpf_task_set_slice }
        "bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime)"
        { releases: V6_19.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_task_set_dsq_vtime }
        "bool scx_bpf_task_running(const struct task_struct *p)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_task_running }
        "s32 scx_bpf_task_cpu(const struct task_struct *p)"
        { releases: V6_12.., contexts: kf::BY_CPU, rules: PLAIN, native: 1, run: scx_bpf_task_cpu }
        "struct task_struct *scx_bpf_tid_to_task(u64 tid)"
        { releases: V7_2.., contexts: ANY, rules: PLAIN.ret_null().rcu_protected(), native: CALL,
          run: scx_bpf_tid_to_task }
        "struct task_struct *bpf_task_from_pid(s32 pid)"
        { releases: V6_12.., contexts: ANY, rules: does(Acquire).ret_null(), native: CALL, run: bpf_task_from_pid }
        "struct task_struct *bpf_task_from_vpid(s32 vpid)"
        { releases: V6_14.., contexts: ANY, rules: does(Acquire).ret_null(), native: CALL, run: bpf_task_from_pid }
        "struct task_struct *bpf_task_acquire(struct task_struct *p)"
        { releases: V6_12.., contexts: ANY, rules: does(Acquire).ret_null(), native: 2, run: bpf_task_acquire }
        "void bpf_task_release(struct task_struct *p)"
        { releases: V6_12.., contexts: ANY, rules: does(Release), native: 2, run: bpf_task_release }
        "int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task__nullable, unsigned int flags)"
        { releases: V6_12.., contexts: ANY, rules: does(IterNew).rcu_protected(), native: CALL, run: bpf_iter_task_new }
        "struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it)"
        { releases: V6_12.., contexts: ANY, rules: does(IterNext).ret_null(), native: CALL, run: bpf_iter_task_next }
        "void bpf_iter_task_destroy(struct bpf_iter_task *it)"
        { releases: V6_12.., contexts: ANY, rules: does(IterDestroy), native: CALL, run: bpf_iter_task_destroy }
    });
    table
}

/// Returns whether the policy manages the task (scx_task_on_sched()). The result is always false
/// for idle tasks.
fn on_sched(m: &mut Machine, p: TaskId) -> bool {
    p != IDLE
        && m.scx_state(p) >= TaskState::Init
        && m.scx_state(p) != TaskState::Dead
        && m.tasks[p].ext.sched == m.ext.current_sched()
}

fn scx_bpf_task_set_slice(m: &mut Machine, p: u64, slice: u64) -> Result<bool, Fault> {
    let (p, _) = any_task(m, p)?;
    if !on_sched(m, p) {
        return Ok(false);
    }
    if m.ext.is_linux_7_3 {
        turn::task_set_slice(m, p, slice);
    } else {
        m.scx_entity_mut(p).slice = slice;
    }
    Ok(true)
}

fn scx_bpf_task_set_dsq_vtime(m: &mut Machine, p: u64, vtime: u64) -> Result<bool, Fault> {
    let (p, _) = any_task(m, p)?;
    if !on_sched(m, p) {
        return Ok(false);
    }
    m.scx_entity_mut(p).dsq_vtime = vtime;
    Ok(true)
}

fn scx_bpf_task_running(m: &mut Machine, p: u64) -> Result<bool, Fault> {
    let (p, cpu) = any_task(m, p)?;
    Ok(m.rqs[cpu].curr == p)
}

fn scx_bpf_task_cpu(m: &mut Machine, p: u64) -> Result<i32, Fault> {
    any_task(m, p).map(|(_, cpu)| cpu.nr() as i32)
}

/// Returns the task with a tid. In the simulator, the tid of a task is equal to its pid: neither is
/// ever reused, and both are assigned in the order of creation.
fn scx_bpf_tid_to_task(m: &mut Machine, tid: u64) -> u64 {
    if m.ext.ops().flags & SCX_OPS_TID_TO_TASK == 0 {
        exit::error(m, "scx_bpf_tid_to_task() called without SCX_OPS_TID_TO_TASK");
        return 0;
    }
    let found = u32::try_from(tid).ok().and_then(|pid| m.find_task(pid));
    found
        .filter(|&p| m.scx_entity(p).tid == tid)
        .map_or(0, |p| m.layout.task_addr(p))
}

fn bpf_get_numa_node_id(m: &mut Machine) -> u32 {
    m.spec.topology.cpus[m.this_cpu.index()].node
}

/// Always fails. There is only one pid namespace, and a policy cannot know its device and inode
/// numbers.
fn bpf_get_ns_current_pid_tgid(m: &mut Machine, _dev: u64, _ino: u64, nsdata: u64, size: u32) -> Result<i32, Fault> {
    m.ext.vm().charge_bytes(size.into())?;
    m.region.fill(nsdata, size.into(), 0)?;
    Ok(-EINVAL)
}

fn bpf_task_from_pid(m: &mut Machine, pid: i32) -> u64 {
    let found = u32::try_from(pid).ok().and_then(|pid| m.find_task(pid));
    // A task loses its pid in exit_notify(), before its last schedule(). Zombies are not modelled.
    match found.filter(|&p| m.tasks[p].state() != State::Dead) {
        Some(p) => {
            m.layout.get_task(p);
            m.layout.task_addr(p)
        }
        None if pid as u32 == ENABLE_HELPER_PID => m.layout.enable_helper_addr(),
        None => 0,
    }
}

fn bpf_task_acquire(m: &mut Machine, p: u64) -> Result<u64, Fault> {
    match any_task(m, p)? {
        (IDLE, _) => Ok(p),
        (id, _) if m.is_unreferenced(id) => Ok(0),
        (id, _) => {
            m.layout.get_task(id);
            Ok(p)
        }
    }
}

fn bpf_task_release(m: &mut Machine, p: u64) -> Result<(), Fault> {
    let (id, _) = any_task(m, p)?;
    if id != IDLE && !m.put_task(id) {
        let t = &m.tasks[id];
        let (comm, pid) = (t.comm(), t.pid());
        return Err(Fault::func(format!(
            "bpf_task_release of {comm}[{pid}], to which the policy holds no reference: released twice?"
        )));
    }
    Ok(())
}

const ITER_ALL_PROCS: u32 = 0;
const ITER_ALL_THREADS: u32 = 1;
const ITER_PROC_THREADS: u32 = 2;

// The three words of the iterator are:
// - its position (`Task::sort_key`), or START before the first task
// - the flags + 1, or 0 at the end
// - the address of the first task; it is used only for PROC_THREADS
//
// The idle task of CPU 0, which is init_task, is visited first. All processes follow in the order
// of their creation, each with its threads.
const START: u64 = u64::MAX;

/// Number of instructions that the running program is charged for each thread that an iteration
/// examines.
const THREAD: u64 = 8;

fn bpf_iter_task_new(m: &mut Machine, it: u64, p: u64, flags: u32) -> Result<i32, Fault> {
    m.region.store(it, [0u64; 3])?;
    let first = match flags {
        ITER_ALL_PROCS | ITER_ALL_THREADS => 0,
        ITER_PROC_THREADS if p != 0 => {
            any_task(m, p)?;
            p
        }
        _ => return Ok(-EINVAL),
    };
    m.region.store(it, [START, u64::from(flags) + 1, first])?;
    Ok(0)
}

fn bpf_iter_task_next(m: &mut Machine, it: u64) -> Result<u64, Fault> {
    let [at, flags, first] = m.region.load::<[u64; 3]>(it)?;
    let Some(flags) = flags.checked_sub(1).map(|flags| flags as u32) else {
        return Ok(0);
    };
    if at == START {
        let first = if flags == ITER_PROC_THREADS {
            first
        } else {
            m.layout.idle_addr(CpuId::BOOT)
        };
        let at = match any_task(m, first)? {
            (IDLE, _) => 0,
            (p, _) => m.tasks[p].sort_key(),
        };
        m.region.store(it, at)?;
        return Ok(first);
    }
    let after = at + 1..;
    let process = at >> 32;
    let mut looked_at = 1;
    let found = match flags {
        ITER_ALL_PROCS => m.threads.range(after).find(|&&at| {
            looked_at += 1;
            at >> 32 == at & 0xffff_ffff
        }),
        ITER_ALL_THREADS => m.threads.range(after).next(),
        _ => m.threads.range(after).next().filter(|&&at| at >> 32 == process),
    };
    m.ext.charge_program(looked_at * THREAD);
    match found {
        Some(&at) => {
            m.region.store(it, at)?;
            // The lower half of the key is the pid.
            let p = m.find_task(at as u32).expect("the keys are those of live tasks");
            Ok(m.layout.task_addr(p))
        }
        None => {
            m.region.store(it.wrapping_add(8), 0u64)?;
            Ok(0)
        }
    }
}

fn bpf_iter_task_destroy(m: &mut Machine, it: u64) -> Result<(), Fault> {
    m.region.store(it, [0u64; 3])
}
