// SPDX-License-Identifier: GPL-2.0-only
//! Dispatch queues (DSQs): queues of the tasks that a policy has dispatched.
//!
//! A DSQ is a doubly linked list. One table contains the links, with an entry for each task. A DSQ
//! in vtime order also has a treap (a balanced binary tree) over the same entries. The first task
//! is found in O(1). An insertion or a removal takes O(log n) in a DSQ in vtime order, O(1) in a
//! FIFO.
//!
//! An iterator stores the task that it visits next. If this task is removed from the DSQ, the
//! iterator advances to the next task. Tasks that were inserted after the iteration began are
//! skipped, as in the kernel. They are recognized by their sequence numbers.

mod cursor;
mod namespace;
mod treap;

#[cfg(test)]
mod tests;

use crate::layout::enums::{
    SCX_DSQ_BYPASS, SCX_DSQ_FLAG_BUILTIN, SCX_DSQ_GLOBAL, SCX_DSQ_LOCAL, SCX_DSQ_REJECT, SCX_DSQ_RESCUE,
};
use crate::sched::ext::state::dsq::cursor::Cursor;
pub(crate) use crate::sched::ext::state::dsq::namespace::Namespace;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::table::{Id, Table, id};
use crate::simulation::timeline::LockIndex;

/// Value of a link of the list or the treap that refers to no task.
const NIL: TaskId = IDLE;
/// DSQs with ids below this number are found in the table `small`, all other DSQs in the map
/// `large`.
const SMALL_IDS: usize = 4096;

id! {
    /// Index of a DSQ in [`Dsqs`].
    DsqRef
}

/// Value for a task that is on no DSQ.
pub const NO_DSQ: DsqRef = DsqRef(u32::MAX);

/// Table entry of a task: its links and its position on a DSQ. An entry fills one cache line of the
/// host.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Node {
    dsq: DsqRef,
    next: TaskId,
    prev: TaskId,
    left: TaskId,
    right: TaskId,
    parent: TaskId,
    /// Random priority in the treap. Each node has a higher priority than its children.
    weight: u32,
    /// Sequence number of the task's insertion (`Dsq::seq`).
    seq: u32,
    vtime: u64,
    /// Whether the task is on a DSQ in vtime order.
    on_priq: bool,
}

const UNLINKED: Node = Node {
    dsq: NO_DSQ,
    next: NIL,
    prev: NIL,
    left: NIL,
    right: NIL,
    parent: NIL,
    weight: 0,
    seq: 0,
    vtime: 0,
    on_priq: false,
};

/// A dispatch queue.
#[derive(Clone, Debug)]
struct Dsq {
    /// SCX_DSQ_LOCAL, SCX_DSQ_BYPASS, SCX_DSQ_GLOBAL or an id that the policy chose.
    id: u64,
    head: TaskId,
    tail: TaskId,
    root: TaskId,
    nr: u32,
    /// Number of insertions so far.
    seq: u32,
    nr_cursors: u32,
    /// Lock of the DSQ. It is `None` until the lock is acquired for the first time.
    lock: Option<LockIndex>,
    /// Whether the DSQ exists. It is false after the DSQ has been destroyed.
    alive: bool,
    /// Number of the policy to which the DSQ belongs (`SchedId`). It is 0 for local DSQs.
    owner: u8,
}

impl Dsq {
    fn new(id: u64) -> Dsq {
        Dsq {
            id,
            head: NIL,
            tail: NIL,
            root: NIL,
            nr: 0,
            seq: 0,
            nr_cursors: 0,
            lock: None,
            alive: true,
            owner: 0,
        }
    }
}

/// Position at which a task is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    Head,
    Tail,
    /// In order of vtime, behind tasks with the same vtime.
    Vtime(u64),
}

/// All DSQs of a machine.
pub struct Dsqs {
    nr_cpus: u32,
    nr_nodes: u32,
    /// All DSQs in this order: the local DSQs (one for each CPU), the bypass DSQs (one for each
    /// CPU), the global DSQs (one for each node), and the DSQs that policies created. Among the last
    /// are the bypass and global DSQs of sub-schedulers.
    dsqs: Table<DsqRef, Dsq>,
    nodes: Table<TaskId, Node>,
    /// The DSQs of the current policy.
    names: Namespace,
    /// The first of the CPUs' reject DSQs, which the rescue DSQs follow. They exist if sub-schedulers
    /// need capabilities.
    diverted: Option<u32>,
    /// Unused entries of `dsqs`.
    free: Vec<DsqRef>,
    cursors: Vec<Cursor>,
    /// State of the pseudo-random generator for treap priorities. Its seed is fixed, so that runs
    /// can be repeated.
    weights: u32,
}

