// SPDX-License-Identifier: GPL-2.0-only
//! The table of the callbacks in struct sched_ext_ops. Each callback is a row with these columns:
//!
//! | column | meaning |
//! |---|---|
//! | `by_cpu` | name of the member in struct sched_ext_ops |
//! | `by_cid` | name of the member in struct sched_ext_ops_cid, which lacks two of the callbacks |
//! | `since` | first Linux release that has the callback |
//! | `contexts` | sets of restricted kfuncs that the callback may call ([`kf`]) |
//! | `or_null` | index of the argument that may be NULL, if there is one |

use bpf::rows::*;

/// Sets of kfuncs whose calls are restricted (enum scx_kf_allow_flags), as bits of the field
/// `contexts`. A program may call a restricted kfunc if its own `contexts` and those of the kfunc
/// (`Func::contexts`) have a bit in common.
pub mod kf {
    pub const UNLOCKED: u32 = 1;
    pub const INIT: u32 = 1 << 1;
    pub const CPU_RELEASE: u32 = 1 << 2;
    pub const DISPATCH: u32 = 1 << 3;
    pub const ENQUEUE: u32 = 1 << 4;
    pub const SELECT_CPU: u32 = 1 << 5;
    /// In the row of a kfunc: policies with a struct sched_ext_ops_cid may not call it. Such
    /// policies are rejected when they are loaded.
    pub const BY_CPU: u32 = 1 << 7;
    /// For callbacks that may call only unrestricted kfuncs.
    pub const REST: u32 = 1 << 6;
    /// For ops.init_cids() of Linux 7.3.
    pub const INIT_CIDS: u32 = 1 << 8;
    /// For programs of type syscall.
    pub const SYSCALL: u32 = UNLOCKED | SELECT_CPU;
    /// For tracing programs and timer callbacks.
    pub const TRACING: u32 = REST;
}

