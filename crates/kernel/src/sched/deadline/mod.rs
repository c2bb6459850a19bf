// SPDX-License-Identifier: GPL-2.0-only
//! The deadline servers `fair_server` and `ext_server` (kernel/sched/deadline.c). A server runs
//! tasks of its class before all real-time tasks. The servers prevent real-time tasks from starving
//! the fair and the ext class, and fair tasks from starving the ext class.
//!
//! A server starts with the first task of its class on a CPU. Its timer is set to the time of zero
//! laxity, which is the last time at which 50 ms of runtime still fit before the deadline: 950 ms
//! after the start. CPU time that the class uses, and idle time, count as used runtime. When 50 ms
//! are used, a new period begins and the timer is postponed. So the timer fires only if the class
//! starves. The class then runs first for up to 50 ms, and again in each period that follows.
//!
//! Not modelled: the order of servers and SCHED_DEADLINE tasks by deadline (here a server always
//! runs first), and admission control.

pub mod state;

use crate::machine::Machine;
use crate::sched::{ext, fair};
use crate::simulation::event::{Event, NEVER};
use crate::simulation::id::{CpuId, IDLE, Server, TaskId};

/// Minimum time by which a zero-laxity timer is postponed, ns (dl_server_min_res).
const MIN_RES_NS: u64 = 1_000_000;

/// Starts a server because its class got its first task on `cpu` (dl_server_start).
#[inline]
pub(crate) fn start(m: &mut Machine, cpu: CpuId, server: Server) {
    let dl = &mut m.rqs[cpu].servers[server];
    dl.defer_idle = false;
    if !dl.active && dl.attached {
        activate(m, cpu, server);
    }
}

fn activate(m: &mut Machine, cpu: CpuId, server: Server) {
    // Accounts the time until now, so that it is not charged to the server later.
    m.update_curr(cpu);
    let now = m.now;
    let dl = &mut m.rqs[cpu].servers[server];
    dl.active = true;
    dl.update_at_start(now);
    enqueue(m, cpu, server);
    // If the CPU is idle, the wake-up of its next task reschedules it.
    if m.rqs[cpu].curr != IDLE {
        m.resched_curr(cpu);
    }
}

/// Lets a server compete for the CPU, unless it has to wait for its timer (enqueue_dl_entity).
fn enqueue(m: &mut Machine, cpu: CpuId, server: Server) {
    if m.rqs[cpu].servers[server].throttled && start_timer(m, cpu, server) {
        return;
    }
    let dl = &mut m.rqs[cpu].servers[server];
    dl.timer_at = NEVER;
    dl.defer_armed = false;
    dl.throttled = false;
    dl.queued = true;
}

/// Stops a server (dl_server_stop).
pub(crate) fn stop(m: &mut Machine, cpu: CpuId, server: Server) {
    let dl = &mut m.rqs[cpu].servers[server];
    dl.queued = false;
    dl.timer_at = NEVER;
    dl.defer_armed = false;
    dl.throttled = false;
    dl.defer_idle = false;
    dl.active = false;
}

/// Gives the server of each CPU a bandwidth reservation and starts it (dl_server_attach_bw).
pub(crate) fn attach(m: &mut Machine, server: Server) {
    for cpu in m.cpus() {
        if m.rqs[cpu].servers[server].attached {
            continue;
        }
        m.rqs[cpu].servers[server].attached = true;
        if m.rqs[cpu].online {
            start(m, cpu, server);
        }
    }
}

/// Stops the server of each CPU and takes back its reservation (dl_server_detach_bw).
pub(crate) fn detach(m: &mut Machine, server: Server) {
    for cpu in m.cpus() {
        m.update_curr(cpu);
        stop(m, cpu, server);
        m.rqs[cpu].servers[server].attached = false;
    }
}

/// Starts the timer for zero laxity or for the next period (start_dl_timer). Returns false if that
/// time has already passed.
fn start_timer(m: &mut Machine, cpu: CpuId, server: Server) -> bool {
    let now = m.now;
    let dl = &mut m.rqs[cpu].servers[server];
    let at = if dl.defer_armed { dl.zero_laxity() } else { dl.deadline };
    // Linux compares in microseconds.
    if at + 1000 <= now {
        return false;
    }
    if dl.timer_at == NEVER {
        dl.timer_at = at.max(now);
        arm_event(m, cpu, server);
    }
    true
}

