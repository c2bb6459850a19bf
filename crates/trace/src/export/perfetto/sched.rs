// SPDX-License-Identifier: GPL-2.0-only
//! Scheduler events as ftrace's, a bundle of them a CPU: switches and wakings by column, the others one by one.

use super::proto::{CompactSched, Data, Ftrace, FtraceEvent, FtraceEventBundle, Switch, TracePacket};
use crate::event::TaskState;
use crate::follow::{Follow, Task};
use std::collections::HashMap;

/// A bundle is written once it has this many events.
const EVENTS: usize = 2048;
/// TRACE_FLAG_HARDIRQ
const HARDIRQ: u32 = 0x08;

/// What was gathered of one CPU.
#[derive(Default)]
pub(super) struct Bundle {
    compact: CompactSched,
    events: Vec<FtraceEvent>,
    /// Places in the name table of tasks' names, by pid.
    names: HashMap<u32, u32>,
    last_switch: u64,
    last_waking: u64,
    /// When the CPU switched first.
    first: Option<u64>,
}

/// prev_state as the kernel reports it.
fn state_bits(state: TaskState) -> i64 {
    match state {
        TaskState::Running => 0,
        TaskState::Interruptible => 1,
        TaskState::Uninterruptible => 2,
        TaskState::Dead => 0x10,
    }
}

impl Bundle {
    fn name(&mut self, pid: u32, task: &Task) -> u32 {
        let table = &mut self.compact.intern_table;
        *self.names.entry(pid).or_insert_with(|| {
            table.push(if pid == 0 {
                "swapper".to_owned()
            } else {
                task.comm.clone()
            });
            table.len() as u32 - 1
        })
    }

    /// The task's name has changed.
    pub fn forget(&mut self, pid: u32) {
        self.names.remove(&pid);
    }

    pub fn switch(&mut self, time: u64, tasks: &mut Follow, prev: u32, prev_state: TaskState, next: u32) {
        if *self.first.get_or_insert(time) == time {
            return self.first_switch(time, tasks, prev, prev_state, next);
        }
        let task = tasks.task(next);
        let name = self.name(next, task);
        let to = &mut self.compact;
        to.switch_timestamp.push(time.saturating_sub(self.last_switch));
        to.switch_prev_state.push(state_bits(prev_state));
        to.switch_next_pid.push(next as i32);
        to.switch_next_prio.push(if next == 0 { 120 } else { task.prio });
        to.switch_next_comm_index.push(name);
        self.last_switch = time;
    }

    /// A column of switches does not say who ran before, so the CPU's first instant is told in full.
    fn first_switch(&mut self, time: u64, tasks: &mut Follow, prev: u32, prev_state: TaskState, next: u32) {
        let mut named = |pid| match pid {
            0 => ("swapper".to_owned(), 120),
            _ => (tasks.task(pid).comm.clone(), tasks.task(pid).prio),
        };
        let ((prev_comm, prev_prio), (next_comm, next_prio)) = (named(prev), named(next));
        let switch = Switch {
            prev_comm: Some(prev_comm),
            prev_pid: Some(prev as i32),
            prev_prio: Some(prev_prio),
            prev_state: Some(state_bits(prev_state)),
            next_comm: Some(next_comm),
            next_pid: Some(next as i32),
            next_prio: Some(next_prio),
        };
        self.event(time, prev, Ftrace::SchedSwitch(switch));
    }

    pub fn waking(&mut self, time: u64, pid: u32, task: &Task, by_interrupt: bool) {
        let name = self.name(pid, task);
        let to = &mut self.compact;
        to.waking_timestamp.push(time.saturating_sub(self.last_waking));
        to.waking_pid.push(pid as i32);
        to.waking_target_cpu.push(task.cpu as i32);
        to.waking_prio.push(task.prio);
        to.waking_comm_index.push(name);
        to.waking_common_flags.push(if by_interrupt { HARDIRQ } else { 0 });
        self.last_waking = time;
    }

    /// Any other event; `current` is who runs on the CPU.
    pub fn event(&mut self, time: u64, current: u32, event: Ftrace) {
        self.events.push(FtraceEvent {
            timestamp: Some(time),
            pid: Some(current),
            event: Some(event),
        });
    }

    pub fn is_full(&self) -> bool {
        self.compact.switch_next_pid.len() + self.compact.waking_pid.len() + self.events.len() >= EVENTS
    }

    /// What was gathered, if anything.
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
                cpu: Some(cpu),
                event: events,
                compact_sched: has_compact.then_some(compact),
            })),
            trusted_packet_sequence_id: super::SEQUENCE,
            ..TracePacket::default()
        })
    }
}
