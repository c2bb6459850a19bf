// SPDX-License-Identifier: GPL-2.0-only
//! Tests of CPUs whose tick stops while they run a single task (NO_HZ_FULL). Ticks have a cost of 1
//! us, so the overhead of a CPU shows how many ticks it had.

use crate::policies::Run;
use crate::support::*;
use kernel::Machine;
use machine::MachineSpec;
use trace::{Event, Record};
use workload::{Dist, Op, SchedPolicy};

const SECOND: u64 = 1_000 * MS;

/// Returns a machine with 4 CPUs, of which 1 to 3 have no tick. The tick period is 1 ms.
fn spec() -> MachineSpec {
    let mut spec = free(4);
    spec.hz = 1000;
    spec.costs.tick_ns = US as u32;
    spec.nohz_full = vec![1, 2, 3];
    spec
}

fn on(tasks: Tasks, cpu: u32) -> Tasks {
    tasks.with(|task| task.cpus = Some(vec![cpu]))
}

/// Runs tasks with the fair class. Returns the machine and the trace records.
fn run_fair(spec: MachineSpec, tasks: Tasks, until: u64) -> (Machine, Vec<Record>) {
    let mut machine = Machine::new(spec, tasks.workload, 1).expect("a machine");
    let mut records = Vec::new();
    machine.run(until, &mut records);
    (machine, records)
}

/// Returns the number of ticks that CPUs 0 and 1 had.
fn ticks(machine: &Machine) -> (u64, u64) {
    (
        machine.rqs()[0].time.overhead_ns / US,
        machine.rqs()[1].time.overhead_ns / US,
    )
}

#[test]
fn the_tick_of_a_cpu_with_one_fair_task_stops() {
    let one = |cpu| on(Tasks::default().add("hog", vec![run_ms(500)]), cpu);
    // The tick was stopped while the CPU was idle, and the task needs none.
    assert_eq!(ticks(&run_fair(spec(), one(1), 100 * MS + MS / 2).0).1, 0);
    // A housekeeping CPU keeps its tick.
    assert_eq!(ticks(&run_fair(spec(), one(0), 100 * MS + MS / 2).0).0, 100);
    let mut without = spec();
    without.nohz_full.clear();
    assert_eq!(ticks(&run_fair(without, one(1), 100 * MS + MS / 2).0).1, 100);
}

#[test]
fn a_second_task_starts_the_tick_again() {
    let two = on(Tasks::default().add("hog", vec![run_ms(500)]), 1).add("late", vec![run_ms(10)]);
    let two = on(two, 1).with(|task| task.start_ns = 50 * MS + US);
    let (machine, records) = run_fair(spec(), two, 150 * MS);
    // The second task runs for 10 ms. During 20 ms, the two tasks divide the CPU.
    let (_, nr) = ticks(&machine);
    assert!((15..30).contains(&nr), "{nr} ticks");
    let switches = records
        .iter()
        .filter(|r| r.cpu == 1 && matches!(r.event, Event::Switch { .. }));
    assert!(switches.count() > 5, "the tasks did not divide the CPU");
}

#[test]
fn realtime_tasks_need_a_tick_only_to_divide_time_among_themselves() {
    let pair = |policy: SchedPolicy| {
        let tasks = Tasks::default().add("a", vec![run_ms(500)]).with(|task| {
            task.policy = policy;
            task.cpus = Some(vec![1]);
        });
        let tasks = tasks.add("b", vec![run_ms(500)]).with(|task| {
            task.policy = policy;
            task.cpus = Some(vec![1]);
        });
        ticks(&run_fair(spec(), tasks, 100 * MS).0).1
    };
    assert!(pair(SchedPolicy::Fifo { rt_priority: 1 }) <= 2);
    assert!(pair(SchedPolicy::RoundRobin { rt_priority: 1 }) >= 99);
}

