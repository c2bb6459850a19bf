// SPDX-License-Identifier: GPL-2.0-only
//! The DSQs of one policy in a hierarchy of policies. Different policies may use the same ids.

use super::{Dsq, DsqRef, Dsqs, NO_DSQ, SMALL_IDS};
use crate::layout::enums::{SCX_DSQ_BYPASS, SCX_DSQ_FLAG_BUILTIN, SCX_DSQ_GLOBAL, SCX_DSQ_REJECT, SCX_DSQ_RESCUE};
use crate::simulation::id::CpuId;
use std::collections::BTreeMap;

/// The DSQs of one policy.
#[derive(Debug, Default)]
pub(crate) struct Namespace {
    /// Number of the policy (`SchedId`).
    pub(super) owner: u8,
    /// The first of the policy's bypass DSQs, of which each CPU has one. Its global DSQs follow, of
    /// which each node has one.
    pub(super) first: u32,
    /// DSQs of the policy with ids below `SMALL_IDS`, indexed by id.
    pub(super) small: Vec<DsqRef>,
    /// All other DSQs of the policy, by id.
    pub(super) large: BTreeMap<u64, DsqRef>,
}

impl Namespace {
    pub(crate) fn bypass(&self, cpu: CpuId) -> DsqRef {
        DsqRef(self.first + cpu.nr())
    }

    /// Returns the DSQs that the policy has created, in the order of their ids.
    pub(crate) fn created(&self) -> impl Iterator<Item = (u64, DsqRef)> + '_ {
        let small = (0..).zip(self.small.iter().copied());
        let small = small.filter(|&(_, dsq)| dsq != NO_DSQ);
        small.chain(self.large.iter().map(|(&id, &dsq)| (id, dsq)))
    }
}

impl Dsqs {
    /// Creates the bypass and global DSQs of a sub-scheduler. `owner` is its number (`SchedId`).
    pub(crate) fn add_namespace(&mut self, owner: u8) -> Namespace {
        let first = self.dsqs.len() as u32;
        let ids = [(self.nr_cpus, SCX_DSQ_BYPASS), (self.nr_nodes, SCX_DSQ_GLOBAL)];
        for id in ids.iter().flat_map(|&(n, id)| (0..n).map(move |_| id)) {
            self.dsqs.push(Dsq { owner, ..Dsq::new(id) });
        }
        Namespace {
            owner,
            first,
            ..Namespace::default()
        }
    }

    /// Creates the reject and rescue DSQs of all CPUs, unless they exist. The lock of a CPU's runqueue
    /// protects them, like the local DSQ.
    pub(crate) fn add_diverted(&mut self) {
        if self.diverted.is_none() {
            self.diverted = Some(self.dsqs.len() as u32);
            for id in [SCX_DSQ_REJECT, SCX_DSQ_RESCUE] {
                for _ in 0..self.nr_cpus {
                    self.dsqs.push(Dsq::new(id));
                }
            }
        }
    }

    /// Returns the DSQs of the current policy.
    pub(crate) fn namespace(&self) -> &Namespace {
        &self.names
    }

    /// Returns the global DSQ of a node in the namespace of a policy.
    pub(crate) fn global_in(&self, names: &Namespace, node: u32) -> DsqRef {
        DsqRef(names.first + self.nr_cpus + node)
    }

    /// Returns the DSQ of the tasks that `cpu` has rejected.
    pub(crate) fn reject(&self, cpu: CpuId) -> DsqRef {
        DsqRef(self.diverted.expect("sub-schedulers need capabilities") + cpu.nr())
    }

    /// Returns the DSQ of the tasks that wait for a rescue on `cpu`.
    pub(crate) fn rescue(&self, cpu: CpuId) -> DsqRef {
        DsqRef(self.diverted.expect("sub-schedulers need capabilities") + self.nr_cpus + cpu.nr())
    }

    /// Returns whether the lock of a runqueue protects a DSQ (dsq_is_rq_owned).
    #[inline]
    pub(crate) fn is_rq_owned(&self, dsq: DsqRef) -> bool {
        let is_diverted = |first: u32| (first..first + 2 * self.nr_cpus).contains(&dsq.0);
        dsq.0 < self.nr_cpus || self.diverted.is_some_and(is_diverted)
    }

    /// Exchanges the DSQs of the current policy for those of a different policy.
    pub(crate) fn swap_namespace(&mut self, other: &mut Namespace) {
        std::mem::swap(&mut self.names, other);
    }

