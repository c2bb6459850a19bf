// SPDX-License-Identifier: GPL-2.0-only
//! Measures the costs of interrupts. A thread computes while its CPU is interrupted a known number
//! of times. The extra time of the computation, divided by this number, is the cost.
//!
//! Timers of the thread itself interrupt it for `timer_irq`. For `ipi_receive`, another thread of
//! this process calls membarrier(), which sends an IPI to all CPUs that run threads of the process.

use super::host::{Cpu, Pairs, failed, pin};
use super::{Constant, Kept, ns};
use input::error::Error;
use std::hint::{black_box, spin_loop};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

const BATCHES: u32 = 100;
/// Timers of a batch.
const TIMERS: u32 = 40;
/// Time between two interrupts. A batch takes 2 ms, so most batches are shorter than the period of
/// the tick.
const INTERVAL: Duration = Duration::from_micros(50);
/// A measured cost above this is due to other load, ns.
const PLAUSIBLE_NS: f64 = 100_000.0;
/// Two halves of the batches may differ by this factor.
const SPREAD: f64 = 1.3;

/// Returns the costs that can be measured, and those that keep their defaults.
pub(super) fn measure_interrupts(pairs: &Pairs) -> Result<(Vec<Constant>, Vec<Kept>), Error> {
    let mut constants = Vec::new();
    let mut kept = Vec::new();
    let mut add = |name, measured: Result<f64, String>, source| match measured {
        Ok(cost) => constants.push(ns(name, cost, source)),
        Err(why) => kept.push(Kept { name, why }),
    };
    add(
        "timer_irq",
        timer_irq(pairs.first)?,
        "measured: how much 40 timerfds that expire one after the other delay a computation",
    );
    add(
        "ipi_receive",
        match pairs.others[1..].iter().flatten().next() {
            Some(&other) => ipi_receive(pairs.first, other)?,
            None => Err("this process may use only one CPU".into()),
        },
        "measured: how much the IPIs of membarrier() delay a computation",
    );
    for (name, why) in [
        (
            "ipi_send",
            "user space cannot separate sending an IPI from waiting for its effect",
        ),
        ("softirq", "user space cannot raise a softirq without other work"),
    ] {
        kept.push(Kept {
            name,
            why: why.to_owned(),
        });
    }
    Ok((constants, kept))
}

/// The computation that is interrupted.
fn compute(rounds: u64) {
    let mut x = black_box(1_u64);
    for _ in 0..rounds {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// Returns the number of rounds of the computation that take `time`.
fn rounds_for(time: Duration) -> u64 {
    let rounds = 20_000;
    let once = |_| {
        let begun = Instant::now();
        compute(rounds);
        begun.elapsed()
    };
    let least = (0..20).map(once).min().unwrap_or(time);
    let per_time = u128::from(rounds) * time.as_nanos() / least.as_nanos().max(1);
    u64::try_from(per_time).unwrap_or(rounds)
}

/// Calls `batch` with and without interrupts. `batch` returns its time in ns, and the number of
/// interrupts. Returns the extra time of the fastest batches for each interrupt.
///
/// Batches in which another task preempted this thread are ignored. Fails with a reason if two
/// halves of the batches give different results.
fn extra_time(mut batch: impl FnMut(bool) -> Result<(f64, u64), Error>) -> Result<Result<f64, String>, Error> {
    let mut plain = [f64::INFINITY; 2];
    let mut times = [Vec::new(), Vec::new()];
    for half in (0..BATCHES).map(|nth| nth as usize % 2) {
        for interrupted in [false, true] {
            let before = preemptions();
            let (time, interrupts) = batch(interrupted)?;
            if preemptions() != before {
                continue;
            }
            if !interrupted {
                plain[half] = plain[half].min(time);
            } else if interrupts > 0 {
                times[half].push((time, interrupts));
            }
        }
    }
    let [a, b] = [0, 1].map(|half| {
        let extra = |&(time, interrupts): &(f64, u64)| (time - plain[half]) / interrupts as f64;
        times[half].iter().map(extra).fold(f64::INFINITY, f64::min)
    });
    let (low, high) = (a.min(b), a.max(b));
    Ok(if low > 0.0 && high <= low * SPREAD && high < PLAUSIBLE_NS {
        Ok(low)
    } else {
        Err(format!(
            "other load disturbs the measurement (two halves give {a:.0} and {b:.0} ns)"
        ))
    })
}

/// Returns how often other tasks have preempted this thread.
fn preemptions() -> i64 {
    // SAFETY: all zeros is a valid value, and the call writes no more than its size.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage.ru_nivcsw
    }
}

/// Measures a timer interrupt, in ns. Fails with a reason if this kernel has no timerfds.
fn timer_irq(cpu: Cpu) -> Result<Result<f64, String>, Error> {
    pin(cpu)?;
    let mut timers = Vec::new();
    for _ in 0..TIMERS {
        // SAFETY: the call has no preconditions. A descriptor that it returns has no other owner.
        let timer = unsafe {
            match libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) {
                -1 => return Ok(Err(format!("timerfd_create: {}", std::io::Error::last_os_error()))),
                fd => OwnedFd::from_raw_fd(fd),
            }
        };
        timers.push(timer);
    }
    let rounds = rounds_for(INTERVAL * (TIMERS + 1));
    extra_time(|interrupted| {
        // The timers are set before the computation begins, which takes a while.
        let start = now() + 4 * INTERVAL;
        for (timer, nth) in timers.iter().zip(1..) {
            let at = if interrupted {
                start + INTERVAL * nth
            } else {
                Duration::ZERO
            };
            set_timer(timer, at)?;
        }
        while now() < start {
            spin_loop();
        }
        let begun = Instant::now();
        compute(rounds);
        let time = begun.elapsed();
        let intervals = u64::try_from(time.as_nanos() / INTERVAL.as_nanos()).unwrap_or(u64::MAX);
        let expired = intervals.min(TIMERS.into());
        Ok((time.as_nanos() as f64, if interrupted { expired } else { 0 }))
    })
}

