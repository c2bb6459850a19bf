// SPDX-License-Identifier: GPL-2.0-only
//! Workloads of hogs, tasks that compute without a pause, bound to one CPU of a machine. The tests
//! measure their waits and CPU shares.

use super::Tested;
use super::case::SHAPES;
use super::promise::{Division, division};
use crate::support::policy::{MS, Observed, Stint, Tasks, hog};
use crate::support::records::Promise;
use machine::MachineSpec;
use proptest::prelude::*;
use trace::Event;
use workload::{Dist, Op, Policy};

/// Time in which differences in virtual time from before the nice values changed are made up. Nice
/// 5 is ahead by a slice of 15 ms, and five tasks at nice -12 take 72 times that long.
const SETTLED: u64 = 1100 * MS;

#[derive(Clone, Debug)]
pub struct Hogs {
    pub shape: [u32; 4],
    cpu: u32,
    /// Nice values at the end.
    pub nices: Vec<i32>,
    before: Vec<i32>,
    /// Factor by which turns are shorter than the policy's defaults.
    shorter: u64,
}

/// Generates two to five hogs, with equal nice values or with any values from `best` upwards.
pub fn hogs(best: i32) -> impl Strategy<Value = Hogs> {
    let nice = best..20_i32;
    let nices = prop_oneof![
        1 => (nice.clone(), 2..6_usize).prop_map(|(nice, hogs)| vec![nice; hogs]),
        3 => prop::collection::vec(nice, 2..6),
    ];
    let parts = (
        prop::sample::select(&SHAPES[..]),
        0..16_u32,
        nices,
        prop::collection::vec(0..6_i32, 5),
        prop::sample::select(&[1, 2, 5][..]),
    );
    parts.prop_map(|(shape, cpu, nices, before, shorter)| Hogs {
        shape,
        cpu: cpu % shape.iter().product::<u32>(),
        nices,
        before,
        shorter,
    })
}

fn name(hog: usize) -> String {
    format!("hog{hog}")
}

impl Hogs {
    /// Runs the hogs. If `change_ms` is not 0, each computes that long before it gets its final
    /// nice value.
    pub fn run(&self, policy: &Tested, change_ms: u64, ms: u64) -> Observed {
        let [nodes, llcs, cores, threads] = self.shape;
        let mut tasks = Tasks::default();
        for (number, &nice) in self.nices.iter().enumerate() {
            let mut ops = Vec::new();
            let mut first = nice;
            if change_ms > 0 {
                first = self.before[number];
                let policy = Policy::Normal { nice };
                ops.extend([
                    Op::Runtime(Dist::Fixed(change_ms * MS)),
                    Op::SetPolicy(policy),
                    Op::Phase(1),
                ]);
            }
            ops.extend(hog().into_iter().map(|op| match op {
                Op::LoopBack { counter, times, target } => Op::LoopBack {
                    counter,
                    times,
                    target: target + if change_ms > 0 { 3 } else { 0 },
                },
                op => op,
            }));
            tasks = tasks.add(&name(number), ops).with(|task| {
                task.policy = Policy::Normal { nice: first };
                task.cpus = Some(vec![self.cpu]);
            });
        }
        let machine = MachineSpec::regular(nodes, llcs, cores, threads);
        let mut run = policy.run().machine(machine).tasks(tasks);
        for name in policy.promise.turn_parameters() {
            run = run.divide(name, self.shorter);
        }
        // By default, a hog counts as interactive until it has spent the credit inherited from the
        // shell that started it.
        if matches!(policy.promise, Promise::Timeslices26) {
            run = run.set("initial_sleep_ns", 0);
        }
        run.for_ms(ms)
    }

    /// Returns the longest time in ns in which a hog did not run.
    pub fn longest_wait(&self, ran: &Observed, hog: usize) -> u64 {
        let stints = ran.stints();
        let own = stints.iter().filter(|stint: &&Stint| stint.comm == name(hog));
        let mut since = 0;
        let mut longest = 0;
        for stint in own {
            longest = longest.max(stint.from.saturating_sub(since));
            since = stint.to;
        }
        longest.max(ran.machine.now - since)
    }

    /// Checks that the CPU is divided as promised from the time when all hogs have their final nice
    /// values.
    pub fn check_division(&self, promise: Promise, ran: &Observed) {
        let changes = ran
            .records
            .iter()
            .filter(|record| matches!(record.event, Event::Phase { .. }));
        let changes: Vec<u64> = changes.map(|record| record.time).collect();
        assert!(
            changes.len() == self.nices.len() || changes.is_empty(),
            "not all have come to change their nice"
        );
        // By then, turns left from the previous nice values are used up and virtual times have
        // converged.
        let former = match division(promise, ran, &self.before) {
            Some(Division::Shares { turns, .. }) => turns.iter().sum::<u64>() + SETTLED,
            _ => 0,
        };
        let (from, to) = (changes.into_iter().max().unwrap_or(0) + former, ran.machine.now);
        let got: Vec<u64> = (0..self.nices.len())
            .map(|hog| ran.cpu_ns_between(&name(hog), from, to))
            .collect();
        match division(promise, ran, &self.nices) {
            None => {}
            Some(Division::Shares { turns, percent }) => {
                let (whole, sum) = (to - from, turns.iter().sum::<u64>());
                for (&got, turn) in got.iter().zip(turns) {
                    // A difference of one turn at both ends of the interval is allowed.
                    let want = (u128::from(whole) * u128::from(turn) / u128::from(sum)) as u64;
                    let off = got.abs_diff(want);
                    assert!(
                        off <= 2 * turn + 2 * MS + want * percent / 100,
                        "{got} ns of CPU for {want}: {self:?}"
                    );
                }
            }
            Some(Division::Ordered { turn }) => {
                for (a, &better) in self.nices.iter().enumerate() {
                    for (b, &worse) in self.nices.iter().enumerate() {
                        let ordered = better >= worse || got[a] + 2 * turn >= got[b];
                        assert!(ordered, "nice {better} has {}, nice {worse} has {}", got[a], got[b]);
                    }
                }
            }
            Some(Division::Strict { level, turn, lift }) => {
                let best = *level.iter().max().expect("a hog");
                let first: Vec<u64> = (0..got.len())
                    .filter(|&hog| level[hog] == best)
                    .map(|hog| got[hog])
                    .collect();
                for &a in &first {
                    assert!(
                        first.iter().all(|b| a.abs_diff(*b) <= turn + turn / 2),
                        "equals got {first:?}"
                    );
                }
                for hog in (0..got.len()).filter(|&hog| level[hog] < best) {
                    assert!(
                        got[hog] <= lift,
                        "level {} got {} beside level {best}",
                        level[hog],
                        got[hog]
                    );
                }
            }
        }
    }
}
