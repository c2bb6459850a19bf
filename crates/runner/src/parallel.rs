// SPDX-License-Identifier: GPL-2.0-only
//! Executes jobs on several threads. The results do not depend on which thread executes which job.

use crate::inputs::Inputs;
use crate::interrupt;
use crate::scenario::Outcome;
use crate::spec::RunSpec;
use input::error::Error;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A function that is called with the completed work and the total work. Each job counts as 1000.
pub type Progress<'a> = dyn Fn(u64, u64) + Sync + 'a;

/// Executes every job and returns the results in the order of the jobs. If `threads` is `None`,
/// uses one thread for each CPU of the host. `run` calls its second argument with the progress of
/// the job, from 0 to 1000.
///
/// # Errors
/// The first error in the order of the jobs. After an error, no further job is started.
pub fn run<Job: Sync, Done: Send>(
    jobs: &[Job],
    threads: Option<NonZero<usize>>,
    progress: &Progress,
    run: impl Fn(&Job, &mut dyn FnMut(u64)) -> Result<Done, Error> + Sync,
) -> Result<Vec<Done>, Error> {
    // After an error, some jobs are not started and have no result. flatten() skips them, and
    // collect() returns the first error.
    let done = run_jobs(jobs, threads, progress, run, &|| false);
    done.into_iter().flatten().collect()
}

/// Like [`run`], but a signal ends it early ([`interrupt`]). The result of a job is `None` if the
/// job was not started, or if `run` returned `None`.
///
/// # Errors
/// The errors of [`run`].
pub fn run_until_interrupted<Job: Sync, Done: Send>(
    jobs: &[Job],
    threads: Option<NonZero<usize>>,
    progress: &Progress,
    run: impl Fn(&Job, &mut dyn FnMut(u64)) -> Result<Option<Done>, Error> + Sync,
) -> Result<Vec<Option<Done>>, Error> {
    let done = run_jobs(jobs, threads, progress, run, &|| interrupt::signal().is_some());
    done.into_iter().map(|done| done.unwrap_or(Ok(None))).collect()
}

/// Executes runs and returns their outcomes, in the order of the runs. The outcome is `None` if a
/// signal ended the run, or came before it was started.
///
/// # Errors
/// The first user error in the order of the runs.
pub fn run_all(
    inputs: &Inputs,
    runs: &[RunSpec],
    threads: Option<NonZero<usize>>,
    progress: &Progress,
) -> Result<Vec<Option<Outcome>>, Error> {
    run_until_interrupted(runs, threads, progress, |run, report| {
        let outcome = inputs.resolve(run)?.run(report)?;
        Ok(Some(outcome).filter(|outcome| !outcome.result.interrupted))
    })
}

/// Executes the jobs and returns their results. `None` means that the job was not started, because
/// another job failed or `stop` returned true.
fn run_jobs<Job: Sync, Done: Send>(
    jobs: &[Job],
    threads: Option<NonZero<usize>>,
    progress: &Progress,
    run: impl Fn(&Job, &mut dyn FnMut(u64)) -> Result<Done, Error> + Sync,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<Option<Result<Done, Error>>> {
    let available = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let threads = threads.unwrap_or(available).get().min(jobs.len().max(1));
    let next = AtomicUsize::new(0);
    let (finished, all) = (AtomicU64::new(0), 1000 * jobs.len() as u64);
    let done: Mutex<Vec<Option<Result<Done, Error>>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    progress(0, all);
    let work = || {
        while !stop() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { break };
            let mut reported = 0;
            let mut report = |share: u64| {
                let before = finished.fetch_add(share - reported, Ordering::Relaxed);
                progress(before + share - reported, all);
                reported = share;
            };
            let result = run(job, &mut report);
            report(1000);
            if result.is_err() {
                // No further job is started, so all threads stop after their current jobs.
                next.store(jobs.len(), Ordering::Relaxed);
            }
            if let Ok(mut done) = done.lock() {
                done[index] = Some(result);
            }
        }
    };
    match threads {
        // The jobs of `windtunnel live` fork processes, which only the calling thread may do. With
        // `threads` = 1, the calling thread therefore executes the jobs itself.
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
    fn results_are_in_job_order_and_the_first_error_is_returned() {
        let jobs: Vec<u64> = (0..50).collect();
        let reported = AtomicU64::new(0);
        let progress = |done: u64, total: u64| {
            assert!(done <= total);
            reported.fetch_max(done, Ordering::Relaxed);
        };
        let double = |job: &u64, report: &mut dyn FnMut(u64)| {
            report(300);
            Ok(2 * job)
        };
        let done = run(&jobs, NonZero::new(4), &progress, double).expect("no job fails");
        assert_eq!(done, jobs.iter().map(|job| 2 * job).collect::<Vec<_>>());
        assert_eq!(reported.into_inner(), 50_000);
        let failing = |job: &u64, _: &mut dyn FnMut(u64)| match job {
            0..7 => Ok(()),
            job => Err(Error::new(format!("job {job}"))),
        };
        let error = run(&jobs, NonZero::new(1), &|_, _| {}, failing).expect_err("an error");
        assert_eq!(error.message, "job 7");
    }
}
