// SPDX-License-Identifier: GPL-2.0-only
//! Hooks: the tracepoints and kernel functions to which tracing programs of a policy can be
//! attached. Also contains the list of the attached programs.

use bpf::object::{Program, ProgramKind};
use profile::Profile;

macro_rules! hooks {
    ($($hook:ident $name:literal,)*) => {
        /// A hook: a tracepoint or a kernel function to which programs can be attached.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Hook {
            $($hook,)*
        }

        pub(crate) const NAMES: &[&str] = &[$($name),*];
    };
}

// The tracepoints are first, followed by the functions.
hooks! {
    SchedSwitch "sched_switch",
    SchedWaking "sched_waking",
    SchedWakeup "sched_wakeup",
    SchedWakeupNew "sched_wakeup_new",
    SchedMigrateTask "sched_migrate_task",
    SchedProcessFork "sched_process_fork",
    SchedProcessExec "sched_process_exec",
    SchedProcessExit "sched_process_exit",
    TaskNewtask "task_newtask",
    TaskRename "task_rename",
    CgroupAttachTask "cgroup_attach_task",
    CgroupMkdir "cgroup_mkdir",
    CgroupRmdir "cgroup_rmdir",
    WakeUpNewTask "wake_up_new_task",
    SchedTick "sched_tick",
    ScxTick "scx_tick",
    DoExit "do_exit",
    FutexWake "futex_wake",
    SockDefReadable "sock_def_readable",
    WakeUpSyncKey "__wake_up_sync_key",
    BpfScxReg "bpf_scx_reg",
    BpfScxRegCid "bpf_scx_reg_cid",
    CpusetWriteResmask "cpuset_write_resmask",
}

/// Index of the first hook that is a kernel function.
pub(crate) const FIRST_FUNCTION: usize = Hook::WakeUpNewTask as usize;

/// The tracing programs that are attached to hooks.
#[derive(Default)]
pub struct Tracing {
    /// Bit set of the hooks that have a program at their entry.
    pub(crate) entry: u32,
    /// Bit set of the hooks that have a program at their exit.
    pub(crate) exit: u32,
    pub(crate) programs: Vec<Attached>,
}

#[derive(Clone, Copy)]
pub(crate) struct Attached {
    pub(crate) hook: u8,
    pub(crate) at_exit: bool,
    pub(crate) function: u32,
}

/// Returns the programs that are attached, either automatically or because of the profile. Also
/// returns a warning for each program that will never run.
pub(crate) fn resolve(programs: &[Program], profile: &Profile) -> (Tracing, Vec<String>) {
    let (mut tracing, mut warnings) = (Tracing::default(), Vec::new());
    for program in programs {
        let wanted = program.auto_attach || profile.attach.contains(&program.name);
        if !wanted || profile.detach.contains(&program.name) {
            continue;
        }
        let (functions, at_exit) = match program.kind {
            ProgramKind::TpBtf | ProgramKind::RawTracepoint => (false, false),
            ProgramKind::Fentry => (true, false),
            ProgramKind::Fexit => (true, true),
            ProgramKind::StructOps | ProgramKind::Syscall => continue,
            _ => {
                warnings.push(never_runs_warning(program, "programs of this kind are not modelled"));
                continue;
            }
        };
        let found = NAMES.iter().position(|&name| name == program.attach_to);
        match found.filter(|&hook| (hook >= FIRST_FUNCTION) == functions) {
            Some(hook) => {
                let (hook, function) = (hook as u8, program.function as u32);
                tracing.programs.push(Attached {
                    hook,
                    at_exit,
                    function,
                });
                *(if at_exit { &mut tracing.exit } else { &mut tracing.entry }) |= 1 << hook;
            }
            None => warnings.push(never_runs_warning(
                program,
                "the simulated kernel has no such tracepoint or function",
            )),
        }
    }
    (tracing, warnings)
}

pub(crate) fn never_runs_warning(program: &Program, why: &str) -> String {
    format!(
        "program {} on {:?} '{}' never runs: {why}",
        program.name, program.kind, program.attach_to
    )
}
