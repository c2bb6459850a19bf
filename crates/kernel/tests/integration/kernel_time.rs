// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the time that kernel work takes, and of the tasks that are charged for this time. Also
//! tests of the times at which ticks occur, and of lazy reschedule requests, which take effect only
//! when the task returns to user space.

use crate::policies::Run;
use crate::support::*;
use kernel::Machine;
use machine::MachineSpec;
use trace::Event;
use workload::{Dist, Op, Resource, SchedPolicy, TaskSpec};

const SECOND: u64 = 1_000 * MS;

fn run_us(us: u64) -> Op {
    Op::Run(Dist::Fixed(us * US))
}

fn sleep_us(us: u64) -> Op {
    Op::Sleep(Dist::Fixed(us * US))
}

fn on(cpu: u32) -> impl FnOnce(&mut TaskSpec) {
    move |task| task.cpus = Some(vec![cpu])
}

fn machine(spec: MachineSpec, tasks: Tasks) -> Machine {
    Machine::new(spec, tasks.workload, 1).expect("a machine")
}

/// Returns the CPU time in ns for which a task was charged.
fn charged(m: &Machine, pid: u32) -> u64 {
    m.task(pid).expect("the task exists").sum_exec_runtime()
}

/// Returns how the time of a CPU was used.
fn time(m: &Machine, cpu: u32) -> kernel::rq::CpuTime {
    m.rqs()[cpu as usize].time
}

#[test]
fn tasks_are_charged_for_all_kernel_work_on_their_cpu() {
    let mut spec = free(1);
    spec.costs.schedule_ns = 50_000;
    spec.costs.tick_ns = 20_000;
    let tasks = Tasks::default().add_many(2, "hog", &forever(vec![run_us(70)]));
    let mut m = machine(spec, tasks);
    m.run(SECOND, &mut Vec::new());
    let time = time(&m, 0);
    assert!(time.overhead_ns > 50 * MS, "{time:?}");
    assert_eq!(time.tasks_ns + time.overhead_ns + time.idle_ns, SECOND);
    let sum = charged(&m, 1) + charged(&m, 2);
    // At the end of the run, a task may be charged for kernel work whose end is still in the
    // future.
    assert!(sum.abs_diff(SECOND) <= 50 * US, "{sum}");
}

/// Runs a hog, and a task that wakes another task again and again, on one CPU. Returns the CPU time
/// for which each of the two was charged. A wake-up takes 200 us. The waker's half takes as much
/// time as the waker's work before the wake-up. The CPU of the woken task pays the other half.
fn hog_and_waker() -> (u64, u64) {
    let mut spec = free(2);
    spec.costs.wakeup_ns = 200_000;
    let tasks = Tasks::default()
        .resources(vec![Resource::Semaphore {
            name: "sem".into(),
            value: 0,
        }])
        .add("hog", forever(vec![run_us(100)]))
        .with(on(0))
        .add("waker", forever(vec![run_us(100), Op::SemPost(0)]))
        .with(on(0))
        .add("sleeper", forever(vec![Op::SemWait(0)]))
        .with(on(1));
    let mut m = machine(spec, tasks);
    m.run(SECOND, &mut Vec::new());
    assert!(time(&m, 0).overhead_ns > 150 * MS);
    (charged(&m, 1), charged(&m, 2))
}

#[test]
fn the_fair_share_of_a_task_includes_its_wake_ups() {
    let (hog, waker) = hog_and_waker();
    assert!(hog.abs_diff(SECOND / 2) < 10 * MS, "{hog} {waker}");
    assert!(waker.abs_diff(SECOND / 2) < 10 * MS, "{hog} {waker}");
}

/// Returns the length in ms of the longest turn of a task (the time from a switch to the task until
/// the switch away from it). The slices of the policy have 20 ms. Each tick takes 0.3 ms, which is
/// 30 % of all time.
fn longest_turn(irq_time_accounting: bool) -> u64 {
    let mut spec = free(1);
    spec.costs.tick_ns = 300_000;
    spec.kernel.irq_time_accounting = irq_time_accounting;
    let tasks = Tasks::default().add_many(2, "hog", &forever(vec![run_ms(1)]));
    let mut run = Run::new(machine(spec, tasks), "minimal", &[]);
    run.run(500 * MS);
    run.assert_alive();
    let stops = stops(&run.records, 1);
    let turns = starts(&run.records, 1)
        .into_iter()
        .zip(stops)
        .map(|(start, (stop, _))| stop - start);
    turns.max().expect("the task runs")
}

#[test]
fn a_slice_includes_interrupts_unless_their_time_is_accounted_separately() {
    assert_eq!(longest_turn(false), 21);
    assert!((28..=30).contains(&longest_turn(true)), "{}", longest_turn(true));
}

