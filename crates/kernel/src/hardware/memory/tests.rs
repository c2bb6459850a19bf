// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the slowdown by caches and memory. The kernel's work takes no time, so times are exact.

use super::*;
use crate::hardware::memory::state::Memory;
use crate::simulation::rng::Rng;
use crate::testbed::*;
use machine::MachineSpec;
use trace::{Event, Record};
use workload::{Dist, Op};

const MIB: u64 = 1 << 20;

fn work(ns: u64) -> Op {
    Op::Run(Dist::Fixed(ns))
}

/// Returns a machine whose tasks touch 2000 MB/s of their working sets. Private caches have 1 MiB
/// and LLCs 32 MiB. A byte takes 40 ps from the LLC, 100 ps from memory and 200 ps from another
/// node.
fn memory_spec(nodes: u32, llcs: u32, cores: u32) -> MachineSpec {
    let mut spec = free(spec(nodes, llcs, cores, 1));
    spec.costs.reload_llc_ps = 40;
    spec.costs.reload_memory_ps = 100;
    spec.costs.reload_remote_ps = 200;
    spec.costs.touch_mbps = 2000;
    spec
}

/// Runs one task on each of the CPUs 0, 1, ... with these footprints (sizes of working sets) and
/// rates. Each task has 10 ms of work. Returns the times at which the tasks exit.
fn side_by_side(spec: MachineSpec, tasks: &[(u64, Option<u32>)]) -> Vec<u64> {
    let mut bed = Bed::default();
    for (cpu, &(footprint, touch)) in (0..).zip(tasks) {
        let task = bed.pinned(cpu, vec![work(10 * MS)]);
        (task.footprint_bytes, task.touch_mbps) = (footprint, touch);
    }
    let (_, records) = bed.run(spec, SECOND);
    exits(&records, tasks.len() as u32)
}

#[test]
fn a_task_on_the_wrong_node_is_slower_for_as_long_as_it_stays_there() {
    let mut bed = Bed::default();
    let away = Op::SetAffinity(Some(vec![2]));
    let back = Op::SetAffinity(Some(vec![0]));
    let ops = vec![work(10 * MS), away, work(900 * MS), back, work(10 * MS)];
    bed.pinned(0, ops).footprint_bytes = 64 * MIB;
    let mut spec = memory_spec(2, 1, 2);
    spec.kernel.no_numa_balancing = true;
    let mut m = bed.machine(spec);
    let mut records = Vec::new();
    m.advance(5 * MS, &mut records);
    assert_eq!(m.rqs[0].speed, 1024, "the memory is on the node of the CPU");
    // Half of the footprint is in the LLC. The other half is loaded at 1000 bytes per us, which
    // takes 100 ps longer per byte than from the node of the CPU. The work therefore takes 1.1
    // times as long.
    for at in [20, 100, 500, 900] {
        m.advance(at * MS, &mut records);
        assert_eq!(m.rqs[2].speed, 931, "at {at} ms");
    }
    m.run(2 * SECOND, &mut records);
    let reloads = m.reload_ns();
    assert_eq!(m.nr_alive, 0);
    let end = exits(&records, 1)[0] - reloads;
    assert_eq!(end, 20 * MS + (900 * MS * 1024).div_ceil(931));
    assert_eq!(
        m.rqs[2].time.tasks_ns + m.rqs[0].time.tasks_ns,
        end + reloads,
        "CPU time is elapsed time"
    );
}

#[test]
fn streaming_tasks_share_the_bandwidth_of_their_node() {
    let streams = (1024 * MIB, Some(1_000_000));
    let mut spec = memory_spec(1, 3, 1);
    spec.costs.node_bandwidth_mbps = 10_000;
    assert_eq!(side_by_side(spec.clone(), &[streams]), [10 * MS]);
    let two = side_by_side(spec.clone(), &[streams, streams]);
    assert!(two.iter().all(|end| (19_500_000..20_000_000).contains(end)), "{two:?}");
    let three = side_by_side(spec.clone(), &[streams; 3]);
    assert!(
        three.iter().all(|end| (29_000_000..30_000_000).contains(end)),
        "{three:?}"
    );
    // A task that seldom loads from memory waits for each byte as long as the other tasks. It loads
    // fewer bytes, so it is slowed less.
    let seldom = (1024 * MIB, Some(500));
    let mixed = side_by_side(spec.clone(), &[streams, streams, seldom]);
    assert!((10_400_000..11_200_000).contains(&mixed[2]), "{mixed:?}");
    spec.costs.node_bandwidth_mbps = 30_000;
    assert_eq!(side_by_side(spec.clone(), &[streams; 3]), [10 * MS; 3]);
    // Each node has its own bandwidth. Flat memory has the bandwidth of all nodes together.
    let mut spec = memory_spec(2, 1, 1);
    spec.costs.node_bandwidth_mbps = 10_000;
    assert_eq!(side_by_side(spec.clone(), &[streams; 2]), [10 * MS; 2]);
    spec.costs.flat_memory = true;
    assert_eq!(side_by_side(spec, &[streams; 2]), [10 * MS; 2]);
}

