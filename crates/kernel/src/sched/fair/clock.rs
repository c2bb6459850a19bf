// SPDX-License-Identifier: GPL-2.0-only
//! The clocks of the load averages: that of a CPU (rq_clock_pelt) and those of the queues of task groups
//! on it (cfs_rq_clock_pelt in kernel/sched/pelt.h).
//!
//! While a slow CPU works, the clock advances more slowly than time. A task that needs 4 ms on a
//! CPU of half the capacity is then as busy as a task that needs 2 ms on a fast CPU. When the CPU
//! becomes idle, the clock catches up with time:
//!
//! ```text
//! time                    | 1| 2| 3| 4| 5| 6| 7| 8| 9|10|
//! CPU of capacity 1024    ------******---------------****
//! CPU of capacity 512     ------************---------****
//! clock of the latter     | 1| 2|    3|    4| 7| 8| 9|
//! ```
//!
//! A CPU that would be busy all the time even at full speed has no idle time in which its clock
//! could catch up. The clock therefore stays behind (`lost`).
//!
//! The clock of a task group's queue also stands still while the queue is throttled and empty.

use crate::layout::SCHED_CAPACITY_SCALE;
use crate::machine::Machine;
use crate::sched::fair::state::entity::{CfsRqId, GROUP};
use crate::sched::fair::state::pelt::LOAD_AVG_MAX;
use crate::sched::state::rq::Rq;
use crate::simulation::id::{CpuId, IDLE};

/// Returns how fast the clock of a CPU advances; 1024 is as fast as time.
fn pace(rq: &Rq) -> u64 {
    if rq.curr == IDLE {
        SCHED_CAPACITY_SCALE
    } else {
        rq.known_capacity
    }
}

impl Machine {
    /// Returns the clock of the load averages of a CPU, ns (rq_clock_pelt).
    #[inline]
    pub(crate) fn clock_pelt(&self, cpu: CpuId) -> u64 {
        let rq = &self.rqs[cpu];
        let now = if rq.clock_lags { rq.clock_updated } else { self.now };
        now - rq.fair.clock.behind(now, pace(rq))
    }

    /// Updates the clock before the capacity of `cpu` changes.
    pub(crate) fn update_clock_pelt(&mut self, cpu: CpuId) {
        let now = self.now;
        let rq = &mut self.rqs[cpu];
        rq.fair.clock.restart(now, pace(rq));
    }

    /// Updates the clock of a CPU that switches to the idle task.
    pub(crate) fn idle_clock_pelt(&mut self, cpu: CpuId) {
        let now = self.now;
        let rq = &mut self.rqs[cpu];
        // The largest sum that does not depend on the position in the current period.
        let full = ((LOAD_AVG_MAX - 1024) << 10) - LOAD_AVG_MAX;
        let saturated = rq.fair.cfs.avg.util_sum() + rq.rt.util_sum() >= full;
        rq.fair.clock.enter_idle(now, pace(rq), saturated);
    }

    /// Stops the clock of a queue's load averages, if the queue is empty and throttled.
    pub(super) fn stop_pelt_clock(&mut self, id: CfsRqId) {
        if self.throttled_hierarchy(id) && self.cfs(id).nr_queued == 0 {
            let now = self.clock_pelt(self.queue_cpu(id));
            let runtime = self.runtime(id);
            (runtime.pelt_clock_stopped, runtime.pelt_clock_stopped_at) = (true, now);
            self.task_groups.remove_leaf(id);
        }
    }

    /// Lets the clock of a queue's load averages continue.
    pub(super) fn start_pelt_clock(&mut self, id: CfsRqId) {
        if self.task_groups.rq(id).runtime.pelt_clock_stopped {
            let now = self.clock_pelt(self.queue_cpu(id));
            let runtime = self.runtime(id);
            runtime.pelt_clock_lost += now - runtime.pelt_clock_stopped_at;
            runtime.pelt_clock_stopped = false;
        }
    }

    /// Records for how long the clock of an empty queue's load averages has stood still until now
    /// (update_idle_cfs_rq_clock_pelt).
    pub(super) fn update_idle_cfs_rq_clock_pelt(&mut self, id: CfsRqId) {
        let runtime = self.runtime(id);
        runtime.pelt_clock_lost_idle = runtime.pelt_clock_lost;
    }

