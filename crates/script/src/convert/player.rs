// SPDX-License-Identifier: GPL-2.0-only
//! A task whose program is played, and the steps of programs.

use super::{Play, cannot, tasks};
use crate::parse::{Attributes, Command};
use input::Error;
use std::collections::BTreeMap;
use workload::{Dist, Op, Resource, SchedPolicy};

/// State of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A child that no task has forked yet.
    Unborn,
    /// An interrupt on this CPU will wake the task for the first time.
    New {
        at_ns: u64,
        cpu: u32,
    },
    /// The task runs or waits for a CPU.
    Alive,
    /// A timer wakes the task at this time, ns.
    Sleeping(u64),
    /// The task waits for a different task to change this resource.
    Blocked(u32),
    Dead,
}

/// A task whose program is played.
#[derive(Clone, Debug)]
pub(super) struct Player {
    /// Name in the script.
    pub name: String,
    /// Name in the workload.
    pub comm: String,
    /// Index of the task in the workload.
    pub task: u32,
    pub cgroup: u32,
    pub attributes: Attributes,
    /// CPUs of the script's machine. `None` allows all.
    pub cpus: Option<Vec<u32>>,
    pub group: String,
    pub state: State,
    /// CPU on which the task runs.
    pub cpu: Option<u32>,
    /// Time that the task still computes before its next step, ns.
    pub left_ns: u64,
    /// Time until which the computation was charged, ns.
    charged_ns: u64,
    /// Time of the last change between running, waiting and sleeping, ns.
    pub since_ns: u64,
    pc: usize,
    counters: BTreeMap<u32, u64>,
    timers: BTreeMap<u32, u64>,
}

impl Player {
    pub(super) fn new(name: String, task: u32, state: State) -> Player {
        Player {
            name,
            comm: String::new(),
            task,
            cgroup: 0,
            attributes: Attributes::default(),
            cpus: None,
            group: "/".to_string(),
            state,
            cpu: None,
            left_ns: 0,
            charged_ns: 0,
            since_ns: 0,
            pc: 0,
            counters: BTreeMap::new(),
            timers: BTreeMap::new(),
        }
    }

    /// Returns the command that creates the task.
    pub(super) fn create(&self) -> Command {
        Command::Create {
            name: self.name.clone(),
            attributes: self.attributes.clone(),
            cpus: self.cpus.clone(),
            group: self.group.clone(),
            kernel: false,
        }
    }

    pub(super) fn exists(&self) -> bool {
        !matches!(self.state, State::Unborn | State::Dead)
    }

    /// Returns whether the task runs and makes its next step now.
    pub(super) fn acts(&self) -> bool {
        self.state == State::Alive && self.cpu.is_some() && self.left_ns == 0
    }

    /// Returns for how long the task has waited for a CPU.
    pub(super) fn waits_ns(&self, now: u64) -> u64 {
        let waits = self.state == State::Alive && self.cpu.is_none();
        if waits { now - self.since_ns } else { 0 }
    }

    /// Returns the time at which the task has something to do, or has waited for `stall_ns`.
    pub(super) fn due(&self, now: u64, stall_ns: u64) -> Option<u64> {
        match self.state {
            State::New { at_ns, .. } => Some(at_ns),
            State::Sleeping(until) => Some(until),
            State::Alive if self.cpu.is_some() => Some(now + self.left_ns),
            State::Alive => {
                let runs = now + self.left_ns.max(super::GRAIN_NS);
                Some(runs.min(self.since_ns.saturating_add(stall_ns)))
            }
            State::Unborn | State::Blocked(_) | State::Dead => None,
        }
    }

    /// Charges the time that a running task has computed.
    pub(super) fn charge(&mut self, now: u64) {
        if self.cpu.is_some() {
            self.left_ns = self.left_ns.saturating_sub(now - self.charged_ns);
            self.charged_ns = now;
        }
    }

    pub(super) fn switched_in(&mut self, now: u64, cpu: u32) {
        (self.cpu, self.charged_ns, self.since_ns) = (Some(cpu), now, now);
    }

