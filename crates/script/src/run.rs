// SPDX-License-Identifier: GPL-2.0-only
//! Executes scripts in the simulator.

use crate::log::Log;
use crate::parse::{Attributes, Command, Line, Script};
use input::{Error, index};
use kernel::release::Release;
use kernel::stepping::Refused;
use kernel::{Machine, Options};
use workload::{Action, Cgroup, Dist, Disturbance, Op, Program, SchedPolicy, TaskSpec, Workload};

/// Time for which a task computes before it begins again, ns. It is longer than a script.
const FOREVER_NS: u64 = 1_000_000_000_000_000;

/// Result of an attempt to load a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    Enabled,
    /// The kernel or the parent policy has refused the policy.
    Refused,
}

/// The release of Linux whose behaviour a script shows.
pub const RELEASE: Release = Release::LINUX_7_3;

/// Executes a script and returns its log. `load` loads a policy into the machine: that of the script, or
/// the sub-scheduler of the cgroup with this index.
///
/// # Errors
/// The machine cannot be created, a policy cannot be loaded, or no time passes any more.
pub fn run(
    script: &Script,
    mut load: impl FnMut(&mut Machine, &crate::Policy, Option<u32>) -> Result<Loaded, Error>,
) -> Result<String, Error> {
    let mut machine = begin(script, &mut load)?;
    let mut log = Log::default();
    for (number, line) in &script.header {
        log.begin(0, *number, line);
    }
    let mut tasks = Tasks::default();
    let mut attached: Vec<&String> = Vec::new();
    settle(&mut machine, &mut log, &mut tasks);
    for line in &script.lines {
        log.begin(machine.now, line.number, &line.text);
        let created = match &line.command {
            Command::Create { name, .. } | Command::Fork { child: name, .. } => Some(name.clone()),
            _ => None,
        };
        let result = match &line.command {
            Command::Attach { group, policy } => {
                let loaded = load(&mut machine, policy, Some(group_number(script, group)))?;
                if loaded == Loaded::Enabled {
                    attached.push(group);
                }
                (loaded == Loaded::Enabled).then_some(()).ok_or(Refused::Policy)
            }
            // The program that has loaded a sub-scheduler stays although the kernel has ejected it.
            Command::Detach { group } if !attached.contains(&group) => Err(Refused::Policy),
            Command::Detach { group } => {
                attached.retain(|&other| other != group);
                machine.step_detach(group_number(script, group));
                Ok(())
            }
            _ => execute(script, &mut machine, line),
        };
        tasks.announced.extend(created);
        for event in machine.take_events() {
            log.event(&event);
        }
        if let Err(refused) = result {
            log.line(&format!("! {}", describe(&refused, &line.command)));
        }
        settle(&mut machine, &mut log, &mut tasks);
        if machine.is_stuck() {
            let message = "the CPUs interrupt each other without end, so no time passes any more";
            let error = Error::new(format!("line {}: {message}", line.number));
            return Err(error.hint("look for callbacks of the policy that preempt each other's tasks"));
        }
    }
    Ok(log.text)
}

/// Creates the machine of a script and loads its policy.
///
/// # Errors
/// As for [`run`].
pub(crate) fn begin(
    script: &Script,
    mut load: impl FnMut(&mut Machine, &crate::Policy, Option<u32>) -> Result<Loaded, Error>,
) -> Result<Machine, Error> {
    let options = Options {
        isolated: vec![0],
        release: RELEASE,
        ..Options::default()
    };
    let mut machine = Machine::new(script.machine.spec(), workload(script), options).map_err(Error::new)?;
    machine.begin_stepping();
    if let Some(policy) = &script.policy {
        if load(&mut machine, policy, None)? == Loaded::Refused {
            return Err(Error::new(format!("the policy {} was refused", policy.name)));
        }
        machine.step_until(0);
        machine.settle();
        machine.take_events();
    }
    Ok(machine)
}

/// Names of the script's tasks.
#[derive(Default)]
struct Tasks {
    /// Existing and dead tasks, in the order of their creation.
    created: Vec<String>,
    /// Tasks that do not exist yet, because the fork was refused or comes later.
    announced: Vec<String>,
}

