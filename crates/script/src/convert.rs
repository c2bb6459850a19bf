// SPDX-License-Identifier: GPL-2.0-only
//! Converts a workload into a script: plays the programs of its tasks on a stepped machine, and writes
//! down what they do.
//!
//! The script repeats these commands at the same times. Times of the programs do not matter any more,
//! so a kernel that decides differently makes a task sleep earlier or later than its program would.

mod line;
mod player;
mod tasks;

use crate::Policy;
use crate::parse::{Command, Line, Script};
use crate::run::{self, Loaded};
use input::Error;
use kernel::Machine;
use kernel::stepping::{Happened, Refused};
use line::Write;
use machine::MachineSpec;
use player::{Player, State};
use std::collections::BTreeMap;
use workload::{Action, Workload};

/// Time that passes at once while a task has nothing left to compute, but waits for a CPU, ns.
const GRAIN_NS: u64 = 100_000;
/// cpu.weight of a new group.
const DEFAULT_WEIGHT: u32 = 100;
/// Largest number of lines.
const MAX_LINES: usize = 50_000;
/// Largest number of steps that tasks make while no time passes.
const MAX_STEPS: usize = 10_000;

/// A run that a script shall show.
pub struct Source<'a> {
    pub machine: &'a MachineSpec,
    /// Name of the policy and its parameters, as in a script. `None` is EEVDF.
    pub policy: Option<String>,
    pub workload: &'a Workload,
    /// Time at which the script ends, ns.
    pub for_ns: u64,
    /// Time after which a wait for a CPU is a stall and the script ends, ns.
    pub stall_ns: u64,
}

/// A task that has waited for a CPU for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stalled {
    pub task: String,
    pub from_ns: u64,
}

/// A script, and what its run in the simulator has shown.
#[derive(Clone, Debug)]
pub struct Converted {
    pub text: String,
    pub stalled: Option<Stalled>,
    /// Message of the error that has ended the policy.
    pub ended: Option<String>,
    /// Parts of the workload that the script leaves out.
    pub left_out: Vec<&'static str>,
}

/// Converts a run into a script. `load` loads the policy as in [`crate::run`].
///
/// # Errors
/// A script cannot express the machine or a step of a program, or the policy cannot be loaded.
pub fn convert(
    source: &Source,
    load: impl FnMut(&mut Machine, &Policy, Option<u32>) -> Result<Loaded, Error>,
) -> Result<Converted, Error> {
    let (header, players) = tasks::begin(source)?;
    let groups: Vec<String> = source
        .workload
        .cgroups
        .iter()
        .skip(1)
        .map(|cgroup| cgroup.path.clone())
        .collect();
    let script = Script::parse("the converted workload", &tasks::template(&header, &groups, &players))?;
    let machine = run::begin(&script, load)?;
    let mut play = Play {
        values: source.workload.resources.iter().map(player::initial_value).collect(),
        source,
        script,
        machine,
        players,
        text: header,
        lines: 0,
        pending_ns: 0,
        disturbances: 0,
        left_out: Vec::new(),
    };
    play.run()?;
    play.flush();
    Ok(Converted {
        stalled: play.stalled(),
        ended: play.ended(),
        left_out: play.left_out,
        text: play.text,
    })
}

/// A workload that is being played.
struct Play<'a> {
    source: &'a Source<'a>,
    /// A script with all tasks and groups.
    script: Script,
    machine: Machine,
    players: Vec<Player>,
    /// Messages of each channel, posts of each semaphore, and wake-ups that came too early.
    values: Vec<u64>,
    text: String,
    lines: usize,
    /// Time that has passed since the last line, ns.
    pending_ns: u64,
    /// Number of disturbances that have taken place.
    disturbances: usize,
    left_out: Vec<&'static str>,
}

