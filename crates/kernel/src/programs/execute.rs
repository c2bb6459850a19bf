// SPDX-License-Identifier: GPL-2.0-only
//! Execution of the programs of tasks, step by step.
//!
//! A step that affects other tasks is executed only after all preceding work of the task is done.
//! The effects of a task therefore occur at the times at which a real task would cause them. If a
//! task blocks in a step, it remains at this step. The field `stage` records how far the step has
//! been executed ([`Stage`]).

use crate::machine::Machine;
use crate::programs::native;
use crate::programs::state::cursor::*;
use crate::programs::state::native::Turn;
use crate::sched::state::task::{Next, State};
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use std::rc::Rc;
use workload::Op;

/// Executes the next steps of `task` as long as they only compute, and adds their work to the task.
/// Called when the task is about to run on a CPU.
pub(crate) fn prepare(m: &mut Machine, task: TaskId) {
    let syscall = u64::from(m.spec.costs.syscall_ns);
    let cursor = &mut m.tasks[task].program;
    if cursor.work > 0 || cursor.time > 0 {
        return;
    }
    let ops = &m.programs[cursor.program as usize];
    // The limit of eight steps ends loops that do no work. `advance` detects and ends tasks with
    // such programs.
    for _ in 0..8 {
        let Some(op) = ops.get(cursor.pc as usize) else { return };
        match cursor.compute(op, &mut m.rng, syscall) {
            Some(true) => return,
            Some(false) => {}
            None if cursor.stage == Stage::Begun && matches!(op, Op::Sleep(_)) => {
                cursor.done();
                cursor.time += syscall;
            }
            None => return,
        }
    }
}

/// Executes steps of the running task until a step takes time.
pub(crate) fn advance(m: &mut Machine, cpu: CpuId, task: TaskId) -> Next {
    let ops = Rc::clone(&m.programs[m.tasks[task].program.program as usize]);
    let syscall = u64::from(m.spec.costs.syscall_ns);
    for _ in 0..ENDLESS {
        let cursor = &mut m.tasks[task].program;
        let Some(op) = ops.get(cursor.pc as usize) else {
            return exit(m, task);
        };
        match cursor.compute(op, &mut m.rng, syscall) {
            Some(true) => return Next::Work,
            Some(false) => continue,
            None => {}
        }
        let rq = &m.rqs[cpu];
        let resched = rq.need_resched || rq.need_resched_lazy && m.entry.to_user;
        let busy = rq.debt() > 0 || resched || !cursor.work_done();
        if !silent(op) {
            if busy {
                return Next::Work;
            }
            m.entry.to_user = true;
        }
        if let Some(next) = execute(m, cpu, task, op, syscall) {
            return next;
        }
        if m.rqs[cpu].curr != task {
            // The task has moved to another CPU because of exec or a change of its affinity.
            return Next::Work;
        }
        if m.tasks[task].program.work > 0 {
            return Next::Work;
        }
    }
    let t = &m.tasks[task];
    let ended = format!(
        "task '{}' (pid {}) was ended because its program loops without using CPU time or blocking: add a run or sleep step to the loop",
        t.comm(),
        t.pid()
    );
    m.ended_tasks.push(ended);
    // Moves the task to the end of its program, so that it exits.
    let cursor = &mut m.tasks[task].program;
    (cursor.pc, cursor.stage) = (ops.len() as u32, Stage::Start);
    exit(m, task)
}

/// What became of a step.
enum Outcome {
    /// It is complete, and takes the time of a system call unless it has charged a cost of its own.
    Done,
    /// The task must wait. The step is executed again when the task runs again.
    Blocked,
    /// It is complete or asleep, and has charged everything itself.
    Settled(Option<Next>),
}

impl From<bool> for Outcome {
    fn from(done: bool) -> Outcome {
        if done { Outcome::Done } else { Outcome::Blocked }
    }
}