/// Lets the interrupts that are due now happen, and logs events and rows.
fn settle(machine: &mut Machine, log: &mut Log, tasks: &mut Tasks) {
    machine.step_until(machine.now);
    for event in machine.take_events() {
        log.event(&event);
    }
    for row in machine.state_rows() {
        log.row(row);
    }
    let exists = |name: &mut String| machine.task_row_named(name).is_some();
    tasks.created.extend(tasks.announced.extract_if(.., exists));
    for task in &tasks.created {
        if let Some(row) = machine.task_row_named(task) {
            log.row(row);
        }
    }
}

fn describe(refused: &Refused, command: &Command) -> String {
    match refused {
        Refused::NotRunning => {
            let name = match command {
                Command::WakeBy { waker, .. } => waker,
                Command::Block(name)
                | Command::Sleep { name, .. }
                | Command::Yield(name)
                | Command::Fork { name, .. }
                | Command::Exec(name)
                | Command::Exit(name)
                | Command::MigrateDisable(name)
                | Command::MigrateEnable(name) => name,
                _ => "the task",
            };
            format!("{name} is not running")
        }
        Refused::Policy => "refused".to_string(),
        Refused::Errno(errno) => {
            let text = std::io::Error::from_raw_os_error(*errno).to_string();
            let text = text.split(" (os error").next().unwrap_or_default();
            format!("refused: {text}")
        }
    }
}

/// Returns the names of all tasks in the order of their lines.
fn task_names(script: &Script) -> impl Iterator<Item = &String> {
    script.lines.iter().filter_map(|line| match &line.command {
        Command::Create { name, .. } | Command::Fork { child: name, .. } => Some(name),
        _ => None,
    })
}

fn group_paths(script: &Script) -> impl Iterator<Item = &String> {
    script.lines.iter().filter_map(|line| match &line.command {
        Command::Group(path) => Some(path),
        _ => None,
    })
}

/// Returns the number of a group.
fn group_number(script: &Script, path: &str) -> u32 {
    index(
        group_paths(script)
            .position(|group| group == path)
            .map_or(0, |at| at + 1),
    )
}

fn task_number(script: &Script, name: &str) -> u32 {
    index(task_names(script).position(|task| task == name).unwrap_or(0))
}

fn class(attributes: &Attributes, old: Option<(SchedPolicy, i32)>) -> SchedPolicy {
    // Real-time tasks report the nice value 0.
    let old_nice = match old {
        Some((SchedPolicy::Fifo { .. } | SchedPolicy::RoundRobin { .. }, _)) | None => 0,
        Some((_, nice)) => nice,
    };
    let nice = attributes.nice.unwrap_or(old_nice);
    let rt_priority = attributes.prio.unwrap_or(1);
    let kept = match old {
        Some((SchedPolicy::Batch { .. }, _)) => "batch",
        Some((SchedPolicy::Idle, _)) => "idle",
        Some((SchedPolicy::Fifo { .. }, _)) => "fifo",
        Some((SchedPolicy::RoundRobin { .. }, _)) => "rr",
        Some((SchedPolicy::Ext { .. }, _)) => "ext",
        _ => "other",
    };
    match attributes.class.as_deref().unwrap_or(kept) {
        "batch" => SchedPolicy::Batch { nice },
        "idle" => SchedPolicy::Idle,
        "fifo" => SchedPolicy::Fifo { rt_priority },
        "rr" => SchedPolicy::RoundRobin { rt_priority },
        "ext" => SchedPolicy::Ext { nice },
        _ => SchedPolicy::Normal { nice },
    }
}

