// SPDX-License-Identifier: GPL-2.0-only
//! Execution of the programs of tasks, step by step.
//!
//! A step that affects other tasks is executed only after all preceding work of the task is done.
//! The effects of a task therefore occur at the times at which a real task would cause them. If a
//! task blocks in a step, it remains at this step. The field `stage` records how far the step has
//! been executed.

use crate::machine::Machine;
use crate::programs::state::cursor::*;
use crate::sched::state::task::{Next, State};
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::{CpuId, TaskId};
use std::rc::Rc;
use workload::Op;

/// Executes the next steps of `task` as long as they only compute, and adds their work to the task.
/// Called when the task is about to run on a CPU.
pub(crate) fn prepare(m: &mut Machine, task: TaskId) {
    let syscall = u64::from(m.spec.costs.syscall_ns);
    let cursor = &mut m.tasks[task].program;
    if cursor.work > 0 || cursor.time > 0 {
        return;
    }
    let ops = &m.programs[cursor.program as usize];
    // The limit of eight steps ends loops that do no work. `advance` detects and ends tasks with
    // such programs.
    for _ in 0..8 {
        let Some(op) = ops.get(cursor.pc as usize) else { return };
        match cursor.compute(op, &mut m.rng, syscall) {
            Some(true) => return,
            Some(false) => {}
            None if cursor.stage == 1 && matches!(op, Op::Sleep(_)) => {
                cursor.done();
                cursor.time += syscall;
            }
            None => return,
        }
    }
}

/// Executes steps of the running task until a step takes time.
pub(crate) fn advance(m: &mut Machine, cpu: CpuId, task: TaskId) -> Next {
    let ops = Rc::clone(&m.programs[m.tasks[task].program.program as usize]);
    let syscall = u64::from(m.spec.costs.syscall_ns);
    for _ in 0..ENDLESS {
        let cursor = &mut m.tasks[task].program;
        let Some(op) = ops.get(cursor.pc as usize) else {
            return exit(m, task);
        };
        match cursor.compute(op, &mut m.rng, syscall) {
            Some(true) => return Next::Work,
            Some(false) => continue,
            None => {}
        }
        let rq = &m.rqs[cpu];
        let resched = rq.need_resched || rq.need_resched_lazy && m.entry.to_user;
        let busy = rq.debt() > 0 || resched || !cursor.work_done();
        if !silent(op) {
            if busy {
                return Next::Work;
            }
            m.entry.to_user = true;
        }
        if let Some(next) = execute(m, cpu, task, op, syscall) {
            return next;
        }
        if m.rqs[cpu].curr != task {
            // The task has moved to another CPU because of exec or a change of its affinity.
            return Next::Work;
        }
        if m.tasks[task].program.work > 0 {
            return Next::Work;
        }
    }
    let t = &m.tasks[task];
    let ended = format!(
        "task '{}' (pid {}) was ended because its program loops without using CPU time or blocking: add a run or sleep step to the loop",
        t.comm(),
        t.pid()
    );
    m.ended_tasks.push(ended);
    // Moves the task to the end of its program, so that it exits.
    let cursor = &mut m.tasks[task].program;
    (cursor.pc, cursor.stage) = (ops.len() as u32, 0);
    exit(m, task)
}

