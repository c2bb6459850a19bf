// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the idle states of CPUs and of the latencies that they cause.

use crate::machine::Machine;
use crate::testbed::*;
use machine::{CpuIdle, Governor, IdleState, MachineSpec};
use trace::{Event, Record};
use workload::{Dist, Op};

/// Returns states like those of a server.
fn states() -> Vec<IdleState> {
    let state = |name: &str, exit_us: u32, residency_us: u32, polling| IdleState {
        name: name.into(),
        exit_ns: exit_us * 1000,
        residency_ns: residency_us * 1000,
        polling,
        busy: polling && exit_us == 0,
    };
    vec![
        state("POLL", 0, 0, true),
        state("C1", 2, 2, true),
        state("C6", 100, 600, false),
    ]
}

/// Returns a machine on which kernel work takes no time, except for leaving idle states.
fn idling(cpus: u32, governor: Governor) -> MachineSpec {
    let mut spec = free(spec(1, 1, cpus, 1));
    spec.cpuidle = CpuIdle {
        governor,
        states: states(),
    };
    spec
}

/// Returns the time that all CPUs spent in a state, ns.
fn time(m: &Machine, name: &str) -> u64 {
    let times = m.idle_times();
    times.iter().find(|time| time.name == name).map_or(0, |time| time.ns)
}

/// Returns the times at which a task began to run, ns.
fn starts(records: &[Record], pid: u32) -> Vec<u64> {
    let start = |record: &Record| match record.event {
        Event::Switch { next, .. } if next == pid => Some(record.local_time()),
        _ => None,
    };
    records.iter().filter_map(start).collect()
}

#[test]
fn a_long_sleep_ends_with_the_exit_latency_of_the_deep_state() {
    let mut bed = Bed::default();
    bed.pinned(0, sleeper(MS, 10 * MS));
    let (m, records) = bed.run(idling(1, Governor::Menu), 50 * MS);
    let starts = starts(&records, 1);
    // The CPU is in C1 when the task starts for the first time.
    assert_eq!(starts[0], 2 * US);
    assert_eq!(starts[1] - starts[0], 11 * MS + 100 * US);
    // Four sleeps are complete, and the last one is cut off by the end of the run.
    let asleep = 50 * MS - starts.len() as u64 * MS;
    assert!(time(&m, "C6") > asleep - 3 * MS && time(&m, "C6") <= asleep);
    assert_eq!(time(&m, "C1"), 0);
    assert_eq!(
        m.rqs[cpu_id(0)].time.overhead_ns,
        2 * US,
        "only the first start is overhead; later exit latencies are idle time"
    );
}

#[test]
fn short_sleeps_use_a_shallow_state() {
    let mut bed = Bed::default();
    bed.pinned(0, sleeper(100 * US, 50 * US));
    let (m, records) = bed.run(idling(1, Governor::Menu), 50 * MS);
    let starts = starts(&records, 1);
    let periods: Vec<u64> = starts.windows(2).map(|two| two[1] - two[0]).collect();
    // A period contains one exit of 2 us. It contains two exits if a tick occurs during the sleep,
    // and none if the CPU polls when the sleep ends.
    let expected = [150, 152, 154].map(|us| us * US);
    assert!(
        periods.iter().all(|period| expected.contains(period)),
        "unexpected periods: {periods:?}"
    );
    assert!(periods.iter().filter(|&&period| period == 152 * US).count() > 300);
    assert_eq!(time(&m, "C6"), 0);
    assert!(time(&m, "C1") > 15 * MS);
}

#[test]
fn without_a_governor_the_first_halt_state_is_used() {
    let run = |governor| {
        let mut bed = Bed::default();
        bed.pinned(0, sleeper(MS, 10 * MS));
        let (m, records) = bed.run(idling(1, governor), 50 * MS);
        let starts = starts(&records, 1);
        (starts[1] - starts[0], m.idle_times())
    };
    let (period, times) = run(Governor::Off);
    assert_eq!(period, 11 * MS + 2 * US);
    assert_eq!((times.len(), times[0].name.as_str()), (1, "C1"));
    let (period, times) = run(Governor::Poll);
    assert_eq!(period, 11 * MS, "a polling CPU needs no time to leave idle");
    assert_eq!((times.len(), times[0].name.as_str()), (1, "POLL"));
}

/// Runs a task on CPU 0 that wakes a task on CPU 1 every `pause` ns. The woken task runs for 10 us.
/// Returns the number of IPIs after the first millisecond and the wake-up latencies in ns.
fn woken_by_another_cpu(governor: Governor, pause: u64) -> (usize, Vec<u64>) {
    let mut spec = idling(2, governor);
    spec.costs.ipi_send_ns = 300;
    spec.costs.ipi_latency.llc = 700;
    spec.costs.cache_line.llc = 40;
    let mut bed = Bed::default();
    let semaphore = bed.semaphore();
    let forever = Op::LoopBack {
        counter: 0,
        times: None,
        target: 0,
    };
    let pause = Op::Run(Dist::Fixed(pause));
    bed.pinned(0, vec![pause, Op::SemPost(semaphore), forever.clone()]);
    let work = Op::Run(Dist::Fixed(10 * US));
    bed.pinned(1, vec![Op::SemWait(semaphore), work, forever]);
    let (_, records) = bed.run(spec, 50 * MS);
    let ipi = |record: &&Record| matches!(record.event, Event::Ipi { .. }) && record.time > MS;
    let ipis = records.iter().filter(ipi).count();
    let mut woken = None;
    let mut found = Vec::new();
    for record in records {
        match record.event {
            Event::Waking { pid: 2, .. } => woken = Some(record.local_time()),
            Event::Switch { next: 2, .. } => found.extend(woken.take().map(|at| record.local_time() - at)),
            _ => {}
        }
    }
    (ipis, found)
}

#[test]
fn a_cpu_that_polls_is_woken_without_an_ipi() {
    // The waker transfers the cache lines of the task, of the wake list and of the idle CPU's
    // flags. The idle CPU transfers the line of its flags and the lines of the task. Each transfer
    // takes 40 ns.
    let (ipis, latencies) = woken_by_another_cpu(Governor::Poll, 100 * US);
    assert_eq!(ipis, 0);
    assert!(
        latencies.len() > 400 && latencies.iter().all(|&ns| ns == 280),
        "{latencies:?}"
    );
    let (ipis, latencies) = woken_by_another_cpu(Governor::Off, 100 * US);
    assert_eq!(ipis, 0, "a CPU in C1, which is entered by MWAIT, polls its flags");
    assert!(latencies.iter().all(|&ns| ns == 2_280), "{latencies:?}");
    // In the state C6, the CPU does not poll its flags, so the waker sends an IPI.
    let (ipis, latencies) = woken_by_another_cpu(Governor::Menu, 5 * MS);
    // One more IPI asks CPU 1 to calculate when the idle CPUs balance next.
    assert_eq!(ipis, 10);
    let last = *latencies.last().expect("the task on CPU 1 was woken");
    assert_eq!(last, 280 - 80 + 300 + 700 + 100_000, "{latencies:?}");
}
