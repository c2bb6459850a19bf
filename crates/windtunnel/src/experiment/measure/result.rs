// SPDX-License-Identifier: GPL-2.0-only
//! Measures that the run's result tells by itself.

use super::{Arguments, Kind};
use crate::experiment::observe::Observed;

/// A count or a time, divided by what `per` says.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    field: Field,
    per: Per,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Score,
    Seconds,
    Operations,
    Switches,
    IdleSwitches,
    Preemptions,
    Migrations,
    Wakeups,
    Ipis,
    BalanceMoves,
    BusyPercent,
    OverheadPercent,
    OverheadMs,
    LockWaitMs,
    IdleWhileWaitingMs,
    SliceMs,
}

/// What a total is divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Per {
    cpu: bool,
    second: bool,
}

impl Per {
    pub fn of(arguments: &Arguments) -> Result<Per, String> {
        let (cpu, second) = match arguments.text("per") {
            None => (false, false),
            Some("cpu") => (true, false),
            Some("second") => (false, true),
            Some("cpu_second") => (true, true),
            Some(other) => return Err(format!("per = '{other}': expected cpu, second or cpu_second")),
        };
        Ok(Per { cpu, second })
    }

    pub fn divide(self, value: f64, seen: &Observed) -> f64 {
        let cpus = if self.cpu { seen.result.cpus as f64 } else { 1.0 };
        let seconds = if self.second {
            seen.result.simulated_ns as f64 / 1e9
        } else {
            1.0
        };
        value / cpus / seconds
    }
}

pub const PER: (&str, &str) = ("per", "cpu, second or cpu_second; default: the total of the run");

macro_rules! kinds {
    ($($name:literal $field:ident $about:literal [$($argument:expr),*];)*) => {
        pub const KINDS: &[Kind] = &[$(Kind {
            name: $name,
            about: $about,
            arguments: &[$($argument),*],
            make: |arguments| make(Field::$field, arguments),
        }),*];
    };
}

kinds! {
    "score" Score "the workload's result in its own unit" [];
    "time_s" Seconds "simulated time" [];
    "operations" Operations "operations of the workload" [PER];
    "switches" Switches "context switches, those from and to idle included" [PER];
    "idle_switches" IdleSwitches "switches that left the CPU idle" [PER];
    "preemptions" Preemptions "switches away from a task that was still runnable" [PER];
    "migrations" Migrations "tasks that changed their CPU" [PER];
    "wakeups" Wakeups "wake-ups" [PER];
    "ipis" Ipis "interprocessor interrupts" [PER];
    "balance_moves" BalanceMoves "tasks that balancers moved" [PER];
    "busy_percent" BusyPercent "time of CPUs that was not idle" [];
    "overhead_percent" OverheadPercent "time of CPUs that the kernel and the policy took" [];
    "overhead_ms" OverheadMs "the same as a time" [PER];
    "lock_wait_ms" LockWaitMs "time waited for locks" [PER];
    "idle_while_waiting_ms" IdleWhileWaitingMs "time that CPUs idled while a task that may run there waited" [PER];
    "slice_ms" SliceMs "mean time that a task stayed on a CPU" [];
}

fn make(field: Field, arguments: &Arguments) -> Result<super::Measure, String> {
    let per = Per::of(arguments)?;
    Ok(super::Measure::Result(Measure { field, per }))
}

impl Measure {
    pub fn value(&self, seen: &Observed) -> Result<f64, String> {
        let (r, trail) = (&seen.result, &seen.trail);
        let ms = |ns: u64| ns as f64 / 1e6;
        let value = match self.field {
            Field::Score => r.score.ok_or("the workload did not end or did nothing")?,
            Field::Seconds => r.simulated_ns as f64 / 1e9,
            Field::Operations => r.throughput.operations as f64,
            Field::Switches => r.context_switches as f64,
            Field::IdleSwitches => trail.switches_to_idle as f64,
            Field::Preemptions => r.preemptions as f64,
            Field::Migrations => r.migrations as f64,
            Field::Wakeups => r.wakeups as f64,
            Field::Ipis => r.ipis as f64,
            Field::BalanceMoves => r.balance_moves as f64,
            Field::BusyPercent => r.busy_percent,
            Field::OverheadPercent => r.overhead_percent,
            Field::OverheadMs => ms(r.overhead_ns),
            Field::LockWaitMs => ms(r.lock_wait_ns),
            Field::IdleWhileWaitingMs => ms(r.idle_while_waiting_ns),
            Field::SliceMs if trail.switches_from_task == 0 => return Err("no task left a CPU".into()),
            Field::SliceMs => {
                let on_cpus: u64 = trail.named("").map(|(_, task)| task.cpu_ns).sum();
                ms(on_cpus) / trail.switches_from_task as f64
            }
        };
        Ok(self.per.divide(value, seen))
    }
}