/// Returns the workload with the script's tasks and groups. Commands create them.
fn workload(script: &Script) -> Workload {
    let forever = Program {
        ops: vec![
            Op::Run(Dist::Fixed(FOREVER_NS)),
            Op::LoopBack {
                counter: 0,
                times: None,
                target: 0,
            },
        ],
        counters: 1,
    };
    // No task executes the second program. It makes the machine allocate what migrate_disable() needs, which
    // the kernel also calls for a BPF program at a tracepoint.
    let pins = Program {
        ops: vec![Op::MigrateDisable, Op::MigrateEnable],
        counters: 0,
    };
    let programs = vec![forever, pins];
    let all = || (1..=script.machine.nr_cpus).collect::<Vec<u32>>();
    let mut tasks: Vec<TaskSpec> = Vec::new();
    for line in &script.lines {
        let (name, attributes, cpus, group, kernel) = match &line.command {
            Command::Create {
                name,
                attributes,
                cpus,
                group,
                kernel,
            } => (name, attributes, cpus, group.as_str(), *kernel),
            Command::Fork { child, .. } => (child, &Attributes::default(), &None, "/", false),
            _ => continue,
        };
        let number = index(tasks.len());
        let mut task = TaskSpec::new(name.clone(), 0, number);
        task.policy = class(attributes, None);
        task.cpus = Some(cpus.clone().unwrap_or_else(all));
        task.cgroup = group_number(script, group);
        task.spawn = false;
        task.attributes.kthread = kernel;
        task.attributes.slice_ns = attributes.slice;
        tasks.push(task);
    }
    let mut cgroups = vec![Cgroup {
        path: "/".to_string(),
        weight: 100,
    }];
    cgroups.extend(group_paths(script).map(|path| Cgroup {
        path: path.clone(),
        weight: 100,
    }));
    Workload {
        tasks: tasks.into(),
        programs,
        cgroups,
        // A group that a disturbance creates does not exist before. The lines of the script create
        // the groups long before this time.
        disturbances: later_groups(script)
            .map(|action| Disturbance {
                at_ns: workload::MAX_NS,
                action,
            })
            .collect(),
        ..Workload::default()
    }
}

fn later_groups(script: &Script) -> impl Iterator<Item = Action> {
    (1..)
        .zip(group_paths(script))
        .map(|(cgroup, _)| Action::Create { cgroup })
}

pub(crate) fn execute(script: &Script, m: &mut Machine, line: &Line) -> Result<(), Refused> {
    let group = |path: &str| group_number(script, path);
    match &line.command {
        Command::Group(path) => m.step_cgroup(&Action::Create { cgroup: group(path) }),
        Command::Create { name, .. } => m.step_create(task_number(script, name)),
        Command::WakeFrom { name, cpu, sync } => m.step_wake_from(name, *cpu, *sync),
        Command::WakeBy { name, waker, sync } => m.step_wake_by(name, waker, *sync),
        Command::Block(name) => m.step_block(name, None),
        Command::Sleep { name, ns } => m.step_block(name, Some(*ns)),
        Command::Yield(name) => m.step_yield(name),
        Command::Fork { name, child, thread } => m.step_fork(name, task_number(script, child), *thread),
        Command::Exec(name) => m.step_exec(name),
        Command::Exit(name) => m.step_exit(name),
        Command::MigrateDisable(name) => m.step_migrate_disable(name),
        Command::MigrateEnable(name) => m.step_migrate_enable(name),
        Command::Set { name, attributes } => {
            m.step_set(name, |old, nice| class(attributes, Some((old, nice))), attributes.slice)
        }
        Command::Affinity { name, cpus } => m.step_affinity(name, cpus),
        Command::Move { name, group: path } => {
            let (cgroup, comm) = (group(path), name.clone());
            let process = true;
            m.step_move(name, &Action::Attach { cgroup, comm, process })
        }
        Command::Weight { group: path, weight } => m.step_cgroup(&Action::Weight {
            cgroup: group(path),
            weight: *weight,
        }),
        Command::Idle { group: path, idle } => m.step_cgroup(&Action::Idle {
            cgroup: group(path),
            idle: *idle,
        }),
        Command::Max {
            group: path,
            quota_us,
            period_us,
        } => m.step_cgroup(&Action::Max {
            cgroup: group(path),
            quota_us: *quota_us,
            period_us: *period_us,
            burst_us: 0,
        }),
        Command::Hotplug { cpu, online } => m.step_hotplug(*cpu, *online),
        Command::Attach { .. } | Command::Detach { .. } => unreachable!("the caller executes this command"),
        Command::Advance(ns) => {
            m.step_until(m.now + ns);
            Ok(())
        }
        Command::Tick => {
            m.step_until(m.next_tick_at());
            Ok(())
        }
    }
}
