// SPDX-License-Identifier: GPL-2.0-only
//! Idle states of CPUs and the governor that chooses between them: the key `cpuidle` and the
//! section `[[idle_state]]`.

use serde::Serialize;

/// Name of the only idle state of a machine without `[[idle_state]]`. The constant `idle_exit` of
/// the cost table is the time to leave this state. An x86 kernel without a cpuidle driver behaves
/// like this, for example in most virtual machines.
pub const HALT: &str = "HLT";

/// Prefix of the keys of idle states in [`Definition::cost_sources`](crate::Definition), the
/// sources of the machine's numbers.
pub(crate) const SOURCE: &str = "idle_state.";

/// Chooses the idle state of a CPU that has nothing to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Governor {
    /// The governor menu of Linux (drivers/cpuidle/governors/menu.c).
    Menu,
    /// CPUs always enter the first state in which they do not poll (`cpuidle.off=1`).
    #[default]
    Off,
    /// CPUs never enter an idle state and poll instead (`idle=poll`).
    Poll,
}

impl Governor {
    /// Names in machine files.
    pub(crate) const NAMES: [(&'static str, Governor); 3] = [
        ("menu", Governor::Menu),
        ("off", Governor::Off),
        ("poll", Governor::Poll),
    ];

    pub fn name(self) -> &'static str {
        let named = Governor::NAMES.iter().find(|named| named.1 == self);
        named.map_or("", |named| named.0)
    }
}

/// An idle state (struct cpuidle_state).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdleState {
    pub name: String,
    /// Time from the interrupt that ends the state until its handler runs, ns.
    pub exit_ns: u32,
    /// Shortest stay for which it saves energy to enter the state, ns. The governor avoids the
    /// state if it expects a shorter stay.
    pub residency_ns: u32,
    /// Whether a CPU in this state notices a write to the flags of its idle task, so that it can be
    /// woken without an IPI (TIF_POLLING_NRFLAG). True for a loop that polls and for MWAIT.
    pub polling: bool,
    /// Whether the state is a loop that polls (CPUIDLE_FLAG_POLLING), so that the CPU continues to
    /// execute instructions.
    pub busy: bool,
}

/// Idle states of a machine. The default is a machine whose CPUs only halt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CpuIdle {
    pub governor: Governor,
    /// States in the order of their target residencies. Empty if CPUs only halt.
    pub states: Vec<IdleState>,
}

impl CpuIdle {
    /// Returns the states that CPUs use. If the machine has no list of states, this is the one
    /// state HLT, and leaving it takes `idle_exit_ns`.
    pub fn used(&self, idle_exit_ns: u32) -> Vec<IdleState> {
        let halt = |name: &str, exit_ns, polling| IdleState {
            name: name.to_owned(),
            exit_ns,
            residency_ns: 0,
            polling,
            busy: polling,
        };
        match self.governor {
            Governor::Poll => vec![halt("POLL", 0, true)],
            _ if self.states.is_empty() => vec![halt(HALT, idle_exit_ns, false)],
            Governor::Off => self
                .states
                .iter()
                .filter(|state| !state.busy)
                .take(1)
                .cloned()
                .collect(),
            Governor::Menu => self.states.clone(),
        }
    }
}
