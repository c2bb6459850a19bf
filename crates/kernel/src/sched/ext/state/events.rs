// SPDX-License-Identifier: GPL-2.0-only
//! Counters of rare events while a policy is loaded: struct scx_event_stats. There is one set of
//! counters for the whole machine.

macro_rules! stats {
    ($($(#[$doc:meta])* $field:ident $name:literal,)*) => {
        /// Event counters, in the order of struct scx_event_stats here.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub struct Stats {
            $($(#[$doc])* pub $field: i64,)*
        }

        impl Stats {
            /// Returns all counters in the order of struct scx_event_stats here, with their names in
            /// Linux 7.2 or, if that release lacks them, in Linux 7.3.
            pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, i64)> {
                [$(($name, self.$field)),*].into_iter()
            }
        }
    };
}

/// Number of counters in Linux 7.2. The others are new in Linux 7.3.
const NR_7_2: usize = 13;
/// Positions of the counters in Linux 7.3.
const ORDER_7_3: [usize; 21] = [0, 1, 2, 3, 4, 5, 6, 7, 13, 14, 8, 9, 10, 11, 12, 15, 16, 17, 18, 19, 20];

impl Stats {
    /// Returns the counters of a release with their names, in the kernel's order.
    pub fn named(&self, is_linux_7_3: bool) -> Vec<(&'static str, i64)> {
        let all: Vec<(&'static str, i64)> = self.all().collect();
        if !is_linux_7_3 {
            return all[..NR_7_2].to_vec();
        }
        let renamed = |(name, count)| match name {
            "SCX_EV_REENQ_LOCAL_REPEAT" => ("SCX_EV_REENQ_REPEAT", count),
            _ => (name, count),
        };
        ORDER_7_3.iter().map(|&at| renamed(all[at])).collect()
    }
}

stats! {
    /// ops.select_cpu() returned a CPU that the task may not use.
    select_cpu_fallback "SCX_EV_SELECT_CPU_FALLBACK",
    /// A task was sent to the local DSQ of an offline CPU.
    dispatch_local_dsq_offline "SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE",
    /// A task whose slice was used up kept running because no other task was queued.
    dispatch_keep_last "SCX_EV_DISPATCH_KEEP_LAST",
    /// An exiting task went to its local DSQ without ops.enqueue().
    enq_skip_exiting "SCX_EV_ENQ_SKIP_EXITING",
    /// A task with migration disabled went to its local DSQ without ops.enqueue().
    enq_skip_migration_disabled "SCX_EV_ENQ_SKIP_MIGRATION_DISABLED",
    /// A task queued with SCX_ENQ_IMMED could not run immediately.
    reenq_immed "SCX_EV_REENQ_IMMED",
    /// A re-enqueue of a local DSQ led to another re-enqueue. In Linux 7.3, any task that is re-enqueued
    /// again before it runs is counted (SCX_EV_REENQ_REPEAT).
    reenq_local_repeat "SCX_EV_REENQ_LOCAL_REPEAT",
    /// A slice was set to the default.
    refill_slice_dfl "SCX_EV_REFILL_SLICE_DFL",
    /// Time in bypass mode, ns.
    bypass_duration "SCX_EV_BYPASS_DURATION",
    /// Number of tasks dispatched in bypass mode.
    bypass_dispatch "SCX_EV_BYPASS_DISPATCH",
    /// Number of times that bypass mode was entered.
    bypass_activate "SCX_EV_BYPASS_ACTIVATE",
    /// Number of attempts to insert a task that the policy does not own.
    insert_not_owned "SCX_EV_INSERT_NOT_OWNED",
    /// Number of tasks of bypassed children that the policy has run.
    sub_bypass_dispatch "SCX_EV_SUB_BYPASS_DISPATCH",
    /// A requested slice was too long and was clamped.
    slice_clamped "SCX_EV_SLICE_CLAMPED",
    /// A change of a slice was denied.
    slice_denied "SCX_EV_SLICE_DENIED",
    /// A task entered a local DSQ although its policy may not use the CPU, because it must run there.
    sub_forced_admit "SCX_EV_SUB_FORCED_ADMIT",
    /// A kick did not preempt, because the policy lacks SCX_CAP_PREEMPT.
    sub_preempt_denied "SCX_EV_SUB_PREEMPT_DENIED",
    /// A kick was dropped, because the policy may not use the CPU.
    sub_kick_denied "SCX_EV_SUB_KICK_DENIED",
    /// A re-enqueue of a local DSQ was dropped, because the policy may not use the CPU.
    sub_reenq_denied "SCX_EV_SUB_REENQ_DENIED",
    /// A performance target was denied, because the policy lacks SCX_CAP_PERF.
    sub_cidperf_denied "SCX_EV_SUB_CIDPERF_DENIED",
    /// An insertion with SCX_ENQ_RESCUE went to the rescue path.
    sub_rescue "SCX_EV_SUB_RESCUE",
}
