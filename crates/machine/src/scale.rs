// SPDX-License-Identifier: GPL-2.0-only
//! Halves and doubles single constants of a machine, to see which results depend on them.

use crate::MachineSpec;
use crate::costs::{ByDistance, CONSTANTS, Slot, TASK_LINE};
use crate::message::{CHANNELS, source_name};
use crate::smt::{FULL_SPEED, SMT_THROUGHPUT};
use serde::{Deserialize, Serialize};

/// Name of the exit latencies of all idle states, which are scaled together.
pub const IDLE_EXITS: &str = "idle_state exits";

/// A factor by which a constant is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Factor {
    Half,
    Double,
}

impl Factor {
    /// Both factors, in the order in which they are shown.
    pub const ALL: [Factor; 2] = [Factor::Half, Factor::Double];

    /// Returns the factor as text: `x0.5` or `x2`.
    pub fn name(self) -> &'static str {
        match self {
            Factor::Half => "x0.5",
            Factor::Double => "x2",
        }
    }

    /// Returns a value multiplied by the factor. Halves are rounded up.
    pub fn apply(self, value: u32) -> u32 {
        match self {
            Factor::Half => value.div_ceil(2),
            Factor::Double => value.saturating_mul(2),
        }
    }

    fn apply_by_distance(self, cost: &mut ByDistance) {
        for value in [
            &mut cost.same,
            &mut cost.core,
            &mut cost.llc,
            &mut cost.node,
            &mut cost.remote,
        ] {
            *value = self.apply(*value);
        }
    }
}

impl MachineSpec {
    /// Returns the names of the constants that [`MachineSpec::scale`] can change on this machine:
    /// the entries of the cost table that are not 0, [`SMT_THROUGHPUT`] if cores have several
    /// threads, [`TASK_LINE`] and [`IDLE_EXITS`] if the machine has them.
    pub fn scalable(&self) -> Vec<String> {
        let mut costs = self.costs.clone();
        let mut names = Vec::new();
        for constant in &CONSTANTS {
            let is_used = match constant.slot {
                Slot::Ps(cost) | Slot::Ns(cost) | Slot::MbPerS(cost) => *cost(&mut costs) != 0,
                Slot::ByDistance(cost) => cost(&mut costs).values() != [0; 5],
            };
            // A machine with idle states never uses this constant.
            let is_replaced = constant.name == "idle_exit" && !self.cpuidle.states.is_empty();
            if is_used && !is_replaced {
                names.push(constant.name.to_owned());
            }
        }
        for kind in &CHANNELS {
            let row = (kind.row)(&mut costs);
            if (row.send_ns, row.recv_ns, row.byte_ps) != (0, 0, 0) {
                names.push(source_name(kind));
            }
        }
        names.extend(costs.kfuncs.keys().map(|kfunc| format!("kfuncs.{kfunc}")));
        if self.topology.task_sets.is_some() {
            names.push(TASK_LINE.to_owned());
        }
        if self.cpuidle.states.iter().any(|state| state.exit_ns > 0) {
            names.push(IDLE_EXITS.to_owned());
        }
        if self.smt_throughput.len() > 1 {
            names.push(SMT_THROUGHPUT.to_owned());
        }
        names
    }

    /// Multiplies one constant by a factor. Other constants keep their values. Does nothing if the
    /// machine has no such constant.
    ///
    /// A row of a channel is scaled as a whole. For [`SMT_THROUGHPUT`], the work that further busy
    /// threads add to a core is scaled.
    pub fn scale(&mut self, name: &str, factor: Factor) {
        if let Some(constant) = CONSTANTS.iter().find(|constant| constant.name == name) {
            match constant.slot {
                Slot::Ps(cost) | Slot::Ns(cost) | Slot::MbPerS(cost) => {
                    let cost = cost(&mut self.costs);
                    *cost = factor.apply(*cost);
                }
                Slot::ByDistance(cost) => factor.apply_by_distance(cost(&mut self.costs)),
            }
        } else if let Some(kind) = CHANNELS.iter().find(|kind| source_name(kind) == name) {
            let row = (kind.row)(&mut self.costs);
            row.send_ns = factor.apply(row.send_ns);
            row.recv_ns = factor.apply(row.recv_ns);
            row.byte_ps = factor.apply(row.byte_ps);
            row.alloc_ns = factor.apply(row.alloc_ns);
            row.free_ns = factor.apply(row.free_ns);
        } else if let Some(cost) = name
            .strip_prefix("kfuncs.")
            .and_then(|kfunc| self.costs.kfuncs.get_mut(kfunc))
        {
            *cost = factor.apply(*cost);
        } else if name == TASK_LINE {
            if let Some(sets) = &mut self.topology.task_sets {
                factor.apply_by_distance(&mut sets.line);
            }
        } else if name == IDLE_EXITS {
            for state in &mut self.cpuidle.states {
                state.exit_ns = factor.apply(state.exit_ns);
            }
        } else if name == SMT_THROUGHPUT {
            for (threads, speed) in (1..).zip(&mut self.smt_throughput) {
                *speed = scaled_speed(*speed, threads, factor);
            }
        }
    }
}

