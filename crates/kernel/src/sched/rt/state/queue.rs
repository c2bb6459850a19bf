// SPDX-License-Identifier: GPL-2.0-only
//! A CPU's queue of real-time tasks (struct rt_prio_array): a list for each priority and a bitmap
//! of the lists that are not empty.

use crate::sched::fair::state::pelt::Avg;
use crate::sched::state::task::Task;
use crate::simulation::id::{IDLE, TaskId};
use crate::simulation::table::Table;

/// Priority index of a CPU without real-time tasks. Index 0 is for SCHED_DEADLINE, index 1 for
/// rt_priority 99, and index 99 for rt_priority 1.
pub const NO_RT: u32 = 100;

/// Fields of a task that belong to the real-time class.
#[derive(Clone)]
pub struct Entity {
    /// Remaining ticks of a SCHED_RR task's slice.
    pub time_slice: u32,
    /// For SCHED_DEADLINE: share of a CPU's time that the task may use, in 1/1024 (dl_bw).
    pub bandwidth: u32,
    pub on_list: bool,
    /// Whether the task is queued. While its affinity changes, it is not, but stays in its list.
    pub on_rq: bool,
    prio: u32,
    prev: TaskId,
    next: TaskId,
}

impl Default for Entity {
    fn default() -> Entity {
        Entity {
            time_slice: 0,
            bandwidth: 0,
            on_list: false,
            on_rq: false,
            prio: 0,
            prev: IDLE,
            next: IDLE,
        }
    }
}

/// A CPU's queue of real-time tasks. Fields that every context switch reads come first. The lists
/// are in a separate allocation, because they are large and rarely used.
#[repr(C)]
pub struct RtRq {
    /// Bit set of the priority indexes whose lists are not empty.
    bitmap: u128,
    pub nr_running: u32,
    /// Number of queued SCHED_RR tasks.
    pub nr_round_robin: u32,
    /// Whether the CPU should try to push waiting tasks to other CPUs after the current switch.
    pub push_wanted: bool,
    /// Whether the CPU should try to pull waiting tasks from other CPUs after the current change.
    pub pull_wanted: bool,
    /// Running task that the stopper is to move to another CPU.
    pub(crate) push_task: Option<TaskId>,
    /// Waiting tasks whose affinity has several CPUs, with their priority indexes, in the order in
    /// which they can be pushed to other CPUs (pushable_tasks).
    pub(crate) pushable: Vec<(u32, TaskId)>,
    /// First and last task of each priority. The running task stays in its list.
    lists: Box<[(TaskId, TaskId); NO_RT as usize]>,
    /// PELT average of the capacity that real-time tasks use (rq->avg_rt).
    pub(crate) avg: Avg,
}

impl Default for RtRq {
    fn default() -> RtRq {
        RtRq {
            bitmap: 0,
            lists: Box::new([(IDLE, IDLE); NO_RT as usize]),
            nr_running: 0,
            nr_round_robin: 0,
            push_wanted: false,
            pull_wanted: false,
            push_task: None,
            pushable: Vec::new(),
            avg: Avg::of_queue(),
        }
    }
}

impl RtRq {
    /// Returns the index of the highest priority that is queued, which is the smallest index.
    /// Returns [`NO_RT`] if the queue is empty.
    pub fn highest(&self) -> u32 {
        self.bitmap.trailing_zeros().min(NO_RT)
    }

    /// Returns whether SCHED_FIFO or SCHED_RR tasks are queued (rt_rq_is_runnable).
    pub(crate) fn has_realtime(&self) -> bool {
        self.bitmap >> 1 != 0
    }

    /// Returns whether SCHED_DEADLINE tasks are queued.
    pub(crate) fn has_deadline(&self) -> bool {
        self.bitmap & 1 != 0
    }

    /// Returns the first task of the highest queued priority, or `None` if the queue is empty.
    pub(crate) fn first(&self) -> Option<TaskId> {
        let highest = self.highest();
        (highest < NO_RT).then(|| self.lists[highest as usize].0)
    }

    /// Returns the part of the CPU's capacity that real-time tasks use on average, as of the last
    /// update (cpu_util_rt).
    pub(crate) fn util_avg(&self) -> u64 {
        self.avg.util_avg
    }

    /// Returns the sum from which this average is calculated, as of the last update.
    pub(crate) fn util_sum(&self) -> u64 {
        self.avg.util_sum()
    }

    /// Adds a task at the head or the tail of the list with the index `prio`.
    pub(crate) fn link(&mut self, tasks: &mut Table<TaskId, Task>, task: TaskId, prio: u32, head: bool) {
        let list = &mut self.lists[prio as usize];
        let (first, last) = *list;
        let e = &mut tasks[task].rt;
        debug_assert!(!e.on_list);
        e.on_list = true;
        e.prio = prio;
        (e.prev, e.next) = if head { (IDLE, first) } else { (last, IDLE) };
        if first == IDLE {
            *list = (task, task);
        } else if head {
            list.0 = task;
            tasks[first].rt.prev = task;
        } else {
            list.1 = task;
            tasks[last].rt.next = task;
        }
        self.bitmap |= 1 << prio;
    }

    /// Removes a task from its list.
    pub(crate) fn unlink(&mut self, tasks: &mut Table<TaskId, Task>, task: TaskId) {
        let e = &mut tasks[task].rt;
        debug_assert!(e.on_list);
        e.on_list = false;
        let (prio, prev, next) = (e.prio, e.prev, e.next);
        let list = &mut self.lists[prio as usize];
        match prev {
            IDLE => list.0 = next,
            prev => tasks[prev].rt.next = next,
        }
        match next {
            IDLE => list.1 = prev,
            next => tasks[next].rt.prev = prev,
        }
        if list.0 == IDLE {
            self.bitmap &= !(1 << prio);
        }
    }

    /// Moves a task to the head or the tail of its list.
    pub(crate) fn requeue(&mut self, tasks: &mut Table<TaskId, Task>, task: TaskId, head: bool) {
        let prio = tasks[task].rt.prio;
        self.unlink(tasks, task);
        self.link(tasks, task, prio, head);
    }

    /// Returns whether the task is the only one in its list.
    pub(crate) fn is_alone(&self, tasks: &Table<TaskId, Task>, task: TaskId) -> bool {
        let list = self.lists[tasks[task].rt.prio as usize];
        list.0 == list.1
    }
}
