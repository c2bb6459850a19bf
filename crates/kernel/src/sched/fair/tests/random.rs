// SPDX-License-Identifier: GPL-2.0-only
//! Tests with random tasks on random machines. They check that no task gets lost, starves or runs
//! on a CPU that it may not use.

use crate::layout::SCHED_IDLE;
use crate::sched::state::task::State;
use crate::simulation::id::IDLE;
use crate::simulation::rng::Rng;
use crate::testbed::*;
use trace::Event;
use workload::{Dist, Op, SchedPolicy};

fn policy(rng: &mut Rng) -> SchedPolicy {
    match rng.below(10) {
        0 => SchedPolicy::Batch { nice: 3 },
        1 => SchedPolicy::Idle,
        2 => SchedPolicy::Fifo {
            rt_priority: 1 + rng.below(99) as u32,
        },
        3 => SchedPolicy::RoundRobin {
            rt_priority: 1 + rng.below(3) as u32,
        },
        _ => SchedPolicy::Normal {
            nice: rng.below(16) as i32 - 8,
        },
    }
}

fn one(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut shape = || 1 + rng.below(2) as u32;
    let machine = spec(shape(), shape(), 1 + shape(), shape());
    let nr_cpus = machine.topology.nr_cpus();
    let mut bed = Bed::default();
    let nr = 1 + rng.below(4 * u64::from(nr_cpus)) as u32;
    let mut allowed = Vec::new();
    for _ in 0..nr {
        let policy = policy(&mut rng);
        let realtime = matches!(policy, SchedPolicy::Fifo { .. } | SchedPolicy::RoundRobin { .. });
        let run = 1 + rng.below(3 * MS);
        // Real-time tasks sleep long enough that other tasks can run.
        let sleep = if realtime {
            40 * run
        } else {
            rng.below(2) * rng.below(5 * MS)
        };
        let mut ops = vec![Op::Run(Dist::Fixed(run)), Op::Sleep(Dist::Fixed(sleep))];
        if rng.below(4) == 0 {
            ops.push(Op::Yield);
        }
        if rng.below(4) == 0 && !realtime {
            ops.push(Op::SetPolicy(SchedPolicy::Normal {
                nice: rng.below(10) as i32,
            }));
        }
        ops.push(Op::LoopBack {
            counter: 0,
            times: None,
            target: 0,
        });
        let mut cpus: Vec<u32> = (0..nr_cpus).filter(|_| rng.below(2) == 0).collect();
        if cpus.is_empty() || rng.below(2) == 0 {
            cpus = (0..nr_cpus).collect();
        }
        let task = bed.task(cpus[0], ops);
        if seed % 2 == 1 {
            // Cache-aware scheduling brings the threads of a process together.
            task.process %= 3;
        }
        task.policy = policy;
        task.cpus = Some(cpus.clone());
        allowed.push(cpus);
    }
    let (m, records) = bed.run(machine, 3 * SECOND);
    for record in &records {
        if let Event::Switch { next, .. } = record.event
            && next != 0
        {
            assert!(
                allowed[next as usize - 1].contains(&record.cpu),
                "seed {seed}: the task with pid {next} may not run on CPU {}",
                record.cpu
            );
        }
    }
    for (n, t) in m.tasks.iter().enumerate() {
        assert!(
            t.sum_exec_runtime() > 0,
            "seed {seed}: task {n} with the policy {} never ran",
            t.policy()
        );
        assert_eq!(
            t.on_rq(),
            t.state() == State::Running,
            "seed {seed}: task {n} must be queued exactly while it is runnable"
        );
    }
    // Every runnable task, except those with SCHED_IDLE, must have run within the last 1.5 s.
    let since = |pid: u32| {
        let ran =
            |r: &&trace::Record| matches!(r.event, Event::Switch { prev, next, .. } if prev == pid || next == pid);
        records.iter().rev().find(ran).map_or(0, |r| r.time)
    };
    for t in &m.tasks {
        let waits = t.on_rq() && !t.on_cpu() && t.policy() != SCHED_IDLE;
        assert!(
            !waits || m.now - since(t.pid()) < 1500 * MS,
            "seed {seed}: {} has waited for at least 1.5 s",
            t.comm()
        );
    }
    for rq in &m.rqs {
        let on: Vec<_> = m.tasks.iter().filter(|t| t.on_rq() && t.cpu() == rq.cpu).collect();
        let delayed = m.tasks.iter().filter(|t| t.fair.delayed && t.cpu() == rq.cpu).count();
        assert_eq!(
            rq.nr_running as usize,
            on.len() + delayed,
            "seed {seed}: wrong nr_running"
        );
        assert_eq!(
            rq.fair.cfs.h_nr_runnable as usize,
            on.iter().filter(|t| t.fair.on_rq).count(),
            "seed {seed}: wrong h_nr_runnable"
        );
        let weight: u64 = m
            .tasks
            .iter()
            .filter(|t| t.fair.on_rq && t.cpu() == rq.cpu)
            .map(|t| t.fair.load)
            .sum();
        assert_eq!(rq.fair.cfs.load, weight, "seed {seed}: wrong load of the root queue");
        assert!(
            rq.curr != IDLE || rq.nr_running == 0,
            "seed {seed}: CPU {} is idle although it has runnable tasks",
            rq.cpu
        );
        assert_eq!(rq.time.total(), m.now, "seed {seed}: not all time is accounted");
    }
}

#[test]
fn random_tasks_on_random_machines() {
    for seed in 0..60 {
        one(seed);
    }
}
