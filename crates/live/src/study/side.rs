// SPDX-License-Identifier: GPL-2.0-only
//! A case on this machine, and the same case in the simulator, seen alike.

use super::question::{Case, Seen};
use crate::kernel;
use crate::run::{Options, conduct};
use bpf::engine::Engine;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trace::{Event, Record, Sink};
use windtunnel::error::Error;
use windtunnel::experiment::observe::{Observed, Trail};
use windtunnel::policy::Policy;
use windtunnel::scenario::{Onlooker, Scenario};
use windtunnel::search;

/// How often the simulator's queues are looked at: as often as the machine's.
const LOOK_NS: u64 = 10_000_000;

/// Executes it. Beside it: what to know of the run.
///
/// # Errors
/// If the kernel does not give what it needs.
pub fn measured(case: &Case, cpus: &[u32], seed: u64) -> Result<(Seen, Vec<String>), Error> {
    let options = Options {
        for_ns: Some(case.for_ns),
        seed,
        cpus: cpus.to_vec(),
        watch: true,
    };
    let executed = conduct(workload::load(&case.workload, &[])?, &options, None)?;
    let mut trail = Trail::new(cpus.len() as u32, Vec::new());
    trail.take(&numbered(&executed.log));
    trail.finish(executed.result.simulated_ns);
    let jobs = executed.log.iter().filter_map(|record| match &record.event {
        Event::TaskNew { pid, comm, .. } if comm == "job" => Some((record.time, *executed.cpu_ns.get(pid)?)),
        _ => None,
    });
    let seen = Seen {
        jobs: jobs.collect(),
        looks: executed.looks,
        observed: Observed {
            result: executed.result,
            trail,
            ..Observed::default()
        },
    };
    Ok((seen, executed.notes))
}

/// The same with small pids, which a trail wants.
fn numbered(records: &[Record]) -> Vec<Record> {
    let mut pids = BTreeMap::new();
    let mut number = |pid: &mut u32| {
        let next = pids.len() as u32 + 1;
        *pid = *pids.entry(*pid).or_insert(next);
    };
    let mut records = records.to_vec();
    for record in &mut records {
        if let Event::TaskNew { pid, .. } | Event::Done { pid, .. } | Event::TaskExit { pid } = &mut record.event {
            number(pid);
        }
    }
    records
}

/// Simulates it, under the policy that is loaded.
///
/// # Errors
/// If there is no such machine, or it is a policy that is not here.
pub fn simulated(case: &Case, cpus: usize, seed: u64, machine: Option<&str>) -> Result<Seen, Error> {
    let policy = match kernel::ops().as_str() {
        "" => Policy::Eevdf,
        ops => Policy::find(ops)?,
    };
    let folders = search::folders("machines");
    let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
    let default = format!("core:{cpus} pu:1");
    let scenario = Scenario {
        profile: None,
        policy,
        settings: Vec::new(),
        engine: Engine::default(),
        checked: false,
        machine: machine::load(machine.unwrap_or(&default), &folders)?,
        workload: workload::load(&case.workload, &[])?,
        seed,
        for_ns: Some(case.for_ns),
        kernel: ::kernel::release::Release::default(),
        after_failure: false,
        hotplug: Vec::new(),
        memory: bpf::memory::DEFAULT_LIMIT,
        trace: None,
        draw: None,
    };
    let looks: Vec<u64> = (1..case.for_ns / LOOK_NS).map(|look| look * LOOK_NS).collect();
    let mut trail = Trail::new(scenario.machine.topology.nr_cpus(), looks.clone());
    let onlooker = &mut Onlooker {
        sink: &mut trail,
        reads: Vec::new(),
        details: false,
    };
    let result = scenario.watched(onlooker, &mut |_| {})?.result;
    trail.finish(result.simulated_ns);
    let lengths = |at: u64| Some((at, trail.lengths(at).filter(|_| at <= result.simulated_ns)?.to_vec()));
    Ok(Seen {
        looks: looks.into_iter().filter_map(lengths).collect(),
        jobs: trail
            .named("job")
            .map(|(_, task)| (task.born_ns, task.cpu_ns))
            .collect(),
        observed: Observed {
            result,
            trail,
            ..Observed::default()
        },
    })
}
