// SPDX-License-Identifier: GPL-2.0-only
//! The scheduling classes, highest first, and the flags that the scheduler core passes to them.

/// A scheduling class. The classes are listed from the highest to the lowest. A CPU runs a task of
/// the highest class that has a runnable task there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// SCHED_FIFO, SCHED_RR and SCHED_DEADLINE
    Rt,
    /// EEVDF
    Fair,
    /// sched_ext
    Ext,
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
    /// ENQUEUE_RESTORE: the task is queued again after one of its parameters has changed.
    pub const RESTORE: u32 = 0x2;
    /// ENQUEUE_MOVE: the task loses its position in the queue.
    pub const MOVE: u32 = 0x4;
    /// ENQUEUE_NOCLOCK: the caller has already updated the runqueue's clock.
    pub const NOCLOCK: u32 = 0x8;
    /// ENQUEUE_CLASS: the task changes its class.
    pub const CLASS: u32 = 0x40;
    /// ENQUEUE_HEAD: the task is inserted at the head of its queue.
    pub const HEAD: u32 = 0x1_0000;
    /// DEQUEUE_SPECIAL: the task exits, so it must not be woken up without need.
    pub const SPECIAL: u32 = 0x1_0000;
    /// ENQUEUE_MIGRATED: the task comes from another CPU.
    pub const MIGRATED: u32 = 0x4_0000;
    /// ENQUEUE_INITIAL: the task is new.
    pub const INITIAL: u32 = 0x8_0000;
    /// ENQUEUE_RQ_SELECTED: the class has chosen the task's CPU (select_task_rq).
    pub const RQ_SELECTED: u32 = 0x10_0000;
    /// WF_EXEC: the task calls exec(). This flag and the following ones have the values of Linux
    /// 7.2.
    pub const WF_EXEC: u32 = 0x02;
    pub const WF_FORK: u32 = 0x04;
    pub const WF_TTWU: u32 = 0x08;
    pub const WF_SYNC: u32 = 0x10;
    pub const WF_MIGRATED: u32 = 0x20;
    pub const WF_CURRENT_CPU: u32 = 0x40;
}