impl Play<'_> {
    fn run(&mut self) -> Result<(), Error> {
        self.settle(self.machine.now);
        for cgroup in self.source.workload.cgroups.iter().skip(1) {
            let group = || cgroup.path.clone();
            self.command(Command::Group(group()))?;
            if cgroup.weight != DEFAULT_WEIGHT {
                let weight = cgroup.weight;
                self.command(Command::Weight { group: group(), weight })?;
            }
        }
        for task in 0..self.players.len() {
            if self.players[task].state != State::Unborn {
                let created = self.players[task].create();
                self.command(created)?;
            }
        }
        loop {
            self.start_tasks()?;
            self.disturb()?;
            self.act()?;
            let now = self.machine.now;
            if !self.players.iter().any(Player::exists) {
                return Ok(());
            }
            if now >= self.source.for_ns || self.ended().is_some() || self.stalled().is_some() {
                return Ok(());
            }
            let next = self.next_ns();
            self.pending_ns += next - now;
            self.settle(next);
        }
    }

    /// Lets time pass, and follows the events.
    fn settle(&mut self, until: u64) {
        self.machine.step_until(until);
        for event in self.machine.take_events() {
            self.follow(&event);
        }
        for player in &mut self.players {
            player.charge(until);
        }
    }

    fn follow(&mut self, event: &Happened) {
        let mut words = event.text.split(' ');
        let kind = words.next().unwrap_or_default();
        let values: BTreeMap<&str, &str> = event.text.split(' ').filter_map(|word| word.split_once('=')).collect();
        let named = |name: Option<&str>, players: &[Player]| {
            players.iter().position(|player| Some(player.name.as_str()) == name)
        };
        match kind {
            "switch" => {
                if let Some(prev) = named(values.get("prev").copied(), &self.players) {
                    self.players[prev].switched_out(event.time);
                }
                if let Some(next) = named(values.get("next").copied(), &self.players) {
                    let cpu = values.get("cpu").and_then(|cpu| cpu.parse().ok());
                    self.players[next].switched_in(event.time, cpu.unwrap_or(0));
                }
            }
            "wakeup" | "wakeup_new" => {
                if let Some(task) = named(words.next(), &self.players) {
                    self.players[task].woken(event.time);
                }
            }
            _ => {}
        }
    }

    /// Returns the time at which the next task or disturbance has something to do.
    fn next_ns(&self) -> u64 {
        let now = self.machine.now;
        let due = self
            .players
            .iter()
            .filter_map(|player| player.due(now, self.source.stall_ns));
        let disturbance = self.source.workload.disturbances.get(self.disturbances);
        let due = due.chain(disturbance.map(|disturbance| disturbance.at_ns));
        due.min().unwrap_or(u64::MAX).clamp(now + 1, self.source.for_ns)
    }

    /// Wakes the tasks that start now.
    fn start_tasks(&mut self) -> Result<(), Error> {
        for task in 0..self.players.len() {
            if let State::New { at_ns, cpu } = self.players[task].state
                && at_ns <= self.machine.now
            {
                let name = self.players[task].name.clone();
                self.players[task].state = State::Alive;
                self.command(Command::WakeFrom { name, cpu, sync: false })?;
            }
        }
        Ok(())
    }

    /// Lets running tasks continue that have computed enough, in the order of their CPUs.
    fn act(&mut self) -> Result<(), Error> {
        for _ in 0..MAX_STEPS {
            let idle = self.players.iter().enumerate().filter(|(_, player)| player.acts());
            let Some((task, _)) = idle.min_by_key(|(_, player)| player.cpu) else {
                return Ok(());
            };
            self.step(task)?;
        }
        Err(Error::new(format!(
            "the tasks make more than {MAX_STEPS} steps while no time passes"
        )))
    }

    fn disturb(&mut self) -> Result<(), Error> {
        while let Some(disturbance) = self.source.workload.disturbances.get(self.disturbances)
            && disturbance.at_ns <= self.machine.now
        {
            self.disturbances += 1;
            for command in self.commands_of(&disturbance.action)? {
                self.command(command)?;
            }
        }
        Ok(())
    }

    /// Returns the commands that have the effect of a disturbance.
    fn commands_of(&mut self, action: &Action) -> Result<Vec<Command>, Error> {
        let path = |cgroup: u32| self.source.workload.cgroups[cgroup as usize].path.clone();
        Ok(match action {
            Action::Hotplug { cpu, online } => vec![Command::Hotplug {
                cpu: cpu + 1,
                online: *online,
            }],
            Action::Cpus { cgroup, cpus } => {
                let cpus = tasks::cpus(cpus.as_deref(), self.source.machine);
                let members = self
                    .players
                    .iter()
                    .filter(|player| player.cgroup == *cgroup && player.exists());
                let affinity = |player: &Player| Command::Affinity {
                    name: player.name.clone(),
                    cpus: cpus.clone(),
                };
                members.map(affinity).collect()
            }
            Action::Weight { cgroup, weight } => vec![Command::Weight {
                group: path(*cgroup),
                weight: *weight,
            }],
            Action::Idle { cgroup, idle } => vec![Command::Idle {
                group: path(*cgroup),
                idle: *idle,
            }],
            Action::Max {
                cgroup,
                quota_us,
                period_us,
                burst_us: 0,
            } => vec![Command::Max {
                group: path(*cgroup),
                quota_us: *quota_us,
                period_us: *period_us,
            }],
            Action::Attach { cgroup, comm, .. } => {
                let named = |player: &&mut Player| player.comm == *comm && player.exists();
                let members = self.players.iter_mut().filter(named);
                let attach = |player: &mut Player| {
                    player.cgroup = *cgroup;
                    Command::Move {
                        name: player.name.clone(),
                        group: self.source.workload.cgroups[*cgroup as usize].path.clone(),
                    }
                };
                members.map(attach).collect()
            }
            // Interrupts take no time in a script.
            Action::Irq { .. } => self.leave_out("interrupts"),
            Action::Create { .. } => Vec::new(),
            Action::Remove { .. } | Action::Max { .. } => return Err(cannot("the removal of a group, or a burst")),
        })
    }

    fn leave_out(&mut self, what: &'static str) -> Vec<Command> {
        if !self.left_out.contains(&what) {
            self.left_out.push(what);
        }
        Vec::new()
    }

    /// Writes a command and executes it.
    fn command(&mut self, command: Command) -> Result<(), Error> {
        self.flush();
        let text = command.to_line();
        self.text.push_str(&text);
        self.text.push('\n');
        self.lines += 1;
        if self.lines > MAX_LINES {
            return Err(
                Error::new(format!("the script would have more than {MAX_LINES} lines")).hint("convert a shorter run")
            );
        }
        let number = self.lines;
        let line = Line { number, text, command };
        match run::execute(&self.script, &mut self.machine, &line) {
            Err(Refused::NotRunning | Refused::Policy) => {
                return Err(Error::new(format!("`{}` has no effect", line.text)));
            }
            // A real kernel refuses the command, too.
            Ok(()) | Err(Refused::Errno(_)) => {}
        }
        self.settle(self.machine.now);
        Ok(())
    }

    /// Writes a line for the time that has passed.
    fn flush(&mut self) {
        if self.pending_ns > 0 {
            let line = Command::Advance(self.pending_ns).to_line();
            self.text.push_str(&line);
            self.text.push('\n');
            self.pending_ns = 0;
        }
    }

    fn ended(&self) -> Option<String> {
        let exit = self.machine.ext().exit.as_ref();
        exit.map(|exit| exit.message.clone())
    }

    fn stalled(&self) -> Option<Stalled> {
        let limit = self.source.stall_ns;
        let stalled = self
            .players
            .iter()
            .find(|player| player.waits_ns(self.machine.now) >= limit)?;
        Some(Stalled {
            task: stalled.name.clone(),
            from_ns: stalled.since_ns,
        })
    }
}

fn cannot(what: &str) -> Error {
    Error::new(format!("a script cannot express {what}"))
}
