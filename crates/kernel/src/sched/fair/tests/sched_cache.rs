// SPDX-License-Identifier: GPL-2.0-only
//! Tests of cache-aware scheduling.

use crate::machine::Machine;
use crate::sched::fair::sched_cache::migrate::{LlcMig, can_migrate_llc};
use crate::sched::fair::state::sched_cache::LlcLoad;
use crate::testbed::*;
use machine::MachineSpec;
use trace::{Event, Record};
use workload::{Dist, Op};

/// Returns a machine with one node and two LLCs.
fn two_llcs(cores: u32, threads: u32) -> MachineSpec {
    spec(1, 2, cores, threads)
}

/// Threads of one process: two on the first of two LLCs with eight cores, one on the second.
const SPREAD: [(u32, u32); 3] = [(7, 0), (7, 1), (7, 8)];

/// Returns the LLC on which each task of the workload is at the end.
fn llcs(m: &Machine) -> Vec<u32> {
    m.tasks.iter().map(|task| m.domains.llc_index[task.cpu()]).collect()
}

/// Runs threads that compute without sleeping for 2 s. Each is given by its process and first CPU.
fn threads(machine: MachineSpec, all: &[(u32, u32)]) -> (Machine, Vec<Record>) {
    let mut bed = Bed::default();
    for &(process, cpu) in all {
        let task = bed.task(cpu, hog());
        task.process = process;
    }
    bed.run(machine, 2 * SECOND)
}

#[test]
fn threads_of_a_process_come_together() {
    let (m, records) = threads(two_llcs(8, 1), &SPREAD);
    assert_eq!(llcs(&m), [0, 0, 0]);
    assert_eq!(queued(&m).iter().max(), Some(&1), "each thread has a CPU of its own");
    let moved = records
        .iter()
        .filter(|r| matches!(r.event, Event::Migrate { .. }))
        .count();
    assert!(
        moved < 10,
        "{moved} migrations, but the threads should stay on the preferred LLC"
    );
}

#[test]
fn the_kernel_option_switches_it_off() {
    let mut machine = two_llcs(8, 1);
    machine.kernel.no_sched_cache = true;
    let (m, _) = threads(machine, &SPREAD);
    assert_eq!(llcs(&m), [0, 0, 1]);
}

#[test]
fn it_needs_several_llcs() {
    let active = |machine| Bed::default().machine(machine).sched_cache.active;
    assert!(active(spec(1, 2, 2, 1)));
    assert!(active(spec(2, 2, 2, 1)));
    assert!(!active(spec(1, 1, 4, 2)));
    assert!(
        !active(spec(1, 2, 1, 1)),
        "an LLC of one CPU has no room for several threads"
    );
    let mut nodes = spec(2, 1, 2, 1);
    assert!(!active(nodes.clone()), "NUMA balancing decides");
    nodes.kernel.no_numa_balancing = true;
    assert!(active(nodes));
}

#[test]
fn single_threaded_processes_prefer_no_llc() {
    let (m, _) = threads(two_llcs(4, 1), &[(1, 0), (2, 4), (3, 1)]);
    assert!(m.tasks.iter().all(|task| task.preferred_llc.is_none()));
}

#[test]
fn a_process_with_more_threads_than_the_llc_has_cores_spreads() {
    let all: Vec<(u32, u32)> = (0..8).map(|cpu| (7, cpu)).collect();
    let (m, _) = threads(two_llcs(4, 1), &all);
    assert_eq!(queued(&m), vec![1; 8]);
    assert!(m.tasks.iter().all(|task| task.preferred_llc.is_none()));
}

#[test]
fn the_preference_ends_when_the_process_has_slept() {
    let mut bed = Bed::default();
    for cpu in [0, 1] {
        let ops = vec![
            Op::Run(Dist::Fixed(200 * MS)),
            Op::Sleep(Dist::Fixed(SECOND)),
            // Too short for a tick, at which the kernel would choose an LLC again.
            Op::Run(Dist::Fixed(100 * US)),
            Op::Sleep(Dist::Fixed(10 * SECOND)),
        ];
        bed.task(cpu, ops).process = 7;
    }
    let mut m = bed.machine(two_llcs(4, 1));
    m.advance(190 * MS, &mut Vec::new());
    let preferred = |m: &Machine| {
        m.sched_cache.processes[m.tasks[nth(0)].cache_process as usize]
            .usage
            .cpu
    };
    assert!(preferred(&m).is_some());
    m.advance(1500 * MS, &mut Vec::new());
    assert_eq!(preferred(&m), None);
}

/// The decisions by the utilization of the two LLCs: Y moves a task because of the preference, N
/// keeps it, and G leaves the decision to the rest of load balancing. The comment above
/// can_migrate_llc() in kernel/sched/fair.c has such a table, too. Six of its cells differ from the
/// code of this function; this table is what the code does.
#[test]
fn decisions_follow_the_utilization_of_the_llcs() {
    const LOADS: [u64; 4] = [30, 40, 50, 60];
    let into = ["YYNN", "YYNN", "YYGG", "YYGG"];
    let out = ["NNNN", "NNNN", "YYGG", "YYGG"];
    let mut m = Bed::default().machine(two_llcs(4, 2));
    for (table, to_preferred) in [(into, true), (out, false)] {
        for (row, src) in table.iter().zip(LOADS) {
            let decide = |dst: u64| {
                m.sched_cache.llcs = [src, dst].map(|util| LlcLoad { util, capacity: 100 }).into();
                match can_migrate_llc(&m, cpu_id(0), cpu_id(8), 0, to_preferred) {
                    LlcMig::Llc => 'Y',
                    LlcMig::Forbid => 'N',
                    LlcMig::Unrestricted => 'G',
                }
            };
            let found: String = LOADS.map(decide).into_iter().collect();
            assert_eq!(found, *row, "source {src} %, to the preferred LLC: {to_preferred}");
        }
    }
}
