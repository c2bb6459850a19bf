// SPDX-License-Identifier: GPL-2.0-only
//! Calls the programs that a policy has attached to tracepoints and kernel functions (hooks).
//!
//! The machine calls a function of this file wherever the kernel has a hook. If no program is
//! attached, the call costs only one comparison. Programs get the arguments that the kernel would
//! pass. However, objects that are not modelled are NULL, for example files, sockets and
//! `linux_binprm`. fexit programs run at the end of the function and get its result as the last
//! argument. Programs that are attached to a hook that is not modelled never run. A warning lists
//! them when the policy is loaded.

mod program_error;
pub mod state;

pub use program_error::ProgramError;

use crate::layout::callbacks::kf;
use crate::machine::Machine;
use crate::sched::ext::enable::remove_policy;
use crate::sched::ext::exit;
use crate::sched::ext::ops;
use crate::sched::ext::state::ops_table::Frame;
use crate::sched::state::task::State;
use crate::sched::tracepoint::state::*;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use bpf::engine::Vm;
use bpf::object::{Program, ProgramKind};

/// Runs the programs that are attached to the entry of a hook.
macro_rules! at {
    ($m:expr, $hook:ident, $($arg:expr),*) => {
        if $m.ext.hooked_at_entry(Hook::$hook) {
            let args = [$($arg),*];
            run($m, Hook::$hook, false, &args);
        }
    };
}

/// Runs the programs that are attached to the exit of a hook.
macro_rules! after {
    ($m:expr, $hook:ident, $($arg:expr),*) => {
        if $m.ext.hooked_at_exit(Hook::$hook) {
            let args = [$($arg),*];
            run($m, Hook::$hook, true, &args);
        }
    };
}

/// Runs the programs that are attached to a hook. The caller has already checked that there is at
/// least one.
#[cold]
fn run<const N: usize>(m: &mut Machine, hook: Hook, at_exit: bool, args: &[u64; N]) {
    if m.program_is_suspended(hook) {
        return;
    }
    let mut next = 0;
    // A program can end the policy. The policy nevertheless remains in the machine until the end of
    // the current handler, so the loop can continue.
    while let Some(&attached) = m.ext.policy.as_ref().and_then(|policy| policy.hooks.programs.get(next)) {
        next += 1;
        if attached.hook != hook as u8 || attached.at_exit != at_exit {
            continue;
        }
        m.charge_here(u64::from(m.spec.costs.callback_ns));
        let outer = std::mem::replace(&mut m.ext.frame, Frame::NONE);
        let (result, _) = ops::run(m, kf::TRACING, |m| Vm::call_args(m, attached.function as usize, args));
        m.ext.frame = outer;
        if let Err(fault) = result {
            exit::fault(m, NAMES[hook as usize], &fault);
            break;
        }
    }
}

/// Calls the programs for a switch of `cpu` from `prev` to `next`.
#[inline]
pub(crate) fn sched_switch(m: &mut Machine, cpu: CpuId, prev: TaskId, next: TaskId) {
    if m.ext.hooked_at_entry(Hook::SchedSwitch) {
        let state = if prev == IDLE {
            State::Running
        } else {
            m.tasks[prev].state()
        };
        let preempt = u64::from(prev != IDLE && state == State::Running);
        let args = [
            preempt,
            m.addr_of_task(prev, cpu),
            m.addr_of_task(next, cpu),
            u64::from(state as u32),
        ];
        run(m, Hook::SchedSwitch, false, &args);
    }
}

#[inline]
pub(crate) fn sched_waking(m: &mut Machine, task: TaskId) {
    at!(m, SchedWaking, m.layout.task_addr(task));
}

#[inline]
pub(crate) fn sched_wakeup(m: &mut Machine, task: TaskId, new: bool) {
    if new {
        at!(m, SchedWakeupNew, m.layout.task_addr(task));
        after!(m, WakeUpNewTask, m.layout.task_addr(task), 0);
    } else {
        at!(m, SchedWakeup, m.layout.task_addr(task));
    }
}

