// SPDX-License-Identifier: GPL-2.0-only
//! The scheduling classes in order of precedence, and the flags that the core passes to them.

/// A scheduling class. A runnable task of an earlier variant always runs before one of a later
/// variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// SCHED_FIFO, SCHED_RR and SCHED_DEADLINE
    Rt,
    /// sched_ext
    Ext,
    /// EEVDF
    Fair,
    Idle,
}

/// Flags for queueing (ENQUEUE_* and DEQUEUE_*) and for wake-ups (WF_*).
pub mod flags {
    /// ENQUEUE_WAKEUP: the task was asleep.
    pub const WAKEUP: u32 = 0x1;
    /// DEQUEUE_SLEEP: the task goes to sleep.
    pub const SLEEP: u32 = 0x1;
    /// DEQUEUE_SAVE: the task is dequeued only while one of its parameters changes.
    pub const SAVE: u32 = 0x2;
    /// ENQUEUE_RESTORE: the task returns after such a change.
    pub const RESTORE: u32 = 0x2;
    /// The task keeps its position in the queue.
    pub const MOVE: u32 = 0x4;
    /// The caller has updated the runqueue's clock already.
    pub const NOCLOCK: u32 = 0x8;
    /// The task goes to the head of its queue.
    pub const HEAD: u32 = 0x1_0000;
    /// The task comes from another CPU.
    pub const MIGRATED: u32 = 0x4_0000;
    /// The task is new.
    pub const INITIAL: u32 = 0x8_0000;
    /// The class has chosen the task's CPU (select_task_rq).
    pub const RQ_SELECTED: u32 = 0x10_0000;
    /// WF_* flags of wake-ups, numbered as in Linux 7.2.
    pub const WF_EXEC: u32 = 0x02;
    pub const WF_FORK: u32 = 0x04;
    pub const WF_TTWU: u32 = 0x08;
    pub const WF_SYNC: u32 = 0x10;
    pub const WF_MIGRATED: u32 = 0x20;
    pub const WF_CURRENT_CPU: u32 = 0x40;
}