/// Executes one step that is not a computing step. Returns `None` if the step is complete or has
/// added work to the task.
fn execute(m: &mut Machine, cpu: CpuId, task: TaskId, op: &Op, syscall: u64) -> Option<Next> {
    let outcome = match op {
        Op::Run(_) | Op::Runtime(_) | Op::Mem { .. } | Op::LoopInit { .. } | Op::LoopBack { .. } => {
            unreachable!("Cursor::compute() has executed all computing steps")
        }
        Op::Sleep(_) | Op::Io { .. } | Op::Timer { .. } | Op::Interval { .. } => sleep(m, task, op),
        Op::Begin { .. } | Op::BeginWoken | Op::BeginPosted | Op::Done { .. } | Op::Phase(_) => note(m, cpu, task, op),
        Op::SetAffinity(_)
        | Op::SetPolicy(_)
        | Op::SetSlice(_)
        | Op::SetCgroup(_)
        | Op::MigrateDisable
        | Op::MigrateEnable => change(m, task, op, syscall),
        Op::Yield | Op::Fork { .. } | Op::WaitChildren | Op::WaitChild { .. } | Op::Exec { .. } | Op::Exit => {
            process(m, task, op, syscall)
        }
        Op::Native => native(m, task, syscall),
        _ => synchronize(m, task, op),
    };
    let cursor = &mut m.tasks[task].program;
    match outcome {
        Outcome::Settled(next) => return next,
        Outcome::Blocked => {
            if cursor.stage == Stage::Start {
                cursor.stage = Stage::Begun;
            }
            return Some(Next::Block(State::Interruptible));
        }
        Outcome::Done => {}
    }
    cursor.done();
    if cursor.work == 0 && !has_costs_of_its_own(op) {
        cursor.time += syscall;
    }
    if let Op::Send { channel, .. } = *op {
        m.reserve_channel(channel, task);
    }
    None
}

/// Continues a thread of a program outside of the simulator.
fn native(m: &mut Machine, task: TaskId, syscall: u64) -> Outcome {
    match native::run(m, task) {
        Some(Turn::Run { .. }) => Outcome::Settled(Some(Next::Work)),
        Some(Turn::Block { until_ns: Some(at) }) => sleep_until(m, task, at, State::Interruptible),
        Some(Turn::Block { until_ns: None }) => Outcome::Blocked,
        Some(Turn::Yield) => {
            m.tasks[task].program.add_time(syscall);
            Outcome::Settled(Some(Next::Yield))
        }
        Some(Turn::Exit) | None => Outcome::Settled(Some(exit(m, task))),
    }
}

/// Executes a step that makes the task sleep for some time.
fn sleep(m: &mut Machine, task: TaskId, op: &Op) -> Outcome {
    let begins = m.tasks[task].program.stage == Stage::Start;
    if let Op::Io { bytes } = *op {
        m.tasks[task].set_in_iowait(begins);
        if begins {
            let ns = IO_LATENCY_NS + bytes * 1000 / IO_BYTES_PER_US;
            return sleep_until(m, task, m.now + ns, State::Uninterruptible);
        }
    }
    if !begins {
        return Outcome::Done;
    }
    let cursor = &mut m.tasks[task].program;
    let until = match *op {
        Op::Sleep(ref dist) => Some(m.now + cursor.sample(dist, &mut m.rng)),
        Op::Timer {
            timer,
            period,
            absolute,
        } => timer_target(cursor, m.now, timer, period, absolute),
        Op::Interval { timer, ref length } => {
            let length = cursor.sample(length, &mut m.rng);
            timer_target(cursor, m.now, timer, length, true)
        }
        _ => None,
    };
    match until {
        Some(at) => sleep_until(m, task, at, State::Interruptible),
        // The task is late. Like a wait for an early wake-up, this remains a sleep in a replay.
        None if m.replays && m.rqs[m.this_cpu].nr_running > 1 => sleep_until(m, task, m.now, State::Interruptible),
        None => Outcome::Done,
    }
}

/// Executes a step that wakes other tasks or waits for them, or passes a message.
fn synchronize(m: &mut Machine, task: TaskId, op: &Op) -> Outcome {
    let stage = m.tasks[task].program.stage;
    match *op {
        Op::Lock(id) => return m.mutex_lock(id, task).into(),
        Op::CondWait { cond, mutex } => return cond_wait(m, task, cond, mutex, stage).into(),
        Op::Sync { cond, mutex } => {
            if stage == Stage::Start {
                m.cond_signal(cond, false, task);
            }
            return cond_wait(m, task, cond, mutex, stage).into();
        }
        Op::Barrier(id) => return (stage == Stage::Begun || m.barrier_wait(id, task)).into(),
        Op::SemWait(id) if m.replays => return replayed_wait(m, task, id, stage),
        Op::SemWait(id) => return m.sem_wait(id, task).into(),
        Op::Relay { from, to } => {
            return match m.relay(from, to, task) {
                None => Outcome::Blocked,
                Some(true) => Outcome::Done,
                // The step is executed again when the time for this post has passed.
                Some(false) => Outcome::Settled(None),
            };
        }
        Op::Suspend(id) => return (stage == Stage::Begun || m.suspend(id, task)).into(),
        Op::Send { channel, bytes } => {
            return match m.channel_busy_until(channel) {
                Some(until) => sleep_until(m, task, until, State::Uninterruptible),
                None => m.channel_send(channel, bytes, task).into(),
            };
        }
        Op::Recv(id) => return m.channel_recv(id, task).into(),
        Op::Poll(id) => return m.channel_poll(id, task).into(),
        Op::Unlock(id) => m.mutex_unlock(id, task),
        Op::Signal(id) => m.cond_signal(id, false, task),
        Op::Broadcast(id) => m.cond_signal(id, true, task),
        Op::SemPost(id) => m.sem_post(id, task),
        Op::Resume(id) => m.resume(id, task),
        ref other => unreachable!("{other:?} is a step of another kind"),
    }
    Outcome::Done
}