    /// Destroys all DSQs of the current policy, which must be a sub-scheduler. They must be empty.
    /// Returns the number of those that the policy has created.
    pub(crate) fn destroy_namespace(&mut self) -> usize {
        debug_assert_ne!(self.names.owner, 0);
        let small = std::mem::take(&mut self.names.small).into_iter();
        let created: Vec<DsqRef> = small
            .filter(|&dsq| dsq != NO_DSQ)
            .chain(std::mem::take(&mut self.names.large).into_values())
            .collect();
        let built_in = (self.names.first..self.names.first + self.nr_cpus + self.nr_nodes).map(DsqRef);
        for dsq in created.iter().copied().chain(built_in) {
            debug_assert_eq!(self.dsqs[dsq].nr, 0);
            self.dsqs[dsq].alive = false;
            if self.dsqs[dsq].nr_cursors == 0 {
                self.free.push(dsq);
            }
        }
        created.len()
    }

    /// Returns the id that represents a DSQ of a sub-scheduler in trace records. The four bits from
    /// bit 56 are the number of the sub-scheduler. The built-in DSQs have ids from 2^48, because their
    /// own ids are the same in all policies.
    pub(super) fn trace_id_of_sub(&self, dsq: DsqRef) -> u64 {
        let it = &self.dsqs[dsq];
        let id = if it.id & SCX_DSQ_FLAG_BUILTIN == 0 {
            it.id
        } else {
            1 << 48 | u64::from(dsq.0)
        };
        id ^ u64::from(it.owner) << 56
    }

    /// Returns the DSQ that the policy has created with this id.
    #[inline]
    pub(crate) fn find(&self, id: u64) -> Option<DsqRef> {
        if id < SMALL_IDS as u64 {
            self.names.small.get(id as usize).copied().filter(|&dsq| dsq != NO_DSQ)
        } else {
            self.names.large.get(&id).copied()
        }
    }

    /// Creates a DSQ. Returns `None` if the id is in use.
    pub(crate) fn create(&mut self, id: u64) -> Option<DsqRef> {
        debug_assert_eq!(id & SCX_DSQ_FLAG_BUILTIN, 0);
        if self.find(id).is_some() {
            return None;
        }
        let new = Dsq {
            owner: self.names.owner,
            ..Dsq::new(id)
        };
        let dsq = match self.free.pop() {
            Some(dsq) => {
                self.dsqs[dsq] = new;
                dsq
            }
            None => self.dsqs.push(new),
        };
        if id < SMALL_IDS as u64 {
            let index = id as usize;
            self.names.small.resize(self.names.small.len().max(index + 1), NO_DSQ);
            self.names.small[index] = dsq;
        } else {
            self.names.large.insert(id, dsq);
        }
        Some(dsq)
    }

    /// Destroys a DSQ that the policy has created. The DSQ must be empty.
    pub(crate) fn destroy(&mut self, dsq: DsqRef) {
        let it = &mut self.dsqs[dsq];
        debug_assert!(it.nr == 0 && it.id & SCX_DSQ_FLAG_BUILTIN == 0);
        it.alive = false;
        let (id, cursors) = (it.id, it.nr_cursors);
        if id < SMALL_IDS as u64 {
            self.names.small[id as usize] = NO_DSQ;
        } else {
            self.names.large.remove(&id);
        }
        if cursors == 0 {
            self.free.push(dsq);
        }
    }

    /// Returns the number of DSQs that the policy has created and not destroyed.
    pub fn nr_user_dsqs(&self) -> usize {
        let first = (2 * self.nr_cpus + self.nr_nodes) as usize;
        let dsqs = self.dsqs.iter().skip(first);
        dsqs.filter(|dsq| dsq.alive && dsq.id & SCX_DSQ_FLAG_BUILTIN == 0)
            .count()
    }

    /// Destroys all DSQs that the policy has created. They must be empty.
    pub fn destroy_all(&mut self) {
        let first = (2 * self.nr_cpus + self.nr_nodes) as usize;
        debug_assert!(self.dsqs.iter().skip(first).all(|dsq| dsq.nr == 0));
        self.dsqs.truncate(first);
        self.diverted = None;
        self.names.small.clear();
        self.names.large.clear();
        self.free.clear();
        self.cursors.clear();
        for dsq in &mut self.dsqs {
            dsq.nr_cursors = 0;
        }
    }
}
