// SPDX-License-Identifier: GPL-2.0-only
//! A CPU's queue of real-time tasks: a list for each priority and a bitmap of the non-empty lists
//! (struct rt_prio_array).

use crate::sched::fair::pelt::{Avg, State};
use crate::sched::rt::dl_server::Server;
use crate::sched::task::Task;
use crate::simulation::id::{IDLE, TaskId};
use crate::simulation::table::Table;

/// Priority index of a CPU without real-time tasks. Index 0 is for SCHED_DEADLINE, 1 for
/// rt_priority 99, and 99 for rt_priority 1.
pub const NO_RT: u32 = 100;

/// Real-time class fields of a task.
#[derive(Clone)]
pub struct Entity {
    /// Remaining ticks of a SCHED_RR task's slice.
    pub time_slice: u32,
    pub on_list: bool,
    prio: u32,
    prev: TaskId,
    next: TaskId,
}

impl Default for Entity {
    fn default() -> Entity {
        Entity {
            time_slice: 0,
            on_list: false,
            prio: 0,
            prev: IDLE,
            next: IDLE,
        }
    }
}

/// A CPU's queue of real-time tasks. The fields that every switch reads come first. The lists are
/// large and boxed, because few CPUs ever have a real-time task.
#[repr(C)]
pub struct RtRq {
    bitmap: u128,
    pub nr_running: u32,
    /// Number of queued tasks that may migrate, including the running one.
    pub nr_movable: u32,
    /// Whether tasks may have to be pushed away after the current switch.
    pub push_wanted: bool,
    /// First and last task of each priority. The running task stays in its list.
    lists: Box<[(TaskId, TaskId); NO_RT as usize]>,
    /// CPU time that real-time tasks have used, ns.
    pub used_ns: u64,
    pub(super) avg: Avg,
    pub(super) server: Server,
}

impl Default for RtRq {
    fn default() -> RtRq {
        RtRq {
            bitmap: 0,
            lists: Box::new([(IDLE, IDLE); NO_RT as usize]),
            nr_running: 0,
            nr_movable: 0,
            push_wanted: false,
            used_ns: 0,
            avg: Avg::default(),
            server: Server::default(),
        }
    }
}

impl RtRq {
    /// Returns the highest priority that is queued (the smallest index), or [`NO_RT`] if the queue
    /// is empty.
    pub fn highest(&self) -> u32 {
        self.bitmap.trailing_zeros().min(NO_RT)
    }

    /// Returns the first task of the highest priority, if there is one.
    pub fn first(&self) -> Option<TaskId> {
        let highest = self.highest();
        (highest < NO_RT).then(|| self.lists[highest as usize].0)
    }

    /// Returns the average capacity that real-time tasks use, as of `now` (ns). It decays while
    /// none runs.
    pub(crate) fn util_avg(&self, now: u64) -> u64 {
        if self.avg.util_avg == 0 {
            return 0;
        }
        let mut avg = self.avg;
        avg.update(
            now,
            State {
                load: 0,
                runnable: 0,
                running: 0,
            },
            1,
        );
        avg.util_avg
    }

    /// Adds a task at the head or the tail of the list of this priority.
    pub(super) fn link(&mut self, tasks: &mut Table<TaskId, Task>, task: TaskId, prio: u32, head: bool) {
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
    pub(super) fn unlink(&mut self, tasks: &mut Table<TaskId, Task>, task: TaskId) {
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
    pub(super) fn requeue(&mut self, tasks: &mut Table<TaskId, Task>, task: TaskId, head: bool) {
        let prio = tasks[task].rt.prio;
        self.unlink(tasks, task);
        self.link(tasks, task, prio, head);
    }

    /// Returns whether the task is the only one of its priority.
    pub(super) fn is_alone(&self, tasks: &Table<TaskId, Task>, task: TaskId) -> bool {
        let list = self.lists[tasks[task].rt.prio as usize];
        list.0 == list.1
    }

    /// Returns all queued tasks, highest priority first.
    pub(super) fn iter<'a>(&'a self, tasks: &'a Table<TaskId, Task>) -> impl Iterator<Item = TaskId> + 'a {
        let mut left = self.bitmap;
        let mut task = IDLE;
        std::iter::from_fn(move || {
            if task != IDLE {
                task = tasks[task].rt.next;
            }
            if task == IDLE {
                if left == 0 {
                    return None;
                }
                task = self.lists[left.trailing_zeros() as usize].0;
                left &= left - 1;
            }
            Some(task)
        })
    }
}
