// SPDX-License-Identifier: GPL-2.0-only
//! Counts the requests that the kernel refused. The tasks continue without them, and the user gets
//! a warning.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A request of a task that the kernel may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Affinity,
    Nice,
    RealTime,
    /// Slices of a given length.
    Slice,
    Ext,
    Process,
    Thread,
    File,
    Cgroup,
    /// Exec, which a task cannot do if its process has other threads.
    Exec,
    /// A section without migration, or a kernel thread. Both exist only in the kernel.
    KernelOnly,
    User,
}

const REQUESTS: [(Request, &str, &str); 12] = [
    (
        Request::Affinity,
        "affinity",
        "the workload names CPUs that this machine or --cpus does not have",
    ),
    (Request::Nice, "nice value", "run as root"),
    (
        Request::RealTime,
        "real-time priority",
        "run as root; the tasks ran as SCHED_OTHER",
    ),
    (
        Request::Slice,
        "slice",
        "this kernel is older than Linux 6.12; the tasks had the default slice",
    ),
    (
        Request::Ext,
        "SCHED_EXT",
        "this kernel has no sched_ext; the tasks ran as SCHED_OTHER",
    ),
    (
        Request::Process,
        "process",
        "check `ulimit -u` and the available memory",
    ),
    (Request::Thread, "thread", "check `ulimit -u` and the available memory"),
    (Request::File, "write to a file", "set TMPDIR to a writable directory"),
    (Request::Cgroup, "cgroup", "the tasks stayed in their previous cgroup"),
    (
        Request::Exec,
        "exec",
        "exec would end the other threads of the process, or the workload cannot be loaded again; the task only took the new name",
    ),
    (
        Request::KernelOnly,
        "kernel feature",
        "user space can neither disable migration nor create kernel threads; the tasks ran without",
    ),
    (Request::User, "user id", "run as root"),
];

#[repr(C)]
#[derive(Default)]
struct Count {
    number: AtomicU64,
    errno: AtomicU32,
}

/// Number of refusals of each request, in memory that all processes share.
#[repr(C)]
#[derive(Default)]
pub struct Refusals {
    counts: [Count; REQUESTS.len()],
}

impl Refusals {
    /// Counts a refusal. The reason is the current errno of the calling thread.
    pub fn add(&self, request: Request) {
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        let count = &self.counts[request as usize];
        count.number.fetch_add(1, Ordering::Relaxed);
        count.errno.store(errno as u32, Ordering::Relaxed);
    }

    /// Returns one line for each refused request.
    pub fn messages(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (request, name, hint) in REQUESTS {
            let count = &self.counts[request as usize];
            let number = count.number.load(Ordering::Relaxed);
            let errno = count.errno.load(Ordering::Relaxed) as i32;
            let why = match request {
                Request::Exec => "a rename instead".to_owned(),
                Request::KernelOnly | Request::Slice => "not possible".to_owned(),
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
    fn repeated_refusals_share_one_line() {
        let refusals = Refusals::default();
        for (at, (request, ..)) in REQUESTS.iter().enumerate() {
            assert_eq!(*request as usize, at);
        }
        refusals.add(Request::Nice);
        refusals.add(Request::Nice);
        let messages = refusals.messages();
        assert_eq!(messages.len(), 1);
        assert!(messages[0].starts_with("2 x nice value refused ("), "{messages:?}");
    }
}
