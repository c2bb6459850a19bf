// SPDX-License-Identifier: GPL-2.0-only
//! Workloads by name and parameters: `hackbench:groups=4,loops=50,via=pipe`.
//!
//! One file a generator, one line in [`generators`]. Generators draw nothing at random: what varies is a
//! [`Dist`](crate::Dist), drawn by the machine.

mod arguments;
mod boost;
mod channel;
mod chat;
mod closed;
mod distribution;
mod hackbench;
mod lat_ctx;
mod lat_proc;
mod mkbench;
mod open;
mod schbench;
mod sleepers;
mod yielders;

pub use arguments::{Arguments, Parameter, Unit};

use crate::program::{Cgroup, Policy, TaskSpec, Workload};
use input::{Error, suggest};

/// Something that makes workloads.
pub struct Generator {
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    pub parameters: &'static [Parameter],
    pub(crate) build: fn(&Arguments) -> Result<Workload, Error>,
}

static GENERATORS: &[Generator] = &[
    closed::GENERATOR,
    open::GENERATOR,
    boost::GENERATOR,
    chat::GENERATOR,
    mkbench::GENERATOR,
    hackbench::GENERATOR,
    schbench::GENERATOR,
    lat_proc::GENERATOR,
    lat_ctx::GENERATOR,
    sleepers::GENERATOR,
    yielders::GENERATOR,
    yielders::LOOP_YIELD,
];

/// All of them.
pub fn generators() -> &'static [Generator] {
    GENERATORS
}

/// Makes the workload that `spec` describes: a generator's name, then perhaps `:key=value,key=value`.
///
/// # Errors
/// An unknown generator or parameter, a value out of range or of the wrong unit, a contradiction.
pub fn generate(spec: &str) -> Result<Workload, Error> {
    let (name, arguments) = spec.split_once(':').unwrap_or((spec, ""));
    let Some(generator) = GENERATORS.iter().find(|g| g.name == name) else {
        let names: Vec<&str> = GENERATORS.iter().map(|g| g.name).collect();
        return Err(Error::at(spec, format!("no generator '{name}'")).hint(suggest::hint(name, &names)));
    };
    let arguments = Arguments::parse(spec, generator.parameters, arguments)?;
    let mut workload = (generator.build)(&arguments)?;
    workload.name = spec.into();
    workload.check()?;
    Ok(workload)
}

/// A workload without tasks yet.
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

/// A task at nice 0 on all CPUs, created at the start, in a process of its own.
pub(crate) fn task(comm: &str, program: u32, process: u32) -> TaskSpec {
    TaskSpec {
        comm: comm.into(),
        program,
        policy: Policy::Normal { nice: 0 },
        cpus: None,
        start_cpu: None,
        start_ns: 0,
        process,
        cgroup: 0,
        spawn: true,
        footprint_bytes: 0,
    }
}

#[cfg(test)]
mod tests;
