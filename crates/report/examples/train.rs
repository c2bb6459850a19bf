// SPDX-License-Identifier: GPL-2.0-only
//! Simulates the runs from which scripts/build/fast.sh records the profile for profile-guided
//! optimisation: a shared queue on many CPUs, the fair class, other policies, and chat, which uses
//! sockets. A run whose speed is more important is longer.
//!
//! The records of the runs go to the same consumers as in the command. This program is used in
//! place of the command because it is compiled in half the time.

use bpf::object::Object;
use kernel::{Ended, Machine};
use profile::Profile;
use report::Summary;
use std::path::Path;
use trace::{CpuPosition, Hash, Record, Sink};
use workload::generator;

/// Policies, machine, workload, and simulated time in ms.
const RUNS: [(&[&str], &str, &str, u64); 4] = [
    (&["vtime"], ROW, BUSY, 300),
    (&["eevdf"], ROW, BUSY, 100),
    (&["percpu", "steal", "pmqs", "o1"], "core:4 pu:2", FEW, 50),
    (&["dss", "mqs", "o1", "steal", "eevdf"], "smp8", CHAT, 1000),
];
const ROW: &str = "node:2 core:16 pu:2";
const BUSY: &str = "sleepers:n=1000,run=50us,sleep=50us";
const FEW: &str = "sleepers:n=100,run=50us,sleep=50us";
const CHAT: &str = "chat:rooms=1,messages=2";

struct Sinks {
    hash: Hash,
    summary: Summary,
}

impl Sink for Sinks {
    fn take(&mut self, records: &[Record]) {
        for record in records {
            self.hash.add(record);
        }
        self.summary.take(records);
    }
}

fn main() {
    for (policies, machine, workload, ms) in RUNS {
        for policy in policies {
            let hash = run(policy, machine, workload, ms * 1_000_000);
            println!("{policy}, {machine}, {workload}: trace hash {hash:016x}");
        }
    }
}

/// Simulates `ns` of simulated time and returns the hash of the trace.
fn run(policy: &str, machine: &str, workload: &str, ns: u64) -> u64 {
    let spec = machine::load(machine, &[Path::new("machines")]).expect("a machine");
    let position = |cpu: &machine::Cpu| CpuPosition {
        core: cpu.core,
        llc: cpu.llc,
        node: cpu.node,
    };
    let cpus: Vec<CpuPosition> = spec.topology.cpus.iter().map(position).collect();
    let workload = generator::generate(workload).expect("a workload");
    let mut machine = Machine::new(spec, workload, 1).expect("a machine that can be simulated");
    if policy != "eevdf" {
        let object = format!("target/policies/{policy}.bpf.o");
        let object = Object::open(Path::new(&object)).expect("scripts/build/policies.sh has compiled the policy");
        let loaded = kernel::load::load(&mut machine, &object, &Profile::default(), Default::default());
        assert!(loaded.is_ok(), "{policy} cannot be loaded");
    }
    let mut sinks = Sinks {
        hash: Hash::default(),
        summary: Summary::new(&cpus),
    };
    let ended = machine.advance(ns, &mut sinks).unwrap_or(Ended::Time);
    machine.finish(&ended, ns, &mut sinks);
    sinks.hash.value()
}
