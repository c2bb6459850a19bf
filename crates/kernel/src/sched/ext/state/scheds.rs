// SPDX-License-Identifier: GPL-2.0-only
//! The hierarchy of policies: the root policy and its sub-schedulers (struct scx_sched), each of
//! which schedules the tasks of a cgroup and of the cgroups below it.
//!
//! Exactly one policy is current. The fields of [`Core`] that belong to a policy are those of the
//! current policy; the fields of all other policies are parked. The root policy is current outside
//! of sched_ext, so machines without sub-schedulers never park anything.

use crate::layout::enums::{SCX_DSP_DFL_MAX_BATCH, SCX_SLICE_DFL};
use crate::sched::ext::state::caps::SubCaps;
use crate::sched::ext::state::core::{Core, DispatchContext, Ending, MAX_TIMEOUT_NS};
use crate::sched::ext::state::dsq::{DsqRef, Namespace};
use crate::sched::ext::state::events::Stats;
use crate::sched::ext::state::exit_info::Exit;
use crate::sched::ext::state::loaded::{Active, LoadedPolicy};
use crate::sched::ext::state::ops_table::{Called, NO_OPS, NR_OPS, OpsTable};
use crate::simulation::id::CpuId;

/// A policy in the hierarchy. The number is not used again when a sub-scheduler has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchedId(u8);

impl SchedId {
    pub const ROOT: SchedId = SchedId(0);

    fn index(self) -> usize {
        self.0.into()
    }
}

/// Maximum number of sub-schedulers that a run can attach. [`SchedId`] and the numbers of DSQs in
/// traces limit it.
pub(crate) const MAX_SUBS: usize = 15;

/// All policies of a machine. `all` is empty until a sub-scheduler is attached for the first time.
/// Its first entry is the root policy.
#[derive(Default)]
pub(crate) struct Scheds {
    pub(crate) current: SchedId,
    pub(crate) all: Vec<Sched>,
}

/// A policy's place in the hierarchy.
pub(crate) struct Sched {
    /// Index of the cgroup whose tasks the policy schedules.
    pub(crate) cgroup: u32,
    pub(crate) parent: SchedId,
    pub(crate) phase: Phase,
    /// Whether ops.sub_attach() of the parent has accepted the policy.
    pub(crate) attached: bool,
    /// Whether the parent runs the tasks on its bypass DSQs for this policy (bypass_dsp_claim).
    pub(crate) is_hosted: bool,
    /// Capabilities of the policy, which is a sub-scheduler (Linux 7.3).
    pub(crate) caps: SubCaps,
    parked: Box<Parked>,
}

/// Phase of a sub-scheduler's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its ops.init() may have run, but the tasks of its cgroup are still the parent's.
    Linked,
    /// New tasks of its cgroup belong to it.
    Owner,
    /// It has ended and has no tasks.
    Gone,
}

/// The fields of a policy that is not current. They have the names that they have in [`Core`].
struct Parked {
    policy: Option<LoadedPolicy>,
    active: Active,
    exit: Option<Exit>,
    exit_flags: u64,
    ending: Ending,
    stats: Stats,
    called: [Called; NR_OPS],
    shows_dsqs: bool,
    settled_insns: u64,
    settled_cost: u64,
    dsp: DispatchContext,
    dsp_max_batch: u32,
    bypass_depth: u32,
    bypass_since: u64,
    bypass_turns: Vec<u32>,
    nr_hosted: u32,
    slice_dfl: u64,
    watchdog_timeout: u64,
    /// Masks of ops.set_cmask() in the policy's arena (`Cids::scratch`).
    masks: Vec<(u64, u64)>,
    /// Mask of the online CPUs in the policy's arena (`Cids::online`).
    online: Option<(u64, u64)>,
    /// DSQs of the policy (`Dsqs::names`).
    names: Namespace,
}

impl Parked {
    fn new(names: Namespace) -> Box<Parked> {
        Box::new(Parked {
            policy: None,
            active: Active::default(),
            exit: None,
            exit_flags: 0,
            ending: Ending::No,
            stats: Stats::default(),
            called: [Called::default(); NR_OPS],
            shows_dsqs: false,
            settled_insns: 0,
            settled_cost: 0,
            dsp: DispatchContext::default(),
            dsp_max_batch: SCX_DSP_DFL_MAX_BATCH as u32,
            bypass_depth: 0,
            bypass_since: 0,
            bypass_turns: Vec::new(),
            nr_hosted: 0,
            slice_dfl: SCX_SLICE_DFL,
            watchdog_timeout: MAX_TIMEOUT_NS,
            masks: Vec::new(),
            online: None,
            names,
        })
    }
}

