// SPDX-License-Identifier: GPL-2.0-only
//! Reads the kernel's counters of a task. A task reads its own counters when it exits. The process
//! that started the workload reads the counters of tasks that are still alive at the end.

use super::shared::{gettid, read_clock};
use report::TaskCounters;
use std::fs;

/// Returns the calling thread's counters, except those that only /proc contains.
pub fn own() -> TaskCounters {
    // SAFETY: `usage` is valid for writing.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    TaskCounters {
        cpu_ns: read_clock(libc::CLOCK_THREAD_CPUTIME_ID),
        voluntary: usage.ru_nvcsw as u64,
        involuntary: usage.ru_nivcsw as u64,
        ..TaskCounters::default()
    }
}

/// Returns all counters of the calling thread.
pub fn own_all() -> TaskCounters {
    thread(gettid()).unwrap_or_default()
}

/// Returns the counters of a thread, or `None` if it has exited.
pub fn thread(tid: u32) -> Option<TaskCounters> {
    // The time in schedstat may be old by a tick. The clock of a thread (make_thread_cpuclock() in
    // the kernel) is exact. It is read first, because reading the files takes time.
    const THREAD_CLOCK: i32 = 6;
    let cpu_ns = read_clock(!tid.cast_signed() << 3 | THREAD_CLOCK);
    let read = |name: &str| fs::read_to_string(format!("/proc/{tid}/{name}")).ok();
    let counters = parse(
        &read("schedstat").unwrap_or_default(),
        &read("status")?,
        &read("sched").unwrap_or_default(),
    );
    Some(TaskCounters {
        cpu_ns: cpu_ns.max(counters.cpu_ns),
        ..counters
    })
}

fn parse(schedstat: &str, status: &str, sched: &str) -> TaskCounters {
    let mut words = schedstat.split_whitespace().map(|word| word.parse().unwrap_or(0));
    let mut next = || words.next().unwrap_or(0);
    let value = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit([':', ' ', '\t']).next()?.parse().ok())
            .unwrap_or(0)
    };
    TaskCounters {
        cpu_ns: next(),
        wait_ns: next(),
        waits: next(),
        voluntary: value(status, "voluntary_ctxt_switches"),
        involuntary: value(status, "nonvoluntary_ctxt_switches"),
        migrations: value(sched, "se.nr_migrations"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_proc() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        let sched = "x (1, #threads: 1)\nse.nr_migrations                 :           7\n";
        let counts = parse("5000 600 14\n", status, sched);
        let expected = TaskCounters {
            cpu_ns: 5000,
            voluntary: 12,
            involuntary: 3,
            wait_ns: 600,
            waits: 14,
            migrations: 7,
        };
        assert_eq!(counts, expected);
        assert_eq!(parse("", "", ""), TaskCounters::default());
    }

    #[test]
    fn a_thread_can_read_its_own_counters() {
        let before = own();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let after = thread(gettid()).expect("/proc contains the running thread");
        assert!(after.voluntary > before.voluntary, "{before:?} {after:?}");
        assert!(after.cpu_ns > 0);
    }
}
