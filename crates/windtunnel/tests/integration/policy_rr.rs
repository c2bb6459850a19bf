// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the policy rr (round robin). They compare response times with the theory of round
//! robin, of first come first served (FCFS), and of processor sharing (PS).
//!
//! In the queueing system M/D/1, jobs arrive at random times (M), the service time is constant (D),
//! and there is one server. In M/M/4, service times are exponentially distributed, and there are
//! four servers.

use crate::support::policy::*;

/// Returns the mean response time of `jobs` jobs in an open system. `permille` is the load in per
/// mille. The result is in per mille of the mean work of a job.
fn mean_response(slice_ns: u64, cpus: u32, service: &str, permille: u64, jobs: u64) -> u64 {
    let work = 8 * MS;
    let gap = work * 1000 / permille / u64::from(cpus);
    let open = format!("open:arrival=M,interarrival={gap}ns,service={service},work=8ms,number={jobs}");
    let mut machine = free(cpus);
    // The policy ends timeslices with timers, so it needs no frequent ticks. They would only make
    // the test slower.
    machine.hz = 100;
    let ran = Run::new("rr")
        .set("slice_ns", slice_ns)
        .machine(machine)
        .workload(generated(&open))
        .for_ns(u64::MAX >> 8);
    let times = ran.responses("job");
    assert_eq!(times.len() as u64, jobs);
    times.iter().sum::<u64>() / jobs * 1000 / work
}

fn near(measured: u64, theory: u64, percent: u64) {
    assert!(
        measured.abs_diff(theory) <= theory * percent / 100,
        "{measured} is not within {percent} % of {theory}"
    );
}

#[test]
fn tasks_take_turns_of_one_timeslice() {
    let ran = Run::new("rr")
        .set("slice_ns", 5 * MS)
        .tasks(Tasks::default().add_many(3, "hog", &hog()))
        .for_ms(302);
    let stints = ran.stints();
    let whole = &stints[..stints.len() - 1];
    assert!(whole.len() > 50);
    for turn in whole.windows(4) {
        assert_eq!(turn[0].to - turn[0].from, 5 * MS);
        assert_eq!(turn[0].pid, turn[3].pid);
        assert!(turn[0].pid != turn[1].pid && turn[1].pid != turn[2].pid);
    }
    assert_eq!(ran.counter("nr_expired"), whole.len() as u64);
}

#[test]
fn a_timeslice_below_a_tick_needs_the_timer() {
    let hogs = || Tasks::default().add_many(2, "hog", &hog());
    let stint = |exact: u32| {
        let run = Run::new("rr").set("slice_ns", 200 * US).set("exact", exact);
        let stints = run.tasks(hogs()).for_ms(50).stints();
        stints[5].to - stints[5].from
    };
    assert_eq!((stint(1), stint(0)), (200 * US, MS));
}

#[test]
fn an_infinite_timeslice_is_first_come_first_served() {
    let tasks = (0..4_u64).fold(Tasks::default(), |tasks, i| {
        let tasks = tasks.add(&format!("job{i}"), vec![run(100 * MS)]);
        tasks.with(|task| task.start_ns = i * MS)
    });
    let ran = Run::new("rr").set("slice_ns", 0).tasks(tasks).for_ms(500);
    let order: Vec<String> = ran.stints().into_iter().map(|stint| stint.comm).collect();
    assert_eq!(order, ["job0", "job1", "job2", "job3"]);
}

#[test]
fn a_lone_task_goes_on_and_yields_at_the_end_of_its_timeslice() {
    let tasks = Tasks::default()
        .add("first", hog())
        .add("late", hog())
        .with(|task| task.start_ns = 102 * MS);
    let slice = 10 * MS + 100 * US;
    let ran = Run::new("rr").set("slice_ns", slice).tasks(tasks).for_ms(150);
    let stints = ran.stints();
    assert_eq!((stints[0].from, stints[0].to), (0, 11 * slice));
}

#[test]
fn no_cpu_idles_while_a_task_waits() {
    let nap = forever(vec![run(700 * US), sleep(300 * US)]);
    let ran = Run::new("rr")
        .set("slice_ns", MS)
        .machine(costly(4))
        .tasks(Tasks::default().add_many(12, "nap", &nap))
        .for_ms(200);
    let idle: u64 = ran.machine.rqs().iter().map(|rq| rq.time.idle_ns).sum();
    assert!(idle < 4 * MS, "{idle}");
    let waiting = ran.machine.idle_while_waiting_ns();
    assert!(waiting < 4 * MS, "{waiting}");
}

/// In theory, E[T] = S + load S / (2 (1 - load)), where T is the response time and S the service
/// time. At a load of 0.8, this is 3 S.
#[test]
fn m_d_1_first_come_first_served() {
    near(mean_response(0, 1, "D", 800, 40_000), 3000, 3);
}

/// In theory, E[T] = S / (1 - load) for any distribution of the service time. At a load of 0.6,
/// this is 2.5 S. With FCFS, it would be 1.75 S.
#[test]
fn m_d_1_processor_sharing() {
    near(mean_response(100 * US, 1, "D", 600, 15_000), 2500, 3);
    near(mean_response(0, 1, "D", 600, 15_000), 1750, 3);
}

/// In theory, E[T] = S / (1 - load) for FCFS, round robin and PS. At a load of 0.5, this is 2 S.
#[test]
fn m_m_1() {
    near(mean_response(0, 1, "M", 500, 30_000), 2000, 4);
    near(mean_response(4 * MS, 1, "M", 500, 20_000), 2000, 4);
    near(mean_response(500 * US, 1, "M", 500, 20_000), 2000, 4);
}

/// The system is M/M/4 at a load of 0.8. According to Erlang C, a job waits with a probability of
/// 0.596. Therefore E[T] = S (1 + 0.596 / (4 (1 - 0.8))) = 1.745 S.
#[test]
fn m_m_4_with_one_queue() {
    near(mean_response(0, 4, "M", 800, 40_000), 1745, 4);
}

/// If every job is shorter than a timeslice, round robin is the same as FCFS.
#[test]
fn short_jobs_never_see_the_timeslice() {
    let fcfs = mean_response(0, 1, "D", 800, 3_000);
    assert_eq!(mean_response(10 * MS, 1, "D", 800, 3_000), fcfs);
    assert!(mean_response(MS, 1, "D", 800, 3_000) > fcfs * 5 / 4);
}