impl Core {
    /// Returns whether a sub-scheduler has been attached since the root policy was enabled.
    #[inline]
    pub(crate) fn has_subs(&self) -> bool {
        !self.scheds.all.is_empty()
    }

    /// Returns the policy whose fields [`Core`] has.
    #[inline]
    pub(crate) fn current_sched(&self) -> SchedId {
        self.scheds.current
    }

    /// Adds a sub-scheduler below `parent` to the hierarchy. Its fields are empty. Returns `None` if
    /// there have been too many.
    pub(crate) fn add_sched(&mut self, parent: SchedId, cgroup: u32) -> Option<SchedId> {
        let sched = |parent, cgroup, names| Sched {
            cgroup,
            parent,
            phase: Phase::Linked,
            attached: false,
            is_hosted: false,
            caps: SubCaps::default(),
            parked: Parked::new(names),
        };
        if !self.has_subs() {
            debug_assert_eq!(self.scheds.current, SchedId::ROOT);
            self.scheds.all.push(sched(SchedId::ROOT, 0, Namespace::default()));
        }
        let number = self.scheds.all.len();
        if number > MAX_SUBS {
            return None;
        }
        let names = self.dsqs.add_namespace(number as u8);
        if self.is_linux_7_3 {
            self.dsqs.add_diverted();
        }
        self.scheds.all.push(sched(parent, cgroup, names));
        Some(SchedId(number as u8))
    }

    /// Forgets all sub-schedulers, which must have ended.
    pub(crate) fn forget_scheds(&mut self) {
        debug_assert_eq!(self.scheds.current, SchedId::ROOT);
        debug_assert!(self.live_subs().next().is_none());
        self.scheds.all.clear();
    }

    /// Makes a policy the current one.
    pub(crate) fn switch_to(&mut self, id: SchedId) {
        let from = self.scheds.current;
        if from != id {
            self.exchange(from);
            self.exchange(id);
            self.scheds.current = id;
        }
    }

    fn exchange(&mut self, id: SchedId) {
        use std::mem::swap;
        let parked = &mut self.scheds.all[id.index()].parked;
        swap(&mut self.policy, &mut parked.policy);
        swap(&mut self.active, &mut parked.active);
        swap(&mut self.exit, &mut parked.exit);
        swap(&mut self.exit_flags, &mut parked.exit_flags);
        swap(&mut self.ending, &mut parked.ending);
        swap(&mut self.stats, &mut parked.stats);
        swap(&mut self.called, &mut parked.called);
        swap(&mut self.shows_dsqs, &mut parked.shows_dsqs);
        swap(&mut self.settled_insns, &mut parked.settled_insns);
        swap(&mut self.settled_cost, &mut parked.settled_cost);
        swap(&mut self.dsp, &mut parked.dsp);
        swap(&mut self.dsp_max_batch, &mut parked.dsp_max_batch);
        swap(&mut self.bypass_depth, &mut parked.bypass_depth);
        swap(&mut self.bypass_since, &mut parked.bypass_since);
        swap(&mut self.bypass_turns, &mut parked.bypass_turns);
        swap(&mut self.nr_hosted, &mut parked.nr_hosted);
        swap(&mut self.slice_dfl, &mut parked.slice_dfl);
        swap(&mut self.watchdog_timeout, &mut parked.watchdog_timeout);
        swap(&mut self.cids.scratch, &mut parked.masks);
        swap(&mut self.cids.online, &mut parked.online);
        self.dsqs.swap_namespace(&mut parked.names);
    }

    pub(crate) fn sched(&self, id: SchedId) -> &Sched {
        &self.scheds.all[id.index()]
    }

    pub(crate) fn sched_mut(&mut self, id: SchedId) -> &mut Sched {
        &mut self.scheds.all[id.index()]
    }

