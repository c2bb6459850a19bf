// SPDX-License-Identifier: GPL-2.0-only
//! Counters of rare events while a policy is loaded: struct scx_event_stats. There is one set of
//! counters for the whole machine.

macro_rules! stats {
    ($($(#[$doc:meta])* $field:ident $name:literal,)*) => {
        /// Event counters, in the kernel's order.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub struct Stats {
            $($(#[$doc])* pub $field: i64,)*
        }

        impl Stats {
            /// Returns all counters with their names in the kernel.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, i64)> {
                [$(($name, self.$field)),*].into_iter()
            }
        }
    };
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
    /// A re-enqueue of a local DSQ led to another re-enqueue.
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
}