/// Scales the work that further threads add to a core. Returns the new speed of each of `threads`
/// busy threads, at most the full speed.
fn scaled_speed(speed: u32, threads: u32, factor: Factor) -> u32 {
    let gain = (speed * threads).saturating_sub(FULL_SPEED);
    ((FULL_SPEED + factor.apply(gain)) / threads).min(FULL_SPEED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    #[test]
    fn every_scalable_constant_of_the_named_machines_can_be_scaled_alone() {
        for machine in crate::list(&[]).0 {
            let spec = load(&machine.name, &[]).unwrap();
            let names = spec.scalable();
            assert!(names.len() > 25, "{}: {names:?}", machine.name);
            let described = |spec: &MachineSpec| {
                let (costs, smt, idle) = (&spec.costs, &spec.smt_throughput, &spec.cpuidle);
                format!(
                    "{costs:?} {smt:?} {idle:?} {:?}",
                    spec.topology.task_sets.as_ref().map(|sets| sets.line)
                )
            };
            let mut seen = vec![described(&spec)];
            for name in &names {
                for factor in Factor::ALL {
                    let mut scaled = spec.clone();
                    scaled.scale(name, factor);
                    let description = described(&scaled);
                    assert!(!seen.contains(&description), "{}: {name}", machine.name);
                    seen.push(description);
                }
            }
        }
    }

    #[test]
    fn constants_are_halved_and_doubled() {
        let mut spec = load("smp8", &[]).unwrap();
        let before = spec.clone();
        spec.scale("context_switch", Factor::Half);
        spec.scale("cache_line", Factor::Double);
        spec.scale("channel.tcp", Factor::Double);
        spec.scale("task_struct.line", Factor::Half);
        assert_eq!(spec.costs.context_switch_ns, before.costs.context_switch_ns.div_ceil(2));
        assert_eq!(spec.costs.cache_line.node, 2 * before.costs.cache_line.node);
        assert_eq!(spec.costs.channel.tcp.byte_ps, 2 * before.costs.channel.tcp.byte_ps);
        assert_eq!(spec.costs.schedule_ns, before.costs.schedule_ns);
        let line = |spec: &MachineSpec| spec.topology.task_sets.as_ref().unwrap().line.node;
        assert_eq!(line(&spec), line(&before).div_ceil(2));
        assert_eq!(Factor::Half.apply(5), 3);
        assert_eq!(Factor::Double.apply(u32::MAX), u32::MAX);
    }

    #[test]
    fn a_machine_has_only_the_constants_that_it_uses() {
        let names = |machine: &str| load(machine, &[]).unwrap().scalable();
        let has = |machine: &str, name: &str| names(machine).iter().any(|known| known == name);
        assert!(has("numa32", SMT_THROUGHPUT) && !has("smp8", SMT_THROUGHPUT));
        assert!(has("numa32", IDLE_EXITS) && !has("numa32", "idle_exit"));
        assert!(has("smp8", "idle_exit") && !has("smp8", IDLE_EXITS));
        assert!(has("smp8", TASK_LINE) && !has("numa32", TASK_LINE));
        assert!(!has("smp8", "reload_llc"), "the constant is 0");
        assert_eq!(MachineSpec::smp(2).free().scalable(), Vec::<String>::new());
    }

    #[test]
    fn the_work_that_a_second_thread_adds_is_scaled() {
        // Two threads at 0.62 of the full speed do 1.24 times the work of one thread at full speed.
        let mut half = load("numa32", &[]).unwrap();
        half.scale(SMT_THROUGHPUT, Factor::Half);
        assert_eq!(half.smt_throughput, [1024, 573], "1.12 of the work of one");
        let mut double = load("numa32", &[]).unwrap();
        double.scale(SMT_THROUGHPUT, Factor::Double);
        assert_eq!(double.smt_throughput, [1024, 758], "1.48 of the work of one");
        assert_eq!(scaled_speed(1000, 2, Factor::Double), 1024);
    }
}