/// Executes one step that is not a computing step. Returns `None` if the step is complete or has
/// added work to the task.
fn execute(m: &mut Machine, cpu: CpuId, task: TaskId, op: &Op, syscall: u64) -> Option<Next> {
    let stage = m.tasks[task].program.stage;
    // `done` says whether the step is complete. If the step blocks, it is executed again when the
    // task runs again.
    let done = match *op {
        Op::Run(_) | Op::Runtime(_) | Op::Mem { .. } | Op::LoopInit { .. } | Op::LoopBack { .. } => {
            unreachable!("Cursor::compute() has executed all computing steps")
        }
        Op::Sleep(ref dist) => {
            if stage == 0 {
                let ns = m.tasks[task].program.sample(dist, &mut m.rng);
                return sleep_until(m, task, m.now + ns, State::Interruptible);
            }
            true
        }
        Op::Io { bytes } => {
            if stage == 0 {
                let ns = IO_LATENCY_NS + bytes * 1000 / IO_BYTES_PER_US;
                m.tasks[task].set_in_iowait(true);
                return sleep_until(m, task, m.now + ns, State::Uninterruptible);
            }
            m.tasks[task].set_in_iowait(false);
            true
        }
        Op::Timer {
            timer,
            period,
            absolute,
        } => {
            if stage == 0
                && let Some(at) = timer_target(&mut m.tasks[task].program, m.now, timer, period, absolute)
            {
                return sleep_until(m, task, at, State::Interruptible);
            }
            true
        }
        Op::Interval { timer, ref length } => {
            if stage == 0 {
                let cursor = &mut m.tasks[task].program;
                let length = cursor.sample(length, &mut m.rng);
                if let Some(at) = timer_target(cursor, m.now, timer, length, true) {
                    return sleep_until(m, task, at, State::Interruptible);
                }
            }
            true
        }
        Op::Lock(id) => m.mutex_lock(id, task),
        Op::Unlock(id) => {
            m.mutex_unlock(id, task);
            true
        }
        Op::CondWait { cond, mutex } => cond_wait(m, task, cond, mutex, stage),
        Op::Sync { cond, mutex } => {
            if stage == 0 {
                m.cond_signal(cond, false, task);
            }
            cond_wait(m, task, cond, mutex, stage)
        }
        Op::Signal(id) => {
            m.cond_signal(id, false, task);
            true
        }
        Op::Broadcast(id) => {
            m.cond_signal(id, true, task);
            true
        }
        Op::Barrier(id) => stage == 1 || m.barrier_wait(id, task),
        Op::SemPost(id) => {
            m.sem_post(id, task);
            true
        }
        Op::SemWait(id) => m.sem_wait(id, task),
        Op::Suspend(id) => stage == 1 || m.suspend(id, task),
        Op::Resume(id) => {
            m.resume(id, task);
            true
        }
        Op::Send { channel, bytes } => {
            if let Some(until) = m.channel_busy_until(channel) {
                return sleep_until(m, task, until, State::Uninterruptible);
            }
            m.channel_send(channel, bytes, task)
        }
        Op::Recv(id) => m.channel_recv(id, task),
        Op::Poll(id) => m.channel_poll(id, task),
        Op::Yield => {
            m.tasks[task].program.add_time(syscall);
            m.tasks[task].program.done();
            return Some(Next::Yield);
        }
        Op::Fork { task: child, thread } => {
            let ns = u64::from(m.spec.costs.fork(thread));
            if stage == 0 && ns > 0 {
                // The child is woken only after the time for copying the process has passed, so it
                // cannot run earlier.
                let cursor = &mut m.tasks[task].program;
                cursor.stage = 1;
                cursor.time += ns;
                return Some(Next::Work);
            }
            m.fork(child, task, thread);
            true
        }
        Op::WaitChildren => m.tasks[task].children == 0,
        Op::WaitChild { left } => m.tasks[task].children <= left,
        Op::Exec { ref comm } => {
            m.tasks[task].program.add_time(u64::from(m.spec.costs.exec_ns));
            m.tasks[task].program.done();
            m.exec(task, comm.clone());
            return None;
        }
        Op::Exit => return Some(exit(m, task)),
        Op::SetAffinity(ref cpus) => {
            let nr_cpus = m.nr_cpus();
            let cpus = match cpus {
                Some(cpus) => CpuSet::from_cpus(nr_cpus, cpus),
                None => CpuSet::all(nr_cpus),
            };
            m.tasks[task].program.done();
            let cgroup = m.tasks[task].cgroup();
            if let Some(cpus) = m.request_cpus(task, cgroup, cpus) {
                m.set_cpus_allowed(task, cpus);
            }
            return None;
        }
        Op::SetPolicy(policy) => {
            m.set_policy(task, policy);
            true
        }
        Op::SetSlice(ns) => {
            m.set_slice(task, ns);
            true
        }
        Op::SetCgroup(cgroup) => {
            // If the policy rejects the move, the task remains in its cgroup and continues.
            if m.cgroups.has_cpusets() {
                // The cpuset of the new cgroup may force the task to move to another CPU, so the
                // step is completed before the move.
                let cursor = &mut m.tasks[task].program;
                cursor.done();
                cursor.time += syscall;
                let _ = m.attach(&[task], cgroup);
                return None;
            }
            if m.tasks[task].cgroup() != cgroup {
                let _ = m.attach(&[task], cgroup);
            }
            true
        }
        Op::MigrateDisable => {
            m.migrate_disable(task);
            true
        }
        Op::MigrateEnable => {
            // The task may have to move to another CPU, so the step is completed before.
            m.tasks[task].program.done();
            m.migrate_enable(task);
            return None;
        }
        Op::Begin { arrival } => {
            let local = m.local_time(cpu);
            let cursor = &mut m.tasks[task].program;
            cursor.began = if arrival {
                cursor.created
            } else {
                local + cursor.time_before_work()
            };
            cursor.done();
            return None;
        }
        Op::BeginWoken => {
            let cursor = &mut m.tasks[task].program;
            cursor.began = cursor.woken;
            cursor.done();
            return None;
        }
        Op::Done { count } => {
            let local = m.local_time(cpu);
            let t = &mut m.tasks[task];
            let began = std::mem::replace(&mut t.program.began, NEVER);
            // If no request was started, the response time is 0.
            let response_ns = (local + t.program.time_before_work()).saturating_sub(began);
            let pid = t.pid();
            t.program.done();
            m.trace(
                cpu,
                trace::Event::Done {
                    pid,
                    count,
                    response_ns,
                },
            );
            return None;
        }
        Op::Phase(phase) => {
            let pid = m.tasks[task].pid();
            m.tasks[task].program.done();
            m.trace(cpu, trace::Event::Phase { pid, phase });
            return None;
        }
    };
    let cursor = &mut m.tasks[task].program;
    if !done {
        cursor.stage = cursor.stage.max(1);
        return Some(Next::Block(State::Interruptible));
    }
    cursor.done();
    if cursor.work == 0 && !has_costs_of_its_own(op) {
        cursor.time += syscall;
    }
    if let Op::Send { channel, .. } = *op {
        m.reserve_channel(channel, task);
    }
    None
}