/// Passes the rows of the table to another macro, in the order of the members of struct
/// sched_ext_ops in Linux 7.2. The callbacks that Linux 7.3 added are at the end, because records of
/// runs contain the positions of callbacks.
macro_rules! callbacks {
    ($then:ident) => {
        $then! {
            SelectCpu { by_cpu: select_cpu, by_cid: select_cid, since: V6_12, contexts: kf::SELECT_CPU | kf::ENQUEUE }
            Enqueue { by_cpu: enqueue, by_cid: enqueue, since: V6_12, contexts: kf::SELECT_CPU | kf::ENQUEUE }
            Dequeue { by_cpu: dequeue, by_cid: dequeue, since: V6_12, contexts: kf::REST }
            Dispatch { by_cpu: dispatch, by_cid: dispatch, since: V6_12, contexts: kf::ENQUEUE | kf::DISPATCH, or_null: 1 }
            Tick { by_cpu: tick, by_cid: tick, since: V6_12, contexts: kf::REST }
            Runnable { by_cpu: runnable, by_cid: runnable, since: V6_12, contexts: kf::REST }
            Running { by_cpu: running, by_cid: running, since: V6_12, contexts: kf::REST }
            Stopping { by_cpu: stopping, by_cid: stopping, since: V6_12, contexts: kf::REST }
            Quiescent { by_cpu: quiescent, by_cid: quiescent, since: V6_12, contexts: kf::REST }
            Yield { by_cpu: r#yield, by_cid: r#yield, since: V6_12, contexts: kf::REST, or_null: 1 }
            CoreSchedBefore { by_cpu: core_sched_before, by_cid: core_sched_before, since: V6_12, contexts: kf::REST }
            SetWeight { by_cpu: set_weight, by_cid: set_weight, since: V6_12, contexts: kf::REST }
            SetCpumask { by_cpu: set_cpumask, by_cid: set_cmask, since: V6_12, contexts: kf::REST }
            UpdateIdle { by_cpu: update_idle, by_cid: update_idle, since: V6_12, contexts: kf::REST }
            CpuAcquire { by_cpu: cpu_acquire, since: V6_12, contexts: kf::REST }
            CpuRelease { by_cpu: cpu_release, since: V6_12, contexts: kf::CPU_RELEASE }
            InitTask { by_cpu: init_task, by_cid: init_task, since: V6_12, contexts: kf::UNLOCKED }
            ExitTask { by_cpu: exit_task, by_cid: exit_task, since: V6_12, contexts: kf::REST }
            Enable { by_cpu: enable, by_cid: enable, since: V6_12, contexts: kf::REST }
            Disable { by_cpu: disable, by_cid: disable, since: V6_12, contexts: kf::REST }
            Dump { by_cpu: dump, by_cid: dump, since: V6_12, contexts: kf::UNLOCKED }
            DumpCpu { by_cpu: dump_cpu, by_cid: dump_cid, since: V6_12, contexts: kf::REST }
            DumpTask { by_cpu: dump_task, by_cid: dump_task, since: V6_12, contexts: kf::REST }
            CgroupInit { by_cpu: cgroup_init, by_cid: cgroup_init, since: V6_12, contexts: kf::UNLOCKED }
            CgroupExit { by_cpu: cgroup_exit, by_cid: cgroup_exit, since: V6_12, contexts: kf::UNLOCKED }
            CgroupPrepMove { by_cpu: cgroup_prep_move, by_cid: cgroup_prep_move, since: V6_12, contexts: kf::UNLOCKED }
            CgroupMove { by_cpu: cgroup_move, by_cid: cgroup_move, since: V6_12, contexts: kf::REST }
            CgroupCancelMove { by_cpu: cgroup_cancel_move, by_cid: cgroup_cancel_move, since: V6_12, contexts: kf::UNLOCKED }
            CgroupSetWeight { by_cpu: cgroup_set_weight, by_cid: cgroup_set_weight, since: V6_12, contexts: kf::UNLOCKED }
            CgroupSetBandwidth { by_cpu: cgroup_set_bandwidth, by_cid: cgroup_set_bandwidth, since: V6_17, contexts: kf::UNLOCKED }
            CgroupSetIdle { by_cpu: cgroup_set_idle, by_cid: cgroup_set_idle, since: V6_19, contexts: kf::UNLOCKED }
            SubAttach { by_cpu: sub_attach, by_cid: sub_attach, since: V7_1, contexts: kf::UNLOCKED }
            SubDetach { by_cpu: sub_detach, by_cid: sub_detach, since: V7_1, contexts: kf::UNLOCKED }
            CpuOnline { by_cpu: cpu_online, by_cid: cid_online, since: V6_12, contexts: kf::UNLOCKED }
            CpuOffline { by_cpu: cpu_offline, by_cid: cid_offline, since: V6_12, contexts: kf::UNLOCKED }
            Init { by_cpu: init, by_cid: init, since: V6_12, contexts: kf::UNLOCKED | kf::INIT }
            Exit { by_cpu: exit, by_cid: exit, since: V6_12, contexts: kf::UNLOCKED }
            InitCids { by_cpu: init_cids, by_cid: init_cids, since: V7_3, contexts: kf::UNLOCKED | kf::INIT_CIDS }
            SubCapsUpdated { by_cpu: sub_caps_updated, by_cid: sub_caps_updated, since: V7_3, contexts: kf::REST }
            SubEcapsUpdated { by_cpu: sub_ecaps_updated, by_cid: sub_ecaps_updated, since: V7_3, contexts: kf::ENQUEUE | kf::DISPATCH }
        }
    };
}
pub(crate) use callbacks;

/// A row of the table, see the top of this file.
struct Row {
    by_cpu: &'static str,
    by_cid: Option<&'static str>,
    since: Version,
    contexts: u32,
    or_null: Option<i32>,
}

/// Returns the C name of a member, without the `r#` of a raw Rust identifier.
const fn c_name(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

macro_rules! rows {
    ($($op:ident {
        by_cpu: $by_cpu:ident $(, by_cid: $by_cid:ident)?, since: $since:expr, contexts: $contexts:expr
        $(, or_null: $or_null:literal)?
    })*) => {
        /// A callback of a policy. The callbacks are in the order of the members of struct
        /// sched_ext_ops in Linux 7.2, with newer ones at the end.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Callback {
            $(#[doc = concat!("`ops.", stringify!($by_cpu), "`")] $op,)*
        }

        pub const NR_OPS: usize = [$(stringify!($op)),*].len();
        /// Names of the members, indexed by `Op as usize`. `trace::Event::Callback` contains such
        /// an index.
        pub const NAMES: [&str; NR_OPS] = [$(c_name(stringify!($by_cpu))),*];
        pub(crate) const OPS: [Callback; NR_OPS] = [$(Callback::$op),*];
        static ROWS: [Row; NR_OPS] = [$(Row {
            by_cpu: c_name(stringify!($by_cpu)),
            by_cid: [$(Some(c_name(stringify!($by_cid))),)? None][0],
            since: $since,
            contexts: $contexts,
            or_null: [$(Some($or_null),)? None][0],
        }),*];
    };
}

callbacks!(rows);

impl Callback {
    pub fn name(self) -> &'static str {
        ROWS[self as usize].by_cpu
    }

    /// Returns the name in struct sched_ext_ops_cid, if the callback has one.
    pub(crate) fn cid_name(self) -> &'static str {
        ROWS[self as usize].by_cid.unwrap_or(self.name())
    }

    /// Returns the sets of restricted kfuncs that the callback may call (scx_kf_allow_flags).
    #[inline(always)]
    pub(crate) fn contexts(self) -> u32 {
        ROWS[self as usize].contexts
    }

    /// Returns the callback with this name in struct sched_ext_ops.
    pub fn by_name(name: &str) -> Option<Callback> {
        OPS.into_iter().find(|op| op.name() == name)
    }

    /// Returns the callback with this name in struct sched_ext_ops_cid. Linux 7.2 and 7.3 have
    /// different names for the callbacks about cgroups: cgroup_init and cpuctl_init, for example.
    pub fn by_cid_name(name: &str) -> Option<Callback> {
        let by_name = |name: &str| OPS.into_iter().find(|op| ROWS[*op as usize].by_cid == Some(name));
        match name.strip_prefix("cpuctl_") {
            Some(rest) => by_name(&format!("cgroup_{rest}")),
            None => by_name(name),
        }
    }

    /// Returns the first Linux release that has the callback.
    pub(crate) fn since(self) -> Version {
        ROWS[self as usize].since
    }

    /// Returns the index of the argument that may be NULL, if there is one.
    pub(crate) fn or_null(self) -> Option<i32> {
        ROWS[self as usize].or_null
    }
}