impl Dsqs {
    pub fn new(nr_cpus: u32, nr_nodes: u32) -> Dsqs {
        let ids = [
            (nr_cpus, SCX_DSQ_LOCAL),
            (nr_cpus, SCX_DSQ_BYPASS),
            (nr_nodes, SCX_DSQ_GLOBAL),
        ];
        let dsqs = ids
            .iter()
            .flat_map(|&(n, id)| (0..n).map(move |_| Dsq::new(id)))
            .collect();
        Dsqs {
            nr_cpus,
            nr_nodes,
            dsqs,
            nodes: Table::default(),
            names: Namespace {
                first: nr_cpus,
                ..Namespace::default()
            },
            diverted: None,
            free: Vec::new(),
            cursors: Vec::new(),
            weights: 0x9e37_79b9,
        }
    }

    #[inline]
    pub(crate) fn local(&self, cpu: CpuId) -> DsqRef {
        DsqRef(cpu.nr())
    }

    pub(crate) fn bypass(&self, cpu: CpuId) -> DsqRef {
        self.names.bypass(cpu)
    }

    pub(crate) fn global(&self, node: u32) -> DsqRef {
        self.global_in(&self.names, node)
    }

    /// Returns the CPU to which a local DSQ belongs, or `None` for any other DSQ.
    #[inline]
    pub(crate) fn local_cpu(&self, dsq: DsqRef) -> Option<CpuId> {
        (dsq.0 < self.nr_cpus).then(|| CpuId::new(dsq.0 as usize))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = DsqRef> + '_ {
        let alive = self.dsqs.numbered().filter(|(_, dsq)| dsq.alive);
        alive.map(|(dsq, _)| dsq)
    }

    #[inline]
    pub(crate) fn id(&self, dsq: DsqRef) -> u64 {
        self.dsqs[dsq].id
    }

    #[inline]
    pub(crate) fn nr(&self, dsq: DsqRef) -> u32 {
        self.dsqs[dsq].nr
    }

    #[inline]
    pub(crate) fn is_empty(&self, dsq: DsqRef) -> bool {
        self.dsqs[dsq].head == NIL
    }

    /// Checks that every DSQ is consistent: its list has as many tasks as the DSQ counts, and its
    /// tree has the same order as the list.
    ///
    /// The order of the vtimes is not checked. time_before64() compares modulo 2^64, so vtimes that
    /// are more than 2^63 apart have no defined order. The position of such a task depends on the
    /// shape of the tree. The same is true of the rbtree in the kernel.
    ///
    /// # Panics
    /// If a DSQ is inconsistent.
    pub fn verify(&self) {
        for (id, dsq) in self.dsqs.numbered() {
            let mut nr = 0;
            let mut in_tree = self.treap_first(dsq.root);
            let mut last = NIL;
            let mut at = some(dsq.head);
            while let Some(task) = at {
                let node = &self.nodes[task];
                assert_eq!(node.dsq, id, "task {task:?} is on two DSQs");
                assert_eq!(
                    node.prev, last,
                    "DSQ {:#x}: task {task:?} has a wrong link to the previous task",
                    dsq.id
                );
                if node.on_priq {
                    assert_eq!(in_tree, task, "DSQ {:#x}: the tree and the list differ", dsq.id);
                    in_tree = self.treap_next(task);
                }
                nr += 1;
                last = task;
                at = some(node.next);
            }
            assert_eq!(
                in_tree, NIL,
                "DSQ {:#x}: the tree has a task that is not in the list",
                dsq.id
            );
            assert_eq!(
                nr, dsq.nr,
                "DSQ {:#x}: the list and the counter have different numbers of tasks",
                dsq.id
            );
        }
    }

    /// Returns the index of a DSQ.
    #[inline]
    pub(crate) fn slot(&self, dsq: DsqRef) -> u32 {
        dsq.0
    }

    /// Returns a unique id for the lock of the DSQ. If the policy created the DSQ, this is the
    /// DSQ's id. Locks of built-in DSQs have numbers that are higher than all ids of policies.
    pub(crate) fn lock_id(&self, dsq: DsqRef) -> u64 {
        let it = &self.dsqs[dsq];
        if it.id & SCX_DSQ_FLAG_BUILTIN == 0 {
            it.id
        } else {
            SCX_DSQ_FLAG_BUILTIN | u64::from(dsq.0)
        }
    }

    /// Returns the id that represents the DSQ in trace records.
    pub(crate) fn trace_id(&self, dsq: DsqRef) -> u64 {
        if self.dsqs[dsq].owner != 0 {
            return self.trace_id_of_sub(dsq);
        }
        match self.id(dsq) {
            SCX_DSQ_LOCAL => trace::built_in_dsq(SCX_DSQ_LOCAL, dsq.0),
            SCX_DSQ_BYPASS => trace::built_in_dsq(SCX_DSQ_BYPASS, dsq.0 - self.nr_cpus),
            SCX_DSQ_GLOBAL => trace::built_in_dsq(SCX_DSQ_GLOBAL, dsq.0 - 2 * self.nr_cpus),
            id @ (SCX_DSQ_REJECT | SCX_DSQ_RESCUE) => {
                let first = self.diverted.expect("the DSQ exists");
                trace::built_in_dsq(id, (dsq.0 - first) % self.nr_cpus)
            }
            id => id,
        }
    }

