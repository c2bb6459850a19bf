// SPDX-License-Identifier: GPL-2.0-only
//! Bounds that follow from a policy's promise for hogs, tasks that compute without a pause and
//! share a CPU: the longest wait of each, and the division of the CPU. The parameters are read from
//! the policy that ran.

use crate::support::policy::{MS, Observed, US};
use crate::support::records::Promise;
use kernel::task::PRIO_TO_WEIGHT;

impl Promise {
    /// Returns the parameters that set the length of a turn. The tests shorten turns by dividing
    /// the defaults.
    pub fn turn_parameters(self) -> &'static [&'static str] {
        match self {
            Promise::EqualTurns | Promise::WeightedTurns => &["slice_ns"],
            Promise::Ticks24 | Promise::Ticks25 => &["tick_ns"],
            Promise::TimeslicesO1 => &["slice_max_ns", "slice_min_ns", "batch_slice_ns"],
            Promise::LevelsByUse | Promise::StrictLevels => &["quantum_ns"],
            Promise::Timeslices26 | Promise::FairClass | Promise::Nothing => &[],
        }
    }

    /// Returns whether a task soon has the CPU share of a changed nice value. With levels, a task
    /// may wait long before it runs to its change, or its earlier CPU use counts for half a minute.
    pub fn follows_nice_changes(self) -> bool {
        !matches!(self, Promise::LevelsByUse | Promise::StrictLevels)
    }
}

/// Slices end at the machine's ticks, so a turn may be one tick longer. In ns.
pub const TICK: u64 = MS;
/// Kernel work during a turn in ns: the switch, the policy's choice, ticks.
const TURN: u64 = 100 * US;

/// Returns the ticks in the quantum of a nice value (goodness.h).
fn goodness_ticks(nice: i32) -> u64 {
    ((20 - nice) >> 2) as u64 + 1
}

/// Returns the ticks in the quantum of a nice value (dss25.bpf.c).
fn dss25_ticks(nice: i32) -> u64 {
    (1000 + 175 * (19 - nice) as u64) / 1000
}

/// Returns the integer weight that a policy sees: 100 for nice 0.
fn weight(nice: i32) -> u64 {
    ((kernel_weight(nice) * 100 + 512) / 1024).max(1)
}

fn kernel_weight(nice: i32) -> u64 {
    u64::from(PRIO_TO_WEIGHT[(nice + 20) as usize])
}

/// Returns the fair class's base slice in ns: 0.7 ms on one CPU, more on several.
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

/// Returns the longest time in ns that hog `own` may wait before a turn, or `None` if the policy
/// bounds no wait for these nice values.
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
        // Each other hog has one turn, in order of arrival.
        Promise::EqualTurns => sum(&|_| parameter("slice_ns")),
        // A slice moves the hog ahead by slice/weight. A hog that is at most that far behind gets
        // turns in proportion to its weight, and one that it may have begun.
        Promise::WeightedTurns => {
            let turn = parameter("slice_ns") + TICK + TURN;
            let turns = others().map(|nice| weight(nice).div_ceil(weight(nices[own])) + 1);
            turns.sum::<u64>() * turn
        }
        // The hog first waits until it is eligible, for what it ran beyond its share: up to a slice
        // of its virtual time. Its deadline is another slice later, and one slice of another hog
        // may precede it.
        Promise::FairClass => {
            let whole: u64 = nices.iter().map(|&nice| kernel_weight(nice)).sum();
            let slice = fair_slice(ran);
            2 * slice * whole / kernel_weight(nices[own]) + sum(&|_| 0) + slice
        }
        // The hog may run first in one period between recalculations and last in the next, so it
        // waits twice for the whole quanta of the others. Counters are rounded to ticks; a debt
        // above half a tick is carried over.
        Promise::Ticks24 => {
            let tick = parameter("tick_ns");
            2 * sum(&|nice| goodness_ticks(nice) * tick + tick / 2)
        }
        Promise::Ticks25 => {
            let tick = parameter("tick_ns");
            2 * sum(&|nice| dss25_ticks(nice) * tick + tick / 2)
        }
        // As with quanta, but between swaps of the arrays.
        Promise::TimeslicesO1 => 2 * sum(&|nice| o1_slice(ran, nice)),
        // In addition, hogs that count as interactive return to the active array until the expired
        // tasks starve.
        Promise::Timeslices26 => parameter("starvation_ns") * nices.len() as u64 + 2 * sum(&linux26_slice),
        // Higher levels run first until the balance set manager raises the hog. It must have been
        // ready for `starved_ns`, then the next scan comes, then hogs already at the top level
        // finish their quanta.
        Promise::StrictLevels => {
            let lifted = parameter("quantum_ns").max(parameter("lift_quantum_ns"));
            parameter("starved_ns") + parameter("lift_period_ns") + sum(&|_| lifted)
        }
        // Hogs with equal nice values differ in level only while their CPU use is on different
        // sides of a level's limit. A quantum takes a hog across the limit, so no hog is overtaken
        // more than twice. With different nice values, levels follow the use of the last half
        // minute, and no bound is known.
        Promise::LevelsByUse if equal => 2 * sum(&|_| parameter("quantum_ns")),
        Promise::LevelsByUse | Promise::Nothing => return None,
    };
    Some(bound)
}

