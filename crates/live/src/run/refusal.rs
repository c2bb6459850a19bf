// SPDX-License-Identifier: GPL-2.0-only
//! What a workload asked of the kernel and did not get: the tasks go on without it, and the user is told.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A request that can be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Affinity,
    Nice,
    RealTime,
    Ext,
    Process,
    Thread,
    File,
    Cgroup,
    /// Its process has other threads.
    Exec,
}

const REQUESTS: [(Request, &str, &str); 9] = [
    (
        Request::Affinity,
        "affinity",
        "it names CPUs that this machine, or --cpus, does not have",
    ),
    (Request::Nice, "nice value", "run as root"),
    (
        Request::RealTime,
        "real-time priority",
        "run as root; the tasks ran as normal ones",
    ),
    (
        Request::Ext,
        "SCHED_EXT",
        "this kernel has no sched_ext; the tasks ran as normal ones",
    ),
    (Request::Process, "process", "see `ulimit -u` and the memory there is"),
    (Request::Thread, "thread", "see `ulimit -u` and the memory there is"),
    (
        Request::File,
        "write to a file",
        "TMPDIR names a folder that can be written",
    ),
    (Request::Cgroup, "cgroup", "the tasks stayed where they were"),
    (
        Request::Exec,
        "exec",
        "the process has other threads, which it would end, or the workload cannot be read again; the task only took its new name",
    ),
];

#[repr(C)]
#[derive(Default)]
struct Count {
    number: AtomicU64,
    errno: AtomicU32,
}

/// In memory that all processes share.
#[repr(C)]
#[derive(Default)]
pub struct Refusals {
    counts: [Count; REQUESTS.len()],
}

impl Refusals {
    /// `errno` tells why.
    pub fn add(&self, request: Request) {
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        let count = &self.counts[request as usize];
        count.number.fetch_add(1, Ordering::Relaxed);
        count.errno.store(errno as u32, Ordering::Relaxed);
    }

    /// A line each.
    pub fn told(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (request, name, hint) in REQUESTS {
            let count = &self.counts[request as usize];
            let number = count.number.load(Ordering::Relaxed);
            let errno = count.errno.load(Ordering::Relaxed) as i32;
            let why = match request {
                Request::Exec => "a rename instead".to_owned(),
                _ => io::Error::from_raw_os_error(errno).to_string(),
            };
            if number > 0 {
                lines.push(format!("{number} x {name} refused ({why}): {hint}"));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_its_line() {
        let refusals = Refusals::default();
        for (at, (request, ..)) in REQUESTS.iter().enumerate() {
            assert_eq!(*request as usize, at);
        }
        refusals.add(Request::Nice);
        refusals.add(Request::Nice);
        let told = refusals.told();
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("2 x nice value refused ("), "{told:?}");
    }
}
