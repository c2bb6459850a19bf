// SPDX-License-Identifier: GPL-2.0-only
//! The bounds that follow from a policy's promise (its guarantee, which policies/policies.toml
//! names) for hogs that share a CPU. A hog is a task that computes without pauses. There are two
//! bounds: the longest wait of each hog, and how the hogs share the CPU. The parameters are read
//! from the policy after the run.

use crate::support::policy::{MS, Observed, US};
use crate::support::records::Promise;
use kernel::task::PRIO_TO_WEIGHT;

impl Promise {
    /// Returns the names of the parameters that determine the length of a turn. The tests make
    /// turns shorter by dividing the defaults.
    pub fn turn_parameters(self) -> &'static [&'static str] {
        match self {
            Promise::EqualTurns | Promise::WeightedTurns => &["slice_ns"],
            Promise::Ticks24 | Promise::Ticks25 => &["tick_ns"],
            Promise::TimeslicesO1 => &["slice_max_ns", "slice_min_ns", "batch_slice_ns"],
            Promise::LevelsByUse | Promise::StrictLevels => &["quantum_ns"],
            Promise::Timeslices26 | Promise::FairClass | Promise::Nothing => &[],
        }
    }

    /// Returns whether a change of a task's nice value soon changes its CPU share. It does not
    /// under policies with levels. There, a task may wait long until it runs and can change its
    /// nice value, or its earlier CPU use may affect its level for half a minute.
    pub fn follows_nice_changes(self) -> bool {
        !matches!(self, Promise::LevelsByUse | Promise::StrictLevels)
    }
}

/// Maximum time by which a turn exceeds its slice, in ns. Slices end at the machine's ticks.
pub const TICK: u64 = MS;
/// Maximum time of the kernel's work during a turn, in ns: the switch, the decisions of the policy,
/// and ticks.
const TURN: u64 = 100 * US;

/// Returns the quantum of a nice value in ticks (goodness.h).
fn goodness_ticks(nice: i32) -> u64 {
    ((20 - nice) >> 2) as u64 + 1
}

/// Returns the quantum of a nice value in ticks (dss25.bpf.c).
fn dss25_ticks(nice: i32) -> u64 {
    (1000 + 175 * (19 - nice) as u64) / 1000
}

/// Returns the weight that a policy sees. It is an integer, and 100 for nice 0.
fn weight(nice: i32) -> u64 {
    ((kernel_weight(nice) * 100 + 512) / 1024).max(1)
}

fn kernel_weight(nice: i32) -> u64 {
    u64::from(PRIO_TO_WEIGHT[(nice + 20) as usize])
}

/// Returns the base slice of the fair class in ns. It is 0.7 ms on one CPU, and longer on several
/// CPUs.
fn fair_slice(ran: &Observed) -> u64 {
    700 * US * u64::from(1 + ran.machine.nr_cpus().min(8).ilog2())
}

/// Returns the timeslice of o1 in ns.
fn o1_slice(ran: &Observed, nice: i32) -> u64 {
    let [most, least] = ["slice_max_ns", "slice_min_ns"].map(|name| ran.counter(name));
    if nice >= ran.counter("batch_nice") as i32 {
        return ran.counter("batch_slice_ns");
    }
    least + (most - least) * (19 - nice) as u64 / 39
}

/// Returns the timeslice of Linux 2.6.22 in ns.
fn linux26_slice(nice: i32) -> u64 {
    (20 - nice) as u64 * if nice < 0 { 20 } else { 5 } * MS
}

