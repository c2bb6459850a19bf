// SPDX-License-Identifier: GPL-2.0-only
//! The machine of a script: CPU 0, on which no task of the script runs, and the CPUs from 1.

use crate::words::Words;
use input::{Error, index};
use machine::topology::{Cpu, Topology};
use machine::{Features, KernelConfig, MachineSpec};

/// Maximum number of CPUs besides CPU 0.
const MAX_CPUS: u32 = 16;
const MAX_NODES: usize = 4;
const FULL_CAPACITY: u32 = 1024;

/// The line with the machine. For each CPU, the lists have the number of its set; CPU 1 comes first.
#[derive(Clone, Debug)]
pub(crate) struct MachineLine {
    pub nr_cpus: u32,
    cores: Vec<u32>,
    llcs: Vec<u32>,
    nodes: Vec<u32>,
    distances: Vec<Vec<u32>>,
    capacities: Vec<u32>,
    features: Features,
}

/// Parses sets of CPUs such as `1-2/3-4`. Returns the number of each CPU's set. CPUs that are in no
/// set have a set of their own.
fn sets(words: &Words, word: crate::words::Word, nr_cpus: u32) -> Result<Vec<u32>, Error> {
    let mut set_of: Vec<Option<u32>> = vec![None; nr_cpus as usize];
    let mut nr = 0;
    for part in word.text.split('/') {
        let part = crate::words::Word {
            text: part,
            column: word.column,
        };
        for cpu in words.cpus(part, nr_cpus)? {
            if set_of[cpu as usize - 1].replace(nr).is_some() {
                return Err(words.error(word.column, format!("CPU {cpu} is in two sets")));
            }
        }
        nr += 1;
    }
    // Sets are numbered by their first CPUs.
    let mut numbers: Vec<Option<u32>> = vec![None; nr as usize];
    let mut next = 0;
    Ok(set_of
        .into_iter()
        .map(|set| {
            let mut fresh = || {
                next += 1;
                next - 1
            };
            match set {
                Some(set) => *numbers[set as usize].get_or_insert_with(fresh),
                None => fresh(),
            }
        })
        .collect())
}

impl MachineLine {
    pub(crate) fn parse(words: &mut Words) -> Result<MachineLine, Error> {
        let known = [
            "cpus",
            "smt",
            "cluster",
            "llc",
            "nodes",
            "distances",
            "capacities",
            "features",
        ];
        let Some(cpus) = words.value("cpus") else {
            words.finish(&known)?;
            return Err(words
                .error(1, "expected cpus=N")
                .hint("write a line such as `machine cpus=4`"));
        };
        let nr_cpus = words.number(cpus, 1, MAX_CPUS)?;
        let own: Vec<u32> = (0..nr_cpus).collect();
        let mut set_of = |key: &str| {
            words
                .value(key)
                .map(|word| Ok::<_, Error>((word, sets(words, word, nr_cpus)?)))
                .transpose()
        };
        let smt = set_of("smt")?;
        let cluster = set_of("cluster")?;
        let llc = set_of("llc")?;
        let nodes = set_of("nodes")?;
        let cores = smt.map_or(own, |(_, cores)| cores);
        if let Some((word, cluster)) = cluster
            && cluster != cores
        {
            let error = words.error(word.column, "clusters within a last-level cache are not modelled");
            return Err(error.hint("leave cluster= out"));
        }
        let nodes_word = nodes.as_ref().map(|(word, _)| word.column);
        let nodes = nodes.map_or_else(|| vec![0; nr_cpus as usize], |(_, nodes)| nodes);
        let nr_nodes = nodes.iter().max().map_or(1, |&last| last as usize + 1);
        if nr_nodes > MAX_NODES {
            return Err(words.error(
                nodes_word.unwrap_or(1),
                format!("a machine has at most {MAX_NODES} nodes"),
            ));
        }
        let llcs = llc.map_or_else(|| nodes.clone(), |(_, llcs)| llcs);
        let mut distances = vec![vec![20; nr_nodes]; nr_nodes];
        (0..nr_nodes).for_each(|node| distances[node][node] = 10);
        if let Some(word) = words.value("distances") {
            let rows: Vec<Vec<u32>> = word
                .text
                .split('/')
                .map(|row| row.split(',').filter_map(|distance| distance.parse().ok()).collect())
                .collect();
            let valid =
                |row: &Vec<u32>| row.len() == nr_nodes && row.iter().all(|distance| (10..255).contains(distance));
            if rows.len() != nr_nodes || !rows.iter().all(valid) {
                let message = format!("expected {nr_nodes} rows of {nr_nodes} distances from 10 to 254");
                return Err(words
                    .error(word.column, message)
                    .hint("write a table such as 10,20/20,10"));
            }
            distances = rows;
        }
        let mut capacities = vec![FULL_CAPACITY; nr_cpus as usize];
        if let Some(word) = words.value("capacities") {
            let listed: Vec<u32> = word
                .text
                .split(',')
                .filter_map(|capacity| capacity.parse().ok())
                .collect();
            let valid = |capacity: &u32| (1..=FULL_CAPACITY).contains(capacity);
            if listed.len() != nr_cpus as usize || !listed.iter().all(valid) {
                let message = format!("expected {nr_cpus} capacities from 1 to {FULL_CAPACITY}");
                return Err(words.error(word.column, message).hint("write a list such as 1024,512"));
            }
            capacities = listed;
        }
        let mut features = Features::default();
        if let Some(word) = words.value("features") {
            let mut column = word.column;
            for name in word.text.split(',') {
                features.apply("features", name).map_err(|error| Error {
                    hint: error.hint,
                    ..words.error(column, error.message)
                })?;
                column += name.chars().count() + 1;
            }
        }
        words.finish(&known)?;
        Ok(MachineLine {
            nr_cpus,
            cores,
            llcs,
            nodes,
            distances,
            capacities,
            features,
        })
    }

    /// Returns the machine. CPU 0 has a core and a last-level cache of its own.
    pub(crate) fn spec(&self) -> MachineSpec {
        let cpu = |nr: u32| {
            let of = |list: &[u32]| nr.checked_sub(1).map(|at| list[at as usize]);
            let core = of(&self.cores).map_or(0, |core| core + 1);
            let before = (1..nr)
                .filter(|&other| self.cores[other as usize - 1] + 1 == core)
                .count();
            Cpu {
                core,
                thread: index(before),
                llc: of(&self.llcs).map_or(0, |llc| llc + 1),
                node: of(&self.nodes).unwrap_or(0),
                package: of(&self.nodes).unwrap_or(0),
                capacity: of(&self.capacities).unwrap_or(FULL_CAPACITY),
                l1d_bytes: 0,
                l2_bytes: 0,
                llc_bytes: 0,
            }
        };
        let topology = Topology::new((0..=self.nr_cpus).map(cpu).collect(), self.distances.clone());
        let threads = topology.cores.iter().map(Vec::len).max().unwrap_or(1);
        MachineSpec {
            name: "script".to_string(),
            topology,
            hz: 250,
            smt_throughput: vec![FULL_CAPACITY; threads],
            kernel: KernelConfig {
                no_numa_balancing: true,
                features: self.features,
                ..KernelConfig::default()
            },
            ..MachineSpec::smp(self.nr_cpus + 1).free()
        }
    }
}
