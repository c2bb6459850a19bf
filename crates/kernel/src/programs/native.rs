// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that stand for the threads of a program outside of the simulator ([`Native`]).

use crate::layout;
use crate::machine::Machine;
use crate::programs::state::cursor::Stage;
use crate::programs::state::native::Turn;
use crate::sched::ext::enable::run_as_user;
use crate::sched::tracepoint;
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use std::rc::Rc;
use workload::{Op, Program, SchedPolicy, TaskSpec, Workload};

pub use crate::programs::state::native::{Native, Turn as NativeTurn};

/// Adds to a workload the description of a program's threads, with the name `comm`. No task of this
/// description starts by itself. Returns its index, which [`start`] and [`fork`] need.
pub fn add_to(workload: &mut Workload, comm: &str) -> u32 {
    let program = workload.programs.len() as u32;
    workload.programs.push(Program {
        ops: vec![Op::Native],
        ..Program::default()
    });
    // The number of a process that no task of the workload has.
    let process = workload.tasks.iter().map(|task| task.process + 1).max().unwrap_or(0);
    let mut task = TaskSpec::new(comm, program, process);
    task.spawn = false;
    workload.tasks.push(task);
    workload.tasks.len() as u32 - 1
}

/// Creates the first thread of the program. Returns its pid, or `None` if the task could not be
/// created.
pub fn start(m: &mut Machine, index: u32) -> Option<u32> {
    let pid = m.pids.len() as u32;
    m.sync.pending_spawns += 1;
    run_as_user(m, |m| m.spawn(index, IDLE, false));
    created(m, pid)
}

/// Creates a thread of the program for the thread `parent`. `in_run` says whether the call comes from
/// [`Native::run`], so that the parent executes kernel code. Returns the pid of the new thread, or
/// `None` if the task could not be created.
pub fn fork(m: &mut Machine, index: u32, parent: u32, in_run: bool) -> Option<u32> {
    let parent = m.find_task(parent)?;
    let pid = m.pids.len() as u32;
    m.sync.pending_spawns += 1;
    match in_run {
        true => m.spawn(index, parent, true),
        false => run_as_user(m, |m| m.spawn(index, parent, true)),
    }
    created(m, pid)
}

/// Marks a new task as a thread of the program. A run does not wait for the end of such tasks.
fn created(m: &mut Machine, pid: u32) -> Option<u32> {
    let task = m.find_task(pid)?;
    m.tasks[task].noise = true;
    m.noise.nr_tasks += 1;
    Some(pid)
}

/// Wakes a thread on behalf of the running task, if the thread sleeps.
pub fn wake(m: &mut Machine, pid: u32) {
    if let Some(task) = m.find_task(pid) {
        m.try_to_wake_up(task, 0);
    }
}

/// Returns the number of the CPU that executes kernel code now.
pub fn this_cpu(m: &Machine) -> u32 {
    m.this_cpu.nr()
}

/// Returns the numbers of the CPUs that are online.
pub fn online_cpus(m: &Machine) -> Vec<u32> {
    m.online_cpus.iter().map(CpuId::nr).collect()
}

/// Returns the longest permitted exit latency of a CPU's idle states, ns
/// (pm_qos_resume_latency_us), or `None` without a limit.
pub fn latency_limit(m: &Machine, cpu: u32) -> Option<u64> {
    m.latency_limit(m.named_cpu(cpu))
}

/// Limits the exit latency of a CPU's idle states. Only a governor observes the limit, from the next
/// choice of a state on.
pub fn set_latency_limit(m: &mut Machine, cpu: u32, ns: Option<u64>) {
    m.limit_latency(m.named_cpu(cpu), ns);
}

/// Gives a thread a new name (PR_SET_NAME).
pub fn rename(m: &mut Machine, pid: u32, comm: &str) {
    if let Some(task) = m.find_task(pid) {
        tracepoint::task_rename(m, task, comm);
        let t = &mut m.tasks[task];
        layout::set_comm(&mut t.task_struct.comm, comm);
        let (cpu, comm) = (t.cpu(), comm.to_owned());
        m.trace_text(cpu, trace::Event::TaskRename { pid, comm });
    }
}

/// Returns the name of a task, or `None` if there is no such task.
pub fn comm(m: &Machine, pid: u32) -> Option<String> {
    m.find_task(pid).map(|task| m.tasks[task].comm())
}

