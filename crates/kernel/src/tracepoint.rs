// SPDX-License-Identifier: GPL-2.0-only
//! Tracepoints and functions that a policy's other programs can attach to.

use crate::machine::Machine;
use crate::task::TaskId;

pub(crate) fn sched_waking(_m: &mut Machine, _task: TaskId) {}
pub(crate) fn sched_wakeup(_m: &mut Machine, _task: TaskId, _new: bool) {}
pub(crate) fn wake_up_new_task(_m: &mut Machine, _task: TaskId) {}
pub(crate) fn sched_process_fork(_m: &mut Machine, _parent: TaskId, _child: TaskId) {}
pub(crate) fn sched_process_exec(_m: &mut Machine, _task: TaskId) {}
pub(crate) fn sched_process_exit(_m: &mut Machine, _task: TaskId) {}
/// futex_wake is about to wake `task`.
pub(crate) fn futex_wake(_m: &mut Machine, _task: TaskId) {}
/// sock_def_readable is about to wake `task`.
pub(crate) fn sock_def_readable(_m: &mut Machine, _task: TaskId) {}
/// A pipe's write wakes its reader `task`.
pub(crate) fn pipe_wake(_m: &mut Machine, _task: TaskId) {}
