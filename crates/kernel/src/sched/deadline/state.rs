// SPDX-License-Identifier: GPL-2.0-only
//! State of the deadline servers, which reserve CPU time for the fair and the ext class
//! (struct sched_dl_entity with `dl_server` set).

use crate::simulation::event::NEVER;
use crate::simulation::id::Server;
use std::ops::{Index, IndexMut};

/// Period and relative deadline of both servers, ns (sched_init_dl_servers).
pub(crate) const PERIOD_NS: u64 = 1_000_000_000;

/// CPU time that each server reserves per period, ns (sched_init_dl_servers).
pub(crate) const RUNTIME_NS: u64 = 50_000_000;

/// A deadline server of one CPU.
///
/// The table shows the states of a server that is `active`. They correspond to the states B to E in
/// the comment at dl_server_start() (kernel/sched/deadline.c).
///
/// | state | `throttled` | `defer_armed` | `defer_running` | `defer_idle` |
/// |---|---|---|---|---|
/// | zero-laxity wait | yes | yes | no | no |
/// | idle wait | yes | yes | no | yes |
/// | running | no | no | yes | no |
/// | replenish wait | yes | no | yes | no |
#[derive(Clone, Debug)]
#[repr(C)]
pub struct DlServer {
    /// Remaining CPU time of this period, ns. It is negative after an overrun.
    pub(crate) runtime: i64,
    /// Whether the server has been started and not stopped since (`dl_server_active`).
    pub(crate) active: bool,
    /// Whether the runtime was used up by the CPU's idle time. The server then stops when its timer
    /// expires, unless its class gets a task before.
    pub(crate) defer_idle: bool,
    /// Whether the server waits for its timer.
    pub(crate) throttled: bool,
    /// Whether the timer is set to zero laxity, the last time at which `runtime` still fits before
    /// `deadline`.
    pub(crate) defer_armed: bool,
    /// Whether the class has starved. The server then runs without waiting for zero laxity.
    pub(crate) defer_running: bool,
    /// Whether the server competes for the CPU (on_dl_rq).
    pub(crate) queued: bool,
    /// Whether the server has a bandwidth reservation (`dl_bw_attached`). Without one it does not
    /// start.
    pub(crate) attached: bool,
    /// End of the current period, ns.
    pub(crate) deadline: u64,
    /// Expiry of the timer, or [`NEVER`].
    pub(crate) timer_at: u64,
    /// Time of the pending event, which may be earlier than `timer_at`, or [`NEVER`].
    pub(crate) event_at: u64,
}

/// The deadline servers of one CPU.
pub struct DlServers([DlServer; 2]);

impl Default for DlServers {
    /// Returns the servers of a machine without a BPF scheduler: only the fair server has a
    /// reservation.
    fn default() -> DlServers {
        let server = |attached| DlServer {
            runtime: 0,
            active: false,
            defer_idle: false,
            throttled: false,
            defer_armed: false,
            defer_running: false,
            queued: false,
            attached,
            deadline: 0,
            timer_at: NEVER,
            event_at: NEVER,
        };
        DlServers([server(true), server(false)])
    }
}

impl Index<Server> for DlServers {
    type Output = DlServer;

    fn index(&self, server: Server) -> &DlServer {
        &self.0[server as usize]
    }
}

impl IndexMut<Server> for DlServers {
    fn index_mut(&mut self, server: Server) -> &mut DlServer {
        &mut self.0[server as usize]
    }
}

/// Number of fractional bits in bandwidths (BW_SHIFT).
const BW_SHIFT: u32 = 20;
/// Bandwidth of a server: its runtime divided by its period, as a fixed-point number (dl_density).
const DENSITY: u64 = (RUNTIME_NS << BW_SHIFT) / PERIOD_NS;
/// Number of low bits that [`DlServer::overflows`] drops to keep its products small (DL_SCALE).
const SCALE: u32 = 10;

impl DlServer {
    /// Begins a period at `now` with the full runtime (replenish_dl_new_period).
    pub(crate) fn begin_period(&mut self, now: u64) {
        self.deadline = now + PERIOD_NS;
        self.runtime = RUNTIME_NS as i64;
        if !self.defer_running {
            self.throttled = true;
            self.defer_armed = true;
        }
    }