/// Returns the numbers of the CPUs on which a task may run.
pub fn affinity(m: &Machine, pid: u32) -> Vec<u32> {
    let cpus = m
        .find_task(pid)
        .map(|task| m.tasks[task].cpus.iter().map(CpuId::nr).collect());
    cpus.unwrap_or_default()
}

/// Sets the CPUs on which a task may run (sched_setaffinity). Only [`Native::event`] may call this
/// function. Numbers of CPUs that the machine does not have are ignored.
pub fn set_affinity(m: &mut Machine, pid: u32, cpus: &[u32]) {
    let known: Vec<u32> = cpus.iter().copied().filter(|&cpu| cpu < m.nr_cpus()).collect();
    let set = CpuSet::from_cpus(m.nr_cpus(), &known);
    if let Some(task) = m.find_task(pid).filter(|_| !known.is_empty()) {
        run_as_user(m, |m| {
            let cgroup = m.tasks[task].cgroup();
            if let Some(set) = m.request_cpus(task, cgroup, set) {
                m.set_cpus_allowed(task, set);
            }
        });
    }
}

/// Sets the scheduling policy of a task (sched_setscheduler). Only [`Native::event`] may call this
/// function.
pub fn set_policy(m: &mut Machine, pid: u32, policy: SchedPolicy) {
    if let Some(task) = m.find_task(pid) {
        run_as_user(m, |m| m.set_policy(task, policy));
    }
}

/// Announces work for [`Native::event`], which follows as an interrupt of the CPU that executes
/// kernel code now.
pub fn post(m: &mut Machine) {
    m.post_native();
}

/// Ends the run after the current event, because the program cannot continue.
pub fn stop(m: &mut Machine) {
    m.stopped = true;
}

/// Calls a function of a program outside of this crate. The caller has numbers of tasks and CPUs,
/// which a different machine may not have.
///
/// # Panics
/// If the function replaces the machine.
fn on_same_machine<T>(m: &mut Machine, call: impl FnOnce(&mut Machine) -> T) -> T {
    let region = Rc::clone(&m.region);
    let result = call(m);
    assert!(
        Rc::ptr_eq(&region, &m.region),
        "a program has replaced the machine that calls it"
    );
    result
}

/// Handles the event that [`post`] has announced. Returns whether kernel code has begun that has to end.
pub(crate) fn event(m: &mut Machine, cpu: CpuId) -> bool {
    m.native_posted = false;
    let Some(mut program) = m.native.take() else {
        return false;
    };
    m.this_cpu = cpu;
    let woken = on_same_machine(m, |m| program.event(m));
    m.native = Some(program);
    let woken: Vec<TaskId> = woken.into_iter().filter_map(|pid| m.find_task(pid)).collect();
    if woken.is_empty() {
        return false;
    }
    let cpu = if m.online_cpus.contains(cpu) {
        cpu
    } else {
        m.online_cpus.first().unwrap_or(CpuId::BOOT)
    };
    m.enter_timer_irq(cpu);
    for task in woken {
        m.wake(task, 0, 0);
    }
    true
}

/// Continues the thread that `task` stands for. Returns `None` if the thread exits.
pub(super) fn run(m: &mut Machine, task: TaskId) -> Option<Turn> {
    let pid = m.tasks[task].pid();
    let mut program = m.native.take()?;
    let turn = on_same_machine(m, |m| program.run(m, pid));
    m.native = Some(program);
    let cursor = &mut m.tasks[task].program;
    cursor.stage = Stage::Start;
    match turn {
        Turn::Run { user_ns, kernel_ns } => {
            cursor.work += user_ns * 1024;
            cursor.time += kernel_ns;
        }
        Turn::Exit => {
            cursor.done();
            return None;
        }
        Turn::Block { .. } | Turn::Yield => {}
    }
    Some(turn)
}

/// Returns how long a CPU has executed tasks and kernel work, and how long it has been idle, in ns.
pub fn cpu_times(m: &Machine, cpu: u32) -> (u64, u64) {
    let Some(rq) = m.rqs().get(cpu as usize) else {
        return (0, 0);
    };
    let time = &rq.time;
    let since = m.now.saturating_sub(time.total());
    let (busy, idle) = (time.tasks_ns + time.overhead_ns, time.idle_ns);
    match rq.curr {
        IDLE => (busy, idle + since),
        _ => (busy + since, idle),
    }
}

/// Returns the pids of the live tasks, oldest first.
pub fn pids(m: &Machine) -> Vec<u32> {
    let live = m.pids.iter().enumerate().filter(|&(_, &task)| task != IDLE);
    live.map(|(pid, _)| pid as u32).collect()
}