#[test]
fn tasks_slow_each_other_only_if_their_footprints_exceed_the_llc() {
    let plain = |mib: u64| (mib * MIB, None);
    let spec = || memory_spec(1, 1, 4);
    assert_eq!(side_by_side(spec(), &[plain(8); 4]), [10 * MS; 4]);
    // The LLC of 32 MiB holds 8 of the 16 MiB of each of the four tasks. Half of the bytes that it touches come from memory, which
    // takes 60 ps longer per byte than the LLC.
    let slowed = 10 * MS * 1024 / slowed(1024, 60_000);
    let ends = side_by_side(spec(), &[plain(16); 4]);
    assert!(ends.iter().all(|end| end.abs_diff(slowed) < 10), "{ends:?} {slowed}");
    // A small working set stays in the cache beside a large one.
    let ends = side_by_side(spec(), &[plain(8), plain(64)]);
    assert_eq!(ends[0], 10 * MS);
    assert!(ends[1] > 10 * MS);
    // Footprints in the private caches need no LLC.
    assert_eq!(
        side_by_side(spec(), &[plain(1), plain(1), plain(1), plain(32)]),
        [10 * MS; 4]
    );
}

#[test]
fn an_lru_cache_keeps_what_is_used_most_often() {
    assert_eq!(divide(100, &[(30, 1), (70, 1)]), [30, 70]);
    assert_eq!(divide(100, &[(1000, 1), (1000, 1)]), [50, 50]);
    assert_eq!(divide(100, &[(1000, 3), (1000, 1)]), [75, 25]);
    assert_eq!(divide(100, &[(1000, 1), (10, 1), (1000, 1)]), [45, 10, 45]);
    assert_eq!(divide(0, &[(10, 1)]), [0]);
    assert!(divide(100, &[]).is_empty());
}

#[test]
fn a_machine_without_a_rate_or_a_workload_without_footprints_has_no_slowdown() {
    let mut spec = memory_spec(2, 1, 1);
    spec.costs.touch_mbps = 0;
    let mut bed = Bed::default();
    bed.pinned(0, hog()).footprint_bytes = 64 * MIB;
    assert!(!bed.machine(spec).memory.active());
    let mut bed = Bed::default();
    bed.pinned(0, hog());
    assert!(!bed.machine(memory_spec(2, 1, 1)).memory.active());
}

/// A task of a random case: its number of steps and its work in ns.
struct Known {
    work: u64,
    steps: u64,
}

/// Returns a random machine with random tasks, some of which have footprints. All start at time 0.
fn random_case(seed: u64) -> (Machine, Vec<Known>) {
    let mut rng = Rng::new(seed);
    let below = |rng: &mut Rng, n: u64| rng.below(n) as u32;
    let shape: Vec<u32> = (0..4).map(|_| 1 + below(&mut rng, 2)).collect();
    let mut spec = free(spec(shape[0], shape[1], shape[2], shape[3]));
    if shape[3] == 2 {
        spec.smt_throughput = vec![1024, 500 + below(&mut rng, 500)];
    }
    spec.costs.reload_llc_ps = below(&mut rng, 100);
    spec.costs.reload_memory_ps = 50 + below(&mut rng, 200);
    spec.costs.reload_remote_ps = 50 + below(&mut rng, 500);
    spec.costs.touch_mbps = below(&mut rng, 5000);
    spec.costs.node_bandwidth_mbps = [0, 1000, 20_000][rng.below(3) as usize];
    spec.costs.flat_memory = rng.below(4) == 0;
    let nr_cpus = spec.topology.nr_cpus();
    let (mut bed, mut known) = (Bed::default(), Vec::new());
    for _ in 0..1 + rng.below(3 * u64::from(nr_cpus)) {
        let (mut ops, mut all) = (Vec::new(), 0);
        let steps = 1 + rng.below(8);
        for _ in 0..steps {
            let ns = 1 + rng.below(2 * MS);
            all += ns;
            ops.push(work(ns));
            match rng.below(4) {
                0 => ops.push(Op::Sleep(Dist::Fixed(1 + rng.below(MS)))),
                1 => ops.push(Op::SetAffinity(Some(vec![below(&mut rng, nr_cpus.into())]))),
                _ => {}
            }
        }
        let task = bed.pinned(below(&mut rng, nr_cpus.into()), ops);
        task.footprint_bytes = rng.below(4) * rng.below(100 * MIB);
        task.touch_mbps = (rng.below(3) == 0).then(|| below(&mut rng, 50_000));
        known.push(Known { work: all, steps });
    }
    (bed.machine(spec), known)
}

