// SPDX-License-Identifier: GPL-2.0-only
//! What keeps realtime tasks from starving all others: of each second, the others get 50 ms if they are left waiting
//! (the fair and ext deadline servers, kernel/sched/deadline.c).
//!
//! One server a CPU serves both classes. It starts to wait when a realtime task runs while others are queued. 950 ms
//! later, unless the others had their 50 ms meanwhile, it lets them run before realtime tasks for what they lack, then
//! rests until the second is over and does so again while they still wait.

use super::dl_server::*;
use crate::machine::Machine;
use crate::simulation::event::Event;
use crate::simulation::id::CpuId;

/// CPU time that others than realtime tasks have used on `cpu`.
fn served(m: &Machine, cpu: CpuId) -> u64 {
    let rq = &m.rqs[cpu];
    rq.time.tasks_ns - rq.rt.used_ns
}

fn others_wait(m: &Machine, cpu: CpuId) -> bool {
    let rq = &m.rqs[cpu];
    rq.nr_running > rq.rt.nr_running
}

/// Whether the others go first now.
pub(super) fn serves(m: &Machine, cpu: CpuId) -> bool {
    matches!(m.rqs[cpu].rt.server.state, State::Running { until_ns, .. } if served(m, cpu) < until_ns)
        && others_wait(m, cpu)
}

/// A realtime task runs or queues up on `cpu`, or others queue behind it.
pub(super) fn start(m: &mut Machine, cpu: CpuId) {
    if m.rqs[cpu].rt.server.state == State::Off && others_wait(m, cpu) {
        wait(m, cpu);
    }
}

fn wait(m: &mut Machine, cpu: CpuId) {
    let served_ns = served(m, cpu);
    m.rqs[cpu].rt.server.state = State::Waiting { served_ns };
    m.events.push(m.now + PERIOD_NS - RUNTIME_NS, Event::DlServer { cpu });
}

fn run(m: &mut Machine, cpu: CpuId, budget: u64, replenish_at: u64) {
    let until_ns = served(m, cpu) + budget;
    m.rqs[cpu].rt.server.state = State::Running { until_ns, replenish_at };
    let at = m.local_time(cpu) + budget;
    m.events.push(at, Event::DlServer { cpu });
    m.resched_curr(cpu);
}

/// The server's timer. There is one at any time unless it is off.
pub(crate) fn timer(m: &mut Machine, cpu: CpuId) {
    m.enter(cpu);
    let now = m.now;
    if !others_wait(m, cpu) || m.rqs[cpu].rt.nr_running == 0 {
        m.rqs[cpu].rt.server.state = State::Off;
        return;
    }
    match m.rqs[cpu].rt.server.state {
        State::Off => {}
        State::Waiting { served_ns } => {
            let had = served(m, cpu) - served_ns;
            if had >= RUNTIME_NS {
                wait(m, cpu);
            } else {
                run(m, cpu, RUNTIME_NS - had, now + RUNTIME_NS);
            }
        }
        State::Running { until_ns, replenish_at } => {
            let left = until_ns.saturating_sub(served(m, cpu));
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