/// Calls the programs for a move of `task` to `cpu`. The task is on no runqueue at this time.
#[inline]
pub(crate) fn sched_migrate_task(m: &mut Machine, task: TaskId, cpu: CpuId) {
    at!(m, SchedMigrateTask, m.layout.task_addr(task), u64::from(cpu));
}

#[inline]
pub(crate) fn wake_up_new_task(m: &mut Machine, task: TaskId) {
    at!(m, TaskNewtask, m.layout.task_addr(task), 0);
    at!(m, WakeUpNewTask, m.layout.task_addr(task));
}

#[inline]
pub(crate) fn sched_process_fork(m: &mut Machine, parent: TaskId, child: TaskId) {
    at!(
        m,
        SchedProcessFork,
        m.addr_of_task(parent, CpuId::BOOT),
        m.layout.task_addr(child)
    );
}

#[inline]
pub(crate) fn sched_process_exec(m: &mut Machine, task: TaskId) {
    at!(
        m,
        SchedProcessExec,
        m.layout.task_addr(task),
        u64::from(m.tasks[task].pid()),
        0
    );
}

/// Calls the programs for a change of the name of `task` to `comm`, before the change.
pub(crate) fn task_rename(m: &mut Machine, task: TaskId, comm: &str) {
    if m.ext.hooked_at_entry(Hook::TaskRename) {
        let addr = m.layout.task_addr(task);
        let mut bytes = comm.as_bytes().to_vec();
        bytes.resize(16, 0);
        // `run` has already handled faults of the programs, so no error is left here.
        let _ = Vm::with_stack(m, &bytes, |m, comm| {
            run(m, Hook::TaskRename, false, &[addr, comm]);
            Ok(())
        });
    }
}

#[inline]
pub(crate) fn sched_process_exit(m: &mut Machine, task: TaskId) {
    at!(m, DoExit, 0);
    if m.ext.hooked_at_entry(Hook::SchedProcessExit) {
        let tgid = m.tasks[task].tgid();
        let threads = m
            .tasks
            .iter()
            .filter(|t| t.tgid() == tgid && t.state() != State::Dead)
            .count();
        let alone = u64::from(threads <= 1);
        let addr = m.layout.task_addr(task);
        run(m, Hook::SchedProcessExit, false, &[addr, alone]);
    }
}

/// Calls the programs for the move of a task to a cgroup.
pub(crate) fn cgroup_attach_task(m: &mut Machine, task: TaskId, cgroup: u32) {
    at!(
        m,
        CgroupAttachTask,
        m.layout.cgroup_addr(cgroup),
        m.layout.cgroup_path_addr(cgroup),
        m.layout.task_addr(task),
        0
    );
}

/// Calls the programs for the creation of a cgroup.
pub(crate) fn cgroup_mkdir(m: &mut Machine, cgroup: u32) {
    at!(
        m,
        CgroupMkdir,
        m.layout.cgroup_addr(cgroup),
        m.layout.cgroup_path_addr(cgroup)
    );
}

/// Calls the programs for the removal of a cgroup.
pub(crate) fn cgroup_rmdir(m: &mut Machine, cgroup: u32) {
    at!(
        m,
        CgroupRmdir,
        m.layout.cgroup_addr(cgroup),
        m.layout.cgroup_path_addr(cgroup)
    );
}

/// Calls the programs at the entry of the function that changes the CPUs of a cgroup.
pub(crate) fn cpuset_write_resmask(m: &mut Machine) {
    at!(m, CpusetWriteResmask, 0, 0, 0, 0);
}

/// Calls the programs at the exit of the function that changes the CPUs of a cgroup. In the kernel,
/// the function's result is the number of bytes written. This is not modelled; the result is 0.
pub(crate) fn cpuset_written(m: &mut Machine) {
    after!(m, CpusetWriteResmask, 0, 0, 0, 0, 0);
}

/// Calls the programs for the tick on a CPU: for sched_tick(), and for the entry and exit of
/// scx_tick().
#[inline]
pub(crate) fn sched_tick(m: &mut Machine, cpu: CpuId) {
    at!(m, SchedTick, 0);
    at!(m, ScxTick, m.layout.rq_addr(cpu));
    after!(m, ScxTick, m.layout.rq_addr(cpu), 0);
}