/// Calculates the use of caches and memory from the beginning, CPU by CPU in descending order.
/// Returns the slowdown of each CPU.
fn calculated_again(m: &mut Machine) -> Vec<u64> {
    let mut again = Memory::new(&m.spec, &m.workload);
    std::mem::swap(&mut again, &mut m.memory);
    for cpu in m.cpus().rev() {
        m.update_memory(cpu);
    }
    std::mem::swap(&mut again, &mut m.memory);
    again.uses.iter().map(|used| used.extra_ps).collect()
}

/// Runs a random case. Between two switches, no speed changes, so the work that a task does is the
/// product of the speed and the time that reloads leave for work.
#[test]
fn work_is_the_integral_of_speed_over_time() {
    let mut slow = 0;
    for seed in 0..150 {
        let (mut m, known) = random_case(seed);
        let mut records: Vec<Record> = Vec::new();
        m.run(60 * SECOND, &mut records);
        assert_eq!(m.nr_alive, 0, "seed {seed}: some tasks have not exited");
        let mut times: Vec<u64> = records.iter().map(|record| record.time).collect();
        times.dedup();
        let (mut m, _) = random_case(seed);
        let mut done = vec![0; known.len()];
        let mut running: Vec<(CpuId, usize, u64)> = Vec::new();
        let (mut since, mut ignored) = (0, Vec::new());
        for at in times {
            for &(cpu, task, passed) in &running {
                let program = &m.tasks[m.rqs[cpu].curr].program;
                let ns = program.work_in(at - since + passed) - program.work_in(passed);
                done[task] += ns * m.rqs[cpu].speed;
            }
            m.advance(at, &mut ignored);
            running.clear();
            for cpu in m.cpus() {
                let rq = &m.rqs[cpu];
                if rq.curr != IDLE {
                    let task = &m.tasks[rq.curr];
                    // Accounting here could change the schedule.
                    let not_accounted = at - rq.clock - rq.progressed;
                    running.push((cpu, task.pid() as usize - 1, not_accounted));
                    slow += u64::from(m.extra_ps(cpu) > 0);
                }
            }
            m.verify_speeds();
            m.verify_memory();
            since = at;
        }
        for (number, (task, done)) in known.iter().zip(done).enumerate() {
            let all = task.work * 1024;
            // If a step ends within a nanosecond and a sleep follows, the rest of the nanosecond is
            // lost.
            assert!(
                (all..=all + task.steps * 1024).contains(&done),
                "seed {seed}: task {number} has {all} units of work in {} steps, but did {done} units",
                task.steps
            );
        }
    }
    assert!(slow > 1000, "tasks were slow at only {slow} times");
}

/// Returns the work in ms that two tasks with large footprints do in 300 ms on one CPU, at a rate
/// of `touch` MB/s. The reload of an LLC takes longer than a slice.
fn alternating(touch: u32) -> u64 {
    let mut bed = Bed::default();
    let round = Op::LoopBack {
        counter: 0,
        times: None,
        target: 0,
    };
    for _ in 0..2 {
        let task = bed.pinned(
            0,
            vec![
                Op::Begin { arrival: false },
                work(MS),
                Op::Done { count: 1 },
                round.clone(),
            ],
        );
        (task.footprint_bytes, task.touch_mbps) = (200 * MIB, Some(touch));
    }
    let (_, records) = bed.run(memory_spec(1, 1, 1), 300 * MS);
    let done = records.iter().filter(|r| matches!(r.event, Event::Done { .. }));
    done.count() as u64
}

#[test]
fn tasks_make_progress_while_they_reload() {
    // After a switch, a us of work loads 2000 bytes. They take 100 ps each, 0.2 us together, so the
    // task works 1 / 1.2 of the time.
    let done = alternating(2000);
    assert!((245..275).contains(&done), "{done} ms of work in 300 ms");
    // The wait of a streaming task is limited to 1 us per us of work, so it works half of the time.
    let done = alternating(1_000_000);
    assert!((140..165).contains(&done), "{done} ms of work in 300 ms");
}

#[test]
fn the_slowdown_does_not_depend_on_the_past() {
    for seed in 0..150 {
        let (mut m, _) = random_case(seed);
        for at in [MS, 2 * MS, 5 * MS, 9 * MS] {
            m.advance(at, &mut Vec::new());
            let extra: Vec<u64> = m.memory.uses.iter().map(|used| used.extra_ps).collect();
            assert_eq!(calculated_again(&mut m), extra, "seed {seed} at {at}");
        }
    }
}
