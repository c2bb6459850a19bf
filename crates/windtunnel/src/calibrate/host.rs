// SPDX-License-Identifier: GPL-2.0-only
//! The host's CPUs: which may be used, how far apart they are, and pinning to them.

use crate::error::Error;
use input::cpu_list;
use machine::{Distance, Topology};
use std::time::Instant;

/// A CPU: its number on the simulated machine, which leaves out offline ones, and the host's.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    pub number: u32,
    os: usize,
}

/// A CPU to measure on, and for each distance another one that far away.
pub struct Pairs {
    pub first: Cpu,
    /// By `Distance`; `None`: there is none that may be used.
    pub others: [Option<Cpu>; 5],
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
            .enumerate()
            .filter(|&(number, os)| allowed.contains(os) && number < topology.nr_cpus() as usize)
            .map(|(number, &os)| Cpu {
                number: number as u32,
                os,
            })
            .collect();
        let Some(&first) = cpus.first() else {
            return Err(Error::new("this process may use none of the online CPUs"));
        };
        let other = |distance| {
            let mut others = cpus.iter().copied();
            others.find(|cpu| topology.distance(first.number, cpu.number) == distance)
        };
        Ok(Pairs {
            first,
            others: DISTANCES.map(other),
        })
    }

    /// What `measure` says of each distance that occurs.
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

/// The CPUs that this process may use.
fn allowed() -> Result<Vec<usize>, Error> {
    // SAFETY: an all-zero set is a set; the call fills it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Err(failed("sched_getaffinity"));
        }
        set
    };
    // SAFETY: the numbers are within the set.
    Ok((0..libc::CPU_SETSIZE as usize)
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect())
}

/// The host's online CPUs, ascending; all of the first 1024 where it does not say.
fn online() -> Vec<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_else(|_| "0-1023".into());
    let cpus = cpu_list::parse(text.trim(), machine::MAX_CPUS).unwrap_or_default();
    cpus.into_iter().map(|cpu| cpu as usize).collect()
}

/// Pins the calling thread.
pub fn pin(cpu: Cpu) -> Result<(), Error> {
    // SAFETY: an all-zero set is a set, and CPU numbers come from one.
    let ok = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu.os, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
    };
    if ok { Ok(()) } else { Err(failed("sched_setaffinity")) }
}

/// The error of a system call that has just failed.
pub fn failed(call: &str) -> Error {
    Error::new(format!("{call}: {}", std::io::Error::last_os_error()))
}

/// ns that `batch` takes per operation: the least of `batches` runs. It returns how many operations it did.
pub fn least(batches: u32, mut batch: impl FnMut() -> u64) -> f64 {
    let once = |_| {
        let started = Instant::now();
        let operations = batch();
        started.elapsed().as_nanos() as f64 / operations as f64
    };
    (0..batches).map(once).fold(f64::INFINITY, f64::min)
}