#[test]
fn a_slice_includes_the_callbacks_of_the_policy() {
    let turns = |callback_ns| {
        let mut spec = free(1);
        spec.costs.callback_ns = callback_ns;
        let tasks = Tasks::default().add_many(2, "hog", &forever(vec![run_ms(1)]));
        let mut run = Run::new(machine(spec, tasks), "count", &[]);
        run.run(SECOND);
        run.assert_alive();
        (starts(&run.records, 1).len(), time(&run.machine, 0).tasks_ns)
    };
    let ((cheap, _), (costly, useful)) = (turns(0), turns(100_000));
    assert!(useful < 990 * MS, "{useful}");
    assert!(cheap.abs_diff(costly) <= 2, "{cheap} {costly}");
}

/// Returns the overhead of CPU 0 in ns. A timer wakes a task on this CPU 100 times.
fn timer_overhead(timer_irq_ns: u32) -> u64 {
    let mut spec = free(1);
    spec.costs.timer_irq_ns = timer_irq_ns;
    let tasks = Tasks::default()
        .add("sleeper", forever(vec![run_us(1), sleep_us(9_999)]))
        .add("hog", forever(vec![run_ms(1)]));
    let mut m = machine(spec, tasks);
    m.run(SECOND - 1, &mut Vec::new());
    time(&m, 0).overhead_ns
}

#[test]
fn a_wake_up_by_a_timer_costs_an_interrupt() {
    assert_eq!(timer_overhead(0), 0);
    // The high-resolution tick that ends a slice also costs an interrupt, so there may be more than
    // the 100 interrupts of the timer.
    let ns = timer_overhead(10_000);
    assert!((99 * 10 * US..2 * SECOND / 100).contains(&ns), "{ns}");
}

/// Returns the overhead of a CPU in ns. A task runs on it and then sleeps, five times. Context
/// switches take 1 us and schedule() takes 10 ns, if no other costs are given.
fn idle_overhead(to_idle_ns: u32, from_idle_ns: u32, schedule_idle_ns: u32) -> u64 {
    let mut spec = free(1);
    spec.costs.context_switch_ns = 1_000;
    spec.costs.schedule_ns = 10;
    spec.costs.schedule_idle_ns = schedule_idle_ns;
    spec.costs.switch_to_idle_ns = to_idle_ns;
    spec.costs.switch_from_idle_ns = from_idle_ns;
    let tasks = Tasks::default().add("sleeper", forever(vec![run_ms(1), sleep_ms(1)]));
    let mut m = machine(spec, tasks);
    m.run(9 * MS + 500 * US, &mut Vec::new());
    time(&m, 0).overhead_ns
}

#[test]
fn schedule_and_switches_have_other_costs_on_an_idle_cpu() {
    assert_eq!(idle_overhead(0, 0, 0), 5 * (1_010 + 1_010));
    assert_eq!(idle_overhead(300, 20, 0), 5 * (310 + 30));
    assert_eq!(idle_overhead(300, 0, 0), 5 * (310 + 1_010));
    assert_eq!(idle_overhead(0, 0, 4), 5 * (1_010 + 1_004));
}

#[test]
fn a_switch_can_be_recorded_at_the_time_of_the_tracepoint() {
    let latency = |before| {
        let mut spec = free(1);
        spec.kernel.trace_before_switch = before;
        spec.costs.schedule_ns = 70;
        spec.costs.context_switch_ns = 1_000;
        let tasks = Tasks::default().add("sleeper", vec![run_ms(1), sleep_ms(1), run_ms(1)]);
        let mut records = Vec::new();
        machine(spec, tasks).run(10 * MS, &mut records);
        let local = |record: &trace::Record| record.time + u64::from(record.after);
        let woken = records.iter().rfind(|r| matches!(r.event, Event::Waking { .. }));
        let runs = records
            .iter()
            .rfind(|r| matches!(r.event, Event::Switch { next: 1, .. }));
        local(runs.expect("a switch")) - local(woken.expect("a wake-up"))
    };
    assert_eq!((latency(false), latency(true)), (1_070, 70));
}

#[test]
fn a_busy_cpu_pays_for_the_ipis_that_it_receives() {
    let overhead = |ipi_receive_ns| {
        let mut spec = free(2);
        spec.kernel.preempt_full = true;
        spec.costs.ipi_receive_ns = ipi_receive_ns;
        let mut m = machine(spec, remote_waker());
        let mut records = Vec::new();
        m.run(SECOND, &mut records);
        let to = |r: &&trace::Record| matches!(r.event, Event::Ipi { target: 0 });
        (time(&m, 0).overhead_ns, records.iter().filter(to).count() as u64)
    };
    assert_eq!(overhead(0).0, 0);
    let (ns, ipis) = overhead(10_000);
    assert!(ipis > 200, "{ipis}");
    assert_eq!(ns, ipis * 10_000);
}