/// Division of a CPU among hogs.
pub enum Division {
    /// Each hog in turn runs for its length in ns. Shares may differ by `percent`.
    Shares { turns: Vec<u64>, percent: u64 },
    /// A better nice value gives at least as much CPU time. Turns have this length in ns.
    Ordered { turn: u64 },
    /// Hogs of the highest level share the CPU in equal turns. Each other hog gets at most `lift`
    /// ns.
    Strict { level: Vec<u32>, turn: u64, lift: u64 },
}

/// Returns the promised division among hogs with these nice values, or `None` without a promise.
pub fn division(promise: Promise, ran: &Observed, nices: &[i32]) -> Option<Division> {
    let parameter = |name| ran.counter(name);
    let turns = |percent: u64, turn: &dyn Fn(i32) -> u64| Division::Shares {
        turns: nices.iter().map(|&nice| turn(nice)).collect(),
        percent,
    };
    let division = match promise {
        Promise::EqualTurns => turns(3, &|_| parameter("slice_ns")),
        Promise::WeightedTurns => {
            let least = nices.iter().map(|&nice| weight(nice)).min().expect("a hog");
            // A turn may exceed the slice by up to a tick that is not charged, which favours hogs
            // with shorter turns.
            let percent = 3 + 100 * TICK / parameter("slice_ns");
            turns(percent, &|nice| parameter("slice_ns") * weight(nice) / least)
        }
        Promise::FairClass => {
            let least = nices.iter().map(|&nice| kernel_weight(nice)).min().expect("a hog");
            turns(3, &|nice| fair_slice(ran) * kernel_weight(nice) / least)
        }
        Promise::Ticks24 => turns(3, &|nice| parameter("tick_ns") * goodness_ticks(nice)),
        Promise::Ticks25 => turns(3, &|nice| parameter("tick_ns") * dss25_ticks(nice)),
        Promise::TimeslicesO1 => {
            // A turn ends at the tick after its timeslice.
            let least = nices.iter().map(|&nice| o1_slice(ran, nice)).min().expect("a hog");
            turns(3 + 100 * TICK / least, &|nice| o1_slice(ran, nice))
        }
        Promise::Timeslices26 => turns(3, &linux26_slice),
        Promise::LevelsByUse => Division::Ordered {
            turn: parameter("quantum_ns"),
        },
        Promise::StrictLevels => {
            // A hog is raised once after being ready for `starved_ns`, and again at that interval.
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

/// Returns the level: nice -20..0 are levels 15..8, 0..19 are 8..1 (thread_levels.h).
fn windows_level(nice: i32) -> u32 {
    if nice <= 0 {
        8 + nice.unsigned_abs() * 7 / 20
    } else {
        8 - nice.unsigned_abs() * 7 / 19
    }
}