    /// Estimates the time of the clock of a queue's load averages on an idle CPU, ns. If the queue has been
    /// throttled since it became empty, the estimate is later than the clock (migrate_se_pelt_lag).
    pub(super) fn idle_cfs_rq_clock_pelt(&self, id: CfsRqId) -> u64 {
        if id < GROUP {
            return self.clock_pelt(CpuId::from_root_queue(id));
        }
        self.clock_pelt(self.queue_cpu(id)) - self.task_groups.rq(id).runtime.pelt_clock_lost_idle
    }

    /// Returns the time of the clock of a queue's load averages, ns (cfs_rq_clock_pelt).
    pub(super) fn cfs_rq_clock_pelt(&self, id: CfsRqId) -> u64 {
        if id < GROUP {
            return self.clock_pelt(CpuId::from_root_queue(id));
        }
        let runtime = &self.task_groups.rq(id).runtime;
        let now = match runtime.pelt_clock_stopped {
            true => runtime.pelt_clock_stopped_at,
            false => self.clock_pelt(self.queue_cpu(id)),
        };
        now - runtime.pelt_clock_lost
    }
}

#[cfg(test)]
mod tests {
    use crate::testbed::*;
    use workload::{Dist, Op};

    /// Returns the averages of a task on a CPU of this capacity after 2 s, each at its maximum:
    /// load, runnable time and utilization.
    fn averages(capacity: u32, ops: Vec<Op>) -> (u64, u64, u64) {
        let mut machine = free(spec(1, 1, 2, 1));
        machine.topology.cpus[0].capacity = capacity;
        let mut bed = Bed::default();
        bed.pinned(0, ops);
        let mut m = bed.machine(machine);
        let mut most = (0, 0, 0);
        for ms in 2000..2200 {
            m.advance(ms * MS, &mut Vec::new());
            let avg = &m.tasks[0].fair.avg;
            most = (
                most.0.max(avg.load_avg),
                most.1.max(avg.runnable_avg),
                most.2.max(avg.util_avg),
            );
        }
        most
    }

    #[test]
    fn averages_do_not_depend_on_the_capacity() {
        let ops = || {
            vec![
                Op::Run(Dist::Fixed(2 * MS)),
                Op::Timer {
                    timer: 0,
                    period: 20 * MS,
                    absolute: true,
                },
                Op::LoopBack {
                    counter: 0,
                    times: None,
                    target: 0,
                },
            ]
        };
        let (fast, slow) = (averages(1024, ops()), averages(512, ops()));
        // The task computes for a tenth of the time.
        assert!((70..140).contains(&fast.2), "{fast:?}");
        let near = |a: u64, b: u64| a.abs_diff(b) <= 4;
        assert!(
            near(fast.0, slow.0) && near(fast.1, slow.1) && near(fast.2, slow.2),
            "averages on a fast CPU: {fast:?}, on a slow CPU: {slow:?}"
        );
    }

    #[test]
    fn a_cpu_that_never_idles_is_fully_utilized_at_any_capacity() {
        let (_, _, util) = averages(512, hog());
        assert!(util > 1000, "{util}");
    }

    #[test]
    fn a_cpu_without_idle_time_has_none_to_catch_up_with() {
        let behind = |run: u64| {
            let mut machine = free(spec(1, 1, 2, 1));
            machine.topology.cpus[0].capacity = 512;
            let mut bed = Bed::default();
            bed.pinned(0, vec![Op::Run(Dist::Fixed(run)), Op::Sleep(Dist::Fixed(10 * SECOND))]);
            let (m, _) = bed.run(machine, 4 * SECOND);
            m.now - m.clock_pelt(cpu_id(0))
        };
        // The first task would need 10 ms at full speed, so the CPU would have been idle for a part
        // of the time. Its clock therefore catches up.
        assert_eq!(behind(10 * MS), 0);
        // The second task needs 2 s on this CPU. The clock loses half of this time.
        assert!(behind(SECOND).abs_diff(SECOND) < MS, "{}", behind(SECOND));
    }
}
