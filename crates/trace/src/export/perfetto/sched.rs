// SPDX-License-Identifier: GPL-2.0-only
//! Bundles of ftrace events, one bundle per CPU. A bundle stores switches and wakings by column,
//! and other events one by one.

use super::proto::{CompactSched, Data, Ftrace, FtraceEvent, FtraceEventBundle, Switch, TracePacket};
use crate::event::TaskState;
use crate::follow::{Follow, Task};
use std::collections::HashMap;

/// Number of events after which a bundle is written.
const EVENTS: usize = 2048;
/// Value of the kernel's TRACE_FLAG_HARDIRQ.
const HARDIRQ: u32 = 0x08;

/// Events of one CPU that are not yet written.
#[derive(Default)]
pub(super) struct Bundle {
    compact: CompactSched,
    events: Vec<FtraceEvent>,
    /// Index of each task's name in the name table, by pid.
    names: HashMap<u32, u32>,
    last_switch: u64,
    last_waking: u64,
    /// Time of the CPU's first switch.
    first: Option<u64>,
}

/// Returns prev_state as the kernel's tracepoint reports it.
fn state_bits(state: TaskState) -> i64 {
    match state {
        TaskState::Running => 0,
        TaskState::Interruptible => 1,
        TaskState::Uninterruptible => 2,
        TaskState::Dead => 0x10,
    }
}

impl Bundle {
    /// Returns the index of a task's name in the name table, and adds the name if it is missing.
    fn name(&mut self, pid: u32, task: &Task) -> u32 {
        let table = &mut self.compact.intern_table;
        *self.names.entry(pid).or_insert_with(|| {
            table.push(if pid == 0 {
                "swapper".to_owned()
            } else {
                task.comm.clone()
            });
            crate::number::index(table.len()) - 1
        })
    }

    /// Forgets the index of a task's name, because the task has changed its name.
    pub fn forget(&mut self, pid: u32) {
        self.names.remove(&pid);
    }

    /// Adds a switch.
    pub fn switch(&mut self, time: u64, tasks: &mut Follow, prev: u32, prev_state: TaskState, next: u32) {
        if *self.first.get_or_insert(time) == time {
            return self.first_switch(time, tasks, prev, prev_state, next);
        }
        let task = tasks.task(next);
        let name = self.name(next, task);
        let to = &mut self.compact;
        to.switch_timestamp.push(time.saturating_sub(self.last_switch));
        to.switch_prev_state.push(state_bits(prev_state));
        to.switch_next_pid.push(next.cast_signed());
        to.switch_next_prio.push(if next == 0 { 120 } else { task.prio });
        to.switch_next_comm_index.push(name);
        self.last_switch = time;
    }

    /// Adds the CPU's first switch (or another one at the same time) as a full event, which names
    /// both tasks. The columns of a bundle contain only the next task of a switch, so the previous
    /// task of the first switch would be unknown.
    fn first_switch(&mut self, time: u64, tasks: &mut Follow, prev: u32, prev_state: TaskState, next: u32) {
        let mut named = |pid| match pid {
            0 => ("swapper".to_owned(), 120),
            _ => (tasks.task(pid).comm.clone(), tasks.task(pid).prio),
        };
        let ((prev_comm, prev_prio), (next_comm, next_prio)) = (named(prev), named(next));
        let switch = Switch {
            prev_comm: Some(prev_comm),
            prev_pid: Some(prev.cast_signed()),
            prev_prio: Some(prev_prio),
            prev_state: Some(state_bits(prev_state)),
            next_comm: Some(next_comm),
            next_pid: Some(next.cast_signed()),
            next_prio: Some(next_prio),
        };
        self.event(time, prev, Ftrace::SchedSwitch(switch));
    }

    /// Adds the waking of a task.
    pub fn waking(&mut self, time: u64, pid: u32, task: &Task, by_interrupt: bool) {
        let name = self.name(pid, task);
        let to = &mut self.compact;
        to.waking_timestamp.push(time.saturating_sub(self.last_waking));
        to.waking_pid.push(pid.cast_signed());
        to.waking_target_cpu.push(task.cpu.cast_signed());
        to.waking_prio.push(task.prio);
        to.waking_comm_index.push(name);
        to.waking_common_flags.push(if by_interrupt { HARDIRQ } else { 0 });
        self.last_waking = time;
    }

    /// Adds an event of any other kind. `current` is the pid of the task that runs on the CPU.
    pub fn event(&mut self, time: u64, current: u32, event: Ftrace) {
        self.events.push(FtraceEvent {
            common_flags: None,
            timestamp: Some(time),
            pid: Some(current),
            event: Some(event),
        });
    }

    pub fn is_full(&self) -> bool {
        self.compact.switch_next_pid.len() + self.compact.waking_pid.len() + self.events.len() >= EVENTS
    }

    /// Returns the collected events as a packet and empties the bundle. Returns `None` if there are
    /// no events.
    pub fn take(&mut self, cpu: u32) -> Option<TracePacket> {
        let first = self.first;
        let Bundle { compact, events, .. } = std::mem::replace(
            self,
            Bundle {
                first,
                ..Bundle::default()
            },
        );
        let has_compact = compact.switch_next_pid.len() + compact.waking_pid.len() > 0;
        (has_compact || !events.is_empty()).then(|| TracePacket {
            data: Some(Data::FtraceEvents(FtraceEventBundle {
                lost_events: None,
                cpu: Some(cpu),
                event: events,
                compact_sched: has_compact.then_some(compact),
            })),
            trusted_packet_sequence_id: super::SEQUENCE,
            ..TracePacket::default()
        })
    }
}
