// SPDX-License-Identifier: GPL-2.0-only
//! Exact response times of a queueing system for given arrivals and service times, by recursion instead of simulation.
//!
//! Source: Lindley (1952) for one server, Kiefer and Wolfowitz (1955) for several; processor sharing in virtual time, which
//! runs at 1/n of real time while n jobs are there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A job: when it arrives and what it needs, in ns.
pub type Job = (u64, u64);

/// The sum of response times, ns, of jobs in order of arrival that the first of `servers` to be free serves in that order.
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

/// The sum of response times, ns, of jobs in order of arrival that share one server equally.
pub fn sharing(jobs: &[Job]) -> f64 {
    // Jobs by the virtual time at which they are done; virtual time is in fractions of a ns, as it is divided.
    const FRACTION: u128 = 1 << 20;
    let mut present: BinaryHeap<Reverse<(u128, u64)>> = BinaryHeap::new();
    let (mut now, mut virtual_now) = (0_u64, 0_u128);
    let mut sum = 0;
    let mut next = jobs.iter().peekable();
    loop {
        let n = present.len() as u128;
        let done = present.peek().map(|Reverse((end, _))| {
            let real = ((end - virtual_now) * n).div_ceil(FRACTION);
            now + real as u64
        });
        let arrives = next.peek().map(|(arrival, _)| *arrival);
        match (done, arrives) {
            (None, None) => return sum as f64,
            (Some(done), arrives) if arrives.is_none_or(|arrival| done <= arrival) => {
                let Some(Reverse((end, arrived))) = present.pop() else {
                    continue;
                };
                (now, virtual_now) = (done, end);
                sum += u128::from(done - arrived);
            }
            _ => {
                let Some(&(arrival, work)) = next.next() else { continue };
                // Nobody is there: virtual time stands still.
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
    fn first_come_first_served() {
        // Ends: 10, 15 (waits from 4), 33.
        let jobs = [(0, 10), (4, 5), (30, 3)];
        assert_eq!(fcfs(&jobs, 1), 10.0 + 11.0 + 3.0);
        assert_eq!(fcfs(&jobs, 2), 10.0 + 5.0 + 3.0);
        // Three at once on two servers: 6, 6, then 12.
        assert_eq!(fcfs(&[(0, 6), (0, 6), (0, 6)], 2), 6.0 + 6.0 + 12.0);
    }

    #[test]
    fn processor_sharing() {
        // Alone for 4, then two share: the second has 5 after 10 more, at 14; the first has 9 then, and ends at 15.
        assert_eq!(sharing(&[(0, 10), (4, 5), (30, 3)]), 15.0 + 10.0 + 3.0);
        assert_eq!(sharing(&[(0, 6), (0, 6), (0, 6)]), 3.0 * 18.0);
        assert_eq!(sharing(&[]), 0.0);
    }
}
