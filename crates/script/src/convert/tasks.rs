// SPDX-License-Identifier: GPL-2.0-only
//! The machine, the groups and the tasks of a converted workload.

use super::line::{Write, list};
use super::player::{self, Player, State};
use super::{Source, cannot};
use crate::parse::MAX_TASKS;
use input::{Error, index};
use machine::MachineSpec;
use std::collections::{BTreeMap, BTreeSet};
use workload::{Op, TaskSpec};

/// Maximum number of CPUs that a script's tasks can use.
const MAX_CPUS: usize = 16;

/// Returns the first lines of the script, and its tasks.
///
/// # Errors
/// The machine or the workload is too large for a script.
pub(super) fn begin(source: &Source) -> Result<(String, Vec<Player>), Error> {
    let mut header = machine_line(source.machine)?;
    if let Some(policy) = &source.policy {
        header += &format!("policy {policy}\n");
    }
    Ok((header, players(source)?))
}

/// Returns CPUs of a workload as those of the script, which begin with 1.
pub(super) fn cpus(cpus: Option<&[u32]>, machine: &MachineSpec) -> Vec<u32> {
    let nr = index(machine.topology.cpus.len());
    match cpus {
        Some(cpus) => cpus.iter().filter(|&&cpu| cpu < nr).map(|cpu| cpu + 1).collect(),
        None => (1..=nr).collect(),
    }
}

/// Returns the line of the machine.
fn machine_line(machine: &MachineSpec) -> Result<String, Error> {
    let topology = &machine.topology;
    let nr = topology.cpus.len();
    if nr > MAX_CPUS {
        return Err(cannot(&format!("a machine with {nr} CPUs")).hint(format!("use at most {MAX_CPUS} CPUs")));
    }
    let sets = |sets: &[Vec<u32>]| {
        let sets = sets.iter().map(|set| list(&cpus(Some(set), machine)));
        sets.collect::<Vec<String>>().join("/")
    };
    let mut line = format!("machine cpus={nr}");
    if topology.cores.len() < nr {
        line += &format!(" smt={}", sets(&topology.cores));
    }
    if topology.nodes.len() > 1 {
        line += &format!(" nodes={}", sets(&topology.nodes));
    }
    if topology.llcs != topology.nodes {
        line += &format!(" llc={}", sets(&topology.llcs));
    }
    let capacities: Vec<String> = topology.cpus.iter().map(|cpu| cpu.capacity.to_string()).collect();
    if capacities.iter().any(|capacity| capacity != "1024") {
        line += &format!(" capacities={}", capacities.join(","));
    }
    let features = machine.kernel.features.differences();
    if !features.is_empty() {
        line += &format!(" features={}", features.join(","));
    }
    Ok(line + "\n")
}

/// Returns the tasks that exist at the start, and children that they may fork.
fn players(source: &Source) -> Result<Vec<Player>, Error> {
    let workload = source.workload;
    let mut names = Names::new(&workload.tasks);
    let mut players = Vec::new();
    let mut forked: BTreeSet<u32> = BTreeSet::new();
    let forks = workload.programs.iter().flat_map(|program| &program.ops);
    forked.extend(forks.filter_map(|op| match op {
        Op::Fork { task, .. } => Some(*task),
        _ => None,
    }));
    for (task, spec) in (0..).zip(workload.tasks.iter()) {
        if !spec.spawn {
            continue;
        }
        let allowed = cpus(spec.cpus.as_deref(), source.machine);
        // Tasks without a CPU of their own are distributed over the allowed CPUs.
        let turn = allowed.get(players.len() % allowed.len().max(1)).copied();
        let cpu = spec.start_cpu.map(|cpu| cpu + 1).or(turn).unwrap_or(1);
        let at_ns = spec.start_ns;
        let mut player = Player::new(names.next(&spec.comm), task, State::New { at_ns, cpu });
        player.comm.clone_from(&spec.comm);
        player.cgroup = spec.cgroup;
        player.group.clone_from(&workload.cgroups[spec.cgroup as usize].path);
        player.attributes = player::attributes(spec.policy)?;
        player.attributes.slice = spec.attributes.slice_ns;
        player.cpus = spec.cpus.is_some().then_some(allowed);
        players.push(player);
    }
    if players.len() > MAX_TASKS {
        return Err(cannot(&format!("{} tasks", players.len())).hint(format!("use at most {MAX_TASKS} tasks")));
    }
    let room = MAX_TASKS - players.len();
    for &task in &forked {
        let comm = &workload.tasks[task as usize].comm;
        for _ in 0..room / forked.len() {
            let mut player = Player::new(names.next(comm), task, State::Unborn);
            player.comm.clone_from(comm);
            players.push(player);
        }
    }
    Ok(players)
}

/// Names for the tasks of a script.
struct Names {
    /// Number of tasks with each name.
    nr: BTreeMap<String, usize>,
    used: BTreeMap<String, usize>,
}

/// Returns a name with the letters that a script allows.
fn allowed(comm: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = comm.chars().take(11).map(letter).collect();
    if ["", "idle", "none"].contains(&name.as_str()) {
        format!("task_{name}")
    } else {
        name
    }
}

impl Names {
    fn new(tasks: &[TaskSpec]) -> Names {
        let mut nr = BTreeMap::new();
        for task in tasks {
            let copies = if task.spawn { 1 } else { 2 };
            *nr.entry(allowed(&task.comm)).or_insert(0) += copies;
        }
        let used = BTreeMap::new();
        Names { nr, used }
    }

    /// Returns a name that no other task has.
    fn next(&mut self, comm: &str) -> String {
        let name = allowed(comm);
        if self.nr.get(&name) == Some(&1) {
            return name;
        }
        let used = self.used.entry(name.clone()).or_insert(0);
        *used += 1;
        format!("{name}_{used}")
    }
}

/// Returns a script that contains all groups and tasks.
pub(super) fn template(header: &str, groups: &[String], players: &[Player]) -> String {
    let mut text = header.to_string();
    for group in groups {
        text += &format!("group {group}\n");
    }
    let mut parent = "";
    for player in players {
        match player.state {
            State::Unborn => text += &format!("fork {parent} {}\n", player.name),
            _ => {
                text += &format!("{}\n", player.create().to_line());
                parent = &player.name;
            }
        }
    }
    // The machine prepares for tasks that must not migrate.
    for command in ["migrate_disable", "migrate_enable"] {
        text += &format!("{command} {parent}\n");
    }
    text
}
