// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the times in trace records, which are local times of CPUs. The local time of a CPU is
//! ahead of the time of the current event by the cost of the kernel work that the CPU has done
//! since the event began. A wake-up latency therefore includes the work of the handlers between the
//! wake-up and the switch to the task.

use crate::support::*;
use kernel::Machine;
use machine::MachineSpec;
use trace::Record;

fn run_on(spec: MachineSpec, tasks: Tasks) -> Vec<Record> {
    let mut records = Vec::new();
    let mut machine = Machine::new(spec, tasks.workload, 1).expect("a machine");
    machine.run(100 * MS, &mut records);
    records
}

fn one_sleeper() -> Tasks {
    Tasks::default().add("a", vec![run_ms(1), sleep_ms(2), run_ms(1), sleep_ms(3), run_ms(1)])
}

#[test]
fn a_timer_wakeup_takes_at_least_schedule_and_context_switch() {
    let spec = costly(1);
    let least = u64::from(spec.costs.schedule_ns) + u64::from(spec.costs.context_switch_ns);
    let found = waits(&run_on(spec, one_sleeper()), 1);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|&ns| ns >= least), "{found:?}, at least {least} ns");
}

#[test]
fn a_slower_schedule_makes_the_latency_longer_by_the_same_time() {
    let latency = |schedule_ns| {
        let mut spec = costly(1);
        spec.costs.schedule_ns = schedule_ns;
        waits(&run_on(spec, one_sleeper()), 1)[0]
    };
    assert_eq!(latency(5_000) - latency(1_000), 4_000);
}

#[test]
fn without_costs_local_time_is_the_time_of_the_event() {
    let records = run_on(free(2), one_sleeper());
    assert!(records.iter().all(|record| record.after == 0));
}

#[test]
fn local_times_are_ordered_on_each_cpu() {
    for (spec, seed) in [(costly(4), 1), (MachineSpec::regular(2, 2, 2, 2), 2), (costly(1), 3)] {
        let cpus = spec.topology.nr_cpus();
        let workload = workload::generator::generate("hackbench:groups=1,loops=20").expect("a workload");
        let mut records = Vec::new();
        let mut machine = Machine::new(spec, workload, seed).expect("a machine");
        machine.run(20 * MS, &mut records);
        let mut last = vec![0; cpus as usize];
        for record in &records {
            let last = &mut last[record.cpu as usize];
            assert!(record.local_time() >= *last, "{record:?} after {last}");
            *last = record.local_time();
        }
        assert!(records.iter().any(|record| record.after > 0));
    }
}