/// Returns the time of CLOCK_MONOTONIC.
fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for writing, and every kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    Duration::from_secs(time.tv_sec.cast_unsigned()) + Duration::from_nanos(time.tv_nsec.cast_unsigned())
}

/// Sets a timer that expires once `at` this time, or disarms it if the time is zero.
fn set_timer(timer: &OwnedFd, at: Duration) -> Result<(), Error> {
    let value = libc::itimerspec {
        it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: libc::timespec {
            tv_sec: at.as_secs().cast_signed(),
            tv_nsec: i64::from(at.subsec_nanos()),
        },
    };
    // SAFETY: the pointer refers to a valid value, and a null pointer omits the old value.
    let status = unsafe {
        libc::timerfd_settime(
            timer.as_raw_fd(),
            libc::TFD_TIMER_ABSTIME,
            &raw const value,
            std::ptr::null_mut(),
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(failed("timerfd_settime"))
    }
}

fn membarrier(command: i32) -> i64 {
    // SAFETY: the call has only integer arguments.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

/// Measures how much an IPI of `sender` delays a thread on `cpu`, in ns. Fails with a reason if
/// this kernel lacks membarrier().
fn ipi_receive(cpu: Cpu, sender: Cpu) -> Result<Result<f64, String>, Error> {
    if membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0 {
        return Ok(Err(format!("membarrier: {}", std::io::Error::last_os_error())));
    }
    let (ready, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let (wanted, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let helper = scope.spawn(|| {
            let pinned = pin(sender);
            ready.store(true, Release);
            while pinned.is_ok() && !over.load(Acquire) {
                let begun = Instant::now();
                while begun.elapsed() < INTERVAL && !over.load(Acquire) {
                    spin_loop();
                }
                if wanted.load(Acquire) {
                    membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
                    sent.fetch_add(1, AcqRel);
                }
            }
            pinned
        });
        while !ready.load(Acquire) {
            spin_loop();
        }
        let cost = pin(cpu).and_then(|()| {
            let rounds = rounds_for(INTERVAL * TIMERS);
            extra_time(|interrupted| {
                wanted.store(interrupted, Release);
                let before = sent.load(Acquire);
                let begun = Instant::now();
                compute(rounds);
                let time = begun.elapsed().as_nanos() as f64;
                let interrupts = sent.load(Acquire) - before;
                Ok((time, if interrupted { interrupts } else { 0 }))
            })
        });
        over.store(true, Release);
        helper.join().expect("the helper does not panic")?;
        cost
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extra_time_is_divided_among_the_interrupts() {
        let mut nth = 0;
        let cost = extra_time(|interrupted| {
            nth += 1;
            // Other load makes some batches slower.
            let load = f64::from(nth % 3) * 1e6;
            Ok(if interrupted {
                (1000.0 + 40.0 * 25.0 + load, 40)
            } else {
                (1000.0 + load, 0)
            })
        });
        let cost = cost.expect("no measurement fails").expect("both halves agree");
        assert!((cost - 25.0).abs() < 1e-6);
    }

    #[test]
    fn a_disturbed_measurement_is_not_used() {
        let mut nth = 0;
        let cost = extra_time(|interrupted| {
            nth += 1;
            let load = f64::from(nth) * 1e4;
            Ok(if interrupted { (1000.0 + load, 40) } else { (1000.0, 0) })
        });
        let why = cost.expect("no measurement fails").expect_err("the halves differ");
        assert!(why.contains("other load"), "{why}");
        let none = extra_time(|interrupted| Ok((1000.0, u64::from(interrupted))));
        assert!(none.expect("no measurement fails").is_err());
    }
}
