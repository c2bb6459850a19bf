// SPDX-License-Identifier: GPL-2.0-only
//! Writes commands as lines of a script.

use crate::parse::{Attributes, Command};

/// Writes as a script has it.
pub(super) trait Write {
    fn to_line(&self) -> String;
}

/// Returns a duration in the largest unit without a fraction.
fn duration(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
    let unit = units.into_iter().find(|(unit, _)| ns > 0 && ns.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "ns"));
    format!("{}{name}", ns / unit)
}

/// Returns CPUs such as `1-3,5`.
pub(super) fn list(cpus: &[u32]) -> String {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let runs = sorted.chunk_by(|a, b| a + 1 == *b);
    let run = |run: &[u32]| match run {
        [first, .., last] => format!("{first}-{last}"),
        [cpu] => cpu.to_string(),
        [] => String::new(),
    };
    runs.map(run).collect::<Vec<String>>().join(",")
}

impl Write for Attributes {
    fn to_line(&self) -> String {
        let class = self.class.as_ref().map(|class| format!(" class={class}"));
        let nice = self.nice.map(|nice| format!(" nice={nice}"));
        let prio = self.prio.map(|prio| format!(" prio={prio}"));
        let slice = self.slice.map(|slice| format!(" slice={}", duration(slice)));
        [class, nice, prio, slice].into_iter().flatten().collect()
    }
}

impl Write for Command {
    fn to_line(&self) -> String {
        let hint = |sync: &bool| if *sync { " sync" } else { "" };
        match self {
            Command::Group(path) => format!("group {path}"),
            Command::Create {
                name,
                attributes,
                cpus,
                group,
                kernel,
            } => {
                let cpus = cpus
                    .as_ref()
                    .map(|cpus| format!(" cpus={}", list(cpus)))
                    .unwrap_or_default();
                let group = if group == "/" {
                    String::new()
                } else {
                    format!(" cgroup={group}")
                };
                let kernel = if *kernel { " kernel" } else { "" };
                format!("create {name}{}{cpus}{group}{kernel}", attributes.to_line())
            }
            Command::WakeFrom { name, cpu, sync } => format!("wake {name} from={cpu}{}", hint(sync)),
            Command::WakeBy { name, waker, sync } => format!("wake {name} by={waker}{}", hint(sync)),
            Command::Block(name) => format!("block {name}"),
            Command::Sleep { name, ns } => format!("sleep {name} {}", duration(*ns)),
            Command::Yield(name) => format!("yield {name}"),
            Command::Fork { name, child, thread } => {
                format!("{} {name} {child}", if *thread { "thread" } else { "fork" })
            }
            Command::Exec(name) => format!("exec {name}"),
            Command::Exit(name) => format!("exit {name}"),
            Command::MigrateDisable(name) => format!("migrate_disable {name}"),
            Command::MigrateEnable(name) => format!("migrate_enable {name}"),
            Command::Set { name, attributes } => format!("set {name}{}", attributes.to_line()),
            Command::Affinity { name, cpus } => format!("affinity {name} {}", list(cpus)),
            Command::Move { name, group } => format!("move {name} {group}"),
            Command::Weight { group, weight } => format!("weight {group} {weight}"),
            Command::Idle { group, idle } => format!("cpu.idle {group} {}", u8::from(*idle)),
            Command::Max {
                group,
                quota_us,
                period_us,
            } => {
                let quota = quota_us.map_or_else(|| "max".to_string(), |quota| quota.to_string());
                format!("cpu.max {group} {quota} {period_us}")
            }
            Command::Hotplug { cpu, online } => format!("hotplug {cpu} {}", if *online { "on" } else { "off" }),
            Command::Attach { group, policy } => {
                let parameters = policy.parameters.iter().map(|(name, value)| format!(" {name}={value}"));
                format!("attach {group} {}{}", policy.name, parameters.collect::<String>())
            }
            Command::Detach { group } => format!("detach {group}"),
            Command::Advance(ns) => format!("advance {}", duration(*ns)),
            Command::Tick => "tick".to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_largest_unit_without_a_fraction() {
        let texts = [2_000_000_000, 1_500_000_000, 4_000_000, 4500, 7, 0].map(duration);
        assert_eq!(texts, ["2s", "1500ms", "4ms", "4500ns", "7ns", "0ns"]);
    }

    #[test]
    fn neighbouring_cpus_are_a_range() {
        assert_eq!(list(&[3, 1, 2, 5]), "1-3,5");
        assert_eq!(list(&[4]), "4");
    }
}