    /// Returns the sub-schedulers that have not ended, parents before children.
    pub(crate) fn live_subs(&self) -> impl DoubleEndedIterator<Item = SchedId> + use<'_> {
        let subs = self.scheds.all.iter().enumerate().skip(1);
        subs.filter(|(_, sched)| sched.phase != Phase::Gone)
            .map(|(index, _)| SchedId(index as u8))
    }

    /// Returns the live sub-schedulers below `id`, parents before children.
    pub(crate) fn descendants(&self, id: SchedId) -> Vec<SchedId> {
        self.live_subs()
            .filter(|&sub| sub != id && self.is_descendant(sub, id))
            .collect()
    }

    /// Returns whether `id` is `ancestor` or below it.
    pub(crate) fn is_descendant(&self, id: SchedId, ancestor: SchedId) -> bool {
        let mut at = id;
        while at != ancestor && at != SchedId::ROOT {
            at = self.sched(at).parent;
        }
        at == ancestor
    }

    /// Returns the parent of a policy, or `None` for the root policy.
    pub(crate) fn parent_of(&self, id: SchedId) -> Option<SchedId> {
        (id != SchedId::ROOT).then(|| self.sched(id).parent)
    }

    /// Returns the depth of a policy in the hierarchy. It is 0 for the root policy.
    pub(crate) fn level_of(&self, id: SchedId) -> u64 {
        let above = std::iter::successors(self.parent_of(id), |&at| self.parent_of(at));
        above.count() as u64
    }

    /// Returns the fields of a policy that is not current.
    fn parked(&self, id: SchedId) -> Option<&Parked> {
        (id != self.scheds.current).then(|| &*self.scheds.all[id.index()].parked)
    }

    /// Returns the DSQs of a policy.
    pub(crate) fn names_of(&self, id: SchedId) -> &Namespace {
        self.parked(id).map_or(self.dsqs.namespace(), |parked| &parked.names)
    }

    /// Returns the nesting depth of a policy's bypass mode.
    pub(crate) fn bypass_depth_of(&self, id: SchedId) -> u32 {
        self.parked(id).map_or(self.bypass_depth, |parked| parked.bypass_depth)
    }

    pub(crate) fn policy_of(&self, id: SchedId) -> Option<&LoadedPolicy> {
        self.parked(id)
            .map_or(self.policy.as_ref(), |parked| parked.policy.as_ref())
    }

    /// Returns the callbacks of a policy. The table is empty if the policy is not loaded.
    pub(crate) fn ops_of(&self, id: SchedId) -> &OpsTable {
        self.policy_of(id).map_or(&NO_OPS, |policy| &policy.ops)
    }

    /// Returns the statistics about the calls of a policy's callbacks, indexed by `Op as usize`.
    pub(crate) fn called_of(&self, id: SchedId) -> &[Called; NR_OPS] {
        self.parked(id).map_or(&self.called, |parked| &parked.called)
    }

    /// Returns the default slice of a policy's tasks, ns.
    #[inline]
    pub(crate) fn slice_dfl_of(&self, id: SchedId) -> u64 {
        self.parked(id).map_or(self.slice_dfl, |parked| parked.slice_dfl)
    }

    /// Returns the time in ns after which the watchdog ends a policy.
    pub(crate) fn timeout_of(&self, id: SchedId) -> u64 {
        let parked = self.parked(id);
        parked.map_or(self.watchdog_timeout, |parked| parked.watchdog_timeout)
    }

    pub(crate) fn ending_of(&self, id: SchedId) -> Ending {
        self.parked(id).map_or(self.ending, |parked| parked.ending)
    }

    pub(crate) fn exit_of(&self, id: SchedId) -> Option<&Exit> {
        self.parked(id)
            .map_or(self.exit.as_ref(), |parked| parked.exit.as_ref())
    }

    /// Returns all policies that are loaded, the root policy first.
    pub(crate) fn loaded_scheds(&self) -> Vec<SchedId> {
        std::iter::once(SchedId::ROOT).chain(self.live_subs()).collect()
    }

    /// Returns all policies that are loaded, each before its children, and all children of a policy
    /// before the next policy (scx_next_descendant_pre).
    pub(crate) fn loaded_in_tree_order(&self) -> Vec<SchedId> {
        let mut order = Vec::new();
        let mut open = vec![SchedId::ROOT];
        while let Some(id) = open.pop() {
            order.push(id);
            let children: Vec<SchedId> = self.live_subs().filter(|&sub| self.sched(sub).parent == id).collect();
            open.extend(children.into_iter().rev());
        }
        order
    }

    /// Returns the bypass DSQ of a CPU for a task of the current policy (bypass_enq_target_dsq).
    /// Tasks of a bypassed sub-scheduler go to the nearest ancestor that is not bypassed, or to the
    /// root policy.
    pub(crate) fn bypass_target(&self, cpu: CpuId) -> DsqRef {
        let mut at = self.scheds.current;
        while at != SchedId::ROOT && self.bypass_depth_of(at) > 0 {
            at = self.sched(at).parent;
        }
        match self.parked(at) {
            Some(parked) => parked.names.bypass(cpu),
            None => self.dsqs.bypass(cpu),
        }
    }

    /// Counts the policies for which `id` runs the tasks on its bypass DSQs.
    pub(crate) fn add_hosted(&mut self, id: SchedId, by: i32) {
        let count = match id == self.scheds.current {
            true => &mut self.nr_hosted,
            false => &mut self.scheds.all[id.index()].parked.nr_hosted,
        };
        *count = count.saturating_add_signed(by);
    }
}