#[test]
fn a_kick_costs_an_interrupt_on_both_cpus() {
    let overhead = |ipi_receive_ns| {
        let mut spec = free(2);
        spec.costs.ipi_receive_ns = ipi_receive_ns;
        let tasks = Tasks::default()
            .add("hog", forever(vec![run_ms(1)]))
            .with(on(0))
            .add("waker", forever(vec![run_us(500), sleep_us(3_200)]))
            .with(on(0));
        let mut run = Run::new(machine(spec, tasks), "kick", &["PREEMPT"]);
        run.run(SECOND);
        run.assert_alive();
        let kicks = run.machine.ext().kicks.clone();
        (
            time(&run.machine, 0).overhead_ns,
            starts(&run.records, 2).len() as u64,
            kicks,
        )
    };
    assert_eq!(overhead(0).0, 0);
    let (ns, wakeups, kicks) = overhead(10_000);
    assert!(wakeups > 200 && ns >= wakeups * 10_000, "{ns} {wakeups}");
    // Each kick is for the kicking CPU itself, so no other CPU is interrupted. All of them preempt
    // the hog.
    let by: Vec<_> = kicks.by_callback().collect();
    let [(Some("enqueue"), enqueue)] = by[..] else {
        panic!("{by:?}");
    };
    assert!(enqueue.calls >= wakeups, "{enqueue:?}");
    assert!(
        enqueue.switches * 10 >= wakeups * 9 && enqueue.reschedules >= enqueue.switches,
        "{enqueue:?}"
    );
    assert_eq!((kicks.ns, kicks.ipis), (enqueue.calls * 10_000, 0));
}

/// Returns a SCHED_IDLE hog on CPU 0, a task on the same CPU, and a task on CPU 1 that wakes it.
fn remote_waker() -> Tasks {
    Tasks::default()
        .resources(vec![Resource::Semaphore {
            name: "sem".into(),
            value: 0,
        }])
        .add("hog", forever(vec![run_us(50)]))
        .with(|task| (task.policy, task.cpus) = (SchedPolicy::Idle, Some(vec![0])))
        .add("sleeper", forever(vec![Op::SemWait(0), run_us(400)]))
        .with(on(0))
        .add("waker", forever(vec![sleep_us(3_250), run_us(50), Op::SemPost(0)]))
        .with(on(1))
}

#[test]
fn a_lazy_request_of_another_cpu_takes_effect_at_the_ipi_for_the_hrtick() {
    for preempt_full in [false, true] {
        let mut spec = free(2);
        spec.kernel.preempt_full = preempt_full;
        let mut m = machine(spec, remote_waker());
        let mut records = Vec::new();
        m.run(200 * MS, &mut records);
        let waits = waits(&records, 2);
        assert!(waits.len() > 40, "{waits:?}");
        let slow = waits.iter().filter(|&&ns| ns > 0).count();
        // The request itself sends no IPI. The waker sends one that starts the high-resolution
        // tick, because a second task is now queued, and that interrupts the hog in user space.
        assert_eq!(slow, 0);
    }
}

#[test]
fn a_wake_up_by_an_interrupt_preempts_user_space_at_once() {
    let tasks = Tasks::default()
        .add("hog", forever(vec![run_us(50)]))
        .with(|task| task.policy = SchedPolicy::Idle)
        .add("sleeper", forever(vec![run_us(100), sleep_us(3_330)]));
    let mut m = machine(free(1), tasks);
    let mut records = Vec::new();
    m.run(200 * MS, &mut records);
    let waits = waits(&records, 2);
    // EEVDF may decide that the sleeper is not eligible when it wakes up, so a few wake-ups wait.
    let late = waits.iter().filter(|&&ns| ns > 0).count();
    assert!(waits.len() > 50 && late <= 3, "{waits:?}");
}

#[test]
fn a_lazy_request_changes_the_schedule() {
    let drawing = |preempt_full| {
        let mut spec = free(2);
        spec.kernel.preempt_full = preempt_full;
        draw(spec, remote_waker(), 12 * MS, 200 * US).0
    };
    golden::check!("preempt_lazy.txt", &drawing(false));
    golden::check!("preempt_full.txt", &drawing(true));
}

/// Returns the ticks in the order in which the CPUs handle them: for each, its time and the CPU.
fn ticks(skew_tick: bool) -> Vec<(u64, u32)> {
    let mut spec = free(4);
    spec.costs.tick_ns = 1_000;
    spec.kernel.skew_tick = skew_tick;
    // The tasks start in descending order of their CPUs.
    let tasks = [3, 2, 1, 0].into_iter().fold(Tasks::default(), |tasks, cpu| {
        let start_ns = u64::from(4 - cpu) * 10 * US;
        tasks.add("hog", forever(vec![run_ms(1)])).with(|task| {
            (task.cpus, task.start_ns) = (Some(vec![cpu]), start_ns);
        })
    });
    let mut m = machine(spec, tasks);
    let mut records = Vec::new();
    m.run(8 * MS + 900 * US, &mut records);
    let ticks = records.iter().filter(|r| matches!(r.event, Event::Overhead { .. }));
    ticks
        .filter(|r| r.time > 8 * MS - 1 && r.time % MS < 900 * US)
        .map(|r| (r.time % MS, r.cpu))
        .collect()
}

#[test]
fn ticks_coincide_in_the_order_of_the_cpus_unless_they_are_skewed() {
    assert_eq!(ticks(false), [(0, 0), (0, 1), (0, 2), (0, 3)]);
    let skewed = [(0, 0), (125 * US, 1), (250 * US, 2), (375 * US, 3)];
    assert_eq!(ticks(true), skewed);
}
