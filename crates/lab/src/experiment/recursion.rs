// SPDX-License-Identifier: GPL-2.0-only
//! Computes exact response times of a queueing system for given arrivals and service times.
//!
//! Sources: Lindley (1952) for one server, Kiefer and Wolfowitz (1955) for several servers.
//! Processor sharing is computed in virtual time. While n jobs are present, virtual time runs n
//! times slower than real time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The arrival time and the service time of a job, in ns.
pub type Job = (u64, u64);

/// Returns the sum of all response times in ns if `servers` servers serve the jobs first come,
/// first served. `jobs` must be sorted by arrival time.
pub fn fcfs(jobs: &[Job], servers: usize) -> f64 {
    let mut free: BinaryHeap<Reverse<u64>> = (0..servers).map(|_| Reverse(0)).collect();
    let mut sum = 0;
    for &(arrival, work) in jobs {
        let Some(mut server) = free.peek_mut() else { break };
        server.0 = server.0.max(arrival) + work;
        sum += u128::from(server.0 - arrival);
    }
    sum as f64
}

/// Returns the sum of all response times in ns if all present jobs share one server equally. `jobs`
/// must be sorted by arrival time.
pub fn sharing(jobs: &[Job]) -> f64 {
    // Virtual time is counted in fractions of a ns, because it is real time divided by the number
    // of jobs.
    const FRACTION: u128 = 1 << 20;
    let mut present: BinaryHeap<Reverse<(u128, u64)>> = BinaryHeap::new();
    let (mut now, mut virtual_now) = (0_u64, 0_u128);
    let mut sum = 0;
    let mut next = jobs.iter().peekable();
    loop {
        let n = present.len() as u128;
        let next_end = present.peek().map(|Reverse((end, _))| {
            let real = ((end - virtual_now) * n).div_ceil(FRACTION);
            now.saturating_add(u64::try_from(real).unwrap_or(u64::MAX))
        });
        let arrives = next.peek().map(|(arrival, _)| *arrival);
        match (next_end, arrives) {
            (None, None) => return sum as f64,
            (Some(ended), arrives) if arrives.is_none_or(|arrival| ended <= arrival) => {
                let Some(Reverse((end, arrived))) = present.pop() else {
                    continue;
                };
                (now, virtual_now) = (ended, end);
                sum += u128::from(ended - arrived);
            }
            _ => {
                let Some(&(arrival, work)) = next.next() else { continue };
                // While no job is present, virtual time stands still.
                virtual_now += (u128::from(arrival - now) * FRACTION).checked_div(n).unwrap_or(0);
                now = arrival;
                present.push(Reverse((virtual_now + u128::from(work) * FRACTION, arrival)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served_times_are_exact() {
        // The jobs end at 10, 15 and 33. The second job arrives at 4 and waits until 10.
        let jobs = [(0, 10), (4, 5), (30, 3)];
        assert_eq!(fcfs(&jobs, 1), 10.0 + 11.0 + 3.0);
        assert_eq!(fcfs(&jobs, 2), 10.0 + 5.0 + 3.0);
        // Two jobs end at 6, and the third at 12.
        assert_eq!(fcfs(&[(0, 6), (0, 6), (0, 6)], 2), 6.0 + 6.0 + 12.0);
    }

    #[test]
    fn processor_sharing_times_are_exact() {
        // The first job runs alone until 4 and then shares the server with the second. The second
        // job has 5 ns of work and ends at 14. The first job ends at 15.
        assert_eq!(sharing(&[(0, 10), (4, 5), (30, 3)]), 15.0 + 10.0 + 3.0);
        assert_eq!(sharing(&[(0, 6), (0, 6), (0, 6)]), 3.0 * 18.0);
        assert_eq!(sharing(&[]), 0.0);
    }
}