/// Waits for a wake-up that a recording contains. If the wake-up has already happened, the task
/// sleeps nevertheless and wakes at once, unless no other task waits for its CPU.
/// [`workload::replay`] explains why.
fn replayed_wait(m: &mut Machine, task: TaskId, id: u32, stage: Stage) -> Outcome {
    if stage == Stage::Signalled {
        return Outcome::Done;
    }
    let early = stage == Stage::Start && m.sync.at(id).value > 0;
    if !early || m.rqs[m.this_cpu].nr_running <= 1 {
        return m.sem_wait(id, task).into();
    }
    m.sync.at(id).value -= 1;
    let outcome = sleep_until(m, task, m.now, State::Interruptible);
    m.tasks[task].program.stage = Stage::Signalled;
    outcome
}

/// Executes a step about the task itself, its process or its children.
fn process(m: &mut Machine, task: TaskId, op: &Op, syscall: u64) -> Outcome {
    match *op {
        Op::Yield => {
            m.tasks[task].program.add_time(syscall);
            m.tasks[task].program.done();
            Outcome::Settled(Some(Next::Yield))
        }
        Op::Fork { task: child, thread } => {
            let ns = u64::from(m.spec.costs.fork(thread));
            let cursor = &mut m.tasks[task].program;
            if cursor.stage == Stage::Start && ns > 0 {
                // The child is woken only after the time for copying the process has passed, so it
                // cannot run earlier.
                cursor.stage = Stage::Begun;
                cursor.time += ns;
                return Outcome::Settled(Some(Next::Work));
            }
            m.fork(child, task, thread);
            Outcome::Done
        }
        Op::WaitChildren => (m.tasks[task].children == 0).into(),
        Op::WaitChild { left } => (m.tasks[task].children <= left).into(),
        Op::Exec { ref comm } => {
            m.tasks[task].program.add_time(u64::from(m.spec.costs.exec_ns));
            m.tasks[task].program.done();
            m.exec(task, comm.clone());
            Outcome::Settled(None)
        }
        _ => Outcome::Settled(Some(exit(m, task))),
    }
}

/// Executes a step that changes an attribute of the task.
fn change(m: &mut Machine, task: TaskId, op: &Op, syscall: u64) -> Outcome {
    match *op {
        Op::SetAffinity(ref cpus) => {
            let nr_cpus = m.nr_cpus();
            let cpus = match cpus {
                Some(cpus) => CpuSet::from_cpus(nr_cpus, cpus),
                None => CpuSet::all(nr_cpus),
            };
            m.tasks[task].program.done();
            let cgroup = m.tasks[task].cgroup();
            if let Some(cpus) = m.request_cpus(task, cgroup, cpus) {
                m.set_cpus_allowed(task, cpus);
            }
            return Outcome::Settled(None);
        }
        Op::SetCgroup(cgroup) => {
            // If the policy rejects the move, the task remains in its cgroup and continues.
            if m.cgroups.has_cpusets() {
                // The cpuset of the new cgroup may force the task to move to another CPU, so the
                // step is completed before the move.
                let cursor = &mut m.tasks[task].program;
                cursor.done();
                cursor.time += syscall;
                let _ = m.attach(&[task], cgroup);
                return Outcome::Settled(None);
            }
            if m.tasks[task].cgroup() != cgroup {
                let _ = m.attach(&[task], cgroup);
            }
        }
        Op::MigrateEnable => {
            // The task may have to move to another CPU, so the step is completed before.
            m.tasks[task].program.done();
            m.migrate_enable(task);
            return Outcome::Settled(None);
        }
        Op::MigrateDisable => m.migrate_disable(task),
        Op::SetPolicy(policy) => m.set_policy(task, policy),
        Op::SetSlice(ns) => m.set_slice(task, ns),
        ref other => unreachable!("{other:?} changes no attribute"),
    }
    Outcome::Done
}

