// SPDX-License-Identifier: GPL-2.0-only
//! Capabilities of sub-schedulers (Linux 7.3): which CPUs a sub-scheduler may use, and for what.
//!
//! A parent grants capabilities (SCX_CAP_*) for certain cids to its direct children. A grant becomes
//! effective on a CPU when this CPU next looks for a task. Therefore each sub-scheduler has the
//! granted capabilities by cid and the effective ones by CPU. The root policy has all capabilities.

use crate::layout::enums::*;
use crate::simulation::id::CpuId;
use crate::simulation::table::Table;
use std::collections::BTreeSet;

/// Capabilities of a sub-scheduler. All tables are empty before Linux 7.3.
#[derive(Debug, Default)]
pub(crate) struct SubCaps {
    /// Granted capabilities by cid (scx_pshard.caps).
    pub(crate) granted: Vec<u64>,
    pub(crate) cpus: Table<CpuId, CpuCaps>,
    /// Changes of each shard for which ops.sub_caps_updated() has yet to be called.
    pub(crate) updates: Vec<Update>,
}

/// State of a sub-scheduler on one CPU (struct scx_sched_pcpu).
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuCaps {
    /// Effective capabilities, with those that they imply (ecaps).
    pub(crate) effective: u64,
    /// Effective capabilities at the last call of ops.sub_ecaps_updated() (reported_ecaps).
    pub(crate) reported: u64,
    /// Whether the CPU has yet to update `effective` (ecaps_to_sync_node).
    pub(crate) is_queued: bool,
    /// Whether ops.update_idle() is due although the CPU has not become idle (idle_renotify).
    pub(crate) owes_idle: bool,
    /// Decaying CPU time of recent rescues, ns, and the jiffy of the last decay.
    pub(crate) rescue_avg: u64,
    pub(crate) rescue_avg_at: u64,
}

/// Pending changes of a shard (struct scx_caps_updated).
#[derive(Clone, Debug, Default)]
pub(crate) struct Update {
    pub(crate) caps: u64,
    pub(crate) cids: BTreeSet<u32>,
    /// Whether a delivery is in progress, which will also deliver later changes.
    pub(crate) is_in_flight: bool,
    /// Mask in the policy's arena that the callback receives: the policy's pointer, and the address in
    /// the region.
    pub(crate) mask: (u64, u64),
}

/// Returns the capabilities that a set of granted capabilities makes effective
/// (calc_effective_caps, scx_caps_implied).
pub(crate) fn with_implied(granted: u64) -> u64 {
    let mut caps = granted;
    if caps & SCX_CAP_PREEMPT != 0 {
        caps |= SCX_CAP_ENQ;
    }
    if caps & SCX_CAP_ENQ != 0 {
        caps |= SCX_CAP_ENQ_IMMED;
    }
    caps
}

/// Returns the capability that an insertion into a local DSQ needs (scx_caps_for_enq).
pub(crate) fn for_enq(enq_flags: u64) -> u64 {
    if enq_flags & SCX_ENQ_IGNORE_CAPS != 0 {
        0
    } else if enq_flags & SCX_ENQ_IMMED != 0 {
        SCX_CAP_ENQ_IMMED
    } else {
        SCX_CAP_ENQ
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stronger_capabilities_imply_weaker_ones() {
        assert_eq!(
            with_implied(SCX_CAP_PREEMPT),
            SCX_CAP_PREEMPT | SCX_CAP_ENQ | SCX_CAP_ENQ_IMMED
        );
        assert_eq!(with_implied(SCX_CAP_ENQ), SCX_CAP_ENQ | SCX_CAP_ENQ_IMMED);
        assert_eq!(with_implied(SCX_CAP_PERF), SCX_CAP_PERF);
        assert_eq!(for_enq(SCX_ENQ_IMMED | SCX_ENQ_HEAD), SCX_CAP_ENQ_IMMED);
        assert_eq!(for_enq(SCX_ENQ_IMMED | SCX_ENQ_IGNORE_CAPS), 0);
    }
}
