// SPDX-License-Identifier: GPL-2.0-only
//! Attaching and enabling of sub-schedulers (scx_sub_enable_workfn).

use super::disable::{finish, wait_for_readers};
use super::{attached_to, call_parent, cgroup_path, in_sched, is_below, sched_of_cgroup};
use crate::layout::callbacks::Callback;
use crate::layout::enums::{SCX_OPS_TID_TO_TASK, SCX_SUB_MAX_DEPTH};
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::ext::enable::{self, run_as_user};
use crate::sched::ext::state::exit_info::{Exit, ExitKind};
use crate::sched::ext::state::ops_table::{self, PreparedPolicy};
use crate::sched::ext::state::scheds::{MAX_SUBS, Phase, SchedId};
use crate::sched::ext::{bypass, caps, cid, exit, handover, lifecycle, watchdog};
use crate::sched::tracepoint::state::{Hook, Tracing};
use bpf::errno::{EBUSY, EFAULT, EINVAL, ENODEV, ENOENT, EOPNOTSUPP};

/// Bits of the functions that the kernel calls when it registers a policy. Programs of the scx headers
/// are attached to them. They run before the policy is enabled, so a sub-scheduler may have them.
const AT_REGISTRATION: u32 = 1 << Hook::BpfScxReg as u32 | 1 << Hook::BpfScxRegCid as u32;

/// Why a cgroup cannot have a sub-scheduler, with the kernel's errno.
#[derive(Debug, thiserror::Error)]
enum NoParent {
    #[error("no policy is loaded that could accept a sub-scheduler ({errno})", errno = -ENODEV)]
    NoPolicy,
    #[error("cgroup {0} does not exist ({errno})", errno = -ENOENT)]
    NoCgroup(String),
    #[error("policy \"{0}\" is already attached to cgroup {1} ({errno})", errno = -EBUSY)]
    Attached(String, String),
    #[error("policy \"{0}\" accepts no sub-schedulers: it has no ops.sub_attach() ({errno})", errno = -EOPNOTSUPP)]
    NoCallback(String),
    #[error("cgroup {0}, which is below {1}, has a sub-scheduler already ({errno})", errno = -EBUSY)]
    Below(String, String),
    #[error("parent disabled ({errno})", errno = -ENOENT)]
    Disabled,
}

/// Returns the policy that would be the parent of a sub-scheduler of `cgroup` (find_parent_sched).
fn find_parent(m: &Machine, cgroup: u32) -> Result<SchedId, NoParent> {
    let path = cgroup_path(m, cgroup);
    if !m.ext.enabled {
        return Err(NoParent::NoPolicy);
    }
    if !m.cgroups.get(cgroup).online {
        return Err(NoParent::NoCgroup(path.into()));
    }
    let parent = sched_of_cgroup(m, cgroup);
    let name = m.ext.ops_of(parent).name();
    let own = if parent == SchedId::ROOT {
        0
    } else {
        m.ext.sched(parent).cgroup
    };
    if own == cgroup {
        return Err(NoParent::Attached(name.into(), path.into()));
    }
    if !m.ext.ops_of(parent).defines(Callback::SubAttach) {
        return Err(NoParent::NoCallback(name.into()));
    }
    let below = |&id: &SchedId| m.ext.parent_of(id) == Some(parent) && is_below(m, m.ext.sched(id).cgroup, cgroup);
    if let Some(child) = m.ext.live_subs().find(below) {
        let child = cgroup_path(m, m.ext.sched(child).cgroup);
        return Err(NoParent::Below(child.into(), path.into()));
    }
    if m.ext.exit_of(parent).is_some() {
        return Err(NoParent::Disabled);
    }
    Ok(parent)
}

/// Adds a sub-scheduler for `cgroup` to the hierarchy. Afterwards its programs can run, and it can
/// be [enabled](enable()).
///
/// # Errors
/// The exit record if the kernel would reject the policy, or if the simulator does not support it.
pub(crate) fn install(
    m: &mut Machine,
    policy: PreparedPolicy,
    hooks: Tracing,
    cgroup: u32,
) -> Result<SchedId, Box<Exit>> {
    let (vm, ops, cid) = policy.into_parts(m);
    let refuse = |m: &Machine, message: String| Exit::refusal(ops.name(), message, m.now);
    let parent = find_parent(m, cgroup).map_err(|error| refuse(m, error.to_string()))?;
    if !cid {
        return Err(refuse(m, "sub-sched requires cid-form struct_ops".into()));
    }
    if hooks.entry & !AT_REGISTRATION != 0 || hooks.exit != 0 {
        let message = "not supported: a sub-scheduler with tracing programs, such as tp_btf or fentry";
        return Err(refuse(m, message.into()));
    }
    if m.overlap.is_some() {
        return Err(refuse(
            m,
            "not supported: sub-schedulers while callbacks overlap".into(),
        ));
    }
    let Some(id) = m.ext.add_sched(parent, cgroup) else {
        return Err(refuse(
            m,
            format!("not supported: more than {MAX_SUBS} sub-schedulers in one run"),
        ));
    };
    in_sched(m, id, |m| {
        m.ext.install(vm, ops, hooks);
        m.ext.begin_sched();
    });
    Ok(id)
}