/// Executes a step that only records a time or an event for the results.
fn note(m: &mut Machine, cpu: CpuId, task: TaskId, op: &Op) -> Outcome {
    let local = m.local_time(cpu);
    let pid = m.tasks[task].pid();
    let cursor = &mut m.tasks[task].program;
    let event = match *op {
        Op::Begin { arrival: true } => {
            cursor.began = cursor.created;
            None
        }
        Op::Begin { arrival: false } => {
            cursor.began = local + cursor.time_before_work();
            None
        }
        Op::BeginWoken => {
            cursor.began = cursor.woken;
            None
        }
        Op::BeginPosted => {
            cursor.began = cursor.posted();
            None
        }
        Op::Done { count } => {
            let began = std::mem::replace(&mut cursor.began, NEVER);
            // If no request was started, the response time is 0.
            let response_ns = (local + cursor.time_before_work()).saturating_sub(began);
            Some(trace::Event::Done {
                pid,
                count,
                response_ns,
            })
        }
        Op::Phase(phase) => Some(trace::Event::Phase { pid, phase }),
        ref other => unreachable!("{other:?} records nothing"),
    };
    cursor.done();
    if let Some(event) = event {
        m.trace(cpu, event);
    }
    Outcome::Settled(None)
}

/// Returns whether the step has already charged its own cost to the task. The general cost of a
/// system call is then not added. This applies to messages and to operations on futexes.
fn has_costs_of_its_own(op: &Op) -> bool {
    matches!(
        op,
        Op::Send { .. }
            | Op::Recv(_)
            | Op::Lock(_)
            | Op::Unlock(_)
            | Op::CondWait { .. }
            | Op::Sync { .. }
            | Op::Signal(_)
            | Op::Broadcast(_)
            | Op::Barrier(_)
            | Op::SemPost(_)
            | Op::SemWait(_)
            | Op::Relay { .. }
            | Op::Suspend(_)
            | Op::Resume(_)
    )
}

/// Makes the running task sleep until the time `at` (ns).
fn sleep_until(m: &mut Machine, task: TaskId, at: u64, state: State) -> Outcome {
    m.tasks[task].program.stage = Stage::Begun;
    // I/O is not subject to the slack of timers.
    let slack = match state {
        State::Interruptible => m.tasks[task].task_struct.timer_slack_ns,
        _ => 0,
    };
    match slack {
        0 => m.wake_at(task, at),
        slack => m.wake_in_range(task, at, slack),
    }
    Outcome::Settled(Some(Next::Block(state)))
}

/// Waits for a condition variable.
fn cond_wait(m: &mut Machine, task: TaskId, cond: u32, mutex: u32, stage: Stage) -> bool {
    if stage == Stage::Start {
        m.mutex_unlock(mutex, task);
        m.cond_wait(cond, task);
        return false;
    }
    m.tasks[task].program.stage = Stage::Signalled;
    m.mutex_lock(mutex, task)
}

/// Makes the task exit. The first call only adds the CPU time that the exit takes.
fn exit(m: &mut Machine, task: TaskId) -> Next {
    let is_thread = m.tasks[task].tgid() != m.tasks[task].pid();
    let cursor = &mut m.tasks[task].program;
    if cursor.stage == Stage::Start {
        cursor.stage = Stage::Begun;
        cursor.time += u64::from(m.spec.costs.exit(is_thread));
        return Next::Work;
    }
    if cursor.stage == Stage::Begun {
        cursor.stage = Stage::Exiting;
        m.exit_task(task);
        if m.rqs[m.this_cpu].need_resched {
            // The task may be preempted before it is dead.
            return Next::Work;
        }
    }
    let creator = m.tasks[task].creator;
    if creator != IDLE {
        m.tasks[creator].children -= 1;
        let is_process = m.tasks[creator].process != m.tasks[task].process;
        child_exited(m, creator, is_process);
    }
    Next::Block(State::Dead)
}

/// Wakes `parent` if it waits for exits of children.
///
/// The exit of a child process wakes a parent in wait4() (do_notify_parent). If the parent has to
/// wait for more children, it then sleeps again. The exit of a thread wakes the parent only if
/// enough children have exited.
fn child_exited(m: &mut Machine, parent: TaskId, is_process: bool) {
    let cursor = &m.tasks[parent].program;
    let left = match m.programs[cursor.program as usize].get(cursor.pc as usize) {
        Some(Op::WaitChildren) => 0,
        Some(Op::WaitChild { left }) => *left,
        _ => return,
    };
    if cursor.stage == Stage::Begun && (is_process || m.tasks[parent].children <= left) {
        m.try_to_wake_up(parent, 0);
    }
}

#[cfg(test)]
mod replay_tests;
