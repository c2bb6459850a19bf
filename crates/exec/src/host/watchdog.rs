// SPDX-License-Identifier: GPL-2.0-only
//! Stops a program that computes for too long without a system call, and notices a program that was
//! killed from outside.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest time that a program may compute between two system calls.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// Value for a program that is stopped.
const STOPPED: u64 = u64::MAX;
/// Value for a program that was stopped because it was late.
const ENDED: u64 = u64::MAX - 1;
/// Value that ends the watchdog itself.
const OVER: u64 = u64::MAX - 2;

/// A thread that watches the program. It has no effect on programs that make system calls.
pub(crate) struct Watchdog {
    started: Instant,
    /// Time at which the program continued, in ms since `started`, or one of the values above.
    since: Arc<AtomicU64>,
    /// Id on the host of the thread that continued.
    running: Arc<AtomicI32>,
    /// Ids on the host of the threads that exist.
    threads: Arc<Mutex<Vec<i32>>>,
}

impl Watchdog {
    /// Watches the process with this id on the host.
    pub fn new(pid: i32) -> Watchdog {
        let (started, since) = (Instant::now(), Arc::new(AtomicU64::new(STOPPED)));
        let running = Arc::new(AtomicI32::new(pid));
        let threads = Arc::new(Mutex::new(vec![pid]));
        let (watched, thread, all) = (Arc::clone(&since), Arc::clone(&running), Arc::clone(&threads));
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(500));
                let at = watched.load(SeqCst);
                if at == OVER {
                    return;
                }
                reap(pid, thread.load(SeqCst), &all);
                let now = started.elapsed().as_millis() as u64;
                let late = at < OVER && now.saturating_sub(at) > LIMIT.as_millis() as u64;
                if late && watched.compare_exchange(at, ENDED, SeqCst, SeqCst).is_ok() {
                    // The thread stops, so that the tracer can end the process.
                    // SAFETY: the call takes numbers only, and the process is a child that was not waited
                    // for, so its number belongs to no other process.
                    unsafe { libc::syscall(libc::SYS_tgkill, pid, thread.load(SeqCst), libc::SIGSTOP) };
                    return;
                }
            }
        });
        Watchdog {
            started,
            since,
            running,
            threads,
        }
    }

    /// Adds a new thread.
    pub fn add(&self, tid: i32) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.push(tid);
    }

    /// Removes a thread that the tracer waits for.
    pub fn remove(&self, tid: i32) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|&thread| thread != tid);
    }

    /// Returns the threads that exist, oldest first.
    pub fn threads(&self) -> Vec<i32> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that a thread of the program continues.
    pub fn continues(&self, tid: i32) {
        self.running.store(tid, SeqCst);
        self.since.store(self.started.elapsed().as_millis() as u64, SeqCst);
    }

    /// Notes that the program has stopped. Returns false if the watchdog has stopped it.
    pub fn stops(&self) -> bool {
        self.since.swap(STOPPED, SeqCst) != ENDED
    }
}

/// Collects the status of threads that have ended although they were stopped, because the process was
/// killed. The end of its first thread is reported only afterwards.
fn reap(pid: i32, running: i32, threads: &Mutex<Vec<i32>>) {
    let mut threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
    threads.retain(|&tid| {
        if tid == pid || tid == running {
            return true;
        }
        // SAFETY: all bytes of the struct may be zero, and it is valid during the call.
        let ended = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOHANG | libc::__WALL;
            let done = libc::waitid(libc::P_PID, tid as libc::id_t, &raw mut info, flags);
            done == 0 && info.si_pid() == tid
        };
        !ended
    });
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.since.store(OVER, SeqCst);
    }
}
