// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs of the host: which ones this process may use, how to pin a thread to one of them, and
//! pairs of CPUs at each distance.
//!
//! The distance of two CPUs is the closest of these five relations: the same CPU, threads of one
//! core, the same last-level cache, the same memory node, different memory nodes.

use input::cpu_list;
use input::error::Error;
use machine::{Distance, Topology};
use std::time::Instant;

/// A CPU of the host.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// Number of the CPU in the machine file. The machine file numbers only online CPUs, without
    /// gaps.
    pub number: u32,
    /// Number of the CPU in the host's kernel.
    os: usize,
}

/// The CPU on which the measurements run, and one partner CPU at each distance from it.
pub struct Pairs {
    pub first: Cpu,
    /// Partners, indexed by `Distance`. `None` if no usable CPU is that far away.
    pub others: [Option<Cpu>; 5],
    /// The usable CPUs of the core to which `first` belongs. The list begins with `first`.
    pub core: Vec<Cpu>,
    /// The usable CPUs of the node to which `first` belongs. `first` comes first.
    pub node: Vec<Cpu>,
}

const DISTANCES: [Distance; 5] = [
    Distance::Same,
    Distance::Core,
    Distance::Llc,
    Distance::Node,
    Distance::Remote,
];

impl Pairs {
    pub fn find(topology: &Topology) -> Result<Pairs, Error> {
        let allowed = allowed()?;
        let online = online();
        let cpus: Vec<Cpu> = online
            .iter()
            .zip(0..topology.nr_cpus())
            .filter(|(os, _)| allowed.contains(os))
            .map(|(&os, number)| Cpu { number, os })
            .collect();
        let Some(&first) = cpus.first() else {
            return Err(Error::new("the CPU affinity of this process contains no online CPU"));
        };
        let other = |distance| {
            let mut others = cpus.iter().copied();
            others.find(|cpu| topology.distance(first.number, cpu.number) == distance)
        };
        let within = |most| {
            let near = |cpu: &Cpu| topology.distance(first.number, cpu.number) <= most;
            cpus.iter().copied().filter(near).collect()
        };
        Ok(Pairs {
            first,
            others: DISTANCES.map(other),
            core: within(Distance::Core),
            node: within(Distance::Node),
        })
    }

    /// Calls `measure` once for each partner, with the first CPU and the partner. Returns the
    /// results by distance.
    pub fn map(&self, mut measure: impl FnMut(Cpu, Cpu) -> Result<f64, Error>) -> Result<[Option<f64>; 5], Error> {
        let mut values = [None; 5];
        for (value, other) in values.iter_mut().zip(self.others) {
            if let Some(other) = other {
                *value = Some(measure(self.first, other)?);
            }
        }
        Ok(values)
    }
}

/// Returns the CPUs that this process may use.
fn allowed() -> Result<Vec<usize>, Error> {
    // SAFETY: a set of all zeros is valid and empty. The call writes at most the size of the set.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Err(failed("sched_getaffinity"));
        }
        set
    };
    // SAFETY: the CPU numbers are below CPU_SETSIZE.
    Ok((0..libc::CPU_SETSIZE as usize)
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect())
}

/// Returns the host's online CPUs in ascending order. If sysfs does not list them, returns CPUs 0
/// to 1023.
fn online() -> Vec<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_else(|_| "0-1023".into());
    let cpus = cpu_list::parse(text.trim(), machine::MAX_CPUS).unwrap_or_default();
    cpus.into_iter().map(|cpu| cpu as usize).collect()
}

/// Pins the calling thread to a CPU.
pub fn pin(cpu: Cpu) -> Result<(), Error> {
    // SAFETY: a set of all zeros is valid and empty. The CPU number was read from a set of this
    // type, so it is below CPU_SETSIZE.
    let ok = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu.os, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
    };
    if ok { Ok(()) } else { Err(failed("sched_setaffinity")) }
}

/// Returns an error that names the failed system call and describes the current errno.
pub fn failed(call: &str) -> Error {
    Error::new(format!("{call}: {}", std::io::Error::last_os_error()))
}

/// Runs `batch` `batches` times and returns the time per operation of the fastest batch, in ns.
/// `batch` returns the number of operations that it has executed.
pub fn least(batches: u32, mut batch: impl FnMut() -> u64) -> f64 {
    let once = |_| {
        let started = Instant::now();
        let operations = batch();
        started.elapsed().as_nanos() as f64 / operations as f64
    };
    (0..batches).map(once).fold(f64::INFINITY, f64::min)
}