    /// Returns whether the remaining runtime would exceed the server's bandwidth if the server used
    /// it from `now` to `deadline` (dl_entity_overflow).
    pub(crate) fn overflows(&self, now: u64) -> bool {
        let used = (PERIOD_NS >> SCALE) as i64 * (self.runtime >> SCALE);
        let allowed = (self.deadline.saturating_sub(now) >> SCALE) as i64 * (RUNTIME_NS >> SCALE) as i64;
        allowed < used
    }

    /// Returns the last time at which the remaining runtime fits before the deadline.
    pub(crate) fn zero_laxity(&self) -> u64 {
        self.deadline.saturating_add_signed(-self.runtime)
    }

    /// Chooses the runtime and the deadline of a server that starts (update_dl_entity).
    pub(crate) fn update_at_start(&mut self, now: u64) {
        if self.deadline <= now || self.overflows(now) {
            if self.defer_running && self.deadline > now {
                // Reduces the runtime to what the server's bandwidth allows until the deadline
                // (update_dl_revised_wakeup).
                let left = self.deadline - now;
                self.runtime = ((left * DENSITY) >> BW_SHIFT) as i64;
                return;
            }
            self.defer_running = false;
            self.begin_period(now);
        } else if !self.defer_running {
            self.defer_armed = true;
            self.throttled = true;
        }
    }

    /// Refills the runtime at `now` and ends the throttling (replenish_dl_entity).
    pub(crate) fn replenish(&mut self, now: u64) {
        if self.defer_armed && self.overflows(now) {
            self.deadline = now + PERIOD_NS;
            self.runtime = RUNTIME_NS as i64;
        }
        while self.runtime <= 0 {
            self.deadline += PERIOD_NS;
            self.runtime += RUNTIME_NS as i64;
        }
        if self.deadline < now {
            self.begin_period(now);
        }
        self.throttled = false;
        self.defer_armed = false;
    }
}

#[cfg(test)]
mod tests {
    use crate::sched::deadline::state::*;
    use crate::testbed::{MS, SECOND};

    fn server() -> DlServer {
        DlServers::default()[Server::Fair].clone()
    }

    #[test]
    fn a_server_that_starts_waits_for_zero_laxity() {
        let mut dl = server();
        dl.update_at_start(3 * SECOND);
        assert_eq!((dl.deadline, dl.zero_laxity()), (4 * SECOND, 3 * SECOND + 950 * MS));
        assert!(dl.throttled && dl.defer_armed);
        // A restart in the same period keeps the remaining runtime if the server's bandwidth (5 %)
        // allows it until the deadline.
        dl.runtime = 20 * MS as i64;
        (dl.throttled, dl.defer_armed) = (false, false);
        dl.update_at_start(3 * SECOND + 500 * MS);
        assert_eq!((dl.deadline, dl.runtime), (4 * SECOND, 20 * MS as i64));
        assert!(dl.throttled && dl.defer_armed);
        // 20 ms in the last 300 ms would be more than 5 %, so a new period begins.
        dl.update_at_start(3 * SECOND + 700 * MS);
        assert_eq!((dl.deadline, dl.runtime), (4 * SECOND + 700 * MS, 50 * MS as i64));
    }

    #[test]
    fn a_server_that_was_running_restarts_without_delay_but_with_less_runtime() {
        let mut dl = server();
        (dl.defer_running, dl.deadline, dl.runtime) = (true, 2 * SECOND, 50 * MS as i64);
        dl.update_at_start(SECOND + 500 * MS);
        // The runtime is 5 % of the 500 ms until the deadline.
        assert_eq!(dl.runtime / MS as i64, 24);
        assert!(!dl.throttled && dl.deadline == 2 * SECOND);
    }

    #[test]
    fn an_overrun_is_paid_back_in_the_next_periods() {
        let mut dl = server();
        (dl.defer_running, dl.throttled) = (true, true);
        (dl.deadline, dl.runtime) = (2 * SECOND, -(60 * MS as i64));
        dl.replenish(2 * SECOND);
        assert_eq!((dl.deadline, dl.runtime), (4 * SECOND, 40 * MS as i64));
        assert!(!dl.throttled);
    }
}
