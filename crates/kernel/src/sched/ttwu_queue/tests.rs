// SPDX-License-Identifier: GPL-2.0-only
use crate::machine::Machine;
use crate::sched::state::task::State;
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::TaskId;
use crate::testbed::*;
use machine::MachineSpec;
use trace::{Event, Record};
use workload::{Dist, Op, SchedPolicy};

fn forever() -> Op {
    Op::LoopBack {
        counter: 0,
        times: None,
        target: 0,
    }
}

/// Runs a task on CPU 0 that wakes a task on CPU `to` once per ms. If `busy` is set, a third task
/// computes on CPU `to` all the time. Returns the CPUs that queued the woken task, without
/// consecutive duplicates.
fn queued_by(spec: MachineSpec, to: u32, busy: bool) -> Vec<u32> {
    let mut bed = Bed::default();
    let semaphore = bed.semaphore();
    let run = Op::Run(Dist::Fixed(MS));
    bed.pinned(0, vec![run, Op::SemPost(semaphore), forever()]);
    let work = Op::Run(Dist::Fixed(50 * US));
    // The woken task is a real-time task, because the fair class would delay its dequeue on a busy
    // CPU (ttwu_runnable).
    bed.pinned(to, vec![Op::SemWait(semaphore), work, forever()]).policy = SchedPolicy::Fifo { rt_priority: 1 };
    if busy {
        bed.pinned(to, hog());
    }
    let (_, records) = bed.run(spec, 20 * MS);
    let queued = |record: &Record| match record.event {
        Event::Wakeup { pid: 2, new: false, .. } => Some(record.cpu),
        _ => None,
    };
    let mut cpus: Vec<u32> = records.iter().filter_map(queued).collect();
    assert!(
        cpus.len() >= 8,
        "too few wake-ups; these CPUs queued the task: {cpus:?}"
    );
    cpus.dedup();
    cpus
}

#[test]
fn an_idle_cpu_queues_its_tasks_itself() {
    assert_eq!(queued_by(spec(1, 1, 2, 1), 1, false), [1]);
    assert_eq!(
        queued_by(spec(1, 1, 2, 1), 1, true),
        [0],
        "the waker must queue the task if the task's CPU is busy and in the same LLC"
    );
    assert_eq!(
        queued_by(spec(1, 2, 1, 1), 1, true),
        [1],
        "a CPU in another LLC than the waker must queue the task itself even if it is busy"
    );
    assert_eq!(
        queued_by(spec(1, 2, 1, 1), 0, true),
        [0],
        "the waker must queue a task of its own CPU directly"
    );
}

/// Returns a machine with two CPUs in one LLC, and its first task. The task was asleep. CPU 0 has
/// just woken it, and it is now on the wake list of CPU 1.
fn waking(records: &mut Vec<Record>) -> (Machine, TaskId) {
    let mut bed = Bed::default();
    bed.task(1, vec![Op::Sleep(Dist::Fixed(400 * MS)), Op::Run(Dist::Fixed(MS))]);
    bed.pinned(0, sleeper(MS, MS));
    let mut m = bed.machine(spec(1, 1, 2, 1));
    m.advance(10 * MS, records);
    let task = nth(0);
    assert_eq!(
        (m.tasks[task].cpu(), m.tasks[task].state()),
        (cpu_id(1), State::Interruptible)
    );
    m.enter(cpu_id(0));
    assert!(m.try_to_wake_up(task, 0));
    assert_eq!(m.tasks[task].state(), State::Waking);
    assert!(!m.tasks[task].on_rq() && !m.idle_cpus.contains(cpu_id(1)));
    m.verify();
    assert!(
        !m.try_to_wake_up(task, 0),
        "a task on a wake list must not be woken again"
    );
    (m, task)
}

/// Continues the simulation. Checks that the woken task exits before its timer would have woken it.
fn assert_completes(mut m: Machine, records: &mut Vec<Record>) {
    m.run(100 * MS, records);
    let exits = records
        .iter()
        .filter(|r| matches!(r.event, Event::TaskExit { pid: 1 }))
        .count();
    assert_eq!(exits, 1);
}