    /// Returns the index of the DSQ's lock, or `None` if the lock has never been acquired.
    #[inline]
    pub(crate) fn lock(&self, dsq: DsqRef) -> Option<LockIndex> {
        self.dsqs[dsq].lock
    }

    pub(crate) fn set_lock(&mut self, dsq: DsqRef, lock: LockIndex) {
        self.dsqs[dsq].lock = Some(lock);
    }

    #[inline]
    pub(crate) fn first(&self, dsq: DsqRef) -> Option<TaskId> {
        some(self.dsqs[dsq].head)
    }

    /// Returns the task behind `task` on its DSQ.
    #[inline]
    pub(crate) fn next(&self, task: TaskId) -> Option<TaskId> {
        some(self.nodes[task].next)
    }

    /// Returns the task in front of `task` on its DSQ.
    #[cfg(test)]
    pub(crate) fn prev(&self, task: TaskId) -> Option<TaskId> {
        some(self.nodes[task].prev)
    }

    /// Returns the tasks before and behind `task` on its DSQ. IDLE means that there is none.
    #[inline]
    pub(crate) fn neighbours(&self, task: TaskId) -> [TaskId; 2] {
        let node = &self.nodes[task];
        [node.prev, node.next]
    }

    /// Returns the DSQ of a task, or [`NO_DSQ`].
    #[inline]
    pub(crate) fn current(&self, task: TaskId) -> DsqRef {
        self.nodes.get(task.slot() as usize).map_or(NO_DSQ, |node| node.dsq)
    }

    pub(crate) fn on_priq(&self, task: TaskId) -> bool {
        self.nodes.get(task.slot() as usize).is_some_and(|node| node.on_priq)
    }

    /// Returns whether the DSQ has tasks in FIFO order.
    pub(crate) fn has_fifo(&self, dsq: DsqRef) -> bool {
        let it = &self.dsqs[dsq];
        it.root == NIL && it.head != NIL
    }

    /// Returns whether the DSQ has tasks in vtime order.
    pub(crate) fn has_priq(&self, dsq: DsqRef) -> bool {
        self.dsqs[dsq].root != NIL
    }

    /// Inserts a task that is on no DSQ.
    pub(crate) fn insert(&mut self, dsq: DsqRef, task: TaskId, position: Position) {
        if self.nodes.len() <= task.slot() as usize {
            self.nodes.resize(task.slot() as usize + 1, UNLINKED);
        }
        let it = &mut self.dsqs[dsq];
        it.nr += 1;
        it.seq = it.seq.wrapping_add(1);
        let seq = it.seq;
        let (head, tail) = (it.head, it.tail);
        let node = &mut self.nodes[task];
        debug_assert!(node.dsq == NO_DSQ && !node.on_priq);
        node.dsq = dsq;
        node.seq = seq;
        match position {
            Position::Head => self.link(dsq, task, NIL, head),
            Position::Tail => self.link(dsq, task, tail, NIL),
            Position::Vtime(vtime) => {
                *node = Node {
                    dsq,
                    seq,
                    vtime,
                    on_priq: true,
                    ..UNLINKED
                };
                let before = self.treap_insert(dsq, task, vtime);
                let behind = if before == NIL { head } else { self.nodes[before].next };
                self.link(dsq, task, before, behind);
            }
        }
    }

    /// Removes a task from its DSQ.
    pub(crate) fn remove(&mut self, task: TaskId) {
        let Node {
            dsq,
            next,
            prev,
            on_priq,
            ..
        } = self.nodes[task];
        debug_assert_ne!(dsq, NO_DSQ);
        if self.dsqs[dsq].nr_cursors > 0 {
            self.cursors_pass(dsq, task, prev, next);
        }
        if on_priq {
            self.treap_remove(dsq, task);
        }
        let it = &mut self.dsqs[dsq];
        it.nr -= 1;
        match prev {
            NIL => it.head = next,
            _ => self.nodes[prev].next = next,
        }
        match next {
            NIL => it.tail = prev,
            _ => self.nodes[next].prev = prev,
        }
        let node = &mut self.nodes[task];
        node.dsq = NO_DSQ;
        node.on_priq = false;
    }

    #[inline]
    fn link(&mut self, dsq: DsqRef, task: TaskId, prev: TaskId, next: TaskId) {
        let it = &mut self.dsqs[dsq];
        match prev {
            NIL => it.head = task,
            _ => self.nodes[prev].next = task,
        }
        match next {
            NIL => it.tail = task,
            _ => self.nodes[next].prev = task,
        }
        let node = &mut self.nodes[task];
        node.prev = prev;
        node.next = next;
    }
}

fn some(task: TaskId) -> Option<TaskId> {
    (task != NIL).then_some(task)
}