    pub(super) fn switched_out(&mut self, now: u64) {
        self.charge(now);
        (self.cpu, self.since_ns) = (None, now);
    }

    pub(super) fn woken(&mut self, now: u64) {
        if self.state != State::Dead {
            (self.state, self.since_ns) = (State::Alive, now);
        }
    }
}

/// Returns the number of messages or posts that a resource has at the start. A free mutex has one.
pub(super) fn initial_value(resource: &Resource) -> u64 {
    match resource {
        Resource::Mutex { .. } => 1,
        Resource::Semaphore { value, .. } => u64::from(*value),
        _ => 0,
    }
}

/// Returns the number of a distribution without chance.
fn fixed(dist: &Dist) -> Result<u64, Error> {
    match dist {
        Dist::Fixed(ns) => Ok(*ns),
        _ => Err(cannot("a random time").hint("use a workload whose times are fixed")),
    }
}

/// Returns the attributes of a scheduling policy, without those that a new task has anyway.
///
/// # Errors
/// The policy is SCHED_DEADLINE.
pub(super) fn attributes(policy: SchedPolicy) -> Result<Attributes, Error> {
    let nice = |nice: i32| (nice != 0).then_some(nice);
    let (class, nice, prio) = match policy {
        SchedPolicy::Normal { nice: n } => (None, nice(n), None),
        SchedPolicy::Batch { nice: n } => (Some("batch"), nice(n), None),
        SchedPolicy::Ext { nice: n } => (Some("ext"), nice(n), None),
        SchedPolicy::Idle => (Some("idle"), None, None),
        SchedPolicy::Fifo { rt_priority } => (Some("fifo"), None, Some(rt_priority)),
        SchedPolicy::RoundRobin { rt_priority } => (Some("rr"), None, Some(rt_priority)),
        SchedPolicy::Deadline { .. } => return Err(cannot("a task of SCHED_DEADLINE")),
    };
    Ok(Attributes {
        class: class.map(str::to_string),
        nice,
        prio,
        slice: None,
    })
}

