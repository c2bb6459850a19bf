// SPDX-License-Identifier: GPL-2.0-only
//! The deadline server, which prevents real-time tasks from starving the fair and ext classes (the
//! fair and ext servers of kernel/sched/deadline.c).
//!
//! Each CPU has one server. It guarantees the two classes together 50 ms of CPU time in each
//! second:
//!
//! 1. The server starts when a real-time task runs while tasks of the other classes are queued.
//! 2. It waits for 950 ms. If the other classes used at least 50 ms of CPU time in this time, it
//!    waits again.
//! 3. Otherwise it lets the other classes run before real-time tasks for the rest of the 50 ms.
//! 4. It rests until the second is over. Then it repeats step 3 while tasks of the other classes
//!    are queued.

use super::dl_server::*;
use crate::machine::Machine;
use crate::simulation::event::Event;
use crate::simulation::id::CpuId;

/// Returns the CPU time that tasks of other classes than the real-time class have used on `cpu`,
/// ns.
fn served_time(m: &Machine, cpu: CpuId) -> u64 {
    let rq = &m.rqs[cpu];
    rq.time.tasks_ns - rq.rt.used_ns
}

/// Returns whether tasks of other classes are queued on `cpu`.
fn others_are_queued(m: &Machine, cpu: CpuId) -> bool {
    let rq = &m.rqs[cpu];
    rq.nr_running > rq.rt.nr_running
}

/// Returns whether the server lets tasks of other classes run before real-time tasks at the moment.
pub(super) fn is_serving(m: &Machine, cpu: CpuId) -> bool {
    matches!(m.rqs[cpu].rt.server.state, State::Running { until_ns, .. } if served_time(m, cpu) < until_ns)
        && others_are_queued(m, cpu)
}

/// Starts the server if tasks of other classes are queued on `cpu` while a real-time task runs.
pub(super) fn start(m: &mut Machine, cpu: CpuId) {
    if m.rqs[cpu].rt.server.state == State::Off && others_are_queued(m, cpu) {
        wait(m, cpu);
    }
}

/// Starts a period. The server waits until zero laxity, the last time at which the reserved 50 ms
/// still fit into the period.
fn wait(m: &mut Machine, cpu: CpuId) {
    let served_ns = served_time(m, cpu);
    m.rqs[cpu].rt.server.state = State::Waiting { served_ns };
    m.events.push(m.now + PERIOD_NS - RUNTIME_NS, Event::DlServer { cpu });
}

/// Lets the other classes run first until they have used `budget` ns of CPU time.
fn run(m: &mut Machine, cpu: CpuId, budget: u64, replenish_at: u64) {
    let until_ns = served_time(m, cpu) + budget;
    m.rqs[cpu].rt.server.state = State::Running { until_ns, replenish_at };
    let at = m.local_time(cpu) + budget;
    m.events.push(at, Event::DlServer { cpu });
    m.resched_curr(cpu);
}

/// Handles the server's timer event. While the server is not off, exactly one such event is
/// pending.
pub(crate) fn timer(m: &mut Machine, cpu: CpuId) {
    m.enter(cpu);
    let now = m.now;
    if !others_are_queued(m, cpu) || m.rqs[cpu].rt.nr_running == 0 {
        m.rqs[cpu].rt.server.state = State::Off;
        return;
    }
    match m.rqs[cpu].rt.server.state {
        State::Off => {}
        State::Waiting { served_ns } => {
            let had = served_time(m, cpu) - served_ns;
            if had >= RUNTIME_NS {
                wait(m, cpu);
            } else {
                run(m, cpu, RUNTIME_NS - had, now + RUNTIME_NS);
            }
        }
        State::Running { until_ns, replenish_at } => {
            let left = until_ns.saturating_sub(served_time(m, cpu));
            if left > 0 && now < replenish_at {
                let at = m.local_time(cpu) + left;
                m.events.push(at, Event::DlServer { cpu });
                return;
            }
            m.rqs[cpu].rt.server.state = State::Resting;
            m.events.push(
                (replenish_at + PERIOD_NS - RUNTIME_NS).max(now),
                Event::DlServer { cpu },
            );
            m.resched_curr(cpu);
        }
        State::Resting => run(m, cpu, RUNTIME_NS, now + RUNTIME_NS),
    }
}
