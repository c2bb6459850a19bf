// SPDX-License-Identifier: GPL-2.0-only
//! The scheduling classes in their order, and the flags that the core passes to them.

/// Highest first: a runnable task of an earlier class always runs before one of a later class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// SCHED_FIFO and SCHED_RR.
    Rt,
    /// sched_ext.
    Ext,
    /// EEVDF.
    Fair,
    Idle,
}

/// Why a task enters or leaves a queue (ENQUEUE_* and DEQUEUE_*), and how it was woken (WF_*).
pub mod flags {
    /// ENQUEUE_WAKEUP / DEQUEUE_SLEEP: it was or goes to sleep.
    pub const WAKEUP: u32 = 0x1;
    pub const SLEEP: u32 = 0x1;
    /// DEQUEUE_SAVE / ENQUEUE_RESTORE: a parameter is changed meanwhile.
    pub const SAVE: u32 = 0x2;
    pub const RESTORE: u32 = 0x2;
    /// Keep its place in the queue.
    pub const MOVE: u32 = 0x4;
    pub const NOCLOCK: u32 = 0x8;
    pub const HEAD: u32 = 0x1_0000;
    pub const MIGRATED: u32 = 0x4_0000;
    pub const INITIAL: u32 = 0x8_0000;
    /// The class was asked for the CPU.
    pub const RQ_SELECTED: u32 = 0x10_0000;
    /// WF_EXEC, WF_FORK, WF_TTWU, WF_SYNC: as include/linux of 7.2 numbers them.
    pub const WF_EXEC: u32 = 0x02;
    pub const WF_FORK: u32 = 0x04;
    pub const WF_TTWU: u32 = 0x08;
    pub const WF_SYNC: u32 = 0x10;
    pub const WF_MIGRATED: u32 = 0x20;
    pub const WF_CURRENT_CPU: u32 = 0x40;
}