/// Returns whether the step has already charged its own cost to the task. The general cost of a
/// system call is then not added. This applies to messages and to operations on futexes.
fn has_costs_of_its_own(op: &Op) -> bool {
    matches!(
        op,
        Op::Send { .. }
            | Op::Recv(_)
            | Op::Lock(_)
            | Op::Unlock(_)
            | Op::CondWait { .. }
            | Op::Sync { .. }
            | Op::Signal(_)
            | Op::Broadcast(_)
            | Op::Barrier(_)
            | Op::SemPost(_)
            | Op::SemWait(_)
            | Op::Suspend(_)
            | Op::Resume(_)
    )
}

/// Makes the running task sleep until the time `at` (ns).
fn sleep_until(m: &mut Machine, task: TaskId, at: u64, state: State) -> Option<Next> {
    m.tasks[task].program.stage = 1;
    // I/O is not subject to the slack of timers.
    let slack = match state {
        State::Interruptible => m.tasks[task].task_struct.timer_slack_ns,
        _ => 0,
    };
    match slack {
        0 => m.wake_at(task, at),
        slack => m.wake_in_range(task, at, slack),
    }
    Some(Next::Block(state))
}

/// Waits for a condition variable. The stages are 0 = not started, 1 = waiting for the signal, 2 =
/// signalled and waiting for the mutex.
fn cond_wait(m: &mut Machine, task: TaskId, cond: u32, mutex: u32, stage: u8) -> bool {
    if stage == 0 {
        m.mutex_unlock(mutex, task);
        m.cond_wait(cond, task);
        return false;
    }
    m.tasks[task].program.stage = 2;
    m.mutex_lock(mutex, task)
}

/// Makes the task exit. The first call only adds the CPU time that the exit takes.
fn exit(m: &mut Machine, task: TaskId) -> Next {
    let is_thread = m.tasks[task].tgid() != m.tasks[task].pid();
    let cursor = &mut m.tasks[task].program;
    if cursor.stage == 0 {
        cursor.stage = 1;
        cursor.time += u64::from(m.spec.costs.exit(is_thread));
        return Next::Work;
    }
    let parent = m.task_from_addr(m.tasks[task].task_struct.real_parent as u64);
    m.exit_task(task);
    if let Some(parent) = parent {
        m.tasks[parent].children -= 1;
        let is_process = m.tasks[parent].process != m.tasks[task].process;
        child_exited(m, parent, is_process);
    }
    Next::Block(State::Dead)
}

/// Wakes `parent` if it waits for exits of children.
///
/// The exit of a child process wakes a parent in wait4() (do_notify_parent). If the parent has to
/// wait for more children, it then sleeps again. The exit of a thread wakes the parent only if
/// enough children have exited.
fn child_exited(m: &mut Machine, parent: TaskId, is_process: bool) {
    let cursor = &m.tasks[parent].program;
    let left = match m.programs[cursor.program as usize].get(cursor.pc as usize) {
        Some(Op::WaitChildren) => 0,
        Some(Op::WaitChild { left }) => *left,
        _ => return,
    };
    if cursor.stage == 1 && (is_process || m.tasks[parent].children <= left) {
        m.try_to_wake_up(parent, 0);
    }
}
