// SPDX-License-Identifier: GPL-2.0-only
//! Many runs at once: threads that each take the next job. What a job gives does not depend on who took it when.

use crate::error::Error;
use crate::interrupt;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Told how much of how much is done.
pub type Progress<'a> = dyn Fn(u64, u64) + Sync + 'a;

/// Does every job, on `threads` threads or as many as there are CPUs, and returns what they gave in their order. A job tells
/// the share of it that is done, in 0..=1000.
///
/// # Errors
/// The first of the jobs' errors, in their order. No job is begun after one has failed.
pub fn run<Job: Sync, Done: Send>(
    jobs: &[Job],
    threads: Option<NonZero<usize>>,
    progress: &Progress,
    run: impl Fn(&Job, &mut dyn FnMut(u64)) -> Result<Done, Error> + Sync,
) -> Result<Vec<Done>, Error> {
    // Jobs after one that failed may not have run.
    let done = each(jobs, threads, progress, run, &|| false);
    done.into_iter().flatten().collect()
}

/// As [`run`], but a signal ([`interrupt`]) ends it early: `None` stands for a job that was not begun, or that says so itself.
///
/// # Errors
/// As [`run`].
pub fn run_until_interrupted<Job: Sync, Done: Send>(
    jobs: &[Job],
    threads: Option<NonZero<usize>>,
    progress: &Progress,
    run: impl Fn(&Job, &mut dyn FnMut(u64)) -> Result<Option<Done>, Error> + Sync,
) -> Result<Vec<Option<Done>>, Error> {
    let done = each(jobs, threads, progress, run, &|| interrupt::signal().is_some());
    done.into_iter().map(|done| done.unwrap_or(Ok(None))).collect()
}

/// What each job gave; `None` of one that was not begun because one failed or `stop` said so.
fn each<Job: Sync, Done: Send>(
    jobs: &[Job],
    threads: Option<NonZero<usize>>,
    progress: &Progress,
    run: impl Fn(&Job, &mut dyn FnMut(u64)) -> Result<Done, Error> + Sync,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<Option<Result<Done, Error>>> {
    let at_hand = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let threads = threads.unwrap_or(at_hand).get().min(jobs.len().max(1));
    let next = AtomicUsize::new(0);
    let (finished, all) = (AtomicU64::new(0), 1000 * jobs.len() as u64);
    let done: Mutex<Vec<Option<Result<Done, Error>>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    progress(0, all);
    let work = || {
        while !stop() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { break };
            let mut told = 0;
            let mut tell = |share: u64| {
                let before = finished.fetch_add(share - told, Ordering::Relaxed);
                progress(before + share - told, all);
                told = share;
            };
            let result = run(job, &mut tell);
            tell(1000);
            if result.is_err() {
                // Nobody takes another one.
                next.store(jobs.len(), Ordering::Relaxed);
            }
            if let Ok(mut done) = done.lock() {
                done[index] = Some(result);
            }
        }
    };
    match threads {
        // On the caller's thread: a job may fork.
        1 => work(),
        _ => std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        }),
    }
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs_and_the_first_error_wins() {
        let jobs: Vec<u64> = (0..50).collect();
        let told = AtomicU64::new(0);
        let progress = |done: u64, of: u64| {
            assert!(done <= of);
            told.fetch_max(done, Ordering::Relaxed);
        };
        let double = |job: &u64, tell: &mut dyn FnMut(u64)| {
            tell(300);
            Ok(2 * job)
        };
        let done = run(&jobs, NonZero::new(4), &progress, double).expect("no errors");
        assert_eq!(done, jobs.iter().map(|job| 2 * job).collect::<Vec<_>>());
        assert_eq!(told.into_inner(), 50_000);
        let failing = |job: &u64, _: &mut dyn FnMut(u64)| match job {
            0..7 => Ok(()),
            job => Err(Error::new(format!("job {job}"))),
        };
        let error = run(&jobs, NonZero::new(1), &|_, _| {}, failing).expect_err("an error");
        assert_eq!(error.message, "job 7");
    }
}
