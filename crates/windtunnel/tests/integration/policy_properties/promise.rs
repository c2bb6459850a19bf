// SPDX-License-Identifier: GPL-2.0-only
//! What a policy promises hogs that share a CPU: how long each of them waits at most, and how the CPU is divided. Both
//! follow from the policy's parameters, which are read from the policy that ran.

use crate::support::policy::{MS, Observed, US};
use crate::support::records::Promise;
use kernel::task::PRIO_TO_WEIGHT;

impl Promise {
    /// Parameters on which the length of a turn depends. The tests shorten turns by dividing the defaults.
    pub fn turn_parameters(self) -> &'static [&'static str] {
        match self {
            Promise::EqualTurns | Promise::WeightedTurns => &["slice_ns"],
            Promise::Ticks24 | Promise::Ticks25 => &["tick_ns"],
            Promise::TimeslicesO1 => &["slice_max_ns", "slice_min_ns", "batch_slice_ns"],
            Promise::LevelsByUse | Promise::StrictLevels => &["quantum_ns"],
            Promise::Timeslices26 | Promise::FairClass | Promise::Nothing => &[],
        }
    }

    /// Whether a task that changes its nice value soon has the share of its new value. With levels, a task may wait long before
    /// it comes to its change, or its use of the CPU counts for half a minute.
    pub fn follows_nice_changes(self) -> bool {
        !matches!(self, Promise::LevelsByUse | Promise::StrictLevels)
    }
}

/// Slices end at the machine's ticks, so a turn may last one longer.
pub const TICK: u64 = MS;
/// The kernel's work at a turn: the switch, the policy's choice, ticks.
const TURN: u64 = 100 * US;

/// Ticks in the quantum of a nice value (goodness.h).
fn goodness_ticks(nice: i32) -> u64 {
    ((20 - nice) >> 2) as u64 + 1
}

/// Ticks in the quantum of a nice value (dss25.bpf.c).
fn dss25_ticks(nice: i32) -> u64 {
    (1000 + 175 * (19 - nice) as u64) / 1000
}

/// As a policy sees it: 100 is nice 0, and it is a whole number.
fn weight(nice: i32) -> u64 {
    ((kernel_weight(nice) * 100 + 512) / 1024).max(1)
}

fn kernel_weight(nice: i32) -> u64 {
    u64::from(PRIO_TO_WEIGHT[(nice + 20) as usize])
}

/// The base slice: 0.7 ms, more on more CPUs.
fn fair_slice(ran: &Observed) -> u64 {
    700 * US * u64::from(1 + ran.machine.nr_cpus().min(8).ilog2())
}

/// Timeslice of o1.
fn o1_slice(ran: &Observed, nice: i32) -> u64 {
    let [most, least] = ["slice_max_ns", "slice_min_ns"].map(|name| ran.counter(name));
    if nice >= ran.counter("batch_nice") as i32 {
        return ran.counter("batch_slice_ns");
    }
    least + (most - least) * (19 - nice) as u64 / 39
}

/// Timeslice of 2.6.22.
fn linux26_slice(nice: i32) -> u64 {
    (20 - nice) as u64 * if nice < 0 { 20 } else { 5 } * MS
}

/// The longest that hog number `own` of these nice values may wait between two turns, or before the first, ns. `None`: the
/// policy bounds nothing for these values.
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
        // One turn of each of the others, in order of arrival.
        Promise::EqualTurns => sum(&|_| parameter("slice_ns")),
        // Its slice has moved it s/w ahead. Who is at most that far behind has as many turns as its weight is greater, and
        // one that it may have begun.
        Promise::WeightedTurns => {
            let turn = parameter("slice_ns") + TICK + TURN;
            let turns = others().map(|nice| weight(nice).div_ceil(weight(nices[own])) + 1);
            turns.sum::<u64>() * turn
        }
        // What it has run beyond its share it waits for until it is eligible, a slice of its virtual time; its deadline is
        // another one later, and one slice may stand before it.
        Promise::FairClass => {
            let whole: u64 = nices.iter().map(|&nice| kernel_weight(nice)).sum();
            let slice = fair_slice(ran);
            2 * slice * whole / kernel_weight(nices[own]) + sum(&|_| 0) + slice
        }
        // It runs first in one period between recalculations and last in the next: both times the others' whole quanta.
        // Counters are rounded to ticks; what is owed beyond half a tick is carried over.
        Promise::Ticks24 => {
            let tick = parameter("tick_ns");
            2 * sum(&|nice| goodness_ticks(nice) * tick + tick / 2)
        }
        Promise::Ticks25 => {
            let tick = parameter("tick_ns");
            2 * sum(&|nice| dss25_ticks(nice) * tick + tick / 2)
        }
        // The same between swaps of the arrays.
        Promise::TimeslicesO1 => 2 * sum(&|nice| o1_slice(ran, nice)),
        // And those that count as interactive go back to the active array for as long as the expired may starve.
        Promise::Timeslices26 => parameter("starvation_ns") * nices.len() as u64 + 2 * sum(&linux26_slice),
        // Higher levels go first until the balance set manager lifts it: it has been ready for that long, the next look
        // comes, and those who are at the top already have their quanta first.
        Promise::StrictLevels => {
            let lifted = parameter("quantum_ns").max(parameter("lift_quantum_ns"));
            parameter("starved_ns") + parameter("lift_period_ns") + sum(&|_| lifted)
        }
        // Equals differ by a level only while what they have used stands on both sides of a level's limit, and a quantum
        // takes one across it: nobody is passed more than twice. Of others, levels follow use of the last half minute.
        Promise::LevelsByUse if equal => 2 * sum(&|_| parameter("quantum_ns")),
        Promise::LevelsByUse | Promise::Nothing => return None,
    };
    Some(bound)
}

/// How a CPU is divided among hogs.
pub enum Division {
    /// In turns of these lengths, one a hog, round and round, ns; to so many percent.
    Shares { turns: Vec<u64>, percent: u64 },
    /// The better the nice value the more, or as much; turns are this long.
    Ordered { turn: u64 },
    /// Among those of the highest level in turns of equal length; each of the others has `lift` ns at most.
    Strict { level: Vec<u32>, turn: u64, lift: u64 },
}

/// How hogs of these nice values divide a CPU. `None`: the policy promises nothing.
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
            // What a turn is longer than the slice, up to a tick, is not charged: those gain that have shorter runs.
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
            // A turn ends at the tick after.
            let least = nices.iter().map(|&nice| o1_slice(ran, nice)).min().expect("a hog");
            turns(3 + 100 * TICK / least, &|nice| o1_slice(ran, nice))
        }
        Promise::Timeslices26 => turns(3, &linux26_slice),
        Promise::LevelsByUse => Division::Ordered {
            turn: parameter("quantum_ns"),
        },
        Promise::StrictLevels => {
            // Lifted once when it has been ready for so long, and again at that distance.
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

/// Nice -20..0 are levels 15..8, 0..19 are 8..1 (thread_levels.h).
fn windows_level(nice: i32) -> u32 {
    if nice <= 0 {
        8 + nice.unsigned_abs() * 7 / 20
    } else {
        8 - nice.unsigned_abs() * 7 / 19
    }
}
