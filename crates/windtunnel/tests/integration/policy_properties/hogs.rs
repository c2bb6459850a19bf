// SPDX-License-Identifier: GPL-2.0-only
//! Workloads of hogs on one CPU of a machine. A hog is a task that computes without pauses. The
//! tests measure how long hogs wait and how they share the CPU.

use super::Tested;
use super::case::SHAPES;
use super::promise::{Division, division};
use crate::support::policy::{MS, Observed, Stint, Tasks, hog};
use crate::support::records::Promise;
use machine::MachineSpec;
use proptest::prelude::*;
use trace::Event;
use workload::{Dist, Op, SchedPolicy};

/// Time in which virtual times converge after the nice values have changed. In the worst case, a
/// slice has put the virtual time of a task of nice 5 ahead by 15 ms. Five tasks of nice -12 need
/// 72 times as long to reach the same virtual time, because theirs advances slowly.
const SETTLED: u64 = 1100 * MS;

#[derive(Clone, Debug)]
pub struct Hogs {
    pub shape: [u32; 4],
    cpu: u32,
    /// The hogs' final nice values.
    pub nices: Vec<i32>,
    before: Vec<i32>,
    /// Factor by which the turns are shorter than with the policy's default parameters.
    shorter: u64,
}

/// Generates two to five hogs. Their nice values are equal, or they are any values from `best`
/// upwards.
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
    /// Runs the hogs. If `change_ms` is not 0, each hog first computes for this time and then gets
    /// its final nice value.
    pub fn run(&self, policy: &Tested, change_ms: u64, ms: u64) -> Observed {
        let [nodes, llcs, cores, threads] = self.shape;
        let mut tasks = Tasks::default();
        for (number, &nice) in self.nices.iter().enumerate() {
            let mut ops = Vec::new();
            let mut first = nice;
            if change_ms > 0 {
                first = self.before[number];
                let policy = SchedPolicy::Normal { nice };
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
                task.policy = SchedPolicy::Normal { nice: first };
                task.cpus = Some(vec![self.cpu]);
            });
        }
        let machine = MachineSpec::regular(nodes, llcs, cores, threads);
        let mut run = policy.run().machine(machine).tasks(tasks);
        for name in policy.promise.turn_parameters() {
            run = run.divide(name, self.shorter);
        }
        // By default, a hog counts as interactive at first, because it has inherited sleep credit
        // from the shell that started it. With this setting, it starts without credit.
        if matches!(policy.promise, Promise::Timeslices26) {
            run = run.set("initial_sleep_ns", 0);
        }
        run.for_ms(ms)
    }

    /// Returns the longest time during which a hog did not run, in ns.
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

    /// Checks that the hogs share the CPU as the policy promises. Only the time after the last
    /// change of a nice value is checked.
    pub fn check_division(&self, promise: Promise, ran: &Observed) {
        let changes = ran
            .records
            .iter()
            .filter(|record| matches!(record.event, Event::Phase { .. }));
        let changes: Vec<u64> = changes.map(|record| record.time).collect();
        assert!(
            changes.len() == self.nices.len() || changes.is_empty(),
            "only some hogs have changed their nice values"
        );
        // `former` is the time after which turns with the previous nice values have ended and
        // virtual times have converged.
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
                    // At each end of the interval, a difference of one turn is allowed.
                    let want = (u128::from(whole) * u128::from(turn) / u128::from(sum)) as u64;
                    let off = got.abs_diff(want);
                    assert!(
                        off <= 2 * turn + 2 * MS + want * percent / 100,
                        "a hog got {got} ns of CPU time, expected {want}: {self:?}"
                    );
                }
            }
            Some(Division::Ordered { turn }) => {
                for (a, &better) in self.nices.iter().enumerate() {
                    for (b, &worse) in self.nices.iter().enumerate() {
                        let ordered = better >= worse || got[a] + 2 * turn >= got[b];
                        assert!(
                            ordered,
                            "nice {better} got {} ns, nice {worse} got {} ns",
                            got[a], got[b]
                        );
                    }
                }
            }
            Some(Division::Strict { level, turn, lift }) => {
                let best = *level.iter().max().expect("the case has a hog");
                let first: Vec<u64> = (0..got.len())
                    .filter(|&hog| level[hog] == best)
                    .map(|hog| got[hog])
                    .collect();
                for &a in &first {
                    assert!(
                        first.iter().all(|b| a.abs_diff(*b) <= turn + turn / 2),
                        "hogs of the highest level got {first:?} ns"
                    );
                }
                for hog in (0..got.len()).filter(|&hog| level[hog] < best) {
                    assert!(
                        got[hog] <= lift,
                        "a hog of level {} got {} ns beside hogs of level {best}",
                        level[hog],
                        got[hog]
                    );
                }
            }
        }
    }
}