impl Play<'_> {
    /// Makes the next step of a running task.
    pub(super) fn step(&mut self, at: usize) -> Result<(), Error> {
        let now = self.machine.now;
        let workload = self.source.workload;
        let player = &mut self.players[at];
        let name = player.name.clone();
        let program = &workload.programs[workload.tasks[player.task as usize].program as usize];
        let op = program.ops.get(player.pc).unwrap_or(&Op::Exit);
        player.pc += 1;
        match op {
            Op::Run(dist) | Op::Runtime(dist) => player.left_ns = fixed(dist)?,
            Op::Sleep(dist) => return self.sleep(at, now + fixed(dist)?),
            Op::Timer {
                timer,
                period,
                absolute,
            } => {
                let last = *player.timers.entry(*timer).or_insert(now);
                let next = last + period;
                player
                    .timers
                    .insert(*timer, if *absolute { next } else { next.max(now) });
                return self.sleep(at, next);
            }
            Op::Interval { timer, length } => {
                let next = *player.timers.entry(*timer).or_insert(now) + fixed(length)?;
                player.timers.insert(*timer, next);
                return self.sleep(at, next);
            }
            Op::Send { channel, .. } => return self.post(&name, *channel, true),
            Op::SemPost(resource) | Op::Resume(resource) | Op::Unlock(resource) => {
                return self.post(&name, *resource, false);
            }
            Op::Recv(resource) | Op::SemWait(resource) | Op::Suspend(resource) | Op::Lock(resource) => {
                return self.take(at, *resource);
            }
            Op::Yield => return self.command(Command::Yield(name)),
            Op::Fork { task, thread } => return self.fork(&name, *task, *thread),
            Op::Exec { .. } => return self.command(Command::Exec(name)),
            Op::Exit => {
                player.state = State::Dead;
                return self.command(Command::Exit(name));
            }
            Op::SetAffinity(cpus) => {
                let cpus = tasks::cpus(cpus.as_deref(), self.source.machine);
                return self.command(Command::Affinity { name, cpus });
            }
            Op::SetPolicy(policy) => {
                let mut attributes = attributes(*policy)?;
                attributes.class.get_or_insert_with(|| "other".to_string());
                if let SchedPolicy::Normal { nice } | SchedPolicy::Batch { nice } | SchedPolicy::Ext { nice } = policy {
                    attributes.nice = Some(*nice);
                }
                return self.command(Command::Set { name, attributes });
            }
            Op::SetSlice(ns) => {
                let attributes = Attributes {
                    slice: (*ns > 0).then_some(*ns),
                    ..Attributes::default()
                };
                return self.command(Command::Set { name, attributes });
            }
            Op::SetCgroup(cgroup) => {
                player.cgroup = *cgroup;
                let group = workload.cgroups[*cgroup as usize].path.clone();
                return self.command(Command::Move { name, group });
            }
            Op::MigrateDisable => return self.command(Command::MigrateDisable(name)),
            Op::MigrateEnable => return self.command(Command::MigrateEnable(name)),
            Op::LoopInit { counter } => {
                player.counters.insert(*counter, 0);
            }
            Op::LoopBack { counter, times, target } => {
                let count = player.counters.entry(*counter).or_insert(0);
                *count += 1;
                if times.is_none_or(|times| *count < times) {
                    player.pc = *target as usize;
                }
            }
            // These steps only measure.
            Op::Begin { .. } | Op::BeginWoken | Op::BeginPosted | Op::Done { .. } | Op::Phase(_) => {}
            op => {
                let text = format!("{op:?}");
                let word = text.split([' ', '(', '{']).next().unwrap_or_default();
                return Err(cannot(&format!("the step {word} of task {name}")));
            }
        }
        Ok(())
    }

    fn sleep(&mut self, at: usize, until: u64) -> Result<(), Error> {
        let ns = until.saturating_sub(self.machine.now);
        if ns == 0 {
            return Ok(());
        }
        let player = &mut self.players[at];
        player.state = State::Sleeping(until);
        let name = player.name.clone();
        self.command(Command::Sleep { name, ns })
    }

    /// Adds a message, a post or a wake-up to a resource, and wakes the task that has waited longest for
    /// it.
    fn post(&mut self, waker: &str, resource: u32, sync: bool) -> Result<(), Error> {
        let value = &mut self.values[resource as usize];
        *value = match self.source.workload.resources[resource as usize] {
            Resource::Mutex { .. } | Resource::Suspend { .. } => 1,
            _ => *value + 1,
        };
        let waits = |player: &&Player| player.state == State::Blocked(resource);
        let first = self.players.iter().filter(waits).min_by_key(|player| player.since_ns);
        let Some(name) = first.map(|player| player.name.clone()) else {
            return Ok(());
        };
        let waker = waker.to_string();
        self.command(Command::WakeBy { name, waker, sync })
    }

    /// Takes a message, a post or a wake-up from a resource, or waits for it and then repeats the step.
    fn take(&mut self, at: usize, resource: u32) -> Result<(), Error> {
        let value = &mut self.values[resource as usize];
        if *value > 0 {
            *value -= 1;
            return Ok(());
        }
        let player = &mut self.players[at];
        player.pc -= 1;
        player.state = State::Blocked(resource);
        let name = player.name.clone();
        self.command(Command::Block(name))
    }

    fn fork(&mut self, name: &str, task: u32, thread: bool) -> Result<(), Error> {
        let unborn = |player: &&mut Player| player.state == State::Unborn && player.task == task;
        let Some(child) = self.players.iter_mut().find(unborn) else {
            return Err(cannot("so many tasks"));
        };
        // The child begins to run when the kernel wakes it.
        child.state = State::Alive;
        let child = child.name.clone();
        let name = name.to_string();
        self.command(Command::Fork { name, child, thread })
    }
}