/// Calls the programs at the entry of futex_wake(), which is about to wake `task`. The task waits
/// for a mutex, a condition variable, a semaphore or a barrier.
#[inline]
pub(crate) fn futex_wake(m: &mut Machine, _task: TaskId) {
    at!(m, FutexWake, 0, 0, 1, u64::from(u32::MAX));
}

/// Calls the programs at the exit of futex_wake(), which has woken a task.
#[inline]
pub(crate) fn futex_woken(m: &mut Machine) {
    after!(m, FutexWake, 0, 0, 1, u64::from(u32::MAX), 1);
}

/// Calls the programs at the entry of sock_def_readable(), which is about to wake `task`. The task
/// reads from a socket.
#[inline]
pub(crate) fn sock_def_readable(m: &mut Machine, _task: TaskId) {
    at!(m, SockDefReadable, 0);
}

/// Calls the programs for a write to a pipe that is about to wake `task`. The task reads from the
/// pipe.
#[inline]
pub(crate) fn pipe_wake(m: &mut Machine, _task: TaskId) {
    at!(m, WakeUpSyncKey, 0, 1, 0);
}

/// Calls the programs at the exit of the function with which a message has woken its reader.
#[inline]
pub(crate) fn message_woken(m: &mut Machine, socket: bool) {
    if socket {
        after!(m, SockDefReadable, 0, 0);
    } else {
        after!(m, WakeUpSyncKey, 0, 1, 0, 0);
    }
}

/// Calls the programs for the registration of the policy. This is done before ops.init() is called.
pub(crate) fn bpf_scx_reg(m: &mut Machine, cid: bool) {
    if cid {
        at!(m, BpfScxRegCid, 0, 0);
    } else {
        at!(m, BpfScxReg, 0, 0);
    }
}

/// Runs a program of type syscall like user space does with BPF_PROG_TEST_RUN. Returns the
/// program's result. The program may modify `context`. The programs of a policy that has ended can
/// still run, until another policy is loaded.
///
/// # Errors
/// If no policy was loaded, if the policy has no such program, or if the program faults.
pub fn run_syscall_program(m: &mut Machine, program: &Program, context: &mut [u8]) -> Result<i32, ProgramError> {
    if program.kind != ProgramKind::Syscall {
        return Err(ProgramError::NotSyscall(program.name.clone()));
    }
    with_programs(m, program, |m| run_installed(m, program, context))
}

/// Runs a program of the loaded policy, or of the policy that ended last.
///
/// # Errors
/// If no policy was loaded, or if the program fails.
pub(crate) fn with_programs<R>(
    m: &mut Machine,
    program: &Program,
    run: impl FnOnce(&mut Machine) -> Result<R, ProgramError>,
) -> Result<R, ProgramError> {
    let revived = m.ext.revive_programs();
    if !m.ext.has_policy() {
        return Err(ProgramError::NoPolicy(program.name.clone()));
    }
    let result = run(m);
    if revived {
        remove_policy(m);
    }
    result
}

/// Runs a program of type syscall of the installed policy.
fn run_installed(m: &mut Machine, program: &Program, context: &mut [u8]) -> Result<i32, ProgramError> {
    let region = m.region.clone();
    let addr = region.alloc(context.len() as u64).ok_or(ProgramError::OutOfMemory)?;
    let result = region.write(addr, context).and_then(|()| {
        let function = program.function;
        // The second argument is the length of the context. The sanitizer needs it to check
        // accesses.
        let args = [addr, context.len() as u64, 0, 0, 0];
        ops::run(m, kf::SYSCALL, |m| Vm::call(m, function, args)).0
    });
    if let Ok(bytes) = region.bytes(addr, context.len() as u64) {
        context.copy_from_slice(&bytes);
    }
    region.free(addr);
    match result {
        Ok(value) => Ok(value as i32),
        Err(fault) => Err(ProgramError::fault(program, m.ext.vm().code(), &fault)),
    }
}