#[test]
fn a_task_on_a_wake_list_is_queued_when_the_ipi_arrives() {
    let mut records = Vec::new();
    let (mut m, task) = waking(&mut records);
    let latency = m.spec.costs.ipi_latency.llc + m.spec.costs.idle_exit_ns;
    let at = m.local_time(cpu_id(0)) + u64::from(latency);
    m.advance(at - 1, &mut records);
    assert_eq!(m.tasks[task].state(), State::Waking);
    m.advance(at, &mut records);
    assert!(m.tasks[task].on_cpu() && m.idle_cpus.contains(cpu_id(0)));
    assert_completes(m, &mut records);
}

#[test]
fn a_cpu_that_goes_offline_empties_its_wake_list() {
    let mut records = Vec::new();
    let (mut m, task) = waking(&mut records);
    m.hotplug(cpu_id(1), false);
    m.verify();
    assert!(m.tasks[task].on_rq() && m.tasks[task].cpu() == 0);
    m.leave();
    assert_completes(m, &mut records);
}

#[test]
fn a_change_of_affinity_reaches_a_task_on_a_wake_list() {
    let mut records = Vec::new();
    let (mut m, task) = waking(&mut records);
    m.sched_setaffinity(m.pid_of(task), CpuSet::from_cpus(2, &[0]));
    m.verify();
    assert!(m.tasks[task].on_rq() && m.tasks[task].cpu() == 0);
    assert_completes(m, &mut records);
    let wrong = |r: &&Record| r.cpu == 1 && matches!(r.event, Event::Switch { next: 1, .. }) && r.time > 10 * MS;
    assert_eq!(records.iter().filter(wrong).count(), 0);
}

#[test]
fn a_change_of_policy_reaches_a_task_on_a_wake_list() {
    let mut records = Vec::new();
    let (mut m, task) = waking(&mut records);
    m.set_policy(task, SchedPolicy::Fifo { rt_priority: 10 });
    m.verify();
    assert_completes(m, &mut records);
}

#[test]
fn a_run_whose_last_task_is_on_a_wake_list_goes_on() {
    let mut records = Vec::new();
    let mut bed = Bed::default();
    let semaphore = bed.semaphore();
    bed.pinned(0, vec![Op::Run(Dist::Fixed(MS)), Op::SemPost(semaphore)]);
    bed.pinned(1, vec![Op::SemWait(semaphore), Op::Run(Dist::Fixed(MS))]);
    let mut m = bed.machine(spec(1, 1, 2, 1));
    assert_eq!(m.run(SECOND, &mut records), crate::machine::Ended::AllExited);
}

#[test]
fn a_task_whose_cpu_is_still_switching_away_from_it_goes_to_the_wake_list() {
    let mut records = Vec::new();
    let mut bed = Bed::default();
    bed.task(1, vec![Op::Run(Dist::Fixed(MS)), Op::Sleep(Dist::Fixed(400 * MS))]);
    bed.pinned(0, hog());
    let mut m = bed.machine(spec(1, 1, 4, 1));
    let task = nth(0);
    let mut at = MS / 2;
    while at == MS / 2 || m.tasks[task].state() == State::Running {
        at += 1;
        assert!(at < 2 * MS, "the task must go to sleep before 2 ms");
        m.advance(at, &mut records);
    }
    let wake = |m: &mut Machine| {
        m.enter(cpu_id(0));
        m.rqs[cpu_id(0)].set_debt(0);
        m.try_to_wake_up(task, 0);
        (m.tasks[task].state(), m.rqs[cpu_id(0)].debt())
    };
    assert!(m.tasks[task].off_cpu_at > m.now + 500);
    // CPU 1 is about to become idle. The waker puts the task on the wake list of CPU 1 without
    // calling select_task_rq(), and does not wait until CPU 1 has finished its switch.
    let (state, debt) = wake(&mut m);
    assert_eq!((state, m.tasks[task].cpu()), (State::Waking, cpu_id(1)));
    assert!(debt < 500, "the waker must not wait, but its wake-up costs {debt} ns");
}