/// Makes sure that an event is pending at the timer's expiry or before.
fn arm_event(m: &mut Machine, cpu: CpuId, server: Server) {
    let dl = &mut m.rqs[cpu].servers[server];
    if dl.timer_at < dl.event_at {
        dl.event_at = dl.timer_at;
        m.events.push(dl.timer_at, Event::DlServer { cpu, server });
    }
}

/// Charges a server with `ns` of CPU time that its class has used (dl_server_update).
#[inline]
pub(crate) fn update(m: &mut Machine, cpu: CpuId, server: Server, ns: u64) {
    let dl = &mut m.rqs[cpu].servers[server];
    if !dl.active {
        return;
    }
    dl.runtime -= ns as i64;
    dl.defer_idle = false;
    if dl.runtime <= 0 {
        runtime_exceeded(m, cpu, server, false);
    }
}

/// Charges both servers with `ns` of idle time, in which their classes could have run
/// (dl_server_update_idle).
#[inline]
pub(crate) fn update_idle(m: &mut Machine, cpu: CpuId, ns: u64) {
    let idle = m.rqs[cpu].nr_running == 0;
    for server in Server::ALL {
        let dl = &mut m.rqs[cpu].servers[server];
        if !dl.active {
            continue;
        }
        dl.runtime -= ns as i64;
        dl.defer_idle &= idle;
        if dl.runtime <= 0 {
            runtime_exceeded(m, cpu, server, idle);
        }
    }
}

/// Handles a server whose runtime is used up (update_curr_dl_se).
#[cold]
fn runtime_exceeded(m: &mut Machine, cpu: CpuId, server: Server, idle: bool) {
    let now = m.now;
    let dl = &mut m.rqs[cpu].servers[server];
    if dl.throttled {
        if dl.defer_idle && idle {
            dl.runtime = 0;
            return;
        }
        // The class used its reserved time without the help of the server, or the CPU was idle. So
        // the class does not starve, and the next period begins.
        dl.defer_running = false;
        dl.timer_at = NEVER;
        dl.begin_period(now);
        dl.defer_idle |= idle;
        start_timer(m, cpu, server);
        return;
    }
    dl.throttled = true;
    dl.queued = false;
    if !start_timer(m, cpu, server) {
        m.rqs[cpu].servers[server].begin_period(now);
        start_timer(m, cpu, server);
    }
    m.resched_curr(cpu);
}

/// Handles the event of a server's timer (dl_server_timer). Returns false if the timer is not due
/// or the server is not throttled. The simulated CPU then executed no code.
pub(crate) fn timer(m: &mut Machine, cpu: CpuId, server: Server) -> bool {
    let now = m.now;
    let dl = &mut m.rqs[cpu].servers[server];
    if dl.event_at != now {
        return false;
    }
    dl.event_at = NEVER;
    if dl.timer_at > now {
        if dl.timer_at != NEVER {
            arm_event(m, cpu, server);
        }
        return false;
    }
    dl.timer_at = NEVER;
    if !dl.throttled {
        return false;
    }
    m.enter_timer_irq(cpu);
    let dl = &mut m.rqs[cpu].servers[server];
    if dl.defer_idle {
        stop(m, cpu, server);
        return true;
    }
    if dl.defer_armed {
        if now + MIN_RES_NS < dl.zero_laxity() {
            // The class has used some runtime since the timer was set, so zero laxity is later.
            dl.timer_at = dl.zero_laxity();
            arm_event(m, cpu, server);
            return true;
        }
        dl.defer_running = true;
    }
    dl.replenish(now);
    enqueue(m, cpu, server);
    m.resched_curr(cpu);
    true
}

/// Returns the task that runs on behalf of the server with the earliest deadline. A server whose
/// class has nothing to run stops (pick_task_dl).
#[inline]
pub(crate) fn pick_task(m: &mut Machine, cpu: CpuId, prev: TaskId) -> Option<TaskId> {
    while let Some(server) = earliest(m, cpu) {
        let task = match server {
            Server::Fair => fair::pick_task(m, cpu, prev),
            Server::Ext => ext::pick_task(m, cpu, prev),
        };
        if task.is_some() {
            return task;
        }
        stop(m, cpu, server);
    }
    None
}

fn earliest(m: &Machine, cpu: CpuId) -> Option<Server> {
    let servers = &m.rqs[cpu].servers;
    let queued = Server::ALL.into_iter().filter(|&server| servers[server].queued);
    queued.min_by_key(|&server| servers[server].deadline)
}
