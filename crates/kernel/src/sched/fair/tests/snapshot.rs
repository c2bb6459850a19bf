// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the snapshot of loads, which the placement of new tasks uses. Builds with debug
//! assertions compare each placement with the plain search, so these tests only have to create many
//! different situations.

use crate::simulation::rng::Rng;
use crate::testbed::*;
use workload::{Dist, Op, SchedPolicy};

/// Starts tasks in bursts on a random machine. Returns the number of placements that used the
/// snapshot.
fn one(seed: u64) -> u32 {
    let mut rng = Rng::new(seed);
    // On some machines, an LLC has more groups than a block of the snapshot.
    let cores = [4, 4, 4, 4, 4, 4, 4, 200][rng.below(8) as usize];
    let mut upto = |most: u64| 1 + rng.below(most) as u32;
    let mut machine = spec(upto(3), upto(3), upto(cores), upto(2));
    if rng.below(3) == 0 {
        machine = free(machine);
    }
    if rng.below(8) == 0 {
        machine.topology.cpus[0].capacity = 512;
    }
    let nr_cpus = machine.topology.nr_cpus();
    let mut bed = Bed::default();
    let groups = [0, bed.cgroup("/a", 100), bed.cgroup("/b", 300)];
    for _ in 0..rng.below(6) {
        let start_ns = rng.below(4) * 7 * MS;
        for _ in 0..1 + rng.below(3 * u64::from(nr_cpus)) {
            let mut ops = vec![Op::Run(Dist::Fixed(1 + rng.below(3 * MS)))];
            match rng.below(4) {
                0 => ops.extend(hog()),
                1 => ops.push(Op::Yield),
                _ => ops.extend(sleeper(1 + rng.below(MS), 1 + rng.below(2 * MS))),
            }
            if let Some(Op::LoopBack { target, .. }) = ops.last_mut() {
                *target = 1;
            }
            let task = bed.task(0, ops);
            task.start_cpu = None;
            task.start_ns = start_ns;
            task.cgroup = groups[rng.below(3) as usize];
            task.policy = match rng.below(12) {
                0 => SchedPolicy::Fifo { rt_priority: 1 },
                1 | 2 => SchedPolicy::Idle,
                nice => SchedPolicy::Normal { nice: nice as i32 - 7 },
            };
            match rng.below(10) {
                0 => task.cpus = Some(vec![rng.below(u64::from(nr_cpus)) as u32]),
                1 => task.start_cpu = Some(rng.below(u64::from(nr_cpus)) as u32),
                _ => {}
            }
        }
    }
    let mut m = bed.machine(machine);
    if nr_cpus > 1 && rng.below(4) == 0 {
        m.plan_hotplug(MS, nr_cpus - 1, false);
        m.plan_hotplug(10 * MS, nr_cpus - 1, true);
    }
    m.advance(40 * MS, &mut Vec::new());
    m.domains.snapshot.nr_used
}

#[test]
fn placements_from_the_snapshot_are_those_of_the_plain_search() {
    let used: u32 = (0..120).map(one).sum();
    assert!(used > 2000, "only {used} placements used the snapshot");
}