#[test]
fn a_housekeeping_cpu_handles_one_tick_per_second() {
    let tasks = on(Tasks::default().add("hog", vec![run_ms(5000)]), 1);
    let (machine, _) = run_fair(spec(), tasks, 3500 * MS);
    // CPU 0 is idle, so all of its ticks are those for CPU 1, at 1, 2 and 3 s.
    assert_eq!(ticks(&machine), (3, 0));
}

#[test]
fn housekeeping_cpus_handle_the_timers_of_other_cpus() {
    let sleeper = vec![
        Op::Run(Dist::Fixed(100 * US)),
        Op::Sleep(Dist::Fixed(MS)),
        Op::Run(Dist::Fixed(US)),
    ];
    let waking = |cpu: u32| {
        let (_, records) = run_fair(
            spec(),
            on(Tasks::default().add("sleeper", sleeper.clone()), cpu),
            SECOND,
        );
        let waking = records.iter().find(|r| matches!(r.event, Event::Waking { .. }));
        waking.expect("the task wakes up").cpu
    };
    assert_eq!((waking(0), waking(1), waking(3)), (0, 0, 0));
}

/// Runs a workload with the policy `tickless`. Returns the number of ticks of tasks with an
/// infinite slice and of other tasks.
fn tickless(spec: MachineSpec, tasks: Tasks, until: u64) -> (u64, u64, Run) {
    let mut run = Run::new(
        Machine::new(spec, tasks.workload, 1).expect("a machine"),
        "tickless",
        &[],
    );
    run.run(until);
    run.assert_alive();
    (run.var("infinite_ticks"), run.var("finite_ticks"), run)
}

#[test]
fn the_tick_of_a_task_with_an_infinite_slice_stops() {
    let one = |name| on(Tasks::default().add(name, vec![run_ms(5000)]), 1);
    let (infinite, finite, run) = tickless(spec(), one("infinite"), 2500 * MS);
    // CPU 0 handles the ticks at 1 and 2 s.
    assert_eq!((infinite, finite), (2, 0));
    assert_eq!(run.var("last_tick_cpu"), 0);
    let (infinite, finite, run) = tickless(spec(), one("finite"), 100 * MS);
    assert_eq!((infinite, finite), (0, 100));
    assert_eq!(run.var("last_tick_cpu"), 1);
    // A CPU that is not in nohz_full keeps its tick, whatever the slice is.
    let tasks = on(Tasks::default().add("infinite", vec![run_ms(5000)]), 0);
    assert_eq!(tickless(spec(), tasks, 100 * MS).0, 100);
}

/// A task with a finite slice follows a task with an infinite slice and an idle time. Its ticks must
/// start again.
#[test]
fn a_finite_slice_after_an_infinite_one_and_idle_time_has_ticks() {
    let tasks = on(Tasks::default().add("infinite", vec![run_ms(100)]), 1);
    let tasks = on(tasks.add("finite", vec![run_ms(50)]), 1).with(|task| task.start_ns = 150 * MS);
    let (infinite, finite, _) = tickless(spec(), tasks, 300 * MS);
    assert!(infinite <= 1, "{infinite} ticks with an infinite slice");
    assert!((48..=51).contains(&finite), "{finite} ticks with a finite slice");
}

/// A task with an infinite slice runs when a task with a finite slice is queued behind it, and the
/// other way round.
#[test]
fn a_finite_slice_ends_although_the_tick_was_stopped_before() {
    let tasks = on(Tasks::default().add("infinite", vec![run_ms(100)]), 1);
    let tasks = on(tasks.add("finite", vec![run_ms(50)]), 1).with(|task| task.start_ns = 10 * MS);
    let tasks = on(tasks.add("other", vec![run_ms(50)]), 1).with(|task| task.start_ns = 10 * MS);
    let (infinite, finite, run) = tickless(spec(), tasks, 300 * MS);
    assert!(
        infinite <= 1 && (95..=102).contains(&finite),
        "{infinite} and {finite} ticks"
    );
    let switches = run
        .records
        .iter()
        .filter(|r| r.cpu == 1 && matches!(r.event, Event::Switch { .. }));
    assert!(switches.count() >= 6, "the finite slices of 20 ms have ended");
}