/// Enables an installed sub-scheduler: asks the parent, calls ops.init_task() for the tasks of the
/// cgroup, and takes them over from the parent.
///
/// # Errors
/// The exit record if the sub-scheduler could not be enabled. It has then been removed.
pub(crate) fn enable(m: &mut Machine, id: SchedId) -> Result<(), Box<Exit>> {
    run_as_user(m, |m| {
        m.ext.enabling = true;
        let result = run_enable_steps(m, id);
        m.ext.enabling = false;
        if let Err(errno) = result {
            in_sched(m, id, |m| exit::error(m, format!("scx_sub_enable() failed ({errno})")));
        }
        if m.ext.exit_of(id).is_none() {
            return Ok(());
        }
        finish(m, id);
        let (_, exit) = m.ext.sub_exits.pop().expect("the sub-scheduler has ended");
        Err(Box::new(exit))
    })
}

/// Removes a sub-scheduler that could not be enabled, unless it has been removed already.
pub(crate) fn abandon(m: &mut Machine, id: SchedId) {
    if m.ext.sched(id).phase != Phase::Gone {
        run_as_user(m, |m| {
            in_sched(m, id, |m| exit::exit_on(m, ExitKind::Unreg, 0, -1, ""));
            finish(m, id);
        });
    }
}

/// Detaches the sub-scheduler of a cgroup if there is one (bpf_scx_unreg).
pub(crate) fn detach(m: &mut Machine, cgroup: u32) {
    if let Some(id) = attached_to(m, cgroup) {
        abandon(m, id);
    }
}

/// Performs the steps of scx_sub_enable_workfn() in its order. Stops at the first step that returns
/// an errno.
fn run_enable_steps(m: &mut Machine, id: SchedId) -> Result<(), i32> {
    let parent = m.ext.sched(id).parent;
    let shares_tids = m.ext.ops_of(SchedId::ROOT).flags & SCX_OPS_TID_TO_TASK != 0;
    in_sched(m, id, |m| {
        watchdog::start(m);
        if m.ext.is_linux_7_3 {
            check_tids(m, shares_tids)?;
            enable::validate(m)?;
            caps::alloc(m)?;
        }
        if m.ext.level_of(id) >= SCX_SUB_MAX_DEPTH {
            exit::error(m, format!("max nesting depth {SCX_SUB_MAX_DEPTH} violated"));
            return Err(-EINVAL);
        }
        if m.ext.is_linux_7_3 {
            cid::alloc_masks(m)?;
            return enable::call_init(m);
        }
        enable::call_init(m)?;
        cid::alloc_masks(m)?;
        check_tids(m, shares_tids)?;
        enable::validate(m)
    })?;
    let result = call_parent(m, Callback::SubAttach, id).map_or(-EFAULT, |result| result as i32);
    if result != 0 {
        return in_sched(m, id, |m| {
            let errno = exit::sanitize(m, "sub_attach", result);
            exit::error(m, format!("parent rejected ({errno})"));
            Err(errno)
        });
    }
    m.ext.sched_mut(id).attached = true;
    in_sched(m, id, |m| {
        bypass::set(m, true);
        m.ext.activate_ops(ops_table::normal_ops());
    });
    wait_for_readers(m);
    m.ext.sched_mut(id).phase = Phase::Owner;
    if m.ext.is_linux_7_3 {
        handover::claim_cgroups(m, id, parent)?;
    }
    claim_tasks(m, id, parent)?;
    in_sched(m, id, |m| bypass::set(m, false));
    if m.ext.is_linux_7_3 {
        caps::seed(m, id);
    }
    Ok(())
}

/// Checks that the root policy has a table of tids if the sub-scheduler needs one.
fn check_tids(m: &mut Machine, shares_tids: bool) -> Result<(), i32> {
    if m.ext.ops().flags & SCX_OPS_TID_TO_TASK != 0 && !shares_tids {
        exit::error(m, "SCX_OPS_TID_TO_TASK requires root scheduler to enable it");
        return Err(-EINVAL);
    }
    Ok(())
}

/// Moves the tasks of the sub-scheduler's cgroups from the parent to it. Every task is first
/// initialized for the sub-scheduler, so that all tasks stay with the parent if one is rejected.
fn claim_tasks(m: &mut Machine, id: SchedId, parent: SchedId) -> Result<(), i32> {
    let tasks = handover::tasks_of(m, |m, task| {
        m.tasks[task].ext.sched == parent && sched_of_cgroup(m, m.tasks[task].cgroup()) == id
    });
    for (index, &task) in tasks.iter().enumerate() {
        let errno = in_sched(m, id, |m| lifecycle::init_task(m, task, false));
        if errno != 0 {
            for &task in &tasks[..index] {
                in_sched(m, id, |m| lifecycle::call_exit_task(m, task, true));
            }
            return Err(errno);
        }
    }
    for task in tasks {
        m.change_queued(task, flags::MOVE, |m| {
            in_sched(m, parent, |m| lifecycle::disable_and_call_exit_task(m, task));
            m.tasks[task].ext.sched = id;
            if m.tasks[task].class == Class::Ext {
                in_sched(m, id, |m| lifecycle::enable_task(m, task));
            }
        });
    }
    Ok(())
}