/// Returns the longest time in ns that the hog `own` may wait for a turn. Returns `None` if the
/// policy sets no limit for these nice values.
pub fn longest_wait(promise: Promise, ran: &Observed, nices: &[i32], own: usize) -> Option<u64> {
    let parameter = |name| ran.counter(name);
    let others = || {
        nices
            .iter()
            .enumerate()
            .filter(move |&(hog, _)| hog != own)
            .map(|(_, &nice)| nice)
    };
    let sum = |turn: &dyn Fn(i32) -> u64| others().map(|nice| turn(nice) + TICK + TURN).sum::<u64>();
    let equal = nices.iter().all(|&nice| nice == nices[own]);
    let bound = match promise {
        // Each other hog has one turn, in the order of their arrival.
        Promise::EqualTurns => sum(&|_| parameter("slice_ns")),
        // A slice of the hog increases its virtual time by slice / weight. Each other hog then runs
        // until its own virtual time has increased by as much. If its weight is n times that of the
        // hog, this takes n turns. One more turn may already have begun.
        Promise::WeightedTurns => {
            let turn = parameter("slice_ns") + TICK + TURN;
            let turns = others().map(|nice| weight(nice).div_ceil(weight(nices[own])) + 1);
            turns.sum::<u64>() * turn
        }
        // The hog waits in two steps. First, it waits until it is eligible. It may have got more
        // than its share of the CPU, by up to one slice. Second, it waits until its deadline, which
        // is another slice later. One slice of another hog may come before it.
        Promise::FairClass => {
            let whole: u64 = nices.iter().map(|&nice| kernel_weight(nice)).sum();
            let slice = fair_slice(ran);
            2 * slice * whole / kernel_weight(nices[own]) + sum(&|_| 0) + slice
        }
        // The quanta are recalculated when all runnable tasks have used up their ticks. A period is
        // the time between two recalculations. The longest wait spans two periods: the hog runs
        // first in one period, and last in the next. It then waits twice for all quanta of the
        // other hogs. Counters are rounded to ticks. A task that has used more than half a tick too
        // much pays for it in the next period.
        Promise::Ticks24 => {
            let tick = parameter("tick_ns");
            2 * sum(&|nice| goodness_ticks(nice) * tick + tick / 2)
        }
        Promise::Ticks25 => {
            let tick = parameter("tick_ns");
            2 * sum(&|nice| dss25_ticks(nice) * tick + tick / 2)
        }
        // A period is the time between two swaps of the active and the expired array. The longest
        // wait spans two periods: the hog runs first in one period, and last in the next.
        Promise::TimeslicesO1 => 2 * sum(&|nice| o1_slice(ran, nice)),
        // The bound is longer than that of o1, because hogs that count as interactive return to the
        // active array until the expired tasks starve.
        Promise::Timeslices26 => parameter("starvation_ns") * nices.len() as u64 + 2 * sum(&linux26_slice),
        // Higher levels run first. The hog waits until the balance set manager, which raises
        // starved threads, raises it. This takes three steps: the hog must have been ready for
        // `starved_ns`, the manager must make its next scan, and hogs that are already at the top
        // level must finish their quanta.
        Promise::StrictLevels => {
            let lifted = parameter("quantum_ns").max(parameter("lift_quantum_ns"));
            parameter("starved_ns") + parameter("lift_period_ns") + sum(&|_| lifted)
        }
        // Hogs with equal nice values have different levels only while one hog's CPU use is above
        // the limit of a level and another's is below. A hog below the limit runs first. One
        // quantum takes it above the limit, so it runs before the waiting hog at most twice: once
        // as its equal, and once below the limit. With different nice values, the levels depend on the CPU use of the last half minute, and no bound is known.
        Promise::LevelsByUse if equal => 2 * sum(&|_| parameter("quantum_ns")),
        Promise::LevelsByUse | Promise::Nothing => return None,
    };
    Some(bound)
}

/// How hogs share a CPU.
pub enum Division {
    /// Each hog has turns of its own length, in ns. The shares may differ from the exact ones by
    /// `percent`.
    Shares { turns: Vec<u64>, percent: u64 },
    /// A hog with a better nice value gets at least as much CPU time as the others. `turn` is the
    /// length of a turn in ns.
    Ordered { turn: u64 },
    /// The hogs of the highest level share the CPU in equal turns. Any other hog gets at most
    /// `lift` ns.
    Strict { level: Vec<u32>, turn: u64, lift: u64 },
}

/// Returns how the policy promises to divide the CPU among hogs with these nice values. Returns
/// `None` if it promises nothing.
pub fn division(promise: Promise, ran: &Observed, nices: &[i32]) -> Option<Division> {
    let parameter = |name| ran.counter(name);
    let turns = |percent: u64, turn: &dyn Fn(i32) -> u64| Division::Shares {
        turns: nices.iter().map(|&nice| turn(nice)).collect(),
        percent,
    };
    let division = match promise {
        Promise::EqualTurns => turns(3, &|_| parameter("slice_ns")),
        Promise::WeightedTurns => {
            let least = nices
                .iter()
                .map(|&nice| weight(nice))
                .min()
                .expect("the case has a hog");
            // A turn may exceed the slice by up to a tick, which is not charged to the task. This
            // favours hogs with shorter turns.
            let percent = 3 + 100 * TICK / parameter("slice_ns");
            turns(percent, &|nice| parameter("slice_ns") * weight(nice) / least)
        }
        Promise::FairClass => {
            let least = nices
                .iter()
                .map(|&nice| kernel_weight(nice))
                .min()
                .expect("the case has a hog");
            turns(3, &|nice| fair_slice(ran) * kernel_weight(nice) / least)
        }
        Promise::Ticks24 => turns(3, &|nice| parameter("tick_ns") * goodness_ticks(nice)),
        Promise::Ticks25 => turns(3, &|nice| parameter("tick_ns") * dss25_ticks(nice)),
        Promise::TimeslicesO1 => {
            // A turn ends at the first tick after the timeslice.
            let least = nices
                .iter()
                .map(|&nice| o1_slice(ran, nice))
                .min()
                .expect("the case has a hog");
            turns(3 + 100 * TICK / least, &|nice| o1_slice(ran, nice))
        }
        Promise::Timeslices26 => turns(3, &linux26_slice),
        Promise::LevelsByUse => Division::Ordered {
            turn: parameter("quantum_ns"),
        },
        Promise::StrictLevels => {
            // A hog is raised after it has been ready for `starved_ns`, and again after each
            // further `starved_ns`.
            let lifts = ran.machine.now / parameter("starved_ns");
            Division::Strict {
                level: nices.iter().map(|&nice| windows_level(nice)).collect(),
                turn: parameter("quantum_ns"),
                lift: lifts * (parameter("lift_quantum_ns") + TICK),
            }
        }
        Promise::Nothing => return None,
    };
    Some(division)
}

/// Returns the level of a nice value. The nice values -20 to 0 have the levels 15 to 8, and 0 to 19
/// have the levels 8 to 1 (thread_levels.h).
fn windows_level(nice: i32) -> u32 {
    if nice <= 0 {
        8 + nice.unsigned_abs() * 7 / 20
    } else {
        8 - nice.unsigned_abs() * 7 / 19
    }
}
