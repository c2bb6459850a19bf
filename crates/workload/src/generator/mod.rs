// SPDX-License-Identifier: GPL-2.0-only
//! Generators: functions that create a workload from parameters. A user specifies the name of a
//! generator and its parameters, such as `hackbench:groups=4,loops=50,via=pipe`.
//!
//! Each generator has a file and a line in [`GENERATORS`]. Generators use no random numbers.
//! Random lengths are a [`Dist`](crate::Dist), which the machine samples during the run.

mod arguments;
pub(crate) mod begin;
mod boost;
mod channel;
mod chat;
mod closed;
mod distribution;
mod hackbench;
mod lat_ctx;
mod lat_proc;
mod mkbench;
mod netperf;
mod open;
mod schbench;
mod sleepers;
mod sysbench;
mod taobench;
mod yielders;

pub use arguments::{Arguments, Parameter, Unit};

use crate::check::{MAX_TASKS, WHY_MAX_TASKS};
use crate::program::{Cgroup, Resource, Workload};
use crate::task_specs::TaskSpec;
use input::{Error, suggest};

/// A generator of workloads.
pub struct Generator {
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Parameters of a small workload. Tests run this workload and damage its specification.
    pub example: &'static str,
    pub parameters: &'static [Parameter],
    pub(crate) build: fn(&Arguments) -> Result<Workload, Error>,
}

/// All generators, in the order of `windtunnel workload list`. Related generators are neighbours.
/// The order has no other meaning.
static GENERATORS: &[Generator] = &[
    closed::GENERATOR,
    open::GENERATOR,
    boost::GENERATOR,
    chat::GENERATOR,
    mkbench::GENERATOR,
    hackbench::GENERATOR,
    schbench::GENERATOR,
    netperf::GENERATOR,
    taobench::GENERATOR,
    sysbench::THREADS,
    sysbench::MUTEX,
    lat_proc::GENERATOR,
    lat_ctx::GENERATOR,
    sleepers::GENERATOR,
    yielders::GENERATOR,
    yielders::LOOP_YIELD,
];

pub fn generators() -> &'static [Generator] {
    GENERATORS
}

impl Generator {
    /// Returns the specification of the workload `example`.
    pub fn example(&self) -> String {
        format!("{}:{}", self.name, self.example)
    }
}

/// Generates the workload that `spec` describes: the name of a generator, optionally followed by
/// `:key=value,key=value`.
///
/// # Errors
/// Fails if the generator or a parameter is unknown, if a value is invalid, or if values contradict
/// each other.
pub fn generate(spec: &str) -> Result<Workload, Error> {
    let (name, arguments) = spec.split_once(':').unwrap_or((spec, ""));
    let Some(generator) = GENERATORS.iter().find(|g| g.name == name) else {
        let names: Vec<&str> = GENERATORS.iter().map(|g| g.name).collect();
        return Err(Error::at(spec, format!("there is no generator '{name}'")).hint(suggest::hint(name, &names)));
    };
    let arguments = Arguments::parse(spec, generator.parameters, arguments)?;
    let mut workload = (generator.build)(&arguments)?;
    workload.name = spec.into();
    let tasks = workload.tasks.len();
    if tasks > MAX_TASKS {
        return Err(Error::at(spec, format!("{tasks} tasks are too many"))
            .hint(format!("use at most {MAX_TASKS} tasks: {WHY_MAX_TASKS}")));
    }
    workload.check()?;
    Ok(workload)
}

/// Returns a workload without tasks. It has only the root cgroup.
pub(crate) fn empty(unit: &str, duration_ns: Option<u64>) -> Workload {
    let root = Cgroup {
        path: "/".into(),
        weight: 100,
    };
    Workload {
        unit: unit.into(),
        duration_ns,
        cgroups: vec![root],
        ..Workload::default()
    }
}

/// Returns a semaphore with the count 0.
pub(crate) fn semaphore(name: impl Into<String>) -> Resource {
    Resource::Semaphore {
        name: name.into(),
        value: 0,
    }
}

pub(crate) fn task(comm: &str, program: u32, process: u32) -> TaskSpec {
    TaskSpec::new(comm, program, process)
}

#[cfg(test)]
mod tests;
