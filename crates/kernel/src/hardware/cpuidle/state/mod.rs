// SPDX-License-Identifier: GPL-2.0-only
//! Idle states of CPUs, see `hardware::cpuidle`.

pub(crate) mod menu;

use crate::simulation::event::Event;
use crate::simulation::id::CpuId;
use crate::simulation::table::Table;
use machine::{Governor, IdleState, MachineSpec};
use menu::Menu;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Idle states of all CPUs.
pub(crate) struct CpuIdle {
    /// States in the order of their target residencies. There is at least one.
    pub(crate) states: Vec<IdleState>,
    /// Whether the governor chooses between states. Otherwise all CPUs enter the only state.
    pub(crate) governed: bool,
    pub(crate) cpus: Table<CpuId, IdleCpu>,
}

/// Idle state of a CPU.
pub(crate) struct IdleCpu {
    pub(crate) phase: Phase,
    /// Index of the state that the CPU is in, or was in most recently.
    pub(crate) state: usize,
    /// Time at which the CPU enters the state, ns. It is in the future while the CPU still does
    /// kernel work.
    pub(crate) since: u64,
    /// Whether the tick stays enabled while the CPU is idle. The governor keeps the tick if it
    /// expects a wake-up soon.
    pub(crate) tick: bool,
    /// Whether the tick was stopped since the CPU became idle.
    pub(crate) tick_stopped: bool,
    /// Longest permitted exit latency of the CPU's states, ns (its PM QoS resume latency).
    pub(crate) latency_limit: u64,
    /// Total time in each state, ns.
    pub(crate) time: Vec<u64>,
    pub(crate) timers: Timers,
    pub(crate) menu: Menu,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The CPU executes a task or a handler.
    Awake,
    /// The CPU is in its idle state, or about to enter it.
    Asleep,
    /// The CPU leaves its idle state and will be awake at this time, ns.
    Leaving(u64),
}

/// Time that CPUs have spent in an idle state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleTime {
    pub name: String,
    /// Sum over all CPUs, ns. It does not contain exit latencies.
    pub ns: u64,
}

impl CpuIdle {
    pub(crate) fn new(spec: &MachineSpec) -> CpuIdle {
        let states = spec.cpuidle.used(spec.costs.idle_exit_ns);
        // A CPU that has not run yet is in the first state in which it does not poll.
        let first = states.iter().position(|state| !state.busy).unwrap_or(0);
        let cpu = |_| IdleCpu {
            phase: Phase::Asleep,
            state: first,
            since: 0,
            tick: false,
            tick_stopped: true,
            latency_limit: u64::MAX,
            time: vec![0; states.len()],
            timers: Timers::default(),
            menu: Menu::default(),
        };
        CpuIdle {
            governed: spec.cpuidle.governor == Governor::Menu && states.len() > 1,
            cpus: (0..spec.topology.nr_cpus()).map(cpu).collect(),
            states,
        }
    }
}

/// Timers of a CPU.
pub(crate) type Timers = BinaryHeap<Timer>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) at: u64,
    pub(crate) event: Event,
}

// The order is reversed because the top of a BinaryHeap is its maximum, and the next timer must be
// on top.
impl Ord for Timer {
    fn cmp(&self, other: &Timer) -> Ordering {
        other.at.cmp(&self.at)
    }
}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Timer) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Timer) -> bool {
        self.at == other.at
    }
}

impl Eq for Timer {}
